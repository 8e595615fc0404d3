"""Tiny tokenizers and models, built in code: no download."""

from __future__ import annotations

import pytest
import torch
import transformers
from labelled_texts import LABELS, TEXTS
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from sen2pro import Sen2Pro
from sen2pro.classification import Sen2ProClassifier

torch.set_num_threads(1)  # the tiny models gain nothing from more, and a busy machine loses

WORDS = (
    "the a man woman dog cat plays runs eats sees guitar ball park house big small red blue quickly slowly and or "
    "in on with to of is was not no yes one two three market fell rose price rain sun today tomorrow music song"
).split()
PAD = 1


def build_tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {
        word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *WORDS, *"abcdefghijklmnopqrstuvwxyz"])
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=32,
    )


SIZE = {
    "vocab_size": len(WORDS) + 30,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": PAD,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
BERT_LIKE = {**SIZE, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "initializer_range": 0.2}

# Family -> (configuration class, model class, options, the options that switch all but attention dropout off).
FAMILIES = {
    "bert": ("BertConfig", "BertModel", BERT_LIKE, {"hidden_dropout_prob": 0.0}),
    "roberta": ("RobertaConfig", "RobertaModel", BERT_LIKE, {"hidden_dropout_prob": 0.0}),
    "xlm-roberta": ("XLMRobertaConfig", "XLMRobertaModel", BERT_LIKE, {"hidden_dropout_prob": 0.0}),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertModel",
        {
            "vocab_size": SIZE["vocab_size"], "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48,
            "max_position_embeddings": 64, "pad_token_id": PAD, "dropout": 0.1, "attention_dropout": 0.1,
            "initializer_range": 0.2,
        },
        {"dropout": 0.0},
    ),
    "albert": ("AlbertConfig", "AlbertModel", {**BERT_LIKE, "embedding_size": 16}, {"hidden_dropout_prob": 0.0}),
    "electra": ("ElectraConfig", "ElectraModel", {**BERT_LIKE, "embedding_size": 16}, {"hidden_dropout_prob": 0.0}),
    "mpnet": ("MPNetConfig", "MPNetModel", BERT_LIKE, {"hidden_dropout_prob": 0.0}),
    "deberta-v2": (
        "DebertaV2Config",
        "DebertaV2Model",
        {
            **BERT_LIKE, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8,
            "share_att_key": True, "conv_kernel_size": 3, "norm_rel_ebd": "layer_norm",
        },
        {"hidden_dropout_prob": 0.0},
    ),
    "nomic-bert": ("NomicBertConfig", "NomicBertModel", BERT_LIKE, {"hidden_dropout_prob": 0.0}),
    "modernbert": (
        "ModernBertConfig",
        "ModernBertModel",
        {**SIZE, "attention_dropout": 0.1, "embedding_dropout": 0.1, "mlp_dropout": 0.1, "initializer_range": 0.2},
        {"embedding_dropout": 0.0, "mlp_dropout": 0.0},
    ),
    "t5": (
        "T5Config",
        "T5EncoderModel",
        {
            "vocab_size": SIZE["vocab_size"], "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
            "dropout_rate": 0.1, "pad_token_id": PAD,
        },
        None,  # one rate for all of its dropout
    ),
    "bart": (
        "BartConfig",
        "BartModel",
        {
            "vocab_size": SIZE["vocab_size"], "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
            "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
            "max_position_embeddings": 64, "dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1,
            "encoder_layerdrop": 0.5, "pad_token_id": PAD, "bos_token_id": 0, "eos_token_id": 2, "init_std": 0.2,
        },
        {"dropout": 0.0, "activation_dropout": 0.0},
    ),
}  # fmt: skip


def build_network(family: str, **changes):
    configuration, model, options, _ = FAMILIES[family]
    torch.manual_seed(0)
    config = getattr(transformers, configuration)(**{**options, **changes})
    return getattr(transformers, model)(config).eval()


def save_folder(folder, family="bert", tokenizer=None, **changes):
    """Write the folder of a tiny network and its tokenizer."""
    build_network(family, **changes).save_pretrained(folder)
    (tokenizer or build_tokenizer()).save_pretrained(folder)
    return folder


def save_pipeline(folder, *tail, tokenizer=None, **options):
    """Write the folder of a tiny pipeline of sentence-transformers with these modules behind the network."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer

    network = Transformer(str(save_folder(folder / "network", tokenizer=tokenizer)), max_seq_length=16)
    SentenceTransformer(modules=[network, *tail], device="cpu", **options).save_pretrained(str(folder / "whole"))
    return folder / "whole"


@pytest.fixture(scope="session")
def tokenizer():
    return build_tokenizer()


@pytest.fixture(scope="session")
def bert():
    return build_network("bert")


@pytest.fixture(scope="session")
def tiny(bert, tokenizer):
    """A whole pipeline on a tiny random BERT: fast enough for property tests."""
    return Sen2Pro(bert, tokenizer=tokenizer, samples=4)


@pytest.fixture
def tiny_folder(tmp_path):
    return save_folder(tmp_path / "tiny-bert")


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """The tiny BERT on disk, for tests that only read it; `tiny_folder` is one to change."""
    return save_folder(tmp_path_factory.mktemp("models") / "tiny-bert")


@pytest.fixture(scope="module")
def fitted(shared_folder):
    """A classifier of the tiny BERT's Gaussians, with two classes."""
    return Sen2ProClassifier(Sen2Pro(str(shared_folder), samples=4)).fit(TEXTS, LABELS)


@pytest.fixture(scope="session")
def minilm():
    """The real all-MiniLM-L6-v2, from the offline package."""
    return Sen2Pro("all-MiniLM-L6-v2", samples=5)
