"""Files that are damaged, hostile or odd: each is one clear error that says where."""

import gzip
import json
import lzma
import shutil
import tracemalloc
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from labelled_texts import LABELS, TEXTS
from test_cli import run

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.io import bundle
from sen2pro.io.inputs import Reader, labelled, sentences
from sen2pro.io.rows import lines, open_binary


def in_file(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return str(path)


def read_all(source):
    return [record.text for record in source]


def read_lines(path):
    with open_binary(path) as file:
        return list(lines(file, str(path)))


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_flipped_byte_in_compressed_data_is_told(tmp_path, suffix, pack):
    content = pack("\n".join(f"sentence number {i * i}" for i in range(500)).encode())
    told = 0
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 0x10
        path = in_file(tmp_path / f"in.txt{suffix}", bytes(changed))
        for read in (lambda p: read_all(sentences(p)), read_lines):
            with suppress(Sen2ProError):
                read(path)
                told -= 1
            told += 1
    assert told > len(content) / 7


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a", "id": "\\ud800"}', "line 1: column 'id' holds a NUL or half a surrogate pair"),
        ('{"text": "a", "id": "x\\u0000"}', "line 1: column 'id' holds a NUL"),
        ('{"text": "a", "id": ' + "1" * 5000 + "}", "line 1: not JSON"),
        ('{"text": "a", "id": ' + "[" * 100_000 + "}", "line 1: not JSON that can be read: too many brackets"),
        ('{"text": "a", "id": null}', "line 1: there is no id"),
        ('{"text": "\\ud800", "id": 1}', "half a surrogate pair"),
        ('{"text": 5, "id": 1}', "the sentence is not a text but 5"),
        ('{"text": "a\\u0000", "id": 1}', "a NUL byte"),
        ('{"text": "\\u200b", "id": 1}', "empty or blank"),
    ],
)
def test_hostile_json_lines(tmp_path, line, message):
    path = in_file(tmp_path / "in.jsonl", line + "\n")
    with pytest.raises(Sen2ProError, match=message):
        list(sentences(path, "text", "id"))


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ('"\\ud800"', "half a surrogate pair"),
        ('"a\\u0000"', "holds a NUL"),
        ("1" * 5000, "not JSON"),
        ("1" * 30, "neither a text nor a whole number of 64 bits"),
        ("1.5", "neither a text nor a whole number"),
        ("[1]", "neither a text nor a whole number"),
        ("NaN", "neither a text nor a whole number"),
    ],
)
def test_hostile_labels(tmp_path, label, message):
    path = in_file(tmp_path / "in.jsonl", f'{{"text": "a", "label": {label}}}\n')
    with pytest.raises(Sen2ProError, match=message):
        list(labelled(path, None, "label"))


def test_a_line_that_would_fill_the_memory_is_refused_with_its_number(tmp_path):
    path = tmp_path / "in.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"fine\n")
        for _ in range(20):
            file.write(b"a" * 1_000_000)
    with pytest.raises(Sen2ProError, match=r"in.txt.gz, line 2: longer than 10,000,000 bytes.*longest_line="):
        sentences(str(path)).count()
    with pytest.raises(Sen2ProError, match="line 1: longer than 3 bytes"):
        sentences(str(path), longest_line=3).count()
    assert sentences(str(path), longest_line=30_000_000).count() == 2


def test_an_open_quote_does_not_swallow_the_file(tmp_path):
    path = in_file(tmp_path / "in.csv", 'text\n"open\n' + "more\n" * 1000)
    with pytest.raises(Sen2ProError, match="line 2: field larger than field limit"):
        sentences(path, longest_line=1000).count()


def test_a_long_text_of_a_parquet_file_is_refused(tmp_path):
    pq.write_table(pa.table({"text": ["short", "a" * 5000]}), tmp_path / "in.parquet")
    with pytest.raises(Sen2ProError, match="rows 1 to 2: a text is longer than 4,000 bytes"):
        sentences(str(tmp_path / "in.parquet"), longest_line=4000).count()


def invalid_utf8(values):
    return pa.array(values, pa.binary()).view(pa.string())


def test_text_of_a_parquet_file_that_is_not_utf8_is_refused_with_its_row(tmp_path):
    pq.write_table(pa.table({"text": invalid_utf8([b"fine", b"caf\xe9"])}), tmp_path / "in.parquet")
    for source in (sentences(str(tmp_path / "in.parquet")), sentences(str(tmp_path / "in.parquet"), skip_blank=True)):
        for read in (Reader.count, read_all):
            with pytest.raises(Sen2ProError, match="in.parquet.*not UTF-8|'utf-8' codec"):
                read(source)


def test_a_schema_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["a"], "strange": ["b"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"strange", b"str\xffnge"))
    with pytest.raises(Sen2ProError, match="is not a whole Parquet file"):
        read_all(sentences(str(path), "text"))


def test_a_small_parquet_file_of_many_rows_is_counted_without_filling_the_memory(tmp_path):
    """A file of some kilobytes can hold millions of rows: texts that repeat are decoded once."""
    rows = 300_000
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["the same " * 1000]))
    pq.write_table(pa.table({"text": text}), tmp_path / "in.parquet")
    assert (tmp_path / "in.parquet").stat().st_size < 30_000
    tracemalloc.start()
    assert sentences(tmp_path / "in.parquet").count() == rows
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_blank_and_missing_rows_are_still_found_where_texts_repeat(tmp_path):
    for bad, message in ((None, "row 5000: the sentence is not a text"), (" ", "row 5000: the sentence is empty")):
        texts = ["same"] * 6000
        texts[4999] = bad
        pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
        with pytest.raises(Sen2ProError, match=message):
            sentences(str(tmp_path / "in.parquet")).count()
    assert sentences(str(tmp_path / "in.parquet"), skip_blank=True).count() == 5999


