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
from conftest import WORDS
from typer.testing import CliRunner

from sen2pro import Gaussian, Sen2Pro
from sen2pro.cli.app import app
from sen2pro.io.gaussians import read

PNG = b"\x89PNG\r\n\x1a\n"


def run(*arguments, input=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], input=input)


def spawn(*arguments, first="", **options):
    command = [sys.executable, "-c", f"{first}from sen2pro.cli.app import main; main()", *map(str, arguments)]
    options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("the big dog runs\nrain today\na man plays the guitar\n")
    return path


def test_encode_writes_what_the_library_gives(tiny_folder, sentences, tmp_path):
    result = run("encode", sentences, tmp_path / "out.parquet", "-m", tiny_folder, "--samples", "3+4")
    assert result.exit_code == 0, result.output
    assert "3 sentences ->" in result.output
    assert "signature: model:tiny-bert|" in result.output
    stored = read(tmp_path / "out.parquet")
    assert stored.texts == sentences.read_text().splitlines()
    expected = Sen2Pro(str(tiny_folder), samples=(3, 4)).encode(stored.texts)
    np.testing.assert_allclose(stored.gaussian.mean, expected.mean, atol=1e-5)
    assert stored.gaussian.signature == expected.signature


def test_encode_from_standard_input_to_safetensors(tiny_folder, tmp_path):
    result = run(
        "encode", "-", tmp_path / "out.safetensors", "-m", tiny_folder, "--samples", 2, input="the dog\na cat\n"
    )
    assert result.exit_code == 0, result.output
    assert Gaussian.load(tmp_path / "out.safetensors").shape == (2, 32)


def test_encode_a_column_with_ids_and_without_texts(tiny_folder, tmp_path):
    (tmp_path / "in.csv").write_text("key,body\nx,the dog\ny,a cat\n")
    common = ("encode", tmp_path / "in.csv", tmp_path / "out.parquet", "-m", tiny_folder, "--samples", 2)
    result = run(*common, "--column", "body", "--id-column", "key", "--no-text")
    assert result.exit_code == 0, result.output
    stored = read(tmp_path / "out.parquet")
    assert (stored.ids, stored.texts) == (["x", "y"], None)


def test_encode_in_several_chunks_is_the_same_as_at_once(tiny_folder, tmp_path, monkeypatch, sentences):
    run("encode", sentences, tmp_path / "whole.parquet", "-m", tiny_folder, "--samples", 2)
    monkeypatch.setattr("sen2pro.io.encoding.CHUNK", 1)
    run("encode", sentences, tmp_path / "chunks.parquet", "-m", tiny_folder, "--samples", 2)
    whole, chunks = Gaussian.load(tmp_path / "whole.parquet"), Gaussian.load(tmp_path / "chunks.parquet")
    np.testing.assert_allclose(whole.mean, chunks.mean, atol=1e-5)


def test_encode_counts_what_was_cut(tiny_folder, tmp_path):
    long = "the dog runs " * 30
    result = run(
        "encode", "-", tmp_path / "out.parquet", "-m", tiny_folder, "--samples", 2, input=f"{long}\nshort\n{long}\n"
    )
    assert result.exit_code == 0, result.output
    assert "2 of 3 sentences are longer than the 32 tokens" in " ".join(result.output.split())


