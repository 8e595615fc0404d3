"""Run the command line, in this process or in one of its own, and describe the files that it wrote."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from contract import api
from contract.golden import gaussian

SOURCE = Path(sys.modules[api.main.__module__.partition(".")[0]].__file__).parents[1]  # of the code under test


class Ran(NamedTuple):
    """A command that came to its end."""

    code: int
    out: str
    err: str


def run(*arguments):
    """Run a command in this process, where torch is loaded already."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv, code = ["sen2pro", *map(str, arguments)], 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            api.main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    finally:
        sys.argv = before
    return Ran(code, out.getvalue(), err.getvalue())


def spawn(*arguments, **options):
    """Start a command in a process of its own."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(SOURCE)}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [sys.executable, "-m", "sen2pro", *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environment, **options)


def files(folder, before=(), opaque=()):
    """Describe the files of a folder that were not there before; of some folders only that they are there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        first = name.partition("/")[0]
        if path.is_dir() or name in before:
            continue
        if first in opaque:
            found[f"{first}/"] = "a folder"
        else:
            found[name] = described(path)
    return found


def described(path):
    """Return what a file holds: its columns with their types, its rows, its numbers."""
    if path.suffix in (".parquet", ".safetensors"):
        stored = api.read(path)
        content = {**gaussian(stored.gaussian), "ids": stored.ids, "texts": stored.texts}
        if path.suffix == ".parquet":
            schema = pq.read_schema(path)
            content["columns"] = {field.name: str(field.type) for field in schema}
            content["metadata"] = sorted(name.decode() for name in schema.metadata if name.startswith(b"sen2pro"))
            table = pq.read_table(path)
            content["others"] = {
                name: table[name].to_pylist() for name in table.column_names
                if name not in ("id", "text", "mean", "variance", "coverage")
            }  # fmt: skip
        return content
    if path.suffix in (".csv", ".tsv"):
        with path.open(encoding="utf-8", newline="") as file:
            columns, *rows = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        return {"columns": columns, "rows": rows}
    if path.suffix == ".jsonl":
        return json_lines(path.read_text(encoding="utf-8"))
    return {"bytes": path.stat().st_size > 0}


def json_lines(text):
    """Read a JSON value a line."""
    return [json.loads(line) for line in text.splitlines()]
