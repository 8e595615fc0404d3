"""MTEB and sentence-transformers give the numbers that the model itself gives."""

from __future__ import annotations

import json
import math
import re
import sys
from importlib import import_module
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from sentence_transformers.util import semantic_search

from sen2pro import Sen2Pro
from sen2pro.encoder.find import resolve
from sen2pro.errors import Sen2ProError
from sen2pro.integrations.mteb import MTEBModel
from sen2pro.integrations.sentence_transformers import sentence_transformer

PAIRS = [
    ("A man is playing a guitar.", "Someone plays an instrument.", 4.0),
    ("A man is playing a guitar.", "A man plays the guitar.", 5.0),
    ("A man is playing a guitar.", "A man is cooking dinner.", 1.5),
    ("A dog runs in the park.", "A puppy is running outside.", 4.2),
    ("A dog runs in the park.", "A cat sleeps on the sofa.", 1.4),
    ("A dog runs in the park.", "Shares closed lower on Monday.", 0.0),
    ("The market fell today.", "Shares closed lower.", 3.8),
    ("The market fell today.", "The market rose today.", 2.6),
    ("The market fell today.", "A child eats an apple.", 0.1),
    ("It is raining heavily.", "Heavy rain is falling.", 4.9),
    ("It is raining heavily.", "The sun is shining.", 1.8),
    ("It is raining heavily.", "The engine needs new oil.", 0.2),
    ("A chef cuts an onion.", "A cook is slicing onions.", 4.6),
    ("A chef cuts an onion.", "A chef washes the dishes.", 2.1),
    ("Children play football.", "Kids are playing soccer.", 4.7),
    ("The phone is broken.", "My mobile does not work any more.", 3.9),
]
FIRST, SECOND, SCORES = (list(column) for column in zip(*PAIRS, strict=True))
CORPUS = {f"d{i:02}": text for i, text in enumerate(dict.fromkeys(SECOND))}
ANSWERS = {
    "How do I fix my phone?": "My mobile does not work any more.", "weather": "The sun is shining.",
    "sport for children": "Kids are playing soccer.", "meal": "A cook is slicing onions.",
}  # fmt: skip


@pytest.fixture(scope="module")
def ranks(model):
    """The place of each query's one answer in the ranking by the model's similarity, from 1."""
    similarity = model.similarity(model.encode(list(ANSWERS)), model.encode(list(CORPUS.values())))
    columns = [list(CORPUS.values()).index(answer) for answer in ANSWERS.values()]
    result = [1 + int((row > row[column]).sum()) for row, column in zip(similarity, columns, strict=True)]
    assert min(result) == 1 < max(result), result  # or the evaluators' numbers would be trivial
    return result


