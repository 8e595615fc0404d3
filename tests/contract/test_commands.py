"""The command line: exit codes, the files that are written, their columns and numbers, and JSON on standard output."""

import csv
import gzip
import json
import os
import re
import shlex
import signal
from pathlib import Path

import pytest

from contract.about import NONE, ONE_PASS, PLAIN, SAMPLING, of
from contract.command import described, files, json_lines, run, spawn
from contract.files.make import ENCODER, corpus
from contract.texts import (
    DOCUMENTS,
    FIRST,
    LABELLED,
    LABELS,
    MAN,
    MARKET,
    MATCHES,
    METADATA,
    NEW_PAIRS,
    PLAYS,
    QUERIES,
    SECOND,
    TEXTS,
    UNLABELLED,
)  # fmt: skip

SENTENCES = [MAN, "They did it again.", MARKET]
ENCODE = {
    "text": (SAMPLING, "in.txt out.parquet"),
    "one-pass": (ONE_PASS, "in.txt out.parquet --method one-pass"),
    "ids-and-columns": (ONE_PASS, "in.csv out.parquet --id-column id --keep-column length --method one-pass"),
    "safetensors": (of(SAMPLING, seed=7), "in.jsonl out.safetensors --samples 3+6 --seed 7 --combine unified"),
    "without-text": (SAMPLING, "in.tsv out.parquet --no-text --uncertainty data --samples 3"),
    "gzip": (ONE_PASS, "in.txt.gz out.parquet --method one-pass"),
    "shards": (ONE_PASS, "in.csv out --shards --id-column id --method one-pass"),
    "a-folder-of-files": (ONE_PASS, "many out.parquet --method one-pass"),
    "column": (ONE_PASS, "wide.csv out.parquet --column title --method one-pass"),
    "skip": (ONE_PASS, "bad.csv out.parquet --on-error skip --method one-pass"),
    "skip-blank": (ONE_PASS, "blank.txt out.parquet --skip-blank --method one-pass"),
    "overwrite": (ONE_PASS, "in.txt there.parquet --overwrite --method one-pass"),
    "another-folder": (SAMPLING, f"tiny.txt out.parquet --model {ENCODER} --samples 2"),
}
SPECIFICITY = {
    "csv": "in.txt out.csv", "tsv": "in.csv out.tsv --id-column id", "jsonl": "in.txt out.jsonl",
    "below": "in.txt out.csv --below 50", "above": "in.txt out.csv --above 50", "sort": "in.txt out.csv --sort",
}  # fmt: skip
DEDUP = {
    "csv": "texts.txt out.csv",
    "jsonl": "texts.csv out.jsonl --id-column id",
    "kept-only": "texts.txt out.tsv --kept-only",
    "precision": "texts.txt out.csv --precision 0.5",
    "by-labels": "texts.txt out.csv --confidence pairs --precision 0.6",
}
SEARCH = {
    "json": [QUERIES[0], QUERIES[1], "-k", "2", "--json"], "where": [QUERIES[0], "--where", "lang=de", "--json"],
    "precision": [QUERIES[2], "-k", "1", "--precision", "0.9", "--json"],
    "csv": ["--batch", "queries.txt", "out.csv"], "jsonl": ["--batch", "queries.txt", "out.jsonl", "-k", "2"],
}  # fmt: skip
MATCH = {
    "csv": "new.csv out.csv --precision 0.6",
    "jsonl": "new.csv out.jsonl --precision 0.6",
    "no-promise": "new.csv out.csv",
    "less-certain": "new.csv out.tsv --precision 0.8 --certainty 0.7 --uncovered",
}
PREDICT = {"csv": "new.txt out.csv", "jsonl": "new.txt out.jsonl", "ids": "new-ids.csv out.tsv --id-column id"}
REFUSED = {
    "no-command": "",
    "unknown-command": "conjure",
    "unknown-option": "encode in.txt out.parquet --magic",
    "missing-argument": "encode in.txt",
    "no-file": "encode nowhere.txt out.parquet",
    "exists": "encode in.txt there.parquet",
    "suffix": "encode in.txt out.npz",
    "method": "encode in.txt out.parquet --method magic",
    "samples": "encode in.txt out.parquet --samples many",
    "seed": "encode in.txt out.parquet --seed one",
    "bad-row": "encode bad.csv out.parquet --method one-pass",
    "blank": "encode blank.txt out.parquet --method one-pass",
    "no-such-column": "encode in.csv out.parquet --column nothing",
    "no-such-folder": "encode in.txt nowhere/out.parquet",
    "model": "encode in.txt out.parquet --model ./nowhere",
    "one-pass-with-samples": "encode in.txt out.parquet --method one-pass --samples 3",
    "compare-blank": "compare a ' '",
    "compare-one": "compare a",
    "specificity-suffix": "specificity in.txt out.parquet",
    "specificity-exists": "specificity in.txt in.csv",
    "dedup-exists": "dedup texts.txt in.csv",
    "dedup-precision": "dedup texts.txt out.csv --precision 2",
    "search-no-index": "search nowhere query",
    "search-no-query": "search index",
    "search-where": "search index query --where lang",
    "index-exists": "index docs.csv index",
    "index-not-empty": "index docs.csv many",
    "index-twice": "index twice.csv out --id-column id",
    "calibrate-exists": "calibrate pairs.csv pairs",
    "calibrate-few": "calibrate few.csv out",
    "calibrate-no-label": "calibrate new.csv out",
    "match-no-folder": "match new.csv out.csv --confidence nowhere",
    "match-precision": "match new.csv out.csv --confidence pairs --precision 2",
    "match-another-method": "match new.csv out.csv --confidence pairs --method sampling --samples 2",
    "train-exists": "classify train labelled.csv classifier",
    "train-one-class": "classify train one.csv out",
    "train-no-label": "classify train in.csv out --label-column nothing",
    "predict-no-folder": "classify predict nowhere new.txt out.csv",
    "evaluate-unknown-label": "classify evaluate classifier one.csv",
    "show-no-file": "show nowhere.parquet",
    "show-text": "show in.txt",
    "distill-few": "distill in.txt out",
    "serve-port": "serve --port 70000",
    "serve-no-index": "serve --port 0 --index nowhere",
    "info-no-model": "info ./nowhere",
    "demo-suffix": "demo --output out.txt",
}


