"""Ask a model how specific sentences are, and which of their words carry the meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.estimation.specificity import CONFIG, SpecificityHead, shipped
from sen2pro.progress import Show
from sen2pro.sampling.passes import embed
from sen2pro.validation import Array64, check_sentences, check_text, check_whole

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

DEFAULT_SAMPLES = 12


@dataclass(frozen=True, eq=False)
class Specificity:
    """How specific sentences are: arrays (n,), or numbers for a single sentence. Greater is more specific.

    Attributes
    ----------
    score
        0 to 100: more specific than so many percent of English sentences.
    at_length
        0 to 100: more specific than so many percent of the sentences of its length.
    value
        The measure itself: minus the logarithm of how far (squared distance) an inserted word moves the sentence. A
        head adds half the logarithm of 1 + the names and numbers that it sees in the sentence.
    """

    score: Any
    at_length: Any
    value: Any

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True, eq=False)
class Explanation:
    """What carries a sentence: each word, and how far the meaning moves without it (1 - cosine)."""

    words: tuple[str, ...]
    moves: Array64

    @property
    def share(self) -> Array64:
        """Each word's share of all moves; they add up to 1."""
        return self.moves / max(float(self.moves.sum()), 1e-30)

    def __str__(self) -> str:
        order = np.argsort(-self.moves, kind="stable")
        return ", ".join(f"{self.words[i]} {self.share[i]:.0%}" for i in order)


def specificity(
    model: Sen2Pro, sentences: str | Sequence[str], *, samples: int | None = None, batch_size: int | None = None,
    show_progress_bar: Show = None, prompt_name: str | None = None, prompt: str | None = None,
) -> Specificity:  # fmt: skip
    """Return how specific sentences are; see `Sen2Pro.specificity`."""
    texts, prefix = check_sentences(sentences), model.encoder.prompt(prompt, prompt_name)
    head = find(model)
    if samples is None and head is None:
        raise HeadMissing(
            f"there is no specificity head for {model.encoder.name}; fit one on a few thousand sentences with "
            f"distill, or pass samples={DEFAULT_SAMPLES} for values without percentiles"
        )
    words = np.array([len(text.split()) for text in texts], np.float64)
    if samples is not None:
        samples = check_whole("samples", samples, 1, 1000)
        moved = model.sampler.moved(texts, prefix, samples, batch_size, show_progress_bar)
        value = -np.log(np.maximum(moved, 1e-12))
        if texts and head is not None:
            value = head.sampled_value(model.sampler.plain(texts, prefix, layers=head.layers, warn=False), moved)
    elif texts and head is not None:
        value = head.value(
            model.sampler.plain(texts, prefix, layers=head.layers, batch_size=batch_size, show=show_progress_bar)
        )
    else:
        value = np.empty(0)
    if head is None:
        score = at_length = np.full(len(texts), np.nan)
    else:
        score, at_length = head.score(value), head.at_length(value, words)
    if isinstance(sentences, str):
        return Specificity(float(score[0]), float(at_length[0]), float(value[0]))
    return Specificity(score, at_length, value)


def find(model: Sen2Pro) -> SpecificityHead | None:
    """Return the specificity head of a model: with its head, in its folder, or the one that comes with the package."""
    folder, signature = model.encoder.folder, model.signature()
    if model.head is not None and model.head.specificity is not None:
        head = model.head.specificity
    elif folder and (folder / CONFIG).is_file():
        head = SpecificityHead.load(folder)
    else:
        return shipped(signature)
    misfits = head.misfits(signature) or (["layers"] if max(head.layers, default=-1) >= model.encoder.depth else [])
    if misfits:
        raise Sen2ProError(f"the specificity head was fitted for another model: {', '.join(misfits)} differ")
    return head


def explain(model: Sen2Pro, sentence: str) -> Explanation:
    """Return what carries a sentence; see `Sen2Pro.explain`."""
    text = check_sentences(check_text("sentence", sentence))[0]
    words = text.split()
    prompt = model.encoder.prompt(None, None)
    if len(words) == 1:
        return Explanation(tuple(words), np.ones(1))
    copies = [" ".join(words), *(" ".join(words[:i] + words[i + 1 :]) for i in range(len(words)))]
    passes = model.encoder.tokens([prompt + copy for copy in copies])
    vectors = model.sampler.directions(embed(model.encoder, passes, prompt=prompt))
    return Explanation(tuple(words), np.maximum(1 - vectors[1:] @ vectors[0], 0))
