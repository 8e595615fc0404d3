"""Whole files, folders and models to be spoiled, each made once and without a download."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from conftest import build_network, build_tokenizer
from contract.files.make import ENCODER
from labelled_texts import LABELS, TEXTS
from test_gaussian import signature

from sen2pro import Gaussian, Sen2Pro, Whitening
from sen2pro.calibration import MatchConfidence, SearchConfidence
from sen2pro.classification import Sen2ProClassifier
from sen2pro.encoder.backend import States
from sen2pro.estimation.head import Head
from sen2pro.estimation.specificity import SpecificityHead
from sen2pro.gaussian import Stored
from sen2pro.io import bundle, shards
from sen2pro.io.gaussians import GaussianWriter
from sen2pro.io.inputs import InputFile
from sen2pro.jobs.run_folder import PLAN, Plan
from sen2pro.jobs.workers import RowsReport
from sen2pro.search import Index
from sen2pro.settings import SAVED


@cache
def place() -> Path:
    """Return a folder for originals, as long as this process lives."""
    folder = tempfile.TemporaryDirectory(prefix="sen2pro-originals-")
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[Any] = []  # a temporary folder is deleted with the object


def original(make: Callable[[Path], Any]) -> Callable[[], Path]:
    """Make a folder the first time that it is asked for."""

    @cache
    def made() -> Path:
        folder = place() / make.__name__
        make(folder)
        return folder

    return made


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, by their paths in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@cache
def tiny() -> Sen2Pro:
    """Return a model in memory, on a tiny random BERT."""
    return Sen2Pro(build_network("bert"), tokenizer=build_tokenizer(), samples=2)


@original
def model_folder(folder: Path) -> None:
    """Save that model."""
    tiny().save(folder)


@original
def sentence_folder(folder: Path) -> None:
    """Save a model that sentence-transformers reads: with modules, a pooling and prompts."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    modules = [Transformer(str(model_folder())), Pooling(32), Normalize()]
    Sen2Pro(SentenceTransformer(modules=modules, device="cpu", prompts={"query": "the "}), samples=2).save(folder)


@cache
def stored() -> dict[str, list[tuple[bytes, Stored]]]:
    """Return files of Gaussians by suffix, each with what it holds."""
    draw = np.random.default_rng(0)

    def batch(rows: int, coverage: bool = False) -> Gaussian:
        far = draw.uniform(0, 1, rows) if coverage else None
        return Gaussian(draw.normal(size=(rows, 4)), draw.uniform(0, 1, (rows, 4)), signature(), far)

    ids, texts = ["a", "b", "ü", "d d", "é"], ["the dog", "rain", "a man", "x", "music"]
    every = [
        Stored(batch(5), ids, texts), Stored(batch(5, coverage=True), None, texts), Stored(batch(5), ids, None),
        Stored(batch(3), None, None), Stored(batch(1)[0], None, None),
        Stored(batch(1, coverage=True)[0], ["one"], None), Stored(batch(0), None, None),
        Stored(Gaussian([[0.0]] * 30, [[1.0]] * 30), None, None),
    ]  # fmt: skip
    plain = [Stored(each.gaussian, None, None) for each in every]
    kinds = ((".parquet", every), (".safetensors", plain))
    return {suffix: [(_written(each, suffix), each) for each in batches] for suffix, batches in kinds}


def _written(each: Stored, suffix: str) -> bytes:
    path, gaussian = place() / f"gaussians{suffix}", each.gaussian
    size = len(gaussian) if len(gaussian.shape) > 1 else 0
    with GaussianWriter(path, overwrite=True) as writer:
        for rows in [slice(start, start + 2) for start in range(0, size, 2)]:
            writer.write(gaussian[rows], ids=each.ids and each.ids[rows], texts=each.texts and each.texts[rows])
        if not size:
            writer.write(gaussian, ids=each.ids, texts=each.texts)
    return path.read_bytes()


