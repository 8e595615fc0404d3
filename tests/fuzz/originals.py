"""Whole files, folders and models to be spoiled, each made once and without a download."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from conftest import build_network, build_tokenizer
from labelled_texts import LABELS, TEXTS
from test_gaussian import signature

from sen2pro import Gaussian, Sen2Pro, Whitening
from sen2pro.calibration import MatchConfidence, SearchConfidence
from sen2pro.classification import Sen2ProClassifier
from sen2pro.encoder.backend import States
from sen2pro.estimation.head import Head, HeadConfig, HeadSpace, Teacher
from sen2pro.estimation.linear import BASIS, hash_of
from sen2pro.estimation.specificity import Corpus, Space, SpecificityConfig, SpecificityHead
from sen2pro.gaussian import Stored
from sen2pro.io import bundle, shards
from sen2pro.io.gaussians import GaussianWriter
from sen2pro.io.inputs import InputFile
from sen2pro.jobs.run_folder import PLAN, Plan
from sen2pro.jobs.workers import RowsReport
from sen2pro.search import Index
from sen2pro.settings import SAVED

K = 4  # dimensions of what is made by hand


@cache
def place() -> Path:
    """Return a folder for originals, as long as this process lives."""
    folder = tempfile.TemporaryDirectory(prefix="sen2pro-originals-")
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[Any] = []  # a temporary folder is deleted with the object


@cache
def tiny() -> Sen2Pro:
    """Return a model in memory, on a tiny random BERT."""

    return Sen2Pro(build_network("bert"), tokenizer=build_tokenizer(), samples=2)


@cache
def model_folder() -> Path:
    """Return that model on disk."""
    tiny().save(place() / "model")
    return place() / "model"


@cache
def sentence_folder() -> Path:
    """Return a model on disk that sentence-transformers reads: with modules, a pooling and prompts."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    modules = [Transformer(str(model_folder())), Pooling(32), Normalize()]
    model = SentenceTransformer(modules=modules, device="cpu", prompts={"query": "the "})
    Sen2Pro(model, samples=2).save(place() / "sentences")
    return place() / "sentences"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, by their paths in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@cache
def stored() -> dict[str, list[tuple[bytes, Stored]]]:
    """Return files of Gaussians by suffix, each with what it holds."""
    draw = np.random.default_rng(0)

    def batch(rows: int, coverage: bool = False) -> Gaussian:
        far = draw.uniform(0, 1, rows) if coverage else None
        return Gaussian(draw.normal(size=(rows, K)), draw.uniform(0, 1, (rows, K)), signature(), far)

    ids, texts = ["a", "b", "ü", "d d", "é"], ["the dog", "rain", "a man", "x", "music"]
    every = [
        Stored(batch(5), ids, texts),
        Stored(batch(5, coverage=True), None, texts),
        Stored(batch(5), ids, None),
        Stored(batch(3), None, None),
        Stored(batch(1)[0], None, None),
        Stored(batch(1, coverage=True)[0], ["one"], None),
        Stored(Gaussian([[0.0]] * 30, [[1.0]] * 30), None, None),
        Stored(batch(0), None, None),
    ]
    plain = [Stored(each.gaussian, None, None) for each in every]
    return {
        ".parquet": [(_written(each, ".parquet"), each) for each in every],
        ".safetensors": [(_written(each, ".safetensors"), each) for each in plain],
    }


def _written(each: Stored, suffix: str) -> bytes:
    path = place() / f"gaussians{suffix}"
    gaussian, step = each.gaussian, 2
    with GaussianWriter(path, overwrite=True) as writer:
        if len(gaussian.shape) == 1 or not len(gaussian):
            writer.write(gaussian, ids=each.ids, texts=each.texts)
        else:
            for start in range(0, len(gaussian), step):
                rows = slice(start, start + step)
                writer.write(gaussian[rows], ids=each.ids and each.ids[rows], texts=each.texts and each.texts[rows])
    return path.read_bytes()


@cache
def whitening() -> Path:
    """Return a folder with the file of a whitening."""
    (place() / "whitening").mkdir()
    Whitening.fit(np.random.default_rng(0).normal(size=(30, K)), 3).save(place() / "whitening" / "w.safetensors")
    return place() / "whitening"


def states(rows: int = 3) -> States:
    """Return the states of a few sentences, as a head reads them."""
    draw = np.random.default_rng(1)
    vectors, layer = (draw.normal(size=(rows, K)).astype(np.float32) for _ in range(2))
    counts = np.arange(3, 3 + rows)
    return States(vectors, {1: layer}, counts, counts)


