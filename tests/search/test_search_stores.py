"""The contract of a store, which FAISS, PostgreSQL and Qdrant pass alike."""

import multiprocessing
import sys
import threading
import time
from itertools import count

import numpy as np
import psycopg
import pytest
from search_stores import STORES, fitted_confidence

from sen2pro import Sen2ProError, Sen2ProWarning, distance
from sen2pro.search import Document, DuplicateIds, Index, StoreUnavailable
from sen2pro.search.documents import unit
from sen2pro.search.stores.faiss import FaissStore
from sen2pro.search.stores.protocol import KEPT, Rows

in_each_store = pytest.mark.parametrize("place", STORES, indirect=True)


def brute(plain, texts, query, k):
    vectors = plain.encode_plain([query, *texts]).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = vectors[1:] @ vectors[0]
    order = np.argsort(-scores)[:k]
    return [str(row) for row in order], scores[order]


@in_each_store
def test_the_same_hits_in_the_same_order_as_by_brute_force(place, plain, texts):
    some = texts[:60]
    index = place.build(plain, some)
    assert len(index) == len(some)
    for query in [*some[:3], "the cat plays music"]:
        ids, scores = brute(plain, some, query, 10)
        found = index.search(query, k=10)
        assert [hit.id for hit in found] == ids
        np.testing.assert_allclose([hit.similarity for hit in found], scores, atol=2e-6)
        assert [hit.text for hit in found] == [some[int(id)] for id in ids]
    index.close()


RERANKED = [*((kind, "eq6") for kind in STORES), ("faiss", "wasserstein"), ("faiss", "symmetric-kl")]


@pytest.mark.parametrize(("place", "rerank"), RERANKED, indirect=["place"])
def test_the_nearest_are_ranked_again_by_the_distance_itself(place, tiny, texts, rerank):
    few, query = texts[:60], "the big dog eats"
    expected = -distance(tiny.encode([query]), tiny.encode(few), "sen2pro" if rerank == "eq6" else rerank)[0]
    index = place.reopen(place.build(tiny, few, rerank=rerank), tiny)
    found = index.search(query, k=5)
    assert (index.rerank, index.ranking, index.calibrated) == (rerank, "cosine", False)
    assert [int(hit.id) for hit in found] == np.argsort(-expected, kind="stable")[:5].tolist()
    np.testing.assert_allclose([hit.similarity for hit in found], np.sort(expected)[::-1][:5], rtol=1e-4)
    index.close()


@in_each_store
def test_rows_are_added_read_replaced_and_deleted(place, plain, texts):
    index = place.build(plain, texts[:20], ids=[f"t{i}" for i in range(20)], metadata=[{"n": i} for i in range(20)])
    assert index.add(texts[20:25], ids=[f"t{i}" for i in range(20, 25)]) == 5
    assert index.search(texts[22], k=1)[0].id == "t22"
    assert index.delete(["t22", "nobody"]) == 1
    assert "t22" not in [hit.id for hit in index.search(texts[22], k=24)]
    assert index.get(["t3", "t22", "t1", "t3"]) == [("t3", texts[3], {"n": 3}), ("t1", texts[1], {"n": 1})]
    index.get(["t3"])[0].metadata["n"] = 7  # a copy
    assert index.get("t3")[0].metadata == {"n": 3}
    assert index.add(["the red house"], ids=["t0"], duplicates="replace") == 1
    assert index.search("the red house", k=1)[0].id == "t0"
    assert index.get(["t0"]) == [("t0", "the red house", {})]
    assert texts[0] not in [hit.text for hit in index.search(texts[0], k=24)]
    assert len(index) == 24
    assert (index.delete([]), index.get([])) == (0, [])
    index.close()


