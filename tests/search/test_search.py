"""The index: what it finds and says, what it refuses, and how it survives faults."""

import json
import subprocess
import sys

import msgspec
import numpy as np
import psycopg
import pyarrow as pa
import pytest
from safetensors.numpy import load_file
from search_stores import Server, fitted_confidence

from sen2pro import Gaussian, Sen2Pro, Sen2ProError, Sen2ProWarning
from sen2pro.calibration import SearchConfidence
from sen2pro.io import bundle
from sen2pro.io.gaussians import GaussianWriter, stream
from sen2pro.io.rows import file_digest
from sen2pro.search import Hit, Index, Result, StoreUnavailable, find_duplicates
from sen2pro.search.stores.faiss import FILE, FaissStore

# Hits, answers and probabilities.


def test_a_model_without_a_head_and_without_labels_has_no_probabilities(index, texts):
    found = index.search(texts[0], k=3)
    assert not index.calibrated
    assert [hit.probability for hit in found] == [None, None, None]
    assert found.answer == found[0]
    assert "not calibrated" in str(found)
    with pytest.raises(Sen2ProError, match="needs calibrated probabilities"):
        index.search(texts[0], precision=0.9)


def test_a_model_that_was_asked_to_sample_does_so(minilm):
    index = Index.build(minilm, ["To reset your password, open Settings."])
    assert index.signature.samples == "5+5"
    assert index.search("how do I reset my password?")[0].probability > 0.3  # one text has a probability too


def test_queries_and_documents_get_the_prompts_of_the_model(bert, tokenizer):
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=2)
    model.encoder.backend.prompts = {"query": "one ", "passage": "two "}
    query, document = (model.encode_plain("the dog runs", prompt=prompt) for prompt in ("one ", "two "))
    expected = query @ document / (np.linalg.norm(query) * np.linalg.norm(document))
    found = Index.build(model, ["the dog runs"]).search("the dog runs")[0].similarity
    assert found == pytest.approx(float(expected), abs=1e-5)
    assert found < 0.999


def test_labelled_queries_give_each_hit_a_probability(plain, texts, tmp_path):
    confidence = fitted_confidence(0.3)
    confidence.save(tmp_path / "confidence")
    for given in (confidence, tmp_path / "confidence", str(tmp_path / "confidence")):
        index = Index.build(plain, texts, confidence=given)
        for result in index.search(texts[:4], k=3):
            more = index.search(result.query, k=5)
            scores = [hit.similarity for hit in more]
            np.testing.assert_allclose([hit.probability for hit in more], confidence.probability_each([scores])[0])
            assert [hit.probability for hit in result] == [hit.probability for hit in more[:3]]
    assert {result.threshold for result in index.search(texts[:10], precision=0.8)} == {
        confidence.abstain(0.8).threshold
    }
    with pytest.warns(Sen2ProWarning, match="no precision of 0.9999 can be promised"):
        assert index.search(texts[0], precision=0.9999).answer is None


def test_labels_of_the_first_hit_alone_say_nothing_of_the_others(plain, texts):
    index = Index.build(plain, texts, confidence=fitted_confidence(later=False))
    first, *others = index.search(texts[0], k=3)
    assert first.probability is not None
    assert [hit.probability for hit in others] == [None, None]


def test_what_an_index_does_not_know_is_refused_as_confidence(plain, texts):
    rng = np.random.default_rng(0)
    scores, votes = -np.sort(-rng.uniform(-1, 1, (200, 5)), axis=1), rng.uniform(size=200)
    voted = SearchConfidence().fit(scores, rng.uniform(size=200) < votes, votes=votes)
    with pytest.raises(Sen2ProError, match="fitted with votes, which an index does not know"):
        Index.build(plain, texts, confidence=voted)
    with pytest.raises(Sen2ProError, match="confidence is a fitted SearchConfidence"):
        Index.build(plain, texts, confidence=7)


def test_a_result_is_a_sequence_that_prints():
    hit = Hit("a", "x" * 200, 0.5, 0.8)
    result = Result("q", (hit,), 0.5)
    assert (len(result), result[0], list(result), result[:1], hit in result) == (1, hit, [hit], (hit,), True)
    assert str(result).endswith("... (id a; 80 % likely right)")
    assert str(Result("q", (), 0.5)) == "no good match (nothing was found)"
    assert Result("q", (), 0.5).probability == 0


