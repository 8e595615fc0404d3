"""The one list of what makes a `Sen2Pro`: checked once, then read by files, signatures and the command line.

A file may hold the settings of `FileSettings`. All others, above all permissions, are for the caller alone: a file that
sets one is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol, get_type_hints

from msgspec import Meta, structs

from sen2pro import __version__
from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.io import bundle
from sen2pro.io.atomic import check_path
from sen2pro.io.bundle import Config, Finite
from sen2pro.validation import SOURCES, check_rate, check_samples, check_seed, check_vocabulary

DEFAULT_MODEL = "all-MiniLM-L6-v2"
METHODS = ("sampling", "one-pass")
WITHOUT_SAMPLES = ("one-pass",)
UNCERTAINTIES = ("both", *SOURCES)
COMBINATIONS = ("individual", "unified")
POOLINGS = ("mean", "cls", "first-last-avg")
PRECISIONS = ("float32", "bfloat16", "float16")
DEFAULT_SAMPLES = 15
CERTAINTY = 0.95  # the confidence level of guarantees
SAVED = "sen2pro.json"
_REMOVED = ("shrinkage", "analytic")


class Fitted(Protocol):
    """A `Head` or a `Whitening`."""

    @property
    def hash(self) -> str:
        """Stands for its numbers in a signature."""

    def save(self, path: str | Path) -> None:
        """Write it to disk."""


def about(help: str) -> Meta:
    """Describe a setting in its type: `seed: Annotated[int, about("Makes the result reproducible.")] = 0`."""
    return Meta(description=help)


def help_of(kind: type) -> dict[str, str]:
    """Return what the types of some settings say about them; a setting without help is not on the command line."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0].description for name, hint in hints.items() if hasattr(hint, "__metadata__")}


