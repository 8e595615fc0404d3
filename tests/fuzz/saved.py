"""Everything that is saved: a spoiled file is refused, or holds what it held; a forged one is refused, or valid."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from fuzz import originals
from fuzz.engine import Case, Family, Wrong, told
from fuzz.inputs import parquet_bytes
from fuzz.strategies import ODD_NUMBERS, Draw, chance, odd_json, odd_values, plain_texts, rewritten, spelled, spoiled
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

SENTENCES = ["the dog runs", "a cat"]
SIGNATURE = dict.fromkeys(Signature.__dataclass_fields__, "x")


def equal(a: Any, b: Any) -> bool:
    """Tell whether two results are the same to the last bit."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        # Of an array without numbers, the shape says nothing.
        return (a.shape == b.shape or not a.size) and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and repr(a) == repr(b) if not isinstance(a, Gaussian) else a == b


def check_same(found: Any, original: Any, notes: list[str]) -> None:
    """Raise if a spoiled file gave something else, and no warning said that it might."""
    if not notes and not equal(found, original):
        raise Wrong("a spoiled file was read as something else")


# Ways to forge: anyone who writes a file can compute its digest.


@st.composite
def forged_json(draw: Draw, data: bytes, arrays: Any = None) -> bytes:
    """Give a JSON document that says something else, often with a digest that fits."""
    content = json.loads(data)
    digest = content.pop(bundle.DIGEST, None) if isinstance(content, dict) else None
    content = draw(rewritten(content))
    if digest is not None and isinstance(content, dict) and draw(chance(7)):
        content[bundle.DIGEST] = bundle.digest_of(content, arrays)
    return draw(spelled(content))


