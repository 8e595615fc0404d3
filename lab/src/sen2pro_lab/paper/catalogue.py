"""The evaluation sets: which tables of the paper they serve, where they come from, and where they are on this disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Any, TypeVar

from sen2pro.errors import Sen2ProError
from sen2pro.io.rows import open_binary

T = TypeVar("T")

_YEARS = tuple(f"sts{year}" for year in range(12, 17))
STS_SETS = (*_YEARS, "stsb_dev", "stsb_test", "sick_trial", "sick_train", "sick_test", "stsb_train")
DIALOGUE_SETS = (
    "paper_daily_h", "paper_convai2", "paper_empathetic", "grade_convai2", "grade_dailydialog",
    "grade_empatheticdialogues", "extra_daily_z", "extra_persona_m", "extra_persona_z",
)  # fmt: skip
WMT_PAIRS = ("cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en")
CLASSIFICATION_SETS = ("ag_news", "dbpedia14", "imdb", "yahoo")
WHOLE_SETS = ("imdb",)  # those that come in full beside what a few shots are drawn from
COMPRESSIONS = (".gz", ".xz", "")

# Set -> repository and split on the Hugging Face hub, for those that are there in full. MTEB's SICK-R is train, trial
# and test in one, with nothing to tell them apart, so no SICK set can be had from it.
_TEXTS = {"ag_news": "fancyzhx/ag_news", "dbpedia14": "fancyzhx/dbpedia_14", "imdb": "stanfordnlp/imdb"}
HUB = {
    **{name: (f"mteb/{name}-sts", "test") for name in _YEARS},
    **{f"stsb_{split}": ("mteb/stsbenchmark-sts", split) for split in ("train", "test")},
    "stsb_dev": ("mteb/stsbenchmark-sts", "validation"),
    **{f"{name}_{split}": (hub, split) for name, hub in _TEXTS.items() for split in ("train", "test")},
    **{f"imdb_{split}_full": (_TEXTS["imdb"], split) for split in ("train", "test")},
}


@dataclass(frozen=True)
class Set:
    """An evaluation set: the tables of the paper it serves, its files (compressed or not), where and how to get it.

    `listing` says what is here of it: `found` is folder, hub (it would be fetched) or -; `rows` are those of the first
    file, `sha256` has the first 8 digits of every file as it is on disk.
    """

    name: str
    tables: str
    files: tuple[str, ...]
    source: str
    way: str
    found: str = "-"
    rows: int | None = None
    sha256: tuple[str, ...] = ()


_IMPORT = "get it there and convert it: python -m sen2pro_lab.paper.import_data {} SOURCE --to FOLDER"
_SENTEVAL = "SentEval (github.com/facebookresearch/SentEval, its data/downstream folder)", _IMPORT.format("senteval")
_EVALRANK = "EvalRank (github.com/BinWang28/EvalRank-Embedding-Evaluation)", _IMPORT.format("evalrank")
_GRADE = "GRADE (github.com/li3cmz/GRADE)", _IMPORT.format("grade")
_WMT = "WMT17 metrics task (github.com/AIPHES/ACL20-Reference-Free-MT-Evaluation, WMT17)", _IMPORT.format("wmt17")
_FRECHET = (
    "Frechet BERT distance (github.com/yhlleo/frechet-bert-distance, datasets)",
    "write it as JSON lines with item, system, reference, response, human and, where it differs from system, origin",
)
_COLUMNS = "write it as tab separated columns relation, a, b"
_SATS = "SATS (github.com/rali-udem/sats-sentence-analogy, data/sats)", _COLUMNS
_SICK_ANALOGY = "SICK (pairs chosen by rule: negation, there is no, passive)", f"{_COLUMNS}, c, d"
_LABELLED = "write it as JSON lines with label (from 0), text and, where there is one, title"
_TEXT_SOURCES = {
    "ag_news": f"AG News (Zhang et al. 2015; {_TEXTS['ag_news']} on the Hugging Face hub)",
    "dbpedia14": f"DBpedia-14 (Zhang et al. 2015; {_TEXTS['dbpedia14']} on the Hugging Face hub)",
    "imdb": f"IMDB (Maas et al. 2011; {_TEXTS['imdb']} on the Hugging Face hub)",
    "yahoo": "Yahoo! Answers topics (Zhang et al. 2015; Yahoo! Webscope L6)",
}


def splits(name: str) -> tuple[str, ...]:
    """Return the parts of a classification set."""
    return ("train", "val", "test", *(("train_full", "test_full") if name in WHOLE_SETS else ()))


def _sets() -> Iterator[Set]:
    served = {**dict.fromkeys(_YEARS, "T2,T6,T8,T10,F1-F3"), "stsb_test": "T6,T8,T10,F4", "sick_test": "T6,T8,T10"}
    for name in STS_SETS:
        yield Set(name, served.get(name, "-"), (f"sts/{name}.tsv",), *_SENTEVAL)
    yield Set("evalrank", "T3", ("evalrank/pos_pair.tsv", "evalrank/background_sent.tsv"), *_EVALRANK)
    for name in DIALOGUE_SETS:
        tables = {"paper": "T4", "grade": "response level"}.get(name.split("_")[0], "-")
        yield Set(name, tables, (f"dialogue/{name}.jsonl",), *(_GRADE if name.startswith("grade") else _FRECHET))
    for pair in WMT_PAIRS:
        yield Set(f"wmt17 {pair}", "T5", (f"wmt17/{pair}.tsv", "wmt17/da_sys.tsv"), *_WMT)
    yield Set("wmt17 segments", "T11", ("wmt17/da_seg.jsonl",), *_WMT)
    yield Set("sick analogy", "T9", ("analogy/sick_quadruples.tsv",), *_SICK_ANALOGY)
    yield Set("sats analogy", "T9", ("analogy/sats_pairs.tsv",), *_SATS)
    for name, source in _TEXT_SOURCES.items():
        for part in (f"{name}_{split}" for split in splits(name)):
            yield Set(part, "T1,T7", (f"textcls/{part}.jsonl",), source, _LABELLED)


SETS = tuple(_sets())


class DataMissing(Sen2ProError):
    """A set is not there; the message says which file, where it comes from, and how to get it."""


_CHOSEN: ContextVar[str | None] = ContextVar("the folder of evaluation data", default=None)


@contextmanager
def reading_from(folder: str | None) -> Iterator[None]:
    """Read evaluation data from a folder, instead of the one that SEN2PRO_DATA names (for None)."""
    token = _CHOSEN.set(folder)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def folder() -> Path | None:
    """Return the folder of evaluation data: the one of `reading_from`, else SEN2PRO_DATA, else None."""
    chosen = _CHOSEN.get()
    named = chosen or os.environ.get("SEN2PRO_DATA")
    if named and not Path(named).is_dir():
        what = "--data" if chosen else "SEN2PRO_DATA"
        raise Sen2ProError(f"{what} is {named!r}, which is not a folder; name the folder of evaluation data")
    return Path(named) if named else None


def locate(file: str) -> Path | None:
    """Return where a file is, compressed or not, or None."""
    base = folder()
    places = [base / f"{file}{suffix}" for suffix in COMPRESSIONS] if base else []
    return next((place for place in places if place.is_file()), None)


def need(file: str) -> Path:
    """Return where a file is, compressed or not; a file that is not there is an error that says where to get it."""
    path = locate(file)
    if path is None:
        raise missing(file)
    return path


def missing(file: str, what: str = "") -> DataMissing:
    """Return the error for a set that is not there or not complete: its file, its source, and the way to get it."""
    # sets of the contests are found by their names
    entry = next((entry for entry in SETS if file in entry.files), None)
    where = "no folder of evaluation data was named" if folder() is None else f"there is no {file} in the data folder"
    origin = (
        f"comes from {entry.source}; {entry.way}" if entry else "is one of the rated or labelled sets of the contests"
    )
    return DataMissing(
        f"{what or where}. {file} (plain, .gz or .xz) {origin}. SEN2PRO_DATA or --data names the folder that is read"
    )


def available(read: Callable[[str], T], names: Iterable[str]) -> tuple[dict[str, T], list[str]]:
    """Read the sets that are there; return them by name, and the names of the others. Raise if there is none."""
    sets, errors = {}, {}
    for name in names:
        try:
            sets[name] = read(name)
        except DataMissing as error:
            errors[name] = error
    if not sets:
        first = next(iter(errors.values()))
        raise DataMissing(f"there is no data for any of {', '.join(errors)}; see `sen2pro data list`. First: {first}")
    return sets, list(errors)


def no_data(titles: Iterable[str]) -> list[str]:
    """Return the note on sets that are missing, or nothing if none is."""
    names = ", ".join(titles)
    return [f"{names}: no data here; `sen2pro data list` says where it comes from."] if names else []


def fetch(file: str) -> Iterator[dict[str, Any]]:
    """Yield the rows that belong in a file from the Hugging Face hub or its cache, or soon raise DataMissing."""
    name = PurePath(file).stem
    if name not in HUB:
        raise missing(file)
    repository, split = HUB[name]
    where = f"there is no {file} in a data folder"
    if on_hub(name) and not _reachable():
        raise missing(file, f"{where}, and the Hugging Face hub cannot be reached")
    import datasets

    datasets.disable_progress_bars()
    try:
        rows = datasets.load_dataset(repository, split=split)
    except Exception as error:  # whatever the reason, the set is not to be had from there
        raise missing(file, f"{where}, and {repository} cannot be had from the hub ({error})") from None
    for row in rows:
        # IMDB has its line breaks in HTML there; our files have a blank for each.
        yield {**row, "text": str(row["text"]).replace("<br />", " ")} if name.startswith("imdb") else row


@cache
def _reachable() -> bool:
    """Tell whether the hub answers: `datasets` itself would try for half a minute and print many lines."""
    from huggingface_hub import HfApi

    try:
        HfApi().dataset_info("mteb/sts12-sts", timeout=5)
    except Exception:  # of any of the libraries underneath
        return False
    return True


def on_hub(name: str) -> bool:
    """Tell whether a set would be fetched from the Hugging Face hub: it is there, and we can and may ask for it."""
    from huggingface_hub import constants

    return name in HUB and not constants.HF_HUB_OFFLINE


def listing() -> list[Set]:
    """Return every set, with what there is of it."""
    lines = []
    for entry in SETS:
        paths = [path for path in map(locate, entry.files) if path is not None]
        if len(paths) < len(entry.files):
            lines.append(replace(entry, found="hub" if on_hub(entry.name) else "-"))
            continue
        with open_binary(paths[0]) as file:
            rows = sum(1 for _ in file) - (".tsv" in paths[0].suffixes)  # a table has a header
        digests = tuple(hashlib.sha256(path.read_bytes()).hexdigest()[:8] for path in paths)
        lines.append(replace(entry, found="folder", rows=rows, sha256=digests))
    return lines
