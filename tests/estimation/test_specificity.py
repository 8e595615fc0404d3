"""How specific a sentence is: one pass, percentiles, the words that carry it, and ratings to learn from."""

import copy
import csv
import json
import pickle
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from test_cli import run

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.cli import answers as scoring
from sen2pro.errors import HeadMissing
from sen2pro.estimation import specificity as heads
from sen2pro.estimation.specificity import names_and_numbers
from sen2pro.io.inputs import sentences
from sen2pro.sampling.edits import insert_word

VAGUE = ["They have put that up again.", "It is what it is.", "Somebody did something there.", "That was so nice."]
SPECIFIC = [
    "The European Central Bank raised its deposit rate to 2.5 percent on Thursday.",
    "Simmer 400 grams of tomatoes with two cloves of garlic for half an hour.",
    "Mozart wrote his last three symphonies in Vienna in the summer of 1788.",
    "The 7:40 train from Leeds to York was cancelled because of a broken signal.",
]
WORDS = "the dog runs in park cat sees ball man plays guitar with music red house big small today".split()


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(0)
    return sorted({" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(400)})


@pytest.fixture(scope="module")
def distilled(shared_folder, corpus):
    return Sen2Pro(str(shared_folder)).distill(corpus, samples=6, verbose=False)


def test_vague_sentences_score_low_and_specific_ones_high(minilm):
    result = minilm.specificity(VAGUE + SPECIFIC)
    assert result.score[:4].max() < 25 < 60 < result.score[4:].min()
    assert ((result.score >= 0) & (result.score <= 100) & (result.at_length >= 0) & (result.at_length <= 100)).all()
    again = minilm.specificity((VAGUE + SPECIFIC)[::-1], batch_size=2)
    np.testing.assert_allclose(again.value[::-1], result.value, atol=1e-4)  # in any batch and order
    one = minilm.specificity(VAGUE[0])
    assert isinstance(one.score, float)
    assert one.score == pytest.approx(result.score[0], abs=1e-3)
    assert len(minilm.specificity([])) == 0


def test_at_the_same_length_the_vague_sentence_is_still_the_lower_one(minilm):
    pair = ["They have put that up again, as they always do.", "The bank raised its interest rate again this year."]
    low, high = minilm.specificity(pair).at_length
    assert low < 20 < 50 < high


def test_sampling_says_the_same_as_one_pass(minilm):
    texts = VAGUE + SPECIFIC
    sampled, predicted = minilm.specificity(texts, samples=12), minilm.specificity(texts)
    assert np.corrcoef(sampled.value, predicted.value)[0, 1] > 0.9
    np.testing.assert_allclose(sampled.value[4:], predicted.value[4:], atol=0.8)
    assert np.abs(sampled.score - predicted.score)[4:].max() < 30


def test_without_a_head_sampling_gives_values_but_no_percentiles(tiny):
    with pytest.raises(HeadMissing, match="fit one on a few thousand sentences with distill, or pass samples=12"):
        tiny.specificity("the dog")
    result = tiny.specificity(["the dog", "a cat runs"], samples=2)
    assert np.isnan(result.score).all()
    alone = [tiny.specificity(text, samples=2).value for text in ("the dog", "a cat runs")]
    np.testing.assert_allclose(result.value, alone, atol=1e-5)  # which do not depend on the batch
    for samples in (0, 1.5, "3"):
        with pytest.raises(Sen2ProError, match="samples must be a whole number"):
            tiny.specificity("the dog", samples=samples)


def test_the_value_is_the_mean_squared_move_of_inserted_words(tiny):
    text = "the dog runs in the park"
    copies = [insert_word(text, tiny.vocabulary, tiny.seed, sample) for sample in range(4)]
    vectors = tiny.encode_plain([text, *copies]).astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = ((vectors[1:] - vectors[0]) ** 2).sum(axis=1).mean()
    assert tiny.specificity(text, samples=4).value == pytest.approx(-np.log(expected), rel=1e-4)
    assert all(len(copy.split()) == 7 for copy in copies)


def test_names_count_in_lower_case_too(minilm):
    texts = ["Mozart wrote it in Vienna.", "Somebody wrote it in some city."]
    named, unnamed = minilm.specificity(texts).value
    assert named > unnamed + 1
    assert minilm.specificity(texts[0].lower()).value == pytest.approx(named, abs=1e-3)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Ann met Bob in Rome.", 2),  # a first word has its capital because of its place
        ("He left. She stayed with Ann!", 1),
        ("At 7:40 we left platform 3", 2),
        ("I think I'm right, and I'll stay", 0),
        ("THIS IS THE BEST DAY", 0),
        ("the apartment in oslo", 0),
        ("- - !", 0),
        ("", 0),
    ],
)
def test_names_and_numbers_are_counted_by_capitals_and_digits(text, count):
    assert names_and_numbers(text) == count


def test_distill_fits_it_and_percentiles_are_those_of_the_corpus(distilled, corpus):
    head = distilled.find_specificity_head()
    assert head.config.corpus.size == len(corpus)
    scores = distilled.specificity(corpus).score
    assert np.median(scores) == pytest.approx(50, abs=8)
    assert scores.min() < 5 < 95 < scores.max()