@pytest.fixture(scope="module")
def mteb(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        # Importing mteb makes its cache folder, which should not be the user's.
        patch.setenv("MTEB_CACHE", str(tmp_path_factory.mktemp("mteb")))
        yield pytest.importorskip("mteb", reason="mteb is not installed: pip install 'sen2pro[mteb]'")


def task(mteb, kind: str, name: str, main_score: str, load):
    """A task on data that a function gives, with nothing to download."""
    metadata = mteb.TaskMetadata(
        name=name, description="Sentences of this test.", dataset={"path": "none/none", "revision": "1"}, type=kind,
        category="t2t", eval_langs=["eng-Latn"], main_score=main_score,
    )  # fmt: skip

    def load_data(self, **kwargs):
        self.dataset, self.data_loaded = load(), True

    return type(name, (getattr(mteb.abstasks, f"AbsTask{kind}"),), {"metadata": metadata, "load_data": load_data})()


def sts_task(mteb, name="LocalSTS"):
    columns = {"sentence1": FIRST, "sentence2": SECOND, "score": SCORES}
    return task(mteb, "STS", name, "spearman", lambda: {"test": datasets.Dataset.from_dict(columns)})


def retrieval_task(mteb):
    places = {text: place for place, text in CORPUS.items()}
    columns = {"queries": {query: query for query in ANSWERS}, "corpus": CORPUS}

    def load():
        split = {
            name: datasets.Dataset.from_dict({"id": list(rows), "text": list(rows.values())})
            for name, rows in columns.items()
        }
        relevant = {query: {places[answer]: 1} for query, answer in ANSWERS.items()}
        return {"default": {"test": {**split, "relevant_docs": relevant, "top_ranked": None}}}

    return task(mteb, "Retrieval", "LocalRetrieval", "ndcg_at_10", load)


def scores_of(result) -> dict[str, float]:
    return result.task_results[0].scores["test"][0]


class TestMTEB:
    @pytest.mark.parametrize(("metric", "alpha"), [("sen2pro", "ratio"), ("sen2pro", 0.3), ("wasserstein", "ratio")])
    @pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
    def test_similarities_of_rows_are_the_models_own(self, mteb, tiny, metric, alpha, convert):
        wrapped, options = MTEBModel(tiny, metric=metric, alpha=alpha), {"metric": metric, "alpha": alpha}
        a, b = tiny.encode(["the dog runs", "a cat sees"]), tiny.encode(["a man eats", "the sun rose"])
        rows = [convert(np.hstack([g.mean, g.variance])) for g in (a, b)]
        np.testing.assert_array_equal(wrapped.similarity(*rows), tiny.similarity(a, b, **options))
        np.testing.assert_array_equal(wrapped.similarity_pairwise(*rows), tiny.similarity_pairwise(a, b, **options))
        assert wrapped.similarity(rows[0][0], rows[0][0]).shape == (1, 1)

    def test_what_is_no_model_metric_or_row_of_the_model_is_refused(self, mteb, tiny):
        with pytest.raises(Sen2ProError, match=r"32 means and 32 variances.*\(3, 32\)"):
            MTEBModel(tiny).similarity(np.zeros((3, 32)), np.zeros((3, 64)))
        with pytest.raises(Sen2ProError, match="give a Sen2Pro, not str"):
            MTEBModel("all-MiniLM-L6-v2")
        with pytest.raises(Sen2ProError, match="did you mean 'wasserstein'"):
            MTEBModel(tiny, metric="wasserstien")

    @pytest.mark.parametrize(
        ("settings", "metric"), [({"method": "one-pass"}, "sen2pro"), ({"samples": 2}, "wasserstein")]
    )
    def test_the_spearman_that_mteb_reports_is_the_models(self, mteb, settings, metric):
        model = Sen2Pro("all-MiniLM-L6-v2", **settings)
        wrapped = MTEBModel(model, metric=metric)
        result = scores_of(mteb.evaluate(wrapped, sts_task(mteb), cache=None, show_progress_bar=False))
        expected = model.similarity_pairwise(model.encode(FIRST), model.encode(SECOND), metric=metric)
        assert result["spearman"] == pytest.approx(spearmanr(SCORES, expected)[0], abs=1e-12)
        assert result["pearson"] == pytest.approx(pearsonr(SCORES, expected)[0], abs=1e-6)
        assert result["main_score"] == result["spearman"]

    def test_retrieval_ranks_by_the_models_similarity(self, mteb, model, ranks):
        result = scores_of(mteb.evaluate(MTEBModel(model), retrieval_task(mteb), cache=None, show_progress_bar=False))
        # With one answer to a query, nDCG is 1/log2(1 + rank) and MAP is 1/rank; MTEB rounds to five digits.
        assert result["ndcg_at_1000"] == pytest.approx(np.mean([1 / math.log2(1 + rank) for rank in ranks]), abs=1e-5)
        assert result["map_at_1000"] == pytest.approx(np.mean([1 / rank for rank in ranks]), abs=1e-5)

    def test_results_go_to_the_given_folder_only_and_carry_the_signature(self, mteb, model, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        cache = mteb.ResultCache(tmp_path / "results")
        mteb.evaluate(MTEBModel(model), sts_task(mteb), cache=cache, show_progress_bar=False)
        assert [path.name for path in tmp_path.iterdir()] == ["results"]
        assert not list(Path(mteb.ResultCache().cache_path).iterdir())  # the default one
        (found,) = tmp_path.rglob("model_meta.json")
        assert json.loads(found.read_text())["loader_kwargs"]["signature"] == str(model.signature())
        assert (found.parent / "LocalSTS.json").is_file()
        assert len(cache.load_results().model_results) == 1  # MTEB reads what it wrote

    def test_the_name_says_model_method_and_samples_and_is_one_folder(self, mteb, tiny_folder):
        folder = tiny_folder.rename(tiny_folder.parent / "my (tiny) model")
        for model, settings, name in (
            ("all-MiniLM-L6-v2", {"method": "one-pass"}, "all-MiniLM-L6-v2-one-pass"),
            ("all-MiniLM-L6-v2", {"samples": (4, 6)}, "all-MiniLM-L6-v2-4+6"),
            (str(folder), {"samples": 3}, "my-tiny-model-3+3"),
        ):
            assert MTEBModel(Sen2Pro(model, **settings)).mteb_model_meta.name == f"sen2pro/{name}"

    def test_the_revision_tells_apart_all_that_changes_a_result(self, mteb, bert, tokenizer):
        def revision(metric="sen2pro", alpha="ratio", **settings):
            model = Sen2Pro(bert, tokenizer=tokenizer, **{"samples": 3, **settings})
            return MTEBModel(model, metric=metric, alpha=alpha).mteb_model_meta.revision

        assert revision() == revision()
        others = [revision(seed=1), revision(samples=4), revision("wasserstein"), revision(alpha=0.3)]
        assert len({revision(), *others}) == 5

    @pytest.mark.parametrize(
        ("prompts", "side", "prompt"),
        [
            ({"query": "one ", "document": "two "}, "query", "one "),
            ({"query": "one ", "passage": "two "}, "document", "two "),
            ({"query": "one ", "STS": "two "}, "query", "two "),
            ({"query": "one ", "STS": "two ", "Prompted-query": "three "}, "query", "three "),
            ({"query": "one "}, None, ""),
        ],
    )
    def test_the_models_prompt_for_task_and_side_is_used(self, mteb, bert, tokenizer, prompts, side, prompt):
        model = Sen2Pro(bert, tokenizer=tokenizer, samples=2)
        model.encoder.backend.prompts = prompts
        rows = MTEBModel(model).encode(
            [{"text": ["the dog runs", "a cat sees"]}, {"text": ["the sun rose"]}],
            task_metadata=sts_task(mteb, "Prompted").metadata, hf_split="test", hf_subset="default",
            prompt_type=side and mteb.types.PromptType(side),
        )  # fmt: skip
        g = model.encode(["the dog runs", "a cat sees", "the sun rose"], prompt=prompt)
        np.testing.assert_array_equal(rows, np.hstack([g.mean, g.variance]))

    def test_quantised_embeddings_are_refused(self, mteb, tiny):
        with pytest.raises(Sen2ProError, match="precision='int8'"):
            mteb.evaluate(MTEBModel(tiny), sts_task(mteb), cache=None, encode_kwargs={"precision": "int8"})

    def test_without_mteb_the_error_names_the_extra(self, tiny, monkeypatch):
        monkeypatch.setitem(sys.modules, "mteb", None)
        with pytest.raises(Sen2ProError, match=re.escape("pip install 'sen2pro[mteb]'")):
            MTEBModel(tiny)


@pytest.fixture(scope="module")
def theirs():
    return SentenceTransformer(str(resolve("all-MiniLM-L6-v2")), device="cpu")


@pytest.fixture(scope="module")
def ours(model):
    return sentence_transformer(model)


class TestSentenceTransformer:
    """Code that was written for sentence-transformers, on our vectors."""

    @pytest.mark.parametrize(
        "options",
        [
            {}, {"batch_size": 3}, {"show_progress_bar": False}, {"prompt": "query: "}, {"convert_to_tensor": True},
            {"convert_to_numpy": False}, {"truncate_dim": 64}, {"truncate_dim": 64, "normalize_embeddings": True},
            {"precision": "ubinary"}, {"device": "cpu"},
        ],
    )  # fmt: skip
    def test_encode_with_the_usual_arguments_gives_the_same(self, theirs, ours, options):
        expected, given = theirs.encode(FIRST, **options), ours.encode(FIRST, **options)
        assert type(given) is type(expected)
        np.testing.assert_allclose(np.asarray(given), np.asarray(expected), atol=1e-5)
        one = ours.encode(FIRST[0], **options)
        np.testing.assert_allclose(np.asarray(one), np.asarray(expected[0]), atol=1e-5)

    def test_queries_documents_and_similarities_are_the_same(self, theirs, ours):
        for name in ("encode_query", "encode_document"):
            np.testing.assert_allclose(getattr(ours, name)(FIRST), getattr(theirs, name)(FIRST), atol=1e-5)
        similarity = ours.similarity(ours.encode(FIRST), ours.encode(SECOND))
        np.testing.assert_allclose(
            similarity, theirs.similarity(theirs.encode(FIRST), theirs.encode(SECOND)), atol=1e-5
        )
        assert ours.get_embedding_dimension() == theirs.get_embedding_dimension()
        assert ours.max_seq_length == theirs.max_seq_length
        assert ours.encode([]).shape == theirs.encode([]).shape

    def test_its_evaluators_and_its_search_take_it(self, theirs, ours):
        evaluator = EmbeddingSimilarityEvaluator(FIRST, SECOND, SCORES)
        assert evaluator(ours) == pytest.approx(evaluator(theirs), abs=1e-5)
        found, expected = (semantic_search(each.encode(list(ANSWERS)), each.encode(SECOND)) for each in (ours, theirs))
        assert [[hit["corpus_id"] for hit in row] for row in found] == [
            [hit["corpus_id"] for hit in row] for row in expected
        ]

    def test_prompts_of_the_model_are_used(self, prompted):
        ours, text = sentence_transformer(prompted), "the dog runs"
        np.testing.assert_array_equal(ours.encode(text), prompted.encode_plain(text))
        for encode, prompt in ((ours.encode_query, "one "), (ours.encode_document, "two ")):
            np.testing.assert_array_equal(encode(text), prompted.encode_plain(text, prompt=prompt))
        np.testing.assert_array_equal(ours.encode(text, prompt_name="query"), ours.encode_query(text))

    def test_lengths_are_kept_without_normalisation(self, shared_folder):
        theirs = SentenceTransformer(str(shared_folder), device="cpu")
        texts = ["the dog runs", "a cat"]
        expected = theirs.encode(texts)
        assert not np.allclose(np.linalg.norm(expected, axis=1), 1, atol=0.1)
        same = sentence_transformer(Sen2Pro(str(shared_folder), normalize=False)).encode(texts)
        np.testing.assert_allclose(same, expected, atol=1e-5)

    def test_options_are_those_of_sentence_transformers(self, model):
        assert sentence_transformer(model, truncate_dim=16, similarity_fn_name="dot").encode("It rains.").shape == (16,)

    def test_a_blank_text_and_saving_are_refused(self, ours, tmp_path):
        with pytest.raises(Sen2ProError, match="blank|empty"):
            ours.encode(["It rains.", " "])
        with pytest.raises(Sen2ProError, match=r"Sen2Pro\.save"):
            ours.save(str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("langchain", "langchain_core.documents", "langchain"),
        ("llama_index", "llama_index.core.base.embeddings.base", "llamaindex"),
        ("haystack", "haystack", "haystack"),
    ],
)
def test_without_its_framework_an_integration_names_the_extra(monkeypatch, name, missing, extra):
    module = f"sen2pro.integrations.{name}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=re.escape(f"pip install 'sen2pro[{extra}]'")):
        import_module(module)