@st.composite
def forged_header(draw: Draw, data: bytes) -> bytes:
    """Give a safetensors file whose header says something else."""
    size = int.from_bytes(data[:8], "little")
    text, numbers = draw(odd_json(json.loads(data[8 : 8 + size]))), data[8 + size :]
    sizes = (len(text),) * 8 + (0, 1, len(text) // 2, len(text) + 1, 2**32, 2**63, 2**64 - 1)
    size = draw(st.sampled_from(sizes))
    return size.to_bytes(8, "little") + text + draw(st.sampled_from((numbers,) * 3 + (b"", numbers + b"\0" * 8)))


@st.composite
def other_tensors(draw: Draw, data: bytes, metadata: dict[str, str] | None = None) -> bytes:
    """Give a safetensors file with tensors of other types, shapes and numbers."""
    found = load_tensors(data)
    for _ in range(draw(st.sampled_from((1, 1, 2)))):
        name = draw(st.sampled_from(sorted(found)))
        array, flat = found[name], np.atleast_1d(found[name])
        odd = draw(st.sampled_from(ODD_NUMBERS)) if array.dtype.kind == "f" else 1
        one = array.copy()
        one.reshape(-1)[draw(st.integers(0, array.size - 1)) if array.size else slice(0)] = odd
        with np.errstate(all="ignore"):
            changes = [array.astype(kind) for kind in ("f2", "f4", "f8", "i8", "?", "u1")]
            changes += [array.reshape(-1), array[None], flat[:1], flat[..., :0], np.concatenate([flat] * 2), array.T]
            changes += [np.full_like(array, odd), one, one, one]
        found[name] = np.ascontiguousarray(changes[draw(st.integers(0, len(changes) - 1))])
    if draw(chance(1)):
        found[draw(st.sampled_from(("x", "", "coverage")))] = np.zeros(1, np.float32)
    return bytes(save_tensors(found, metadata))


@st.composite
def saved_files(draw: Draw, original: Callable[[], Path]) -> Case:
    """Give one file of a folder, spoiled or forged, and the new digests of others."""
    files = originals.contents(original())
    file = draw(st.sampled_from(sorted(files)))
    data, others = files[file], dict[str, bytes]()
    if draw(chance(5)):
        return Case(file=file, data=draw(spoiled(data)), is_forged=False, others=others)
    if file.endswith(".json"):
        tensors = files.get(file.replace(".json", ".safetensors"))
        data = draw(forged_json(data, tensors and load_tensors(tensors)))
    elif file.endswith(".safetensors"):
        data = draw(forged_header(data) | other_tensors(data) | other_tensors(data))
    else:
        data = draw(spoiled(data))
    if draw(chance(7)) and not file.endswith(".json"):
        others = _signed(files, file, data)
    return Case(file=file, data=data, is_forged=True, others=others)


def _signed(files: dict[str, bytes], file: str, data: bytes) -> dict[str, bytes]:
    """Return the documents of a folder with the digests that fit a forged file: of arrays, and of parts by name."""
    found = {}
    for name in (each for each in files if each.endswith(".json")):
        content = json.loads(files[name])
        if not isinstance(content, dict) or content.pop(bundle.DIGEST, None) is None:
            continue
        try:
            arrays = load_tensors(data) if name == file.replace(".safetensors", ".json") else None
        except Exception:  # what cannot be read has no digest
            continue
        for part in content["files"].values() if isinstance(content.get("files"), dict) else ():
            if part["name"] == file:
                part["digest"] = xxhash.xxh3_128(data).hexdigest()
        found[name] = json.dumps({**content, bundle.DIGEST: bundle.digest_of(content, arrays)}).encode()
    return found


def saved(
    name: str, weight: int, original: Callable[[], Path], load: Callable[[Path], Any], state: Callable[[Any], Any],
    use: Callable[[Any], Any] = lambda found: None,
) -> Family:  # fmt: skip
    """Return the family of a folder that the library saved, with one file spoiled or forged.

    `load` reads it; `state` returns all that must be the same after reading; `use` uses it, and returns what must not
    hold NaN.
    """

    @cache
    def expected() -> Any:
        return state(load(original()))

    def check(case: Case, folder: Path) -> Any:
        target = folder / "saved"
        shutil.copytree(original(), target)
        for file, data in {**case.others, case.file: case.data}.items():
            (target / file).write_bytes(data)
        with told() as notes, np.errstate(all="ignore"):
            found = load(target)
        if not case.is_forged:
            check_same(state(found), expected(), notes)
        with np.errstate(all="ignore"):
            return use(found)

    return Family(name, weight, saved_files(original), check)


def _used_head(head: Head) -> Any:
    states = originals.states()
    # Layers that a network does not have are refused when head and model meet.
    fits = set(head.layers) <= set(states.layers)
    found = [Gaussian(*head.predict(states, source)) for source in head.sources] if fits else []
    return found, head.coverage(states) if fits else None, str(head), head.flaw


def _used_specificity(head: SpecificityHead) -> Any:
    states = originals.states()
    if head.config.layers != (0, 1) or len(head.states) != 3 * 32:
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


def _found(index: Index) -> Any:
    return index.search(SENTENCES, k=5)


def _changed(index: Index) -> Any:
    found = [hit.similarity for result in _found(index) for hit in result]
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


# Files of Gaussians.


@st.composite
def gaussians(draw: Draw, suffix: str) -> Case:
    """Give a spoiled file of Gaussians."""
    number = draw(st.integers(0, len(originals.stored()[suffix]) - 1))
    return Case(data=draw(spoiled(originals.stored()[suffix][number][0])), suffix=suffix, number=number)


def read_gaussians(case: Case, folder: Path) -> Any:
    """Read a spoiled file of Gaussians."""
    path = folder / f"g{case.suffix}"
    path.write_bytes(case.data)
    with told() as notes:
        found = read(path)
    check_same(found, originals.stored()[case.suffix][case.number][1], notes)
    return found.gaussian


odd_signatures = st.deferred(lambda: odd_json(SIGNATURE)).map(lambda data: data.decode("utf-8", "replace"))


@st.composite
def forged_gaussians(draw: Draw) -> Case:
    """Give a file of Gaussians that another program wrote: odd types, shapes and numbers."""
    if draw(st.booleans()):
        return Case(data=draw(parquet_bytes(draw(_tables()))), suffix=".parquet", verify=draw(st.booleans()))
    files = originals.stored()[".safetensors"]
    data = files[draw(st.integers(0, len(files) - 1))][0]
    metadata = draw(
        st.none() | st.dictionaries(st.sampled_from(("sen2pro.digest", "sen2pro.signature")), odd_signatures)
    )
    data = draw(forged_header(data) | other_tensors(data, metadata))
    return Case(data=data, suffix=".safetensors", verify=draw(st.booleans()))


@st.composite
def _tables(draw: Draw) -> pa.Table:
    rows, size = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    made = {name: draw(_vectors(rows, draw(st.sampled_from((size, size, 2))))) for name in ("mean", "variance")}
    if draw(chance(3)):
        kinds = (pa.float32(), pa.float32(), pa.float64(), pa.int64(), pa.float16(), pa.string())
        made["coverage"] = _array(
            draw(_rows(st.sampled_from((*ODD_NUMBERS, None)), rows)), draw(st.sampled_from(kinds))
        )
    if draw(chance(5)):
        kinds = (pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int8(), pa.string()))
        values = draw(_rows(plain_texts | st.none(), rows))
        made[draw(st.sampled_from(("id", "text")))] = _array(values, draw(st.sampled_from(kinds)))
    metadata: dict[str, Any] = {"sen2pro.single": "true"} if draw(chance(2)) else {}
    if draw(chance(3)):
        metadata["sen2pro.signature"] = draw(odd_signatures)
    if draw(chance(2)):
        metadata[draw(st.sampled_from(("sen2pro.digest", "sen2pro.x")))] = draw(st.sampled_from((b"\xff", b"", b"x")))
    return pa.table(made).replace_schema_metadata(metadata or None)


