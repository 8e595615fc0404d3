"""What the worker runs: the model, and an index and a classifier if the operator gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from sen2pro.calibration.comparison import compare_pairs, comparing_head
from sen2pro.checks import check_sentences
from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.model import Sen2Pro
from sen2pro.server.batching import Lane
from sen2pro.server.doors import dumps
from sen2pro.specificity.measure import find
from sen2pro.types import Array

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.search import Index

_WARM = "A short one.", "A sentence of some more words, to have the network run once.", "word " * 200
# What takes about as long as a pass of one token:
_LETTERS = 30  # to be cut off
_HITS = 25  # to be found and told
_ROWS = 2000  # to be compared, or to be held against one value of a filter
_SENT = 10_000  # letters of a filter, to be sent to a database


class Text(NamedTuple):
    """A text with its tokens, cut to what the network takes; `whole` says whether all of it fits."""

    text: str
    tokens: list[int]
    whole: bool

    @property
    def weight(self) -> int:
        """What a pass of it costs, in tokens: a very long text takes longer to be cut than what is left to be run."""
        return max(len(self.tokens), len(self.text) // _LETTERS)


class Distribution(NamedTuple):
    """The Gaussian of one text: mean and variance (k,), total variance, and coverage if a head was used."""

    mean: Array
    variance: Array
    total: float
    coverage: float | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it, once the arrays are lists."""
        return self._asdict()


