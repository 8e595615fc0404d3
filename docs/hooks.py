"""Put files from outside docs/ on the site: README.md as its home page, other root pages, and pictures of results.

`Structs` shows the fields of msgspec's classes in the reference, as those of dataclasses are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from griffe import Attribute, Class, Extension, Function, Parameter, ParameterKind, Parameters
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"index.md": "README.md"} | {name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}
PAGES["notes.md"] = "lab/results/notes.md"
RESULTS = "lab/results/summary.md"  # stands in the repository for the page of all results, which is built from it
PICTURES = ("lab/results/*/*.png",)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and pictures that are not in docs/."""
    pictures = [path for pattern in PICTURES for path in ROOT.glob(pattern)]
    sources = {uri: ROOT / name for uri, name in PAGES.items()} | {p.relative_to(ROOT).as_posix(): p for p in pictures}
    for uri, path in sources.items():
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links between files of the repository to their place on the site; unlink what is not on it."""
    uri = page.file.src_uri
    here = PurePosixPath(PAGES.get(uri, f"docs/{uri}")).parent
    names = {RESULTS: "results.md", **{name: uri for uri, name in PAGES.items()}}

    def moved(match: re.Match[str]) -> str:
        mark, text, target, anchor = match.groups(default="")
        path = os.path.normpath(here / target)
        place = names.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(place) is None:
            return text
        return f"{mark}[{text}]({os.path.relpath(place, PurePosixPath(uri).parent)}{anchor})"

    return LINK.sub(moved, markdown)


class Structs(Extension):
    """Give each `Config` of the library the `__init__` that msgspec makes from its fields."""

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Add the method to a class that has just been read."""
        if "Config" not in map(str, cls.bases) or "__init__" in cls.members:
            return
        fields = [each for each in cls.members.values() if isinstance(each, Attribute) and each.annotation is not None]
        kind = ParameterKind.keyword_only
        parameters = Parameters(
            *(Parameter(f.name, annotation=f.annotation, kind=kind, default=f.value) for f in fields)
        )
        cls.set_member("__init__", Function("__init__", parameters=parameters, parent=cls, returns="None"))