@in_each_store
def test_duplicate_ids_are_refused_by_default_and_nothing_is_changed(place, plain, texts):
    index = place.build(plain, texts[:5], ids=list("abcde"))
    with pytest.raises(DuplicateIds, match="'c'.*duplicates='replace'"):
        index.add([texts[6], texts[7]], ids=["f", "c"])
    with pytest.raises(DuplicateIds, match="'g'"):
        index.add([texts[6], texts[7]], ids=["g", "g"])
    rows = Rows([Document(id, "the cat", {}) for id in "fc"], np.ones((2, 32)), np.zeros((2, KEPT)))
    with pytest.raises(DuplicateIds, match="1 id is in use already: 'c'"):  # another process added it meanwhile
        index.store.write(rows, replace=False)
    assert len(index) == 5
    assert index.search(texts[2], k=1)[0].id == "c"
    index.add([texts[6], texts[7]], ids=["g", "g"], duplicates="replace")  # the last one stays
    assert index.search(texts[7], k=1)[0].id == "g"
    assert len(index) == 6
    index.close()


@in_each_store
def test_a_filter_leaves_only_what_was_asked_for(place, plain, texts):
    some = texts[:40]
    metadata = [{"lang": "en" if i % 3 else "fr", "year": 1990 + i % 10, "new": i % 2 == 0} for i in range(len(some))]
    index = place.build(plain, some, metadata=metadata)
    for where in ({"lang": "fr"}, {"year": [1991, 1992]}, {"lang": "fr", "new": True}, {"year": 1993.0}):
        wanted = {
            str(i) for i, each in enumerate(metadata)
            if all(each[key] in (value if isinstance(value, list) else [value]) for key, value in where.items())
        }  # fmt: skip
        found = index.search(some[1], k=200, where=where)
        assert {hit.id for hit in found} == wanted
        assert all(hit.metadata == metadata[int(hit.id)] for hit in found)
    assert not index.search(some[1], where={"lang": "de"}).hits
    index.close()


VALUES = [1, 1.0, True, "1", "true", 0, 0.0, -0.0, False, "", 1 << 53, float(1 << 53), 0.1, "0.1", 1e22, -3, -3.5]


@in_each_store
def test_a_filter_knows_a_number_from_a_truth_value_and_from_a_text(place, plain, texts):
    """As in JSON: 1 is 1.0, but neither true nor "1"."""
    index = place.build(plain, texts[: len(VALUES)], metadata=[{"value": value} for value in VALUES])

    def same(one, other):
        return one == other and isinstance(one, bool) == isinstance(other, bool)

    for number, asked in enumerate(VALUES):
        for several in ([asked], [asked, VALUES[number - 5], "nothing", 7]):
            wanted = {str(row) for row, kept in enumerate(VALUES) if any(same(kept, each) for each in several)}
            assert {hit.id for hit in index.search("the cat", k=50, where={"value": several})} == wanted, several
    index.close()


@in_each_store
def test_a_filter_has_a_thousand_values_and_no_more(place, plain, texts):
    index = place.build(plain, texts[:10], metadata=[{"number": n, "name": f"name {n}"} for n in range(10)])
    for where in (
        {"number": [*range(-998, 0), 3, 4.0]},
        {"number": [*range(-498, 0), 3, 4], "name": ["name 2", "name 3", "name 4", *map(str, range(497))]},
    ):
        assert {hit.id for hit in index.search("the cat", k=50, where=where)} == {"3", "4"}
        with pytest.raises(Sen2ProError, match="where may have 1,000 values, all keys together, not 1,001"):
            index.search("the cat", where={**where, "more": "x"})
    with pytest.raises(Sen2ProError, match="where may have 1,000 values"):
        index.search("the cat", where={f"key_{n}": n for n in range(1001)})
    index.close()


