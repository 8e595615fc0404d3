"""An index that is searched, and near duplicates: ids, similarities, each hit's own probability, verdicts."""

import pytest

from contract import api
from contract.about import NONE, ONE_PASS, PLAIN
from contract.golden import all_refused, noted, refused
from contract.texts import DOCUMENTS, FIRST, MAN, MATCHES, METADATA, QUERIES, SECOND, TEXTS


@pytest.fixture(scope="module")
def index(one_pass):
    return build(one_pass)


def build(model, **options):
    return api.Index.build(model, list(DOCUMENTS.values()), ids=list(DOCUMENTS), metadata=METADATA, **options)


def found(results):
    """Return what a search found; probabilities are those of each hit alone."""
    return [
        {
            "query": result.query, "answer": result.answer and result.answer.id, "probability": result.probability,
            "threshold": result.threshold, "ids": [hit.id for hit in result],
            "similarities": [hit.similarity for hit in result], "probabilities": [hit.probability for hit in result],
        }
        for result in results
    ]  # fmt: skip


def test_search(index, golden):
    golden(found(index.search(QUERIES, k=5)), ONE_PASS)


def test_search_with_a_model_that_samples(model, index, golden):
    """One pass answers, whatever the method is."""
    golden(found(build(model).search(QUERIES[:2], k=2)), ONE_PASS)
    assert found(index.search(QUERIES[:2], k=2))[0]["ids"] == found(build(model).search(QUERIES[:2], k=2))[0]["ids"]


def test_one_query(index, golden):
    result = index.search(QUERIES[0], k=2)
    first = result[0]
    golden(
        {"json": result.to_json(), "length": len(result), "first": [first.id, first.text, dict(first.metadata)]},
        ONE_PASS,
    )


@pytest.mark.parametrize("where", [{"lang": "en"}, {"lang": ["fr", "de"], "year": 2021}, {"short": True}], ids=str)
def test_where(where, index, golden):
    golden(found(index.search(QUERIES[:2], k=3, where=where)), ONE_PASS)


def test_where_nothing_fits(index, golden):
    with noted() as notes:
        results = index.search(QUERIES[:1], where={"lang": "xx"}) + index.search(QUERIES[:1], where={"colour": "red"})
    golden({"found": found(results), "warned": bool(notes)}, ONE_PASS)


@pytest.mark.parametrize("precision", [0.3, 0.9])
def test_a_precision_that_is_asked_for(precision, index, golden):
    with noted() as notes:
        results = index.search(QUERIES, k=1, precision=precision)
    golden({"found": found(results), "warned": bool(notes)}, ONE_PASS)


def test_texts_come_and_go(one_pass, golden):
    index = api.Index.build(one_pass, list(DOCUMENTS.values())[:4])
    counts = [len(index), index.add("Our shop in Madrid is open on Sundays.", ids=["madrid"]), len(index)]
    after = found(index.search(QUERIES[2:], k=2))
    counts += [index.delete(["1", "nothing"]), len(index)]
    assert refused(lambda: index.add("another", ids=["madrid"])) == "Sen2ProError"
    counts += [index.add("The shop in Madrid is closed.", ids=["madrid"], duplicates="replace"), len(index)]
    kept = [[each.id, each.text, dict(each.metadata)] for each in index.get(["madrid", "0", "1"])]
    golden({"counts": counts, "found": after, "later": found(index.search(QUERIES[2:], k=2)), "kept": kept}, ONE_PASS)


def test_a_graph_finds_the_same(index, one_pass):
    graph = build(one_pass, kind="hnsw")
    assert [hit["ids"] for hit in found(graph.search(QUERIES, k=2))] == [
        hit["ids"] for hit in found(index.search(QUERIES, k=2))
    ]


