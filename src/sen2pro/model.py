"""The whole pipeline in one class: encoder -> sampling -> estimation -> Gaussian."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro import __version__
from sen2pro.checks import SOURCES, check_sentences, check_text
from sen2pro.distances import distance, distance_pairwise
from sen2pro.encoder.encoder import Encoder
from sen2pro.errors import HeadMissing, Sen2ProError, Sen2ProWarning, one_of, shown
from sen2pro.estimation.head import CONFIG, Head, on_sphere, shipped
from sen2pro.estimation.moments import Moments, combine
from sen2pro.estimation.shrinkage import shrunk, shrunk_to_batch
from sen2pro.estimation.whitening import Whitening
from sen2pro.files import documents
from sen2pro.files.atomic import new_folder
from sen2pro.files.documents import TEXT, record
from sen2pro.files.text import check_path
from sen2pro.gaussian import Gaussian
from sen2pro.progress import Show
from sen2pro.sampling.edits import OPERATIONS
from sen2pro.sampling.sampler import Sampler
from sen2pro.settings import ADDED_LATER, DEFAULT_MODEL, JSON_CHECKS, Settings, arguments
from sen2pro.signature import Signature
from sen2pro.types import Array, Array64

_SETTINGS_FILE, _WHITENING_FILE = "sen2pro.json", "sen2pro_whitening.safetensors"


class Sen2Pro:
    """Turn sentences into Gaussians with any pre-trained encoder, without training.

    Parameters
    ----------
    model
        Hub id, local folder, `SentenceTransformer`, or Hugging Face model object.
    method
        `sampling` is the paper's: N forward passes for each kind of uncertainty. `one-pass` predicts what sampling
        would give from a single plain pass, by a head (see `distill`); the package includes one for the default model.
        `shrinkage` joins few samples with what the head predicts or, if there is none, with what the sentences of
        the batch have in common: then, and only then, a result depends on its batch.
    samples
        Number of samples N of each source of uncertainty, or a pair (model, data); without meaning in one pass.
    uncertainty
        `both`, `model` (MC dropout) or `data` (word-level edits).
    combine
        How the two are joined: `individual` averages the two estimates, `unified` pools the samples.
    pooling
        `mean`, `cls` or `first-last-avg`; the model's own by default.
    normalize
        Whether every sample is scaled to length 1. By default as the model is made: yes for cosine models. The
        mean of the samples is never scaled again; its length says how much the samples agree.
    head
        A fitted `Head`, or the folder of one; by default the one saved with the model or shipped with the package.
    whitening
        A fitted `Whitening`, or False for none; by default the one saved with the model, if any.
    dropout
        Overrides every dropout rate of the network, also where its configuration says 0.
    seed
        Makes the whole result reproducible.
    device
        `cpu`, `cuda`, `mps`, ...; the best there is by default.
    precision
        `float32`; `bfloat16` or `float16` make matrix products cheaper on a GPU (autocast), for rounding errors far
        below dropout's own noise.
    vocabulary
        Words for the edits; by default the whole words of the model's tokenizer.
    tokenizer
        For a Hugging Face model object whose tokenizer cannot be found under its own name.
    revision, trust_remote_code, allow_pickle
        For models from the hub: which version, whether its Python code may run, whether weights in pickle format
        (which can run code too) may be read.

    Examples
    --------
    >>> model = Sen2Pro("all-MiniLM-L6-v2")
    >>> g = model.encode(["A man is playing a guitar.", "Someone plays an instrument.", "The market fell."])
    >>> g.shape
    (3, 384)
    >>> similarity = model.similarity(g, g)  # greater is closer
    >>> bool(similarity[0, 1] > similarity[0, 2])
    True
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
        given = {name: value for name, value in locals().items() if name in _NAMES}
        self._start(Settings(**given), _saved_settings(model))

    def _start(self, settings: Settings, saved: Mapping[str, Any]) -> None:
        """Load the model. Settings left open take the values saved with it."""
        own = {name: saved.get(name) for name in _OF_THE_ENCODER if getattr(settings, name) is None}
        settings = settings.changed(**own)
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
        self._sampler = Sampler(
            self.encoder,
            settings.seed,
            words=self._words,
            normalize=bool(settings.normalize),
            whitening=self._find_whitening(settings.whitening, saved),
        )
        if "model" in self.sources:
            self._check_dropout()
        self._head: Head | None = None
        if self.method != "sampling" or settings.head is not None:
            self._head = self._find_head(settings.head)

    @property
    def settings(self) -> Settings:
        """The settings in use; what was left open is filled in."""
        return self._settings

    @property
    def method(self) -> str:
        """`sampling`, `shrinkage` or `one-pass`."""
        return self._settings.method

    @property
    def uncertainty(self) -> str:
        """`both`, `model` or `data`."""
        return self._settings.uncertainty

    @property
    def combine(self) -> str:
        """How the two kinds of uncertainty are joined."""
        return self._settings.combine

    @property
    def sources(self) -> tuple[str, ...]:
        """The kinds of uncertainty in use."""
        return self._settings.sources

    @property
    def samples(self) -> dict[str, int]:
        """The number of samples of each kind of uncertainty."""
        return self._settings.counts

    @property
    def seed(self) -> int:
        """What makes the result reproducible."""
        return self._settings.seed

    @property
    def depends_on_batch(self) -> bool:
        """True only for shrinkage without a head: its result depends on the other sentences of the batch."""
        return self.method == "shrinkage" and self._head is None

    @property
    def sampler(self) -> Sampler:
        """What runs the encoder."""
        return self._sampler

    @property
    def head(self) -> Head | None:
        """The head that predicts in one pass, if this model has one."""
        return self._head

    def _find_head(self, head: Head | str | Path | None) -> Head | None:
        signature = self.signature()
        if head is not None and not isinstance(head, (Head, str, Path)):
            raise Sen2ProError(f"head is a fitted Head or the folder of one, not {shown(head)}")
        if head is None and self.encoder.folder and (self.encoder.folder / CONFIG).is_file():
            head = self.encoder.folder
        found = Head.load(head) if isinstance(head, (str, Path)) else head or shipped(signature)
        if found is None:
            if self.method == "one-pass":
                raise HeadMissing(
                    f"there is no head for {self.encoder.name} with these settings; fit one on a few thousand "
                    "sentences: Sen2Pro(...).distill(corpus), or sen2pro distill"
                )
            return None
        misfits = found.misfits(signature) or [f"no {s} uncertainty" for s in self.sources if s not in found.sources]
        if not misfits and (found.dim != self.dim or max(found.layers, default=-1) >= self.encoder.depth):
            misfits = [f"it was made for another network, with {found.dim} dimensions"]
        if misfits:
            raise HeadMissing(f"the head does not fit this model: {'; '.join(misfits)}; fit one for it with distill")
        return found

    def _find_whitening(self, whitening: Whitening | bool | None, saved: Mapping[str, Any]) -> Whitening | None:
        if isinstance(whitening, Whitening):
            return whitening
        if whitening is not None and whitening is not False:
            raise Sen2ProError(
                "whitening is a fitted Whitening, or False; to fit one: Sen2Pro(...).fit_whitening(corpus)"
            )
        path = self.encoder.folder / _WHITENING_FILE if self.encoder.folder else None
        if whitening is False or path is None or not path.is_file():
            return None
        if self.encoder.pooling != saved.get("pooling"):
            raise Sen2ProError(
                f"the whitening saved with this model does not fit {self.encoder.pooling_name} pooling; leave the "
                "pooling as it was saved, or pass whitening=False"
            )
        return Whitening.load(path)

    def _check_dropout(self) -> None:
        rates = {site.rate for site in self.encoder.sites}
        if not any(rates):
            raise Sen2ProError(
                "dropout is 0 in this model, so every sample would be the same; pass dropout=0.1 (a rate it was not "
                "trained with) or uncertainty='data'"
            )
        if not self.encoder.trained_with_dropout:
            warnings.warn(
                f"this model was not trained with dropout; treat its variances at a rate of {self.encoder.rate} as a "
                "rough guide",
                Sen2ProWarning,
                stacklevel=3,
            )

    def __repr__(self) -> str:
        how = "" if self.method == "sampling" else f" method={self.method!r},"
        counts = self._counts(self.sources)
        return f"Sen2Pro({self.encoder.name!r},{how} uncertainty={self.uncertainty!r}, samples={counts})"

    def _counts(self, sources: Sequence[str]) -> str:
        return "0" if self.method == "one-pass" else "+".join(str(self.samples[name]) for name in sources)

    def find_head(self) -> Head | None:
        """Return the head that this model finds by itself, in its folder or with the package; None if there is none."""
        try:
            return self._find_head(None)
        except HeadMissing:
            return None

    def finds_its_whitening(self) -> bool:
        """Tell whether the whitening in use is the one in this model's folder."""
        found = self._find_whitening(None, {"pooling": self.encoder.pooling})
        return found is not None and self.whitening is not None and found.hash == self.whitening.hash

    @property
    def normalize(self) -> bool:
        """Whether every sample is scaled to length 1."""
        return self.sampler.normalize

    @property
    def whitening(self) -> Whitening | None:
        """The whitening in use, if any."""
        whitening = self.sampler.whitening
        return whitening if isinstance(whitening, Whitening) else None

    @property
    def vocabulary(self) -> list[str]:
        """The words that edits draw from."""
        return list(self._words())

    def _words(self) -> Sequence[str]:
        words = self._settings.vocabulary or self.encoder.vocabulary
        if not words:
            raise Sen2ProError("this tokenizer has no whole words to edit with; pass vocabulary=[...]")
        return words

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
        own = "" if words is None else "+vocabulary " + _short_hash("\n".join(words))
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
            seed=str(self.seed) if self.method != "one-pass" else "no",
            combine=self.combine if len(sources) > 1 else "no",
            estimator=self._estimator(),
            version=__version__,
        )

    def _estimator(self) -> str:
        head = getattr(self, "_head", None)  # not there while it is being looked for
        return "diagonal" if self.method == "sampling" else f"{self.method} ({head or 'prior from the batch'})"

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress_bar: Show = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> Gaussian:
        """Return the Gaussian of each sentence.

        Parameters
        ----------
        sentences
            A list gives a batch (n, k), a single string a single Gaussian (k,), an empty list (0, k).
        batch_size
            Forward passes done at once, by default as many as a CPU's cache (or a GPU) takes. It changes speed and
            memory, not the result.
        show_progress_bar
            By default shown on a terminal when the work takes more than a few batches. A function is called with
            the number of samples done since it was last called.
        prompt_name, prompt
            A prompt of the model by name, or its text, put before each sentence; edits leave it alone.

        Returns
        -------
        Gaussian
            float32 mean and variance, with the signature of this model.
        """
        parts = self.encode_sources(
            sentences,
            batch_size=batch_size,
            show_progress_bar=show_progress_bar,
            prompt_name=prompt_name,
            prompt=prompt,
        )
        return self.join(parts)

    def encode_sources(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress_bar: Show = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> dict[str, Gaussian]:
        """Return the Gaussians of model and data uncertainty apart, by name; arguments as for `encode`."""
        texts, prefix = check_sentences(sentences), self.encoder.prompt(prompt, prompt_name)
        found: dict[str, tuple[Array64, Array64]] = {}
        if self.method != "one-pass":
            moments = {source: Moments(len(texts), self.dim) for source in self.sources}
            for source, index, _, vectors in self._draw(texts, prefix, batch_size, show_progress_bar):
                moments[source].update(index, vectors)
            found = {source: (m.mean, m.variance) for source, m in moments.items()}
        coverage = None
        if self.method != "sampling" and texts:
            found, coverage = self._with_head(texts, prefix, found, batch_size, show_progress_bar)
        empty = np.zeros((0, self.dim))
        parts = {
            name: Gaussian(*found.get(name, (empty, empty)), self.signature(prefix, name), coverage)
            for name in self.sources
        }
        return {name: part[0] for name, part in parts.items()} if isinstance(sentences, str) else parts

    def _draw(
        self, texts: list[str], prompt: str, batch_size: int | None, show: Show
    ) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64], Array]]:
        counts = {source: self.samples[source] for source in self.sources}
        return self.sampler.draw(texts, prompt, counts, batch_size, show)

    def join(self, parts: Mapping[str, Gaussian]) -> Gaussian:
        """Join what `encode_sources` returned into what `encode` returns."""
        if not isinstance(parts, Mapping) or set(parts) != set(self.sources):
            given = list(parts) if isinstance(parts, Mapping) else parts
            raise Sen2ProError(
                f"this model joins {' and '.join(self.sources)}, as encode_sources gives them, not {shown(given)}"
            )
        estimates = [(parts[name].mean, parts[name].variance) for name in self.sources]
        signature = parts[self.sources[0]].signature
        prompt = signature.prompt if signature and signature.prompt != "no" else ""
        counts = [self.samples[name] for name in self.sources]
        coverage = parts[self.sources[0]].coverage
        return Gaussian(*combine(estimates, counts, self.combine), self.signature(prompt), coverage)

    def _with_head(
        self,
        texts: list[str],
        prompt: str,
        sampled: Mapping[str, tuple[Array64, Array64]],
        batch_size: int | None,
        show: Show,
    ) -> tuple[dict[str, tuple[Array64, Array64]], Array | None]:
        """Return mean and variance of each source, predicted or shrunk, and how well the head knows the sentences."""
        result: dict[str, tuple[Array64, Array64]] = {}
        if self._head is None:
            for name, (mean, variance) in sampled.items():
                n = self.samples[name]
                result[name] = mean, shrunk_to_batch(variance * n / (n - 1), n)
            return result, None
        shown = show if self.method == "one-pass" else False
        states = self.sampler.plain(
            texts, prompt, layers=self._head.layers, batch_size=batch_size, show=shown, warn=self.method == "one-pass"
        )
        plain = self.sampler.finish(states.vectors)
        for name in self.sources:
            shift, variance = self._head.predict(states, name)
            mean = plain + shift
            if name in sampled:
                n = self.samples[name]
                variance = shrunk(sampled[name][1] * n / (n - 1), n, variance, self._head.strengths[name])
                error, noise = self._head.errors[name], variance / n
                mean = mean + error / np.maximum(error + noise, 1e-30) * (sampled[name][0] - mean)
            result[name] = on_sphere(mean, variance) if self.normalize else mean, variance
        return result, self._head.coverage(states)

    def distill(
        self,
        corpus: Sequence[str],
        *,
        samples: int = 16,
        held_out: float = 0.2,
        batch_size: int | None = None,
        show_progress_bar: Show = None,
        verbose: bool = True,
    ) -> Sen2Pro:
        """Fit a head on a corpus, so that one plain pass predicts what sampling would give; returns the model itself.

        Takes unlabelled sentences only, of the kinds and lengths that are to be encoded, a few thousand of them; the
        encoder is not changed. From now on the method is `one-pass`. A warning says if the head is worse than a
        constant (see `Head.flaw`).

        Parameters
        ----------
        corpus
            Sentences; repeated ones count once.
        samples
            Samples of each sentence and kind of uncertainty that the head learns from.
        held_out
            Share of the sentences on which choices are made and quality is measured.
        batch_size, show_progress_bar
            As for `encode`.
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
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress_bar: Show = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> Array:
        """Return the raw samples (n, N, k), or (N, k) of a single string, to estimate from for yourself.

        With `uncertainty="both"` N is the sum of both numbers of samples, those of the model first. Arguments as
        for `encode`; unlike there, memory grows with N.

        >>> model = Sen2Pro("all-MiniLM-L6-v2", samples=(3, 2))
        >>> model.sample(["One sentence.", "Another one."]).shape
        (2, 5, 384)
        """
        texts, prefix = check_sentences(sentences), self.encoder.prompt(prompt, prompt_name)
        result = np.empty((len(texts), sum(self.samples[name] for name in self.sources), self.dim), np.float32)
        for source, index, number, vectors in self._draw(texts, prefix, batch_size, show_progress_bar):
            offset = 0 if source == self.sources[0] else self.samples[self.sources[0]]
            result[index, offset + number] = vectors
        return result[0] if isinstance(sentences, str) else result

    def sen2vec(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> Array:
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

    def similarity(self, a: Gaussian, b: Gaussian, *, metric: str = "sen2pro", alpha: float | str = "ratio") -> Array:
        """Return the similarity of every Gaussian in `a` with every one in `b`: (n, m), greater is closer.

        It is the negative of `sen2pro.distance`; by default of the paper's distance (Eq. 6) in this model's own
        geometry.
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
        if settings["method"] == "one-pass" and "samples" not in changes:
            settings["samples"] = None
        return cls(str(folder), **settings)

    @classmethod
    def from_settings(cls, settings: Settings) -> Sen2Pro:
        """Make the model of some settings, those of another one for instance (`model.settings`)."""
        model = cls.__new__(cls)
        model._start(settings, _saved_settings(settings.model))
        return model

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name or folder if the weights are unchanged, else the weights."""
        head, whitening = self._head, self.whitening
        own = {"head": head, "whitening": whitening if whitening is not None else False}
        settings = {each.name: getattr(self._settings, each.name) for each in fields(Settings)} | own
        if self._settings.is_file and self.encoder.is_as_loaded:
            return _from_settings, (settings, {"name": self.encoder.name, "hash": self.encoder.hash})
        with tempfile.TemporaryDirectory() as folder:
            self.encoder.save(Path(folder))
            content = {
                path.relative_to(folder).as_posix(): path.read_bytes()
                for path in Path(folder).rglob("*")
                if path.is_file()
            }
        return _from_content, (content, settings | {"model": None, "tokenizer": None}, self.encoder.name)


def _from_settings(settings: dict[str, Any], saved: dict[str, Any]) -> Sen2Pro:
    """Load a model that was pickled by its name or folder."""
    model = Sen2Pro.__new__(Sen2Pro)
    model._start(Settings(**settings), saved)
    return model


def _from_content(content: dict[str, bytes], settings: dict[str, Any], name: str) -> Sen2Pro:
    """Load a model that was pickled with all its files."""
    with tempfile.TemporaryDirectory() as folder:
        for place, data in content.items():
            path = Path(folder, place)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        model = _from_settings(settings | {"model": folder}, {"name": name})
    model.encoder.folder = None  # its files are not there any more
    model._settings = model.settings.changed(model=model.encoder.source, tokenizer=model.encoder.tokenizer)
    return model


_NAMES = tuple(each.name for each in fields(Settings))
_OF_THE_ENCODER = ("pooling", "normalize", "dropout")  # what `Sen2Pro(folder)` takes from a saved model
# All that a folder may set; what is optional was not there in version 0.4.
_SAVED = record(
    {"version": TEXT, "name": TEXT, **{name: check for name, check in JSON_CHECKS.items() if name not in ADDED_LATER}},
    {"hash": TEXT, **{name: JSON_CHECKS[name] for name in ADDED_LATER}},
)


def _saved_settings(model: Any) -> dict[str, Any]:
    """Return what `Sen2Pro.save` wrote into a folder; nothing for any other model."""
    path = check_path(model) / _SETTINGS_FILE if isinstance(model, (str, Path)) else None
    return documents.read(path, _SAVED) if path and path.is_file() else {}


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