def _rows(values: st.SearchStrategy[Any], rows: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=rows, max_size=rows)


@st.composite
def _vectors(draw: Draw, rows: int, size: int) -> pa.Array:
    numbers = st.sampled_from((0.5, 1.0, 2.0) if draw(chance(7)) else (0.5, *ODD_NUMBERS))
    vectors: list[Any] = draw(_rows(_rows(numbers, size), rows))
    if rows and draw(chance(2)):
        vectors[draw(st.integers(0, rows - 1))] = draw(st.sampled_from((None, [None] * size)))
    kind = draw(st.sampled_from((pa.float32(),) * 5 + (pa.float64(), pa.int32(), pa.float16())))
    return _array(vectors, draw(st.sampled_from((pa.list_(kind, size), pa.list_(kind, size), pa.list_(kind)))))


def _array(values: list[Any], kind: Any) -> pa.Array:
    """Return an array of some type, of nulls where the values are not of it."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.nulls(len(values))


def read_forged(case: Case, folder: Path) -> Any:
    """Read a file of Gaussians of another program."""
    path = folder / f"g{case.suffix}"
    path.write_bytes(case.data)
    return valid(read(path, verify=case.verify))


# JSON that follows no rule; what is read from it can be written and read again.


class Kept(bundle.Config, frozen=True):
    """Settings of every kind."""

    a: str
    b: bundle.Finite | None
    c: tuple[bundle.Count, ...] = ()
    d: dict[str, bool] | None = None
    e: Any = None


def read_config(data: bytes, folder: Path) -> None:
    """Read settings, write them, and read them again."""
    (folder / "a.json").write_bytes(data)
    found = bundle.load(folder, "a", Kept)[0]
    bundle.save(folder, "b", found)
    if repr(bundle.load(folder, "b", Kept)[0]) != repr(found):
        raise Wrong("settings change when they are written and read")


def read_signature(data: bytes, folder: Path) -> None:
    """Read a signature, write it, and read it again."""
    found = Signature.from_json(data.decode("utf-8", "replace"))
    if Signature.from_json(found.to_json()) != found or not str(found):
        raise Wrong("a signature changes when it is written and read")


def read_report(data: bytes, folder: Path) -> None:
    """Read the report of a unit, and add it to another one, as a run that resumes does."""
    path = folder / "unit.parquet"
    with GaussianWriter(path) as writer:
        writer.write(originals.stored()[".parquet"][3][1].gaussian)
        writer.notes["sen2pro.unit"] = data.decode("utf-8", "replace")
    found = RowsReport.of_file(path)
    if (RowsReport(rows=1) + found).rows != found.rows + 1:
        raise Wrong("rows were lost")


# Folders of models.


@st.composite
def trusted(draw: Draw) -> Case:
    """Give a file by which a folder tells the libraries underneath what to load."""
    files = ("modules.json", "config.json", "sentence_bert_config.json", "model.safetensors.index.json")
    file = draw(st.sampled_from(files))
    data = originals.contents(originals.sentence_folder()).get(file, b'{"weight_map": {"a": "model.safetensors"}}')
    return Case(file=file, data=draw(spoiled(data) if draw(chance(3)) else forged_json(data)))


def check_trusted(case: Case, folder: Path) -> None:
    """Check a folder with this file."""
    (folder / case.file).write_bytes(case.data)
    check_folder(folder)


@st.composite
def model_files(draw: Draw) -> Case:
    """Give a file of a model's folder, spoiled or forged."""
    has_modules = draw(st.booleans())
    files = originals.contents(originals.sentence_folder() if has_modules else originals.model_folder())
    file = draw(st.sampled_from(sorted(files)))
    data = files[file]
    if file.endswith(".json") and draw(chance(8)):
        data = draw(forged_json(data))
    elif file.endswith(".safetensors") and draw(chance(5)):
        data = draw(forged_header(data) | other_tensors(data))
    else:
        data = draw(spoiled(data))
    return Case(file=file, data=data, has_modules=has_modules, load=draw(st.booleans()))


