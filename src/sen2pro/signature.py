"""What was run, in one line that travels with every result, as sacrebleu does for scores."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace

from sen2pro.errors import Sen2ProError, has_surrogates, short_repr

# What two results must agree on before they may be compared.
MATTERS = ("hash", "pooling", "geometry", "whitening", "uncertainty", "dropout", "edits", "combine", "estimator")


@dataclass(frozen=True)
class Signature:
    """Everything needed to repeat an encoding, as short strings.

    Two Gaussians may be compared if the fields in `MATTERS` agree. The model's name is not one of them (its hash is),
    and neither are the seed, the number of samples and the version: they change how well a distribution is estimated,
    not which distribution it is.

    >>> s = Signature(model="m", hash="53aa5117", pooling="mean", geometry="unit", whitening="no",
    ...     uncertainty="both", samples="15+15", dropout="0.1", edits="drop,swap,replace,insert",
    ...     max_length="256", precision="float32", prompt="no", seed="0", combine="individual",
    ...     estimator="diagonal", version="0.1.0")
    >>> print(s)
    model:m|hash:53aa5117|pooling:mean|geometry:unit|whitening:no|uncertainty:both|samples:15+15|...|version:0.1.0
    >>> Signature.from_json(s.to_json()) == s
    True
    """

    model: str
    hash: str
    pooling: str
    geometry: str
    whitening: str
    uncertainty: str
    samples: str
    dropout: str
    edits: str
    max_length: str
    precision: str
    prompt: str
    seed: str
    combine: str
    estimator: str
    version: str

    def __str__(self) -> str:
        return "|".join(f"{name}:{value}" for name, value in asdict(self).items())

    def to_json(self) -> str:
        """Return the signature as JSON, the form kept in files."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Signature:
        """Read what `to_json` wrote, also by a version with other fields: what is missing reads `unknown`."""
        try:
            kept = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Sen2ProError(f"the signature is not JSON ({error})") from None
        texts = kept.values() if isinstance(kept, dict) else [None]
        if not all(isinstance(each, str) and not has_surrogates(each) for each in texts):
            raise Sen2ProError(f"the signature must be a JSON object of texts, not {short_repr(kept)}")
        return cls(**{field.name: kept.get(field.name, "unknown") for field in fields(cls)})


def _differing(a: Signature, b: Signature) -> list[str]:
    return [field.name for field in fields(Signature) if getattr(a, field.name) != getattr(b, field.name)]


def check_comparable(a: Signature | None, b: Signature | None) -> None:
    """Raise if two results were made in ways that cannot be compared; a missing signature is not checked."""
    names = [name for name in _differing(a, b) if name in MATTERS] if a and b else []
    if names:
        told = "; ".join(f"{name} {getattr(a, name)!r} against {getattr(b, name)!r}" for name in names)
        raise Sen2ProError(f"these Gaussians cannot be compared: {told}. Encode both with the same settings")


def merged(a: Signature | None, b: Signature | None) -> Signature | None:
    """Return the signature of two comparable results put together; a field that differs reads `mixed`."""
    check_comparable(a, b)
    return replace(a, **dict.fromkeys(_differing(a, b), "mixed")) if a and b else None
