"""Everything that is saved: a spoiled file is refused, or holds what it held; a forged one is refused, or valid."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from fuzz import originals
from fuzz.engine import Case, Family, Wrong, told
from fuzz.inputs import parquet_bytes, text
from fuzz.mutations import odd_value, rewritten, spelled, spoiled
from sen2pro import Gaussian, Sen2Pro, Whitening
from sen2pro.calibration import MatchConfidence, SearchConfidence
from sen2pro.classification import Sen2ProClassifier
from sen2pro.encoder.find import check_folder
from sen2pro.errors import has_surrogates
from sen2pro.estimation.head import Head
from sen2pro.estimation.specificity import SpecificityHead
from sen2pro.gaussian import Stored, read
from sen2pro.io import bundle
from sen2pro.io.gaussians import GaussianWriter
from sen2pro.jobs.run_folder import PLAN, RunFolder
from sen2pro.jobs.workers import RowsReport
from sen2pro.search import Index
from sen2pro.settings import SAVED, SavedModel
from sen2pro.signature import Signature

ODD_NUMBERS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e38, -1e38, float("nan"), float("inf"), float("-inf"))
SENTENCES = ["the dog runs", "a cat"]


def check_same(found: Any, original: Any, notes: list[str] = []) -> None:  # noqa: B006 (never changed)
    """Raise if a spoiled file gave something else, and no warning said that it might."""
    if not notes and not _equal(found, original):
        raise Wrong("a spoiled file was read as something else")


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        # Of an array without numbers, the shape says nothing.
        return (a.shape == b.shape or not a.size) and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(map(_equal, a, b))
    return type(a) is type(b) and repr(a) == repr(b) if not isinstance(a, Gaussian) else a == b


# Ways to forge: anyone who writes a file can compute its digest.


def forged_json(data: bytes, rng: Random, arrays: Any = None) -> bytes:
    """Return a JSON document that says something else, often with a digest that fits."""
    content = json.loads(data)
    digest = content.pop(bundle.DIGEST, None) if isinstance(content, dict) else None
    content = rewritten(content, rng)
    if digest is not None and isinstance(content, dict) and rng.random() < 0.7:
        content[bundle.DIGEST] = bundle.digest_of(content, arrays)
    return spelled(content, rng)


def forged_tensors(data: bytes, rng: Random) -> bytes:
    """Return a safetensors file whose header says something else."""
    size = int.from_bytes(data[:8], "little")
    header, numbers = json.loads(data[8 : 8 + size]), data[8 + size :]
    text = spelled(rewritten(header, rng), rng)
    size = rng.choice((len(text),) * 8 + (0, 1, len(text) // 2, len(text) + 1, 2**32, 2**63, 2**64 - 1))
    return size.to_bytes(8, "little") + text + rng.choice((numbers, numbers, numbers, b"", numbers + b"\0" * 8))


def other_tensors(data: bytes, rng: Random, metadata: dict[str, str] | None = None) -> bytes:
    """Return a safetensors file with tensors of other types, shapes and numbers."""
    found = load_tensors(data)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(found))
        array, flat = found[name], np.atleast_1d(found[name])
        odd = rng.choice(ODD_NUMBERS) if array.dtype.kind == "f" else 1
        one = array.copy()
        one.reshape(-1)[rng.randrange(array.size) if array.size else slice(0)] = odd
        kind = rng.choice(("f2", "f4", "f8", "i8", "?", "u1"))
        changes = (
            lambda array=array, kind=kind: array.astype(kind),
            *(array.reshape(-1), array[None], flat[:1], flat[..., :0], np.concatenate([flat] * 2), array.T),
            *(np.full_like(array, odd), one),
        )
        chosen = rng.choice(changes)
        with np.errstate(all="ignore"):
            found[name] = np.ascontiguousarray(chosen() if callable(chosen) else chosen)
    if rng.random() < 0.1:
        found[rng.choice(("x", "", "coverage"))] = np.zeros(1, np.float32)
    return bytes(save_tensors(found, metadata))


@dataclass(frozen=True, eq=False)
class Saved(Family):
    """A folder that the library saved, with one file spoiled or forged.

    `original` gives the folder; `load` reads it; `state` returns all that must be the same after reading; `use` uses
    it, and returns what must not hold NaN.
    """

    name: str  # type: ignore[assignment]
    weight: int  # type: ignore[assignment]
    original: Callable[[], Path]
    load: Callable[[Path], Any]
    state: Callable[[Any], Any]
    use: Callable[[Any], Any] = lambda found: None

    def make(self, rng: Random) -> Case:
        """Return one of its files, and the new digests of others."""
        files = originals.contents(self.original())
        file = rng.choice(sorted(files))
        data, config = files[file], file.replace(".safetensors", ".json")
        if rng.random() < 0.5:
            return Case(spoiled(data, rng), {"file": file, "forged": False, "others": {}})
        others: dict[str, bytes] = {}
        if file.endswith(".json"):
            tensors = files.get(file.replace(".json", ".safetensors"))
            data = forged_json(data, rng, tensors and load_tensors(tensors))
        elif file.endswith(".safetensors"):
            data = rng.choice((forged_tensors, other_tensors, other_tensors))(data, rng)
        else:
            data = spoiled(data, rng)
        if rng.random() < 0.7 and not file.endswith(".json"):
            others = _signed(files, file, data, config)
        return Case(data, {"file": file, "forged": True, "others": others})

    def run(self, case: Case, folder: Path) -> Any:
        """Read it, and use it."""
        target = folder / "saved"
        shutil.copytree(self.original(), target)
        for name, data in {**case.options["others"], case.options["file"]: case.data}.items():
            (target / name).write_bytes(data)
        with told() as notes, np.errstate(all="ignore"):
            found = self.load(target)
        if not case.options["forged"]:
            check_same(self.state(found), self.state(self._original()), notes)
        with np.errstate(all="ignore"):
            return self.use(found)

    def _original(self) -> Any:
        if self.name not in _ORIGINALS:
            _ORIGINALS[self.name] = self.load(self.original())
        return _ORIGINALS[self.name]


_ORIGINALS: dict[str, Any] = {}


def _signed(files: dict[str, bytes], file: str, data: bytes, config: str) -> dict[str, bytes]:
    """Return the documents of a folder with the digests that fit a forged file: of arrays, and of parts by name."""
    found = {}
    for name in (each for each in files if each.endswith(".json")):
        content = json.loads(files[name])
        if not isinstance(content, dict) or content.pop(bundle.DIGEST, None) is None:
            continue
        try:
            arrays = load_tensors(data) if name == config else None
        except Exception:  # what cannot be read has no digest
            continue
        for part in content["files"].values() if isinstance(content.get("files"), dict) else ():
            if part["name"] == file:
                part["digest"] = xxhash.xxh3_128(data).hexdigest()
        found[name] = json.dumps({**content, bundle.DIGEST: bundle.digest_of(content, arrays)}).encode()
    return found


def _used_head(head: Head) -> Any:
    states = originals.states()
    # Layers that a network does not have are refused when head and model meet.
    fits = set(head.layers) <= set(states.layers)
    found = [Gaussian(*head.predict(states, source)) for source in head.sources] if fits else []
    return found, head.coverage(states) if fits else None, str(head), head.flaw


def _used_specificity(head: SpecificityHead) -> Any:
    states = originals.states()
    if head.config.layers != (1,) or len(head.states) != 2 * originals.K:
        return None  # refused when head and model meet
    value = head.value(states)
    found = value, head.score(value), head.at_length(value, states.words)
    if not all(((each >= 0) & (each <= 100)).all() for each in found[1:] if np.isfinite(each).all()):
        raise Wrong(f"percentages outside 0 to 100: {found[1:]}")
    return found


def _probabilities(*found: Any) -> Any:
    """Raise if these are not probabilities."""
    for each in map(np.asarray, found):
        if np.isfinite(each).all() and not ((each >= 0) & (each <= 1)).all():
            raise Wrong(f"not probabilities: {each}")
    return found


def _matched(confidence: MatchConfidence) -> Any:
    rules = [confidence.threshold(**{name: 0.6}) for name in ("precision", "recall")]
    rules.append(confidence.threshold(false_matches=300))
    matches = confidence.match(["the dog runs", "x"], ["a x sleeps", "rain today"], rules[0])
    _probabilities(matches.probability)
    return matches.probability, [(rule.threshold, rule.share) for rule in rules if rule], str(confidence.report())


def _searched(confidence: SearchConfidence) -> Any:
    scores = originals.hits(3, min(confidence.hits, 1000))[0]
    extras: dict[str, Any] = {name: np.full(3, 0.5) for name in confidence.needs}
    rule = confidence.abstain(0.6)
    has_sets = confidence.state.later and confidence.state.testing.labels
    depth = confidence.answer_set(scores, **extras) if has_sets else np.ones(3)
    if not ((depth >= 1) & (depth <= confidence.hits + 1)).all():
        raise Wrong(f"answer sets of {depth} hits, of {confidence.hits}")
    found = confidence.probability(scores, **extras), confidence.probability_each(scores, **extras)
    return _probabilities(*found), depth, rule and (rule.threshold, rule.share), str(confidence.report())


def _classified(classifier: Sen2ProClassifier) -> Any:
    rows = Gaussian(np.ones((2, classifier.n_features_in_)), np.ones((2, classifier.n_features_in_)))
    probabilities = classifier.predict_proba(rows)
    if not np.allclose(probabilities.sum(axis=1), 1):
        raise Wrong(f"probabilities that do not add up to 1: {probabilities}")
    return probabilities, classifier.predict(rows)


def _changed(index: Index) -> Any:
    found = [hit.similarity for result in index.search(SENTENCES, k=5) for hit in result]
    index.add(["the small red house"], ids=["another one"])
    index.delete(["another one", "0"])
    return found


def _resumed(folder: Path) -> Any:
    """Compare the plan with that of the resuming run: any difference is refused, so nothing can be smuggled."""
    run, wanted = RunFolder(folder / "out.parquet"), originals.plan()
    run.path.mkdir()
    shutil.copy(folder / f"{PLAN}.json", run.path)
    known = run.known_inputs(run.read_plan(), [file.digest for file in wanted.inputs], ["text"] * 2, ["a", "b"])
    run.begin(wanted, restart=False)
    shutil.rmtree(run.path)
    if [file.digest for file in known] != [file.digest for file in wanted.inputs]:
        raise Wrong("another input was taken for the same")
    return known


def valid(stored: Stored) -> Any:
    """Raise if the parts of a forged file do not belong together; return what must not hold NaN."""
    gaussian = stored.gaussian
    rows = 1 if len(gaussian.shape) == 1 else len(gaussian)
    for name, values in (("ids", stored.ids), ("texts", stored.texts)):
        if values is not None and (len(values) != rows or any(not isinstance(each, str) for each in values)):
            raise Wrong(f"{rows} Gaussians with {name} {values!r}")
        if values is not None and any(has_surrogates(each) for each in values):
            raise Wrong(f"{name} that are not Unicode: {values!r}")
    return gaussian


class Gaussians(Family):
    """Files of Gaussians, spoiled."""

    def __init__(self, suffix: str, weight: int) -> None:
        self.name, self.suffix, self.weight = f"gaussians {suffix}", suffix, weight

    def make(self, rng: Random) -> Case:
        """Return a spoiled file."""
        number = rng.randrange(len(originals.stored()[self.suffix]))
        return Case(spoiled(originals.stored()[self.suffix][number][0], rng), {"number": number})

    def run(self, case: Case, folder: Path) -> Any:
        """Read it."""
        path = folder / f"g{self.suffix}"
        path.write_bytes(case.data)
        with told() as notes:
            found = read(path)
        check_same(found, originals.stored()[self.suffix][case.options["number"]][1], notes)
        return found.gaussian


class ForgedGaussians(Family):
    """Files of Gaussians that another program wrote: odd types, shapes and numbers."""

    name, weight = "forged gaussians", 6

    def make(self, rng: Random) -> Case:
        """Return a Parquet or a safetensors file."""
        verify = rng.random() < 0.5
        if rng.random() < 0.5:
            data = rng.choice(originals.stored()[".safetensors"])[0]
            metadata = rng.choice((None, {}, {"sen2pro.digest": "x"}, {"sen2pro.signature": _odd_signature(rng)}))
            data = forged_tensors(data, rng) if rng.random() < 0.5 else other_tensors(data, rng, metadata)
            return Case(data, {"suffix": ".safetensors", "verify": verify})
        return Case(parquet_bytes(self._table(rng), rng), {"suffix": ".parquet", "verify": verify})

    def _table(self, rng: Random) -> pa.Table:
        rows, size = rng.randint(0, 4), rng.randint(0, 3)
        made = {name: _vectors(rng, rows, rng.choice((size, size, 2))) for name in ("mean", "variance")}
        if rng.random() < 0.3:
            kind = rng.choice((pa.float32(), pa.float32(), pa.float64(), pa.int64(), pa.float16(), pa.string()))
            made["coverage"] = _array([rng.choice((*ODD_NUMBERS, None)) for _ in range(rows)], kind)
        if rng.random() < 0.5:
            kind = rng.choice((pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int8(), pa.string())))
            made[rng.choice(("id", "text"))] = _array([rng.choice((text(rng, 0.0), None)) for _ in range(rows)], kind)
        metadata = {"sen2pro.single": "true"} if rng.random() < 0.2 else {}
        if rng.random() < 0.3:
            metadata["sen2pro.signature"] = _odd_signature(rng)
        if rng.random() < 0.2:
            metadata[rng.choice(("sen2pro.digest", "sen2pro.x"))] = rng.choice((b"\xff", b"", b"x"))
        table = pa.table(made)
        return table.replace_schema_metadata(metadata) if metadata else table

    def run(self, case: Case, folder: Path) -> Any:
        """Read it."""
        path = folder / f"g{case.options['suffix']}"
        path.write_bytes(case.data)
        return valid(read(path, verify=case.options["verify"]))


def _odd_signature(rng: Random) -> str:
    return spelled(rewritten(dict.fromkeys(Signature.__dataclass_fields__, "x"), rng), rng).decode("utf-8", "replace")


def _vectors(rng: Random, rows: int, size: int) -> pa.Array:
    usual = (0.5, 1.0, 2.0)
    numbers = [[rng.choice(rng.choice((usual, usual, usual, ODD_NUMBERS))) for _ in range(size)] for _ in range(rows)]
    if rng.random() < 0.2 and rows:
        numbers[rng.randrange(rows)] = rng.choice((None, [None] * size))
    kind = rng.choice((pa.float32(),) * 5 + (pa.float64(), pa.int32(), pa.float16()))
    return _array(numbers, rng.choice((pa.list_(kind, size), pa.list_(kind, size), pa.list_(kind))))


def _array(values: list[Any], kind: Any) -> pa.Array:
    """Return an array of some type, of nulls where the values are not of it."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.nulls(len(values))


