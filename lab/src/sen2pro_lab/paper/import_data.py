"""Convert evaluation sets from the layouts their authors publish into ours.

    python sen2pro_lab/paper/import_data.py senteval SentEval/data/downstream --to FOLDER

Files that exist are never replaced, and sets without any file are passed over. Each kind of source, and the
files looked for in it:

- `senteval`, the folder `data/downstream` of SentEval: `STS/STS{12..16}-en-test/STS.{input,gs}.SUBTASK.txt`,
  `STS/STSBenchmark/sts-{train,dev,test}.csv`, `SICK/SICK_{train,trial,test_annotated}.txt`. Pairs without a gold score
  are dropped, as SentEval does.
- `evalrank`, the EvalRank repository or its folder `data/sent_evalrank`: `pos_pair.txt` (a tab between the two
  sentences) and `background_sent.txt` (a sentence a line).
- `wmt17`, the package of the WMT17 metrics task or a repository with its files, anywhere below: `DA-syslevel.csv`
  (columns LP, SYSTEM, HUMAN) and `DA-seglevel.csv` (LP, SYSTEM, SID, HUMAN; systems that said the same are joined by
  +), both with a header in any order and blanks between fields; a line for each segment in `newstest2017-csen-ref.en`,
  in `newstest2017.SYSTEM.cs-en` for every system of `DA-syslevel.csv`, and in `newstest2017-csen-src.cs` if there.
- `grade`, the GRADE repository or its folder `evaluation`: `eval_data/DATASET/SYSTEM/human_{ctx,hyp,ref}.txt`, a line
  for each response, the turns of a context separated by `|||`, and `human_score/DATASET/SYSTEM/human_score.txt`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.io.atomic import replacing
from sen2pro_lab.paper.catalogue import COMPRESSIONS, DIALOGUE_SETS, WMT_PAIRS
from sen2pro_lab.paper.files import Row, lines

# The sub-tasks that count: STS13 has a fourth, SMT, which is licensed and which SentEval leaves out.
SUBTASKS = {
    12: ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    13: ("FNWN", "headlines", "OnWN"),
    14: ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    15: ("answers-forums", "answers-students", "belief", "headlines", "images"),
    16: ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
# What the Moses tokenizer writes for signs that mean something to it; the ampersand last, so nothing is undone twice.
ESCAPES = {
    "&#124;": "|", "&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"', "&#91;": "[", "&#93;": "]", "&amp;": "&",
}  # fmt: skip

Converted = tuple[str, list[str]]  # a file's name in the data folder, and its lines


def import_data(kind: str, source: str | Path, target: str | Path | None = None) -> list[Path]:
    """Convert the sets of a folder in their authors' layout, and return the files written.

    Parameters
    ----------
    kind
        Whose layout: senteval, evalrank, wmt17 or grade, as described above.
    source
        The folder to read.
    target
        The folder to write to; by default the one SEN2PRO_DATA names. Files that exist are never replaced.
    """
    convert = KINDS[one_of("kind of data", kind, KINDS)]
    into = target or os.environ.get("SEN2PRO_DATA")
    if not into:
        raise Sen2ProError("where should the data go? Give a folder (--to FOLDER) or set SEN2PRO_DATA")
    if not Path(source).is_dir():
        raise Sen2ProError(f"there is no folder {source}; give the one with the data of {kind}")
    converted = list(convert(Path(source)))  # all of it before anything is written, so that errors leave no half
    if not converted:
        raise Sen2ProError(
            f"no data of {kind} in {source}; the top of sen2pro_lab/paper/import_data.py says which files it looks for"
        )
    for name, _ in converted:
        for suffix in COMPRESSIONS:
            if Path(into, f"{name}{suffix}").exists():
                raise Sen2ProError(f"there is {name}{suffix} in {into} already; move it away, or give another folder")
    return [_write(Path(into, f"{name}.gz"), written) for name, written in converted]


def _write(path: Path, written: Iterable[str]) -> Path:
    """Write a file whole or not at all; the same lines always give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(gzip.compress("".join(f"{line}\n" for line in written).encode(), mtime=0))
    return path