def test_an_index_may_have_fewer_texts_than_are_asked_for(plain, texts, index):
    for confidence in (None, fitted_confidence(0.9)):
        empty = Index.build(plain, confidence=confidence)
        found = empty.search("the cat", k=3)
        assert (len(empty), len(found), found.answer) == (0, 0, None)
    found = Index.build(plain, texts[:3], confidence=fitted_confidence(0.9)).search("the cat", k=100)
    assert len(found) == 3
    assert all(hit.probability is not None for hit in found)
    assert index.search([]) == []


# Bad input.


@pytest.mark.parametrize("k", [0, -1, 1.5, "5", True, None, 1 << 40])
def test_a_k_that_is_none_is_refused(index, k):
    with pytest.raises(Sen2ProError, match="k must be a whole number"):
        index.search("the cat", k=k)


@pytest.mark.parametrize("query", ["", "  ", "\u200b", ["the cat", " "]])
def test_a_blank_query_is_refused(index, query):
    with pytest.raises(Sen2ProError, match="empty or blank"):
        index.search(query)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ids": ["a"]}, "fewer ids than texts"), ({"ids": ["a", "b", "c"]}, "more ids or metadata"),
        ({"metadata": [{}]}, "fewer metadata"), ({"metadata": [1, 2]}, "metadata is a dictionary"),
        ({"duplicates": "keep"}, "unknown duplicates 'keep'"), ({"kind": "HNSW,SQ8"}, "unknown kind"),
        ({"store": "folder"}, "store must be None"), ({"store": "mysql://x"}, "unknown store 'mysql'"),
        ({"store": "qdrant://:memory:", "name": "a; DROP TABLE x"}, "name of an index"),
        ({"rerank": "wasserstein"}, "has no head"), ({"texts": "the cat"}, "list of texts"),
    ],
)  # fmt: skip
def test_what_an_index_cannot_be_made_of_is_refused(plain, given, message):
    with pytest.raises(Sen2ProError, match=message):
        Index.build(plain, **{"texts": ["the cat", "the dog"], **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *(({"metadata": [{key: "x"}]}, "metadata key") for key in ("a.b", "a b", "", "a'", "$gt", "a" * 64, 1, None)),
        *(({"metadata": [{"key": value}]}, "metadata") for value in (["x"], {"$ne": 1}, float("nan"), float("inf"))),
        *(({"metadata": [{"key": value}]}, "metadata") for value in ("a\0b", b"x", 1 << 60)),
        *(({"ids": [id]}, "id 0") for id in ("", "a" * 513, "a\0b", "\ud800", 1.5, None, b"x")),
    ],
)  # fmt: skip
def test_ids_keys_and_values_that_no_store_can_keep_are_refused(index, given, message):
    with pytest.raises(Sen2ProError, match=message):
        index.add(["the cat"], **given)
    where = given.get("metadata", [{"key": None}])[0]
    if not isinstance(where.get("key"), list):  # a list of values is a filter
        with pytest.raises(Sen2ProError, match="metadata"):
            index.search("the cat", where=where)


def test_an_unknown_distance_is_refused(tiny):
    with pytest.raises(Sen2ProError, match="did you mean 'wasserstein'"):
        Index.build(tiny, ["the cat"], rerank="wasserstien")


def test_an_error_in_the_middle_says_how_many_rows_are_in(plain, texts, monkeypatch):
    monkeypatch.setattr("sen2pro.search.documents.CHUNK", 10)
    index = Index.build(plain, (text for text in texts), ids=(f"n{i}" for i in range(len(texts))))
    assert len(index) == len(texts)
    with pytest.raises(Sen2ProError, match="blank.* 20 texts of this call were added before"):
        index.add([*texts[:25], " ", *texts[25:30]])
    assert len(index) == len(texts) + 20


def test_another_model_is_told_what_differs(index, tmp_path, shared_folder, minilm):
    index.save(tmp_path / "index")
    with pytest.raises(Sen2ProError, match=r"another model.*hash '\w+' in the index, but '\w+' now"):
        Index.open(tmp_path / "index", minilm)
    with pytest.raises(Sen2ProError, match="pooling 'mean' in the index, but 'cls' now"):
        Index.open(tmp_path / "index", Sen2Pro(str(shared_folder), pooling="cls"))


# Folders. Anybody who can write to one can write a digest too.


def change(folder, edit):
    """Edit the list of an index."""
    path = folder / FILE
    content = json.loads(path.read_text())
    del content["digest"]
    edit(content)
    path.write_text(json.dumps(content))


