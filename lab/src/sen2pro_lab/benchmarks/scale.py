"""Large jobs: whether a hundred kills lose a row, and what rows cost in time and memory.

    python -m sen2pro_lab.benchmarks.scale kills     # 100 SIGKILLs over one run of 200,000 rows
    python -m sen2pro_lab.benchmarks.scale cost      # rows per second with 1 and 2 workers, peak memory, size of a row

All of it is measured from outside, on the command line.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from sen2pro.gaussian import read
from sen2pro_lab.benchmarks.common import RESULTS, ROOT, save

WORDS = [
    "the", "a", "man", "woman", "dog", "cat", "plays", "runs", "eats", "sees", "guitar", "ball", "park", "house", "big",
    "small", "red", "blue", "quickly", "slowly", "market", "fell", "rose", "price", "rain", "sun", "today", "tomorrow",
    "music", "song", "bank", "rate", "city", "river", "train", "phone", "letter", "garden", "window",
]  # fmt: skip


def texts(rows: int) -> list[str]:
    """Return texts of 1 to 3 words."""
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 3))) for _ in range(rows)]


def lines(path: Path, rows: list[str]) -> Path:
    """Write one text per line."""
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


def command(source: Path, output: Path, *more: str) -> list[str]:
    """Return the command that encodes a file."""
    return [sys.executable, "-m", "sen2pro", "encode", str(source), str(output), *more]


def tiny(folder: Path) -> Path:
    """Write the tiny BERT of the tests: the work is in the rows, not in the network."""
    sys.path.insert(0, str(ROOT / "tests"))
    conftest = import_module("conftest")
    conftest.build_network("bert").save_pretrained(folder)
    conftest.build_tokenizer().save_pretrained(folder)
    return folder


def kills(options: argparse.Namespace) -> dict[str, Any]:
    """Kill a run at random moments, and compare what comes out at last with an undisturbed run."""
    draw, wanted, done = random.Random(1), texts(options.rows), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, (whole, output) = lines(folder / "in.txt", wanted), (folder / kind / "out.parquet" for kind in "ab")
        more = ("-m", str(tiny(folder / "model")), "--samples", "2", "--workers", str(options.workers))
        for path in (whole, output):
            path.parent.mkdir()
        started = time.monotonic()
        subprocess.run(command(source, whole, *more), check=True, stdout=subprocess.DEVNULL)
        undisturbed, started = time.monotonic() - started, time.monotonic()
        while done < options.kills and not output.exists():
            process = subprocess.Popen(
                command(source, output, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            if done >= 0.9 * options.kills:  # the last ones, while the parts are joined
                while process.poll() is None and not list(
                    output.parent.glob("out.parquet.parts/.joined.parquet.*.partial")
                ):
                    time.sleep(0.02)
            time.sleep(draw.uniform(0, 6 if done < 0.9 * options.kills else 0.3))
            process.send_signal(signal.SIGKILL)
            process.wait()
            done += 1
        if not output.exists():
            subprocess.run(command(source, output, *more), check=True, stdout=subprocess.DEVNULL)
        found = {
            "rows": options.rows, "kills": done, "workers": options.workers,
            "same bytes": output.read_bytes() == whole.read_bytes(),
            "every row once, in order": read(output).texts == wanted,
            "files left besides the output": sorted({path.name for path in output.parent.iterdir()} - {output.name}),
            "seconds undisturbed": round(undisturbed, 1), "seconds with kills": round(time.monotonic() - started, 1),
        }  # fmt: skip
    print(json.dumps(found, indent=2))
    if not found["same bytes"] or not found["every row once, in order"] or found["files left besides the output"]:
        raise SystemExit("a killed run lost something")
    return found


def run(source: Path, output: Path, *more: str) -> tuple[float, float]:
    """Encode a file in one pass; return seconds by the clock and the peak memory in MB."""
    started = time.monotonic()
    arguments = command(source, output, "--method", "one-pass", "--overwrite", *more)
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"sen2pro encode ended with {status}")
    return time.monotonic() - started, usage.ru_maxrss / 1024


def cost(options: argparse.Namespace) -> dict[str, Any]:
    """Measure few and many rows; the difference of their times is that of the rows alone, without start and end."""
    found: dict[str, Any] = {"load of the machine": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        output = Path(name, "out.parquet")
        counts = options.rows // 8, options.rows
        few, many = (lines(Path(name, f"{rows}.txt"), texts(rows)) for rows in counts)
        for workers in ("1", "2"):
            (short, small), (long, large) = (run(source, output, "--workers", workers) for source in (few, many))
            found[f"{workers} workers"] = {
                "rows a second": round((counts[1] - counts[0]) / (long - short)),
                "peak MB": {f"{rows:,} rows": round(peak) for rows, peak in zip(counts, (small, large), strict=True)},
            }
            print(f"  {workers} workers: {found[f'{workers} workers']}", flush=True)
        found["bytes a row"] = round(output.stat().st_size / options.rows)
    return found


def main() -> None:
    """Run one part; what the file has of the other stays."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=["kills", "cost"])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=1, help="of the run that is killed")
    options = parser.parse_args()
    path = RESULTS / "scale.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    before.pop("machine", None)
    save("scale", {**before, options.part: {"kills": kills, "cost": cost}[options.part](options)})


if __name__ == "__main__":
    main()