def test_a_saved_index_finds_the_same(index, one_pass, tmp_path):
    index.save(tmp_path / "index")
    assert found(api.Index.open(tmp_path / "index", one_pass).search(QUERIES)) == found(index.search(QUERIES))
    assert refused(lambda: index.save(tmp_path / "index")) is None  # its own folder is replaced
    assert refused(lambda: build(one_pass).save(tmp_path / "index")) == "Sen2ProError"  # not another's
    with noted():
        other = api.Sen2Pro(pooling="cls", samples=2)
    assert refused(lambda: api.Index.open(tmp_path / "index", other)) == "Sen2ProError"


def test_an_index_of_a_file_of_gaussians(one_pass, tmp_path, golden):
    """It has no plain vectors, so documents are ranked by their means."""
    path = tmp_path / "g.parquet"
    one_pass.encode(list(DOCUMENTS.values())).save(path, ids=list(DOCUMENTS), texts=list(DOCUMENTS.values()))
    results = api.Index.from_file(one_pass, path).search(QUERIES, k=3)
    golden(
        [{name: each[name] for name in ("query", "answer", "ids", "similarities")} for each in found(results)], ONE_PASS
    )


@pytest.fixture(scope="module")
def labelled(one_pass):
    """An index of forty texts, and the scores of queries for them, some of which have no answer."""
    number = sum(MATCHES)
    index = api.Index.build(one_pass, SECOND[:number])
    queries = [*FIRST[:number], *QUERIES, "Is there life on Mars?", "Who wrote Hamlet?", "Turn left.", "Thanks!"] * 3
    results = index.search(queries, k=10)
    right = [[hit.id == str(place % (number + 8)) for hit in result] for place, result in enumerate(results)]
    scores = [[hit.similarity for hit in result] for result in results]
    return index, api.SearchConfidence().fit(scores, right)


def test_an_index_with_labelled_queries(labelled, golden):
    """Of the probabilities of labelled queries only that of the first hit is kept: later ones were conditional."""
    index, confidence = labelled
    before, index.confidence = index.confidence, confidence
    try:
        with noted() as notes:
            results = [
                index.search(["Somebody plays the guitar.", "Who was it?"], k=2, precision=p)
                for p in (None, 0.8, 0.999)
            ]
    finally:
        index.confidence = before
    rows = [[(row | {"probabilities": row["probabilities"][:1]}) for row in found(each)] for each in results]
    golden({"found": rows, "warned": bool(notes)}, ONE_PASS)


def duplicates(found):
    return {
        "kept": found.kept, "dropped": [[each.row, each.like, each.probability] for each in found.dropped],
        "threshold": found.threshold, "promised": found.rule is not None,
        "groups": {row: [each.row for each in group] for row, group in found.groups.items()},
    }  # fmt: skip


@pytest.mark.parametrize("precision", [None, 0.5, 0.99])
def test_duplicates(precision, model, golden):
    with noted() as notes:
        found = api.find_duplicates(model, TEXTS, precision=precision)
    golden({**duplicates(found), "warned": bool(notes)}, PLAIN)


def test_what_is_refused(index, one_pass, model, golden):
    with noted():
        other = api.Sen2Pro(pooling="cls", samples=2)
    found = all_refused(
        a_blank_query=lambda: index.search([" "]),
        no_hits=lambda: index.search(QUERIES, k=0),
        a_wrong_key=lambda: index.search(QUERIES, where={"a.b": 1}),
        an_id_twice=lambda: api.Index.build(one_pass, [MAN, MAN], ids=["a", "a"]),
        too_few_ids=lambda: api.Index.build(one_pass, [MAN, MAN], ids=["a"]),
        a_blank_text=lambda: api.Index.build(one_pass, [MAN, ""]),
        no_folder=lambda: api.Index.open("nowhere", one_pass),
        an_unknown_kind=lambda: build(one_pass, kind="tree"),
        a_precision_above_1=lambda: index.search(QUERIES, precision=2),
        one_text=lambda: api.find_duplicates(model, MAN),
        duplicates_by_another_model=lambda: api.find_duplicates(other, TEXTS),
        duplicates_for_sure=lambda: api.find_duplicates(model, TEXTS, precision=1),
    )
    golden(found, NONE)
