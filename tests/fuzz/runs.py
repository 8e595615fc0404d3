"""The folder of an unfinished run, and a folder of shards: what a stranger, or a bad disk, may have put there."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from test_gaussian import signature

from fuzz import originals
from fuzz.engine import Case, Family, Wrong
from fuzz.mutations import rewritten, spelled, spoiled
from fuzz.stored import changed_file, check_same, check_valid
from sen2pro.gaussian import Stored, read
from sen2pro.io import bundle, shards
from sen2pro.io.gaussians import GaussianWriter
from sen2pro.io.inputs import InputFile
from sen2pro.jobs.run_folder import PLAN, Plan, RunFolder
from sen2pro.jobs.workers import Report


def _forged(data: bytes, rng: Random) -> bytes:
    """Return a document that says something else; whoever writes one can compute its digest."""
    content = json.loads(data)
    del content[bundle.DIGEST]
    content = rewritten(content, rng)
    if isinstance(content, dict) and rng.random() < 0.7:
        content[bundle.DIGEST] = bundle.digest_of(content)
    return spelled(content, rng)


@cache
def _plan() -> tuple[bytes, Plan]:
    inputs = (InputFile("a.txt", 100, "xxh3-128:0", 10), InputFile("b.txt", 50, "xxh3-128:1", 5))
    reading = {"column": None, "id_column": "key", "keep": ["n"], "skip_blank": False}
    made = Plan(
        signature=signature(), device="cpu", threads=0, inputs=inputs, reading=reading, columns={"n": "int64"},
        texts=True, batch_size=None, output="parquet",
    )  # fmt: skip
    folder = originals.place() / "run"
    bundle.save(folder, PLAN, made)
    return (folder / f"{PLAN}.json").read_bytes(), made


class Plans(Family):
    """The plan of an unfinished run, spoiled or forged."""

    name, weight = "plan of a run", 3

    def make(self, rng: Random) -> Case:
        """Return the file."""
        data = _plan()[0]
        return Case(_forged(data, rng) if rng.random() < 0.6 else spoiled(data, rng))

    def run(self, case: Case, folder: Path) -> None:
        """Compare it with the plan of the resuming run: any difference is refused, so nothing can be smuggled."""
        run = RunFolder(folder / "out.parquet")
        run.path.mkdir()
        (run.path / f"{PLAN}.json").write_bytes(case.data)
        wanted = _plan()[1]
        known = run.known_inputs(run.read_plan(), [file.digest for file in wanted.inputs], ["text"] * 2, ["a", "b"])
        run.begin(wanted, restart=False)
        if [file.digest for file in known] != [file.digest for file in wanted.inputs]:
            raise Wrong("another input was taken for the same")


@cache
def _shards() -> tuple[dict[str, bytes], Stored]:
    folder = originals.place() / "shards"
    folder.mkdir()
    entries = []
    whole = originals.stored()[".parquet"][0][1]
    assert whole.ids is not None
    assert whole.texts is not None
    for number, rows in enumerate((slice(0, 2), slice(2, 5))):
        with GaussianWriter(folder / shards.name(number)) as writer:
            writer.write(whole.gaussian[rows], ids=whole.ids[rows], texts=whole.texts[rows])
            writer.notes["sen2pro.unit"] = Report(rows=rows.stop - rows.start).to_json()
        entries.append(shards.Shard(rows=rows.stop - rows.start, digest=writer.digest))
    shards.write_manifest(folder, entries, [("a.txt, line 7", "blank")])
    return originals.contents(folder), whole


class Shards(Family):
    """A folder of shards of which one file is spoiled or forged."""

    name, weight = "shards", 4

    def make(self, rng: Random) -> Case:
        """Return one of its files."""
        files = _shards()[0]
        file = rng.choice(sorted(files))
        forged = file == shards.MANIFEST and rng.random() < 0.6
        return Case(
            _forged(files[file], rng) if forged else spoiled(files[file], rng), {"file": file, "forged": forged}
        )

    def run(self, case: Case, folder: Path) -> Any:
        """Read it."""
        files, original = _shards()
        changed_file(files, case.options["file"], case.data, folder)
        found = read(folder)
        if not case.options["forged"]:
            check_same(found._asdict(), original._asdict(), [])
        return check_valid(found)


class Reports(Family):
    """The report in a file of a unit, forged."""

    name, weight = "report of a unit", 2

    def make(self, rng: Random) -> Case:
        """Return the JSON."""
        report = json.loads(
            Report(
                rows=3, cut=1, limit=32, skipped=[("a.txt, line 7", "blank")], notes=["a note"], skipped_rows=1
            ).to_json()
        )
        return Case(spelled(rewritten(report, rng), rng))

    def run(self, case: Case, folder: Path) -> None:
        """Read it, and add it to another one, as a run that resumes does."""
        path = folder / "unit.parquet"
        with GaussianWriter(path) as writer:
            writer.write(originals.stored()[".parquet"][3][1].gaussian)
            writer.notes["sen2pro.unit"] = case.data.decode("utf-8", "replace")
        found = Report.of_file(path)
        total = Report(rows=1) + found
        if total.rows != found.rows + 1:
            raise Wrong("rows were lost")


FAMILIES = (Plans(), Shards(), Reports())