def load_model(case: Case, folder: Path) -> Any:
    """Load a model, and encode sentences; weights that changed are refused."""
    whole = originals.sentence_folder() if case.has_modules else originals.model_folder()
    shutil.copytree(whole, folder / "m")
    (folder / "m" / case.file).write_bytes(case.data)
    model = Sen2Pro.load(folder / "m") if case.load else Sen2Pro(str(folder / "m"), samples=2)
    if sum(model.samples.values()) > 100 or model.encoder.dim > 10_000:
        return None
    found = model.encode(["the dog runs", "a"])
    if case.file.endswith("model.safetensors"):
        # The same weights in another type are run by transformers, the original by our own code: equal to rounding.
        expected = _model(whole).encode(["the dog runs", "a"])
        pairs = [(getattr(found, name), getattr(expected, name)) for name in ("mean", "variance")]
        if found.signature != expected.signature or not all(np.allclose(*pair, atol=1e-5) for pair in pairs):
            raise Wrong("a spoiled file was read as something else")
    return found


@cache
def _model(folder: Path) -> Sen2Pro:
    return Sen2Pro(str(folder), samples=2)


_SETTINGS = {"a": "x", "b": 0.5, "c": [1, 2], "d": {"x": True}}

FAMILIES = (
    Family("gaussians .parquet", 8, gaussians(".parquet"), read_gaussians),
    Family("gaussians .safetensors", 8, gaussians(".safetensors"), read_gaussians),
    Family("forged gaussians", 6, forged_gaussians(), read_forged),
    Family("trust", 4, trusted(), check_trusted),
    Family("model folder", 4, model_files(), load_model),
    saved(
        "whitening", 4, originals.whitening, lambda place: Whitening.load(place / "w.safetensors"), vars,
        lambda found: found.apply(np.ones((2, len(found.mean)), np.float32)),
    ),
    saved("head", 4, originals.head, Head.load, lambda head: [head.config, head.arrays], _used_head),
    saved("specificity head", 4, originals.specificity, SpecificityHead.load, vars, _used_specificity),
    saved(
        "match confidence", 4, originals.match_confidence,
        lambda place: MatchConfidence.load(place, model=originals.tiny()), _matched, _matched,
    ),
    saved("search confidence", 4, originals.search_confidence, SearchConfidence.load, _searched, _searched),
    saved(
        "classifier", 4, originals.classifier, lambda place: Sen2ProClassifier.load(place, model=originals.tiny()),
        _classified, _classified,
    ),
    saved("settings", 8, originals.settings, lambda place: bundle.load(place, Path(SAVED).stem, SavedModel), repr),
    saved("plan of a run", 3, originals.plan_folder, _resumed, repr),
    saved("shards", 4, originals.shards_folder, read, lambda found: found, valid),
    saved(
        "index folder", 6, originals.index, lambda place: Index.open(place, originals.tiny()), _found, _changed,
    ),
    Family("signature", 3, odd_json(SIGNATURE), read_signature),
    Family("json", 6, odd_values.flatmap(lambda value: odd_json({**_SETTINGS, "e": value})), read_config),
    Family("report of a unit", 2, odd_json(json.loads(originals.REPORT.to_json())), read_report),
)  # fmt: skip