@dataclass(frozen=True, eq=False)
class Json(Family):
    """JSON that follows no rule; what is read from it can be written and read again."""

    name: str  # type: ignore[assignment]
    weight: int  # type: ignore[assignment]
    whole: Callable[[Random], Any]
    check: Callable[[bytes, Path], None]

    def make(self, rng: Random) -> Case:
        """Return the JSON."""
        return Case(spelled(rewritten(self.whole(rng), rng), rng))

    def run(self, case: Case, folder: Path) -> None:
        """Read it, and check what was read."""
        self.check(case.data, folder)


class Kept(bundle.Config, frozen=True):
    """Settings of every kind."""

    a: str
    b: bundle.Finite | None
    c: tuple[bundle.Count, ...] = ()
    d: dict[str, bool] | None = None
    e: Any = None


def _kept(data: bytes, folder: Path) -> None:
    (folder / "a.json").write_bytes(data)
    found = bundle.load(folder, "a", Kept)[0]
    bundle.save(folder, "b", found)
    if repr(bundle.load(folder, "b", Kept)[0]) != repr(found):
        raise Wrong("settings change when they are written and read")


def _signature(data: bytes, folder: Path) -> None:
    found = Signature.from_json(data.decode("utf-8", "replace"))
    if Signature.from_json(found.to_json()) != found or not str(found):
        raise Wrong("a signature changes when it is written and read")


