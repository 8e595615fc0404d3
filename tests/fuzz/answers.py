"""What gives answers: specificity heads, confidences of pairs and of search, and the files of pairs."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.numpy import load as load_tensors

from fuzz import originals
from fuzz.engine import Case, Family, Wrong
from fuzz.inputs import LONGEST, column_of, compare, encoded, is_sentence, parquet_bytes, readable, records_of, text
from fuzz.mutations import HALF, odd_value, rewritten, spelled, spoiled
from fuzz.stored import changed_file, check_same, forged_tensors, other_tensors
from sen2pro.calibration import MatchConfidence
from sen2pro.calibration.hits import SearchConfidence
from sen2pro.estimation import specificity
from sen2pro.io import documents
from sen2pro.io.inputs import Pair, Reader
from sen2pro.io.inputs import pairs as read_pairs

PAIRS_FILE, SEARCH_FILE = (f"{kind.FILE}.json" for kind in (MatchConfidence, SearchConfidence))


def forged_document(data: bytes, rng: Random) -> bytes:
    """Return a JSON document that says something else; who forges one can compute its digest anew."""
    content = json.loads(data)
    del content[documents.DIGEST]
    content = rewritten(content, rng)
    if isinstance(content, dict) and rng.random() < 0.8:
        content[documents.DIGEST] = documents.digest_of(content)
    return spelled(content, rng)


class SpecificityHeads(Family):
    """The folder of a specificity head, spoiled or forged."""

    name, weight = "specificity head", 4

    def make(self, rng: Random) -> Case:
        """Return one of its files; who forges the numbers can compute their hash anew."""
        files = originals.specificity()[0]
        file = rng.choice((specificity.CONFIG, specificity.TENSORS))
        if rng.random() < 0.5:
            return Case(spoiled(files[file], rng), {"file": file, "forged": False})
        if file == specificity.CONFIG:
            return Case(forged_document(files[file], rng), {"file": file, "forged": True})
        data = rng.choice((forged_tensors, other_tensors, other_tensors))(files[file], rng)
        return Case(data, {"file": file, "forged": True, "hash": rng.random() < 0.9})

    def run(self, case: Case, folder: Path) -> Any:
        """Read it, and use it as a model does."""
        files, original = originals.specificity()
        changed_file(files, case.options["file"], case.data, folder)
        if case.options.get("hash"):
            self._with_hash(files[specificity.CONFIG], case.data, folder)
        head = specificity.SpecificityHead.load(folder)
        if not case.options["forged"]:
            check_same(vars(head), vars(original), [])
        states = originals.states()
        if head.layers != (1,) or len(head.states) != 2 * originals.K:
            return None  # refused when head and model meet
        with np.errstate(all="ignore"):
            value = head.value(states)
            found = value, head.score(value), head.at_length(value, states.words)
        if not all(((each >= 0) & (each <= 100)).all() for each in found[1:] if np.isfinite(each).all()):
            raise Wrong(f"percentages outside 0 to 100: {found[1:]}")
        return found

    @staticmethod
    def _with_hash(config: bytes, numbers: bytes, folder: Path) -> None:
        try:
            arrays = {name: each for name, each in load_tensors(numbers).items() if name in specificity._ARRAYS}
        except Exception:  # what cannot be read has no hash
            return
        content = json.loads(config)
        del content[documents.DIGEST]
        documents.write(folder / specificity.CONFIG, content | {"hash": specificity._hash(arrays)})


def check_probabilities(*found: Any) -> None:
    """Raise if these are no probabilities."""
    for each in found:
        values = np.asarray(each)
        if np.isfinite(values).all() and not ((values >= 0) & (values <= 1)).all():
            raise Wrong(f"no probabilities: {values}")


class MatchConfidences(Family):
    """The folder of a confidence of pairs, spoiled or forged."""

    name, weight = "match confidence", 4

    def make(self, rng: Random) -> Case:
        """Return its file."""
        data, forged = originals.match_confidence()[0][PAIRS_FILE], rng.random() < 0.6
        return Case(forged_document(data, rng) if forged else spoiled(data, rng), {"forged": forged})

    def run(self, case: Case, folder: Path) -> Any:
        """Read it, and ask it about pairs."""
        (folder / PAIRS_FILE).write_bytes(case.data)
        found = MatchConfidence.load(folder, model=originals.tiny())
        first, second = ["the dog runs", "x"], ["a x sleeps", "rain today"]
        with np.errstate(all="ignore"):
            rules = [found.threshold(precision=0.6), found.threshold(recall=0.6), found.threshold(false_matches=300)]
            matches = found.match(first, second, rules[0])
        check_probabilities(matches.probability)
        answers = matches.probability, [(rule.threshold, rule.share) for rule in rules if rule], str(found.report())
        if not case.options["forged"]:
            original = originals.match_confidence()[1]
            check_same(matches.probability, original.match(first, second, rules[0]).probability, [])
            check_same([found.state.digests, found.report()], [original.state.digests, original.report()], [])
        return answers


class SearchConfidences(Family):
    """The folder of a confidence of search, spoiled or forged."""

    name, weight = "search confidence", 4

    def make(self, rng: Random) -> Case:
        """Return its file."""
        data, forged = originals.search_confidence()[0][SEARCH_FILE], rng.random() < 0.6
        return Case(forged_document(data, rng) if forged else spoiled(data, rng), {"forged": forged})

    def run(self, case: Case, folder: Path) -> Any:
        """Read it, and ask it about queries."""
        (folder / SEARCH_FILE).write_bytes(case.data)
        found = SearchConfidence.load(folder)
        scores = originals.hits(3, min(found.hits, 1000))[0]
        extras: dict[str, Any] = {name: np.full(3, 0.5) for name in found.needs}
        with np.errstate(all="ignore"):
            probability, rule = found.probability(scores, **extras), found.abstain(0.6)
            each = found.probability_each(scores, **extras)
            has_sets = found.state.later and found.state.testing.labels
            depth = found.answer_set(scores, **extras) if has_sets else np.ones(3)
        check_probabilities(probability, each)
        if not ((depth >= 1) & (depth <= found.hits + 1)).all():
            raise Wrong(f"answer sets of {depth} hits, of {found.hits}")
        if not case.options["forged"]:
            original = originals.search_confidence()[1]
            expected = [original.probability(scores, **extras), original.probability_each(scores, **extras)]
            check_same([probability, each], expected, [])
            check_same(found.report(), original.report(), [])
        return probability, each, rule and (rule.threshold, rule.share), str(found.report())


class Pairs(Family):
    """Files of pairs, with labels or without."""

    name, weight = "pairs", 10

    def make(self, rng: Random) -> Case:
        """Return a table, JSON lines or Parquet with the columns first, second and label."""
        suffix = rng.choice((".csv", ".csv", ".csv", ".tsv", ".jsonl", ".parquet"))
        rows = [[text(rng, 0.03), text(rng, 0.03), self._label(rng)] for _ in range(rng.randint(0, 6))]
        names = ["first", "second", "label"]
        if rng.random() < 0.1:
            names[rng.randrange(3)] = rng.choice(("First", "", "text", "first", "label\0"))
        labelled, whole = rng.random() < 0.7, names == ["first", "second", "label"]
        options: dict[str, Any] = {"suffix": suffix, "labelled": labelled}
        if suffix == ".parquet":
            columns = [column_of(rng, len(rows))[0] if rng.random() < 0.2 else None for _ in names]
            texts = [[str(row[i]) for row in rows] for i in range(3)]
            arrays = [pa.array(values) if each is None else each for each, values in zip(columns, texts, strict=True)]
            data = parquet_bytes(pa.Table.from_arrays(arrays, names=names), rng)
            return Case(spoiled(data, rng) if rng.random() < 0.3 else data, options)
        if suffix == ".jsonl":
            lines = [dict(zip(names, row, strict=True)) for row in rows]
            data = b"\n".join(spelled(rewritten(x, rng) if rng.random() < 0.2 else x, rng) for x in lines)
            return Case(spoiled(data, rng) if rng.random() < 0.3 else data, options)
        out = io.StringIO()
        writer = csv.writer(out, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
        spelled_rows = [[*row[:2], str(row[2]).replace(HALF, "?")] for row in rows]
        try:
            writer.writerows([names, *spelled_rows])
        except csv.Error:  # Python 3.10 cannot write a NUL
            whole = False
        data, intact = encoded(out.getvalue(), rng)
        plain = all(row[2] in (0, 1, 0.5) for row in rows) and not any("\r" in row[i] for row in rows for i in (0, 1))
        if whole and intact and plain and readable([each for row in rows for each in row[:2]]):
            options["expected"] = [(*row[:2], float(row[2]) if labelled else None) for row in rows]
        return Case(data, options)

    @staticmethod
    def _label(rng: Random) -> Any:
        return odd_value(rng) if rng.random() < 0.05 else rng.choice((0, 1, 1, 0, True, False, 0.5))

    def run(self, case: Case, folder: Path) -> None:
        """Read it, as `sen2pro calibrate` and `sen2pro match` do."""
        path = folder / f"pairs{case.options['suffix']}"
        path.write_bytes(case.data)
        labelled = case.options["labelled"]

        def source() -> Reader[Pair]:
            return read_pairs(str(path), with_labels=labelled, longest_line=LONGEST)

        records = records_of(source)
        pairs = [pair for chunk in source().chunks(2) for pair in chunk]
        if [pair.text for pair in pairs] != [record.text for record in records]:
            raise Wrong("pairs in chunks are others than pairs one by one")
        for pair in pairs:
            if not is_sentence(pair.second) or (labelled and not math.isfinite(pair.label)):
                raise Wrong(f"no pair: {pair!r}")
        found = [(pair.text, pair.second, pair.label if labelled else None) for pair in pairs]
        compare(found, case.options.get("expected"))


FAMILIES = (SpecificityHeads(), MatchConfidences(), SearchConfidences(), Pairs())
