"""Did a change of the code move a number? Compare two folders of results: `python lab/results/compare.py BEFORE AFTER`.

Every number of every table in BEFORE must stand in AFTER, under the same labels and up to rounding; so must the title.
Rows that are only in AFTER are counted, and so are words of verdicts and notes that changed. Times are passed over.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMES = ("ms a pair",)  # measured again in every run


def labels_of(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return what says which row it is: texts, and numbers of examples or samples."""
    return tuple((key, value) for key, value in row.items() if isinstance(value, str) or key in ("shots", "samples"))


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every plain value within a row, with the way to it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, inner in items:
            yield from flat(inner, f"{path}/{key}")


def differ(before: Any, after: Any, tolerance: float) -> bool:
    """Tell whether two values are not the same; numbers may differ by rounding."""
    if isinstance(before, int | float) and isinstance(after, int | float):
        return not math.isclose(before, after, rel_tol=tolerance, abs_tol=tolerance)
    return bool(before != after)


def moved(before: list[dict[str, Any]], after: list[dict[str, Any]], tolerance: float) -> tuple[list[str], int]:
    """Return what changed of the rows in `before`, and how many rows were added."""
    said, left = [], list(after)
    for row in before:
        match = next((other for other in left if labels_of(other) == labels_of(row)), None)
        if match is None:
            said.append(f"lost: {labels_of(row)}")
            continue
        left.remove(match)
        found = dict(flat(match))
        for path, value in flat(row):
            if path.split("/")[-1] not in TIMES and differ(value, found.get(path), tolerance):
                said.append(f"{dict(labels_of(row))} {path}: {value} -> {found.get(path)}")
    return said, len(left)


def main() -> None:
    """Print a line for each table, and what moved; the exit status is 1 if anything did."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    options = parser.parse_args()
    wrong = 0
    for path in sorted(options.before.glob("*.json")):
        if not (options.after / path.name).is_file():
            print(f"{path.stem}: not in {options.after}")
            continue
        before, after = (json.loads((folder / path.name).read_text()) for folder in (options.before, options.after))
        said, added = moved(before["numbers"], after["numbers"], options.tolerance)
        said += [f"title: {before['title']} -> {after['title']}"] if before["title"] != after["title"] else []
        verdict = "the same" if before["verdict"] == after["verdict"] else "in other words"
        if after["verdict"].startswith(before["verdict"]):
            verdict = "the same" + (", and more" if after["verdict"] != before["verdict"] else "")
        numbers = sum(1 for row in before["numbers"] for _ in flat(row))
        print(f"{path.stem}: {numbers} values, {len(said)} moved; {added} rows added; verdict {verdict}")
        for text in said:
            print(f"  {text}")
        wrong += len(said)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
