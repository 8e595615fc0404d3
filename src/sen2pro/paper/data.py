"""Read the evaluation sets, and say exactly where something is wrong with a file.

Tables are UTF-8 with a header and one TAB between fields, without quoting; the others hold one JSON object a line.
"""

from __future__ import annotations

import reprlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.metrics.sts import Pairs, spread
from sen2pro.paper import catalogue
from sen2pro.paper.catalogue import CLASSIFICATION_SETS, DIALOGUE_SETS, STS_SETS, WMT_PAIRS
from sen2pro.paper.catalogue import DataMissing as DataMissing
from sen2pro.paper.files import Row, objects, table

T = TypeVar("T")

CLASSES = {
    "ag_news": ("World", "Sports", "Business", "Sci/Tech"),
    "dbpedia14": (
        "Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation", "Building",
        "NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork",
    ),
    "imdb": ("neg", "pos"),
    "yahoo": (
        "Society & Culture", "Science & Mathematics", "Health", "Education & Reference", "Computers & Internet",
        "Sports", "Business & Finance", "Entertainment & Music", "Family & Relationships", "Politics & Government",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class EvalRank:
    """Positive pairs (query, its match) and the background sentences, which contain those of the pairs."""

    pairs: tuple[tuple[str, str], ...]
    background: tuple[str, ...]

    def head(self, limit: int) -> EvalRank:
        """Return `limit` pairs, evenly spread, before their own sentences and the first 10 * `limit` others."""
        pairs = tuple(self.pairs[i] for i in spread(len(self.pairs), limit))
        wanted = {sentence for pair in pairs for sentence in pair}
        others = [sentence for sentence in self.background if sentence not in wanted][: 10 * limit]
        wanted.update(others)
        return EvalRank(pairs, tuple(sentence for sentence in self.background if sentence in wanted))


@dataclass(frozen=True)
class Quadruple:
    """An analogy a : b :: c : d."""

    relation: str
    a: str
    b: str
    c: str
    d: str


@dataclass(frozen=True)
class Response:
    """A system's answer in a dialogue, its mean human score, and the real system it came from (`origin`)."""

    item: int
    system: str
    reference: str
    response: str
    human: float
    origin: str


@dataclass(frozen=True)
class Systems:
    """A language pair: references, and the output and human score of every system that has both."""

    references: tuple[str, ...]
    outputs: dict[str, tuple[str, ...]]
    human: dict[str, float]


@dataclass(frozen=True)
class Segment:
    """A translated segment with a human score of its own."""

    reference: str
    hypothesis: str
    human: float


@dataclass(frozen=True)
class Labelled:
    """Texts with a class number each; `names` are the classes in the order of their numbers."""

    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    names: tuple[str, ...]


def read_sts(name: str) -> Pairs:
    """Read one of STS_SETS, from the data folder or from the Hugging Face hub.

    SICK scores go from 1 to 5, all others from 0 to 5. Sub-tasks are known in the data folder only.
    """
    one_of("STS set", name, STS_SETS)
    file = f"sts/{name}.tsv"
    rows = _some(list(_rows(name, file, "score", "sentence1", "sentence2")), file)
    subtasks = tuple(row.text("subtask") if "subtask" in row.fields else "" for row in rows)
    left, right = (tuple(row.text(column) for row in rows) for column in ("sentence1", "sentence2"))
    low = 1 if name.startswith("sick") else 0
    return Pairs(name, subtasks, left, right, np.array([row.number("score", low, 5) for row in rows], np.float64))


def read_evalrank() -> EvalRank:
    """Read the positive pairs and the background sentences of EvalRank."""
    file = "evalrank/pos_pair.tsv"
    path = catalogue.need("evalrank/background_sent.tsv")
    background = tuple(row.text("sentence") for row in table(path, "sentence"))
    known = set(background)
    pairs = []
    for row in table(catalogue.need(file), "sentence1", "sentence2"):
        for column in ("sentence1", "sentence2"):
            if row.text(column) not in known:
                raise row.wrong(column, f"{reprlib.repr(row.text(column))} is not in {path.name}, where it must be too")
        pairs.append((row.text("sentence1"), row.text("sentence2")))
    return EvalRank(tuple(_some(pairs, file)), background)


def read_analogy(name: str) -> list[Quadruple]:
    """Read the analogies of `sick`, or of `sats`, where two neighbouring pairs of a relation make one, in a ring."""
    one_of("analogy set", name, ("sick", "sats"))
    if name == "sick":
        file, columns = "analogy/sick_quadruples.tsv", ("relation", "a", "b", "c", "d")
        rows = table(catalogue.need(file), *columns)
        return _some([Quadruple(*(row.text(column) for column in columns)) for row in rows], file)
    file = "analogy/sats_pairs.tsv"
    relations: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in table(catalogue.need(file), "relation", "a", "b"):
        relations[row.text("relation")].append((row.text("a"), row.text("b")))
    for relation, pairs in relations.items():
        if len(pairs) < 2:
            raise Sen2ProError(f"{file}: the relation {relation!r} has one pair; an analogy needs two")
    quadruples = [
        Quadruple(relation, *pair, *after)
        for relation, pairs in relations.items()
        for pair, after in zip(pairs, pairs[1:] + pairs[:1], strict=True)
    ]
    return _some(quadruples, file)


def read_dialogue(name: str) -> list[Response]:
    """Read one of DIALOGUE_SETS; where there is a score for each criterion, `human` is their mean."""
    one_of("dialogue set", name, DIALOGUE_SETS)
    file = f"dialogue/{name}.jsonl"
    responses = []
    for row in objects(catalogue.need(file)):
        system = row.text("system")
        origin = row.text("origin") if "origin" in row.fields else system
        texts = row.text("reference"), row.text("response")
        responses.append(Response(row.whole("item"), system, *texts, row.number("human"), origin))
    return _some(responses, file)


def read_wmt_systems(pair: str) -> Systems:
    """Read the outputs and human scores of a language pair of WMT_PAIRS.

    An output may be blank: a system that says nothing has said that.
    """
    one_of("language pair", pair, WMT_PAIRS)
    file, scores = f"wmt17/{pair}.tsv", "wmt17/da_sys.tsv"
    rows = list(table(catalogue.need(file), "sid", "reference"))
    human = {
        row.text("system"): row.number("human")
        for row in table(catalogue.need(scores), "lp", "system", "human")
        if row.text("lp") == pair
    }
    columns = list(_some(rows, file)[0].fields)
    outputs = {system: tuple(row.text(system, blank=True) for row in rows) for system in columns if system in human}
    if not outputs:
        raise catalogue.missing(scores, f"no system of {file} has a human score in {scores}")
    references = tuple(row.text("reference") for row in rows)
    return Systems(references, outputs, {system: human[system] for system in outputs})


def read_wmt_segments(pair: str) -> list[Segment]:
    """Read the segments of a language pair of WMT_PAIRS that have human scores of their own."""
    one_of("language pair", pair, WMT_PAIRS)
    file = "wmt17/da_seg.jsonl"
    segments = [
        Segment(row.text("reference"), row.text("hypothesis", blank=True), row.number("human"))
        for row in objects(catalogue.need(file))
        if row.text("lp") == pair
    ]
    if not segments:
        raise catalogue.missing(file, f"there are no segments of {pair} in {file}")
    return segments


def read_classification(name: str, split: str) -> Labelled:
    """Read one of CLASSIFICATION_SETS from the data folder or from the Hugging Face hub, whose train sets are whole."""
    one_of("classification set", name, CLASSIFICATION_SETS)
    one_of(f"split of {name}", split, catalogue.splits(name))
    file = f"textcls/{name}_{split}.jsonl"
    names = CLASSES[name]
    read = [(_titled(row), row.whole("label", len(names) - 1)) for row in _rows(f"{name}_{split}", file)]
    texts, labels = zip(*_some(read, file), strict=True)
    return Labelled(texts, np.array(labels, dtype=np.int64), names)


def _titled(row: Row) -> str:
    """Return the text with its title before it."""
    text = row.text("content" if "content" in row.fields else "text")  # DBpedia on the hub calls it content
    return f"{row.text('title')} {text}" if row.fields.get("title") else text


def _rows(name: str, file: str, *columns: str) -> Iterator[Row]:
    """Yield the rows of a set, from its file (a table if it has `columns`) or from the hub where there is none."""
    path = catalogue.locate(file)
    if path is not None:
        yield from table(path, *columns) if columns else objects(path)
    else:
        for number, fields in enumerate(catalogue.fetch(name, file), 1):
            yield Row(f"{catalogue.HUB[name][0]} on the hub, row {number}", fields)


def _some(found: list[T], file: str) -> list[T]:
    if not found:
        raise Sen2ProError(f"{file} is empty")
    return found
