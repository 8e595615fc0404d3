"""Files of the library's own: a spoiled one is refused, or holds what it held; a forged one is refused, or valid."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from fuzz import originals
from fuzz.engine import Case, Family, Wrong, told
from fuzz.inputs import parquet_bytes, text
from fuzz.mutations import odd_value, rewritten, spelled, spoiled
from sen2pro import Gaussian, Sen2Pro, Whitening
from sen2pro.classification import Sen2ProClassifier
from sen2pro.classification import saving as classifier_files
from sen2pro.encoder.find import check_folder
from sen2pro.errors import has_surrogates
from sen2pro.estimation import analytic
from sen2pro.estimation.head import CONFIG, TENSORS, Head
from sen2pro.gaussian import Stored, read
from sen2pro.io import documents
from sen2pro.model import _saved_settings
from sen2pro.signature import Signature

ODD_NUMBERS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e38, -1e38, float("nan"), float("inf"), float("-inf"))


def check_same(found: Any, original: Any, notes: list[str]) -> None:
    """Raise if a spoiled file gave something else, and no warning said that it might."""
    if not notes and not _equal(found, original):
        raise Wrong("a spoiled file was read as something else")


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        # Of an array without numbers, the shape says nothing.
        return (a.shape == b.shape or not a.size) and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    return type(a) is type(b) and repr(a) == repr(b) if not isinstance(a, Gaussian) else a == b


def header_of(data: bytes) -> tuple[Any, bytes]:
    """Return the header of a safetensors file, and its numbers."""
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def forged_tensors(data: bytes, rng: Random) -> bytes:
    """Return a safetensors file whose header says something else."""
    header, numbers = header_of(data)
    text = spelled(rewritten(header, rng), rng)
    size = rng.choice((len(text),) * 8 + (0, 1, len(text) // 2, len(text) + 1, 2**32, 2**63, 2**64 - 1))
    return size.to_bytes(8, "little") + text + rng.choice((numbers, numbers, numbers, b"", numbers + b"\0" * 8))


def other_tensors(data: bytes, rng: Random, metadata: dict[str, str] | None = None) -> bytes:
    """Return a safetensors file with tensors of other types, shapes and numbers."""
    found = load_tensors(data)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(found))
        array = found[name]
        kind = rng.choice(("f2", "f4", "f8", "i8", "?", "u1"))
        changes = (
            lambda array=array, kind=kind: array.astype(kind),
            lambda array=array: array.reshape(-1),
            lambda array=array: array[None],
            lambda array=array: np.atleast_1d(array)[:1],
            lambda array=array: np.atleast_1d(array)[..., :0],
            lambda array=array: np.concatenate([np.atleast_1d(array)] * 2),
            lambda array=array: np.full_like(array, rng.choice(ODD_NUMBERS) if array.dtype.kind == "f" else 0),
            lambda array=array: _one_changed(array, rng),
            lambda array=array: np.ascontiguousarray(array.T),
        )
        with np.errstate(all="ignore"):
            found[name] = np.ascontiguousarray(rng.choice(changes)())
    if rng.random() < 0.1:
        found[rng.choice(("x", "", "coverage"))] = np.zeros(1, np.float32)
    return bytes(save_tensors(found, metadata))


def _one_changed(array: Any, rng: Random) -> Any:
    array = array.copy()
    if array.size:
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice(ODD_NUMBERS) if array.dtype.kind == "f" else 1
    return array


def check_valid(stored: Stored) -> Any:
    """Raise if what a forged file holds does not belong together; return what must not hold NaN."""
    gaussian = stored.gaussian
    rows = 1 if len(gaussian.shape) == 1 else len(gaussian)
    for name, values in (("ids", stored.ids), ("texts", stored.texts)):
        if values is not None and (len(values) != rows or any(not isinstance(each, str) for each in values)):
            raise Wrong(f"{rows} Gaussians with {name} {values!r}")
        if values is not None and any(has_surrogates(each) for each in values):
            raise Wrong(f"{name} that are no Unicode: {values!r}")
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
        original = originals.stored()[self.suffix][case.options["number"]][1]
        check_same(found._asdict(), original._asdict(), notes)
        return found.gaussian


class ForgedGaussians(Family):
    """Files of Gaussians that another program wrote."""

    name, weight = "forged gaussians", 6

    def make(self, rng: Random) -> Case:
        """Return a file with columns or tensors of odd types, shapes and numbers."""
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
            made["coverage"] = _array([rng.choice((*ODD_NUMBERS, None)) for _ in range(rows)], _real(rng))
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
        return check_valid(read(path, verify=case.options["verify"]))


def _odd_signature(rng: Random) -> str:
    return spelled(rewritten(dict.fromkeys(Signature.__dataclass_fields__, "x"), rng), rng).decode("utf-8", "replace")


def _real(rng: Random) -> Any:
    return rng.choice((pa.float32(), pa.float32(), pa.float64(), pa.int64(), pa.float16(), pa.string()))


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


class Whitenings(Family):
    """The file of a whitening, spoiled or forged."""

    name, weight = "whitening", 4

    def make(self, rng: Random) -> Case:
        """Return a file."""
        data = originals.whitening()[0]
        if rng.random() < 0.6:
            return Case(spoiled(data, rng), {"forged": False})
        return Case(forged_tensors(data, rng) if rng.random() < 0.5 else other_tensors(data, rng), {"forged": True})

    def run(self, case: Case, folder: Path) -> Any:
        """Read it, and use it."""
        path = folder / "w.safetensors"
        path.write_bytes(case.data)
        with told() as notes:
            found = Whitening.load(path)
        if not case.options["forged"]:
            check_same(vars(found), vars(originals.whitening()[1]), notes)
        return found.apply(np.ones((2, len(found.mean)), np.float32))


def changed_file(files: dict[str, bytes], name: str, data: bytes, folder: Path) -> None:
    """Write files to a folder, one of them with other content."""
    for each, content in files.items():
        path = folder / each
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if each == name else content)


class Heads(Family):
    """The folder of a head, spoiled or forged."""

    name, weight = "head", 4

    def make(self, rng: Random) -> Case:
        """Return one of its files."""
        files = originals.head()[0]
        file = rng.choice((CONFIG, TENSORS, analytic.CONFIG, analytic.TENSORS))
        if rng.random() < 0.6:
            return Case(spoiled(files[file], rng), {"file": file, "forged": False})
        if file in (TENSORS, analytic.TENSORS):
            return Case(rng.choice((forged_tensors, other_tensors))(files[file], rng), {"file": file, "forged": True})
        config = json.loads(files[file])
        del config["digest"]
        config = rewritten(config, rng)
        if isinstance(config, dict) and rng.random() < 0.5:
            config[documents.DIGEST] = documents.digest_of(config)
        return Case(spelled(config, rng), {"file": file, "forged": True})

    def run(self, case: Case, folder: Path) -> Any:
        """Read it, and use it as a model does."""
        files, original = originals.head()
        changed_file(files, case.options["file"], case.data, folder)
        head = Head.load(folder)
        if not case.options["forged"]:
            check_same(_state(head), _state(original), [])
        states = originals.states()
        with np.errstate(all="ignore"):
            # Layers that a network does not have are refused when head and model meet.
            sources = head.sources if set(head.layers) <= set(states.layers) else ()
            found = [Gaussian(*head.predict(states, source)) for source in sources]
            if sources and head.correction:
                spread = states.spread.astype(np.float64)
                found.append(Gaussian(states.vectors, head.correct(states, spread)))
            coverage = head.coverage(states) if head.coverage.layers == (1,) else None
        return found, coverage, str(head), head.flaw


def _state(head: Head) -> dict[str, Any]:
    about = {name: getattr(head, name) for name in ("space", "corpus", "teacher", "quality", "layers", "strengths")}
    maps = {name: (linear.layers, linear.transform) for name, linear in head._maps().items()}
    correction = head.correction and (head.correction.hash, head.correction.quality)
    return {**about, "maps": maps, "rest": head.coverage.rest, "numbers": head._tensors(), "correction": correction}


class Classifiers(Family):
    """The folder of a classifier, spoiled or forged."""

    name, weight = "classifier", 4

    def make(self, rng: Random) -> Case:
        """Return one of its files; who forges one can compute the hash anew."""
        files = originals.classifier()[0]
        file = rng.choice((classifier_files.CONFIG, classifier_files.TENSORS))
        if rng.random() < 0.5:
            return Case(spoiled(files[file], rng), {"file": file, "forged": False})
        config = json.loads(files[classifier_files.CONFIG])
        numbers = files[classifier_files.TENSORS]
        del config["hash"]
        if file == classifier_files.TENSORS:
            numbers = other_tensors(numbers, rng)
        else:
            config = rewritten(config, rng)
        if isinstance(config, dict) and rng.random() < 0.9:
            config["hash"] = classifier_files._hash(config, _readable(numbers))
        return Case(spelled(config, rng), {"file": classifier_files.CONFIG, "forged": True, "numbers": numbers})

    def run(self, case: Case, folder: Path) -> Any:
        """Read it, and predict."""
        files, original = originals.classifier()
        changed_file(files, case.options["file"], case.data, folder)
        if "numbers" in case.options:
            (folder / classifier_files.TENSORS).write_bytes(case.options["numbers"])
        found = Sen2ProClassifier.load(folder, model=originals.tiny())
        if not case.options["forged"]:
            check_same(_parts(found), _parts(original), [])
        rows = Gaussian(np.ones((2, found.n_features_in_)), np.ones((2, found.n_features_in_)))
        probabilities = found.predict_proba(rows)
        if not np.allclose(probabilities.sum(axis=1), 1):
            raise Wrong(f"probabilities that do not add up to 1: {probabilities}")
        return probabilities, found.predict(rows)


def _readable(data: bytes) -> Any:
    """Return the tensors that the library will read, as the hash is over those only."""
    return {name: array for name, array in load_tensors(data).items() if name in classifier_files._NUMBERS}


def _parts(classifier: Sen2ProClassifier) -> dict[str, Any]:
    settings = {name: value for name, value in classifier.settings_.items() if name != "model"}
    return {
        "settings": settings, "classes": classifier.classes_.tolist(), "choice": asdict(classifier.choice_),
        "signature": classifier.signature_, "scaling": dict(vars(classifier.scaling_)),
        "matrix": classifier.weights_.matrix, "bias": classifier.weights_.bias,
    }  # fmt: skip


class Checkpoints(Family):
    """The file of a training run, spoiled or forged."""

    name, weight = "checkpoint", 3

    def make(self, rng: Random) -> Case:
        """Return a file."""
        data = originals.checkpoint()[0]
        if rng.random() < 0.6:
            return Case(spoiled(data, rng), {"forged": False})
        about = spelled(rewritten({"epoch": 2, "best_epoch": 1, "best_loss": 0.5}, rng), rng).decode("utf-8", "replace")
        metadata = rng.choice(
            ({"sen2pro": about}, {"sen2pro": '{"epoch": 2, "best_epoch": 1, "best_loss": 0.5}'}, None)
        )
        forged = forged_tensors(data, rng) if rng.random() < 0.3 else other_tensors(data, rng, metadata)
        return Case(forged, {"forged": True})

    def run(self, case: Case, folder: Path) -> Any:
        """Go on from it."""
        network, kept = originals.training(folder)
        assert kept.path is not None
        kept.path.write_bytes(case.data)
        kept.resume()
        if not case.options["forged"]:
            check_same(originals.state_of(network, kept), originals.checkpoint()[1], [])
        return [parameter.detach().numpy() for parameter in network.parameters()]


class Settings(Family):
    """The settings of a model, spoiled or forged."""

    name, weight = "settings", 8

    def make(self, rng: Random) -> Case:
        """Return sen2pro.json."""
        data = originals.contents(originals.model_folder())["sen2pro.json"]
        if rng.random() < 0.5:
            return Case(spoiled(data, rng), {"forged": False})
        settings = json.loads(data)
        del settings[documents.DIGEST]
        settings = rewritten(settings, rng)
        if isinstance(settings, dict) and rng.random() < 0.5:
            settings[documents.DIGEST] = documents.digest_of(settings)
        return Case(spelled(settings, rng), {"forged": True})

    def run(self, case: Case, folder: Path) -> None:
        """Read them."""
        (folder / "sen2pro.json").write_bytes(case.data)
        found = _saved_settings(folder)
        if not case.options["forged"]:
            check_same(found, _saved_settings(originals.model_folder()), [])


class Trust(Family):
    """The files by which a folder tells the libraries underneath what to load."""

    name, weight = "trust", 4
    files = ("modules.json", "config.json", "sentence_bert_config.json", "model.safetensors.index.json")

    def make(self, rng: Random) -> Case:
        """Return one of them."""
        file = rng.choice(self.files)
        return Case(_spoiled_document(originals.contents(originals.sentence_folder()).get(file), rng), {"file": file})

    def run(self, case: Case, folder: Path) -> None:
        """Check the folder."""
        (folder / case.options["file"]).write_bytes(case.data)
        check_folder(folder)


def _spoiled_document(data: bytes | None, rng: Random) -> bytes:
    if data is None:
        data = b'{"weight_map": {"a": "model.safetensors"}, "metadata": {}}'
    if rng.random() < 0.3:
        return spoiled(data, rng)
    return spelled(rewritten(json.loads(data), rng), rng)


class Signatures(Family):
    """The signature of a file."""

    name, weight = "signature", 3

    def make(self, rng: Random) -> Case:
        """Return JSON."""
        return Case(_odd_signature(rng).encode())

    def run(self, case: Case, folder: Path) -> None:
        """Read it, and write it again."""
        found = Signature.from_json(case.data.decode())
        if Signature.from_json(found.to_json()) != found or not str(found):
            raise Wrong("a signature changes when it is written and read")


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
            data = spelled(rewritten(json.loads(data), rng), rng)
        elif file.endswith(".safetensors") and rng.random() < 0.5:
            data = rng.choice((forged_tensors, other_tensors))(data, rng)
        else:
            data = spoiled(data, rng)
        if file == "sen2pro.json" and rng.random() < 0.8:
            data = _without_digest(data)
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
            near = all(
                np.allclose(getattr(found, name), getattr(expected, name), atol=1e-5) for name in ("mean", "variance")
            )
            if not near or found.signature != expected.signature:
                raise Wrong("a spoiled file was read as something else")
        return found


_MODELS: dict[Path, Sen2Pro] = {}


def _model(folder: Path) -> Sen2Pro:
    if folder not in _MODELS:
        _MODELS[folder] = Sen2Pro(str(folder), samples=2)
    return _MODELS[folder]


def _without_digest(data: bytes) -> bytes:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if isinstance(found, dict):
        found.pop(documents.DIGEST, None)
    return json.dumps(found).encode()


class Documents(Family):
    """Any JSON, against any check."""

    name, weight = "json", 6
    check = staticmethod(documents.record(
        {"a": documents.TEXT, "b": documents.either(documents.NULL, documents.NUMBER)},
        {"c": documents.list_of(documents.COUNT), "d": documents.mapping(documents.TRUTH), "e": documents.ANY_NUMBER},
    ))  # fmt: skip

    def make(self, rng: Random) -> Case:
        """Return JSON."""
        whole = {"a": "x", "b": 0.5, "c": [1, 2], "d": {"x": True}, "e": odd_value(rng)}
        return Case(spelled(rewritten(whole, rng), rng))

    def run(self, case: Case, folder: Path) -> None:
        """Read it; what passes can be written and read again."""
        path = folder / "a.json"
        path.write_bytes(case.data)
        found = documents.read(path, self.check)
        documents.write(folder / "b.json", found)
        if repr(documents.read(folder / "b.json", self.check)) != repr(found):
            raise Wrong("a document changes when it is written and read")


FAMILIES = (
    Gaussians(".parquet", 8), Gaussians(".safetensors", 8), ForgedGaussians(), Whitenings(), Heads(), Classifiers(),
    Checkpoints(), Settings(), Trust(), Signatures(), Documents(), ModelFolders(),
)  # fmt: skip
