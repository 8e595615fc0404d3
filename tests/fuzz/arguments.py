"""Arguments of every odd kind: of the public functions, of what writes files, of the model, of the command line."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from test_arguments import BATCH, hostile, targets
from typer.testing import CliRunner

from fuzz import originals
from fuzz.engine import Case, Family, Wrong
from fuzz.inputs import records_of
from fuzz.strategies import HALF, Draw, chance, odd_values, texts
from sen2pro import Gaussian, Sen2Pro, Sen2ProError, distance, distance_pairwise
from sen2pro.cli.app import app
from sen2pro.cli.options import parse_samples
from sen2pro.distances import METRICS
from sen2pro.gaussian import read
from sen2pro.io.inputs import sentences

FINITE = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 1e-20, 1e15, 1e19, 1e30, 3e38, -3e38)
_HOSTILE = len(hostile())  # an iterator among them can be read once, so they are made anew for each case

shapes = st.sampled_from(((3,), (2, 3), (2, 3), (1, 3), (0, 3), (4, 5, 3), (2, 1), (3, 2), ()))
numbers = st.sampled_from((0.5, 1.0, 2.0)) | st.sampled_from((*FINITE, float("nan"), float("inf")))
arrays = st.builds(
    lambda array, kind: _as(array, kind), hnp.arrays("f8", shapes, elements=numbers),
    st.sampled_from(("list", "f4", "f4", "f8", "f2", "g", "O", ">f4")),
)  # fmt: skip
hostile_values = st.integers(0, _HOSTILE - 1).map(lambda place: hostile()[place])
values = hostile_values | arrays | st.lists(texts() | odd_values, max_size=3) | texts() | odd_values


def _as(array: Any, kind: str) -> Any:
    """Return an array as one of another type, or as the list that makes it."""
    with np.errstate(all="ignore"):
        return array.tolist() if kind == "list" else array.astype(kind)


def cases(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    """Give cases of these parts."""
    return st.builds(Case, **parts)


@functools.cache
def _targets() -> dict[str, Any]:
    return {**targets(originals.tiny()), "samples of the command line": lambda v: parse_samples(str(v))}


def call(case: Case, folder: Path) -> Any:
    """Call a public function."""
    if case.target == "samples of the command line" and not isinstance(case.value, str):
        return None
    return _targets()[case.target](case.value)


indices = (
    st.lists(st.sampled_from((0, 1, -1, 2, -3, True, False)), max_size=3).flatmap(
        lambda found: st.sampled_from((found, np.array(found)))
    )
    | st.builds(slice, *[st.sampled_from((None, 0, 1, -1, 5, "x"))] * 3) | values | st.just((0, ...))
)  # fmt: skip


def index(case: Case, folder: Path) -> Any:
    """Index a batch of Gaussians."""
    found = BATCH[case.index]
    if not isinstance(found, Gaussian) or found.dim != BATCH.dim:
        raise Wrong(f"an index gave {found!r}")
    return found


@st.composite
def gaussian_pairs(draw: Draw) -> Case:
    """Give two batches of any finite numbers, a metric and an alpha."""
    shape = draw(st.tuples(st.integers(0, 3), st.integers(1, 4)))
    means, variances = (hnp.arrays("f8", shape, elements=st.sampled_from(each)) for each in (FINITE, np.abs(FINITE)))
    a, b = (Gaussian(draw(means), draw(variances)) for _ in "ab")
    metric = draw(st.sampled_from((*METRICS, "sen2pro")))
    alpha = draw(st.sampled_from(("ratio", 0, 1, 0.5)) | st.floats(0, 1)) if metric == "sen2pro" else "ratio"
    return Case(a=a, b=b, metric=metric, alpha=alpha)


def compare(case: Case, folder: Path) -> Any:
    """Compare all pairs, and pairs: they agree."""
    a, b = case.a, case.b
    table, pairs = (function(a, b, case.metric, alpha=case.alpha) for function in (distance, distance_pairwise))
    if not np.allclose(np.diag(table), pairs, rtol=1e-4, atol=1e-4):
        raise Wrong(f"{case.metric}: {np.diag(table)} of all pairs, {pairs} of pairs")
    return table, pairs, a.entropy, a.log_prob(np.zeros(a.dim)), a.sample(2) if len(a) else None


_LISTS = st.lists(texts(), min_size=2, max_size=2) | st.lists(odd_values, min_size=2, max_size=2)
listed = st.none() | _LISTS | st.sampled_from(([HALF] * 2, ["a"] * 2)) | values
outputs = ("g.parquet", "g.safetensors", "g.parquet", "g.csv", "no/g.parquet", "a\0.parquet", "", "..")


def write(case: Case, folder: Path) -> Any:
    """Write a file of Gaussians, and read it: what is written can be read, and is the same."""
    gaussian, before = BATCH[0] if case.single else BATCH, sorted(folder.rglob("*"))
    path = f"{folder}/{case.name}"
    try:
        gaussian.save(path, ids=case.ids, texts=case.texts)
    except Sen2ProError:
        if sorted(folder.rglob("*")) != before:
            raise Wrong("something was left of a file that was refused") from None
        raise
    found = read(path)
    for kept, given in ((found.ids, case.ids), (found.texts, case.texts)):
        if kept != (None if given is None else list(map(str, given))):
            raise Wrong(f"{kept!r} was read, {given!r} written")
    if found.gaussian != gaussian:
        raise Wrong("other Gaussians were read than written")
    return found.gaussian


USUAL = {
    "method": ("sampling", "one-pass"), "samples": (2, (2, 3), (0, 2)), "dropout": (0.1, 0.9), "normalize": (True,),
    "uncertainty": ("model", "data"), "combine": ("unified",), "pooling": ("cls", "first-last-avg"), "head": (None,),
    "precision": ("bfloat16", "float16"), "device": ("cpu", "cuda", "x"), "seed": (10**30, -1), "whitening": (None,),
    "vocabulary": (["red"],), "tokenizer": (None,),
}  # fmt: skip


@st.composite
def model_settings(draw: Draw) -> Case:
    """Give one or two settings of a model."""
    names = draw(st.lists(st.sampled_from(sorted(USUAL)), min_size=1, max_size=2, unique=True))
    options = {name: draw(st.sampled_from(USUAL[name]) | values) for name in names}
    if isinstance(options.get("tokenizer"), str):  # the hub would be asked for it
        options["tokenizer"] = None
    return Case(**options)


def encode(case: Case, folder: Path) -> Any:
    """Make a model, and encode."""
    tiny, options = originals.tiny().encoder.transformers, vars(case)
    settings = {"tokenizer": tiny.source_tokenizer, "samples": 2, **options}
    if isinstance(settings.get("method"), str) and "samples" not in options:
        del settings["samples"]  # one pass takes none
    return Sen2Pro(tiny.network, **settings).encode(["the dog", "a cat runs"])


OPTIONS = (
    "--samples", "--column", "--id-column", "--method", "--uncertainty", "--combine", "--pooling", "--dropout",
    "--seed", "--device", "--batch-size", "--longest-line", "--head",
)  # fmt: skip
FLAGS = ("--skip-blank", "--overwrite", "--no-text", "--normalize", "--no-normalize", "--nonsense", "--help")
VALUES = (
    "2", "3+2", "-1", "0", "1", "1e3", "nan", "inf", "0.1", "²", "", " ", "x", "text", "id", "model", "data", "cls",
    "unified", "one-pass", "shrinkage", "9" * 30, "\x1b[31m", "[bold]", "é", "/", "..", "/nowhere/at/all",
)  # fmt: skip
PATHS = ("/", "..", "./x", "/nowhere/at/all")  # of a model: for any other name the hub would be asked

given_options = (
    st.sampled_from(FLAGS).map(lambda flag: [flag])
    | st.tuples(st.sampled_from(OPTIONS), st.sampled_from(VALUES)).map(list)
    | st.tuples(st.just("--model"), st.sampled_from(PATHS)).map(list)
)
commands = cases(
    suffix=st.sampled_from((".txt", ".csv", ".jsonl")),
    texts=st.lists(texts(1).filter(lambda text: "\ud800" not in text), max_size=3),
    arguments=st.lists(given_options, max_size=2).map(lambda found: [each for pair in found for each in pair]),
    output=st.sampled_from(("out.parquet", "out.parquet", "out.safetensors", "out.csv", "no/out.parquet", "")),
)


def run(case: Case, folder: Path) -> Any:
    """Encode by the command line: exit code 0 with a whole file, or 2 with a message and no file."""
    path, output = folder / f"in{case.suffix}", folder / (case.output or "x")
    lines = [f'{{"text": "{each}"}}' for each in case.texts] if case.suffix == ".jsonl" else case.texts
    path.write_bytes("\n".join(["text"] * (case.suffix == ".csv") + lines).encode())
    fixed = [str(path), str(output) if case.output else "", "--model", str(originals.model_folder())]
    result = CliRunner().invoke(app, ["encode", *fixed, "--samples", "2", *case.arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if "Traceback" in result.output or result.exit_code not in (0, 2):
        raise Wrong(f"exit code {result.exit_code}: {result.output[-200:]}")
    if result.exit_code:
        if output.exists():
            raise Wrong("a failed run left a file")
        raise Sen2ProError(result.output + result.stderr)
    if "--help" in case.arguments:
        return None
    pairs = dict(zip(case.arguments, case.arguments[1:], strict=False))
    records = records_of(lambda: sentences(path, pairs.get("--column"), skip_blank="--skip-blank" in case.arguments))
    found = read(output)
    if len(found.gaussian) != len(records):
        raise Wrong("not every sentence was encoded")
    return found.gaussian


FAMILIES = (
    Family("arguments", 8, cases(target=st.deferred(lambda: st.sampled_from(sorted(_targets()))), value=values), call),
    Family("index", 2, cases(index=indices), index, (Sen2ProError, IndexError, TypeError)),
    Family("distances", 3, gaussian_pairs(), compare),
    Family("writing", 4, cases(ids=listed, texts=listed, name=st.sampled_from(outputs), single=chance(2)), write),
    Family("model", 3, model_settings(), encode),
    Family("command line", 3, commands, run),
)
