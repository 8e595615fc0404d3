"""Rows of large jobs that are wrong: named, or skipped and listed."""

import json

import pytest
import torch
from scale_runs import SAMPLES, Stops, model, small_units, some_texts, texts, tiny_model, write_lines
from test_cli import run

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.gaussian import read
from sen2pro.io import shards
from sen2pro.jobs import encode_files, plan
from sen2pro.jobs.units import Report


@pytest.fixture(scope="module")
def poisoned(bert, tokenizer, tmp_path_factory):
    """A model whose vector for one word is not finite: a text with it cannot be encoded."""
    import copy

    network = copy.deepcopy(bert)
    with torch.no_grad():
        network.embeddings.word_embeddings.weight[tokenizer.convert_tokens_to_ids("rain")] = float("nan")
    folder = tmp_path_factory.mktemp("poisoned") / "model"
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Sen2Pro(str(folder), samples=4, uncertainty="model")  # without edits, which could put the word anywhere


def poison(texts):
    """Return texts of which the rows 301 and 302 cannot be encoded, and those that can be."""
    dry = [text.replace("rain", "sun") for text in texts]
    return [*dry[:300], "the rain today", "rain", *dry[300:]], dry


def test_a_row_that_the_model_fails_on_is_named(poisoned, texts, tmp_path):
    source = write_lines(tmp_path / "in.txt", poison(texts)[0])
    with pytest.raises(Sen2ProError, match=f"{source}, line 301: this row cannot be encoded.*on_error='skip'"):
        encode_files(poisoned, source, tmp_path / "out.parquet")
    summary = encode_files(poisoned, source, tmp_path / "out.parquet", on_error="skip")  # it goes on
    assert summary.resumed == 256
    assert [place for place, _ in summary.report.skipped] == [f"{source}, line 301", f"{source}, line 302"]
    assert read(tmp_path / "out.parquet").texts == poison(texts)[1]
    assert Report.of_file(tmp_path / "out.parquet").skipped == summary.report.skipped


def test_rows_that_cannot_be_read_are_skipped_and_listed(model, texts, tmp_path):
    lines = [json.dumps({"text": text}) for text in texts[:600]]
    lines[10], lines[300], lines[301] = '{"text": ', '{"text": null}', '{"a": "x", "b": "y"}'
    source = tmp_path / "in.jsonl"
    source.write_bytes("\n".join(lines).encode() + b'\n{"text": "\xff"}\n')
    with pytest.raises(Sen2ProError, match="line 11"):
        encode_files(model, source, tmp_path / "out.parquet")
    result = run(
        "encode", source, tmp_path / "g", "-m", model.settings.model, "--samples", SAMPLES, "--shards",
        "--on-error", "skip",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    assert "597 sentences" in output
    assert "4 rows skipped" in output
    for number in (11, 301, 302, 601):
        assert f"skipped: {source}, line {number}: " in output
    stored = shards.manifest(tmp_path / "g")
    assert [place for place, _ in stored["skipped"]] == [f"{source}, line {n}" for n in (11, 301, 302, 601)]
    assert read(tmp_path / "g").texts == [text for n, text in enumerate(texts[:600]) if n not in (10, 300, 301)]


@pytest.mark.parametrize("options", [{}, {"shards": True}, {"engine": Stops(-1)}])
def test_many_skipped_rows_are_counted_and_the_first_are_named(model, texts, tmp_path, monkeypatch, options):
    for place in ("sen2pro.jobs.units.MOST_SKIPPED", "sen2pro.io.shards.MOST_SKIPPED"):
        monkeypatch.setattr(place, 3)
    monkeypatch.setattr("sen2pro.jobs.run.MOST_NAMED", 4)
    monkeypatch.setattr(plan, "SHARD", 512)
    lines = [json.dumps({"text": text}) if n % 10 else "{" for n, text in enumerate(texts)]
    source = write_lines(tmp_path / "in.jsonl", lines if options else lines[:200])
    output = tmp_path / ("out" if "shards" in options else "out.parquet")
    summary = encode_files(model, source, output, on_error="skip", **options)
    count = 100 if options else 20
    first = [f"{source}, line {number}" for number in (1, 11, 21)]
    assert f", {count} rows skipped, " in str(summary)
    assert summary.report.skipped_rows == count
    assert [place for place, _ in summary.report.skipped] == first
    if "shards" in options:
        assert shards.manifest(output)["skipped_rows"] == count
        assert [place for place, _ in shards.manifest(output)["skipped"]] == first
        second = Report.of_file(output / shards.name(1))
        assert [place for place, _ in second.skipped] == [f"{source}, line {number}" for number in (521, 531, 541)]
        assert second.skipped_rows == 48
    else:
        assert Report.of_file(output) == summary.report


def test_an_input_of_faults_alone_is_an_error(model, tmp_path):
    (tmp_path / "in.jsonl").write_text("{}\n[]\n")
    with pytest.raises(Sen2ProError, match="every row is faulty, the first one so: .*line 1"):
        encode_files(model, tmp_path / "in.jsonl", tmp_path / "out.parquet", on_error="skip")


def test_a_model_that_fails_on_every_row_is_not_skipped_over(bert, tokenizer, tmp_path):
    import copy

    network = copy.deepcopy(bert)
    with torch.no_grad():
        network.embeddings.LayerNorm.weight[:] = float("nan")
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    source = write_lines(tmp_path / "in.txt", some_texts(20))
    try:
        broken = tiny_model(tmp_path / "model")
    except Sen2ProError:
        return  # refused at once: better still
    with pytest.raises(Sen2ProError):
        encode_files(broken, source, tmp_path / "out.parquet", on_error="skip")