@cache
def head() -> Path:
    """Return the folder of a head made by hand."""
    draw = np.random.default_rng(2)

    def numbers(*shape: int) -> Any:
        return draw.uniform(0.1, 0.5, shape).astype(np.float32)

    def linear(name: str, rank: int = 2) -> dict[str, Any]:
        parts = {"terms": numbers(BASIS, K), "states": numbers(2 * K, rank), "directions": numbers(rank, K)}
        return {f"{name}.{part}": array / 100 for part, array in parts.items()}

    width = 2 * K + 3
    shapes = {"centre": (width,), "scale": (width,), "axes": (width, 2), "spread": (2,), "low": (3,)}
    coverage = {f"coverage.{name}": numbers(*shape) for name, shape in shapes.items()}
    coverage["coverage.axes"] = coverage["coverage.axes"].astype(np.float16)
    coverage |= {"coverage.high": numbers(3) + 3, "coverage.distances": np.sort(numbers(20))}
    live = np.array([True] * (K - 1) + [False])
    arrays = {"model.live": live, "data.live": live, **coverage, **linear("model.shift", 0), **linear("data.shift", 0)}
    arrays |= {**linear("model.variance"), **linear("data.variance")}
    config = HeadConfig(
        space=HeadSpace(**dict.fromkeys(HeadSpace.__struct_fields__, "x")),
        corpus=Corpus(hash="x", size=200),
        teacher=Teacher(samples="6", seed=0),
        quality={s: {"variance per dimension": 0.5, "total variance": float("nan")} for s in ("model", "data")},
        rest=0.5,
        layers={
            "coverage": (1,), "model.shift": None, "data.shift": None, "model.variance": (1,), "data.variance": (1,)
        },
        transforms={"model.shift": "", "data.shift": "", "model.variance": "log", "data.variance": "root"},
        worth={"model": 20.0, "data": 30.0},
        hash=hash_of(arrays),
    )  # fmt: skip
    Head(config, arrays).save(place() / "head")
    return place() / "head"


@cache
def specificity() -> Path:
    """Return the folder of a specificity head made by hand."""
    draw = np.random.default_rng(3)

    def rising(count: int) -> Any:
        return np.sort(draw.normal(size=count)).astype(np.float32)

    arrays = {
        "terms": draw.normal(size=(BASIS, 2)), "states": draw.normal(size=(2 * K, 2)),
        "directions": draw.normal(size=(2, 2)), "low": np.zeros(3), "high": np.full(3, 5), "quantiles": rising(101),
        "knots": np.log([1, 3, 9]), "centre": rising(3), "spread": np.ones(3), "residuals": rising(101),
    }  # fmt: skip
    singles = {name: array.astype(np.float32) for name, array in arrays.items()}
    space = Space(model="x", hash="x", pooling="x", whitening="x")
    config = SpecificityConfig(
        space=space, corpus=Corpus(hash="x", size=200), layers=(1,), transform="root", r2=0.5, hash=hash_of(singles)
    )
    SpecificityHead(config, **singles).save(place() / "specificity")
    return place() / "specificity"


PAIRS = [(f"the {a} runs", f"a {b} sleeps") for a in ("dog", "cat", "man", "child", "red") for b in "xyzqw"]


@cache
def match_confidence() -> Path:
    """Return the folder of a confidence of pairs."""
    first, second = zip(*PAIRS, strict=True)
    MatchConfidence().fit(tiny(), first, second, [i % 2 for i in range(len(PAIRS))]).save(place() / "match")
    return place() / "match"


@cache
def search_confidence() -> Path:
    """Return the folder of a confidence of search."""
    scores, right = hits(40)
    SearchConfidence().fit(scores, right, lengths=np.arange(1, 41)).save(place() / "search")
    return place() / "search"


def hits(queries: int, k: int = 4) -> tuple[Any, Any]:
    """Return the scores of the first k hits of some queries, and which are right."""
    draw = np.random.default_rng(4)
    scores = -np.sort(-draw.uniform(0.2, 0.9, (queries, k)), axis=1)
    return scores, draw.uniform(size=scores.shape) < scores - 0.1


@cache
def classifier() -> Path:
    """Return the folder of a fitted classifier."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Sen2ProClassifier(Sen2Pro(str(model_folder()), samples=2)).fit(TEXTS, LABELS).save(place() / "classifier")
    return place() / "classifier"


@cache
def index() -> Path:
    """Return the folder of an index with a graph."""
    words = "the a man woman dog cat plays runs eats sees guitar ball park house".split()
    texts = [f"{a} {b}" for a in words for b in words]
    Index.build(tiny(), texts, kind="hnsw", metadata=[{"n": i} for i in range(len(texts))]).save(place() / "index")
    return place() / "index"


@cache
def settings() -> Path:
    """Return a folder with the settings of a model alone."""
    (place() / "settings").mkdir()
    shutil.copy(model_folder() / SAVED, place() / "settings")
    return place() / "settings"


@cache
def plan() -> Plan:
    """Return the plan of a run."""
    return Plan(
        signature=signature(), device="cpu", threads=0, columns={"n": "int64"}, texts=True, batch_size=None,
        inputs=(InputFile("a.txt", 100, "xxh3-128:0", 10), InputFile("b.txt", 50, "xxh3-128:1", 5)),
        reading={"column": None, "id_column": "key", "keep": ["n"], "skip_blank": False}, output="parquet",
    )  # fmt: skip


@cache
def plan_folder() -> Path:
    """Return a folder with this plan."""
    bundle.save(place() / "run", PLAN, plan())
    return place() / "run"


REPORT = RowsReport(rows=3, cut=1, limit=32, skipped=[("a.txt, line 7", "blank")], notes=["a note"], skipped_rows=1)


@cache
def shards_folder() -> Path:
    """Return a folder of shards."""
    (place() / "shards").mkdir()
    whole, entries = stored()[".parquet"][0][1], []
    for number, rows in enumerate((slice(0, 2), slice(2, 5))):
        with GaussianWriter(place() / "shards" / shards.name(number)) as writer:
            writer.write(whole.gaussian[rows], ids=(whole.ids or [])[rows], texts=(whole.texts or [])[rows])
            writer.notes["sen2pro.unit"] = RowsReport(rows=rows.stop - rows.start).to_json()
        entries.append(shards.Shard(rows=rows.stop - rows.start, digest=writer.digest))
    shards.write_manifest(place() / "shards", entries, [("a.txt, line 7", "blank")])
    return place() / "shards"
