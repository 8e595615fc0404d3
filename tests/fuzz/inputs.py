"""Files of sentences: text, CSV, TSV, JSON lines, Parquet, and compressed ones."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from fuzz.engine import Case, Family, Wrong
from fuzz.strategies import Draw, chance, odd_values, plain_texts, rewritten, spelled, spoiled, texts
from sen2pro import Sen2ProError
from sen2pro.errors import has_surrogates
from sen2pro.io.inputs import Reader, labelled, pairs, sentences
from sen2pro.validation import is_blank

LONGEST = 3000  # bytes of a line: small, so that too long ones come up
ENCODINGS = ("utf-8",) * 8 + ("utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252", "utf-32", "shift-jis")
NAMES = ("text", "sentence", "id", "label", "x", "", " text", "Text", "téxt", "a,b", "a\tb", 'q"q', "\x1b[31m", "a\0")


def is_sentence(value: Any) -> bool:
    """Tell whether a value is what a file of sentences may hold."""
    return isinstance(value, str) and not is_blank(value) and "\0" not in value and not has_surrogates(value)


def readable(values: list[Any]) -> bool:
    """Tell whether all of these can be read as sentences, so that they must be."""
    return all(is_sentence(value) and len(value.encode()) < LONGEST // 4 for value in values)


def _tried(function: Callable[[], Any]) -> tuple[Any, Sen2ProError | None]:
    try:
        return function(), None
    except Sen2ProError as error:
        return None, error


def records_of(make: Callable[[], Reader[Any]]) -> list[Any]:
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
        raise Wrong(f"{found!r} was read, {expected!r} written")


def written(folder: Path, case: Case) -> str:
    """Write the file of a case."""
    path = folder / f"input{case.suffix}"
    path.write_bytes(case.data)
    return str(path)


@st.composite
def encoded(draw: Draw, content: str) -> tuple[bytes, bool]:
    """Give a text as bytes of some encoding, and whether that is UTF-8."""
    encoding = draw(st.sampled_from(ENCODINGS))
    data = content.encode(encoding, "surrogatepass" if encoding == "utf-8" else "replace")
    return data, encoding in ("utf-8", "utf-8-sig")


@st.composite
def text_files(draw: Draw) -> Case:
    """Give one sentence per line, with odd letters, in odd encodings."""
    lines = [line.replace("\n", " ") for line in draw(st.lists(texts(draw(st.sampled_from((0, 2)))), max_size=6))]
    end = draw(st.sampled_from(("\n", "\n", "\r\n", "\r", "\n\n")))
    data, whole = draw(encoded(end.join(lines) + draw(st.sampled_from(("", end)))))
    if draw(chance(5)):
        data, whole = draw(spoiled(data)), False
    whole = whole and end in ("\n", "\r\n") and readable(lines) and not any("\r" in line for line in lines)
    whole = whole and not "".join(lines[:1]).startswith("\ufeff")
    return Case(data=data, suffix=".txt", skip_blank=draw(chance(3)), rows=lines if whole else None)


def read_text(case: Case, folder: Path) -> None:
    """Read lines."""
    path = written(folder, case)
    found = records_of(lambda: sentences(path, skip_blank=case.skip_blank, longest_line=LONGEST))
    compare([record.text for record in found], case.rows)


# Tables: each row has a value for each name.


def separated(names: list[str], rows: list[Any], separator: str) -> st.SearchStrategy[tuple[bytes, bool]]:
    """Give comma or tab separated values, and whether they must be read as they are."""

    @st.composite
    def made(draw: Draw) -> tuple[bytes, bool]:
        lines = [list(names), *(list(map(str, row)) for row in rows)]
        if draw(chance(2)):  # by hand, with the faults of that
            for line in lines:
                draw(st.sampled_from((lambda: None, line.copy, lambda line=line: line.append("more"), line.clear)))()
            quote = draw(st.sampled_from(("", '"', "'", '""')))
            content = "\n".join(separator.join(f"{quote}{field}{quote}" for field in line) for line in lines)
            return draw(encoded(content))[0], False
        out, wrong = io.StringIO(), draw(chance(1))
        quoting = draw(st.sampled_from((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)))
        end = draw(st.sampled_from(("\n", "\r\n")))
        writer = csv.writer(out, delimiter=";" if wrong else separator, quoting=quoting, lineterminator=end)
        try:
            writer.writerows(lines)
        except csv.Error:  # Python 3.10 cannot write a NUL
            return "\n".join(separator.join(line) for line in lines).encode("utf-8", "surrogatepass"), False
        data, is_utf8 = draw(encoded(out.getvalue()))
        odd = any(not each.isascii() or each != each.strip(" ,;\t|\0\x1b") or "," in each or not each for each in names)
        odd = odd or any(sign in each for sign in "\t\x1b" for each in names)
        return data, is_utf8 and not wrong and bool(names) and not odd and not any("\r" in x for y in lines for x in y)

    return made()


@st.composite
def json_lines(draw: Draw, names: list[str], rows: list[Any]) -> tuple[bytes, bool]:
    """Give an object a line, and whether they must be read as they are."""
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    if draw(chance(4)):
        return b"".join(json.dumps(each).encode() + b"\n" for each in objects), True
    lines = [draw(spelled(draw(rewritten(each)) if draw(chance(5)) else each)) for each in objects]
    return draw(st.sampled_from((b"\n", b"\n", b"\r\n", b"\n\n"))).join(lines), False


_FAR, _TEXT = (0, 10**15, 2**62, -(2**62)), pa.string()
ODD_COLUMNS = (
    ((b"the dog",), pa.binary()), ((b"abcd",), pa.binary(4)), ((0, -1, 2**62, None), pa.int64()),
    ((0.5, math.nan, math.inf, None), pa.float64()), ((0.5,), pa.float16()), ((True, None), pa.bool_()),
    ((["a"],), pa.list_(_TEXT)), (({"text": "a"},), pa.struct([("text", _TEXT)])), ((None,), pa.null()),
    (([("k", 1)],), pa.map_(_TEXT, pa.int8())), ((1, 2), pa.dictionary(pa.int8(), pa.int64())),
    (_FAR, pa.timestamp("us")), ((0, 2**62), pa.timestamp("s", "Europe/Berlin")), ((0, 2**62), pa.duration("s")),
    ((0, 2**30, -(2**30)), pa.date32()), ((None,), pa.decimal128(10, 2)),
    (("the dog", None), _TEXT), (("the dog",), pa.string_view()),
)  # fmt: skip


@st.composite
def column(draw: Draw, values: Sequence[Any]) -> tuple[pa.Array, bool]:
    """Give a column of texts, or one of an odd type, and whether it holds these values."""
    if draw(chance(7)):
        kinds = (_TEXT, _TEXT, pa.large_string(), pa.dictionary(pa.int32(), _TEXT))
        try:
            return pa.array(values, draw(st.sampled_from(kinds))), True
        except (pa.ArrowException, TypeError, UnicodeError):
            return pa.array([str(value).replace("\ud800", "?") for value in values], _TEXT), False
    if draw(chance(1)):
        broken = [draw(st.sampled_from((b"the dog", b"\xff\xfe", b"a\xc3"))) for _ in values]
        return pa.array(broken, pa.binary()).cast(_TEXT, safe=False), False
    given, kind = draw(st.sampled_from(ODD_COLUMNS))
    return pa.array([given[draw(st.integers(0, len(given) - 1))] for _ in values], kind), False


@st.composite
def parquet_bytes(draw: Draw, table: pa.Table) -> bytes:
    """Give a table as a file, written with any options."""
    out = pa.BufferOutputStream()
    options = {
        "row_group_size": draw(st.sampled_from((None, 1, 2))), "store_schema": draw(chance(8)),
        "compression": draw(st.sampled_from(("none", "snappy", "zstd", "gzip", "lz4", "brotli"))),
        "data_page_version": draw(st.sampled_from(("1.0", "2.0"))),
        **{name: draw(st.booleans()) for name in ("use_dictionary", "write_page_checksum", "write_statistics")},
    }  # fmt: skip
    try:
        pq.write_table(table, out, **options)
    except (pa.ArrowException, NotImplementedError):  # not every type can be written in every way
        return b"PAR1" + draw(st.binary(max_size=30)) + b"PAR1"
    return bytes(out.getvalue())


@st.composite
def parquet(draw: Draw, names: list[str], rows: list[Any]) -> tuple[bytes, bool]:
    """Give a Parquet file, and whether it must be read as these rows."""
    made = [draw(column([row[place] for row in rows])) for place in range(len(names))]
    table = pa.Table.from_arrays([array for array, _ in made], names=names)
    return draw(parquet_bytes(table)), all(is_whole for _, is_whole in made)


@st.composite
def tables(draw: Draw, suffixes: Sequence[str], names: Sequence[str], *cells: st.SearchStrategy[Any]) -> Case:
    """Give a file with a column for each name; `rows` are what must be read of it, None if it may be refused."""
    suffix, rows = draw(st.sampled_from(suffixes)), draw(st.lists(st.tuples(*cells), max_size=6))
    if suffix == ".parquet":
        data, whole = draw(parquet(list(names), rows))
    elif suffix in (".jsonl", ".ndjson"):
        data, whole = draw(json_lines(list(names), rows))
    else:
        data, whole = draw(separated(list(names), rows, "\t" if suffix == ".tsv" else ","))
    if draw(chance(4)):
        data, whole = draw(spoiled(data)), False
    whole = whole and len(set(names)) == len(names) and not any("\0" in name for name in names)
    return Case(data=data, suffix=suffix, rows=rows if whole else None)


@st.composite
def sentence_tables(draw: Draw, *suffixes: str) -> Case:
    """Give a table of texts, and the columns that are asked for."""
    names = ["text", *draw(st.lists(st.sampled_from(NAMES[2:5]), max_size=2, unique=True))]
    if draw(chance(3)):
        names = draw(st.lists(st.sampled_from(NAMES), max_size=3))
    names = draw(st.permutations(names))
    case = draw(tables(suffixes, names, *[texts(draw(st.sampled_from((0, 0, 2))))] * len(names)))
    case.column, case.id_column = (draw(st.sampled_from((None, None, *names, "nowhere"))) for _ in "ab")
    text = case.column or next((name for name in ("text", "sentence") if name in names), None)
    wanted = [case.id_column, text] if case.id_column else [text]
    if case.rows is None or not set(wanted) <= set(names):
        case.rows = None
    else:
        case.rows = [tuple(row[names.index(name)] for name in wanted) for row in case.rows]
        case.rows = case.rows if readable([each for row in case.rows for each in row]) else None
    return case


def read_sentences(case: Case, folder: Path) -> None:
    """Read sentences, and their ids if these are asked for."""
    path = written(folder, case)
    found = records_of(lambda: sentences(path, case.column, case.id_column, longest_line=LONGEST))
    compare([(record.id, record.text) if case.id_column else (record.text,) for record in found], case.rows)


LABELS = (("a", "b", " a ", "ä"), (0, 1, 2**62, -1), (True, False), ("a", 1, True, 0.5))


@st.composite
def labelled_tables(draw: Draw) -> Case:
    """Give sentences with labels, for the classifier."""
    labels = st.sampled_from(draw(st.sampled_from(LABELS))) | (odd_values if draw(chance(1)) else st.nothing())
    return draw(tables((".csv", ".tsv", ".jsonl", ".jsonl", ".parquet"), ("text", "label"), texts(0.2), labels))


def read_labelled(case: Case, folder: Path) -> None:
    """Read sentences and labels, and see that labels are of one kind."""
    path = written(folder, case)
    found = [record.label for record in records_of(lambda: labelled(path, None, "label", longest_line=LONGEST))]
    if len({type(label) for label in found}) > 1 or any(not isinstance(label, (str, int)) for label in found):
        raise Wrong(f"labels of several kinds: {found!r}")


@st.composite
def pair_tables(draw: Draw) -> Case:
    """Give pairs of sentences, with labels or without."""
    names = ["first", "second", "label"]
    if draw(chance(1)):
        names[draw(st.integers(0, 2))] = draw(st.sampled_from(("First", "", "text", "first", "label\0")))
    labels = st.sampled_from((0, 1, 1, 0, True, False, 0.5)) | (odd_values if draw(chance(1)) else st.nothing())
    suffixes = (".csv", ".csv", ".csv", ".tsv", ".jsonl", ".parquet")
    case = draw(tables(suffixes, names, texts(0.3), texts(0.3), labels))
    case.labelled, rows = draw(chance(7)), case.rows
    fits = (
        rows is not None and names == ["first", "second", "label"] and all(type(row[2]) in (int, float) for row in rows)
    )
    fits = fits and all(row[2] in (0, 1, 0.5) for row in rows) and readable([each for row in rows for each in row[:2]])
    case.rows = [(*row[:2], float(row[2]) if case.labelled else None) for row in rows] if fits else None
    return case


def read_pairs(case: Case, folder: Path) -> None:
    """Read pairs, as `sen2pro calibrate` and `sen2pro match` do."""
    path = written(folder, case)
    records = records_of(lambda: pairs(path, with_labels=case.labelled, longest_line=LONGEST))
    source = pairs(path, with_labels=case.labelled, longest_line=LONGEST)
    if [pair.text for chunk in source.chunks(2) for pair in chunk] != [pair.text for pair in records]:
        raise Wrong("pairs in chunks are others than pairs one by one")
    for pair in records:
        if not is_sentence(pair.second) or (case.labelled and not math.isfinite(pair.label)):
            raise Wrong(f"no pair: {pair!r}")
    compare([(pair.text, pair.second, pair.label if case.labelled else None) for pair in records], case.rows)


@st.composite
def archives(draw: Draw) -> Case:
    """Give compressed lines, of one member or several, most of them spoiled."""
    lines = st.lists(plain_texts, min_size=1, max_size=30)
    parts = [[f"{i} {line}" for line in draw(lines)] for i in range(draw(st.sampled_from((1, 1, 1, 3))))]
    suffix = draw(st.sampled_from((".gz", ".gz", ".xz")))
    check = draw(st.sampled_from((lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256)))
    whole = ["".join(f"{line}\n" for line in part).encode() for part in parts]
    data = b"".join(gzip.compress(each) if suffix == ".gz" else lzma.compress(each, check=check) for each in whole)
    return Case(data=draw(spoiled(data)) if draw(chance(9)) else data, suffix=f".txt{suffix}", parts=parts)


def read_archive(case: Case, folder: Path) -> None:
    """Read an archive, and see that it is made of whole members: a file that ends after one of them is whole too."""
    path = written(folder, case)
    lines = [record.text for record in records_of(lambda: sentences(path))]
    if not lines:
        raise Wrong("an archive that is not whole was read as one without lines")
    while lines:
        part = case.parts[int(lines[0].split()[0])]
        if lines[: len(part)] != part:
            raise Wrong("a spoiled archive was read as something else")
        lines = lines[len(part) :]


FAMILIES = (
    Family("text", 12, text_files(), read_text),
    Family("csv", 12, sentence_tables(".csv"), read_sentences),
    Family("tsv", 8, sentence_tables(".tsv"), read_sentences),
    Family("jsonl", 12, sentence_tables(".jsonl", ".ndjson"), read_sentences),
    Family("parquet", 10, sentence_tables(".parquet"), read_sentences),
    Family("gzip", 10, archives(), read_archive),
    Family("labelled", 10, labelled_tables(), read_labelled),
    Family("pairs", 10, pair_tables(), read_pairs),
)
