"""Load a model's folder without transformers: the network, the tokenizer, and the files of sentence-transformers.

Everything that could change a number must be known here by name and value. For a folder with anything else in it,
`load_native` returns None, and the libraries load it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from sen2pro.encoder import backend
from sen2pro.encoder.backend import Keys, States, Tokens, check_vocabulary
from sen2pro.encoder.dropout import KeyedDropout
from sen2pro.encoder.find import json_object, modules_of
from sen2pro.encoder.native.network import FAMILIES, Network
from sen2pro.encoder.native.tokenizer import FastTokenizer, are_known, load_tokenizer
from sen2pro.encoder.packing import Layout
from sen2pro.errors import Sen2ProError
from sen2pro.io.bundle import JsonObject

# Settings that change nothing here: names, labels, training, decoding, and how a pooler that is not used works.
_IDLE = {
    "_name_or_path", "architectures", "bos_token_id", "classifier_dropout", "directionality", "eos_token_id",
    "finetuning_task", "gradient_checkpointing", "id2label", "initializer_range", "label2id", "name_or_path",
    "output_past", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
    "pooler_type", "problem_type", "qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_",
    "tie_word_embeddings", "transformers_version", "use_cache",
}  # fmt: skip
# Settings that must have one of these values, if they are there.
_FIXED: dict[str, tuple[object, ...]] = {
    "add_cross_attention": (False,), "chunk_size_feed_forward": (0,), "dtype": (None, "float32"),
    "is_decoder": (False,), "is_encoder_decoder": (False,), "output_attentions": (False,),
    "output_hidden_states": (False,), "position_embedding_type": ("absolute",), "pruned_heads": (None, {}),
    "return_dict": (True,), "torch_dtype": (None, "float32"),
}  # fmt: skip
_TRANSFORMER = {
    "do_lower_case": (False, None), "transformer_task": ("feature-extraction",),
    "modality_config": ({"text": {"method": "forward", "method_output_name": "last_hidden_state"}},),
    "module_output_name": ("token_embeddings",),
}  # fmt: skip
_POOLING = {"include_prompt": (True,)}
_PIPELINE_FREE = {"__version__", "prompts", "default_prompt_name", "similarity_fn_name"}
_PIPELINE = {"model_type": ("SentenceTransformer",)}
_NORMALIZE = {"module_input_name": ("sentence_embedding",), "module_output_name": ("sentence_embedding",)}
_LEGACY_POOLINGS = {
    "pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}  # fmt: skip


class PoolingConfig(NamedTuple):
    """What the files of sentence-transformers say about the use of a network."""

    pooling: str = "mean"
    unit: bool = False
    prompts: Mapping[str, str | None] = {}
    default_prompt_name: str | None = None
    max_length: int | None = None


@dataclass(eq=False)
class NativeModel:
    """The backend for the common families, in float32 on a CPU. Its weights never change."""

    family: str
    network: Network
    tokenizer: FastTokenizer
    hash: str
    max_length: int
    around: PoolingConfig
    rate: float | None  # in place of the network's own rates of dropout

    def __post_init__(self) -> None:
        network = self.network
        self.pooling_name, self.unit, self.prompts, self.default_prompt_name, _ = self.around
        self.dim, self.depth, self.parameters = network.width, network.depth + 1, network.parameters
        self.sites = network.sites(self.rate)
        self.trained_with_dropout = any(site.rate for site in network.sites(None))
        self.truncate_dim, self.device = None, torch.device("cpu")
        self.may_pad = self.packs = self.concurrent = True
        self.token_budget = 512  # for one thread

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> Tokens:
        """Return the token ids of texts with a prompt before each."""
        return backend.tokenize(self.tokenizer, self.max_length, texts, prompt)

    def run(self, tokens: Tokens, keys: Keys | None = None, layers: Sequence[int] = ()) -> States:
        """Run one batch, see `Backend.run`."""
        layout = Layout([len(ids) for ids in tokens.ids])
        dropout = keys and KeyedDropout(keys.seed, tokens.ids, keys.numbers, self.rate, layout)
        depth = self.network.depth
        pooled = (1, depth) if self.pooling_name == "first-last-avg" else (depth,)
        pool = layout.first_tokens if self.pooling_name == "cls" else layout.averages
        with torch.inference_mode():
            states = self.network(tokens.ids, layout, dropout, {*pooled, *layers})
            vectors = torch.stack([pool(states[number]) for number in pooled]).mean(0)
            averages = {number: layout.averages(states[number]).numpy() for number in layers}
        return States(vectors.numpy(), averages, tokens.lengths, tokens.words)


class _UnknownPart(Exception):
    """Something in a folder is not known here."""


def load_native(
    folder: Path, *, known_hash: str | None = None, pooling: str | None = None, rate: float | None = None
) -> NativeModel | None:
    """Load a folder if everything in it is known, else return None. The caller has checked what it may ask for.

    Parameters
    ----------
    folder
        Where the model is.
    known_hash
        The hash of its weights, if the caller has verified the file.
    pooling, rate
        The pooling, and one rate for all dropout, in place of the model's own.
    """
    try:
        return _load(folder, known_hash, pooling, rate)
    except Sen2ProError:
        raise  # it says what is wrong
    except (_UnknownPart, LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None  # a setting is missing, or is of another kind; the libraries say what is wrong


def _load(folder: Path, known_hash: str | None, pooling: str | None, rate: float | None) -> NativeModel:
    config = json_object(folder / "config.json")
    family = FAMILIES.get(config.get("model_type", ""))
    if family is None:
        raise _UnknownPart
    taken = {
        *family.settings, "model_type", "vocab_size", "max_position_embeddings", "pad_token_id",
        *(["layer_norm_eps"] if family.epsilon is None else []), *(["type_vocab_size"] if family.has_types else []),
        *(["relative_attention_num_buckets"] if family.has_bias else []),
    }  # fmt: skip
    if not are_known(config, taken | _IDLE, _FIXED):
        raise _UnknownPart
    width, depth, heads, inner, activation, *rates = (config[name] for name in family.settings)
    sizes = (width, depth, heads, inner, config["vocab_size"], config["max_position_embeddings"])
    if activation != "gelu" or not all(type(size) is int and size > 0 for size in sizes) or width % heads:
        raise _UnknownPart
    if family.has_bias and (config["pad_token_id"], config["relative_attention_num_buckets"]) != (1, 32):
        raise _UnknownPart  # they are fixed in MPNet's code
    if not all(isinstance(rate, float | int) and 0 <= rate < 1 for rate in rates):
        raise _UnknownPart
    around = _pooling_config(folder) if (folder / "modules.json").is_file() else PoolingConfig()
    tokenizer = load_tokenizer(folder)
    if tokenizer is None or (family.counts_from_padding and tokenizer.padding != config["pad_token_id"]):
        raise _UnknownPart
    check_vocabulary(tokenizer, config["vocab_size"], folder)
    first = config["pad_token_id"] + 1 if family.counts_from_padding else 0
    max_length = around.max_length or tokenizer.max_length
    if type(max_length) is not int or not 0 < max_length <= config["max_position_embeddings"] - first:
        raise _UnknownPart
    weights = _weights(folder / "model.safetensors", family.prefix)
    return NativeModel(
        family=config["model_type"], network=Network(family, config, weights), tokenizer=tokenizer,
        hash=known_hash or weights_hash(sorted(weights.items())), max_length=max_length,
        around=around._replace(pooling=pooling or around.pooling), rate=rate,
    )  # fmt: skip


def _pooling_config(folder: Path) -> PoolingConfig:
    modules = modules_of(folder)
    names = [module.type.rpartition(".")[2] for module in modules]
    if names not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]) or modules[0].path:
        raise _UnknownPart
    if [path.name for path in folder.glob("sentence_*_config.json")] != ["sentence_bert_config.json"]:
        raise _UnknownPart
    transformer = _known(folder / "sentence_bert_config.json", {"max_seq_length"}, _TRANSFORMER)
    sizes = {"word_embedding_dimension", "embedding_dimension", "pooling_mode"}
    pooling = _known(folder / modules[1].path / "config.json", sizes | set(_LEGACY_POOLINGS), _POOLING)
    active = [mode for key, mode in _LEGACY_POOLINGS.items() if pooling.get(key)]
    mode = pooling.get("pooling_mode") or (active[0] if len(active) == 1 else None)
    if mode not in ("mean", "cls"):
        raise _UnknownPart
    normalizes = len(names) == 3
    if normalizes:
        _known(folder / modules[2].path / "config.json", set(), _NORMALIZE)
    model = _known(folder / "config_sentence_transformers.json", _PIPELINE_FREE, _PIPELINE)
    prompts: dict[str, str | None] = {"query": "", "document": "", **(model.get("prompts") or {})}
    default = model.get("default_prompt_name")
    if not all(isinstance(text, str) for text in prompts.values()) or default not in (None, *prompts):
        raise _UnknownPart
    similarity = model.get("similarity_fn_name")
    if similarity not in (None, "cosine", "dot", "euclidean", "manhattan"):
        raise _UnknownPart
    unit = normalizes or similarity in (None, "cosine")
    return PoolingConfig(mode, unit, prompts, default, transformer.get("max_seq_length"))


def _known(path: Path, free: Collection[str], fixed: Mapping[str, tuple[object, ...]]) -> JsonObject:
    """Return the settings in a file, all of which must be known."""
    settings = json_object(path)
    if not are_known(settings, free, fixed):
        raise _UnknownPart
    return settings


def _weights(path: Path, prefix: str) -> dict[str, Tensor]:
    """Return the weights of the bare network by name, without pooler and task head, all float32."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise _UnknownPart
    try:
        every = load_file(path)
    except SafetensorError:
        raise _UnknownPart from None  # the other path says what is wrong
    has_head = any(name.startswith(prefix) for name in every)
    bare = {name.removeprefix(prefix): each for name, each in every.items() if name.startswith(prefix) or not has_head}
    weights = {
        name: each for name, each in bare.items()
        if not name.startswith("pooler.") and name != "embeddings.position_ids"
    }  # fmt: skip
    whole = [name for name, each in weights.items() if not each.is_floating_point()]
    if whole:
        raise Sen2ProError(
            f"{path}: the weight {whole[0]!r} holds {weights[whole[0]].dtype}, no fractions; fetch it again"
        )
    if any(each.dtype != torch.float32 for each in weights.values()):
        raise _UnknownPart
    return weights


def weights_hash(weights: Iterable[tuple[str, Tensor]]) -> str:
    """Return eight hex digits of a sha256 over named weights: the same however a model was loaded."""
    digest = hashlib.sha256()
    for name, tensor in weights:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:8]
