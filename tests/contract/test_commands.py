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

from contract import about, texts
from contract.about import NONE, ONE_PASS, SAMPLING
from contract.command import described, files, json_lines, run, spawn
from contract.files.make import ENCODER, corpus
from contract.golden import cases
from contract.texts import DOCUMENTS, MAN, MARKET, PLAYS, QUERIES, UNLABELLED

SENTENCES = [MAN, "They did it again.", MARKET]
CASES = cases("commands")
REFUSED = CASES.pop("exit_codes_of_what_is_refused")
WRITTEN = {f"{group}[{name}]": case for group, found in CASES.items() for name, case in found.items()}


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
    (folder / "texts.txt").write_text("\n".join(texts.TEXTS) + "\n", encoding="utf-8")
    write(folder / "texts.csv", ["id", "text"], [[f"t{place}", text] for place, text in enumerate(texts.TEXTS)])
    languages = [more.get("lang", "") for more in texts.METADATA]
    rows = [[id, text, language] for (id, text), language in zip(DOCUMENTS.items(), languages, strict=True)]
    write(folder / "docs.csv", ["id", "text", "lang"], rows)
    write(folder / "twice.csv", ["id", "text"], [["a", MAN], ["a", PLAYS]])
    (folder / "queries.txt").write_text("\n".join(QUERIES) + "\n", encoding="utf-8")
    pairs = list(zip(texts.FIRST, texts.SECOND, texts.MATCHES, strict=True))
    write(folder / "pairs.csv", ["first", "second", "label"], pairs)
    write(folder / "few.csv", ["first", "second", "label"], pairs[:3])
    write(folder / "new.csv", ["first", "second"], [*texts.NEW_PAIRS, pairs[0][:2]])
    write(folder / "labelled.csv", ["text", "label"], list(zip(texts.LABELLED, texts.LABELS, strict=True)))
    write(folder / "one.csv", ["text", "label"], [[text, "art"] for text in texts.LABELLED[:4]])
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


@pytest.mark.parametrize("name", WRITTEN)
def test_what_commands_write(name, place, golden):
    how, command, *seed = WRITTEN[name]
    ran, found = result(place, *shlex.split(command.replace("ENCODER", str(ENCODER))))
    if "--json" in command:
        found["printed"] = json_lines(ran.out)
    golden(found, getattr(about, how) | ({"seed": seed[0]} if seed else {}), name=f"test_{name}")


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


def numbers(text):
    """Return all numbers with at least three decimals, in ascending order; where they stand is prose."""
    return sorted(re.findall(r"\d+\.\d{3,}", text.partition("signature")[0]), key=float)


def test_compare(place, golden):
    ran, found = result(place, "compare", MAN, "A man plays the guitar.")
    assert "96 %" in ran.out
    everything = run("compare", MAN, PLAYS, "--all", "--samples", "3")
    golden(
        {**found, "all": {"code": everything.code, "numbers": numbers(everything.out)}}, SAMPLING | {"head": "shipped"}
    )


def test_search_for_people(place):
    ran = run("search", "index", *QUERIES[:2])
    assert ran.code == 0
    assert DOCUMENTS["password"] in ran.out
    assert "97 %" in ran.out


def test_index_of_what_encode_wrote(place, golden):
    columns = ("--id-column", "id", "--keep-column", "lang", "--method", "one-pass")
    assert run("encode", "docs.csv", "docs.parquet", *columns).code == 0
    _, found = result(place, "index", "docs.parquet", "new-index", "--encoded", opaque=["new-index"])
    printed = json_lines(run("search", "new-index", *QUERIES[:2], "-k", "2", "--where", "lang=en", "--json").out)
    hits = [[[hit["id"], hit["similarity"]] for hit in each["hits"]] for each in printed]
    kept = [{"answer": each["answer"], "hits": found} for each, found in zip(printed, hits, strict=True)]
    golden({**found, "search": kept}, ONE_PASS)


def test_classify_train_with_settings(place, golden):
    options = "--features mean+variance --loss expected --C 1 --method sampling --samples 3 --seed 5"
    _, found = result(place, "classify", "train", "labelled.csv", "other", *options.split(), opaque=["other"])
    assert run("classify", "predict", "other", "new.txt", "out.jsonl").code == 0
    golden({**found, "predicted": described(place / "out.jsonl")}, SAMPLING | {"seed": 5})


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
    golden({**found, "again": again, "encoded": encoded}, ONE_PASS | {"head": "distilled", "seed": 0}, tolerance=1e-4)


def test_demo_and_info(place, golden):
    _, found = result(place, "demo", "--samples", "2", "-o", "demo.png")
    about = run("info")
    assert "384" in about.out
    golden({**found, "info": about.code}, SAMPLING)


@pytest.mark.parametrize("name", REFUSED)
def test_exit_codes_of_what_is_refused(name, place, golden):
    """Nothing is written, and standard output stays empty but for help."""
    before = sorted(place.rglob("*"))
    ran = run(*shlex.split(REFUSED[name][1]))
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
    heeds = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    process = spawn("specificity", "pipe.txt", "out.csv", cwd=place, **heeds)
    with (place / "pipe.txt").open("w"):
        process.send_signal(getattr(signal, name))
        process.communicate(timeout=60)
    assert not (place / "out.csv").exists()
    golden({"code": process.returncode}, NONE)
