"""Large jobs on one machine: units, shards and workers; the same bytes however they are run."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import WORDS
from scale_runs import (
    ROWS,
    SAMPLES,
    model,
    names,
    small_units,
    some_texts,
    stopped,
    texts,
    undisturbed,
    write_lines,
)
from test_cli import run

from sen2pro import Gaussian, Sen2Pro, Sen2ProError
from sen2pro.gaussian import read
from sen2pro.io import shards
from sen2pro.io.gaussians import stream
from sen2pro.jobs import InProcess, Processes, Summary, encode_files, plan
from sen2pro.jobs.engines import _died
from sen2pro.jobs.units import Report


@pytest.fixture
def source(tmp_path, texts):
    return write_lines(tmp_path / "in.txt", texts)


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(plan, "SHARD", 512)


def shard_bytes(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_result_is_what_the_model_gives(model, source, texts, tmp_path):
    summary = encode_files(model, source, tmp_path / "out.parquet")
    stored = read(tmp_path / "out.parquet")
    assert stored.texts == texts
    expected = model.encode(texts)
    np.testing.assert_allclose(stored.gaussian.mean, expected.mean, atol=1e-5)
    np.testing.assert_allclose(stored.gaussian.variance, expected.variance, atol=1e-5)
    assert (summary.report.rows, summary.resumed, summary.signature) == (ROWS, 0, model.signature())
    assert names(tmp_path) == ["in.txt", "out.parquet"]


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_parts_and_no_parts_give_the_same_bytes(model, texts, tmp_path, suffix):
    """A unit alone is written straight away; the same rows by way of the folder of a run are the same file."""
    source = write_lines(tmp_path / "in.txt", texts[:200])
    encode_files(model, source, tmp_path / f"straight.{suffix}")
    output = tmp_path / f"out.{suffix}"
    folder = tmp_path / f"out.{suffix}.parts"
    stopped(model, write_lines(tmp_path / "in.txt", texts), output, 1)
    assert folder.is_dir()
    write_lines(tmp_path / "in.txt", texts[:200])
    with pytest.raises(Sen2ProError, match="another input"):
        encode_files(model, source, output)
    encode_files(model, source, output, restart=True)
    assert output.read_bytes() == (tmp_path / f"straight.{suffix}").read_bytes()


@pytest.mark.slow
def test_one_and_two_workers_write_the_same_bytes(model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    seen = []
    encode_files(model, source, tmp_path / "out.parquet", workers=2, show_progress_bar=seen.append)
    assert (tmp_path / "out.parquet").read_bytes() == expected
    assert sum(seen) == pytest.approx(2 * ROWS)  # all rows encoded, and all joined


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")

    class Killing(Processes):
        killed = 0

        def run(self, units, place, how, advance):
            for done in super().run(units, place, how, advance):
                if not self.killed:
                    victim = next(each for each in self._running if not each.is_idle)
                    victim._process.kill()
                    self.killed = victim._process.pid
                yield done

    engine = Killing(2)
    stopped(model, source, tmp_path / "out.parquet", 1)  # what one process began, two can finish
    assert encode_files(model, source, tmp_path / "out.parquet", engine=engine).resumed == 256
    assert engine.killed
    assert (tmp_path / "out.parquet").read_bytes() == expected


def test_threads_do_not_change_the_bytes_of_our_own_forward_pass(texts, tmp_path):
    source = write_lines(tmp_path / "in.txt", texts[:300])
    minilm = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")
    expected = undisturbed(minilm, source, tmp_path / "one")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert undisturbed(minilm, source, tmp_path / "two") == expected
    finally:
        torch.set_num_threads(before)


def test_an_output_that_is_in_the_way_is_said_before_the_work(model, source, tmp_path):
    class Idle(InProcess):
        def run(self, units, place, how, advance):
            raise AssertionError("nothing may be encoded")

    output = tmp_path / "out.parquet"
    stopped(model, source, output)
    output.write_text("precious")
    with pytest.raises(Sen2ProError, match="exists; pass overwrite=True"):
        encode_files(model, source, output, engine=Idle())


def test_somebody_elses_output_is_not_replaced(model, source, tmp_path):
    output = tmp_path / "out.parquet"
    stopped(model, source, output)
    output.write_text("precious")
    with pytest.raises(Sen2ProError, match="exists; pass overwrite=True"):
        encode_files(model, source, output)
    assert output.read_text() == "precious"
    encode_files(model, source, output, overwrite=True)
    assert len(Gaussian.load(output)) == ROWS


@pytest.mark.usefixtures("small_shards")
def test_a_folder_of_shards_is_read_like_a_file(model, source, texts, tmp_path):
    encode_files(model, source, tmp_path / "shards", shards=True)
    encode_files(model, source, tmp_path / "one.parquet")
    assert names(tmp_path / "shards") == [shards.MANIFEST, "shard-000000.parquet", "shard-000001.parquet"]
    whole, parts = read(tmp_path / "one.parquet"), read(tmp_path / "shards")
    assert (parts.gaussian, parts.texts) == (whole.gaussian, whole.texts)
    assert Gaussian.load(tmp_path / "shards") == whole.gaussian
    assert sum(len(piece.gaussian) for piece in stream(tmp_path / "shards", 100)) == ROWS
    assert len(read(tmp_path / "shards" / "shard-000001.parquet").gaussian) == ROWS - 512  # each is a file of its own
    result = run("show", tmp_path / "shards", "-n", "2")
    assert result.exit_code == 0, result.output
    assert f"{ROWS} Gaussians" in " ".join(result.output.split())
    assert "data variance" in " ".join(result.output.split())


@pytest.mark.usefixtures("small_shards")
def test_a_folder_that_appears_during_a_run_of_shards_is_not_replaced(model, source, tmp_path):
    output = tmp_path / "shards"

    class Appears(InProcess):
        def run(self, units, place, how, advance):
            yield from super().run(units, place, how, advance)
            output.mkdir()
            (output / "mine.txt").write_text("precious")

    with pytest.raises(Sen2ProError, match="exists; pass overwrite=True.*kept in .*shards.parts"):
        encode_files(model, source, output, shards=True, engine=Appears())
    assert names(output) == ["mine.txt"]
    (output / "mine.txt").unlink()
    assert encode_files(model, source, output, shards=True).resumed == ROWS  # its parts were kept


@pytest.mark.usefixtures("small_shards")
def test_shards_that_could_not_be_replaced_stay(model, source, tmp_path, monkeypatch):
    output = tmp_path / "shards"
    encode_files(model, source, output, shards=True)
    before, rename = shard_bytes(output), Path.rename

    def failing(self, target):
        if self.suffix == ".parts":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self))
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", failing)
        with pytest.raises(OSError, match="Input/output error"):
            encode_files(model, source, output, shards=True, overwrite=True, text=False)
    assert shard_bytes(output) == before


@pytest.mark.usefixtures("small_shards")
def test_overwriting_shards_deletes_no_input_and_nothing_of_others(model, source, tmp_path):
    output = tmp_path / "shards"
    encode_files(model, source, output, shards=True)
    before = shard_bytes(output)
    with pytest.raises(Sen2ProError, match="is to be read and lies in"):
        encode_files(model, output / shards.name(0), output, column="text", shards=True, overwrite=True)
    (output / "mine.txt").write_text("precious")
    with pytest.raises(Sen2ProError, match="also holds 'mine.txt'"):
        encode_files(model, source, output, shards=True, overwrite=True)
    assert shard_bytes(output) == {**before, "mine.txt": b"precious"}


def test_shards_need_the_name_of_a_folder(model, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for output in (".", ".."):
        with pytest.raises(Sen2ProError, match="give the name of a new file or folder"):
            encode_files(model, source, output, shards=True)


@pytest.mark.usefixtures("small_shards")
def test_a_folder_that_lost_or_mixed_up_shards_is_refused(model, source, tmp_path):
    encode_files(model, source, tmp_path / "a", shards=True)
    first, second = tmp_path / "a" / shards.name(0), tmp_path / "a" / shards.name(1)
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(Sen2ProError, match="1 shards are missing in .*shard-000001"):
        read(tmp_path / "a")
    second.write_bytes(first.read_bytes())
    with pytest.raises(Sen2ProError, match="shard-000001.parquet is not the file"):
        read(tmp_path / "a")
    damaged = bytearray(kept)
    damaged[len(damaged) // 3] ^= 1
    second.write_bytes(bytes(damaged))
    with pytest.raises(Sen2ProError, match="shard-000001"):
        read(tmp_path / "a")
    (tmp_path / "a" / shards.MANIFEST).unlink()
    with pytest.raises(Sen2ProError, match="a folder without"):
        read(tmp_path / "a")


@pytest.mark.slow
def test_index_and_classify_take_a_folder_of_shards(tmp_path):
    texts = ["The bank raised its rates.", "A dog barks.", "Rain is expected.", "The cat sleeps."]
    source = write_lines(tmp_path / "in.txt", texts)
    assert run("encode", source, tmp_path / "g", "--shards", "--method", "one-pass").exit_code == 0
    result = run("index", tmp_path / "g", tmp_path / "index", "--encoded")
    assert result.exit_code == 0, result.output
    assert "The bank raised" in run("search", tmp_path / "index", "Did the bank raise interest rates?").output
    labelled = "text,label\n" + "".join(
        f"{a} {b}.,{label}\n" for a in ("the", "my", "one", "a", "this") for b, label in (("dog", "x"), ("bank", "y"))
    )
    (tmp_path / "train.csv").write_text(labelled)
    trained = run("classify", "train", tmp_path / "train.csv", tmp_path / "classifier", "--method", "one-pass")
    assert trained.exit_code == 0, trained.output
    assert run("classify", "predict", tmp_path / "classifier", source, tmp_path / "a.csv").exit_code == 0
    result = run("classify", "predict", tmp_path / "classifier", tmp_path / "g", tmp_path / "b.csv", "--encoded")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "b.csv").read_text() == (tmp_path / "a.csv").read_text()


def test_workers_that_never_begin_say_what_a_script_needs():
    assert '`if __name__ == "__main__":`' in _died(None, 1)
    assert "enough memory" in _died(None, -9)


def test_the_summary_tells_skipped_rows_from_those_of_an_earlier_run(model):
    summary = Summary(Path("a"), Report(10, skipped_rows=3), model.signature(), 8, 1.0, 4)
    assert "10 sentences -> a (8 dimensions), 4 of them by an earlier run, 3 rows skipped" in str(summary)


def test_the_summary_says_what_was_done(model, tmp_path):
    source = write_lines(tmp_path / "in.txt", [*some_texts(598), "the dog runs " * 30, " ".join(WORDS)])
    result = run("encode", source, tmp_path / "out.parquet", "-m", model.settings.model, "--samples", SAMPLES)
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    assert "600 sentences -> " in output
    assert "seconds" in output
    assert "2 of 600 sentences are longer than the 32 tokens" in output
    assert "signature: model:tiny-bert|" in output
