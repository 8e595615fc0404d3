"""Does memory grow with the file? Peak memory of `sen2pro encode` on one sentence and on 200,000 short ones.

python benchmarks/memory.py                     # one-pass on all, exact sampling on a hundredth of them
python benchmarks/memory.py --sentences 20000
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import save


def command_line(count: int) -> dict[str, float]:
    """Return the peak memory of `sen2pro encode` on a few and on many short sentences, in MB."""
    words = [
        "the",
        "a",
        "man",
        "woman",
        "dog",
        "cat",
        "plays",
        "runs",
        "eats",
        "sees",
        "guitar",
        "ball",
        "park",
        "house",
    ]
    rng = np.random.default_rng(0)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for n, method in ((1, "one-pass"), (count, "one-pass"), (count // 100, "sampling")):
            path = Path(folder) / "in.txt"
            path.write_text("\n".join(" ".join(rng.choice(words, 4)) for _ in range(n)))
            command = [sys.executable, "-m", "sen2pro", "encode", str(path), f"{folder}/out.parquet", "--overwrite"]
            process = subprocess.Popen([*command, "--method", method], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                raise SystemExit(f"sen2pro encode ended with {status}")
            found[f"{n} sentences, {method}"] = usage.ru_maxrss / 1024
    for name, megabytes in found.items():
        print(f"  sen2pro encode, {name}: {megabytes:.0f} MB")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=200_000)
    save("memory", {"peak MB": command_line(parser.parse_args().sentences)})


if __name__ == "__main__":
    main()