def _report(data: bytes, folder: Path) -> None:
    """Read the report of a unit, and add it to another one, as a run that resumes does."""
    path = folder / "unit.parquet"
    with GaussianWriter(path) as writer:
        writer.write(originals.stored()[".parquet"][3][1].gaussian)
        writer.notes["sen2pro.unit"] = data.decode("utf-8", "replace")
    found = RowsReport.of_file(path)
    total = RowsReport(rows=1) + found
    if total.rows != found.rows + 1:
        raise Wrong("rows were lost")


TRUSTED = ("modules.json", "config.json", "sentence_bert_config.json", "model.safetensors.index.json")


class Trust(Family):
    """The files by which a folder tells the libraries underneath what to load."""

    name, weight = "trust", 4

    def make(self, rng: Random) -> Case:
        """Return one of them."""
        file = rng.choice(TRUSTED)
        data = originals.contents(originals.sentence_folder()).get(file, b'{"weight_map": {"a": "model.safetensors"}}')
        return Case(spoiled(data, rng) if rng.random() < 0.3 else forged_json(data, rng), {"file": file})

    def run(self, case: Case, folder: Path) -> None:
        """Check the folder."""
        (folder / case.options["file"]).write_bytes(case.data)
        check_folder(folder)


class ModelFolders(Family):
    """The folder of a model, with one file spoiled or forged."""

    name, weight = "model folder", 4

    def make(self, rng: Random) -> Case:
        """Return one of its files."""
        modules = rng.random() < 0.5
        files = originals.contents(originals.sentence_folder() if modules else originals.model_folder())
        file = rng.choice(sorted(files))
        data = files[file]
        if file.endswith(".json") and rng.random() < 0.8:
            data = forged_json(data, rng)
        elif file.endswith(".safetensors") and rng.random() < 0.5:
            data = rng.choice((forged_tensors, other_tensors))(data, rng)
        else:
            data = spoiled(data, rng)
        return Case(data, {"file": file, "modules": modules, "load": rng.random() < 0.5})

    def run(self, case: Case, folder: Path) -> Any:
        """Load it, and encode sentences; weights that changed are refused."""
        whole = originals.sentence_folder() if case.options["modules"] else originals.model_folder()
        shutil.copytree(whole, folder / "m")
        (folder / "m" / case.options["file"]).write_bytes(case.data)
        model = Sen2Pro.load(folder / "m") if case.options["load"] else Sen2Pro(str(folder / "m"), samples=2)
        if sum(model.samples.values()) > 100 or model.encoder.dim > 10_000:
            return None
        found = model.encode(["the dog runs", "a"])
        if case.options["file"].endswith("model.safetensors"):
            # The same weights in another type are run by transformers, the original by our own code: equal to rounding.
            expected = _model(whole).encode(["the dog runs", "a"])
            pairs = [(getattr(found, name), getattr(expected, name)) for name in ("mean", "variance")]
            if found.signature != expected.signature or not all(np.allclose(*pair, atol=1e-5) for pair in pairs):
                raise Wrong("a spoiled file was read as something else")
        return found


