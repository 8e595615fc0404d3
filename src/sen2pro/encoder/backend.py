"""The types of stage 1, texts -> `Tokens` -> `States`, and the protocol of the backends that make them.

A backend is a pre-trained network with its tokenizer and its pooling. There are two: `native` for the common families,
and `transformers` for every other model. `encoder.encoder.Encoder` chooses between them and is a backend itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, join_names
from sen2pro.validation import Array, Array64

if TYPE_CHECKING:
    import torch

Ids = list[int]
"""The token ids of one text."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """Texts with their token ids: what a network reads. A call makes them once, with `Backend.tokenize`.

    >>> texts = "A dog.", "Two dogs run."
    >>> tokens = Tokens(texts, "", ids=((1, 2), (3, 4, 5)), seen=texts, is_cut=(False, False))
    >>> tokens.lengths.tolist(), tokens.words.tolist(), tokens.rows([1]).texts
    ([2, 3], [2, 3], ('Two dogs run.',))
    """

    texts: tuple[str, ...]
    """The texts as they were given, without the prompt."""
    prompt: str
    """The prompt that stands before each text."""
    ids: tuple[Sequence[int], ...]
    """The token ids of prompt and text, with special tokens, cut to the longest input of the network."""
    seen: tuple[str, ...]
    """The part of each text that the network sees. An edit of the rest would change nothing."""
    is_cut: tuple[bool, ...]
    """Whether a text was too long, so that its end was cut off."""
    prompt_length: int = 0
    """The number of tokens that the pooling leaves out, for models that leave out their prompt."""

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.texts)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each text, (n,)."""
        return np.array([len(ids) for ids in self.ids], np.int64)

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """The number of words of each whole text, (n,)."""
        return np.array([len(text.split()) for text in self.texts], np.int64)

    def rows(self, rows: Iterable[int]) -> Tokens:
        """Return some of the texts, in the given order; a row may be repeated."""
        rows = list(rows)
        columns = ([getattr(self, name)[row] for row in rows] for name in ("texts", "ids", "seen", "is_cut"))
        return self._like(*columns)

    @staticmethod
    def join(parts: Sequence[Tokens]) -> Tokens:
        """Return the texts of several `Tokens` (at least one) with the same prompt."""
        columns = ([x for part in parts for x in getattr(part, name)] for name in ("texts", "ids", "seen", "is_cut"))
        return parts[0]._like(*columns)

    def _like(self, texts: list[str], ids: list[Sequence[int]], seen: list[str], is_cut: list[bool]) -> Tokens:
        return Tokens(tuple(texts), self.prompt, tuple(ids), tuple(seen), tuple(is_cut), self.prompt_length)


class Keys(NamedTuple):
    """What switches dropout on: each row of a batch draws its masks from its own key (seed, token ids, number)."""

    seed: int
    numbers: Sequence[int]
    """The number of the sample of each row."""


@dataclass(frozen=True, eq=False)
class States:
    """The result of one pass over n texts: the input of a head."""

    vectors: Array
    """The pooled vectors, (n, k), before whitening and normalising."""
    layers: Mapping[int, Array] = field(default_factory=dict)
    """By number, the averages over the tokens of hidden states, (n, width) each; the embeddings are number 0."""
    tokens: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The number of tokens of each text, (n,)."""
    words: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The number of words of each text, (n,)."""

    def rows(self, rows: NDArray[np.int64]) -> States:
        """Return the states of some of the texts, in the given order; a row may be repeated."""
        layers = {number: array[rows] for number, array in self.layers.items()}
        return States(self.vectors[rows], layers, self.tokens[rows], self.words[rows])

    @staticmethod
    def join(parts: Sequence[States]) -> States:
        """Return the states of several batches (at least one) one after the other."""
        if len(parts) == 1:
            return parts[0]
        layers = {number: np.concatenate([part.layers[number] for part in parts]) for number in parts[0].layers}
        vectors, tokens, words = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("vectors", "tokens", "words")
        )
        return States(vectors, layers, tokens, words)

    def features(self, layers: Sequence[int] | None) -> Array:
        """Return the columns that a linear map reads: nothing (None), or the vectors and these layers."""
        if layers is None:
            return np.empty((len(self.vectors), 0), np.float32)
        return np.concatenate([self.vectors, *(self.layers[i] for i in layers)], axis=1)

    @cached_property
    def scalars(self) -> Array64:
        """Logarithms of the numbers of tokens and words and of the vector's length, (n, 3)."""
        size = np.linalg.norm(self.vectors.astype(np.float64), axis=1)
        return np.asarray(np.log(np.stack([self.tokens, self.words, np.maximum(size, 1e-12)], axis=1)))


