"""The command line, as a user meets it."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import WORDS, build_network
from typer.testing import CliRunner

from sen2pro import Gaussian, Sen2Pro
from sen2pro.cli.app import app
from sen2pro.gaussian import read
from sen2pro.io.gaussians import GaussianWriter

PNG = b"\x89PNG\r\n\x1a\n"


def run(*arguments, input=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], input=input)


def spawn(*arguments, first="", **options):
    command = [sys.executable, "-c", f"{first}from sen2pro.cli.app import main; main()", *map(str, arguments)]
    options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def ok(*arguments, input=None):
    """Run a command that succeeds; return its output as one line."""
    result = run(*arguments, input=input)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("the big dog runs\nrain today\na man plays the guitar\n")
    return path


@pytest.fixture
def encode(shared_folder, tmp_path):
    """Encode lines of text with the tiny model; return what was printed and the path of the output."""

    def run_it(lines, *more):
        return ok("encode", "-", tmp_path / "out.parquet", "-m", shared_folder, "--samples", 2, *more, input=lines)

    return run_it


def test_encode_writes_what_the_library_gives(shared_folder, sentences, tmp_path):
    said = ok("encode", sentences, tmp_path / "out.parquet", "-m", shared_folder, "--samples", "3+4")
    assert "3 sentences ->" in said
    assert "signature: model:tiny-bert|" in said
    stored = read(tmp_path / "out.parquet")
    assert stored.texts == sentences.read_text().splitlines()
    expected = Sen2Pro(str(shared_folder), samples=(3, 4)).encode(stored.texts)
    np.testing.assert_allclose(stored.gaussian.mean, expected.mean, atol=1e-5)
    assert stored.gaussian.signature == expected.signature


def test_encode_says_each_warning_once_and_counts_what_was_cut(encode):
    long = "the dog runs " * 30
    assert "2 of 3 sentences are longer than the 32 tokens" in encode(f"{long}\nshort\n{long}\n")
    assert encode("今天天气\n今天\n", "--overwrite").count("no spaces") == 1
    assert "2 sentences" in encode("the dog\n\na cat\n", "--overwrite", "--skip-blank")


def test_encode_an_empty_file(encode, tmp_path):
    encode("")
    assert Gaussian.load(tmp_path / "out.parquet").shape == (0, 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("encode {in} {dir}/out.csv", "unknown file suffix"),
        ("encode {dir}/nothing.txt {dir}/out.parquet", "there is no file"),
        ("encode {in} {dir}/no/folder/out.parquet", "there is no folder"),
        ("encode {in} {there}", "--overwrite"),
        ("encode {in} {dir}/out.safetensors --id-column x", "Parquet"),
        ("encode {bad} {dir}/out.parquet -m {model}", "line 501"),
        ("encode {bad} {dir}/out.parquet -m {model}", "--skip-blank"),
        ("encode {in} {dir}/out.parquet -m {dir}/nowhere", "no model"),
        ("encode {in} {dir}/out.parquet -m {model} --samples many", "neither a number"),
        ("encode {in} {dir}/out.parquet -m {model} --method one-pass", "there is no head for tiny-bert"),
        ("distill {in} {dir}/out -m {model}", "at least 200 different sentences"),
        ("demo --output {dir}/out.pgn", "did you mean '.png'"),
        ("show {dir}/out.parquet", "there is no file"),
        ("encoed", "encoed"),
    ],
)
def test_bad_input_is_one_message_without_a_traceback_and_leaves_no_file(
    shared_folder, sentences, tmp_path, arguments, message
):
    there, bad = tmp_path / "there.parquet", tmp_path / "bad.txt"
    there.write_text("precious")
    bad.write_text("the dog\n" * 500 + "\n")
    places = {"in": sentences, "dir": tmp_path, "model": shared_folder, "there": there, "bad": bad}
    result = run(*(each.format(**places) for each in arguments.split()))
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output
    assert there.read_text() == "precious"
    assert not list(tmp_path.glob("*out*"))


def test_a_read_only_folder_is_said_before_the_work():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # root may write anywhere: be nobody for a moment
        try:
            with pytest.raises(PermissionError), GaussianWriter(Path(name) / "out.parquet"):
                pass
        finally:
            os.seteuid(user)
            Path(name).chmod(0o755)


def test_an_interrupted_run_exits_cleanly_and_keeps_what_is_done(shared_folder, tmp_path):
    """Other signals, and kills, are in tests/jobs."""
    (tmp_path / "in.txt").write_text("the dog runs in the park\n" * 20_000)
    small = "from sen2pro.jobs import workers; workers.UNIT = 256; "
    process = spawn("encode", tmp_path / "in.txt", tmp_path / "out.parquet", "-m", shared_folder, first=small)
    deadline = time.monotonic() + 120
    while not list(tmp_path.rglob("*shard-*.parquet")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)  # until the first unit is on disk
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.parquet.parts"]
    assert not [path for path in tmp_path.rglob("*") if ".partial" in path.name]


def test_compare_with_all_prints_words_and_numbers():
    said = ok("compare", "A man is playing a guitar.", "Someone [bold] plays.", "--all")
    parts = ("likely the same meaning", "similarity", "wasserstein", "symmetric-kl", "model", "data",
             "Someone [bold] plays.", "signature: model:all-MiniLM")  # fmt: skip
    for part in parts:
        assert part in said


def test_the_signature_of_an_answer_in_one_pass_says_so(tmp_path):
    file, out = tmp_path / "texts.txt", tmp_path / "out.csv"
    file.write_text("A man is playing a guitar.\nSomeone makes music.\n")
    for command in (("compare", "A man.", "A woman."), ("specificity", file, out), ("dedup", file, tmp_path / "d.csv")):
        said = ok(*command)
        assert "wasserstein" not in said  # that is for --all
        assert "samples:0|" in said, command
        assert "estimator:one-pass" in said, command


def test_compare_of_another_model_shows_the_distances_and_says_why(shared_folder):
    said = ok("compare", "the dog runs " * 30, "a cat", "-m", shared_folder, "--samples", 2)
    assert "wasserstein" in said
    assert "comes with the default model only" in said
    assert said.count("1 of 2 sentences is longer") == 1


def test_demo_prints_a_table_and_draws_a_picture(tmp_path, monkeypatch):
    said = ok("demo", "--output", tmp_path / "picture.png")
    assert "12 of 12" in said
    assert f"picture: {tmp_path / 'picture.png'}" in said
    assert "signature: " in said
    assert (tmp_path / "picture.png").read_bytes().startswith(PNG)
    monkeypatch.setattr("sen2pro.cli.demo.find_spec", lambda name: None)
    assert "pip install 'sen2pro[plot]'" in ok("demo", "--output", tmp_path / "picture.png")


def test_output_cut_short_by_a_pipe_is_no_error():
    command = f"{sys.executable} -m sen2pro encode --help | head -n 2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_the_whole_names_of_options_are_in_the_help():
    said = ok("encode", "--help")
    for name in ("--trust-remote-code", "--no-normalize", "--allow-pickle", "default: the model's own"):
        assert name in said


def test_info_says_what_is_inside(tmp_path, bert, tokenizer):
    parts = ("bert, 6 layers, 22.6 M", "384 dimensions, mean pooling", "unit sphere", "256 tokens", "6 sites",
             "13 sites", "can be sampled")  # fmt: skip
    said = ok("info", "all-MiniLM-L6-v2")
    for part in parts:
        assert part in said
    corpus = [f"{a} {b}" for a in ("the", "a", "one") for b in ("dog", "cat", "man", "ball")]
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=2, pooling="cls", normalize=True).fit_whitening(corpus, dim=4)
    model.save(tmp_path / "saved")
    said = ok("info", tmp_path / "saved")
    assert "32 dimensions, cls pooling, whitened to 4" in said
    assert "unit sphere" in said
    silent = build_network("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    for part in (silent, tokenizer):
        part.save_pretrained(tmp_path / "silent")
    assert "dropout is 0 in this model" in ok("info", tmp_path / "silent")


def test_distill_and_encode_in_one_pass(tiny_folder, sentences, tmp_path):
    rng = np.random.default_rng(0)
    corpus = [" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(300)]
    (tmp_path / "corpus.txt").write_text("\n".join([*corpus, "", corpus[0]]))
    head = tmp_path / "head"
    said = ok("distill", tmp_path / "corpus.txt", head, "-m", tiny_folder, "--samples", 6, "--limit", 250)
    assert "R2 on held-out sentences" in said
    assert "of 250, teacher 6+6, seed 0" in said
    again = run("distill", tmp_path / "corpus.txt", head, "-m", tiny_folder)
    assert (again.exit_code, "there is a head in" in again.output) == (2, True)

    sentences.write_text(sentences.read_text() + "the " * 25 + "\n")
    out = tmp_path / "out.parquet"
    said = ok("encode", sentences, out, "-m", tiny_folder, "--method", "one-pass", "--head", head)
    assert "of 4 sentences are far from all that the head was fitted on" in said
    stored = read(out)
    expected = Sen2Pro(str(tiny_folder), method="one-pass", head=head).encode(stored.texts)
    np.testing.assert_allclose(stored.gaussian.variance, expected.variance, rtol=1e-5)
    np.testing.assert_allclose(stored.gaussian.coverage, expected.coverage)


def test_show_prints_the_vaguest_rows_of_a_file(tiny_folder, sentences, tmp_path):
    out = tmp_path / "out.parquet"
    assert run("encode", sentences, out, "-m", tiny_folder, "--samples", 2).exit_code == 0
    data = pq.read_table(out).column("data_variance").to_numpy()
    said, texts = ok("show", out, "--rows", 1, "--uncertain"), sentences.read_text().splitlines()
    assert texts[int(data.argmax())] in said
    assert texts[int(data.argmin())] not in said
    assert "signature: model:tiny-bert" in said


def test_loading_shows_no_bars_of_other_libraries(tiny_folder, capfd):
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    Sen2Pro(str(tiny_folder), samples=2)
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert logging.is_progress_bar_enabled() == before


def test_long_work_without_a_terminal_logs_a_line_now_and_then(monkeypatch, caplog):
    from sen2pro import progress

    monkeypatch.setattr(progress, "_EVERY", 0.0)
    with caplog.at_level("INFO", logger="sen2pro"), progress.progress(10, None, unit="sentences") as advance:
        advance(4)
    assert "encoding: 4 of 10 sentences" in caplog.text
