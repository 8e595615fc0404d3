"""Whole files and models to be spoiled, each made once and without a download."""

from __future__ import annotations

import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from conftest import build_network, build_tokenizer
from labelled_texts import LABELS, TEXTS
from test_gaussian import signature
from torch import nn

from sen2pro import Gaussian, Sen2Pro, Whitening
from sen2pro.calibration import MatchConfidence
from sen2pro.calibration.hits import SearchConfidence
from sen2pro.classification import Sen2ProClassifier
from sen2pro.classification.checkpoints import Checkpoint
from sen2pro.estimation.analytic import Correction
from sen2pro.estimation.head import _BASIS, Coverage, Head, Linear
from sen2pro.estimation.shrinkage import Strength
from sen2pro.estimation.specificity import SpecificityHead
from sen2pro.gaussian import Stored
from sen2pro.io.gaussians import GaussianWriter
from sen2pro.sampling.states import States

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
def whitening() -> tuple[bytes, Whitening]:
    """Return a whitening and its file."""
    fitted = Whitening.fit(np.random.default_rng(0).normal(size=(30, K)), 3)
    fitted.save(place() / "whitening.safetensors")
    return (place() / "whitening.safetensors").read_bytes(), fitted


def states(rows: int = 3) -> States:
    """Return the states of a few sentences, as a head reads them."""
    draw = np.random.default_rng(1)
    vectors, layer = (draw.normal(size=(rows, K)).astype(np.float32) for _ in range(2))
    counts = np.arange(3, 3 + rows)
    return States(vectors, {1: layer}, counts, counts, np.ones((rows, K), np.float32))


@cache
def head() -> tuple[dict[str, bytes], Head]:
    """Return a head made by hand, and its files."""
    draw = np.random.default_rng(2)

    def numbers(*shape: int) -> Any:
        return draw.uniform(0.1, 0.5, shape).astype(np.float32)

    def linear(transform: str, layers: tuple[int, ...] | None = (1,)) -> Linear:
        rank = 2 if layers else 0
        return Linear(layers, numbers(_BASIS, K) / 100, numbers(2 * K, rank) / 100, numbers(rank, K) / 100, transform)

    sources, width = ("model", "data"), 2 * K + 3
    made = Head(
        space=dict.fromkeys(("model", "hash", "pooling", "geometry", "whitening", "dropout", "edits"), "x"),
        corpus={"hash": "x", "size": 200},
        teacher={"samples": "6", "seed": 0, "version": "0"},
        quality={source: {"variance per dimension": 0.5, "total variance": float("nan")} for source in sources},
        shifts={source: linear("", None) for source in sources},
        variances={"model": linear("log"), "data": linear("root")},
        errors={source: numbers(K) for source in sources},
        live={source: np.array([True] * (K - 1) + [False]) for source in sources},
        strengths={source: Strength(14.0, 0.5, 1.0, 0.1, 0.2) for source in sources},
        coverage=Coverage(
            (1,), numbers(width), numbers(width), numbers(width, 2).astype(np.float16), numbers(2), 0.5, numbers(3),
            numbers(3) + 3, np.sort(numbers(20)),
        ),
        correction=Correction(linear("log").in_half(), {"total variance": 0.5}),
    )  # fmt: skip
    made.save(place() / "head")
    return contents(place() / "head"), made


@cache
def classifier() -> tuple[dict[str, bytes], Sen2ProClassifier]:
    """Return a fitted classifier and its files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = Sen2ProClassifier(Sen2Pro(str(model_folder()), samples=2)).fit(TEXTS, LABELS)
    fitted.save(place() / "classifier")
    return contents(place() / "classifier"), fitted


@cache
def specificity() -> tuple[dict[str, bytes], SpecificityHead]:
    """Return a specificity head made by hand, and its files."""
    draw = np.random.default_rng(3)

    def rising(count: int) -> Any:
        return np.sort(draw.normal(size=count)).astype(np.float32)

    made = SpecificityHead(
        space=dict.fromkeys(("model", "hash", "pooling", "whitening"), "x"),
        corpus={"hash": "x", "size": 200},
        layers=(1,),
        transform="root",
        r2=0.5,
        terms=draw.normal(size=(_BASIS, 2)).astype(np.float32),
        states=draw.normal(size=(2 * K, 2)).astype(np.float32),
        directions=draw.normal(size=(2, 2)).astype(np.float32),
        low=np.zeros(3, np.float32),
        high=np.full(3, 5, np.float32),
        quantiles=rising(101),
        knots=np.log([1, 3, 9]).astype(np.float32),
        centre=rising(3),
        spread=np.ones(3, np.float32),
        residuals=rising(101),
    )
    made.save(place() / "specificity")
    return contents(place() / "specificity"), made


PAIRS = [(f"the {a} runs", f"a {b} sleeps") for a in ("dog", "cat", "man", "child", "red") for b in "xyzqw"]


@cache
def match_confidence() -> tuple[dict[str, bytes], MatchConfidence]:
    """Return a confidence of pairs and its files."""
    first, second = zip(*PAIRS, strict=True)
    fitted = MatchConfidence().fit(tiny(), first, second, [i % 2 for i in range(len(PAIRS))])
    fitted.save(place() / "match")
    return contents(place() / "match"), fitted


@cache
def search_confidence() -> tuple[dict[str, bytes], SearchConfidence]:
    """Return a confidence of search and its files."""
    scores, right = hits(40)
    fitted = SearchConfidence().fit(scores, right, lengths=np.arange(1, 41))
    fitted.save(place() / "search")
    return contents(place() / "search"), fitted


def hits(queries: int, k: int = 4) -> tuple[Any, Any]:
    """Return the scores of the first k hits of some queries, and which are right."""
    draw = np.random.default_rng(4)
    scores = -np.sort(-draw.uniform(0.2, 0.9, (queries, k)), axis=1)
    return scores, draw.uniform(size=scores.shape) < scores - 0.1


class Training(NamedTuple):
    """A network in training, and its checkpoint."""

    network: nn.Module
    checkpoint: Checkpoint


def training(folder: Path) -> Training:
    """Return a tiny network that is trained with checkpoints in a folder."""
    torch.manual_seed(0)
    network = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(network.parameters())
    return Training(network, Checkpoint(network, optimizer, str(folder), "x"))


@cache
def checkpoint() -> tuple[bytes, dict[str, Any]]:
    """Return the file of a training run after two epochs, and the state then."""
    network, kept = training(place() / "checkpoints")
    for epoch in (1, 2):
        network(torch.ones(1, 3)).sum().backward()
        kept.optimizer.step()
        kept.record(epoch, 1.0 / epoch)
    assert kept.path is not None
    return kept.path.read_bytes(), state_of(network, kept)


def state_of(network: nn.Module, kept: Checkpoint) -> dict[str, Any]:
    """Return all that a checkpoint must restore."""
    moments = kept.optimizer.state_dict()["state"]
    return {
        "about": [kept.epoch, kept.best_epoch, kept.best_loss],
        "now": {name: tensor.tolist() for name, tensor in network.state_dict().items()},
        "best": {name: tensor.tolist() for name, tensor in kept._best.items()},
        "moments": {number: {key: each.tolist() for key, each in values.items()} for number, values in moments.items()},
    }
