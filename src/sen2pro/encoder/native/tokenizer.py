"""Tokenizers straight from a `tokenizer.json`, without transformers.

transformers takes this file apart and builds a tokenizer from the parts, by class. `load_tokenizer` reads the file
itself, and only where its content equals what transformers would build.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers.pre_tokenizers import ByteLevel

from sen2pro.encoder.backend import Ids, TextTokenizer, Token
from sen2pro.encoder.find import json_object

_NAMED = {f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")}
_BRACKETS = {
    "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"
}  # fmt: skip
_ANGLES = {
    "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>",
    "cls_token": "<s>", "mask_token": "<mask>",
}  # fmt: skip
# The classes of transformers whose tokenizers are known here: how they are built, and their own special tokens.
_CLASSES: dict[str, tuple[str, dict[str, str]]] = {
    "BertTokenizer": ("WordPiece", _BRACKETS),
    "DistilBertTokenizer": ("WordPiece", _BRACKETS),
    "MPNetTokenizer": ("WordPiece", {**_ANGLES, "unk_token": "[UNK]"}),
    "RobertaTokenizer": ("BPE", _ANGLES),
    "XLMRobertaTokenizer": ("Unigram", _ANGLES),
    "PreTrainedTokenizer": ("as it is", {}),
    "TokenizersBackend": ("as it is", {}),
}
_FREE = {
    *_NAMED, "added_tokens_decoder", "backend", "clean_up_tokenization_spaces", "errors", "is_local",
    "local_files_only", "max_length", "model_max_length", "name_or_path", "pad_to_multiple_of", "pad_token_type_id",
    "padding_side", "special_tokens_map_file", "stride", "tokenizer_class", "truncation_strategy",
}  # fmt: skip
_FIXED: dict[str, tuple[object, ...]] = {
    "additional_special_tokens": (None, []), "do_basic_tokenize": (True,), "extra_special_tokens": (None, [], {}),
    "never_split": (None,), "sp_model_kwargs": (None, {}), "split_special_tokens": (False,), "trim_offsets": (True,),
    "truncation_side": ("right",),
}  # fmt: skip
_BUILT = {  # settings that say how a tokenizer of a class is built
    "WordPiece": {"do_lower_case", "strip_accents", "tokenize_chinese_chars"},
    "BPE": {"add_prefix_space"}, "Unigram": {"add_prefix_space"}, "as it is": set(),
}  # fmt: skip
_FLAGS = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")


class FastTokenizer(TextTokenizer):
    """A tokenizer straight from its file."""

    def __init__(self, path: Path, named: set[str], padding: int, max_length: Any) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.named, self.padding, self.max_length = named, padding, max_length
        added = self._tokenizer.get_added_tokens_decoder().values()
        self.special = {*named, *(token.content for token in added if token.special)}
        self._cutting: dict[int, tokenizers.Tokenizer] = {}  # by what they cut to; never changed, so threads may share

    def numbers(self) -> dict[str, int]:
        """Return the id of each token."""
        return self._tokenizer.get_vocab()

    def ids(self, texts: Sequence[str]) -> list[Ids]:
        """Return the token ids of texts, special tokens included, not cut."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]

    def cut(self, text: str, longest: int) -> tuple[Ids, list[tuple[int, int]] | None]:
        """Return at most `longest` ids of a text, and the part of the text that each stands for."""
        if longest not in self._cutting:
            cutting = tokenizers.Tokenizer.from_str(self._tokenizer.to_str())
            cutting.enable_truncation(longest)
            self._cutting[longest] = cutting
        encoding = self._cutting[longest].encode(text)
        return encoding.ids, encoding.offsets

    def pieces(self, text: str, *, special: bool) -> list[Token]:
        """Return the tokens of a text, not cut, with or without those that the tokenizer adds."""
        encoding = self._tokenizer.encode(text, add_special_tokens=special)
        return Token.table(encoding.ids, encoding.tokens, encoding.special_tokens_mask, encoding.offsets)

    def text(self, ids: Sequence[int]) -> str:
        """Return a text that has these tokens; special tokens are left out."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)

    def word(self, token: str) -> str:
        """Return a token of the vocabulary as text."""
        return self._tokenizer.decoder.decode([token]) if self._tokenizer.decoder else token


def are_known(settings: Mapping[str, object], free: Collection[str], fixed: Mapping[str, tuple[object, ...]]) -> bool:
    """Tell whether all settings are free, or fixed to a known value."""
    return all(name in free or (name in fixed and value in fixed[name]) for name, value in settings.items())


def load_tokenizer(folder: Path) -> FastTokenizer | None:
    """Read the tokenizer of a folder; None if one of its settings is unknown here."""
    files = [folder / name for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")]
    if not all(path.is_file() for path in files[:2]) or (folder / "added_tokens.json").exists():
        return None
    content, config, mapped = map(json_object, files)
    kind, defaults = _CLASSES.get(str(config.get("tokenizer_class")).removesuffix("Fast"), ("", {}))
    known = are_known(config, _FREE | _BUILT.get(kind, set()), _FIXED)
    if not kind or not known or not _is_built_so(kind, config, content):
        return None
    named = {name: _content(config[name]) for name in _NAMED & set(config) if config[name] is not None}
    also = {name: _content(value) for name, value in mapped.items() if value}
    special = {**defaults, **also, **named}
    added = {token["id"]: tuple(token.get(flag) for flag in _FLAGS) for token in content.get("added_tokens") or []}
    listed = {
        int(number): tuple(token.get(flag) for flag in _FLAGS)
        for number, token in (config.get("added_tokens_decoder") or {}).items()
    }
    agree = all(special[name] == value for name, value in also.items()) and listed in ({}, added)
    plain = all(not single and not rstrip and marked for _, single, _, rstrip, _, marked in added.values())
    if not agree or not plain or not set(special.values()) <= {token[0] for token in added.values()}:
        return None
    ends = special.get("cls_token"), special.get("sep_token")
    numbers = {token[0]: number for number, token in added.items()}
    padding, longest = numbers.get(special.get("pad_token", ""), 0), config.get("model_max_length")
    try:
        tokenizer = FastTokenizer(files[0], set(special.values()), padding, longest)
    except Exception:  # all that tokenizers raises for a file it cannot read; the libraries say what is wrong
        return None
    return tokenizer if tokenizer.ids([""]) == [[numbers.get(str(end)) for end in ends]] else None


def _content(token: object) -> str:
    """Return the text of a special token, which may stand with its flags."""
    return str(token["content"] if isinstance(token, Mapping) else token)


def _is_built_so(kind: str, config: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    """Tell whether a file holds just what transformers' class of this kind would build from it and the settings."""
    model, normalizer, splitter = content["model"], content.get("normalizer"), content.get("pre_tokenizer")
    if kind == "as it is":
        return True
    if model.get("type") != kind or model.get("dropout") or model.get("byte_fallback"):
        return False
    prefixed = config.get("add_prefix_space")
    if kind == "WordPiece":
        built = {
            "type": "BertNormalizer", "clean_text": True, "strip_accents": config.get("strip_accents"),
            "handle_chinese_chars": config.get("tokenize_chinese_chars", True),
            "lowercase": config.get("do_lower_case", True),
        }  # fmt: skip
        pieces = (model.get("continuing_subword_prefix"), model.get("max_input_chars_per_word"), model.get("unk_token"))
        known = ("##", 100, _content(config.get("unk_token") or "[UNK]"))
        return (normalizer, splitter, pieces) == (built, {"type": "BertPreTokenizer"}, known)
    if kind == "BPE":
        built = {"type": "ByteLevel", "add_prefix_space": bool(prefixed), "trim_offsets": True}
        idle = ("continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "ignore_merges")
        whole = set(ByteLevel.alphabet()) <= set(model["vocab"])  # so that every text has tokens
        bare = {name: value for name, value in (splitter or {}).items() if name != "use_regex"}
        splits = (splitter or {}).get("use_regex", True)
        return normalizer is None and bare == built and splits and whole and not any(map(model.get, idle))
    steps = (splitter or {}).get("pretokenizers") or []
    marks = steps[1] if len(steps) == 2 else {}
    return (
        (normalizer is None or normalizer.get("type") == "Precompiled")
        and [step["type"] for step in steps] == ["WhitespaceSplit", "Metaspace"]
        and marks.get("replacement") == "▁"
        and marks.get("split", True)
        and marks.get("prepend_scheme", "always" if marks.get("add_prefix_space") else "") == "always"
        and (prefixed is None or prefixed)
        and model.get("unk_id") == 3
    )
