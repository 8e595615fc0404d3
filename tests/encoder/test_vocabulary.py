"""A tokenizer that knows no words, or that belongs to another network, is refused: its vectors would be nonsense."""

import shutil

import numpy as np
import pytest
import torch
from conftest import SIZE, build_network, build_tokenizer, save_folder, save_pipeline
from sentence_transformers.sentence_transformer.modules import Pooling
from test_native import TOKENIZERS, is_native, without_native
from transformers import AutoTokenizer, ByT5Tokenizer, CanineConfig, CanineModel, CanineTokenizer, T5Config
from transformers import T5EncoderModel as T5

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.encoder.encoder import Encoder
from sen2pro.encoder.find import resolve

WORDS_IN = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model")


def half_copied(folder, target, *without):
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns(*WORDS_IN, *without))
    return str(target)


CONFIG = "tokenizer_config.json"
REAL = [("the real model", without) for without in ((), (CONFIG,), ("tokenizer*", "special_tokens_map.json"))]
OTHERS = [(family, (CONFIG,)) for family in ("albert", "deberta-v2", "t5", "bart", "nomic-bert")]


@pytest.mark.parametrize(
    ("name", "without"), [*REAL, ("a pipeline", ()), *((name, ()) for name in TOKENIZERS), *OTHERS]
)
def test_a_model_without_its_words_is_refused(name, without, tmp_path):
    if name == "the real model":
        folder = resolve("all-MiniLM-L6-v2")
    elif name == "a pipeline":
        folder = save_pipeline(tmp_path, Pooling(32, "max"), tokenizer=TOKENIZERS["bert"]())
    else:
        folder = save_folder(tmp_path / "whole", name.split()[-1], TOKENIZERS.get(name, build_tokenizer)())
    said = r"half knows no words, only .*There is no tokenizer.json. Copy the whole folder"
    with pytest.raises(Sen2ProError, match=said):
        Sen2Pro(half_copied(folder, tmp_path / "half", *without))


def test_a_tokenizer_that_was_saved_without_words_is_refused(tmp_path):
    half = half_copied(save_folder(tmp_path / "whole", tokenizer=TOKENIZERS["bert"]()), tmp_path / "half")
    empty = AutoTokenizer.from_pretrained(half)
    empty.save_pretrained(half)
    with pytest.raises(Sen2ProError, match=r"knows no words, only '\[CLS\]', .*Copy the whole folder") as told:
        Sen2Pro(half)
    assert "There is no" not in str(told.value)
    with pytest.raises(Sen2ProError, match=r"the tokenizer knows no words, .*tokenizer=\.\.\."):
        Sen2Pro(build_network("bert"), tokenizer=empty)


ROWS = SIZE["vocab_size"]


@pytest.mark.parametrize("own", [True, False], ids=["own code", "libraries"])
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ROWS - 1, f"a token of the number {ROWS - 1}, and the network has embeddings for {ROWS - 1} tokens"),
        (10 * ROWS, rf"\d+ tokens, and the network has embeddings for {10 * ROWS:,} tokens"),
    ],
)
def test_a_tokenizer_of_another_network_is_refused(rows, said, own, tmp_path, monkeypatch):
    if not own:
        without_native(monkeypatch)
    with pytest.raises(Sen2ProError, match=rf"does not fit the network: it has {said}.*Copy the whole folder"):
        Sen2Pro(str(save_folder(tmp_path, vocab_size=rows)))
    network = build_network("bert", vocab_size=rows)
    with pytest.raises(Sen2ProError, match=rf"the tokenizer does not fit the network: it has {said}"):
        Sen2Pro(network, tokenizer=build_tokenizer())


@pytest.mark.parametrize("rows", [ROWS, ROWS + 1, 2 * ROWS])
def test_more_rows_than_tokens_are_fine(rows, tmp_path, monkeypatch):
    folder = save_folder(tmp_path, vocab_size=rows)
    assert is_native(Encoder(str(folder)))
    without_native(monkeypatch)
    assert not is_native(Encoder(str(folder)))


def test_tokenizers_without_a_file_of_words_are_fine(tmp_path):
    torch.manual_seed(0)
    small = {"num_layers": 2, "num_heads": 4, "d_model": 32, "d_kv": 8, "d_ff": 48}
    T5(T5Config(vocab_size=384, tokenizer_class="ByT5Tokenizer", **small)).save_pretrained(tmp_path / "bytes")
    ByT5Tokenizer().save_pretrained(tmp_path / "bytes")
    letters = CanineConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, num_hash_functions=4
    )
    CanineModel(letters).save_pretrained(tmp_path / "letters")
    CanineTokenizer().save_pretrained(tmp_path / "letters")
    vectors = Sen2Pro(str(tmp_path / "bytes"), samples=2).encode_plain(["the dog runs in the park", "rain today"])
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3
    with pytest.raises(Sen2ProError) as told:  # its network cannot be sampled, for another reason
        Sen2Pro(str(tmp_path / "letters"))
    assert "tokenizer" not in str(told.value)
