"""The one list of what makes a `Sen2Pro`: checked once, then read by files, signatures and the command line.

*Data* settings may stand in a file. All others, above all permissions, are for the caller alone: a file that sets one
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.io import documents
from sen2pro.validation import SOURCES, check_rate, check_samples, check_seed, check_vocabulary

if TYPE_CHECKING:
    from sen2pro.estimation.head import Head
    from sen2pro.estimation.whitening import Whitening

DEFAULT_MODEL = "all-MiniLM-L6-v2"
METHODS = ("sampling", "shrinkage", "one-pass", "analytic")
WITHOUT_SAMPLES = ("one-pass", "analytic")  # methods that draw nothing at random
UNCERTAINTIES = ("both", *SOURCES)
COMBINATIONS = ("individual", "unified")
POOLINGS = ("mean", "cls", "first-last-avg")
PRECISIONS = ("float32", "bfloat16", "float16")
DEFAULT_SAMPLES = 15

_text = documents.one_of_texts
_COUNTS = documents.record(dict.fromkeys(SOURCES, documents.COUNT))


def _data(default: Any, check: documents.Check, help: str, kind: type = str, flags: tuple[str, ...] = ()) -> Any:
    """Declare a setting that a file may hold; `check` is what its JSON must be, and null where the default is None."""
    check = documents.either(documents.NULL, check) if default is None else check
    return field(default=default, metadata={"check": check, "help": help, "kind": kind, "flags": flags})


def _caller(default: Any, help: str = "", kind: type = str, flags: tuple[str, ...] = ()) -> Any:
    """Declare a setting that only the caller may choose; without `help` it is not on the command line."""
    return field(default=default, metadata={"help": help, "kind": kind, "flags": flags})


@dataclass(frozen=True)
class Settings:
    """Everything that makes a `Sen2Pro`, in its one proper form; see there for what each setting means.

    Examples
    --------
    >>> settings = Settings("all-MiniLM-L6-v2", samples=(4, 8), seed=3)
    >>> settings.counts
    {'model': 4, 'data': 8}
    >>> Settings(method="one-pas")
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: unknown method 'one-pas'; did you mean 'one-pass'? It is one of: sampling, ...
    """

    model: Any = _caller(DEFAULT_MODEL, "Hub id or folder of the encoder.", flags=("--model", "-m"))
    method: str = _data(
        "sampling",
        _text(*METHODS),
        "sampling (the paper's), one-pass (a head's), shrinkage (both) or analytic (computed beside a pass).",
    )
    samples: int | tuple[int, int] | None = _data(
        None, _COUNTS, "Samples of each uncertainty: one number, or MODEL+DATA as in 15+15. (default: 15)"
    )
    uncertainty: str = _data("both", _text(*UNCERTAINTIES), "both, model (MC dropout) or data (word edits).")
    combine: str = _data("individual", _text(*COMBINATIONS), "How the two are joined: individual or unified.")
    pooling: str | None = _data(None, _text(*POOLINGS), "mean, cls or first-last-avg. (default: the model's own)")
    normalize: bool | None = _data(
        None, documents.TRUTH, "Unit sphere or raw vectors. (default: as the model is made)", bool
    )
    head: Head | str | Path | None = _caller(None, "Folder of a head. (default: the model's own, or the package's)")
    whitening: Whitening | bool | None = _caller(None)
    dropout: float | None = _data(None, documents.NUMBER, "One rate for all dropout. (default: the network's)", float)
    seed: int = _data(0, documents.WHOLE, "Makes the result reproducible.", int)
    precision: str = _data("float32", _text(*PRECISIONS), "float32; bfloat16 or float16 for matrix products on a GPU.")
    vocabulary: tuple[str, ...] | None = _data(None, documents.list_of(documents.TEXT), "")
    tokenizer: Any = _caller(None)
    device: str | None = _caller(None, "cpu, cuda, mps. (default: the best there is)")
    revision: str | None = _caller(None, "Version of a model on the hub: branch, tag or commit.")
    trust_remote_code: bool = _caller(False, "Let the model's own Python code run.", bool, ("--trust-remote-code",))
    allow_pickle: bool = _caller(False, "Read weights in pickle format, which can run code.", bool, ("--allow-pickle",))

    def __post_init__(self) -> None:
        """Check every value, and bring it into its one proper form."""
        one_of("method", self.method, METHODS)
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
            raise Sen2ProError(
                f"{self.method} takes no samples; to add some to what the head predicts: method='shrinkage'"
            )
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
            object.__setattr__(self, name, value)

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

    def changed(self, **changes: Any) -> Settings:
        """Return the same settings with some changed; a method without samples forgets their number."""
        if changes.get("method") in WITHOUT_SAMPLES:
            changes = {"samples": None, **changes}
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Return the data settings as JSON: what may stand in a file."""
        document = {name: getattr(self, name) for name in DATA}
        words = self.vocabulary and list(self.vocabulary)
        return {**document, "samples": self.samples and self.counts, "vocabulary": words}


def arguments(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data settings of a document that `JSON_CHECKS` have passed, as arguments of `Sen2Pro`."""
    given = {name: value for name, value in document.items() if name in DATA}
    if given.get("samples") is not None:
        given["samples"] = tuple(given["samples"][source] for source in SOURCES)
    if given.get("method") in WITHOUT_SAMPLES:
        given.pop("samples", None)  # files of version 0.4 have a number there
    return given


JSON_CHECKS: dict[str, documents.Check] = {
    each.name: each.metadata["check"] for each in fields(Settings) if "check" in each.metadata
}
DATA = tuple(JSON_CHECKS)
CALLER = tuple(each.name for each in fields(Settings) if each.name not in DATA)
ADDED_LATER = ("precision", "vocabulary")  # settings that older files do not have; a new data setting goes here
