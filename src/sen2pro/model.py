"""The whole pipeline in one class: encoder -> sampling -> estimation -> Gaussian, and the answers made from it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, overload

import numpy as np

from sen2pro.calibration.comparison import Comparison, compare
from sen2pro.calibration.defaults import check_comparison, defaults
from sen2pro.distances import distance, distance_pairwise
from sen2pro.encoder.backend import Tokens
from sen2pro.encoder.encoder import Encoder
from sen2pro.errors import Sen2ProError, Sen2ProWarning, TruncationWarning
from sen2pro.estimation import methods
from sen2pro.estimation import specificity as specificities
from sen2pro.estimation.distill import learn
from sen2pro.estimation.encoded import Encoded
from sen2pro.estimation.head import Head
from sen2pro.estimation.methods import Method, OnePass, Sampling, open_method
from sen2pro.estimation.specificity import Explanation, Specificity, SpecificityHead
from sen2pro.estimation.whitening import Whitening
from sen2pro.gaussian import Gaussian
from sen2pro.progress import Show
from sen2pro.sampling.sampler import Sampler
from sen2pro.settings import DEFAULT_MODEL, SavedModel, Settings
from sen2pro.signature import Signature
from sen2pro.validation import Array, check_sentences, check_text

Texts = Sequence[str] | Tokens


def _read_only(path: str) -> Any:
    """Make a property of an attribute, which may be one of an attribute."""
    return property(attrgetter(path))


class Sen2Pro:
    """Turn sentences into Gaussians with any pre-trained encoder, without training.

    Parameters
    ----------
    model
        Hub id, local folder, `SentenceTransformer`, or Hugging Face model object.
    method
        `sampling` is the paper's, exact: N forward passes for each kind of uncertainty. `one-pass` is fast: a head
        predicts from one plain pass what sampling would give (see `distill`). The package has a head for the default
        model.
    samples
        Number of samples N of each kind of uncertainty, or a pair (model, data); none in one pass.
    uncertainty
        `both`, `model` (MC dropout) or `data` (word-level edits).
    combine
        How the two are joined: `individual` averages the two estimates, `unified` pools the samples.
    pooling
        `mean`, `cls` or `first-last-avg`; the model's own by default.
    normalize
        Whether every sample, not their mean, is scaled to length 1; by default yes for cosine models.
    head
        A fitted `Head`, or the folder of one; by default the one saved with the model or shipped with the package.
    whitening
        A fitted `Whitening`, or False for none; by default the one saved with the model, if any.
    dropout
        One rate for all dropout of the network, even where its configuration says 0.
    seed
        Makes the whole result reproducible.
    device, precision
        `cpu`, `cuda`, `mps`, ...; `float32`, or `bfloat16` or `float16` for faster matrix products on a GPU.
    vocabulary
        Words for the edits; by default the whole words of the model's tokenizer.
    tokenizer
        For a Hugging Face model object whose tokenizer cannot be found under its own name.
    revision, trust_remote_code, allow_pickle
        The version on the hub; whether the model's own Python code may run, and pickled weights, which can run code.

    Examples
    --------
    >>> model = Sen2Pro("all-MiniLM-L6-v2")
    >>> g = model.encode(["A man is playing a guitar.", "Someone plays an instrument.", "The market fell."])
    >>> g.shape
    (3, 384)
    >>> model.similarity(g, g)[0].argsort()[::-1].tolist()  # greater is closer
    [0, 1, 2]
    """

    def __init__(
        self, model: Any = DEFAULT_MODEL, *, method: str = "sampling", samples: int | tuple[int, int] | None = None,
        uncertainty: str = "both", combine: str = "individual", pooling: str | None = None,
        normalize: bool | None = None, head: Head | str | Path | None = None, whitening: Whitening | bool | None = None,
        dropout: float | None = None, seed: int = 0, device: str | None = None, precision: str = "float32",
        vocabulary: Sequence[str] | None = None, tokenizer: Any = None, revision: str | None = None,
        trust_remote_code: bool = False, allow_pickle: bool = False,
    ) -> None:  # fmt: skip
        given = {name: value for name, value in locals().items() if name != "self"}
        settings, saved = Settings(**given), SavedModel.find(model)
        self._method = open_method(saved.fill(settings) if saved else settings, saved)

    _method: Method
    _one_pass: OnePass | None = None  # found when it is first needed

    # The parameters above, as they are in use.
    method: str = _read_only("settings.method")
    uncertainty: str = _read_only("settings.uncertainty")
    combine: str = _read_only("settings.combine")
    seed: int = _read_only("settings.seed")
    normalize: bool = _read_only("sampler.normalize")
    whitening: Whitening | None = _read_only("sampler.whitening")
    head: Head | None = _read_only("_method.head")
    sources: tuple[str, ...] = _read_only("settings.sources")
    """The kinds of uncertainty in use."""
    samples: dict[str, int] = _read_only("settings.counts")
    """The number of samples of each kind of uncertainty."""
    passes: int = _read_only("settings.passes")
    """The number of forward passes that a sentence takes."""
    settings: Settings = _read_only("sampler.settings")
    """All settings in use; those left open are filled in."""
    encoder: Encoder = _read_only("sampler.encoder")
    """The network with its tokenizer and pooling."""
    sampler: Sampler = _read_only("_method.sampler")
    """Runs the encoder."""
    dim: int = _read_only("sampler.dim")
    """The number of dimensions of a Gaussian."""

    def __repr__(self) -> str:
        how = "" if self.settings.draws else f" method={self.method!r},"
        samples = self.signature().samples
        return f"Sen2Pro({self.encoder.name!r},{how} uncertainty={self.uncertainty!r}, samples={samples})"

    @property
    def vocabulary(self) -> list[str]:
        """The words that edits draw from."""
        return list(self.sampler.words)

    def find_head(self) -> Head | None:
        """Return the head in use, or the one that this model finds in its folder or the package; None without one."""
        method = self._in_one_pass()
        return method.head if method else None

    def in_one_pass(self) -> Sen2Pro | None:
        """Return this model with the method `one-pass`, on the same network; None if there is no head for it."""
        method = self._in_one_pass()
        return self if method is self._method else self._of(method) if method else None

    def _in_one_pass(self) -> OnePass | None:
        if self._one_pass is None:
            self._one_pass = methods.in_one_pass(self._method)
        return self._one_pass

    @classmethod
    def _of(cls, method: Method) -> Sen2Pro:
        model = cls.__new__(cls)
        model._method = method
        return model

    def signature(self, prompt: str = "", source: str | None = None) -> Signature:
        """Return what travels with every Gaussian: all that is needed to repeat it (for one source, if given)."""
        return methods.describe(self._method, prompt, source)

    def tokenize(
        self, sentences: str | Sequence[str] | Tokens, *, prompt_name: str | None = None, prompt: str | None = None
    ) -> Tokens:
        """Check and tokenize sentences once, for several calls; a warning tells of those that are too long.

        >>> model = Sen2Pro("all-MiniLM-L6-v2")
        >>> tokens = model.tokenize(["It rains.", "The sun shines."])
        >>> model.encode(tokens).shape, model.encode_plain(tokens).shape
        ((2, 384), (2, 384))
        """
        if isinstance(sentences, Tokens):
            return sentences
        tokens = self.encoder.tokenize(check_sentences(sentences), self.encoder.prompt(prompt, prompt_name))
        if cut := sum(tokens.is_cut):
            warnings.warn(TruncationWarning(cut, len(tokens), self.encoder.max_length), stacklevel=3)
        return tokens

    def estimate(
        self, sentences: str | Sequence[str] | Tokens, *, batch_size: int | None = None,
        show_progress_bar: Show = None, prompt_name: str | None = None, prompt: str | None = None,
    ) -> Encoded:  # fmt: skip
        """Return everything that encoding gives: plain vectors and the Gaussians of each source, together and apart.

        Arguments as for `encode`. With a head, all of it comes from one pass.

        >>> encoded = Sen2Pro("all-MiniLM-L6-v2", method="one-pass").estimate(["It rains.", "The sun shines."])
        >>> encoded.gaussian.shape, encoded.plain.shape, list(encoded.parts)
        ((2, 384), (2, 384), ['model', 'data'])
        """
        tokens = self.tokenize(sentences, prompt_name=prompt_name, prompt=prompt)
        return self._method.estimate(tokens, batch_size, show_progress_bar, plain=True)

    def encode(
        self, sentences: str | Sequence[str] | Tokens, *, batch_size: int | None = None,
        show_progress_bar: Show = None, prompt_name: str | None = None, prompt: str | None = None,
    ) -> Gaussian:  # fmt: skip
        """Return the Gaussian of each sentence, with the signature of this model.

        Parameters
        ----------
        sentences
            A list gives a batch (n, k), a single string a single Gaussian (k,), an empty list (0, k).
        batch_size
            Forward passes done at once, by default what fits. It changes speed and memory, not the result.
        show_progress_bar
            By default shown on a terminal for long work. A function is called with the number of samples done since.
        prompt_name, prompt
            A prompt of the model by name, or its text, put before each sentence; edits leave it alone.
        """
        tokens = self.tokenize(sentences, prompt_name=prompt_name, prompt=prompt)
        gaussian = self._method.estimate(tokens, batch_size, show_progress_bar).gaussian
        return gaussian[0] if isinstance(sentences, str) else gaussian

    def encode_sources(
        self, sentences: str | Sequence[str] | Tokens, *, batch_size: int | None = None,
        show_progress_bar: Show = None, prompt_name: str | None = None, prompt: str | None = None,
    ) -> dict[str, Gaussian]:  # fmt: skip
        """Return the Gaussians of model and data uncertainty apart, by name; arguments as for `encode`."""
        tokens = self.tokenize(sentences, prompt_name=prompt_name, prompt=prompt)
        parts = self._method.estimate(tokens, batch_size, show_progress_bar).parts
        return {name: part[0] if isinstance(sentences, str) else part for name, part in parts.items()}

    def encode_plain(
        self, sentences: str | Sequence[str] | Tokens, *, batch_size: int | None = None,
        show_progress_bar: Show = None, prompt_name: str | None = None, prompt: str | None = None,
    ) -> Array:  # fmt: skip
        """Return the plain vectors (n, k) of one deterministic pass: what the encoder gives without sen2pro."""
        tokens = self.tokenize(sentences, prompt_name=prompt_name, prompt=prompt)
        vectors = self.sampler.vectors(tokens, batch_size, show_progress_bar)
        return vectors[0] if isinstance(sentences, str) else vectors

    def join(self, parts: Mapping[str, Gaussian]) -> Gaussian:
        """Join the result of `encode_sources` into that of `encode`."""
        return methods.join(self._method, parts)

    def sample(
        self, sentences: str | Sequence[str] | Tokens, *, batch_size: int | None = None,
        show_progress_bar: Show = None, prompt_name: str | None = None, prompt: str | None = None,
    ) -> Array:  # fmt: skip
        """Return the raw samples (n, N, k), or (N, k) of a single string; arguments as for `encode`.

        With `uncertainty="both"`, N is the sum of both numbers of samples: first the model's, then the data's.

        >>> model = Sen2Pro("all-MiniLM-L6-v2", samples=(3, 2))
        >>> model.sample(["One sentence.", "Another one."]).shape
        (2, 5, 384)
        """
        tokens = self.tokenize(sentences, prompt_name=prompt_name, prompt=prompt)
        result = self.sampler.draw_all(tokens, batch_size, show_progress_bar)
        return result[0] if isinstance(sentences, str) else result

    def distill(
        self, corpus: Sequence[str], *, samples: int = 16, held_out: float = 0.2, batch_size: int | None = None,
        show_progress_bar: Show = None, verbose: bool = True,
    ) -> Sen2Pro:  # fmt: skip
        """Fit a head on a corpus and use it from now on, by the method `one-pass`; returns the model itself.

        The encoder is not changed. A warning says if the head is worse than a constant (see `Head.flaw`).

        Parameters
        ----------
        corpus
            A few thousand sentences, of the kinds and lengths that are to be encoded; repeated ones count once.
        samples
            Samples of each sentence and kind of uncertainty that the head learns from.
        held_out
            Share of the sentences on which choices are made and quality is measured.
        verbose
            Whether to print the quality on the sentences held out.
        """
        tokens = self.tokenize(list(dict.fromkeys(check_sentences(corpus))))
        head = learn(self.sampler, self.signature(), tokens, samples, held_out, batch_size, show_progress_bar)
        self._method = self._one_pass = OnePass(self.sampler.changed(method="one-pass", head=head), head)
        if verbose:
            print(head.report())
        if head.flaw:
            warnings.warn(head.flaw, Sen2ProWarning, stacklevel=2)
        return self

    def fit_whitening(self, corpus: Sequence[str], *, dim: int | None = None, batch_size: int | None = None) -> Sen2Pro:
        """Fit a whitening on the plain vectors of a corpus and use it from now on; returns the model itself."""
        if self.head:
            raise Sen2ProError("the head of this model was fitted without this whitening; whiten first, then distill")
        whitening = Whitening.fit(self.sampler.run_plain(self.tokenize(corpus), (), batch_size).vectors, dim)
        sampler = Sampler(self.encoder, self.settings.changed(whitening=whitening), whitening)
        self._method, self._one_pass = Sampling(sampler), None
        return self

    def specificity(
        self, sentences: str | Sequence[str] | Tokens, *, samples: int | None = None, batch_size: int | None = None,
        show_progress_bar: Show = None, prompt_name: str | None = None, prompt: str | None = None,
    ) -> Specificity:  # fmt: skip
        """Return how specific sentences are, in one pass: greater is more specific, less is vaguer.

        Parameters
        ----------
        sentences
            A list gives arrays (n,), a single string single numbers.
        samples
            Measure with so many inserted words for each sentence (12 is a good number) instead of one pass. A model
            without a head needs this; its result has values that can be ranked, but no percentiles (NaN).
        batch_size, show_progress_bar, prompt_name, prompt
            As for `encode`.

        Examples
        --------
        >>> model = Sen2Pro("all-MiniLM-L6-v2")
        >>> s = model.specificity(["They did it again.", "The bank raised its interest rate to 5 percent."])
        >>> bool(s.score[0] < 20 < 60 < s.score[1])  # percent of English sentences that are vaguer
        True
        """
        tokens = self.tokenize(sentences, prompt_name=prompt_name, prompt=prompt)
        head = self.find_specificity_head()
        found = specificities.measure(self.sampler, head, tokens, samples, batch_size, show_progress_bar)
        return found[0] if isinstance(sentences, str) else found

    def find_specificity_head(self) -> SpecificityHead | None:
        """Return the specificity head in use: the head's, the one in the model's folder, or one of the package."""
        return specificities.find(self.signature(), self.encoder, self.head.specificity if self.head else None)

    def explain(self, sentence: str) -> Explanation:
        """Return each word with how far the meaning moves without it: what carries the sentence, and what is filler.

        >>> explanation = Sen2Pro("all-MiniLM-L6-v2").explain("Well, the guitar was sort of loud.")
        >>> explanation.words[explanation.moves.argmax()]
        'guitar'
        """
        words = check_sentences(check_text("sentence", sentence))[0].split()
        return specificities.explain(words, self.encode_plain(specificities.without_each_word(words)))

    @overload
    def compare(self, a: str, b: str) -> Comparison: ...  # type: ignore[overload-overlap]

    @overload
    def compare(self, a: Texts, b: Texts) -> list[Comparison]: ...

    def compare(self, a: str | Texts, b: str | Texts) -> Comparison | list[Comparison]:
        """Return how likely two sentences mean the same, how similar they are (0 to 5), and which is vaguer.

        Two lists are compared pair by pair, in one pass for all. It is for the default model. For another model, or
        for your own idea of a match, fit `sen2pro.calibration.MatchConfidence` on labelled pairs.

        >>> print(Sen2Pro().compare("A man is playing a guitar.", "A man plays the guitar."))
        96 % likely the same meaning (likely). Similarity 4.6 of 5, probably between 3.2 and 5.0. ...
        >>> pairs = Sen2Pro().compare(["A dog runs.", "A dog runs."], ["A dog is running.", "I like tea."])
        >>> print(pairs[0].verdict, pairs[1].verdict)
        likely unlikely
        """
        if isinstance(a, str) or isinstance(b, str):
            return self._compare(self.tokenize([check_text("a", a), check_text("b", b)]), 1)[0]
        left, right = self.tokenize(a), self.tokenize(b)
        return self._compare(Tokens.join([left, right]), len(left))

    def _compare(self, tokens: Tokens, count: int) -> list[Comparison]:
        method = self._in_one_pass()
        check_comparison(self.signature(), method is not None)
        assert method is not None
        return compare(count, tokens.words, *method.totals(tokens), defaults().pairs)

    def similarity(self, a: Gaussian, b: Gaussian, *, metric: str = "sen2pro", alpha: float | str = "ratio") -> Array:
        """Return the similarity of every Gaussian in `a` with every one in `b`: (n, m), greater is closer.

        It is the negative of `sen2pro.distance`, by default the paper's (Eq. 6) in this model's own geometry.
        """
        return np.float32(0) - distance(a, b, metric, alpha=alpha)  # so that no 0 is printed as -0

    def similarity_pairwise(
        self, a: Gaussian, b: Gaussian, *, metric: str = "sen2pro", alpha: float | str = "ratio"
    ) -> Array:
        """Return the similarity of each Gaussian in `a` with its partner in `b`: (n,), greater is closer."""
        return np.float32(0) - distance_pairwise(a, b, metric, alpha=alpha)

    def save(self, folder: str | Path) -> None:
        """Write encoder, settings and whitening to a folder, for `Sen2Pro.load`.

        The folder is a complete model for sentence-transformers or transformers too. `Sen2Pro(folder)` takes it as an
        encoder with this pooling, geometry, whitening and dropout, and the usual samples, seed and so on.
        """
        methods.save(self._method, folder)

    @classmethod
    def load(cls, folder: str | Path, **changes: Any) -> Sen2Pro:
        """Read a model that `save` wrote; keyword arguments change its settings.

        The folder may hold numbers and plain settings only, so it can come from anyone. What would let it run code
        (`trust_remote_code`, `allow_pickle`) is never read from it: only you can pass that.
        """
        return cls(str(folder), **SavedModel.need(folder).arguments(changes))

    @classmethod
    def from_settings(cls, settings: Settings, saved: SavedModel | None = None) -> Sen2Pro:
        """Make the model of some settings, those of another one for instance (`model.settings`).

        `saved` has its name and the hash of its weights; by default, those saved in its folder are used.
        """
        return cls._of(open_method(settings, saved or SavedModel.find(settings.model)))

    def __getstate__(self) -> methods.Packed:
        return methods.pack(self._method)

    def __setstate__(self, packed: methods.Packed) -> None:
        self._method = methods.unpack(*packed)