def test_encode_says_each_other_warning_once(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("sen2pro.io.encoding.CHUNK", 1)
    result = run("encode", "-", tmp_path / "out.parquet", "-m", tiny_folder, "--samples", 2, input="今天天气\n今天\n")
    assert result.exit_code == 0, result.output
    assert result.output.count("no spaces") == 1


def test_encode_an_empty_file(tiny_folder, tmp_path):
    (tmp_path / "in.txt").write_text("")
    result = run("encode", tmp_path / "in.txt", tmp_path / "out.parquet", "-m", tiny_folder, "--samples", 2)
    assert result.exit_code == 0, result.output
    assert Gaussian.load(tmp_path / "out.parquet").shape == (0, 32)


def test_an_existing_file_needs_overwrite(tiny_folder, sentences, tmp_path):
    out = tmp_path / "out.parquet"
    out.write_text("precious")
    common = ("encode", sentences, out, "-m", tiny_folder, "--samples", 2)
    result = run(*common)
    assert result.exit_code == 2
    assert "--overwrite" in result.output
    assert out.read_text() == "precious"
    assert run(*common, "--overwrite").exit_code == 0
    assert len(Gaussian.load(out)) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{in}", "{dir}/out.csv"], "unknown file suffix"),
        (["{dir}/nothing.txt", "{dir}/out.parquet"], "there is no file"),
        (["{in}", "{dir}/no/folder/out.parquet"], "there is no folder"),
        (["{in}", "{dir}/out.parquet", "--model", "{dir}/nowhere"], "no model"),
        (["{in}", "{dir}/out.parquet", "--model", "{model}", "--samples", "1"], "at least 2"),
        (["{in}", "{dir}/out.parquet", "--model", "{model}", "--samples", "many"], "neither a number"),
        (["{in}", "{dir}/out.parquet", "--model", "{model}", "--uncertainty", "modle"], "did you mean 'model'"),
        (["{in}", "{dir}/out.safetensors", "--id-column", "x"], "Parquet"),
    ],
)
def test_bad_input_is_one_message_without_a_traceback(tiny_folder, sentences, tmp_path, arguments, message):
    filled = [a.format(**{"in": sentences, "dir": tmp_path, "model": tiny_folder}) for a in arguments]
    result = run("encode", *filled)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output
    assert not list(tmp_path.glob("out*"))
    assert not list(tmp_path.glob(".out*"))


def test_a_bad_line_is_found_before_any_work_and_leaves_no_file(tiny_folder, tmp_path):
    (tmp_path / "in.txt").write_text("the dog\n" * 500 + "\n")
    result = run("encode", tmp_path / "in.txt", tmp_path / "out.parquet", "-m", tiny_folder)
    assert result.exit_code == 2
    assert "line 501" in result.output
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_a_disk_that_refuses_to_write_is_said_and_leaves_no_file(tiny_folder, tmp_path, suffix):
    import resource

    (tmp_path / "in.txt").write_text("the dog runs\n" * 600)
    arguments = ("encode", tmp_path / "in.txt", tmp_path / f"out.{suffix}", "-m", tiny_folder, "--samples", 2)
    process = spawn(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000)))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1, errors
    assert "File too large" in errors
    assert "Traceback" not in errors
    assert not list(tmp_path.glob("*out*"))


def test_a_read_only_folder_is_said_before_the_work():
    from sen2pro.io.gaussians import GaussianWriter

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


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_stopped_run_exits_cleanly_and_keeps_what_is_done(tiny_folder, tmp_path, how, code):
    (tmp_path / "in.txt").write_text("the dog runs in the park\n" * 20_000)
    process = spawn("encode", tmp_path / "in.txt", tmp_path / "out.parquet", "-m", tiny_folder)
    deadline = time.monotonic() + 120
    while not _written(tmp_path) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)  # until the first unit is on disk
    process.send_signal(how)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert "the same command goes on from there" in errors
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.parquet.parts", "tiny-bert"]
    assert not [p for p in tmp_path.rglob("*") if ".partial" in p.name]


def test_a_killed_run_leaves_nothing_that_looks_whole(tiny_folder, tmp_path):
    (tmp_path / "in.txt").write_text("the dog runs in the park\n" * 20_000)
    process = spawn("encode", tmp_path / "in.txt", tmp_path / "out.parquet", "-m", tiny_folder)
    deadline = time.monotonic() + 120
    while not _written(tmp_path) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    process.kill()
    process.communicate(timeout=60)
    assert not (tmp_path / "out.parquet").exists()


def _written(folder):
    return any(folder.glob("out.parquet.parts/shard-*.parquet"))


def test_compare_shows_similarity_distances_and_where_the_doubt_comes_from():
    result = run("compare", "A man is playing a guitar.", "Someone [bold] plays.", "--all")
    assert result.exit_code == 0, result.output
    for part in (
        "likely the same meaning",
        "similarity",
        "wasserstein",
        "symmetric-kl",
        "model",
        "data",
        "Someone [bold] plays.",
        "signature: model:all-MiniLM",
    ):
        assert part in result.output
    assert run("compare", "A man.", " ").exit_code == 2