def write(path, columns, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        table.writerows([columns, *rows])


def inputs(folder):
    """Write all files that commands read."""
    lines = "\n".join(SENTENCES) + "\n"
    (folder / "in.txt").write_text(lines, encoding="utf-8")
    (folder / "in.txt.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    rows = [[f"r{place}", text, len(text)] for place, text in enumerate(SENTENCES)]
    for suffix in ("csv", "tsv"):
        write(folder / f"in.{suffix}", ["id", "text", "length"], rows)
    objects = [json.dumps({"text": text, "id": id}) for id, text, _ in rows]
    (folder / "in.jsonl").write_text("\n".join(objects) + "\n", encoding="utf-8")
    write(folder / "wide.csv", ["title", "body"], [[text, "something else"] for text in SENTENCES])
    write(folder / "bad.csv", ["id", "text"], [["a", MAN], ["b", ""], ["c", PLAYS]])
    (folder / "blank.txt").write_text(f"{MAN}\n\n{PLAYS}\n", encoding="utf-8")
    (folder / "tiny.txt").write_text("the man plays the guitar\nrain today\n", encoding="utf-8")
    (folder / "corpus.txt").write_text("\n".join(corpus()) + "\n", encoding="utf-8")
    (folder / "there.parquet").write_bytes(b"")
    (folder / "many").mkdir()
    for place, text in enumerate(SENTENCES):
        (folder / "many" / f"{place}.txt").write_text(text + "\n", encoding="utf-8")
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    write(folder / "texts.csv", ["id", "text"], [[f"t{place}", text] for place, text in enumerate(TEXTS)])
    rows = [[id, text, more.get("lang", "")] for (id, text), more in zip(DOCUMENTS.items(), METADATA, strict=True)]
    write(folder / "docs.csv", ["id", "text", "lang"], rows)
    write(folder / "twice.csv", ["id", "text"], [["a", MAN], ["a", PLAYS]])
    (folder / "queries.txt").write_text("\n".join(QUERIES) + "\n", encoding="utf-8")
    pairs = list(zip(FIRST, SECOND, MATCHES, strict=True))
    write(folder / "pairs.csv", ["first", "second", "label"], pairs)
    write(folder / "few.csv", ["first", "second", "label"], pairs[:3])
    write(folder / "new.csv", ["first", "second"], [*NEW_PAIRS, pairs[0][:2]])
    write(folder / "labelled.csv", ["text", "label"], list(zip(LABELLED, LABELS, strict=True)))
    write(folder / "one.csv", ["text", "label"], [[text, "art"] for text in LABELLED[:4]])
    judged = zip(UNLABELLED * 2, ["sport", "money", "food", "money", "sport", "money", "money", "food"], strict=True)
    write(folder / "judged.csv", ["text", "label"], judged)
    (folder / "new.txt").write_text("\n".join(UNLABELLED) + "\n", encoding="utf-8")
    write(folder / "new-ids.csv", ["id", "text"], [[f"n{place}", text] for place, text in enumerate(UNLABELLED)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with all inputs, and with an index, a classifier and a confidence that commands have made."""
    folder = tmp_path_factory.mktemp("commands")
    inputs(folder)
    before = Path.cwd()
    os.chdir(folder)
    codes = {
        "index": run(*"index docs.csv index --id-column id --metadata lang".split()).code,
        "calibrate": run("calibrate", "pairs.csv", "pairs").code,
        "train": run("classify", "train", "labelled.csv", "classifier").code,
    }
    os.chdir(before)
    return folder, codes


@pytest.fixture
def place(made, monkeypatch):
    """The folder of the commands, as the current one; what a test writes there is deleted."""
    folder, _ = made
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path not in before:
            path.unlink()
        elif path.read_bytes() != before[path]:
            path.write_bytes(before[path])


def result(folder, *arguments, opaque=()):
    """Run a command; return its exit code, and what it wrote."""
    before = {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in folder.rglob("*")}
    ran = run(*arguments)
    same = {
        name for name, when in before.items() if (folder / name).exists() and (folder / name).stat().st_mtime_ns == when
    }
    return ran, {"code": ran.code, "files": files(folder, same, opaque)}


def test_what_the_commands_before_made(made, golden):
    folder, codes = made
    golden({"codes": codes, "folders": sorted(path.name for path in folder.iterdir() if path.is_dir()),
            "picture": (folder / "pairs" / "reliability.png").exists()}, ONE_PASS)  # fmt: skip


@pytest.mark.parametrize("name", ENCODE)
def test_encode(name, place, golden):
    about, command = ENCODE[name]
    golden(result(place, "encode", *command.split())[1], about)


def test_encode_from_standard_input_in_a_process_of_its_own(place, golden):
    process = spawn("encode", "-", "out.safetensors", "--method", "one-pass", cwd=place)
    process.communicate("\n".join(SENTENCES) + "\n")
    golden({"code": process.returncode, "out.safetensors": described(place / "out.safetensors")}, ONE_PASS)


def test_encode_with_two_processes(place):
    """As with one, to the last bit."""
    assert run("encode", "in.csv", "one.parquet", "--method", "one-pass").code == 0
    process = spawn("encode", "in.csv", "two.parquet", "--method", "one-pass", "--workers", "2", cwd=place)
    process.communicate()
    assert process.returncode == 0
    assert (place / "one.parquet").read_bytes() == (place / "two.parquet").read_bytes()


@pytest.mark.parametrize("name", SPECIFICITY)
def test_specificity(name, place, golden):
    golden(result(place, "specificity", *SPECIFICITY[name].split())[1], ONE_PASS)


def numbers(text):
    """Return all numbers with at least three decimals, in ascending order; where they stand is prose."""
    return sorted(re.findall(r"\d+\.\d{3,}", text.partition("signature")[0]), key=float)


def test_compare(place, golden):
    ran, found = result(place, "compare", MAN, "A man plays the guitar.")
    assert "96 %" in ran.out
    everything = run("compare", MAN, PLAYS, "--all", "--samples", "3")
    golden(
        {**found, "all": {"code": everything.code, "numbers": numbers(everything.out)}}, of(SAMPLING, head="shipped")
    )


@pytest.mark.parametrize("name", DEDUP)
def test_dedup(name, place, golden):
    golden(result(place, "dedup", *DEDUP[name].split())[1], PLAIN)


@pytest.mark.parametrize("name", SEARCH)
def test_search(name, place, golden):
    ran, found = result(place, "search", "index", *SEARCH[name])
    if "--json" in SEARCH[name]:
        found["printed"] = json_lines(ran.out)
    golden(found, ONE_PASS)


def test_search_for_people(place):
    ran = run("search", "index", *QUERIES[:2])
    assert ran.code == 0
    assert DOCUMENTS["password"] in ran.out
    assert "97 %" in ran.out


def test_index_of_what_encode_wrote(place, golden):
    assert (
        run(
            "encode", "docs.csv", "docs.parquet", "--id-column", "id", "--keep-column", "lang", "--method", "one-pass"
        ).code
        == 0
    )
    _, found = result(place, "index", "docs.parquet", "new-index", "--encoded", opaque=["new-index"])
    printed = json_lines(run("search", "new-index", *QUERIES[:2], "-k", "2", "--where", "lang=en", "--json").out)
    kept = [
        {"answer": each["answer"], "hits": [[hit["id"], hit["similarity"]] for hit in each["hits"]]} for each in printed
    ]
    golden({**found, "search": kept}, ONE_PASS)


@pytest.mark.parametrize("name", MATCH)
def test_match(name, place, golden):
    golden(result(place, "match", *MATCH[name].split(), "--confidence", "pairs")[1], ONE_PASS)


@pytest.mark.parametrize("name", PREDICT)
def test_classify_predict(name, place, golden):
    golden(result(place, "classify", "predict", "classifier", *PREDICT[name].split())[1], ONE_PASS)


def test_classify_train_with_settings(place, golden):
    options = "--features mean+variance --loss expected --C 1 --method sampling --samples 3 --seed 5"
    _, found = result(place, "classify", "train", "labelled.csv", "other", *options.split(), opaque=["other"])
    assert run("classify", "predict", "other", "new.txt", "out.jsonl").code == 0
    golden({**found, "predicted": described(place / "out.jsonl")}, of(SAMPLING, seed=5))


def test_classify_evaluate(place, golden):
    ran, found = result(place, "classify", "evaluate", "classifier", "judged.csv")
    golden({**found, "numbers": numbers(ran.out)}, ONE_PASS)


def test_show(place, golden):
    assert run("encode", "in.csv", "out.parquet", "--id-column", "id", "--method", "one-pass").code == 0
    orders = {}
    for option in ("--rows=3", "--certain", "--uncertain", "--rows=1"):
        ran = run("show", "out.parquet", option)
        assert ran.code == 0
        orders[option] = re.findall(r"\br[0-2]\b", ran.out)
    golden(orders, ONE_PASS)


def test_distill(place, golden):
    """A head is named by the hash of all its bits, which a last digit changes."""
    options = f"corpus.txt head --model {ENCODER} --limit 250 --samples 6"
    _, found = result(place, "distill", *options.split(), opaque=["head"])
    again = run("distill", *options.split()).code  # the folder has a head
    use = f"encode tiny.txt out.parquet --model {ENCODER} --method one-pass --head head"
    _, encoded = result(place, *use.split())
    signature = encoded["files"]["out.parquet"]["signature"]
    signature["estimator"] = re.sub("head [0-9a-f]{8}", "head ...", signature["estimator"])
    golden({**found, "again": again, "encoded": encoded}, of(ONE_PASS, head="distilled", seed=0), tolerance=1e-4)


def test_demo_and_info(place, golden):
    _, found = result(place, "demo", "--samples", "2", "-o", "demo.png")
    about = run("info")
    assert "384" in about.out
    golden({**found, "info": about.code}, SAMPLING)


@pytest.mark.parametrize("name", REFUSED)
def test_exit_codes_of_what_is_refused(name, place, golden):
    """Nothing is written, and standard output stays empty but for help."""
    before = sorted(place.rglob("*"))
    ran = run(*shlex.split(REFUSED[name]))
    assert sorted(place.rglob("*")) == before
    assert "Traceback" not in ran.err
    golden({"code": ran.code}, NONE)


def test_version_and_help(golden):
    version, help = run("--version"), run("--help")
    assert re.fullmatch(r"sen2pro \d+\.\d+\.\d+\n", version.out)
    golden({"version": version.code, "help": help.code, "help of a command": run("encode", "--help").code}, NONE)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_exit_codes_of_signals(name, place, golden):
    """A pipe without a writer keeps the command waiting, so it is at work when the signal comes."""
    os.mkfifo(place / "pipe.txt")
    process = spawn(
        "specificity",
        "pipe.txt",
        "out.csv",
        cwd=place,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with (place / "pipe.txt").open("w"):
        process.send_signal(getattr(signal, name))
        process.communicate(timeout=60)
    assert not (place / "out.csv").exists()
    golden({"code": process.returncode}, NONE)
