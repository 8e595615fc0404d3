"""What visitors of the page paste and open: a clear message, or sentences that stay texts in HTML."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

from fuzz.engine import Case, Family, Wrong
from fuzz.inputs import is_sentence, text
from fuzz.mutations import spoiled
from sen2pro.page import fragments, inputs
from sen2pro.page.limits import Limits

_LIMITS = Limits(characters=200, sentences=8, documents=8, examples=8, labels=3)
_TAGS = ("<b>", "<img src=x onerror=1>", '"><script>', "&lt;", "';--", "label,text\n", ": ")
_NAMES = (
    "a.txt",
    "a.csv",
    "a.tsv",
    "a.jsonl",
    "a.CSV",
    "a",
    "",
    "../../a.csv",
    "<b>.csv",
    "a.csv.gz",
    "a.parquet",
    ".jsonl",
)


class Pasted(Family):
    """Texts of the boxes, and files that were opened in the browser."""

    name, weight = "page", 8

    def make(self, rng: Random) -> Case:
        """Return lines, a table, or JSON lines, often spoiled."""
        kind = rng.choice(("lines", "labels", "table", "json"))
        rows = [
            (rng.choice(("a", "b", text(rng))), text(rng) + rng.choice(("", *_TAGS))) for _ in range(rng.randint(0, 10))
        ]
        lines = {
            "lines": [line for _, line in rows], "labels": [f"{label}: {line}" for label, line in rows],
            "table": ["label,text", *(f'{label},"{line}"' for label, line in rows)],
            "json": [repr({"label": label, "text": line}).replace("'", '"') for label, line in rows],
        }[kind]  # fmt: skip
        data = "\n".join(lines).encode("utf-8", "replace")
        return Case(
            spoiled(data, rng) if rng.random() < 0.4 else data, {"name": rng.choice(_NAMES), "use": rng.randrange(4)}
        )

    def run(self, case: Case, folder: Path) -> Any:
        """Read it as a tab does, and show it."""
        given = case.data.decode("utf-8", "replace")
        use, name = case.options["use"], case.options["name"]
        if use == 0:
            found = inputs.opened(name, given, with_labels=len(given) % 2 == 0).splitlines()
        elif use == 1:
            found, labels = inputs.labelled(given, _LIMITS)
            if len(labels) != len(found) or len(set(labels)) > _LIMITS.labels or len(found) > _LIMITS.examples:
                raise Wrong(f"{len(labels)} labels of {len(found)} texts")
        elif use == 2:
            found = inputs.sentences(given, "sentences", _LIMITS.sentences, _LIMITS)
            if len(found) > _LIMITS.sentences or not all(map(is_sentence, found)):
                raise Wrong(f"no sentences: {found!r}")
        else:
            found = [inputs.sentence(given, "the question", _LIMITS)]
        if use and any(len(line) > _LIMITS.characters for line in found):
            raise Wrong("a text is longer than the limit")
        for line in found:
            shown = fragments.message(line)
            if re.findall("<[^>]*>", shown) != ['<div class="s2p-error" role="alert">', "</div>"]:
                raise Wrong(f"a tag in {shown!r}")
        return len(found)


FAMILIES = (Pasted(),)