@dataclass(frozen=True)
class Site:
    """A place in a network where dropout is applied."""

    kind: str
    """`attention`, `hidden`, or `shared`: one mask for the whole batch, as for DeBERTa's relative positions."""
    rate: float


class Backend(Protocol):
    """A network with its tokenizer and pooling."""

    @property
    def dim(self) -> int:
        """The number of dimensions of a vector."""

    @property
    def depth(self) -> int:
        """The number of hidden states that `run` can average, the embeddings' first; 0 if there is no access."""

    @property
    def max_length(self) -> int:
        """The longest input in tokens."""

    @property
    def hash(self) -> str:
        """Eight hex digits of a sha256 over all weights in use: the same whichever backend loads the model."""

    @property
    def sites(self) -> Sequence[Site]:
        """Where dropout is applied, in the order of a pass."""

    @property
    def may_pad(self) -> bool:
        """Whether a batch may hold texts of several lengths."""

    @property
    def concurrent(self) -> bool:
        """Whether batches run side by side, one per thread. Then the number of threads changes no batch."""

    @property
    def token_budget(self) -> int:
        """The number of tokens in a batch that runs fast."""

    @property
    def device(self) -> torch.device:
        """Where the network is."""

    @property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer: ids to text, the pieces of a text, the vocabulary."""

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> Tokens:
        """Return the token ids of texts with a prompt before each. Does not warn about texts that are too long."""

    def run(self, tokens: Tokens, keys: Keys | None = None, layers: Sequence[int] = ()) -> States:
        """Run one batch: a plain pass, or one with dropout where there are `keys`.

        Texts of one length should stand together. `layers` are the hidden states to average. Equal rows (the same ids
        and key) give equal vectors, whatever else is in the batch.
        """


class Token(NamedTuple):
    """A token of a text. `start` and `stop` count letters of the text; None if unknown or not part of the text."""

    id: int
    text: str
    special: bool
    """Whether the tokenizer added it."""
    start: int | None
    stop: int | None

    @classmethod
    def table(
        cls, ids: Sequence[int], names: Sequence[str], added: Sequence[int], spans: Sequence[tuple[int, int]] | None
    ) -> list[Token]:
        """Return the tokens of a text from its columns; without `spans`, the places in the text are unknown."""
        return [
            cls(int(number), name, bool(special), *((None, None) if special or spans is None else spans[i]))
            for i, (number, name, special) in enumerate(zip(ids, names, added, strict=True))
        ]


class TextTokenizer(Protocol):
    """A tokenizer, whichever library runs it."""

    padding: int
    """The id of the padding token."""
    named: set[str]
    """The special tokens that have a role, such as padding."""
    special: set[str]
    """All tokens that stand for no text."""

    def numbers(self) -> dict[str, int]:
        """Return the id of each token."""

    def ids(self, texts: Sequence[str]) -> list[Ids]:
        """Return the token ids of texts, special tokens included, not cut."""

    def cut(self, text: str, longest: int) -> tuple[Ids, list[tuple[int, int]] | None]:
        """Return at most `longest` ids of a text, and the part of the text that each stands for, if known."""

    def pieces(self, text: str, *, special: bool) -> list[Token]:
        """Return the tokens of a text, not cut, with or without those that the tokenizer adds."""

    def text(self, ids: Sequence[int]) -> str:
        """Return a text that has these tokens; special tokens are left out."""

    def word(self, token: str) -> str:
        """Return a token of the vocabulary as text."""

    @property
    def size(self) -> int:
        """One more than the greatest id."""
        return max(self.numbers().values(), default=-1) + 1

    def words(self) -> list[str]:
        """Return the whole words of the vocabulary, in the order of their ids."""
        numbers = self.numbers()
        return whole_words([t for t in sorted(numbers, key=numbers.__getitem__) if t not in self.named], self.word)


def tokenize(
    tokenizer: TextTokenizer, max_length: int, texts: Sequence[str], prompt: str = "", prompt_length: int = 0
) -> Tokens:
    """Return the tokens of texts: `Backend.tokenize` with any tokenizer."""
    every: list[Sequence[int]] = list(tokenizer.ids([prompt + text for text in texts])) if texts else []
    seen, is_cut = list(texts), [len(ids) > max_length for ids in every]
    for i, ids in enumerate(every):
        if len(ids) >= max_length:
            every[i], offsets = tokenizer.cut(prompt + texts[i], max_length)
            seen[i] = _seen(texts[i], prompt, offsets)
        if not every[i]:
            raise Sen2ProError(f"the tokenizer finds no token in {prompt + texts[i]!r}")
    return Tokens(tuple(texts), prompt, tuple(every), tuple(seen), tuple(is_cut), prompt_length)


def _seen(text: str, prompt: str, offsets: Sequence[tuple[int, int]] | None) -> str:
    """Return the part of a text that these offsets of prompt and text cover; all of it if they cover nothing."""
    spans = [(start, end) for start, end in offsets or () if end > start]
    part = (prompt + text)[max(spans[0][0], len(prompt)) : spans[-1][1]] if spans else ""
    return part if part.strip() else text


def key(purpose: str, seed: int, sentence: str, sample: int) -> int:
    """Return the 128-bit number from which a sample of a sentence draws, whatever else is in the batch.

    >>> key("edit", 0, "A sentence.", 1) == key("edit", 0, "A sentence.", 1) != key("edit", 0, "A sentence.", 2)
    True
    """
    text = f"{purpose}\0{seed}\0{sample}\0{sentence}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")


def check_vocabulary(tokenizer: TextTokenizer, rows: int | None, folder: Path | None) -> None:
    """Refuse a tokenizer that does not fit the network: transformers builds one from nothing where a file is missing.

    `rows` is how many tokens the network has embeddings for, if that is known; `folder` is where both come from. More
    rows than tokens are common, since matrices are padded (DeBERTa-v3 has 128,100 rows for 128,001 tokens; ESM C, the
    emptiest one known, 64 for 33). Four times as many are a mistake, and so is a single row too few.
    """
    numbers = tokenizer.numbers()
    where = f" in {folder}" if folder else ""
    missing = "" if folder is None or any(folder.rglob("tokenizer.json")) else "There is no tokenizer.json. "
    remedy = f"{missing}Copy the whole folder of the model, or pass the tokenizer that belongs to it (tokenizer=...)"
    if len(numbers.keys() - tokenizer.special) < 2:  # without a file, T5's tokenizer has one: "▁"
        raise Sen2ProError(f"the tokenizer{where} knows no words, only {join_names(sorted(numbers), 5)}. {remedy}")
    if rows is None:
        return
    greatest = max(numbers.values())
    if greatest >= rows or 4 * len(numbers) < rows:
        has = f"a token of the number {greatest:,}" if greatest >= rows else f"{len(numbers):,} tokens"
        raise Sen2ProError(
            f"the tokenizer{where} does not fit the network: it has {has}, and the network has embeddings for {rows:,} "
            f"tokens, numbered from 0. {remedy}"
        )


def whole_words(tokens: Sequence[str], to_text: Callable[[str], str]) -> list[str]:
    """Pick the whole words (of letters and digits) out of a tokenizer's vocabulary."""
    # SentencePiece and byte-level BPE mark the start of a word (▁word, Ġword), word pieces a continuation (##ing).
    marker = next((m for m in ("▁", "Ġ") if sum(t.startswith(m) for t in tokens) > len(tokens) // 10), "")
    if marker:
        candidates = [to_text(t) for t in tokens if t.startswith(marker)]
    else:
        candidates = [t.removesuffix("</w>") for t in tokens if not t.startswith("##")]
    return list(dict.fromkeys(w for w in map(str.strip, candidates) if w.isalnum()))