class FileSettings(Config, frozen=True, kw_only=True):
    """The settings that a file may hold."""

    method: Annotated[str, about("sampling (exact, the paper's) or one-pass (fast, by a head).")] = "sampling"
    samples: Annotated[
        int | tuple[int, int] | dict[str, int] | None,
        about("Samples of each uncertainty: one number, or MODEL+DATA as in 15+15. (default: 15)"),
    ] = None
    uncertainty: Annotated[str, about("both, model (MC dropout) or data (word edits).")] = "both"
    combine: Annotated[str, about("How the two are joined: individual or unified.")] = "individual"
    pooling: Annotated[str | None, about("mean, cls or first-last-avg. (default: the model's own)")] = None
    normalize: Annotated[bool | None, about("Unit sphere or raw vectors. (default: as the model is made)")] = None
    dropout: Annotated[Finite | None, about("One rate for all dropout. (default: the network's)")] = None
    seed: Annotated[int, about("Makes the result reproducible.")] = 0
    precision: Annotated[str, about("float32; bfloat16 or float16 for matrix products on a GPU.")] = "float32"
    vocabulary: tuple[str, ...] | None = None

    def arguments(self, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the settings, some of them changed, as arguments of `Sen2Pro`; a new method forgets samples."""
        given = {name: getattr(self, name) for name in DATA}
        if changes and changes.get("method", self.method) != self.method:
            given["samples"] = None
        return {**given, **(changes or {})}


DATA = FileSettings.__struct_fields__


class SavedModel(FileSettings, frozen=True, kw_only=True):
    """What `Sen2Pro.save` writes beside the encoder."""

    name: str
    hash: str | None = None
    version: str = __version__

    @staticmethod
    def find(model: Any) -> SavedModel | None:
        """Return what was saved in a folder; None for any other model."""
        path = check_path(model) if isinstance(model, (str, Path)) else None
        if path is None or not (path / SAVED).is_file():
            return None
        return bundle.load(path, Path(SAVED).stem, SavedModel)[0]

    @classmethod
    def need(cls, folder: str | Path) -> SavedModel:
        """Return what was saved in a folder, or raise an error."""
        if (saved := cls.find(folder)) is None:
            raise Sen2ProError(f"there is no {SAVED} in {folder}; for a plain encoder use Sen2Pro(...)")
        return saved

    def fill(self, settings: Settings) -> Settings:
        """Return settings whose open values are those saved with the encoder: pooling, geometry and dropout."""
        saved = {name: getattr(self, name) for name in ("pooling", "normalize", "dropout")}
        return settings.changed(**{name: each for name, each in saved.items() if getattr(settings, name) is None})


def check_method(method: str, allowed: Iterable[str] = METHODS) -> str:
    """Return a method that is allowed; an error says what replaces one that was removed.

    >>> check_method("analytic")
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: the method 'analytic' was removed in version 0.12; use 'sampling' (exact) or 'one-pass'
    (fast)
    """
    if method in _REMOVED:
        raise Sen2ProError(
            f"the method {method!r} was removed in version 0.12; use 'sampling' (exact) or 'one-pass' (fast)"
        )
    return one_of("method", method, allowed)


class Settings(FileSettings, frozen=True):
    """Everything that makes a `Sen2Pro`, in its one proper form; see there for what each setting means.

    Examples
    --------
    >>> settings = Settings("all-MiniLM-L6-v2", samples=(4, 8), seed=3)
    >>> settings.counts
    {'model': 4, 'data': 8}
    >>> Settings(method="one-pas")
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: unknown method 'one-pas'; did you mean 'one-pass'? It is one of: sampling, one-pass
    """

    model: Annotated[Any, about("Hub id or folder of the encoder.")] = DEFAULT_MODEL
    head: Annotated[
        Fitted | str | Path | None, about("Folder of a head. (default: the model's own, or the package's)")
    ] = None
    whitening: Fitted | bool | None = None
    tokenizer: Any = None
    device: Annotated[str | None, about("cpu, cuda, mps. (default: the best there is)")] = None
    revision: Annotated[str | None, about("Version of a model on the hub: branch, tag or commit.")] = None
    trust_remote_code: Annotated[bool, about("Let the model's own Python code run.")] = False
    allow_pickle: Annotated[bool, about("Read weights in pickle format, which can run code.")] = False

    def __post_init__(self) -> None:
        """Check every value, and bring it into its one proper form."""
        check_method(self.method)
        one_of("uncertainty", self.uncertainty, UNCERTAINTIES)
        one_of("combine", self.combine, COMBINATIONS)
        one_of("precision", self.precision, PRECISIONS)
        if self.pooling is not None:
            one_of("pooling", self.pooling, POOLINGS)
        if not isinstance(self.normalize, bool | None):
            raise Sen2ProError(
                f"normalize must be True, False or None (the model's own), not {short_repr(self.normalize)}"
            )
        if not self.draws and self.samples is not None:
            raise Sen2ProError(f"the method {self.method} takes no samples; leave them out, or use method='sampling'")
        for name in ("trust_remote_code", "allow_pickle"):
            if not isinstance(getattr(self, name), bool):
                raise Sen2ProError(f"{name} must be True or False, not {short_repr(getattr(self, name))}")
        counts = None if self.samples is None else check_samples(self.samples, self.sources)
        words = check_vocabulary(self.vocabulary)
        proper = {
            "samples": counts and tuple(counts.values()), "dropout": check_rate(self.dropout),
            "seed": check_seed(self.seed), "vocabulary": words and tuple(words),
        }  # fmt: skip
        for name, value in proper.items():
            structs.force_setattr(self, name, value)

    @property
    def sources(self) -> tuple[str, ...]:
        """The kinds of uncertainty in use."""
        return SOURCES if self.uncertainty == "both" else (self.uncertainty,)

    @property
    def draws(self) -> bool:
        """Whether the method draws samples."""
        return self.method not in WITHOUT_SAMPLES

    @property
    def counts(self) -> dict[str, int]:
        """The number of samples of each kind of uncertainty; without samples, those that its head stands for."""
        return check_samples(DEFAULT_SAMPLES if self.samples is None else self.samples, ())

    @property
    def passes(self) -> int:
        """The number of forward passes that a sentence takes."""
        return sum(self.counts[source] for source in self.sources) if self.draws else 1

    def changed(self, **changes: Any) -> Settings:
        """Return the same settings with some changed; a method without samples forgets their number."""
        if changes.get("method") in WITHOUT_SAMPLES:
            changes = {"samples": None, **changes}
        return structs.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Return the settings that a file may hold."""
        document = {name: getattr(self, name) for name in DATA}
        return {**document, "samples": None if self.samples is None else self.counts}


CALLER = tuple(name for name in Settings.__struct_fields__ if name not in DATA)