def test_an_index_of_version_0_11_asks_to_be_built_again(index, plain, tmp_path):
    index.save(tmp_path / "index")
    change(tmp_path / "index", lambda content: content["about"].update(format=1, version="0.11.1", metric="dot"))
    with pytest.raises(Sen2ProError, match=r"was made with sen2pro '0.11.1', in a format .* build the index again"):
        Index.open(tmp_path / "index", plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hits": 1}, "hits"), ({"hits": "5"}, "hits"), ({"format": 7}, "saved by another version"),
        ({"trust_remote_code": True}, "may not set"),
    ],
)  # fmt: skip
def test_a_kept_confidence_is_looked_at_before_it_is_used(plain, texts, change, message):
    """Numbers that do not belong together never reach a search."""
    index = Index.build(plain, texts[:3])
    changed = fitted_confidence(0.9).to_json() | change
    index.store.describe(msgspec.structs.replace(index.store.info, confidence=changed))
    with pytest.raises(Sen2ProError, match=f"the confidence of this index.*{message}"):
        Index(plain, index.store)


def test_a_confidence_passed_at_opening_goes_before_the_one_that_was_saved(plain, texts, tmp_path):
    saved, passed = fitted_confidence(0.9), fitted_confidence(0.1)
    Index.build(plain, texts, confidence=saved).save(tmp_path / "index")
    assert Index.open(tmp_path / "index", plain).confidence.to_json() == saved.to_json()
    index = Index.open(tmp_path / "index", plain, confidence=passed)
    assert index.confidence is passed
    index.save()
    assert Index.open(tmp_path / "index", plain).confidence.to_json() == passed.to_json()


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_a_folder_holds_the_index_and_is_replaced_in_one_step(plain, texts, tmp_path, kind, monkeypatch):
    index = Index.build(plain, texts, kind=kind, metadata=[{"n": i} for i in range(len(texts))])
    index.save(tmp_path / "index")
    with pytest.raises(Sen2ProError, match="overwrite=True"):
        Index.build(plain, texts).save(tmp_path / "index")
    with monkeypatch.context() as patched:
        if kind == "hnsw":  # a graph is kept and not built again
            patched.setattr(FaissStore, "write", None)
        again = Index.open(tmp_path / "index", plain)
    assert again.search(texts[:9], k=5) == index.search(texts[:9], k=5)
    again.add(["the cat runs"], ids=["new"])
    again.save()
    files = {path.name.split("-")[0].split(".")[0] for path in (tmp_path / "index").iterdir()}
    assert files == {"sen2pro_index", "texts", "numbers"}
    assert len(Index.open(tmp_path / "index", plain)) == len(texts) + 1


def test_a_save_that_fails_leaves_the_old_index(index, plain, texts, tmp_path, monkeypatch):
    index.save(tmp_path / "index")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("sen2pro.search.stores.faiss.bundle.save", full)
        with pytest.raises(OSError, match="No space"):
            Index.build(plain, ["the cat"]).save(tmp_path / "index", overwrite=True)
    assert len(Index.open(tmp_path / "index", plain)) == len(texts)


def test_a_folder_of_something_else_is_not_touched(index, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Sen2ProError, match="not an empty folder"):
        index.save(tmp_path, overwrite=True)
    with pytest.raises(Sen2ProError, match="there is no index in"):
        Index.open(tmp_path)