def test_compare_answers_in_words_first():
    result = run("compare", "A man is playing a guitar.", "Someone makes music.")
    assert result.exit_code == 0, result.output
    assert "% likely the same meaning" in result.output
    assert "The second sentence is the vaguer one." in result.output
    assert "wasserstein" not in result.output


def test_the_signature_of_an_answer_in_one_pass_says_so(tmp_path):
    file, out = tmp_path / "texts.txt", tmp_path / "out.csv"
    file.write_text("A man is playing a guitar.\nSomeone makes music.\n")
    for command in (("compare", "A man.", "A woman."), ("specificity", file, out), ("dedup", file, tmp_path / "d.csv")):
        result = run(*command)
        assert result.exit_code == 0, result.output
        said = " ".join(result.output.split())
        assert "samples:0|" in said, command
        assert "estimator:one-pass" in said, command


def test_compare_of_another_model_shows_the_distances_and_says_why(tiny_folder):
    result = run("compare", "the dog runs", "a cat", "-m", tiny_folder, "--samples", 2)
    assert result.exit_code == 0, result.output
    assert "wasserstein" in result.output
    assert "comes with the default model only" in " ".join(result.output.split())


def test_demo_prints_a_table_and_draws_a_picture(tmp_path):
    result = run("demo", "--output", tmp_path / "picture.png")
    assert result.exit_code == 0, result.output
    assert "12 of 12" in result.output
    assert f"picture: {tmp_path / 'picture.png'}" in result.output
    assert "signature: " in result.output
    assert (tmp_path / "picture.png").read_bytes().startswith(PNG)


def test_encode_can_pass_over_blank_lines(tiny_folder, tmp_path):
    common = ("encode", "-", tmp_path / "out.parquet", "-m", tiny_folder, "--samples", 2)
    assert "--skip-blank" in run(*common, input="the dog\n\na cat\n").output
    assert "2 sentences" in run(*common, "--skip-blank", input="the dog\n\na cat\n").output


def test_output_cut_short_by_a_pipe_is_no_error():
    command = f"{sys.executable} -m sen2pro encode --help | head -n 2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_the_whole_names_of_options_are_in_the_help():
    text = " ".join(run("encode", "--help").output.split())
    for name in ("--trust-remote-code", "--no-normalize", "--allow-pickle", "default: the model's own"):
        assert name in text


def test_demo_knows_its_kinds_of_pictures_before_the_work(tmp_path):
    result = run("demo", "--output", tmp_path / "picture.pgn")
    assert result.exit_code == 2
    assert "did you mean '.png'" in result.output
    assert "there is no folder" in run("demo", "--output", tmp_path / "none" / "picture.png").output


def test_compare_says_once_what_was_cut(tiny_folder):
    result = run("compare", "the dog runs " * 30, "short", "-m", tiny_folder, "--samples", 2)
    assert result.exit_code == 0, result.output
    assert " ".join(result.output.split()).count("1 of 2 sentences is longer") == 1


def test_demo_without_matplotlib_says_how_to_get_the_picture(tmp_path, monkeypatch):
    monkeypatch.setattr("sen2pro.cli.demo.find_spec", lambda name: None)
    result = run("demo", "--output", tmp_path / "picture.png")
    assert result.exit_code == 0, result.output
    assert "pip install 'sen2pro[plot]'" in result.output


def test_info_says_what_is_inside():
    result = run("info", "all-MiniLM-L6-v2")
    assert result.exit_code == 0, result.output
    for part in (
        "bert, 6 layers, 22.6 M",
        "384 dimensions, mean pooling",
        "unit sphere",
        "256 tokens",
        "6 sites",
        "13 sites",
        "can be sampled",
    ):
        assert part in result.output


def test_info_on_a_saved_model_shows_its_settings(tmp_path, bert, tokenizer):
    corpus = [f"{a} {b}" for a in ("the", "a", "one") for b in ("dog", "cat", "man", "ball")]
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=2, pooling="cls", normalize=True).fit_whitening(corpus, dim=4)
    model.save(tmp_path / "saved")
    output = run("info", tmp_path / "saved").output
    assert "32 dimensions, cls pooling, whitened to 4" in output
    assert "unit sphere" in output


