"""What the tests of large jobs share: texts, the bytes of an undisturbed run, and what a folder holds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from conftest import WORDS

from sen2pro import Sen2Pro
from sen2pro.jobs import encode_files, workers

ROWS, SAMPLES = 1000, 2


@pytest.fixture(scope="module")
def model(shared_folder):
    return tiny_model(shared_folder)


@pytest.fixture(scope="module")
def texts():
    return some_texts(ROWS)


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(workers, "UNIT", 256)


def some_texts(n: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 4))) for _ in range(n)]


def write_lines(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def tiny_model(folder: Path, samples: int = SAMPLES) -> Sen2Pro:
    return Sen2Pro(str(folder), samples=samples)


def undisturbed(model: Sen2Pro, inputs, folder: Path, **options) -> bytes:
    """Return the bytes of a run that nobody stopped."""
    folder.mkdir()
    output = folder / "out.parquet"
    encode_files(model, inputs, output, **options)
    assert [path.name for path in folder.iterdir()] == ["out.parquet"]
    return output.read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stopped(model, inputs, output, after=2, run=encode_files, **options):
    """Stop a run when some units of 256 rows are done, as Ctrl-C does."""
    rows = 0.0

    def count(more):
        nonlocal rows
        rows += more
        if rows > 256 * after + 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        return run(model, inputs, output, show_progress_bar=count, **options)