@pytest.mark.parametrize("part", ["texts", "numbers"])
def test_a_changed_file_is_refused(index, plain, tmp_path, part):
    index.save(tmp_path / "index")
    (path,) = (tmp_path / "index").glob(f"{part}-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(Sen2ProError, match="changed or damaged"):
        Index.open(tmp_path / "index", plain)
    path.rename(tmp_path / path.name)
    with pytest.raises(Sen2ProError, match="a part of the index is missing"):
        Index.open(tmp_path / "index", plain)
    change(tmp_path / "index", lambda content: content["files"][part].update(name=f"../{path.name}"))
    with pytest.raises(Sen2ProError, match="cannot be the name of a part of an index"):
        Index.open(tmp_path / "index", plain)


@pytest.mark.parametrize(
    "edit",
    [
        lambda g: g["neighbours"].__setitem__(3, 10_000), lambda g: g["neighbours"].__setitem__(3, -7),
        lambda g: g["levels"].__setitem__(0, 0), lambda g: g["levels"].__setitem__(0, 900),
        lambda g: g["levels"].__setitem__(5, g["levels"][5] + 1), lambda g: g["entry"].__setitem__(0, -1),
        lambda g: g["entry"].__setitem__(0, 10**12), lambda g: g.update(neighbours=g["neighbours"][:-1]),
        lambda g: g.update(levels=g["levels"][:-1]),
    ],
)  # fmt: skip
def test_a_graph_that_leads_out_of_its_arrays_is_refused(plain, texts, tmp_path, edit):
    """The numbers themselves are checked before FAISS follows them."""
    Index.build(plain, texts, kind="hnsw").save(tmp_path / "index")
    (path,) = (tmp_path / "index").glob("numbers-*")
    graph = load_file(path)
    edit(graph)
    bundle.write_arrays(path, graph)
    change(tmp_path / "index", lambda content: content["files"]["numbers"].update(digest=file_digest(path)))
    with pytest.raises(Sen2ProError, match="holds no graph of"):
        Index.open(tmp_path / "index", plain)


# Files of Gaussians.


def test_what_was_encoded_is_indexed_without_encoding_again(tiny, texts, tmp_path):
    gaussian, path = tiny.encode(texts), tmp_path / "g.parquet"
    gaussian.save(path, ids=[f"n{i}" for i in range(len(texts))], texts=texts)
    index = Index.from_file(tiny, path)
    assert index.ranking == "mean-cosine"
    first, second = index.search(texts[7], k=2)
    assert (first.id, first.text) == ("n7", texts[7])
    means = gaussian.mean / np.linalg.norm(gaussian.mean, axis=1, keepdims=True)
    assert second.similarity == pytest.approx(float(means[7] @ means[int(second.id[1:])]), abs=1e-5)
    built, again = Index.build(tiny, texts, rerank="eq6"), Index.from_file(tiny, path, rerank="eq6")
    for own, other in zip(again.search(texts[7], k=20), built.search(texts[7], k=20), strict=True):
        assert (own.id, own.similarity) == (f"n{other.id}", pytest.approx(other.similarity, abs=1e-5))
    Gaussian(gaussian.mean, gaussian.variance).save(tmp_path / "bare.parquet")
    with pytest.raises(Sen2ProError, match="does not say how it was made"):
        Index.from_file(tiny, tmp_path / "bare.parquet")
    other = Sen2Pro(tiny.settings.model, tokenizer=tiny.settings.tokenizer, samples=5)
    with pytest.raises(Sen2ProError, match="made with another model"):
        Index.from_file(other, path)
    gaussian.save(tmp_path / "g.safetensors")
    with pytest.raises(Sen2ProError, match="only a Parquet file"):
        Index.from_file(tiny, tmp_path / "g.safetensors")


def test_what_was_read_of_a_file_of_gaussians_is_let_go(tmp_path):
    """Memory holds some rows, however many there are: pyarrow by itself keeps all groups of rows it has read."""
    mean = np.random.default_rng(0).normal(size=(2000, 64)).astype(np.float32)

    def held(groups):
        path = tmp_path / f"{groups}.parquet"
        with GaussianWriter(path) as file:
            for _ in range(groups):
                file.write(Gaussian(mean, mean**2), texts=[f"text {n}" for n in range(len(mean))])
        before = pa.total_allocated_bytes()
        return max(pa.total_allocated_bytes() - before for _ in stream(path, 500))

    assert held(20) < 1.5 * held(4)


# Faults.


def test_a_store_that_is_down_is_asked_five_times(plain, monkeypatch):
    waits = []
    monkeypatch.setattr("sen2pro.search.stores.protocol.time.sleep", waits.append)
    for address in ("postgresql://nobody:secret@127.0.0.1:1/x", "qdrant://127.0.0.1:1"):
        waits.clear()
        with pytest.raises(StoreUnavailable, match="does not answer") as error:
            Index.build(plain, ["the cat"], store=address)
        assert waits == [0.1, 0.2, 0.4, 0.8]
        assert "secret" not in str(error.value)


END = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
    "AND backend_type = 'client backend'"
)


@pytest.mark.slow
def test_an_add_survives_dropped_connections_and_says_how_far_it_came_if_the_server_stops(plain, texts, monkeypatch):
    monkeypatch.setattr("sen2pro.search.documents.CHUNK", 20)
    server = Server()
    index = Index.build(plain, store=server.address, name="stopped")
    ended = []

    def rows():
        for number, text in enumerate(texts):
            if number in (20, 40):  # between two batches
                with psycopg.connect(server.address, autocommit=True) as other:
                    ended.append(other.execute(END).fetchone()[0])
            if number == 60:
                server.server.stop()
            yield text

    with pytest.raises(StoreUnavailable, match="60 texts of this call were added before"):
        index.add(rows(), ids=map(str, range(len(texts))))
    assert min(ended) > 0
    with pytest.raises(StoreUnavailable):
        index.search("the cat")
    server.server.start()
    assert len(index) == 60
    assert index.add(texts[60:], ids=map(str, range(60, len(texts)))) == len(texts) - 60
    assert index.search(texts[100], k=1)[0].id == "100"
    index.close()
    server.close()