def test_info_on_a_model_without_dropout(tmp_path, tokenizer):
    from conftest import build_network

    build_network("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).save_pretrained(
        tmp_path / "silent"
    )
    tokenizer.save_pretrained(tmp_path / "silent")
    result = run("info", tmp_path / "silent")
    assert result.exit_code == 0, result.output
    assert "dropout is 0 in this model" in result.output


def test_help_and_version():
    for command in ([], ["encode"], ["compare"], ["demo"], ["info"]):
        assert run(*command, "--help").exit_code == 0
    assert run("--version").output.startswith("sen2pro 0.")
    assert run("encoed").exit_code == 2


def test_distill_and_encode_in_one_pass(tiny_folder, sentences, tmp_path):
    rng = np.random.default_rng(0)
    corpus = [" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(300)]
    (tmp_path / "corpus.txt").write_text("\n".join([*corpus, "", corpus[0]]))
    head = tmp_path / "head"
    result = run("distill", tmp_path / "corpus.txt", head, "-m", tiny_folder, "--samples", 6, "--limit", 250)
    assert result.exit_code == 0, result.output
    assert "R2 on held-out sentences" in result.output
    assert "of 250, teacher 6+6, seed 0" in result.output
    again = run("distill", tmp_path / "corpus.txt", head, "-m", tiny_folder)
    assert again.exit_code == 2
    assert "there is a head in" in again.output

    sentences.write_text(sentences.read_text() + "the " * 25 + "\n")
    out, one_pass = tmp_path / "out.parquet", ("--method", "one-pass", "--head", head)
    result = run("encode", sentences, out, "-m", tiny_folder, *one_pass)
    assert result.exit_code == 0, result.output
    assert "of 4 sentences are far from all that the head was fitted on" in result.output
    stored = read(out)
    expected = Sen2Pro(str(tiny_folder), method="one-pass", head=head).encode(stored.texts)
    np.testing.assert_allclose(stored.gaussian.variance, expected.variance, rtol=1e-5)
    np.testing.assert_allclose(stored.gaussian.coverage, expected.coverage)
    result = run(
        "compare", "the dog", "a cat", "-m", tiny_folder, "--method", "shrinkage", "--head", head, "--samples", 3
    )
    assert result.exit_code == 0, result.output
    assert "shrinkage (head" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "one-pass"], "there is no head for tiny-bert"),
        (["--method", "shrinkage"], "there is no head for tiny-bert"),
        (["--method", "one-pass", "--samples", "3"], "takes no samples"),
        (["--method", "twice"], "method"),
        (["--method", "one-pass", "--head", "nowhere"], "there is no head in nowhere"),
    ],
)
def test_methods_that_cannot_be_had_are_said(tiny_folder, sentences, tmp_path, arguments, message):
    result = run("encode", sentences, tmp_path / "out.parquet", "-m", tiny_folder, *arguments)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert not (tmp_path / "out.parquet").exists()


def test_a_corpus_that_is_too_small_is_said(tiny_folder, sentences, tmp_path):
    result = run("distill", sentences, tmp_path / "head", "-m", tiny_folder)
    assert result.exit_code == 2
    assert "at least 200 different sentences" in result.output
    assert not (tmp_path / "head").exists()


def test_show_prints_the_first_rows_of_a_file(tiny_folder, sentences, tmp_path):
    out = tmp_path / "out.parquet"
    assert run("encode", sentences, out, "-m", tiny_folder, "--samples", 2).exit_code == 0
    table = pq.read_table(out)
    assert {"total_variance", "model_variance", "data_variance"} <= set(table.column_names)
    totals = read(out).gaussian.total_variance
    np.testing.assert_allclose(table.column("total_variance").to_numpy(), totals)
    both = table.column("model_variance").to_numpy() + table.column("data_variance").to_numpy()
    np.testing.assert_allclose(both / 2, totals, rtol=1e-5)
    result = run("show", out, "--rows", 1, "--uncertain")
    assert result.exit_code == 0, result.output
    data = table.column("data_variance").to_numpy()
    assert sentences.read_text().splitlines()[int(data.argmax())] in result.output
    assert sentences.read_text().splitlines()[int(data.argmin())] not in result.output
    assert "signature: model:tiny-bert" in result.output
    assert run("show", tmp_path / "nothing.parquet").exit_code == 2


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