class Engine:
    """A model with what is made from it, as lanes for a `Batcher`.

    Parameters
    ----------
    model
        What encodes.
    index, classifier
        What `/v1/search` and `/v1/classify` use; without them these routes say that they are not served.
    """

    def __init__(self, model: Sen2Pro, index: Index | None = None, classifier: Sen2ProClassifier | None = None) -> None:
        self.model, self.index, self.classifier = model, index, classifier
        self.passes = model.passes
        self.compares = self._can(comparing_head)
        self.specifies = self._can(find)
        self.size = model.encoder.texts.size
        self.rows = 0 if index is None else len(index)

    def _can(self, needed: Any) -> bool:
        try:
            return needed(self.model) is not None
        except (HeadMissing, Sen2ProError):
            return False

    def prompt(self, name: str | None) -> str:
        """Return the text of a prompt of the model's by name, by default the one it uses always."""
        return self.model.encoder.prompt(None, name)

    def checked(self, texts: Sequence[str]) -> list[str]:
        """Return texts that are not blank; an error names the number of the text."""
        return check_sentences(texts)

    def texts(self, texts: Sequence[str], prompt: str = "") -> list[Text]:
        """Check texts and find their tokens; it may run beside the worker."""
        checked = check_sentences(texts)
        encoder = self.model.encoder
        every = encoder.texts.ids([prompt + text for text in checked]) if checked else []
        found = []
        for text, ids in zip(checked, every, strict=True):
            whole = len(ids) <= encoder.max_length
            cut = ids if whole else encoder.texts.cut(prompt + text, encoder.max_length)[0]
            if not cut:
                raise Sen2ProError("the tokenizer finds no token in a text")
            found.append(Text(text, cut, whole))
        return found

    def written(self, given: Sequence[str | list[int]]) -> list[str]:
        """Return texts as they are, and those that came as token ids written out."""
        return [each if isinstance(each, str) else self.text_of(each) for each in given]

    def tokenized(self, texts: Sequence[str], special: bool) -> list[bytes]:
        """Return the tokens of each text as JSON, not cut."""
        pieces = self.model.encoder.texts.pieces
        return [dumps([piece.to_json() for piece in pieces(text, special=special)]) for text in texts]

    def text_of(self, ids: Sequence[int]) -> str:
        """Return the text of token ids of this model's own vocabulary."""
        if any(not 0 <= number < self.size for number in ids):
            raise Sen2ProError(
                f"a token id is outside this model's vocabulary of {self.size} tokens; send texts instead"
            )
        text = self.model.encoder.texts.text(ids)
        if not text.strip():
            raise Sen2ProError("a list of token ids is empty, or has no token but special ones")
        return text

    def plain(self, prompt: str, normalize: bool | None = None) -> Lane:
        """Return the lane of plain vectors: units are `Text`, results are rows (k,)."""
        sampler = self.model.sampler

        def run(units: list[Text]) -> Array:
            states = sampler.plain([unit.text for unit in units], prompt, tokens=[unit.tokens for unit in units])
            return sampler.finish(states.vectors, normalize=normalize)

        return Lane(("plain", prompt, normalize), run)

    def distributions(self, prompt: str) -> Lane:
        """Return the lane of Gaussians: units are `Text`, results are `Distribution`."""

        def run(units: list[Text]) -> list[Distribution]:
            gaussian = self.model.encode([unit.text for unit in units], prompt=prompt, show_progress_bar=False)
            totals, cover = gaussian.total_variance.tolist(), gaussian.coverage
            covers: list[Any] = [None] * len(units) if cover is None else cover.tolist()
            return [Distribution(*row) for row in zip(gaussian.mean, gaussian.variance, totals, covers, strict=True)]

        return Lane(("distributions", prompt), run)

    def comparisons(self) -> Lane:
        """Return the lane of comparisons: units are pairs of texts, results what is said of them."""

        def run(pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
            found = compare_pairs(self.model, [first for first, _ in pairs], [second for _, second in pairs])
            return [{**asdict(each), "word": each.word, "answer": str(each)} for each in found]

        return Lane(("comparisons",), run)

    def specificity(self) -> Lane:
        """Return the lane of specificity: units are `Text`, results its numbers."""

        def run(units: list[Text]) -> list[dict[str, float]]:
            found = self.model.specificity([unit.text for unit in units], show_progress_bar=False)
            columns = {name: getattr(found, name).tolist() for name in ("score", "at_length", "value")}
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

        return Lane(("specificity",), run)

    def search(self, asked: Mapping[str, Any]) -> Lane:
        """Return the lane of searches with these options: units are `Text`, results what was found."""
        index = self.index
        assert index is not None

        def run(units: list[Text]) -> list[dict[str, Any]]:
            return [found.to_json() for found in index.search([unit.text for unit in units], **asked)]

        return Lane(("search", repr(sorted(asked.items()))), run, apart=True)

    def search_weight(self, k: int, where: Mapping[str, Any] | None) -> int:
        """Return what a query costs beside its passes, in tokens."""
        values = sum(len(each) if isinstance(each, list) else 1 for each in (where or {}).values())
        return k // _HITS + self.rows * (1 + values) // _ROWS + len(repr(where)) // _SENT

    def classify(self) -> Lane:
        """Return the lane of classification: units are `Text`, results the label and all probabilities."""
        classifier = self.classifier
        assert classifier is not None
        labels = classifier.classes_.tolist()

        def run(units: list[Text]) -> list[dict[str, Any]]:
            rows = classifier.predict_proba([unit.text for unit in units], show_progress_bar=False).tolist()
            best = [max(range(len(labels)), key=row.__getitem__) for row in rows]
            return [
                {
                    "label": labels[first], "probability": row[first],
                    "probabilities": {str(label): share for label, share in zip(labels, row, strict=True)},
                }
                for first, row in zip(best, rows, strict=True)
            ]  # fmt: skip

        return Lane(("classify",), run)

    def warm_up(self) -> None:
        """Run every lane once: the first pass of a network takes longer, and what fails is to fail now."""
        units = self.texts(_WARM, self.prompt(None))
        self.plain(self.prompt(None)).run(units)
        self.distributions(self.prompt(None)).run(units[:2])
        if self.compares:
            self.comparisons().run([_WARM[:2]])
        if self.specifies:
            self.specificity().run(units)
        if self.index is not None:
            self.search({}).run(units[:1])
        if self.classifier is not None:
            self.classify().run(units[:1])