def test_it_is_saved_loaded_copied_and_pickled_with_the_model(distilled, tmp_path):
    before = distilled.specificity(["the dog runs"]).value
    distilled.save(tmp_path / "model")
    distilled.head.save(tmp_path / "head")
    others = [
        Sen2Pro.load(tmp_path / "model"),
        Sen2Pro(str(tmp_path / "model")),  # as a plain encoder, sampling
        Sen2Pro(distilled.settings.model, method="one-pass", head=tmp_path / "head"),
        pickle.loads(pickle.dumps(distilled)),
        copy.deepcopy(distilled),
    ]
    for other in others:
        np.testing.assert_allclose(other.specificity(["the dog runs"]).value, before, atol=1e-5)


@pytest.fixture
def saved(distilled, tmp_path):
    distilled.head.specificity.save(tmp_path / "s")
    return tmp_path / "s"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("quantiles", lambda array: array[::-1].copy(), "must rise"),
        ("spread", lambda array: array * 0, "above 0"),
        ("low", lambda array: array[:2].copy(), "must have shape"),
        ("terms", lambda array: array * np.nan, "not finite"),
        ("terms", lambda array: array + 1, "damaged"),
        ("states", lambda array: array.astype(np.float64), "must be F32"),
    ],
)
def test_a_changed_file_is_refused(saved, name, change, message):
    document = json.loads((saved / heads.CONFIG).read_text())
    document.pop("digest")
    (saved / heads.CONFIG).write_text(json.dumps(document))
    arrays = load_file(saved / heads.TENSORS)
    save_file({**arrays, name: change(arrays[name])}, saved / heads.TENSORS)
    with pytest.raises(Sen2ProError, match=message):
        heads.SpecificityHead.load(saved)


def test_a_document_with_other_keys_is_refused(saved):
    path = saved / heads.CONFIG
    document = json.loads(path.read_text()) | {"trust_remote_code": True}
    path.write_text(json.dumps(document))
    with pytest.raises(Sen2ProError, match="a file may not set"):
        heads.SpecificityHead.load(saved)


@pytest.mark.parametrize(
    ("key", "value", "what"), [("space", {"hash": "00000000"}, "hash"), ("layers", [99], "layers")]
)
def test_a_head_of_another_model_is_refused(saved, tiny_folder, key, value, what):
    for path in saved.iterdir():
        shutil.copy(path, tiny_folder)
    document = json.loads((tiny_folder / heads.CONFIG).read_text())
    document[key] = {**document[key], **value} if key == "space" else value
    document.pop("digest")
    (tiny_folder / heads.CONFIG).write_text(json.dumps(document))
    with pytest.raises(Sen2ProError, match=f"fitted for another model: {what} differ"):
        Sen2Pro(str(tiny_folder)).specificity("the dog")


def test_explain_finds_the_words_that_carry_a_sentence(minilm):
    explanation = minilm.explain("Well, the guitar was sort of loud.")
    assert explanation.words[explanation.moves.argmax()] == "guitar"
    assert explanation.share.sum() == pytest.approx(1)
    assert str(explanation).startswith("guitar ")
    assert minilm.explain("Hello").share.tolist() == [1]
    with pytest.raises(Sen2ProError, match="empty or blank"):
        minilm.explain(" ")


def test_a_file_of_many_chunks_comes_out_complete_and_in_order(distilled, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "_CHUNK", 64)
    distilled.save(tmp_path / "model")
    rng, size = np.random.default_rng(1), 2 * scoring._CHUNK + 7
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(size)]
    source = tmp_path / "in.tsv"
    source.write_text("number\ttext\n" + "".join(f"{i}\t{text}\n" for i, text in enumerate(texts)))
    scores = distilled.specificity(texts).score
    options = "--model", tmp_path / "model", "--id-column", "number"
    result = run("specificity", source, tmp_path / "all.csv", *options)
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader((tmp_path / "all.csv").open()))
    assert [(row["id"], row["text"]) for row in rows] == [(str(i), text) for i, text in enumerate(texts)]
    np.testing.assert_allclose([float(row["specificity"]) for row in rows], scores, atol=0.06)
    result = run("specificity", source, tmp_path / "sorted.jsonl", *options, "--above", 80, "--sort")
    kept = [json.loads(line) for line in (tmp_path / "sorted.jsonl").open()]
    assert [row["value"] for row in kept] == sorted(row["value"] for row in kept)
    assert {int(row["id"]) for row in kept} == {i for i in range(size) if scores[i] > 80}
    assert f"{len(kept)} of {size} sentences" in result.output


class Scored:
    """Score sentences with a model, note the size of each call, and fail at one of them."""

    def __init__(self, model, fails=None):
        self.model, self.fails, self.calls = model, fails, []

    def specificity(self, texts, **options):
        self.calls.append(len(texts))
        if len(self.calls) == self.fails:
            raise Sen2ProError("no")
        return self.model.specificity(texts, **options)


def test_only_one_chunk_of_a_file_is_in_memory_and_a_run_that_fails_leaves_no_file(distilled, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "_CHUNK", 64)
    source, empty, model = tmp_path / "in.txt", tmp_path / "empty.txt", Scored(distilled)
    source.write_text("the dog runs\n" * 192)
    empty.write_text("")
    with pytest.raises(Sen2ProError, match="no"):
        scoring.write_scores(tmp_path / "out.csv", Scored(distilled, fails=2), sentences(str(source)))
    with pytest.raises(Sen2ProError, match=r"no sentences in .*empty.txt"):
        scoring.write_scores(tmp_path / "out.csv", distilled, sentences(str(empty)))
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "empty.txt"}
    scores = scoring.write_scores(tmp_path / "out.csv", model, sentences(str(source)))
    assert model.calls == [64] * 3
    assert (scores.sentences, scores.kept, len(scores.ends)) == (192, 192, 6)