@in_each_store
def test_a_filter_by_a_key_that_no_text_has_warns_and_names_the_keys(place, plain, texts, recwarn, monkeypatch):
    index = place.build(plain, texts[:20], metadata=[{"lang": "en", "year": 1990 + n} for n in range(20)])
    with pytest.warns(Sen2ProWarning, match="the key 'lnag', which no text of this index has.*keys are 'lang', 'year'"):
        assert not index.search(texts[1], where={"lang": "en", "lnag": "en"}).hits
    recwarn.clear()
    assert not index.search(texts[1], where={"lang": "de"}).hits  # a value that no text has may be meant
    assert len(index.search(texts[1], where={"lang": "en"}))
    index.delete(list(map(str, range(20))))
    assert not index.search(texts[1], where={"anything": 1}).hits  # an empty index has no keys yet
    assert not [each for each in recwarn if issubclass(each.category, Sen2ProWarning)]
    index.add(texts[:2], ids=["a", "b"])
    looked, has_key = [], index.store.has_key
    monkeypatch.setattr(index.store, "has_key", lambda key: looked.append(key) or has_key(key))
    with pytest.warns(Sen2ProWarning, match="no text has metadata"):
        assert not index.search(texts[1], where={f"key_{n}": n for n in range(1000)}).hits
    assert len(looked) == 10  # and no more
    index.close()


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_search_that_the_database_stops_is_not_tried_again(place, plain, texts):
    place.build(plain, texts[:3]).close()
    address = f"{place.options['store']}&options=-c%20statement_timeout%3D100"
    with Index.open(address, plain, name=place.name) as index, psycopg.connect(place.options["store"]) as holder:
        holder.execute(f"LOCK TABLE {place.name} IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Sen2ProError, match="PostgreSQL stopped this: canceling statement due to statement timeout"):
            index.search("the cat")
        holder.rollback()
        assert len(index.search("the cat")) == 3


@in_each_store
def test_an_index_that_is_opened_again_has_its_texts_and_its_confidence(place, plain, texts):
    some = texts[:40]
    index = place.build(plain, some, metadata=[{"number": i} for i in range(len(some))])
    index.delete(["3"])
    assert not index.calibrated
    index.confidence = fitted_confidence()
    before = index.search(some[:5], k=5)
    if not place.kind.startswith("faiss"):
        index.save()
    again = place.reopen(index, plain)
    assert len(again) == len(some) - 1
    assert again.confidence.to_json() == fitted_confidence().to_json()
    for old, new in zip(before, again.search(some[:5], k=5), strict=True):
        assert [(hit.id, hit.text, hit.metadata) for hit in new] == [(hit.id, hit.text, hit.metadata) for hit in old]
        np.testing.assert_allclose([hit.similarity for hit in new], [hit.similarity for hit in old], atol=1e-6)
        assert [hit.probability for hit in new] == pytest.approx([hit.probability for hit in old], abs=1e-5)
    again.add(["the sun and the rain"], ids=["new"])
    assert again.search("the sun and the rain", k=1)[0].id == "new"
    again.confidence = None
    if not place.kind.startswith("faiss"):
        again.save()
    last = place.reopen(again, plain)
    assert (last.calibrated, len(last)) == (False, len(some))
    last.close()


@in_each_store
def test_twenty_threads_add_search_and_delete_at_once(place, plain, texts):
    index = place.build(plain, texts[:20])
    errors = []

    def work(number):
        try:
            for turn in range(2):
                id, text = f"{number}-{turn}", texts[60 + 2 * number + turn]
                index.add([text], ids=[id])
                assert id in [hit.id for hit in index.search(text, k=3)]
                if turn:
                    assert index.delete([id]) == 1
        except BaseException as error:
            errors.append(error)

    threads = [started(lambda number=number: work(number)) for number in range(20)]
    for thread in threads:
        thread.join()
    assert not errors
    assert len(index) == 20 + 20
    ids = [hit.id for hit in index.search(texts[0], k=200)]
    assert sorted(ids) == sorted([*map(str, range(20)), *(f"{number}-0" for number in range(20))])
    index.close()


HOSTILE = [
    "'; DROP TABLE x; --", '"; DROP TABLE x; --', "%s %(a)s {table}", "a' OR '1'='1", "$1", "\\'; SELECT 1",
    "${jndi:x}",
    "a\nb\tc", "metadata.year", "[0]", "*", "日本語", "🙂", '{"$ne": null}', "a" * 512,
]  # fmt: skip


@in_each_store
def test_hostile_ids_texts_and_values_are_only_data(place, plain, texts):
    index = place.build(plain, texts[:10])
    metadata = [{"value": each, "number": i} for i, each in enumerate(HOSTILE)]
    index.add([f"the cat {each}" for each in HOSTILE], ids=HOSTILE, metadata=metadata)
    assert len(index) == 10 + len(HOSTILE)
    for number, each in enumerate(HOSTILE):
        found = index.search("the cat", k=100, where={"value": each})
        assert [(hit.id, hit.text, hit.metadata["number"]) for hit in found] == [(each, f"the cat {each}", number)]
    again = place.reopen(index, plain)
    assert again.delete(HOSTILE) == len(HOSTILE)
    assert len(again) == 10
    again.close()


# Interrupts and threads.


def replace_again_and_again(place, plain, texts, vectors, turns):
    store = place.open(plain).store
    for turn in count():
        documents = [Document(f"n{number}", text, {"turn": turn}) for number, text in enumerate(texts)]
        store.write(Rows(documents, vectors, np.zeros((len(texts), KEPT), np.float32)), replace=True)
        turns.value = turn


@pytest.mark.parametrize("place", ["postgres", "qdrant"], indirect=True)
def test_a_killed_write_leaves_the_old_or_the_new_state(place, plain, texts):
    """A process that replaces all rows is killed at some moment: they all are of one turn afterwards."""
    some, rng = texts[:50], np.random.default_rng(0)
    place.build(plain, ["the cat"], ids=["first"]).close()
    fork, vectors = multiprocessing.get_context("fork"), unit(plain.encode_plain(some))
    for _ in range(3):
        turns = fork.Value("i", 0)
        process = fork.Process(target=replace_again_and_again, args=(place, plain, some, vectors, turns))
        process.start()
        while not turns.value and process.is_alive():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.2))
        process.kill()
        process.join()
        index = place.open(plain)
        found = index.search("the cat", k=1000)
        assert len(found) == 1 + len(some)
        assert len({hit.metadata["turn"] for hit in found if hit.id != "first"}) == 1
        assert turns.value > 0
        index.close()


