"""Write docs/results.md from the JSON files of this folder: `python lab/results/page.py`; `make docs` does."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sen2pro_lab.metrics.report import Result, read, to_markdown

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "results.md"
FOLDERS = {
    "all-MiniLM-L6-v2": "all-MiniLM-L6-v2, exact sampling",
    "all-MiniLM-L6-v2-one-pass": "all-MiniLM-L6-v2, one pass",
    "all-MiniLM-L6-v2-ten": "all-MiniLM-L6-v2, ten examples",
    "all-MiniLM-L6-v2-trained": "all-MiniLM-L6-v2, trained",
    "all-mpnet-base-v2": "all-mpnet-base-v2, exact sampling",
}


def main() -> None:
    """Write the page."""
    parts = [(HERE / "summary.md").read_text(encoding="utf-8").strip()]
    results = {title: read(HERE / name) for name, title in FOLDERS.items()}
    rows = ["| model | table | what | items of a set | verdict |", "|---|---|---|---|---|"]
    for title, found in results.items():
        rows += [f"| {title} | [{r.id}](#{anchor(title, r)}) | {r.title} | {items(r)} | {r.verdict} |" for r in found]
    parts.append("## All verdicts\n\n" + "\n".join(rows))
    for (name, title), found in zip(FOLDERS.items(), results.values(), strict=True):
        parts.append(f"## {title}")
        pictures = os.path.relpath(HERE / name, PAGE.parent) + "/"
        parts += [f'<a id="{anchor(title, r)}"></a>\n\n' + to_markdown(r, level=3, pictures=pictures) for r in found]
    PAGE.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
    print("-> docs/results.md")


def items(result: Result) -> str:
    """Return how many items of each set were taken, as the signature says."""
    limit = re.search(r"limit:(\d+)", result.signature)
    return f"at most {limit[1]}" if limit else "all"


def anchor(title: str, result: Result) -> str:
    """Return the name of a result within the page."""
    return f"{title.split(',')[0]}-{title.split()[-1]}-{result.id}".lower()


if __name__ == "__main__":
    main()
