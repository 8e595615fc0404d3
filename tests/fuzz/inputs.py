"""Files of sentences: text, CSV, TSV, JSON lines, Parquet, and compressed ones."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.engine import Case, Family, Wrong
from fuzz.mutations import HALF, ODD_TEXTS, odd_value, rewritten, spelled, spoiled
from sen2pro import Sen2ProError
from sen2pro.errors import has_surrogates
from sen2pro.io.inputs import Pair, Reader, Record, labelled, sentences
from sen2pro.io.inputs import pairs as read_pairs
from sen2pro.validation import is_blank

SENTENCES = ("the dog runs", "a man plays the guitar", "rain today", "x", "Größe und Maß", "“quoted”, with commas")
LONGEST = 3000  # bytes of a line: small, so that too long ones come up
ENCODINGS = ("utf-8",) * 8 + ("utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252", "utf-32", "shift-jis")


def text(rng: Random, odd: float = 0.2) -> str:
    """Return a sentence, or something like one."""
    if rng.random() > odd:
        return rng.choice(SENTENCES)
    return rng.choice((rng.choice(ODD_TEXTS), rng.choice(SENTENCES) + rng.choice(ODD_TEXTS), rng.choice(ODD_TEXTS) * 2))


def is_sentence(value: Any) -> bool:
    """Tell whether a value is what a file of sentences may hold."""
    return isinstance(value, str) and not is_blank(value) and "\0" not in value and not has_surrogates(value)


def readable(values: list[Any]) -> bool:
    """Tell whether all of these can be read as sentences, so that they must be."""
    return all(is_sentence(value) and len(value.encode()) < LONGEST // 4 for value in values)


def encoded(content: str, rng: Random) -> tuple[bytes, bool]:
    """Return a text as bytes of some encoding, often spoiled, and whether it is still UTF-8 and whole."""
    encoding = rng.choice(ENCODINGS)
    data = content.encode(encoding, "replace")
    if rng.random() < 0.5:
        return spoiled(data, rng), False
    return data, encoding in ("utf-8", "utf-8-sig")


def _tried(function: Callable[[], Any]) -> tuple[Any, Sen2ProError | None]:
    try:
        return function(), None
    except Sen2ProError as error:
        return None, error


def records_of(make: Callable[[], Reader[Any]]) -> list[Record]:
    """Read a source twice, as a command does: to count, then to use. Both must agree, and give sentences only."""
    counted, refused = _tried(lambda: make().count())
    records, error = _tried(lambda: list(make()))
    if (refused is None) != (error is None):
        raise Wrong(f"counting says {refused or counted}, reading {error or len(records)}")
    if error is not None:
        raise error
    if counted != len(records):
        raise Wrong(f"{counted} sentences were counted, {len(records)} read")
    for record in records:
        if not is_sentence(record.text):
            raise Wrong(f"no sentence: {record.text!r}")
        if record.id is not None and (not isinstance(record.id, str) or "\0" in record.id or has_surrogates(record.id)):
            raise Wrong(f"no id: {record.id!r}")
    return records


def compare(found: list[Any], expected: list[Any] | None) -> None:
    """Raise if a whole file was not read as it was written."""
    if expected is not None and found != expected:
        other = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), "the last")
        raise Wrong(f"{len(found)} of {len(expected)} were read, and row {other} is not what was written")


class Sentences(Family):
    """A family that is read with `sentences`."""

    suffix: str

    def run(self, case: Case, folder: Path) -> Any:
        """Read it."""
        path = folder / f"input{case.options.get('suffix', self.suffix)}"
        path.write_bytes(case.data)
        options = {"skip_blank": bool(case.options.get("skip_blank")), "longest_line": LONGEST}
        found = records_of(
            lambda: sentences(str(path), case.options.get("column"), case.options.get("id_column"), **options)
        )
        expected = case.options.get("expected")
        compare([(record.id, record.text) for record in found], None if expected is None else list(expected))


class Text(Sentences):
    """One sentence per line."""

    name, weight, suffix = "text", 12, ".txt"

    def make(self, rng: Random) -> Case:
        """Return lines with odd letters, in odd encodings."""
        odd = rng.choice((0.0, 0.2))
        lines = [text(rng, odd).replace("\n", " ") for _ in range(rng.randint(0, 6))]
        end = rng.choice(("\n", "\n", "\r\n", "\r", "\n\n"))
        data, whole = encoded(end.join(lines) + rng.choice(("", end)), rng)
        whole = whole and end in ("\n", "\r\n") and readable(lines) and not "".join(lines[:1]).startswith("\ufeff")
        expected = [(None, line.rstrip("\r")) for line in lines] if whole else None
        return Case(data, {"skip_blank": rng.random() < 0.3, "expected": expected})


NAMES = (
    "text",
    "sentence",
    "id",
    "label",
    "x",
    "",
    " text",
    "Text",
    "téxt",
    "a,b",
    "a\tb",
    'q"q',
    "\x1b[31m",
    "text\0",
)


def columns(rng: Random) -> tuple[list[str], str | None, str | None]:
    """Return names of columns, and which are asked for."""
    names = ["text", *rng.sample(NAMES[2:5], rng.randint(0, 2))]
    if rng.random() < 0.3:
        names = [rng.choice(NAMES) for _ in range(rng.randint(0, 3))]
    rng.shuffle(names)
    asked = rng.choice((None, None, None, *names, "nowhere"))
    return names, asked, rng.choice((None, None, *names, "nowhere"))


def expected_of(rows: list[dict[str, Any]], names: list[str], column: str | None, id_column: str | None) -> Any:
    """Return the ids and texts that must be read from rows without a fault, None where there is one."""
    if len(set(names)) < len(names) or any("\0" in name for name in names):
        return None
    if column is None:
        column = next((name for name in ("text", "sentence") if name in names), None)
    if column not in names or (id_column is not None and id_column not in names):
        return None
    found = [(None if id_column is None else row[id_column], row[column]) for row in rows]
    texts = [each for pair in found for each in pair if each is not None]
    if id_column is not None and any(pair[0] is None for pair in found):
        return None
    return found if readable(texts) else None


class Table(Sentences):
    """Comma or tab separated values."""

    def __init__(self, suffix: str, weight: int) -> None:
        self.name, self.suffix, self.weight = suffix[1:], suffix, weight

    def make(self, rng: Random) -> Case:
        """Return a table with quotes, ragged rows, odd names and encodings."""
        names, column, id_column = columns(rng)
        odd = rng.choice((0.0, 0.0, 0.2))
        rows = [{name: text(rng, odd) for name in names} for _ in range(rng.randint(0, 5))]
        content, whole = self._written(names, rows, rng)
        data, intact = encoded(content, rng)
        expected = expected_of(rows, names, column, id_column) if whole and intact else None
        if any("\r" in field for row in rows for field in row.values()) or any(map(_is_odd_name, names)):
            expected = None
        return Case(data, {"column": column, "id_column": id_column, "expected": expected})

    def _written(self, names: list[str], rows: list[dict[str, str]], rng: Random) -> tuple[str, bool]:
        separator = "\t" if self.suffix == ".tsv" else ","
        lines = [names, *([row[name] for name in names] for row in rows)]
        if rng.random() < 0.2:  # by hand, with the faults of that
            for line in lines:
                if line and rng.random() < 0.3:
                    rng.choice((line.pop, lambda line=line: line.append("more")))()
            quote = rng.choice(("", '"', "'", '""'))
            return "\n".join(separator.join(f"{quote}{field}{quote}" for field in line) for line in lines), False
        out = io.StringIO()
        quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC))
        end = rng.choice(("\n", "\r\n"))
        wrong = rng.random() < 0.1
        writer = csv.writer(out, delimiter=";" if wrong else separator, quoting=quoting, lineterminator=end)
        try:
            writer.writerows(lines)
        except csv.Error:  # Python 3.10 cannot write a NUL
            return "\n".join(separator.join(line) for line in lines), False
        return out.getvalue(), not wrong and bool(names)


def _is_odd_name(name: str) -> bool:
    return not name.isascii() or name.strip() != name or any(sign in name for sign in ",;\t|\0\x1b") or not name


class JsonLines(Sentences):
    """An object a line."""

    name, weight, suffix = "jsonl", 12, ".jsonl"

    def make(self, rng: Random) -> Case:
        """Return objects with odd values, keys and spellings."""
        names, column, id_column = columns(rng)
        rows = [{name: text(rng, 0.1) for name in names} for _ in range(rng.randint(0, 5))]
        if rng.random() < 0.6:
            lines = [spelled(rewritten(row, rng) if rng.random() < 0.5 else row, rng) for row in rows]
            data = rng.choice((b"\n", b"\n", b"\r\n", b"\n\n")).join(lines)
            return Case(data, {"column": column, "id_column": id_column, "suffix": rng.choice((".jsonl", ".ndjson"))})
        data = b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
        expected = expected_of(rows, list(dict.fromkeys(names)), column, id_column)
        return Case(data, {"column": column, "id_column": id_column, "expected": expected})


def _strings(rng: Random, rows: int) -> list[str | None]:
    gap = rng.choice((0.0, 0.0, 0.3))
    return [None if rng.random() < gap else text(rng, rng.choice((0.0, 0.1))) for _ in range(rows)]


def _not_unicode(rng: Random, rows: int) -> pa.Array:
    values = pa.array([rng.choice((b"the dog", b"\xff\xfe", b"a\xc3")) for _ in range(rows)], pa.binary())
    return pa.StringArray.from_buffers(rows, *values.buffers()[1:])


def column_of(rng: Random, rows: int) -> tuple[pa.Array, list[Any] | None]:
    """Return a column of some type, and its texts if it is a plain one."""
    texts = _strings(rng, rows)
    kinds = {
        "string": lambda: pa.array(texts, pa.string()),
        "large": lambda: pa.array(texts, pa.large_string()),
        "dictionary": lambda: pa.array(texts, pa.string()).dictionary_encode(),
        "view": lambda: pa.array(texts, pa.string_view()),
        "binary": lambda: pa.array([each and each.encode() for each in texts], pa.binary()),
        "not unicode": lambda: _not_unicode(rng, rows),
        "whole": lambda: pa.array([rng.choice((0, -1, 2**62, None)) for _ in range(rows)], pa.int64()),
        "float": lambda: pa.array([rng.choice((0.5, math.nan, math.inf, None)) for _ in range(rows)]),
        "truth": lambda: pa.array([rng.choice((True, None)) for _ in range(rows)], pa.bool_()),
        "null": lambda: pa.nulls(rows),
        "list": lambda: pa.array([[each] for each in texts], pa.list_(pa.string())),
        "struct": lambda: pa.array([{"text": each} for each in texts], pa.struct([("text", pa.string())])),
        "map": lambda: pa.array([[(each or "k", 1)] for each in texts], pa.map_(pa.string(), pa.int8())),
        "time": lambda: pa.array([rng.choice((0, 10**15, 2**62, -(2**62))) for _ in range(rows)], pa.timestamp("us")),
        "far time": lambda: pa.array([rng.choice((0, 2**62)) for _ in range(rows)], pa.timestamp("s", "Europe/Berlin")),
        "duration": lambda: pa.array([rng.choice((0, 2**62)) for _ in range(rows)], pa.duration("s")),
        "day": lambda: pa.array([rng.choice((0, 2**30, -(2**30))) for _ in range(rows)], pa.date32()),
        "decimal": lambda: pa.array([None] * rows, pa.decimal128(10, 2)),
        "numbers by dictionary": lambda: pa.array([rng.randint(0, 3) for _ in range(rows)]).dictionary_encode(),
        "fixed": lambda: pa.array([b"abcd"] * rows, pa.binary(4)),
        "half": lambda: pa.array([0.5] * rows, pa.float16()),
    }
    kind = rng.choice(("string", "string", "string", "large", "dictionary", *kinds))
    return kinds[kind](), texts if kind in ("string", "large", "dictionary") else None


def parquet_bytes(table: pa.Table, rng: Random) -> bytes:
    """Write a table with random options."""
    out = pa.BufferOutputStream()
    options = {
        "row_group_size": rng.choice((None, 1, 2)),
        "compression": rng.choice(("none", "snappy", "zstd", "gzip", "lz4", "brotli")),
        "use_dictionary": rng.random() < 0.5,
        "write_page_checksum": rng.random() < 0.3,
        "data_page_version": rng.choice(("1.0", "2.0")),
        "store_schema": rng.random() < 0.8,
        "write_statistics": rng.random() < 0.5,
    }
    try:
        pq.write_table(table, out, **options)
    except (pa.ArrowException, NotImplementedError):  # not every type can be written in every way
        return b"PAR1" + rng.randbytes(30) + b"PAR1"
    return out.getvalue().to_pybytes()


def parquet_table(rng: Random) -> tuple[pa.Table, list[dict[str, Any]] | None]:
    """Return a table of odd columns, and its rows if all of them are texts."""
    names, rows = columns(rng)[0], rng.randint(0, 5)
    names = names or ["text"]
    made = [column_of(rng, rows) for _ in names]
    plain = all(values is not None for _, values in made) and len(set(names)) == len(names)
    table = pa.Table.from_arrays([array for array, _ in made], names=names)
    found = [{name: made[i][1][row] for i, name in enumerate(names)} for row in range(rows)] if plain else None
    return table, found


class Parquet(Sentences):
    """Columns of any type, and spoiled files."""

    name, weight, suffix = "parquet", 10, ".parquet"

    def make(self, rng: Random) -> Case:
        """Return a table as bytes."""
        table, rows = parquet_table(rng)
        names = table.column_names
        column = rng.choice((None, None, *names, "nowhere"))
        id_column = rng.choice((None, None, *names))
        data, expected = parquet_bytes(table, rng), None
        if rng.random() < 0.6:
            data = spoiled(data, rng)
        elif rows is not None:
            expected = expected_of(rows, names, column, id_column)
        return Case(data, {"column": column, "id_column": id_column, "expected": expected})


class Compressed(Family):
    """A gzip or xz file: one that is spoiled is refused, or holds what it held before."""

    name, weight = "gzip", 10

    def make(self, rng: Random) -> Case:
        """Return compressed lines, of one member or several."""
        suffix = rng.choice((".gz", ".gz", ".xz"))
        parts = [[f"{i} {text(rng, 0.0)}" for _ in range(rng.randint(1, 30))] for i in range(rng.choice((1, 1, 1, 3)))]
        texts = ["".join(f"{line}\n" for line in part).encode() for part in parts]
        check = rng.choice((lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256))
        packed = [gzip.compress(each) if suffix == ".gz" else lzma.compress(each, check=check) for each in texts]
        data = b"".join(packed)
        return Case(spoiled(data, rng) if rng.random() < 0.9 else data, {"suffix": suffix, "parts": parts})

    def run(self, case: Case, folder: Path) -> None:
        """Read it, and see that it is made of whole members: a file that ends after one of them is whole too."""
        path = folder / f"input.txt{case.options['suffix']}"
        path.write_bytes(case.data)
        lines = [record.text for record in records_of(lambda: sentences(str(path)))]
        if not lines:
            raise Wrong("an archive that is not whole was read as one without lines")
        while lines:
            part = case.options["parts"][int(lines[0].split()[0])]
            if lines[: len(part)] != part:
                raise Wrong("a spoiled archive was read as something else")
            lines = lines[len(part) :]


class Labelled(Family):
    """Sentences with labels, for the classifier."""

    name, weight = "labelled", 10

    def make(self, rng: Random) -> Case:
        """Return a table, JSON lines or Parquet with a column of labels."""
        rows = rng.randint(0, 6)
        suffix = rng.choice((".csv", ".tsv", ".jsonl", ".jsonl", ".parquet"))
        kind = rng.choice(("text", "whole", "truth", "any"))
        labels = [self._label(rng, kind) for _ in range(rows)]
        texts = [text(rng, 0.02) for _ in range(rows)]
        if suffix == ".parquet":
            label, words = column_of(rng, rows)[0], pa.array(texts)
            data = parquet_bytes(pa.table({"text": words, "label": label}), rng)
        elif suffix == ".jsonl":
            data = b"\n".join(spelled({"text": t, "label": la}, rng) for t, la in zip(texts, labels, strict=True))
        else:
            out = io.StringIO()
            writer = csv.writer(out, delimiter="\t" if suffix == ".tsv" else ",")
            writer.writerow(["text", "label"])
            writer.writerows(zip(texts, map(_spelled_label, labels), strict=True))
            data = out.getvalue().encode("utf-8", "surrogatepass")
        return Case(spoiled(data, rng) if rng.random() < 0.4 else data, {"suffix": suffix})

    @staticmethod
    def _label(rng: Random, kind: str) -> Any:
        if rng.random() < 0.03:
            return odd_value(rng)
        usual = {"text": ("a", "b", " a ", "ä"), "whole": (0, 1, 2**62, -1), "truth": (True, False)}
        return rng.choice(usual.get(kind, ("a", 1, True, 0.5)))

    def run(self, case: Case, folder: Path) -> None:
        """Read sentences and labels, count them, and see that labels are of one kind."""
        path = folder / f"data{case.options['suffix']}"
        path.write_bytes(case.data)
        records = records_of(lambda: labelled(str(path), None, "label", longest_line=LONGEST))
        labels = [record.label for record in records]
        if len({type(label) for label in labels}) > 1 or any(not isinstance(label, (str, int)) for label in labels):
            raise Wrong(f"labels of several kinds: {labels!r}")


def _spelled_label(label: Any) -> str:
    return label.replace(HALF, "?") if isinstance(label, str) else repr(label)


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


FAMILIES = (
    Text(), Table(".csv", 12), Table(".tsv", 8), JsonLines(), Parquet(), Compressed(), Labelled(), Pairs(),
)  # fmt: skip