def test_a_write_whose_answer_was_lost_is_not_taken_for_duplicates(plain, texts, monkeypatch):
    index = Index.build(plain, texts[:5], store="qdrant://:memory:")
    write, lost = index.store.write, [True]
    monkeypatch.setattr("sen2pro.search.stores.protocol.time.sleep", lambda _: None)

    def answered(rows, *, replace):
        write(rows, replace=replace)
        if lost:
            lost.pop()
            raise StoreUnavailable("the connection is gone")

    monkeypatch.setattr(index.store, "write", answered)
    assert index.add(texts[5:8], ids=["a", "b", "c"]) == 3
    assert len(index) == 8


@pytest.mark.parametrize("step", range(1, 10))
def test_an_interrupted_add_in_memory_leaves_the_old_or_the_new_state(plain, texts, step):
    """Ctrl-C at each line of the store's write: the rows before are there, and the new ones all or none."""
    index = Index.build(plain, texts[:20])
    lines = 0

    def interrupt(frame, event, argument):
        nonlocal lines
        if frame.f_code is not FaissStore.write.__code__:
            return None
        lines += event == "line"
        if event == "line" and lines == step + 4:
            raise KeyboardInterrupt
        return interrupt

    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            index.add(texts[20:30], ids=[f"n{i}" for i in range(10)])
    finally:
        sys.settrace(None)
    assert len(index) in (20, 30)
    assert [hit.id for hit in index.search(texts[4], k=1)] == ["4"]
    assert len(index.search(texts[4], k=100)) == len(index)
    index.add(texts[20:30], ids=[f"n{i}" for i in range(10)], duplicates="replace")
    assert len(index) == 30
    assert [index.search(texts[20 + i], k=1)[0].id for i in range(10)] == [f"n{i}" for i in range(10)]


def started(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_rows_may_be_added_and_saved_while_others_search(plain, kind, tmp_path):
    """Searches never see a half-written batch, and a folder that was written meanwhile can be opened."""
    index = Index.build(plain, [f"the dog runs {n}" for n in range(50)], kind=kind)
    queries, wrong, done = unit(plain.encode_plain(["the cat eats"])), [], threading.Event()

    def search():
        while not done.is_set():
            (found,) = index.store.nearest(queries, 10_000, {})
            whole = kind == "hnsw" or len(found.documents) % 50 == 0  # a graph may find fewer
            if not whole or len({len(column) for column in vars(found).values()}) > 1:
                wrong.append(len(found.documents))

    threads = [started(search) for _ in range(3)]
    for batch in range(1, 10):
        index.add([f"the cat eats {batch} {n}" for n in range(50)], ids=[f"{batch}-{n}" for n in range(50)])
        index.save(tmp_path / "index", overwrite=True)
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(Index.open(tmp_path / "index", plain)) == 500