@original
def whitening(folder: Path) -> None:
    """Save a whitening."""
    folder.mkdir()
    Whitening.fit(np.random.default_rng(0).normal(size=(30, 4)), 3).save(folder / "w.safetensors")


def states() -> States:
    """Return the states of three sentences, as the heads below read them."""
    draw, counts = np.random.default_rng(1), np.arange(3, 6)
    vectors, *layers = (draw.normal(size=(3, 32)).astype(np.float32) for _ in range(3))
    return States(vectors, dict(enumerate(layers)), counts, counts)


@original
def head(folder: Path) -> None:
    """Save a head."""
    Head.load(ENCODER.parent / "0.11" / "head").save(folder)


@original
def specificity(folder: Path) -> None:
    """Save a specificity head."""
    SpecificityHead.load(ENCODER.parent / "0.11" / "head").save(folder)


PAIRS = [(f"the {a} runs", f"a {b} sleeps") for a in ("dog", "cat", "man", "child", "red") for b in "xyzqw"]


@original
def match_confidence(folder: Path) -> None:
    """Save a confidence of pairs."""
    first, second = zip(*PAIRS, strict=True)
    MatchConfidence().fit(tiny(), first, second, [i % 2 for i in range(len(PAIRS))]).save(folder)


@original
def search_confidence(folder: Path) -> None:
    """Save a confidence of search."""
    scores, right = hits(40)
    SearchConfidence().fit(scores, right, lengths=np.arange(1, 41)).save(folder)


def hits(queries: int, k: int = 4) -> tuple[Any, Any]:
    """Return the scores of the first k hits of some queries, and which are right."""
    draw = np.random.default_rng(4)
    scores = -np.sort(-draw.uniform(0.2, 0.9, (queries, k)), axis=1)
    return scores, draw.uniform(size=scores.shape) < scores - 0.1


@original
def classifier(folder: Path) -> None:
    """Save a fitted classifier."""
    Sen2ProClassifier(Sen2Pro(str(model_folder()), samples=2)).fit(TEXTS, LABELS).save(folder)


@original
def index(folder: Path) -> None:
    """Save an index with a graph."""
    words = "the a man woman dog cat plays runs eats sees guitar ball park house".split()
    texts = [f"{a} {b}" for a in words for b in words]
    Index.build(tiny(), texts, kind="hnsw", metadata=[{"n": i} for i in range(len(texts))]).save(folder)


@original
def settings(folder: Path) -> None:
    """Save the settings of a model alone."""
    folder.mkdir()
    shutil.copy(model_folder() / SAVED, folder)


@cache
def plan() -> Plan:
    """Return the plan of a run."""
    return Plan(
        signature=signature(), device="cpu", threads=0, columns={"n": "int64"}, texts=True, batch_size=None,
        inputs=(InputFile("a.txt", 100, "xxh3-128:0", 10), InputFile("b.txt", 50, "xxh3-128:1", 5)),
        reading={"column": None, "id_column": "key", "keep": ["n"], "skip_blank": False}, output="parquet",
    )  # fmt: skip


@original
def plan_folder(folder: Path) -> None:
    """Save this plan."""
    bundle.save(folder, PLAN, plan())


REPORT = RowsReport(rows=3, cut=1, limit=32, skipped=[("a.txt, line 7", "blank")], notes=["a note"], skipped_rows=1)


@original
def shards_folder(folder: Path) -> None:
    """Save a folder of shards."""
    folder.mkdir()
    whole, entries = stored()[".parquet"][0][1], []
    for number, rows in enumerate((slice(0, 2), slice(2, 5))):
        with GaussianWriter(folder / shards.name(number)) as writer:
            writer.write(whole.gaussian[rows], ids=(whole.ids or [])[rows], texts=(whole.texts or [])[rows])
            writer.notes["sen2pro.unit"] = RowsReport(rows=rows.stop - rows.start).to_json()
        entries.append(shards.Shard(rows=rows.stop - rows.start, digest=writer.digest))
    shards.write_manifest(folder, entries, [("a.txt, line 7", "blank")])
