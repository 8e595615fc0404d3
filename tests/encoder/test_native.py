"""Our own forward pass gives the numbers of the libraries, and leaves to them every folder it does not fully know."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from conftest import FAMILIES, WORDS, build_tokenizer, save_folder, save_pipeline
from safetensors.torch import load_file, save_file
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling
from transformers import BertForMaskedLM, BertTokenizer, MPNetTokenizer, RobertaTokenizer, XLMRobertaTokenizer

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.encoder.backend import Keys
from sen2pro.encoder.encoder import Encoder
from sen2pro.encoder.native.load import NativeModel, load_native
from sen2pro.encoder.native.tokenizer import load_tokenizer
from sen2pro.encoder.transformers import LibraryTokenizer, TransformersModel

NATIVE = ("bert", "roberta", "xlm-roberta", "mpnet", "distilbert")
TEXTS = [" ".join((WORDS * 2)[i : i + n]) for i, n in enumerate([3, 9, 1, 3, 14, 5, 9, 3, 2, 20])]
TEXTS += ["the <pad> dog </s> runs", "<unk> zebra [SEP] zoo", ""]


def is_native(encoder):
    return isinstance(encoder.backend, NativeModel)


def without_native(monkeypatch):
    """Let the libraries load every folder."""
    monkeypatch.setattr("sen2pro.encoder.encoder.load_native", lambda *_, **__: None)


def both(folder, monkeypatch, **options):
    """The same folder run by our own code and by the libraries."""
    native = Encoder(str(folder), **options)
    with monkeypatch.context() as patch:
        without_native(patch)
        return native, Encoder(str(folder), **options)


def change(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def assert_same_numbers(native, library):
    assert is_native(native)
    assert not is_native(library)
    tokens = library.tokenize(TEXTS)
    for field in ("ids", "seen", "is_cut"):
        assert getattr(native.tokenize(TEXTS), field) == getattr(tokens, field)
    about = ("hash", "name", "dim", "depth", "max_length", "unit", "pooling_name", "sites", "vocabulary", "prompts")
    about += ("default_prompt_name", "parameters", "trained_with_dropout")
    assert {name: getattr(native, name) for name in about} == {name: getattr(library, name) for name in about}
    layers = range(native.depth)
    for keys in (None, Keys(5, [3] * len(tokens))):
        ours, theirs = (each.run(tokens, keys, layers) for each in (native, library))
        np.testing.assert_allclose(ours.features(layers), theirs.features(layers), atol=1e-5)


@pytest.mark.parametrize("pooling", [None, "mean", "cls", "first-last-avg"])
@pytest.mark.parametrize("family", NATIVE)
def test_every_family_and_pooling_gives_the_numbers_of_the_libraries(family, pooling, tmp_path, monkeypatch):
    assert_same_numbers(*both(save_folder(tmp_path, family), monkeypatch, pooling=pooling))


@pytest.mark.parametrize("family", NATIVE)
def test_a_rate_of_dropout_of_ones_own_gives_the_numbers_of_the_libraries(family, tmp_path, monkeypatch):
    silent = FAMILIES[family][3]
    assert_same_numbers(*both(save_folder(tmp_path, family, **silent), monkeypatch, dropout=0.3))


def test_scores_whose_exponential_is_no_number_give_the_numbers_of_the_libraries(tmp_path, monkeypatch):
    folder = save_folder(tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights = {name: tensor * (40 if ".query." in name else 1) for name, tensor in weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert_same_numbers(*both(folder, monkeypatch))


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - set(NATIVE)))
def test_other_families_are_left_to_the_libraries(family, tmp_path):
    assert not is_native(Encoder(str(save_folder(tmp_path, family))))


def test_the_real_model_and_a_checkpoint_with_a_task_head_give_the_numbers_of_the_libraries(
    bert, tmp_path, monkeypatch
):
    assert_same_numbers(*both("all-MiniLM-L6-v2", monkeypatch))
    torch.manual_seed(0)
    BertForMaskedLM(bert.config).save_pretrained(tmp_path)
    build_tokenizer().save_pretrained(tmp_path)
    assert_same_numbers(*both(tmp_path, monkeypatch))


@pytest.mark.parametrize(
    ("tail", "options"),
    [
        ([Pooling(32)], {}),
        ([Pooling(32, "cls"), Normalize()], {"similarity_fn_name": "dot"}),
        ([Pooling(32)], {"similarity_fn_name": "dot", "prompts": {"q": "a dog "}, "default_prompt_name": "q"}),
    ],
)
def test_a_pipeline_of_sentence_transformers_gives_its_numbers(tail, options, tmp_path, monkeypatch):
    assert_same_numbers(*both(save_pipeline(tmp_path, *tail, **options), monkeypatch))


@pytest.mark.parametrize(
    "tail",
    [
        [Pooling(32, "max")],
        [Pooling(32, ("mean", "cls"))],
        [Pooling(32, include_prompt=False)],
        [Pooling(32), Dense(32, 8)],
        [Pooling(32), Normalize(), Normalize()],
    ],
)
def test_other_pipelines_are_left_to_sentence_transformers(tail, tmp_path):
    assert not is_native(Encoder(str(save_pipeline(tmp_path, *tail))))
    save_folder(tmp_path / "plain")
    for options in ({"precision": "bfloat16"}, {"tokenizer": str(tmp_path / "plain")}):
        assert not is_native(Encoder(str(tmp_path / "plain"), **options))


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"hidden_act": "relu"}),
        ("config.json", {"some_new_setting": 1}),
        ("config.json", {"is_decoder": True}),
        ("config.json", {"num_attention_heads": 0}),
        ("config.json", {"num_attention_heads": "4"}),
        ("config.json", {"num_hidden_layers": 10**12}),
        ("config.json", {"dtype": "float16"}),
        ("config.json", {"hidden_dropout_prob": None}),
        ("tokenizer_config.json", {"truncation_side": "left"}),
        ("tokenizer_config.json", {"some_new_setting": 1}),
        ("tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer"}),
        ("tokenizer_config.json", {"model_max_length": 10**30}),
        ("tokenizer_config.json", {"extra_special_tokens": ["dog"]}),
        ("tokenizer_config.json", {"mask_token": "dog"}),
    ],
)
def test_a_setting_that_is_not_known_leaves_a_folder_to_the_libraries(file, changes, tmp_path):
    change(save_folder(tmp_path) / file, **changes)
    assert load_native(tmp_path) is None


def test_weights_that_are_not_known_leave_a_folder_to_the_libraries(tmp_path):
    path = save_folder(tmp_path) / "model.safetensors"
    weights = load_file(path)
    assert load_native(tmp_path) is not None
    for changed in (
        {**weights, "one.more.weight": torch.ones(2)},
        {name: tensor for name, tensor in weights.items() if "word_embeddings" not in name},
        {name: tensor.half() for name, tensor in weights.items()},
        {name: tensor[:, :-1].contiguous() if tensor.ndim > 1 else tensor for name, tensor in weights.items()},
    ):
        save_file(changed, path)
        assert load_native(tmp_path) is None
    path.write_bytes(b"no weights")
    assert load_native(tmp_path) is None
    save_file({**weights, "embeddings.LayerNorm.bias": torch.ones(32, dtype=torch.int64)}, path)
    with pytest.raises(Sen2ProError, match=r"'embeddings.LayerNorm.bias' holds torch.int64, no fractions"):
        Encoder(str(tmp_path))


def test_weights_that_somebody_changes_are_the_ones_in_use(tmp_path):
    model = Sen2Pro(str(save_folder(tmp_path)), samples=2)
    before, signature = model.encode(TEXTS[:3]), model.signature()
    source = model.encoder.source  # loads the model of the libraries
    assert is_native(model.encoder)
    np.testing.assert_array_equal(model.encode(TEXTS[:3]).mean, before.mean)
    assert model.signature() == signature
    with torch.no_grad():
        next(source.parameters()).mul_(1.5)
    assert not is_native(model.encoder)
    assert np.abs(model.encode(TEXTS[:3]).mean - before.mean).max() > 1e-3
    assert model.signature() != signature


def test_loading_the_source_does_not_change_what_another_thread_samples(tmp_path, monkeypatch):
    encoder = Encoder(str(save_folder(tmp_path)), dropout=0.4)
    tokens, probe, during = encoder.tokenize(TEXTS), TransformersModel._probe, []

    def sample():
        return encoder.run(tokens, Keys(0, [0] * len(tokens))).vectors, encoder.sites

    def probe_while_sampling(self, *arguments):
        with ThreadPoolExecutor(1) as pool:
            during.append(pool.submit(sample).result(timeout=60))
        return probe(self, *arguments)

    before, sites = sample()
    monkeypatch.setattr(TransformersModel, "_probe", probe_while_sampling)
    encoder.source.eval()
    assert len(during) == 2, "it is tried with its own rates, then with ours"
    for vectors, met in [*during, sample()]:
        np.testing.assert_array_equal(vectors, before)
        assert met == sites


def test_weights_that_changed_on_disk_are_noticed(tmp_path):
    encoder = Encoder(str(save_folder(tmp_path)))
    weights = load_file(tmp_path / "model.safetensors")
    save_file({name: tensor * 2 for name, tensor in weights.items()}, tmp_path / "model.safetensors")
    for _ in range(2):
        with pytest.raises(Sen2ProError, match="have changed since they were loaded"):
            encoder.transformers.network.eval()


LETTERS = "abcdefghijklmnopqrstuvwxyz"
NASTY = [
    "", " ", "A Dog's naïve  café…", "x" * 150, "漢字 and kana かな", "a\tb\nc\u00a0d", "I ﬁnd ½ “quotes”", "e\u0301",
    "[CLS] a [SEP][MASK] b", "<s> a</s> <mask> b<pad><unk>", "a[UNK]b  <mask>", "1,000.5% off!!", "\u200b zero",
]  # fmt: skip


def wordpiece_vocabulary(special):
    return {token: i for i, token in enumerate([*special, *LETTERS, *(f"##{c}" for c in LETTERS), *WORDS, "漢", "1"])}


def byte_vocabulary():
    from tokenizers.pre_tokenizers import ByteLevel

    pieces = ["<s>", "<pad>", "</s>", "<unk>", *sorted(ByteLevel.alphabet()), "Ġd", "do", "<mask>"]
    return {piece: i for i, piece in enumerate(pieces)}


TOKENIZERS = {
    "bert": lambda: BertTokenizer(vocab=wordpiece_vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])),
    "cased bert": lambda: BertTokenizer(
        vocab=wordpiece_vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]), do_lower_case=False,
        tokenize_chinese_chars=False, strip_accents=True,
    ),
    "mpnet": lambda: MPNetTokenizer(vocab=wordpiece_vocabulary(["<s>", "<pad>", "</s>", "[UNK]", "<mask>"])),
    "roberta": lambda: RobertaTokenizer(vocab=byte_vocabulary(), merges=[("Ġ", "d"), ("d", "o")]),
    "xlm-roberta": lambda: XLMRobertaTokenizer(
        vocab=[(piece, -1.0) for piece in ("<s>", "<pad>", "</s>", "<unk>", "▁", "▁dog", *LETTERS, "<mask>")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokenizer_of_a_class_gives_the_ids_of_the_libraries(name, tmp_path):
    from transformers import AutoTokenizer

    built = TOKENIZERS[name]()
    built.model_max_length = 24
    built.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name.split()[-1]}))
    ours, theirs = load_tokenizer(tmp_path), LibraryTokenizer(AutoTokenizer.from_pretrained(tmp_path))
    assert ours is not None
    assert ours.ids(NASTY) == theirs.ids(NASTY)
    assert [ours.cut(text, 9) for text in NASTY] == [theirs.cut(text, 9) for text in NASTY]
    assert (ours.words(), ours.padding, ours.max_length) == (theirs.words(), theirs.padding, 24)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bert", {"do_lower_case": False}),
        ("bert", {"strip_accents": False}),
        ("roberta", {"add_prefix_space": True}),
        ("xlm-roberta", {"add_prefix_space": False}),
    ],
)
def test_a_tokenizer_whose_files_disagree_is_left_to_the_libraries(name, changes, tmp_path):
    TOKENIZERS[name]().save_pretrained(tmp_path)
    change(tmp_path / "tokenizer_config.json", **changes)
    assert load_tokenizer(tmp_path) is None


def test_two_threads_give_the_bits_of_one(tmp_path):
    model = Sen2Pro(str(save_folder(tmp_path)), samples=3)
    texts = [" ".join(WORDS[: n % 28 + 1]) for n in range(300)]
    before = torch.get_num_threads()
    one, sampled = model.encode_plain(texts), model.sample(texts[:50])
    try:
        torch.set_num_threads(2)
        np.testing.assert_array_equal(model.encode_plain(texts), one)
        np.testing.assert_array_equal(model.sample(texts[:50]), sampled)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


HEAVY = (
    "transformers", "sentence_transformers", "sklearn", "huggingface_hub", "scipy.spatial", "langchain_core",
    "llama_index", "haystack",
)  # fmt: skip
COMMANDS = (
    "info",
    "compare 'A man plays.' 'Someone plays.'",
    "compare 'A man plays.' 'Someone plays.' --method one-pass",
    "encode in.txt out.parquet --method one-pass",
    "specificity in.txt out.csv",
    "demo --output demo.png",
)


def test_common_commands_import_no_library_that_they_do_not_need(tmp_path):
    (tmp_path / "in.txt").write_text("A man plays.\nIt rains.\n")
    code = f"""
import shlex, sys
from sen2pro.cli.app import app
for command in {COMMANDS!r}:
    try:
        app(shlex.split(command), prog_name="sen2pro")
    except SystemExit as stop:
        assert not stop.code, (command, stop.code)
    imported = [name for name in {HEAVY!r} if name in sys.modules]
    assert not imported, (command, imported)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