def test_an_index_in_a_database_is_not_replaced_without_being_told(plain, texts, server, index):
    Index.build(plain, texts[:3], store=server.address, name="twice").close()
    with pytest.raises(Sen2ProError, match="there is a table 'twice' already"):
        Index.build(plain, texts[:3], store=server.address, name="twice")
    again = Index.build(plain, texts[:4], store=server.address, name="twice", overwrite=True)
    assert len(again) == 4
    with pytest.raises(Sen2ProError, match="saved already"):
        again.save("x")
    again.close()
    with pytest.raises(Sen2ProError, match="there is no index 'nothing'"):
        Index.open(server.address, plain, name="nothing")
    with psycopg.connect(server.address, autocommit=True) as other:
        other.execute("CREATE TABLE somebody (id int)")
        other.execute("UPDATE sen2pro_indexes SET about = jsonb_set(about, '{dimensions}', '8') WHERE name = 'twice'")
    with pytest.raises(Sen2ProError, match="not an index of sen2pro; it is not replaced"):
        Index.build(plain, texts[:3], store=server.address, name="somebody", overwrite=True)
    with pytest.raises(Sen2ProError, match="holds vectors of 8 numbers, but the model gives 32"):
        Index.open(server.address, plain, name="twice")
    with pytest.raises(Sen2ProError, match="holds vectors of 8 numbers"):
        Index(plain, FaissStore(msgspec.structs.replace(index.store.info, dimensions=8)))


def test_a_folder_of_qdrant_is_a_pickle_and_needs_permission(plain, texts, tmp_path):
    address = f"qdrant://{tmp_path / 'q'}"
    Index.build(plain, texts[:3], store=address).close()
    with pytest.raises(Sen2ProError, match="allow_pickle=True"):
        Index.open(address, plain)
    with Index.open(address, plain, allow_pickle=True) as again:
        assert len(again) == 3


# What is imported when.


def test_an_engine_is_imported_only_by_who_uses_it():
    """An index in memory needs FAISS alone, and the names of the room need no engine at all."""
    code = """
import sys
found = lambda: [name for name in ("faiss", "psycopg", "pgvector", "qdrant_client") if name in sys.modules]
from sen2pro import Sen2Pro
from sen2pro.search import Hit, Index, Result, StoreUnavailable
print(found())
Index.build(Sen2Pro(), ["a text"])
print(found())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "['faiss']"]


@pytest.mark.parametrize(
    ("package", "store", "extra"),
    [("faiss", None, "search"), ("psycopg", "postgresql://x/y", "postgres"), ("qdrant_client", "qdrant://x", "qdrant")],
)
def test_a_missing_engine_is_named_with_its_extra(plain, monkeypatch, package, store, extra):
    monkeypatch.setitem(sys.modules, package, None)
    for module in ("postgres", "qdrant"):
        monkeypatch.delitem(sys.modules, f"sen2pro.search.stores.{module}", raising=False)
    with pytest.raises(Sen2ProError, match=rf"pip install 'sen2pro\[{extra}\]'"):
        Index.build(plain, ["the cat"], store=store)


def test_building_from_a_generator_keeps_no_batch(plain, texts):
    """Rows that were written are let go, so memory does not grow beside the index."""
    import gc
    import weakref

    class Row(str):
        __slots__ = ("__weakref__",)

    seen = []

    def rows():
        for number in range(3000):
            text = Row(f"{texts[number % len(texts)]} {texts[number // len(texts)]}")
            seen.append(weakref.ref(text))
            yield text

    index = Index.build(plain, rows(), store="qdrant://:memory:")
    gc.collect()
    assert len(index) == 3000
    assert not [each for each in seen if each() is not None]


def test_the_numbers_that_ship_need_the_data_uncertainty():
    with pytest.raises(Sen2ProError, match="this one has no data uncertainty"):
        find_duplicates(Sen2Pro(method="one-pass", uncertainty="model"), ["a dog", "a cat"])
