"""`sen2pro index`, `search` and `dedup`."""

import json

import pytest
from test_confidence_cli import LABELLED, rows_of, run, table
from typer.testing import CliRunner

from sen2pro.cli.app import app

TEXTS = [
    "To reset your password, open Settings and choose Security.", "We ship to all countries of the European Union.",
    "Our office is in Lyon, near the station.", "You can pay by card, by invoice or by bank transfer.",
    "Returns are free within thirty days.", "The battery lasts about ten hours.",
    "To delete your account, write to support.", "The warranty covers two years.",
    "The headphones connect by Bluetooth.", "Gift cards never expire.", "Our shop is closed on Sundays.",
    "The manual is available in twelve languages.",
]  # fmt: skip
FAQ = [(f"faq-{i}", text, "en" if i % 2 else "fr", 2000 + i) for i, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("index")
    docs = table(place / "docs.csv", FAQ, ("key", "body", "lang", "year"))
    columns = "--column body --id-column key --metadata lang --metadata year"
    code, said = run("index", docs, place / "faq", *columns.split())
    assert code == 0, said
    assert f"{len(FAQ)} texts -> " in said
    return place / "faq"


def test_a_search_prints_hits_with_probabilities_or_that_there_is_no_good_match(folder):
    code, said = run("search", folder, "how can I reset my password?", "who won the world cup in 1998?", "-k", "3")
    assert code == 0
    assert f"how can I reset my password?: best match: {TEXTS[0]}"[:60] in said
    assert "who won the world cup in 1998?: no good match" in said
    assert "no good match (best 0." in said
    assert "%" in said
    assert "signature:" in said


def test_a_filter_takes_texts_and_numbers(folder):
    where = "--json --where lang=fr --where year=2000".split()
    found = json.loads(CliRunner().invoke(app, ["search", str(folder), "how can I reset my password?", *where]).output)
    assert [(hit["id"], hit["metadata"]) for hit in found["hits"]] == [("faq-0", {"lang": "fr", "year": "2000"})]


def test_a_batch_of_queries_becomes_a_table(folder, tmp_path):
    """The contract has the other formats."""
    queries = tmp_path / "queries.txt"
    queries.write_text("how can I reset my password?\nwho won the world cup in 1998?\n")
    code, said = run("search", folder, "--batch", queries, tmp_path / "out.tsv")
    assert (code, "2 queries" in said, "1 with an answer" in said) == (0, True, True)
    first, second = rows_of(tmp_path / "out.tsv")
    assert (first["answer_id"], second["answer_id"], second["answer"]) == ("faq-0", "", "")
    assert float(first["probability"]) > 0.5 > float(second["probability"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a query, or --batch"),
        (("q", "--where", "lang"), "--where takes KEY=VALUE"),
        (("q", "--where", "a.b=c"), "metadata key"),
        (("q", *(f"--where=lang=x{n}" for n in range(1001))), "where may have 1,000 values"),
        (("q", "--confidence", "x"), "x does not contain a SearchConfidence"),
        (("q", "--batch", "a.csv", "b.csv"), "give a query, or --batch"),
    ],
)
def test_what_cannot_be_searched_is_said_in_one_line(folder, arguments, message):
    code, said = run("search", folder, *arguments)
    assert (code, message in said) == (2, True)


def test_a_precision_that_is_not_promised_is_said_so(folder):
    code, said = run("search", folder, "how can I reset my password?", "--precision", "0.99")
    assert code == 0
    assert "a precision of 0.99 is not promised" in said


def test_an_index_is_not_replaced_without_being_told(folder, tmp_path):
    docs = table(tmp_path / "docs.csv", FAQ[:2], ("key", "body", "lang", "year"))
    for output, more, message in (
        (folder, (), "pass --overwrite"), (tmp_path, (), "not an empty folder"),
        (tmp_path / "newer", ("--metadata", "colour"), "unknown metadata column"),
    ):  # fmt: skip
        code, said = run("index", docs, output, "--column", "body", *more)
        assert (code, message in said) == (2, True)


def test_duplicate_ids_are_refused_or_replaced(tmp_path):
    docs = table(tmp_path / "docs.csv", [("a", "One text."), ("a", "Another text.")], ("id", "text"))
    code, said = run("index", docs, tmp_path / "new", "--id-column", "id")
    assert (code, "--duplicates replace" in said) == (2, True)
    code, said = run("index", docs, tmp_path / "new", "--id-column", "id", "--duplicates", "replace")
    assert (code, "1 text ->" in said) == (0, True)


def test_what_sen2pro_encode_wrote_is_indexed_without_encoding(tmp_path):
    source = tmp_path / "docs.txt"
    source.write_text("\n".join(TEXTS))
    assert run("encode", source, tmp_path / "g.parquet", "--method", "one-pass")[0] == 0
    code, said = run("index", tmp_path / "g.parquet", tmp_path / "index", "--encoded")
    assert (code, f"{len(TEXTS)} texts" in said) == (0, True), said
    code, said = run("search", tmp_path / "index", "how can I reset my password?")
    assert "best match: " in said
    assert run("encode", source, tmp_path / "s.parquet", "--samples", "2")[0] == 0
    code, said = run("index", tmp_path / "s.parquet", tmp_path / "other", "--encoded")
    assert (code, "was made with another model or other settings" in said) == (2, True)


REPEATED = [
    "How do I reset my password?", "Where is the office?", "How do I reset my password?",
    "how do i reset my password ?", "Where is your office?", "The cat sleeps.",
]  # fmt: skip


def test_dedup_keeps_the_first_and_says_what_it_dropped(tmp_path):
    source = tmp_path / "texts.txt"
    source.write_text("\n".join(REPEATED))
    code, said = run("dedup", source, tmp_path / "out.csv", "--precision", "0.99")
    assert code == 0
    assert "6 texts" in said
    assert "4 kept, 2 dropped" in said
    assert "no precision is promised" in said
    found = rows_of(tmp_path / "out.csv")
    assert [(row["id"], row["keep"], row["group"]) for row in found] == [
        ("1", "yes", "1"), ("2", "yes", "2"), ("3", "no", "1"), ("4", "no", "1"), ("5", "yes", "5"), ("6", "yes", "6"),
    ]  # fmt: skip
    code, said = run("dedup", source, tmp_path / "kept.csv", "--precision", "0.5", "--kept-only")
    assert [row["text"] for row in rows_of(tmp_path / "kept.csv")] == [REPEATED[0], REPEATED[1], REPEATED[5]]


@pytest.mark.slow
def test_dedup_keeps_a_promise_with_labelled_pairs(tmp_path):
    labelled = table(tmp_path / "pairs.csv", LABELLED * 3)
    assert run("calibrate", labelled, tmp_path / "confidence")[0] == 0
    source = tmp_path / "texts.csv"
    source.write_text("text\nA man plays banjo.\nA man is playing banjo.\nShares rose.\n")
    code, said = run(
        "dedup", source, tmp_path / "out.jsonl", "--confidence", tmp_path / "confidence", "--precision", "0.8"
    )
    assert (code, "At least 80 % of the dropped texts are duplicates" in said) == (0, True), said
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["keep"] for row in rows] == [True, False, True]
    assert rows[1]["group"] == "1"


def test_dedup_refuses_what_it_cannot_do(tmp_path):
    source = tmp_path / "texts.txt"
    source.write_text("one\n\n")
    assert "blank" in run("dedup", source, tmp_path / "out.csv")[1]
    source.write_text("")
    assert "no sentences" in run("dedup", source, tmp_path / "out.csv")[1]
    source.write_text("one\ntwo\n")
    code, said = run("dedup", source, tmp_path / "out.csv", "--precision", "1.5")
    assert (code, "precision must be between 0 and 1" in said) == (2, True)
    assert not (tmp_path / "out.csv").exists()


def test_a_filter_that_finds_nothing_is_one_line_and_a_wrong_key_is_named(folder):
    for more in ([], ["--json"]):
        code, said = run("search", folder, "how can I reset my password?", "--where", "lnag=en", *more)
        assert code == 0
        assert "the key 'lnag', which no text of this index has" in " ".join(said.split())
        assert "the keys are 'lang', 'year'" in " ".join(said.split())
    code, said = run("search", folder, "how can I reset my password?", "--where", "lang=de")
    assert "how can I reset my password?: no good match (nothing was found)" in said
    assert "similarity" not in said
    assert "the key" not in said