SETTINGS = [b"", b"null", b'"a"', b"[]", b"3", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": 1}', b'{"version": 1}']


@pytest.mark.parametrize("content", SETTINGS)
@pytest.mark.parametrize("name", ["sen2pro.json", "modules.json", "config.json", "config_sentence_transformers.json"])
def test_settings_that_are_none(tiny, tmp_path, name, content):
    tiny.save(tmp_path / "m")
    if name == "config_sentence_transformers.json":
        shutil.rmtree(tmp_path / "m")
        Sen2Pro(method="one-pass").save(tmp_path / "m")
    (tmp_path / "m" / name).write_bytes(content)
    try:
        Sen2Pro.load(tmp_path / "m")
    except Sen2ProError:
        return
    assert name == "config_sentence_transformers.json"  # an object with other keys is not ours to judge
    assert json.loads(content).keys() in ({"a"}, {"version"})


def write_settings(path, content):
    path.write_text(json.dumps({**content, bundle.DIGEST: bundle.digest_of(content)}))


def test_settings_of_the_wrong_kind_name_the_key(tiny, tmp_path):
    tiny.save(tmp_path / "m")
    path = tmp_path / "m" / "sen2pro.json"
    good = json.loads(path.read_text())
    good.pop("digest")
    for key in good:
        wrong = {"a": object.__name__} if key != "samples" else {"model": -1, "data": 2}
        write_settings(path, {**good, key: wrong})
        with pytest.raises(Sen2ProError, match=rf"sen2pro.json: '{key}(\.model)?' must be"):
            Sen2Pro.load(tmp_path / "m")
        write_settings(path, {name: value for name, value in good.items() if name != key})
        if key not in ("hash", "precision", "vocabulary"):
            with pytest.raises(Sen2ProError, match=f"the key '{key}' is missing"):
                Sen2Pro.load(tmp_path / "m")


def test_a_changed_setting_is_told(tiny, tmp_path):
    tiny.save(tmp_path / "m")
    path = tmp_path / "m" / "sen2pro.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(Sen2ProError, match="was changed since it was saved. If you changed it yourself"):
        Sen2Pro.load(tmp_path / "m")
    settings = json.loads(path.read_text())
    settings.pop("digest")
    path.write_text(json.dumps(settings))  # as the error says
    assert Sen2Pro.load(tmp_path / "m").seed == 1


def test_models_of_older_versions_load(tiny, tmp_path):
    """Version 0.4 wrote no digest and no precision."""
    tiny.save(tmp_path / "m")
    path = tmp_path / "m" / "sen2pro.json"
    old = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("digest", "precision")}
    path.write_text(json.dumps(old))
    loaded = Sen2Pro.load(tmp_path / "m")  # a folder is run by our own code, a network in memory by its library
    np.testing.assert_allclose(loaded.encode("the dog").mean, tiny.encode("the dog").mean, atol=1e-6)


def test_a_path_with_a_nul_is_a_clear_error(tmp_path, tiny):
    for use in (sentences, Sen2Pro, Sen2Pro.load, tiny.save):
        with pytest.raises(Sen2ProError, match="cannot hold a NUL"):
            use("a\0b")
    result = run("encode", "a\0b", tmp_path / "out.parquet")
    assert result.exit_code == 2
    assert "cannot hold a NUL" in result.output


@pytest.mark.parametrize("samples", ["²", "٣", "1" * 5000, "999999999999999999999", "1+", "", "-3", "1e3"])
def test_numbers_of_samples_that_are_none(tmp_path, tiny_folder, samples):
    (tmp_path / "in.txt").write_text("the dog\n")
    result = run("encode", tmp_path / "in.txt", tmp_path / "out.parquet", "-m", tiny_folder, f"--samples={samples}")
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("code", ["\x1b[31mred", "\x1b]0;title\x07", "a\rb", "\x9b31m", "\u202eback"])
def test_control_codes_of_a_file_do_not_reach_the_terminal(tmp_path, tiny_folder, code):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({code: "a", "other": "b"}) + "\n")
    result = run("encode", path, tmp_path / "out.parquet", "-m", tiny_folder)
    assert result.exit_code == 2
    assert "which column holds the sentences?" in result.output
    assert not set(result.output) & set("\x1b\x07\r\x9b\u202e")


def test_control_codes_of_labels_do_not_reach_the_terminal(tmp_path, tiny_folder):
    path = tmp_path / "train.jsonl"
    rows = [{"text": text, "label": f"\x1b[31m{label}"} for text, label in zip(TEXTS, LABELS, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("classify", "train", path, tmp_path / "c", "-m", tiny_folder, "--samples", "2").exit_code == 0
    result = run("classify", "evaluate", tmp_path / "c", path, "-m", tiny_folder)
    assert result.exit_code == 0, result.output
    assert "\\x1b[31m" in result.output
    assert "\x1b" not in result.output
