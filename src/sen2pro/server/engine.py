"""The model side of the server: the jobs that the workers run on tokens. No job tokenizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from sen2pro.calibration.comparison import Comparison
from sen2pro.encoder.backend import Tokens
from sen2pro.errors import Sen2ProError
from sen2pro.estimation.specificity import Specificity
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.sampling.passes import LARGEST
from sen2pro.search.results import Result
from sen2pro.server.batching import BatchJob
from sen2pro.server.http_errors import to_json
from sen2pro.settings import CERTAINTY
from sen2pro.validation import Array, Array64

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.search import Index

Answered = TypeVar("Answered")
# The work that takes about as long as a pass of one token:
_CHARACTERS = 30  # of a long text, to be cut off
_HITS = 25  # to be found and returned
_ROWS = 2000  # of an index, to be compared with a query or with one value of a filter
_SENT = 10_000  # characters of a filter, to be sent to a database
_TOKEN = "id", "text", "special", "start", "stop"  # the fields of a token in a response
_WARM_UP = "A short one.", "A sentence of some more words, so that the network runs once.", "word " * 200


@dataclass(eq=False)
class TextGaussian:
    """The Gaussian of one text: mean and variance (k,), total variance, and coverage if a head was used."""

    mean: Array
    variance: Array
    total: float
    coverage: float | None


class Engine:
    """A model with the jobs that requests run on it. A unit of a job is one row of `Tokens`, or a pair of rows.

    Parameters
    ----------
    model
        The model that encodes.
    index, classifier
        What `/v1/search` and `/v1/classify` use; without them these routes need documents or examples in the request.
    """

    def __init__(self, model: Sen2Pro, index: Index | None = None, classifier: Sen2ProClassifier | None = None) -> None:
        self.model, self.index, self.classifier = model, index, classifier
        self.rows = 0 if index is None else len(index)  # once: a database takes its time to count them
        self.compares = _works(lambda: model.compare([], []))
        self.specifies = _works(lambda: model.specificity([]))

    @property
    def batch_tokens(self) -> int:
        """The number of tokens in a batch that the network runs efficiently."""
        threads, passes = torch.get_num_threads(), 1.0
        if self.model.encoder.concurrent:
            # One pass of the largest size, or two per thread: short texts in one pass, long texts in the other.
            passes = LARGEST if threads == 1 else 2.0 * threads
        return int(self.model.encoder.token_budget * passes)

    # Texts. These methods may run beside the worker.

    def prompt(self, name: str | None = None) -> str:
        """Return the text of one of the model's prompts, by default the one that it always uses."""
        return self.model.encoder.prompt(None, name)

    def decode(self, given: Sequence[str | list[int]]) -> list[str]:
        """Return texts as they are, and lists of token ids as text."""
        return [each if isinstance(each, str) else self._text_of(each) for each in given]

    def _text_of(self, ids: Sequence[int]) -> str:
        size = self.model.encoder.tokenizer.size
        if any(not 0 <= number < size for number in ids):
            raise Sen2ProError(f"a token id is outside this model's vocabulary of {size} tokens; send texts instead")
        text = self.model.encoder.tokenizer.text(ids)
        if not text.strip():
            raise Sen2ProError("a list of token ids is empty, or has only special tokens")
        return text

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> Tokens:
        """Return checked texts with their tokens."""
        return self.model.encoder.tokenize(texts, prompt)

    def list_tokens(self, texts: Sequence[str], special: bool) -> list[tuple[int, bytes]]:
        """Return the number of tokens of each text and all of them as JSON; long texts are not cut."""
        every = [self.model.encoder.tokenizer.pieces(text, special=special) for text in texts]
        return [(len(pieces), to_json([dict(zip(_TOKEN, piece, strict=True)) for piece in pieces])) for pieces in every]

    # Jobs.

    def vectors(self, prompt: str, normalize: bool | None = None) -> BatchJob[Tokens, Array]:
        """Return the job of plain vectors; `normalize` is that of the model unless a request decides otherwise."""
        sampler = self.model.sampler
        return _job(
            lambda tokens: list(sampler.finish(sampler.run_plain(tokens).vectors, normalize=normalize)),
            "vectors", prompt, normalize,
        )  # fmt: skip

    def distributions(self, prompt: str) -> BatchJob[Tokens, TextGaussian]:
        """Return the job of Gaussians."""

        def run(tokens: Tokens) -> list[TextGaussian]:
            gaussian = self.model.encode(tokens, show_progress_bar=False)
            totals, cover = gaussian.total_variance.tolist(), gaussian.coverage
            covers: list[float | None] = [None] * len(tokens) if cover is None else cover.tolist()
            return [TextGaussian(*row) for row in zip(gaussian.mean, gaussian.variance, totals, covers, strict=True)]

        return _job(run, "distributions", prompt, passes=self.model.passes)

    def gaussian(self, rows: Sequence[TextGaussian], prompt: str = "") -> Gaussian:
        """Return the results of `distributions` as one Gaussian (n, k)."""
        mean, variance = np.stack([row.mean for row in rows]), np.stack([row.variance for row in rows])
        coverage = None if rows[0].coverage is None else np.array([row.coverage for row in rows], np.float32)
        return Gaussian(mean, variance, self.model.signature(prompt), coverage)

    def comparisons(self) -> BatchJob[Tokens, Comparison]:
        """Return the job of comparisons; a unit has the two rows of a pair."""

        def run(tokens: Tokens) -> list[Comparison]:
            first, second = (tokens.rows(range(side, len(tokens), 2)) for side in (0, 1))
            return self.model.compare(first, second)

        return _job(run, "comparisons")

    def specificity(self) -> BatchJob[Tokens, Specificity]:
        """Return the job of specificity."""

        def run(tokens: Tokens) -> list[Specificity]:
            found = self.model.specificity(tokens, show_progress_bar=False)
            return [found[row] for row in range(len(found))]

        return _job(run, "specificity")

    def search(
        self, index: Index, k: int, where: Mapping[str, object] | None = None, precision: float | None = None,
        certainty: float = CERTAINTY,
    ) -> BatchJob[Tokens, Result]:  # fmt: skip
        """Return the job of searches in an index, with options of `Index.search`; `where` is checked."""
        values = sum(len(each) if isinstance(each, list) else 1 for each in (where or {}).values())
        rows, sent = self.rows if index is self.index else len(index), repr(where)
        return _job(
            lambda tokens: index.search(tokens, k, where=where, precision=precision, certainty=certainty),
            "search", id(index), k, sent, precision, certainty, own_worker=True, passes=index.passes,
            extra=k // _HITS + rows * (1 + values) // _ROWS + len(sent) // _SENT,
        )  # fmt: skip

    def indexing(self, index: Index) -> BatchJob[tuple[int, Tokens], None]:
        """Return the job that adds documents to an index; units are the number of a document, its id, and its text."""

        def run(units: list[tuple[int, Tokens]]) -> list[None]:
            # A request that was cancelled may have added some of them already.
            tokens = Tokens.join([tokens for _, tokens in units])
            index.add(tokens, ids=[number for number, _ in units], duplicates="replace", show_progress_bar=False)
            return [None] * len(units)

        return BatchJob(("indexing", id(index)), run, index.passes, own_worker=True)

    def labels(self, classifier: Sen2ProClassifier) -> BatchJob[Tokens, dict[str, object]]:
        """Return the job of classification."""
        encoder = classifier.encoder
        is_same = encoder.encoder.hash == self.model.encoder.hash

        def run(tokens: Tokens) -> list[dict[str, object]]:
            # Another network has other tokens.
            given = encoder.encode(tokens, show_progress_bar=False) if is_same else list(tokens.texts)
            return labels_of(classifier, classifier.predict_proba(given, show_progress_bar=False))

        return _job(run, "labels", id(classifier), passes=encoder.passes)

    def warm_up(self) -> None:
        """Run every job once: the first pass of a network takes longer, and an error should show at the start."""
        tokens = self.tokenize(_WARM_UP, self.prompt())
        units = [tokens.rows([i]) for i in range(len(tokens))]
        self.vectors(self.prompt()).run(units)
        self.distributions(self.prompt()).run(units[:2])
        if self.compares:
            self.comparisons().run([tokens.rows([0, 1])])
        if self.specifies:
            self.specificity().run(units)
        if self.index is not None:
            self.search(self.index, 1).run(units[:1])
        if self.classifier is not None:
            self.labels(self.classifier).run(units[:1])


def _job(
    run: Callable[[Tokens], Sequence[Answered]], *key: object, passes: int = 1, extra: int = 0, own_worker: bool = False
) -> BatchJob[Tokens, Answered]:
    """Return a job that joins its units; requests with one key share batches."""
    return BatchJob(key, lambda units: run(Tokens.join(units)), passes, extra, own_worker)


def weight(tokens: Tokens) -> int:
    """Return the cost of a pass in tokens: to cut a very long text takes longer than to run the rest."""
    return sum(max(len(ids), len(text) // _CHARACTERS) for ids, text in zip(tokens.ids, tokens.texts, strict=True))


def labels_of(classifier: Sen2ProClassifier, rows: Array64) -> list[dict[str, object]]:
    """Return the most likely label and all probabilities of texts, from what a classifier predicts for them (n, c)."""
    labels = classifier.classes_.tolist()
    return [
        {
            "label": labels[int(row.argmax())],
            "probability": float(row.max()),
            "probabilities": {str(label): share for label, share in zip(labels, row.tolist(), strict=True)},
        }
        for row in rows
    ]


def _works(answer: Callable[[], object]) -> bool:
    try:
        answer()
    except Sen2ProError:
        return False
    return True
