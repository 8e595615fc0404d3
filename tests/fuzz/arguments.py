"""Arguments of every odd kind: of the public functions, of what writes files, of the model, of the command line."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from test_arguments import BATCH, hostile, targets
from typer.testing import CliRunner

from fuzz import originals
from fuzz.engine import Case, Family, Wrong
from fuzz.inputs import records_of, text
from fuzz.mutations import HALF, ODD_TEXTS, odd_value
from sen2pro import Gaussian, Sen2Pro, Sen2ProError, distance, distance_pairwise
from sen2pro.cli.app import app
from sen2pro.cli.options import parse_samples
from sen2pro.distances import METRICS
from sen2pro.gaussian import read
from sen2pro.io.inputs import sentences

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 1e-20, 1e15, 1e19, 1e30, 3e38, -3e38, float("nan"), float("inf"))
FINITE = tuple(number for number in NUMBERS if np.isfinite(number))


def array(rng: Random, numbers: tuple[float, ...] = NUMBERS) -> Any:
    """Return an array of some shape and type, or the list that makes it."""
    shape = rng.choice(((3,), (2, 3), (2, 3), (1, 3), (0, 3), (4, 5, 3), (2, 1), (3, 2), ()))
    usual = rng.random() < 0.5
    size = int(np.prod(shape))
    values = np.array([rng.choice((0.5, 1.0, 2.0) if usual else numbers) for _ in range(size)]).reshape(shape)
    with np.errstate(all="ignore"):
        found = values.astype(rng.choice(("f4", "f4", "f8", "f2", "g", "O", ">f4")))
    return found.tolist() if rng.random() < 0.3 else found


def value(rng: Random) -> Any:
    """Return any value: a known troublemaker, an array, a list of them."""
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(hostile())
    if kind < 0.7:
        return array(rng)
    if kind < 0.8:
        return [rng.choice((text(rng), odd_value(rng))) for _ in range(rng.randint(0, 3))]
    return rng.choice((text(rng), odd_value(rng), rng.choice(ODD_TEXTS)))


@cache
def _targets() -> dict[str, Any]:
    return {**targets(originals.tiny()), "samples of the command line": lambda v: parse_samples(str(v))}


class Arguments(Family):
    """The public functions, with one argument that may be anything."""

    name, weight = "arguments", 8

    def make(self, rng: Random) -> Case:
        """Return a function and its argument."""
        return Case(options={"target": rng.choice(sorted(_targets())), "value": value(rng)})

    def run(self, case: Case, folder: Path) -> Any:
        """Call it."""
        if case.options["target"] == "samples of the command line" and not isinstance(case.options["value"], str):
            return None
        return _targets()[case.options["target"]](case.options["value"])


class Indices(Family):
    """What a batch of Gaussians is indexed by."""

    name, weight = "index", 2
    errors = (Sen2ProError, IndexError, TypeError)

    def make(self, rng: Random) -> Case:
        """Return an index."""
        numbers = [rng.choice((0, 1, -1, 2, -3, True, False)) for _ in range(rng.randint(0, 3))]
        kinds = (numbers, np.array(numbers), slice(*rng.sample((None, 0, 1, -1, 5, "x"), 3)), value(rng), (0, ...))
        return Case(options={"index": rng.choice(kinds)})

    def run(self, case: Case, folder: Path) -> Any:
        """Index by it."""
        found = BATCH[case.options["index"]]
        if not isinstance(found, Gaussian) or found.dim != BATCH.dim:
            raise Wrong(f"an index gave {found!r}")
        return found


class Distances(Family):
    """Gaussians of any finite numbers, by any metric."""

    name, weight = "distances", 3

    def make(self, rng: Random) -> Case:
        """Return two batches, a metric and an alpha."""
        rows, dim = rng.randint(0, 3), rng.randint(1, 4)

        def numbers(low: float) -> Any:
            drawn = [rng.choice(FINITE) for _ in range(rows * dim)]
            return np.array([max(each, low) for each in drawn]).reshape(rows, dim)

        a, b = (Gaussian(numbers(-np.inf), numbers(0.0)) for _ in range(2))
        metric = rng.choice((*METRICS, "sen2pro"))
        alpha = rng.choice(("ratio", 0, 1, 0.5, rng.random())) if metric == "sen2pro" else "ratio"
        return Case(options={"a": a, "b": b, "metric": metric, "alpha": alpha})

    def run(self, case: Case, folder: Path) -> Any:
        """Compare all pairs, and pairs: they agree."""
        a, b, metric, alpha = (case.options[name] for name in ("a", "b", "metric", "alpha"))
        table, pairs = (function(a, b, metric, alpha=alpha) for function in (distance, distance_pairwise))
        if not np.allclose(np.diag(table), pairs, rtol=1e-4, atol=1e-4):
            raise Wrong(f"{metric}: {np.diag(table)} of all pairs, {pairs} of pairs")
        return table, pairs, a.entropy, a.log_prob(np.zeros(a.dim)), a.sample(2) if len(a) else None


class Writing(Family):
    """Paths, ids and texts of a file that is written: what is written can be read, and is the same."""

    name, weight = "writing", 4

    def make(self, rng: Random) -> Case:
        """Return what `Gaussian.save` takes."""
        rows = len(BATCH)
        lists = ([text(rng) for _ in range(rows)], [odd_value(rng) for _ in range(rows)], [HALF] * rows, ["a"] * rows)
        options = {name: rng.choice((None, None, *lists, value(rng))) for name in ("ids", "texts")}
        name = rng.choice(("g.parquet", "g.safetensors", "g.parquet", "g.csv", "no/g.parquet", "a\0.parquet", "", ".."))
        return Case(options={**options, "name": name, "single": rng.random() < 0.2})

    def run(self, case: Case, folder: Path) -> Any:
        """Write, and read."""
        gaussian = BATCH[0] if case.options["single"] else BATCH
        path = f"{folder}/{case.options['name']}"
        ids, texts = case.options["ids"], case.options["texts"]
        before = sorted(folder.rglob("*"))
        try:
            gaussian.save(path, ids=ids, texts=texts)
        except Sen2ProError:
            if sorted(folder.rglob("*")) != before:
                raise Wrong("something was left of a file that was refused") from None
            raise
        found = read(path)
        for kept, given in ((found.ids, ids), (found.texts, texts)):
            if kept != (None if given is None else list(map(str, given))):
                raise Wrong(f"{kept!r} was read, {given!r} written")
        if found.gaussian != gaussian:
            raise Wrong("other Gaussians were read than written")
        return found.gaussian


SETTINGS = (
    "method", "samples", "uncertainty", "combine", "pooling", "normalize", "head", "whitening", "dropout", "seed",
    "device", "precision", "vocabulary", "tokenizer",
)  # fmt: skip


class Models(Family):
    """The settings of a model."""

    name, weight = "model", 3

    def make(self, rng: Random) -> Case:
        """Return one or two settings."""
        usual = {
            "method": ("sampling", "one-pass"), "samples": (2, (2, 3), (0, 2)), "dropout": (0.1, 0.9),
            "uncertainty": ("model", "data"), "combine": ("unified",), "pooling": ("cls", "first-last-avg"),
            "precision": ("bfloat16", "float16"), "device": ("cpu", "cuda", "x"), "seed": (10**30, -1),
        }  # fmt: skip
        names = rng.sample(SETTINGS, rng.choice((1, 1, 2)))
        options = {name: rng.choice((*usual.get(name, ()), value(rng))) for name in names}
        if isinstance(options.get("tokenizer"), str):  # the hub would be asked for it
            options["tokenizer"] = None
        return Case(options=options)

    def run(self, case: Case, folder: Path) -> Any:
        """Make the model, and encode."""
        tiny = originals.tiny().encoder.transformers
        settings = {"tokenizer": tiny.source_tokenizer, "samples": 2, **case.options}
        if isinstance(settings.get("method"), str) and "samples" not in case.options:
            del settings["samples"]  # one pass takes none
        return Sen2Pro(tiny.network, **settings).encode(["the dog", "a cat runs"])


class Commands(Family):
    """The command line: exit code 0 with a whole file, or 2 with a message and no file."""

    name, weight = "command line", 3
    options = (
        "--samples", "--column", "--id-column", "--method", "--uncertainty", "--combine", "--pooling", "--dropout",
        "--seed", "--device", "--batch-size", "--longest-line", "--head", "--model",
    )  # fmt: skip
    flags = ("--skip-blank", "--overwrite", "--no-text", "--normalize", "--no-normalize", "--nonsense", "--help")
    values = (
        "2", "3+2", "-1", "0", "1", "1e3", "nan", "inf", "0.1", "²", "", " ", "x", "text", "id", "model", "data", "cls",
        "unified", "one-pass", "shrinkage", "9" * 30, "\x1b[31m", "[bold]", "é", "/", "..", "/nowhere/at/all",
    )  # fmt: skip
    paths = ("/", "..", "./x", "/nowhere/at/all")  # for any other name the hub would be asked

    def make(self, rng: Random) -> Case:
        """Return a file of sentences and arguments."""
        suffix = rng.choice((".txt", ".csv", ".jsonl"))
        sentences = [text(rng, 0.1) for _ in range(rng.randint(0, 3))]
        lines = {
            ".txt": sentences,
            ".csv": ["text", *sentences],
            ".jsonl": [f'{{"text": "{each}"}}' for each in sentences],
        }
        given: list[str] = []
        for _ in range(rng.choice((0, 1, 1, 2))):
            flag = rng.choice((None, None, *self.flags))
            option = rng.choice(self.options)
            given += [flag] if flag else [option, rng.choice(self.paths if option == "--model" else self.values)]
        output = rng.choice(("out.parquet", "out.parquet", "out.safetensors", "out.csv", "no/out.parquet", ""))
        return Case("\n".join(lines[suffix]).encode(), {"suffix": suffix, "arguments": given, "output": output})

    def run(self, case: Case, folder: Path) -> Any:
        """Encode."""
        path, output = folder / f"in{case.options['suffix']}", folder / (case.options["output"] or "x")
        path.write_bytes(case.data)
        fixed = [str(path), str(output) if case.options["output"] else "", "--model", str(originals.model_folder())]
        result = CliRunner().invoke(app, ["encode", *fixed, "--samples", "2", *case.options["arguments"]])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if "Traceback" in result.output or result.exit_code not in (0, 2):
            raise Wrong(f"exit code {result.exit_code}: {result.output[-200:]}")
        if result.exit_code:
            if output.exists():
                raise Wrong("a failed run left a file")
            raise Sen2ProError(result.output + result.stderr)
        if "--help" in case.options["arguments"]:
            return None
        found = read(output)
        skip = "--skip-blank" in case.options["arguments"]
        column = _given(case.options["arguments"], "--column")
        if len(found.gaussian) != len(records_of(lambda: sentences(str(path), column, skip_blank=skip))):
            raise Wrong("not every sentence was encoded")
        return found.gaussian


def _given(arguments: list[str], option: str) -> str | None:
    places = [i for i, each in enumerate(arguments[:-1]) if each == option]
    return arguments[places[-1] + 1] if places else None


FAMILIES = (Arguments(), Indices(), Distances(), Writing(), Models(), Commands())