def _table(header: str, rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table with that header (names with blanks between)."""
    return ["\t".join(header.split()), *("\t".join(row) for row in rows)]


def _fields(path: Path, names: str) -> Iterator[Row]:
    """Yield the lines of a tab separated file without a header, whose first fields have those names."""
    columns = names.split()
    for place, line in lines(path):
        fields = line.split("\t")
        if len(fields) < len(columns):
            raise Sen2ProError(f"{place}: {len(fields)} fields between tabs, but {', '.join(columns)} are expected")
        yield Row(place, dict(zip(columns, fields, strict=False)))


def _same_length(first: Path, first_lines: Sequence[Any], second: Path, second_lines: Sequence[Any]) -> None:
    if len(first_lines) != len(second_lines):
        raise Sen2ProError(f"{first} has {len(first_lines)} lines, but {second} has {len(second_lines)}")


def _text(row: Row, column: str) -> str:
    return row.text(column).strip()


def _senteval(source: Path) -> Iterator[Converted]:
    for year in SUBTASKS:
        folder = source / "STS" / f"STS{year}-en-test"
        if folder.is_dir():
            rows = [row for subtask in SUBTASKS[year] for row in _sts_subtask(folder, subtask)]
            yield f"sts/sts{year}.tsv", _table("subtask line score sentence1 sentence2", rows)
    for split in ("train", "dev", "test"):
        path = source / "STS" / "STSBenchmark" / f"sts-{split}.csv"
        if path.is_file():
            names = "genre file year id score sentence1 sentence2"
            yield f"sts/stsb_{split}.tsv", _table(names, (_scored(row, names, 0) for row in _fields(path, names)))
    for split, file in (("train", "train"), ("trial", "trial"), ("test", "test_annotated")):
        path = source / "SICK" / f"SICK_{file}.txt"
        if path.is_file():
            read = _fields(path, "pair_id sentence1 sentence2 score entailment")
            next(read, None)  # the header
            names = "pair_id score entailment sentence1 sentence2"
            yield f"sts/sick_{split}.tsv", _table(names, (_scored(row, names, 1) for row in read))


def _sts_subtask(folder: Path, subtask: str) -> Iterator[tuple[str, ...]]:
    """Yield the pairs that have a gold score, with the number of their line, from 0."""
    texts, scores = (folder / f"STS.{part}.{subtask}.txt" for part in ("input", "gs"))
    for path in (texts, scores):
        if not path.is_file():
            raise Sen2ProError(f"there is no {path.name} in {folder}; without it the set is not the published one")
    pairs, golds = list(_fields(texts, "sentence1 sentence2")), list(_fields(scores, "score"))
    _same_length(texts, pairs, scores, golds)
    for number, (pair, gold) in enumerate(zip(pairs, golds, strict=True)):
        if gold.text("score", blank=True).strip():
            score = str(gold.number("score", 0, 5))
            yield subtask, str(number), score, _text(pair, "sentence1"), _text(pair, "sentence2")


def _scored(row: Row, names: str, low: float) -> list[str]:
    """Return the named fields of a row, its sentences and score checked."""
    checked = {"score": str(row.number("score", low, 5)), **{c: _text(row, c) for c in ("sentence1", "sentence2")}}
    return [checked.get(name) or row.text(name, blank=True) for name in names.split()]


def _evalrank(source: Path) -> Iterator[Converted]:
    folders = (source / "data" / "sent_evalrank", source / "sent_evalrank", source)
    folder = next((each for each in folders if (each / "pos_pair.txt").is_file()), None)
    if folder is None:
        return
    pairs, background = folder / "pos_pair.txt", folder / "background_sent.txt"
    if not background.is_file():
        raise Sen2ProError(f"there is no {background.name} beside {pairs}")
    columns = "sentence1 sentence2"
    rows = ([_text(row, column) for column in columns.split()] for row in _fields(pairs, columns))
    yield "evalrank/pos_pair.tsv", _table(columns, rows)
    sentences = ([_text(row, "sentence")] for row in _fields(background, "sentence"))
    yield "evalrank/background_sent.tsv", _table("sentence", sentences)


def _grade(source: Path) -> Iterator[Converted]:
    base = source / "evaluation" if (source / "evaluation").is_dir() else source
    for name in DIALOGUE_SETS:
        owner, _, dataset = name.partition("_")
        if owner == "grade" and (base / "eval_data" / dataset).is_dir():
            systems = sorted(folder.name for folder in (base / "eval_data" / dataset).iterdir() if folder.is_dir())
            written = [line for system in systems for line in _grade_system(base, dataset, system)]
            yield f"dialogue/{name}.jsonl", written


def _grade_system(base: Path, dataset: str, system: str) -> Iterator[str]:
    folder = base / "eval_data" / dataset / system
    paths = {
        "context": folder / "human_ctx.txt",
        "reference": folder / "human_ref.txt",
        "response": folder / "human_hyp.txt",
        "human": base / "human_score" / dataset / system / "human_score.txt",
    }
    for path in paths.values():
        if not path.is_file():
            raise Sen2ProError(f"there is no {path}; every system of GRADE has one")
    rows = {column: list(_fields(path, column)) for column, path in paths.items()}
    for column, path in paths.items():
        _same_length(paths["context"], rows["context"], path, rows[column])
    for item in range(len(rows["context"])):
        record = {
            "dataset": dataset,
            "item": item,
            "system": system,
            "context": [turn.strip() for turn in _text(rows["context"][item], "context").split("|||")],
            "reference": _text(rows["reference"][item], "reference"),
            "response": _text(rows["response"][item], "response"),
            "human": rows["human"][item].number("human"),
        }
        yield json.dumps(record, ensure_ascii=False)


def _wmt17(source: Path) -> Iterator[Converted]:
    files: dict[str, list[Path]] = {}
    for path in sorted(source.rglob("*")):
        files.setdefault(path.name, []).append(path)
    pairs = [pair for pair in WMT_PAIRS if f"newstest2017-{pair.replace('-', '')}-ref.en" in files]
    if not pairs:
        return
    systems = list(_blank_separated(_only(files, "DA-syslevel.csv"), "LP SYSTEM HUMAN"))
    segments = list(_blank_separated(_only(files, "DA-seglevel.csv"), "LP SYSTEM SID HUMAN"))
    scored: list[tuple[str, ...]] = []
    judged: list[str] = []
    for pair in pairs:
        humans = {row.text("SYSTEM"): row.number("HUMAN") for row in systems if row.text("LP") == pair}
        texts = _wmt17_texts(files, pair, list(humans))
        rows = enumerate(zip(*texts.values(), strict=True), 1)
        yield f"wmt17/{pair}.tsv", _table(" ".join(["sid", *texts]), ((str(sid), *row) for sid, row in rows))
        scored += [(pair, system, str(human)) for system, human in humans.items()]
        judged += [_wmt17_segment(row, texts) for row in segments if row.text("LP") == pair]
    yield "wmt17/da_sys.tsv", _table("lp system human", scored)
    yield "wmt17/da_seg.jsonl", judged


def _only(files: dict[str, list[Path]], name: str) -> Path:
    """Return the one file of that name."""
    found = files.get(name, [])
    if len(found) != 1:
        places = f" ({', '.join(map(str, found))})" if found else ""
        raise Sen2ProError(f"there are {len(found)} files {name} below the folder{places}; exactly one is needed")
    return found[0]


def _blank_separated(path: Path, names: str) -> Iterator[Row]:
    """Yield the rows of a file with blanks between the fields, whose header must have those names."""
    numbered = lines(path)
    place, first = next(numbered, (f"{path}, line 1", ""))
    header = first.split()
    for name in names.split():
        if name not in header:
            raise Sen2ProError(f"{place}: there is no column {name!r}; the header is {first!r}")
    for place, line in numbered:
        fields = line.split()
        if len(fields) != len(header):
            raise Sen2ProError(f"{place}: {len(fields)} fields, but the header has {len(header)}")
        yield Row(place, dict(zip(header, fields, strict=True)))


def _wmt17_texts(files: dict[str, list[Path]], pair: str, systems: list[str]) -> dict[str, list[str]]:
    """Return the columns of a language pair: source (where there is one), reference and every system's output."""
    stem = f"newstest2017-{pair.replace('-', '')}"
    names = {"source": f"{stem}-src.{pair[:2]}", "reference": f"{stem}-ref.en"}
    names |= {system: f"newstest2017.{system}.{pair}" for system in systems}
    if names["source"] not in files:
        del names["source"]
    paths = {column: _only(files, name) for column, name in names.items()}
    texts = {column: [_unescape(line) for _, line in lines(path)] for column, path in paths.items()}
    for column, path in paths.items():
        _same_length(paths["reference"], texts["reference"], path, texts[column])
    return texts


def _unescape(text: str) -> str:
    """Return a text as it was before the Moses tokenizer escaped it, on one line and in one field.

    >>> _unescape("the dog &apos;s bone &amp;lt; mine")
    "the dog 's bone &lt; mine"
    """
    for escape, sign in ESCAPES.items():
        text = text.replace(escape, sign)
    return text.replace("\t", " ").strip()


def _wmt17_segment(row: Row, texts: dict[str, list[str]]) -> str:
    """Return the JSON line of a judged segment; a score may belong to several systems that said the same."""
    systems, sid = row.text("SYSTEM").split("+"), row.whole("SID", len(texts["reference"]))
    for system in systems:
        if system not in texts:
            raise row.wrong("SYSTEM", f"{system} has no score in DA-syslevel.csv, so its output was not read")
    if sid < 1:
        raise row.wrong("SID", "segments are numbered from 1")
    outputs = [texts[system][sid - 1] for system in systems]
    record: dict[str, Any] = {
        "lp": row.text("LP"),
        "sid": sid,
        "systems": systems,
        "human": row.number("HUMAN"),
        **{column: texts[column][sid - 1] for column in ("source", "reference") if column in texts},
        "hypothesis": outputs[0],
        "joint_agree": len(set(outputs)) == 1,
    }
    return json.dumps(record, ensure_ascii=False)


KINDS: dict[str, Callable[[Path], Iterator[Converted]]] = {
    "senteval": _senteval,
    "evalrank": _evalrank,
    "wmt17": _wmt17,
    "grade": _grade,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as a command: print each file that was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS, help="whose layout")
    parser.add_argument("source", help="the folder as its authors publish it")
    parser.add_argument("--to", help="folder to write to (default: the one SEN2PRO_DATA names)")
    options = parser.parse_args(arguments)
    try:
        written = import_data(options.kind, options.source, options.to)
    except Sen2ProError as error:
        parser.exit(2, f"{error}\n")
    for path in written:
        print(f"-> {path}")


if __name__ == "__main__":
    main()
