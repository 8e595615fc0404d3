"""Read the evaluation sets: tables with a header and TABs, without quoting, or files with a JSON object a line."""

from __future__ import annotations

import reprlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, one_of
from sen2pro_lab.metrics.sts import Pairs, spread
from sen2pro_lab.paper import catalogue
from sen2pro_lab.paper.catalogue import CLASSIFICATION_SETS, DIALOGUE_SETS, STS_SETS, WMT_PAIRS
from sen2pro_lab.paper.catalogue import DataMissing as DataMissing
from sen2pro_lab.paper.files import Row, objects, table

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


class EvalRank(NamedTuple):
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


class Quadruple(NamedTuple):
    """An analogy a : b :: c : d."""

    relation: str
    a: str
    b: str
    c: str
    d: str


class Response(NamedTuple):
    """A system's answer in a dialogue, its mean human score, and the real system it came from (`origin`)."""

    item: int
    system: str
    reference: str
    response: str
    human: float
    origin: str


class Systems(NamedTuple):
    """A language pair: references, and the output and human score of every system that has both."""

    references: tuple[str, ...]
    outputs: dict[str, tuple[str, ...]]
    human: dict[str, float]


class Segment(NamedTuple):
    """A translated segment with its human score."""

    reference: str
    hypothesis: str
    human: float


class Labelled(NamedTuple):
    """Texts with a class number each; `names` are the classes in the order of their numbers."""

    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    names: tuple[str, ...]

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Labelled:
        """Return the texts at some places."""
        return Labelled(tuple(self.texts[i] for i in rows), self.labels[rows], self.names)


def read_sts(name: str) -> Pairs:
    """Read one of STS_SETS, from the data folder or from the Hugging Face hub.

    SICK scores go from 1 to 5, all others from 0 to 5. Sub-tasks are known in the data folder only.
    """
    rows = _rows(f"sts/{one_of('STS set', name, STS_SETS)}.tsv", "score", "sentence1", "sentence2")
    subtasks = tuple(row.text("subtask") if "subtask" in row.fields else "" for row in rows)
    left, right = (tuple(row.text(column) for row in rows) for column in ("sentence1", "sentence2"))
    low = 1 if name.startswith("sick") else 0
    return Pairs(name, subtasks, left, right, np.array([row.number("score", low, 5) for row in rows], np.float64))


def read_evalrank() -> EvalRank:
    """Read the positive pairs and the background sentences of EvalRank."""
    background = tuple(row.text("sentence") for row in _rows("evalrank/background_sent.tsv", "sentence"))
    known = set(background)
    rows = _rows("evalrank/pos_pair.tsv", "sentence1", "sentence2")
    for row in rows:
        for column in ("sentence1", "sentence2"):
            if (text := row.text(column)) not in known:
                raise row.wrong(column, f"{reprlib.repr(text)} is not in background_sent.tsv, where it must be too")
    return EvalRank(tuple((row.text("sentence1"), row.text("sentence2")) for row in rows), background)


def read_analogy(name: str) -> list[Quadruple]:
    """Read the analogies of `sick`, or of `sats`, where two neighbouring pairs of a relation make one, in a ring."""
    one_of("analogy set", name, ("sick", "sats"))
    if name == "sick":
        columns = ("relation", "a", "b", "c", "d")
        return [Quadruple(*map(row.text, columns)) for row in _rows("analogy/sick_quadruples.tsv", *columns)]
    relations: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in _rows("analogy/sats_pairs.tsv", "relation", "a", "b"):
        relations[row.text("relation")].append((row.text("a"), row.text("b")))
    quadruples = []
    for relation, pairs in relations.items():
        if len(pairs) < 2:
            raise Sen2ProError(f"analogy/sats_pairs.tsv: the relation {relation!r} has one pair; an analogy needs two")
        following = zip(pairs, pairs[1:] + pairs[:1], strict=True)
        quadruples += [Quadruple(relation, *pair, *after) for pair, after in following]
    return quadruples


def read_dialogue(name: str) -> list[Response]:
    """Read one of DIALOGUE_SETS; where there is a score for each criterion, `human` is their mean."""
    responses = []
    for row in _rows(f"dialogue/{one_of('dialogue set', name, DIALOGUE_SETS)}.jsonl"):
        system, reference, response = map(row.text, ("system", "reference", "response"))
        origin = row.text("origin") if "origin" in row.fields else system
        responses.append(Response(row.whole("item"), system, reference, response, row.number("human"), origin))
    return responses


def read_wmt_systems(pair: str) -> Systems:
    """Read the outputs and human scores of a language pair of WMT_PAIRS.

    An output may be blank: a system that says nothing has said that.
    """
    file, scores = f"wmt17/{one_of('language pair', pair, WMT_PAIRS)}.tsv", "wmt17/da_sys.tsv"
    rows = _rows(file, "sid", "reference")
    scored = [row for row in _rows(scores, "lp", "system", "human") if row.text("lp") == pair]
    human = {row.text("system"): row.number("human") for row in scored}
    outputs = {name: tuple(row.text(name, blank=True) for row in rows) for name in rows[0].fields if name in human}
    if not outputs:
        raise catalogue.missing(scores, f"no system of {file} has a human score in {scores}")
    references = tuple(row.text("reference") for row in rows)
    return Systems(references, outputs, {system: human[system] for system in outputs})


def read_wmt_segments(pair: str) -> list[Segment]:
    """Read the segments of a language pair of WMT_PAIRS that have human scores of their own."""
    one_of("language pair", pair, WMT_PAIRS)
    file = "wmt17/da_seg.jsonl"
    rows = [row for row in _rows(file) if row.text("lp") == pair]
    if not rows:
        raise catalogue.missing(file, f"there are no segments of {pair} in {file}")
    return [Segment(row.text("reference"), row.text("hypothesis", blank=True), row.number("human")) for row in rows]


def read_classification(name: str, split: str) -> Labelled:
    """Read one of CLASSIFICATION_SETS from the data folder or from the Hugging Face hub, whose train sets are whole."""
    one_of("classification set", name, CLASSIFICATION_SETS)
    one_of(f"split of {name}", split, catalogue.splits(name))
    names, rows = CLASSES[name], _rows(f"textcls/{name}_{split}.jsonl")
    labels = np.array([row.whole("label", len(names) - 1) for row in rows], np.int64)
    return Labelled(tuple(map(_titled, rows)), labels, names)


def _titled(row: Row) -> str:
    """Return the text with its title before it."""
    text = row.text("content" if "content" in row.fields else "text")  # DBpedia on the hub calls it content
    return f"{row.text('title')} {text}" if row.fields.get("title") else text


def _rows(file: str, *columns: str) -> list[Row]:
    """Return the rows of a file (a table if it has `columns`), or of the hub where there is no such file."""
    path = catalogue.locate(file)
    if path is not None:
        rows = list(table(path, *columns) if columns else objects(path))
    else:
        hub = enumerate(catalogue.fetch(file), 1)
        rows = [Row(f"{catalogue.HUB[PurePath(file).stem][0]} on the hub, row {number}", row) for number, row in hub]
    if not rows:
        raise Sen2ProError(f"{file} is empty")
    return rows