@cache
def _model(folder: Path) -> Sen2Pro:
    return Sen2Pro(str(folder), samples=2)


FAMILIES: tuple[Family, ...] = (
    Gaussians(".parquet", 8), Gaussians(".safetensors", 8), ForgedGaussians(), Trust(), ModelFolders(),
    Saved(
        "whitening", 4, originals.whitening, lambda place: Whitening.load(place / "w.safetensors"), vars,
        lambda found: found.apply(np.ones((2, len(found.mean)), np.float32)),
    ),
    Saved("head", 4, originals.head, Head.load, lambda head: [head.config, head.arrays], _used_head),
    Saved("specificity head", 4, originals.specificity, SpecificityHead.load, vars, _used_specificity),
    Saved(
        "match confidence", 4, originals.match_confidence,
        lambda place: MatchConfidence.load(place, model=originals.tiny()), _matched, _matched,
    ),
    Saved("search confidence", 4, originals.search_confidence, SearchConfidence.load, _searched, _searched),
    Saved(
        "classifier", 4, originals.classifier, lambda place: Sen2ProClassifier.load(place, model=originals.tiny()),
        _classified, _classified,
    ),
    Saved("settings", 8, originals.settings, lambda place: bundle.load(place, Path(SAVED).stem, SavedModel), repr),
    Saved("plan of a run", 3, originals.plan_folder, _resumed, repr),
    Saved("shards", 4, originals.shards_folder, read, lambda found: found, valid),
    Saved(
        "index folder", 6, originals.index, lambda place: Index.open(place, originals.tiny()),
        lambda index: index.search(SENTENCES, k=5), _changed,
    ),
    Json("signature", 3, lambda rng: dict.fromkeys(Signature.__dataclass_fields__, "x"), _signature),
    Json(
        "json", 6, lambda rng: {"a": "x", "b": 0.5, "c": [1, 2], "d": {"x": True}, "e": odd_value(rng)}, _kept,
    ),
    Json("report of a unit", 2, lambda rng: json.loads(originals.REPORT.to_json()), _report),
)  # fmt: skip
