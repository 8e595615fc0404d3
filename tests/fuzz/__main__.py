"""Run the fuzzer from the command line."""

from __future__ import annotations

import argparse
import time

from fuzz.run import families, plan, run, run_here, single_thread, tasks_of


def main() -> int:
    """Print a table and, for each cause of a failure, its smallest input; return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Try malformed files and arguments.")
    parser.add_argument("--cases", type=int, default=100_000, help="how many, shared among the families")
    parser.add_argument("--seed", type=int, default=0, help="other seeds are other cases")
    parser.add_argument("--family", help="only this one")
    parser.add_argument("--case", type=int, help="only this one of a family, in this process")
    given = parser.parse_args()
    single_thread()
    start = time.monotonic()
    if given.case is not None:
        report = run_here([(given.family, given.case)], given.seed)
    else:
        weights = {name: family.weight for name, family in families().items() if given.family in (None, name)}
        report = run(tasks_of(plan(given.cases, weights)), given.seed)
    print(f"\n{report.table()}\n\nseed {given.seed}, {(time.monotonic() - start) / 60:.1f} minutes")
    if report.failed:
        print(f"\n{report.faults(given.seed)}")
    return int(report.failed)


if __name__ == "__main__":
    raise SystemExit(main())
