"""How long until the first answer? CPU time of whole processes, as multiples of `import torch` in the same run.

    python -m sen2pro_lab.benchmarks.startup             # median of 5, one thread; exit code 1 above the budget
    python -m sen2pro_lab.benchmarks.startup --repeats 9

The contestants take turns, so that a noisy machine treats them alike.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys

from sen2pro_lab.benchmarks.common import save

BUDGET = 1.6  # times the import of torch: 4.0 seconds where torch takes 2.5
CONTESTANTS = {
    "import torch": ["-c", "import torch"],
    "sen2pro compare": ["-m", "sen2pro", "compare", "A man is playing a guitar.", "Someone makes music."],
    "Sen2Pro().encode": ["-c", "from sen2pro import Sen2Pro; Sen2Pro().encode('a b')"],
    "Sen2Pro(method='one-pass').encode": [
        "-c",
        "from sen2pro import Sen2Pro; Sen2Pro(method='one-pass').encode('a b')",
    ],
    "import sentence_transformers": ["-c", "import sentence_transformers"],
}


def cpu_seconds(arguments: list[str]) -> float:
    """Run Python with these arguments on one thread, and return its CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for _ in range(options.repeats):
        for name, arguments in CONTESTANTS.items():
            times[name].append(cpu_seconds(arguments))
    unit = statistics.median(times["import torch"])
    ratios = {name: statistics.median(each) / unit for name, each in times.items()}
    for name, ratio in ratios.items():
        print(f"  {name:36s} {ratio:5.2f} times import torch ({ratio * unit:.1f} s of CPU)")
    save("startup", {"ratios": ratios, "import torch, seconds": unit, "budget": BUDGET})
    over = [name for name, ratio in ratios.items() if ratio > BUDGET and "import" not in name]
    print(f"above the budget of {BUDGET}: {', '.join(over)}" if over else f"all within the budget of {BUDGET}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
