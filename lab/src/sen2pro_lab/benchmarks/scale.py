"""Large jobs: is nothing lost in a hundred kills? What do workers and Ray cost? And a billion sentences.

python benchmarks/scale.py kills                # 100 SIGKILLs over one run of 200,000 rows
python benchmarks/scale.py speed                # rows a second: 1 and 2 processes, 1 and 2 Ray actors
python benchmarks/scale.py memory               # peak memory for few and for many rows, size of the output
python benchmarks/scale.py paper                # on paper: 1 and 10 billion sentences, from the figures above
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
from contextlib import suppress
from pathlib import Path
from typing import Any

from sen2pro import Sen2Pro
from sen2pro.files.gaussians import read
from sen2pro.scale import Engine, InProcess, Processes, encode_files
from sen2pro.settings import Settings
from sen2pro_lab.benchmarks.common import RESULTS, ROOT, save

NAME = "scale"
WORDS = [
    "the", "a", "man", "woman", "dog", "cat", "plays", "runs", "eats", "sees", "guitar", "ball", "park", "house", "big",
    "small", "red", "blue", "quickly", "slowly", "market", "fell", "rose", "price", "rain", "sun", "today", "tomorrow",
    "music", "song", "bank", "rate", "city", "river", "train", "phone", "letter", "garden", "window",
]  # fmt: skip


def texts(rows: int, least: int, most: int) -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(least, most))) for _ in range(rows)]


def lines(path: Path, rows: list[str]) -> Path:
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


def remember(part: str, found: dict[str, Any]) -> None:
    """Write results beside those of the other parts."""
    path = RESULTS / f"{NAME}.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    before.pop("machine", None)
    save(NAME, {**before, part: found})


def command(source: Path, output: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "sen2pro", "encode", str(source), str(output), *more]


# Killed a hundred times.


def tiny(folder: Path) -> Path:
    """Write the tiny BERT of the tests: the work is in the rows, not in the network."""
    sys.path.insert(0, str(ROOT / "tests"))
    from conftest import build_network, build_tokenizer

    build_network("bert").save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)
    return folder


def kills(times: int, rows: int, workers: int) -> dict[str, Any]:
    """Kill a run at random moments, some of them while its parts are joined, and compare what comes out at last."""
    draw, when = random.Random(1), {"starting": 0, "encoding": 0, "joining": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, wanted = tiny(folder / "model"), texts(rows, 1, 3)
        source = lines(folder / "in.txt", wanted)
        (folder / "a").mkdir()
        (folder / "b").mkdir()
        options = ("-m", str(model), "--samples", "2", "--workers", str(workers))
        started = time.monotonic()
        subprocess.run(command(source, folder / "a" / "out.parquet", *options), check=True, stdout=subprocess.DEVNULL)
        undisturbed = time.monotonic() - started
        output = folder / "b" / "out.parquet"
        at_the_end = max(1, times // 10)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started, done = time.monotonic(), 0
        while done < times:
            units = sum(1 for _ in folder.glob("b/*.parts/units/*/unit-*.parquet"))
            process = subprocess.Popen(command(source, output, *options), **quiet)
            if done < times - at_the_end:
                time.sleep(draw.uniform(0, 6))
            else:  # wait until the parts are joined, and kill that
                while process.poll() is None and not list(folder.glob("b/.out.parquet.*.partial")):
                    time.sleep(0.02)
                time.sleep(draw.uniform(0, 0.3))
            phase = "joining" if list(folder.glob("b/.out.parquet.*.partial")) else "encoding"
            if not any(folder.glob("b/*.parts")) or (phase == "encoding" and units == 0 and done == 0):
                phase = "starting"
            process.send_signal(signal.SIGKILL)
            process.wait()
            if output.exists():
                print("  the run was done before it could be killed again")
                break
            when[phase] += 1
            done += 1
            if done % 10 == 0:
                print(f"  {done} kills, {units} units done, {time.monotonic() - started:.0f} s", flush=True)
        if not output.exists() or list(folder.glob("b/*.parts")):
            subprocess.run(command(source, output, *options), check=True, stdout=subprocess.DEVNULL)
        left = sorted(path.name for path in (folder / "b").iterdir())
        found = {
            "rows": rows, "kills": done, "workers": workers, "killed while": when,
            "same bytes": output.read_bytes() == (folder / "a" / "out.parquet").read_bytes(),
            "every row once, in order": read(output).texts == wanted,
            "files left besides the output": [each for each in left if each != "out.parquet"],
            "seconds undisturbed": round(undisturbed, 1), "seconds with kills": round(time.monotonic() - started, 1),
        }  # fmt: skip
    print(json.dumps(found, indent=2))
    if not found["same bytes"] or not found["every row once, in order"] or found["files left besides the output"]:
        raise SystemExit("a killed run lost something")
    return found


# Speed.


def processor_seconds() -> float:
    """Return the processor time of this process and all its descendants: workers, or all of a local Ray cluster."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rsplit(")", 1)[1].split()
            found[int(path.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while more := {process for process, (parent, _) in found.items() if parent in ours} - ours:
        ours |= more
    return sum(found[process][1] for process in ours) / os.sysconf("SC_CLK_TCK")


def rows_a_second(engine: Engine, model: Any, source: Path, folder: Path) -> tuple[float, float]:
    """Return rows a second by the clock, and a processor second, between the first fifth and nine tenths of the rows.

    So neither the start nor the join counts. On a busy machine only the second figure compares engines.
    """
    rows = len(source.read_text().splitlines())
    marks: list[tuple[float, float, float]] = []
    total = 0.0

    def advance(more: float) -> None:
        nonlocal total
        total += more
        if len(marks) < 2 and total >= (0.2, 0.9)[len(marks)] * rows:
            marks.append((total, time.monotonic(), processor_seconds()))

    encode_files(model, source, folder / "out.parquet", engine=engine, overwrite=True, show_progress_bar=advance)
    (first, clock, used), (last, later, more) = marks
    return (last - first) / (later - clock), (last - first) / (more - used)


def speed(rows: int, repeats: int) -> dict[str, Any]:
    """Measure all engines in turn, several times over; the best of each counts, as the machine may be busy."""
    from sen2pro.integrations.ray import RayEngine

    settings = Settings(method="one-pass")
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = lines(folder / "in.txt", texts(rows, 1, 3))
        makers = {
            "1 process": lambda: Processes(1), "1 Ray actor": lambda: RayEngine(1),
            "2 processes": lambda: Processes(2), "2 Ray actors": lambda: RayEngine(2),
        }  # fmt: skip
        for _ in range(repeats):
            for kind, make in makers.items():
                found.setdefault(kind, []).append(rows_a_second(make(), settings, source, folder))
                clock, processor = found[kind][-1]
                print(f"  {kind}: {clock:,.0f} rows a second, {processor:,.0f} a processor second", flush=True)
        longer = lines(folder / "longer.txt", texts(2048, 8, 25))
        sentences = rows_a_second(InProcess(), settings, longer, folder)[1]
        print(f"  sentences: {sentences:,.0f} a processor second", flush=True)
    best = {kind: {"by the clock": round(max(a for a, _ in each)), "a processor second": round(max(b for _, b in each))}
            for kind, each in found.items()}  # fmt: skip
    pairs = (("1 process", "1 Ray actor"), ("2 processes", "2 Ray actors"))
    processor = {kind: best[kind]["a processor second"] for kind in best}
    overhead = {ours: round(100 * (1 - processor[ours] / processor[plain]), 1) for plain, ours in pairs}
    return {
        "rows": rows, "load of the machine": os.getloadavg()[0],
        "rows a second, texts of 1 to 3 words, best of runs": best, "all runs": found,
        "overhead of Ray, % of processor time": overhead,
        "sentences of 8 to 25 words a processor second": round(sentences, 1),
    }  # fmt: skip


# Memory and size.


def memory(few: int, many: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows in (few, many):
            source = lines(folder / "in.txt", texts(rows, 1, 3))
            output = folder / "out.parquet"
            process = subprocess.Popen(
                command(source, output, "--method", "one-pass", "--overwrite"), stdout=subprocess.DEVNULL
            )
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                raise SystemExit(f"sen2pro encode ended with {status}")
            size = output.stat().st_size
            found[f"{rows:,} rows"] = {
                "peak MB": round(usage.ru_maxrss / 1024),
                "bytes a row": round(size / rows),
            }
            print(f"  {rows:,} rows: {usage.ru_maxrss / 1024:.0f} MB, {size / rows:,.0f} bytes a row", flush=True)
        folder_of_shards = folder / "shards"
        encode_files(Sen2Pro(method="one-pass"), source, folder_of_shards, shards=True, show_progress_bar=False)
        found["MB of each shard"] = [round(each.stat().st_size / 1e6, 1) for each in folder_of_shards.glob("*.parquet")]
    return found


# On paper.

GPU_ROWS = 5000  # sentences a second on one GPU: an assumption, not measured here
OBJECT = 64 << 20  # bytes of one upload part of an object store


def paper() -> dict[str, Any]:
    """Compute what a billion sentences take, from the figures of `speed` and `memory`."""
    measured = json.loads((RESULTS / f"{NAME}.json").read_text())
    core = measured["speed"]["sentences of 8 to 25 words a processor second"]
    wanted = {}
    for sentences in (10**9, 10**10):
        terabytes = {f"float{bits}": round(sentences * 384 * 2 * bits / 8 / 1e12, 2) for bits in (32, 16)}
        shards = -(-sentences // 49_152)
        wanted[f"{sentences // 10**9} billion"] = {
            "core hours": round(sentences / core / 3600), "hours on 1,000 cores": round(sentences / core / 3.6e6, 1),
            "hours on 8 GPUs (assumed)": round(sentences / GPU_ROWS / 8 / 3600, 1),
            "TB of means and variances": terabytes, "shards": shards,
            "object-store requests to write": round(terabytes["float32"] * 1e12 / OBJECT + 2 * shards),
        }  # fmt: skip
    return wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=["kills", "speed", "memory", "paper"])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    if given.part == "kills":
        remember("kills", kills(given.kills, given.rows or 200_000, given.workers))
    elif given.part == "speed":
        remember("speed", speed(given.rows or 65_536, given.repeats))
    elif given.part == "memory":
        remember("memory", memory(8192, given.rows or 131_072))
    else:
        remember("paper", paper())


if __name__ == "__main__":
    main()
