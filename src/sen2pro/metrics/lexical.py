"""Metrics that compare words: BLEU, chrF and TER (sacrebleu), BLEU and METEOR (nltk), ROUGE-L (rouge-score).

Each keeps the scale of its library: sacrebleu counts in percent, the others from 0 to 1.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from sen2pro.errors import one_of
from sen2pro.metrics.base import Metric, Scores, need, release


class _SacrebleuMetric(Metric):
    """One of sacrebleu's scorers for the whole, and one for single pairs."""

    def __init__(self, whole: Any, single: Any) -> None:
        self._whole, self._single = whole, single
        self._whole.corpus_score(["a"], [["a"]])  # sacrebleu knows its signature only when it has scored something

    def _signature(self) -> str:
        return f"sacrebleu|{self._whole.get_signature()}"

    def _segments(self, candidates: list[str], references: list[str]) -> list[float]:
        pairs = zip(candidates, references, strict=True)
        return [self._single.sentence_score(candidate, [reference]).score for candidate, reference in pairs]

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

    name: ClassVar[str] = "bleu"

    def __init__(self, tokenize: str = "13a") -> None:
        scorer = need("sacrebleu").BLEU
        one_of("tokenize", tokenize, scorer.TOKENIZERS)
        # force: text that looks tokenised is scored as it is, without a warning; the signature names the tokens
        whole, single = (scorer(tokenize=tokenize, force=True, effective_order=order) for order in (False, True))
        super().__init__(whole, single)


class Chrf(_SacrebleuMetric):
    """chrF2 of sacrebleu: F-score of character n-grams, 0 to 100."""

    name: ClassVar[str] = "chrf"

    def __init__(self) -> None:
        scorer = need("sacrebleu").CHRF()
        super().__init__(scorer, scorer)


class Ter(_SacrebleuMetric):
    """TER of sacrebleu: edits and shifts in percent of the reference, so lower is better; a blank candidate has 100."""

    name: ClassVar[str] = "ter"
    higher_is_better: ClassVar[bool] = False

    def __init__(self) -> None:
        scorer = need("sacrebleu").TER()
        super().__init__(scorer, scorer)

    def _both(self, candidates: list[str], references: list[str]) -> tuple[float, Scores]:
        # The search for shifts is slow, and what it finds for each pair gives the whole as well.
        pairs = zip(candidates, references, strict=True)
        found = [self._single.sentence_score(candidate, [reference]) for candidate, reference in pairs]
        whole = 100 * sum(one.num_edits for one in found) / sum(one.ref_length for one in found)
        return float(whole), np.array([one.score for one in found], np.float64)


class BleuNltk(Metric):
    """Corpus BLEU of nltk over lower-cased nltk word tokens, 0 to 1: the BLEU of the dialogue evaluations.

    It is not smoothed: where no 4-gram matches, it is all but 0, and its segments mostly are. For single sentences take
    `Bleu`.
    """

    name: ClassVar[str] = "bleu-nltk"

    def __init__(self) -> None:
        self._bleu = need("nltk.translate.bleu_score")

    def _signature(self) -> str:
        return f"{release('nltk')}|case:lc|tok:nltk-words|smooth:no|order:4"

    def _segments(self, candidates: list[str], references: list[str]) -> list[float]:
        pairs = zip(candidates, references, strict=True)
        return [self._corpus([candidate], [reference]) for candidate, reference in pairs]

    def _corpus(self, candidates: list[str], references: list[str]) -> float:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\s*The hypothesis contains 0 counts")
            expected = [[words(reference.lower())] for reference in references]
            return float(self._bleu.corpus_bleu(expected, [words(candidate.lower()) for candidate in candidates]))


class Meteor(Metric):
    """METEOR of nltk: matches of words, stems and synonyms, less a penalty for their fragmentation; 0 to 1.

    Synonyms come from WordNet where nltk finds it, and the signature says whether it did; nltk looks stems up in it,
    so that it helps with words that are their own stems. To get it: `python -m nltk.downloader wordnet`; or, from the
    Debian packages `wordnet-base` and `wordnet-sense-index`, which lack a file of names that METEOR does not look at::

        mkdir -p ~/nltk_data/corpora && cp -r /usr/share/wordnet ~/nltk_data/corpora/
        seq -f '%02g any 0' 0 44 > ~/nltk_data/corpora/wordnet/lexnames

    Parameters
    ----------
    wordnet
        An object with WordNet's method `synsets`, in place of nltk's own.
    """

    name: ClassVar[str] = "meteor"

    def __init__(self, wordnet: Any = None) -> None:
        self._score = need("nltk.translate.meteor_score").single_meteor_score
        self._wordnet = _find_wordnet() if wordnet is None else wordnet

    def _signature(self) -> str:
        found = "no" if isinstance(self._wordnet, _NoWordNet) else "yes"
        return f"{release('nltk')}|case:lc|tok:nltk-words|stem:porter|wordnet:{found}|alpha:0.9|beta:3|gamma:0.5"

    def _segments(self, candidates: list[str], references: list[str]) -> list[float]:
        pairs = zip(candidates, references, strict=True)
        return [self._score(words(ref), words(candidate), wordnet=self._wordnet) for candidate, ref in pairs]


class _NoWordNet:
    """A WordNet without a word in it."""

    def synsets(self, word: str) -> list[Any]:
        return []


def _find_wordnet() -> Any:
    wordnet = need("nltk.corpus").wordnet
    try:
        wordnet.ensure_loaded()
    except LookupError:
        return _NoWordNet()
    return wordnet


class RougeL(Metric):
    """ROUGE-L of rouge-score: F1 of the longest common subsequence of stems, 0 to 1.

    Its tokens are Latin letters and digits, so it is of use for English and little else.

    >>> round(RougeL().corpus(["the cat sat"], ["the cats sat down"]), 4)  # 3 of 3 and 3 of 4 stems: 6/7
    0.8571
    """

    name: ClassVar[str] = "rouge-l"

    def __init__(self) -> None:
        self._scorer = need("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=True)

    def _signature(self) -> str:
        return f"{release('rouge-score')}|stem:porter|f:1"

    def _segments(self, candidates: list[str], references: list[str]) -> list[float]:
        pairs = zip(candidates, references, strict=True)
        return [self._scorer.score(reference, candidate)["rougeL"].fmeasure for candidate, reference in pairs]


def words(text: str) -> list[str]:
    """Split a text into nltk's word tokens, as `nltk.word_tokenize` does with a sentence.

    >>> words("He didn't, did he?")
    ['He', 'did', "n't", ',', 'did', 'he', '?']
    """
    return list(need("nltk.tokenize").NLTKWordTokenizer().tokenize(text))
