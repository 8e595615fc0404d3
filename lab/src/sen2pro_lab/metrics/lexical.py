"""Metrics that compare words: BLEU, chrF and TER (sacrebleu), BLEU and METEOR (nltk), ROUGE-L (rouge-score).

Each keeps the scale of its library: sacrebleu counts in percent, the others from 0 to 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

from sen2pro.errors import one_of
from sen2pro.validation import Array64
from sen2pro_lab.metrics.base import Metric, release

_NO_WORDNET = SimpleNamespace(synsets=lambda word: [])


class _SacrebleuMetric(Metric):
    """The scorer of sacrebleu whose name is the metric's in capitals."""

    def __init__(self, **options: Any) -> None:
        self._whole = self._single = getattr(import_module("sacrebleu"), self.name.upper())(**options)
        self._whole.corpus_score(["a"], [["a"]])  # sacrebleu knows its signature only when it has scored something
        self.signature = f"sacrebleu|{self._whole.get_signature()}"

    def _segment(self, candidate: str, reference: str) -> float:
        return float(self._single.sentence_score(candidate, [reference]).score)

    def _corpus(self, candidates: list[str], references: list[str]) -> float:
        return float(self._whole.corpus_score(candidates, [references]).score)


class Bleu(_SacrebleuMetric):
    """BLEU of sacrebleu, 0 to 100; segments are sentence BLEU (effective order).

    Parameters
    ----------
    tokenize
        Tokenisation of sacrebleu: `13a`, `intl`, `zh`, `char`, `none`, ...

    Examples
    --------
    >>> bleu = Bleu()
    >>> round(bleu.corpus(["the cat sat on the mat"], ["the cat sat on a mat"]), 2)
    53.73
    >>> print(bleu.signature)
    sacrebleu|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:...
    """

    name = "bleu"

    def __init__(self, tokenize: str = "13a") -> None:
        scorer = import_module("sacrebleu").BLEU
        one_of("tokenize", tokenize, scorer.TOKENIZERS)
        # force: text that looks tokenised is scored as it is, without a warning; the signature names the tokens
        super().__init__(tokenize=tokenize, force=True)
        self._single = scorer(tokenize=tokenize, force=True, effective_order=True)


class Chrf(_SacrebleuMetric):
    """chrF2 of sacrebleu: F-score of character n-grams, 0 to 100."""

    name = "chrf"


class Ter(_SacrebleuMetric):
    """TER of sacrebleu: edits and shifts in percent of the reference, so lower is better; a blank candidate has 100."""

    name = "ter"
    higher_is_better = False

    def both(self, candidates: Sequence[str], references: Sequence[str]) -> tuple[float, Array64]:
        """Return the results of `corpus` and `segments`, from one search for shifts, which is slow."""
        pairs = zip(*self._checked(candidates, references), strict=True)
        scores = [self._single.sentence_score(candidate, [reference]) for candidate, reference in pairs]
        whole = 100 * sum(score.num_edits for score in scores) / sum(score.ref_length for score in scores)
        return float(whole), np.array([score.score for score in scores], np.float64)


class BleuNltk(Metric):
    """Corpus BLEU of nltk over lower-cased nltk word tokens, 0 to 1: the BLEU of the dialogue evaluations.

    It is not smoothed: it is almost 0 if no 4-gram matches, as in most single segments. For those take `Bleu`.
    """

    name = "bleu-nltk"

    def __init__(self) -> None:
        self._bleu = import_module("nltk.translate.bleu_score")
        self.signature = f"{release('nltk')}|case:lc|tok:nltk-words|smooth:no|order:4"

    def _segment(self, candidate: str, reference: str) -> float:
        return self._corpus([candidate], [reference])

    def _corpus(self, candidates: list[str], references: list[str]) -> float:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\s*The hypothesis contains 0 counts")
            expected = [[words(reference.lower())] for reference in references]
            return float(self._bleu.corpus_bleu(expected, [words(candidate.lower()) for candidate in candidates]))


class Meteor(Metric):
    """METEOR of nltk: matches of words, stems and synonyms, less a penalty for their fragmentation; 0 to 1.

    Synonyms come from WordNet if nltk finds it, and the signature says whether it did. nltk looks up stems, so only
    words that are their own stems have synonyms. To get it: `python -m nltk.downloader wordnet`.

    Parameters
    ----------
    wordnet
        An object with WordNet's method `synsets`, in place of nltk's own.
    """

    name = "meteor"

    def __init__(self, wordnet: Any = None) -> None:
        self._score = import_module("nltk.translate.meteor_score").single_meteor_score
        self._wordnet = import_module("nltk.corpus").wordnet if wordnet is None else wordnet
        if wordnet is None:
            try:
                self._wordnet.ensure_loaded()
            except LookupError:
                self._wordnet = _NO_WORDNET
        has, how = "no" if self._wordnet is _NO_WORDNET else "yes", "case:lc|tok:nltk-words|stem:porter"
        self.signature = f"{release('nltk')}|{how}|wordnet:{has}|alpha:0.9|beta:3|gamma:0.5"

    def _segment(self, candidate: str, reference: str) -> float:
        return float(self._score(words(reference), words(candidate), wordnet=self._wordnet))


class RougeL(Metric):
    """ROUGE-L of rouge-score: F1 of the longest common subsequence of stems, 0 to 1.

    Its tokens are Latin letters and digits, so it is of use for English and little else.

    >>> round(RougeL().corpus(["the cat sat"], ["the cats sat down"]), 4)  # 3 of 3 and 3 of 4 stems: 6/7
    0.8571
    """

    name = "rouge-l"

    def __init__(self) -> None:
        self._scorer = import_module("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=True)
        self.signature = f"{release('rouge-score')}|stem:porter|f:1"

    def _segment(self, candidate: str, reference: str) -> float:
        return float(self._scorer.score(reference, candidate)["rougeL"].fmeasure)


def words(text: str) -> list[str]:
    """Split a text into nltk's word tokens, as `nltk.word_tokenize` does with a sentence.

    >>> words("He didn't, did he?")
    ['He', 'did', "n't", ',', 'did', 'he', '?']
    """
    return list(import_module("nltk.tokenize").NLTKWordTokenizer().tokenize(text))
