"""The whole pipeline in one class: encoder -> sampling -> estimation -> Gaussian."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sen2pro import __version__
from sen2pro.distances import distance, distance_pairwise
from sen2pro.encoder.encoder import Encoder
from sen2pro.encoder.find import load_source
from sen2pro.errors import HeadMissing, Sen2ProError, Sen2ProWarning, one_of, short_repr
from sen2pro.estimation.head import CONFIG, Head, misfits, on_sphere, shipped
from sen2pro.estimation.moments import Moments, combine
from sen2pro.estimation.shrinkage import shrunk
from sen2pro.estimation.whitening import Whitening
from sen2pro.gaussian import Gaussian
from sen2pro.io import documents
from sen2pro.io.atomic import check_path, new_folder
from sen2pro.progress import Show
from sen2pro.sampling.edits import OPERATIONS
from sen2pro.sampling.sampler import Sampler
from sen2pro.settings import ADDED_LATER, DATA, DEFAULT_MODEL, JSON_CHECKS, WITHOUT_SAMPLES, Settings, arguments
from sen2pro.signature import Signature
from sen2pro.validation import SOURCES, Array, Array64, check_sentences, check_text

if TYPE_CHECKING:
    from sen2pro.calibration.comparison import Comparison
    from sen2pro.specificity import Explanation, Specificity

_SETTINGS_FILE, _WHITENING_FILE = "sen2pro.json", "sen2pro_whitening.safetensors"
_KEPT = ("pooling", "normalize", "dropout")  # what `Sen2Pro(folder)` takes from a saved model
# All that a folder may set; what is optional was not there in version 0.4.
_SAVED = documents.record(
    {"version": documents.TEXT, "name": documents.TEXT, **{n: JSON_CHECKS[n] for n in DATA if n not in ADDED_LATER}},
    {"hash": documents.TEXT, **{name: JSON_CHECKS[name] for name in ADDED_LATER}},
)
_Estimates = dict[str, tuple[Array64, Array64]]  # mean and variance of each source


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
        `sampling` is the paper's: N forward passes for each kind of uncertainty. `one-pass` predicts what sampling
        would give from one plain pass, by a head (see `distill`); the package has one for the default model.
        `shrinkage` joins few samples with the head's prediction. `analytic` follows dropout through the network beside
        one pass, and the head corrects the result; the data's uncertainty is the head's.
    samples
        Number of samples N of each kind of uncertainty, or a pair (model, data); none in one pass or analytic.
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
        One rate for all dropout of the network, also where its configuration says 0.
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
        self,
        model: Any = DEFAULT_MODEL,
        *,
        method: str = "sampling",
        samples: int | tuple[int, int] | None = None,
        uncertainty: str = "both",
        combine: str = "individual",
        pooling: str | None = None,
        normalize: bool | None = None,
        head: Head | str | Path | None = None,
        whitening: Whitening | bool | None = None,
        dropout: float | None = None,
        seed: int = 0,
        device: str | None = None,
        precision: str = "float32",
        vocabulary: Sequence[str] | None = None,
        tokenizer: Any = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        allow_pickle: bool = False,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        self._start(Settings(**given), _saved_settings(model))

    def _start(self, settings: Settings, saved: Mapping[str, Any]) -> None:
        """Load the model. Settings left open take the values saved with it."""
        settings = settings.changed(**{name: saved.get(name) for name in _KEPT if getattr(settings, name) is None})
        self.encoder = Encoder(settings)
        self.encoder.name = saved.get("name", self.encoder.name)
        if saved.get("hash") not in (None, self.encoder.hash):
            raise Sen2ProError(
                f"the weights in {settings.model} were changed or damaged since the model was saved. If you changed "
                f"them yourself, take the keys 'hash' and 'digest' out of {_SETTINGS_FILE}"
            )
        if settings.normalize is None:
            settings = settings.changed(normalize=self.encoder.unit)
        self._settings = settings
        whitening = self._find_whitening(settings.whitening, saved)
        self._sampler = Sampler(
            self.encoder, settings.seed, lambda: self.vocabulary, bool(settings.normalize), whitening
        )
        if "model" in self.sources:
            self._check_dropout()
        self._head: Head | None = None
        if self.method == "analytic":
            self._prepare_analytic(settings.head)
        elif self.method != "sampling" or settings.head is not None:
            self._head = self._find_head(settings.head)

    # The parameters above, as they are in use.
    method: str = _read_only("_settings.method")
    uncertainty: str = _read_only("_settings.uncertainty")
    combine: str = _read_only("_settings.combine")
    seed: int = _read_only("_settings.seed")
    normalize: bool = _read_only("_sampler.normalize")
    whitening: Whitening | None = _read_only("_sampler.whitening")
    head: Head | None = _read_only("_head")
    sources: tuple[str, ...] = _read_only("_settings.sources")
    """The kinds of uncertainty in use."""
    samples: dict[str, int] = _read_only("_settings.counts")
    """The number of samples of each kind of uncertainty."""
    settings: Settings = _read_only("_settings")
    """All settings in use; what was left open is filled in."""
    sampler: Sampler = _read_only("_sampler")
    """What runs the encoder."""

    def _find_head(self, head: Head | str | Path | None) -> Head:
        signature = self.signature()
        if head is not None and not isinstance(head, (Head, str, Path)):
            raise Sen2ProError(f"head is a fitted Head or the folder of one, not {short_repr(head)}")
        if head is None and self.encoder.folder and (self.encoder.folder / CONFIG).is_file():
            head = self.encoder.folder
        fitting = Head.load(head) if isinstance(head, (str, Path)) else head or shipped(signature)
        if fitting is None:
            raise HeadMissing(
                f"there is no head for {self.encoder.name} with these settings; fit one on a few thousand sentences: "
                "Sen2Pro(...).distill(corpus), or sen2pro distill"
            )
        missing = [f"no {source} uncertainty" for source in self.sources if source not in fitting.sources]
        reasons = misfits(fitting.space, signature) or missing
        if not reasons and (fitting.dim != self.dim or max(fitting.layers, default=-1) >= self.encoder.depth):
            reasons = [f"it was made for another network, with {fitting.dim} dimensions"]
        if reasons:
            raise HeadMissing(f"the head does not fit this model: {'; '.join(reasons)}; fit one for it with distill")
        return fitting

    def _prepare_analytic(self, head: Head | str | Path | None) -> None:
        """Check that dropout can be followed through this network, and find the head that corrects the result."""
        if "model" in self.sources:
            self.encoder.propagate(self.encoder.tokens(["a probe"]))
        self._head = self._find_head(head)
        if "model" in self.sources and self._head.correction is None:
            raise HeadMissing(
                f"the head for {self.encoder.name} has no correction of analytic variances. It was fitted before "
                "0.11, or where dropout cannot be followed, or the correction was worse than none; fit a head with "
                "distill, from a folder and on a CPU, or use 'one-pass'"
            )

    def _find_whitening(self, whitening: Whitening | bool | None, saved: Mapping[str, Any]) -> Whitening | None:
        if whitening is None and self.encoder.folder and (self.encoder.folder / _WHITENING_FILE).is_file():
            if self.encoder.pooling != saved.get("pooling"):
                raise Sen2ProError(
                    f"the whitening saved with this model does not fit {self.encoder.pooling_name} pooling; leave the "
                    "pooling as it was saved, or pass whitening=False"
                )
            return Whitening.load(self.encoder.folder / _WHITENING_FILE)
        if isinstance(whitening, Whitening):
            return whitening
        if whitening is not None and whitening is not False:
            raise Sen2ProError("whitening is False or a fitted Whitening; to fit one: model.fit_whitening(corpus)")
        return None

    def _check_dropout(self) -> None:
        if not any(site.rate for site in self.encoder.sites):
            raise Sen2ProError(
                "dropout is 0 in this model, so every sample would be the same; pass dropout=0.1 (a rate it was not "
                "trained with) or uncertainty='data'"
            )
        if not self.encoder.trained_with_dropout:
            rough = f"this model was not trained with dropout; its variances at a rate of {self.encoder.rate} are rough"
            warnings.warn(rough, Sen2ProWarning, stacklevel=3)

    def __repr__(self) -> str:
        how = "" if self.method == "sampling" else f" method={self.method!r},"
        counts = self._counts(self.sources)
        return f"Sen2Pro({self.encoder.name!r},{how} uncertainty={self.uncertainty!r}, samples={counts})"

    def _counts(self, sources: Sequence[str]) -> str:
        return "0" if not self._settings.draws else "+".join(str(self.samples[name]) for name in sources)

    def find_head(self) -> Head | None:
        """Return the head that this model finds by itself, in its folder or with the package; None if there is none."""
        try:
            return self._find_head(None)
        except HeadMissing:
            return None

    def in_one_pass(self) -> Sen2Pro | None:
        """Return this model with the method `one-pass`, on the same network; None if there is no head for it."""
        head = self._head or self.find_head()
        if head is None or self.method == "one-pass":
            return self if head else None
        other = Sen2Pro.__new__(Sen2Pro)
        vars(other).update(vars(self))
        other._head, other._settings = head, self._settings.changed(method="one-pass")
        return other

    @property
    def passes(self) -> int:
        """How many forward passes a sentence takes."""
        return 1 if not self._settings.draws else sum(self.samples[source] for source in self.sources)

    def finds_its_whitening(self) -> bool:
        """Tell whether the whitening in use is the one in this model's folder."""
        saved = self._find_whitening(None, {"pooling": self.encoder.pooling})
        return saved is not None and self.whitening is not None and saved.hash == self.whitening.hash

    @property
    def vocabulary(self) -> list[str]:
        """The words that edits draw from."""
        words = self._settings.vocabulary or self.encoder.vocabulary
        if not words:
            raise Sen2ProError("this tokenizer has no whole words to edit with; pass vocabulary=[...]")
        return list(words)

    @property
    def dim(self) -> int:
        """The number of dimensions of a Gaussian."""
        return self.whitening.dim if self.whitening else self.encoder.dim

    def signature(self, prompt: str = "", source: str | None = None) -> Signature:
        """Return what travels with every Gaussian: all that is needed to repeat it (for one source, if given)."""
        sources = (one_of("source", source, SOURCES),) if source is not None else self.sources
        check_text("prompt", prompt)
        rates = sorted({site.rate for site in self.encoder.sites}) if "model" in sources else []
        words = self._settings.vocabulary
        own = "" if words is None else "+vocabulary " + hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]
        return Signature(
            model=self.encoder.name,
            hash=self.encoder.hash,
            pooling=self.encoder.pooling_name,
            geometry="unit" if self.normalize else "raw",
            whitening=self.whitening.hash if self.whitening else "no",
            uncertainty=source or self.uncertainty,
            samples=self._counts(sources),
            dropout=",".join(f"{rate:g}" for rate in rates) or "no",
            max_length=str(self.encoder.max_length),
            precision=self.encoder.precision,
            edits=",".join(OPERATIONS) + own if "data" in sources else "no",
            prompt=prompt or "no",
            seed=str(self.seed) if self._settings.draws else "no",
            combine=self.combine if len(sources) > 1 else "no",
            estimator=self._estimator(),
            version=__version__,
        )

    def _estimator(self) -> str:
        if self.method == "sampling":
            return "diagonal"
        correction = self._head.correction if self._head and self._spreads else None
        return f"{self.method} ({f'correction {correction.hash}, ' if correction else ''}{self._head})"

    def encode(
        self, sentences: str | Sequence[str], *, batch_size: int | None = None, show_progress_bar: Show = None,
        prompt_name: str | None = None, prompt: str | None = None,
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
        prompt = self.encoder.prompt(prompt, prompt_name)
        return self.join(
            self.encode_sources(sentences, batch_size=batch_size, show_progress_bar=show_progress_bar, prompt=prompt)
        )

    def encode_sources(
        self, sentences: str | Sequence[str], *, batch_size: int | None = None, show_progress_bar: Show = None,
        prompt_name: str | None = None, prompt: str | None = None,
    ) -> dict[str, Gaussian]:  # fmt: skip
        """Return the Gaussians of model and data uncertainty apart, by name; arguments as for `encode`."""
        parts = self._encoded(sentences, self.encoder.prompt(prompt, prompt_name), batch_size, show_progress_bar)[1]
        return {name: part[0] for name, part in parts.items()} if isinstance(sentences, str) else parts

    def encode_with_plain(
        self, sentences: Sequence[str], *, prompt_name: str | None = None
    ) -> tuple[Array, dict[str, Gaussian]]:
        """Return what `encode_plain` and `encode_sources` give; with a head both are of the same pass."""
        plain, parts = self._encoded(sentences, self.encoder.prompt(None, prompt_name), None, None)
        return self.encode_plain(check_sentences(sentences), prompt_name=prompt_name) if plain is None else plain, parts

    def _encoded(
        self, sentences: str | Sequence[str], prefix: str, batch_size: int | None, show: Show
    ) -> tuple[Array | None, dict[str, Gaussian]]:
        """Return the Gaussians of each source, and the plain vectors if a pass gave them."""
        texts = check_sentences(sentences)
        counts = {source: self.samples[source] for source in self.sources}
        estimates: _Estimates = {}
        plain = coverage = None
        if self._settings.draws or not texts:
            moments = {source: Moments(len(texts), self.dim) for source in counts}
            for source, index, _, vectors in self.sampler.draw(texts, prefix, counts, batch_size, show):
                moments[source].update(index, vectors)
            estimates = {source: (each.mean, each.variance) for source, each in moments.items()}
        if self.method != "sampling" and texts:
            plain, estimates, coverage = self._predicted(texts, prefix, estimates, batch_size, show)
        return plain, {name: Gaussian(*x, self.signature(prefix, name), coverage) for name, x in estimates.items()}

    def join(self, parts: Mapping[str, Gaussian]) -> Gaussian:
        """Join what `encode_sources` returned into what `encode` returns."""
        if not isinstance(parts, Mapping) or set(parts) != set(self.sources):
            given = list(parts) if isinstance(parts, Mapping) else parts
            wanted = " and ".join(self.sources)
            raise Sen2ProError(f"this model joins {wanted}, as encode_sources gives them, not {short_repr(given)}")
        estimates = [(parts[name].mean, parts[name].variance) for name in self.sources]
        counts = [self.samples[name] for name in self.sources]
        first = parts[self.sources[0]]
        prompt = first.signature.prompt if first.signature and first.signature.prompt != "no" else ""
        return Gaussian(*combine(estimates, counts, self.combine), self.signature(prompt), first.coverage)

    def _predicted(
        self, texts: list[str], prompt: str, sampled: _Estimates, batch_size: int | None, show: Show
    ) -> tuple[Array, _Estimates, Array]:
        """Return the plain vectors, mean and variance of each source, predicted or shrunk, and the head's coverage."""
        assert self._head is not None
        result: _Estimates = {}
        head, alone, spread = self._head, not self._settings.draws, self._spreads
        states = self.sampler.plain(
            texts, prompt, layers=head.layers, batch_size=batch_size, show=show if alone else False,
            warn=alone, spread=spread,
        )  # fmt: skip
        plain = self.sampler.finish(states.vectors)
        for name in self.sources:
            shift, variance = head.predict(states, name)
            mean = plain + shift
            if spread and name == "model":
                variance = head.correct(states, self.sampler.spread(states))
            if name in sampled:
                n = self.samples[name]
                variance = shrunk(sampled[name][1] * n / (n - 1), n, variance, head.strengths[name])
                error, noise = head.errors[name], variance / n
                mean = mean + error / np.maximum(error + noise, 1e-30) * (sampled[name][0] - mean)
            result[name] = on_sphere(mean, variance) if self.normalize else mean, variance
        return plain, result, head.coverage(states)

    @property
    def _spreads(self) -> bool:
        """Whether variances are propagated through the network."""
        return self.method == "analytic" and "model" in self.sources

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
        from sen2pro.estimation.distill import learn

        texts = list(dict.fromkeys(check_sentences(corpus)))
        self._head = learn(self, texts, samples, held_out, batch_size, show_progress_bar)
        self._settings = self._settings.changed(method="one-pass", head=self._head)
        if verbose:
            print(self._head.report())
        if self._head.flaw:
            warnings.warn(self._head.flaw, Sen2ProWarning, stacklevel=2)
        return self

    def sample(
        self, sentences: str | Sequence[str], *, batch_size: int | None = None, show_progress_bar: Show = None,
        prompt_name: str | None = None, prompt: str | None = None,
    ) -> Array:  # fmt: skip
        """Return the raw samples (n, N, k), or (N, k) of a single string; arguments as for `encode`.

        With `uncertainty="both"`, N is the sum of both numbers of samples: first the model's, then the data's.

        >>> model = Sen2Pro("all-MiniLM-L6-v2", samples=(3, 2))
        >>> model.sample(["One sentence.", "Another one."]).shape
        (2, 5, 384)
        """
        texts, prefix = check_sentences(sentences), self.encoder.prompt(prompt, prompt_name)
        counts = {source: self.samples[source] for source in self.sources}
        result = np.empty((len(texts), sum(counts.values()), self.dim), np.float32)
        for source, index, number, vectors in self.sampler.draw(texts, prefix, counts, batch_size, show_progress_bar):
            offset = 0 if source == self.sources[0] else counts[self.sources[0]]
            result[index, offset + number] = vectors
        return result[0] if isinstance(sentences, str) else result

    def encode_plain(
        self, sentences: str | Sequence[str], *, batch_size: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> Array:  # fmt: skip
        """Return the plain vectors (n, k) of one deterministic pass: what the encoder gives without sen2pro."""
        texts, prefix = check_sentences(sentences), self.encoder.prompt(prompt, prompt_name)
        vectors = self.sampler.finish(self.sampler.plain(texts, prefix, batch_size=batch_size).vectors)
        return vectors[0] if isinstance(sentences, str) else vectors

    def fit_whitening(self, corpus: Sequence[str], *, dim: int | None = None, batch_size: int | None = None) -> Sen2Pro:
        """Fit a whitening on the plain vectors of a corpus and use it from now on; returns the model itself."""
        if self._head:
            raise Sen2ProError("the head of this model was fitted without this whitening; whiten first, then distill")
        prompt = self.encoder.prompt(None, None)
        plain = self.sampler.plain(check_sentences(corpus), prompt, batch_size=batch_size).vectors
        self._sampler.whitening = whitening = Whitening.fit(plain, dim)
        self._settings = self._settings.changed(whitening=whitening)
        return self

    def specificity(
        self, sentences: str | Sequence[str], *, samples: int | None = None, batch_size: int | None = None,
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
        from sen2pro.specificity.measure import specificity

        return specificity(
            self, sentences, samples=samples, batch_size=batch_size, show_progress_bar=show_progress_bar,
            prompt_name=prompt_name, prompt=prompt,
        )  # fmt: skip

    def explain(self, sentence: str) -> Explanation:
        """Return each word with how far the meaning moves without it: what carries the sentence, and what is filler.

        >>> explanation = Sen2Pro("all-MiniLM-L6-v2").explain("Well, the guitar was sort of loud.")
        >>> explanation.words[explanation.moves.argmax()]
        'guitar'
        """
        from sen2pro.specificity.measure import explain

        return explain(self, sentence)

    def compare(self, a: str, b: str) -> Comparison:
        """Return how likely two sentences mean the same, how similar they are (0 to 5), and which is vaguer.

        It is for the default model. For another model, or for your own idea of a match, fit
        `sen2pro.calibration.MatchConfidence` on labelled pairs.

        >>> print(Sen2Pro().compare("A man is playing a guitar.", "A man plays the guitar."))
        85 % likely the same meaning (likely). Similarity 4.4 of 5, probably between 3.1 and 5.0. ...
        """
        from sen2pro.calibration.comparison import compare

        return compare(self, a, b)

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
        about = {"version": __version__, "name": self.encoder.name, "hash": self.encoder.hash}
        with new_folder(folder) as temporary:
            self.encoder.save(temporary)
            if self.whitening:
                self.whitening.save(temporary / _WHITENING_FILE)
            if self._head:
                self._head.save(temporary)
            documents.write(temporary / _SETTINGS_FILE, about | self._settings.to_json())

    @classmethod
    def load(cls, folder: str | Path, **changes: Any) -> Sen2Pro:
        """Read a model that `save` wrote; keyword arguments change its settings.

        The folder may hold numbers and plain settings only, so it can come from anyone. What would let it run code
        (`trust_remote_code`, `allow_pickle`) is never read from it: only you can pass that.
        """
        saved = _saved_settings(folder)
        if not saved:
            raise Sen2ProError(f"there is no {_SETTINGS_FILE} in {folder}; for a plain encoder use Sen2Pro(...)")
        settings = {**arguments(saved), **changes}
        if settings["method"] in WITHOUT_SAMPLES and "samples" not in changes:
            settings["samples"] = None
        return cls(str(folder), **settings)

    @classmethod
    def from_settings(cls, settings: Settings, saved: Mapping[str, str] | None = None) -> Sen2Pro:
        """Make the model of some settings, those of another one for instance (`model.settings`).

        `saved` is what is known of it besides: by default what its folder says.
        """
        model = cls.__new__(cls)
        model._start(settings, _saved_settings(settings.model) if saved is None else saved)
        return model

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name or folder if the weights are unchanged, else the weights."""
        settings = self._settings.changed(head=self._head, whitening=self.whitening or False)
        if isinstance(settings.model, (str, Path)) and self.encoder.is_as_loaded:
            return Sen2Pro.from_settings, (settings, {"name": self.encoder.name, "hash": self.encoder.hash})
        with tempfile.TemporaryDirectory() as folder:
            self.encoder.save(Path(folder))
            paths = [path for path in Path(folder).rglob("*") if path.is_file()]
            files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        return _unpickled, (settings.changed(model=None, tokenizer=None), self.encoder.name, files)


def _unpickled(settings: Settings, name: str, files: Mapping[str, bytes]) -> Sen2Pro:
    """Load a model that was pickled with all its files: a network with the hooks of its library cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        for place, data in files.items():
            path = Path(folder, place)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        source, tokenizer = load_source(settings, Path(folder))
    found = settings.changed(model=source, tokenizer=tokenizer)
    return Sen2Pro.from_settings(found, {"name": name})


def _saved_settings(model: Any) -> dict[str, Any]:
    """Return what `Sen2Pro.save` wrote into a folder; nothing for any other model."""
    path = check_path(model) / _SETTINGS_FILE if isinstance(model, (str, Path)) else None
    return documents.read(path, _SAVED) if path and path.is_file() else {}
