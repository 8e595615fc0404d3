"""What calls and answers look like: checked with pydantic where they come in, and shown in the OpenAPI document.

Whatever the library has a type for is derived from that type: settings, signatures, comparisons, hits, the options of
a search. A new field of theirs shows up here by itself.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from sen2pro.calibration.comparison import Comparison
from sen2pro.search.index import MOST_HITS, Index
from sen2pro.search.results import Hit, Result
from sen2pro.search.rows import Value
from sen2pro.settings import DATA, Settings
from sen2pro.signature import Signature
from sen2pro.specificity.measure import Specificity

_MAN, _GUITAR = "A man is playing a guitar.", "Someone plays an instrument."
# A list ends at its first fault: a body can hold millions of them, and each takes memory.
Ids = Annotated[list[Annotated[int, Field(ge=0)]], Field(fail_fast=True)]
Strings = Annotated[list[str], Field(fail_fast=True)]
Inputs = Annotated[
    str | Strings | Ids | Annotated[list[Ids], Field(fail_fast=True)],
    Field(description="a text, a list of texts, a list of token ids, or a list of lists of token ids"),
]
Texts = Annotated[str | Strings, Field(description="a text or a list of texts")]
Vector = list[float]


class Lenient(BaseModel):
    """A call in somebody else's dialect: fields that it may get later are passed over."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)


class Strict(BaseModel):
    """A call of our own: a field that is not known is an error that names it."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)


def example(kind: type[BaseModel], /, **content: Any) -> None:
    """Give a model an example for the OpenAPI document."""
    kind.model_config["json_schema_extra"] = {"examples": [content]}
    kind.model_rebuild(force=True)


def _of_dataclass(kind: type, name: str, **changed: Any) -> Any:
    """Return a pydantic model with the fields of a dataclass of the library's, some of them changed or added."""
    hints = typing.get_type_hints(kind)
    own: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is MISSING and each.default_factory is MISSING else None)
        for each in fields(kind)
    }
    return create_model(name, __doc__=(kind.__doc__ or "").split("\n\n")[0], **{**own, **changed})


def _settings() -> Any:
    """Return a pydantic model of the settings that may stand in a file, with their help."""
    shown = {each.name: each for each in fields(Settings) if each.name in DATA}
    columns: dict[str, Any] = {
        name: (Any, Field(each.default, description=each.metadata["help"])) for name, each in shown.items()
    }
    return create_model("Settings", __doc__="How the server encodes: the operator's choice.", **columns)


def _options(function: Any, without: set[str], checks: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword options of a method as fields of a call."""
    hints = typing.get_type_hints(function)
    own = {name: each for name, each in inspect.signature(function).parameters.items() if name not in without}
    return {name: (_plain(hints[name]), Field(each.default, **checks.get(name, {}))) for name, each in own.items()}


def _plain(hint: Any) -> Any:
    """Return a type as JSON has it: a mapping is an object."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.Union[tuple(_plain(each) for each in typing.get_args(hint))]  # noqa: UP007
    return (
        dict[str, Any] if typing.get_origin(hint) is not None and issubclass(typing.get_origin(hint), Mapping) else hint
    )


ServedSettings: Any = _settings()
ServedSignature: Any = _of_dataclass(Signature, "Signature")

# OpenAI.


class EmbeddingsCall(Lenient):
    """A call of `/v1/embeddings`."""

    input: Inputs
    model: str | None = Field(None, description="The served model, or one of its aliases.")
    encoding_format: Literal["float", "base64"] | None = Field("float", description="null is the same as float.")
    dimensions: int | None = Field(None, description="Refused unless it is the model's own number.")
    user: str | None = None


example(EmbeddingsCall, input=[_MAN, _GUITAR], model="all-MiniLM-L6-v2")


class Embedding(BaseModel):
    """One vector."""

    object: Literal["embedding"]
    index: int
    embedding: Vector | str = Field(description="Numbers, or base64 of little-endian float32.")


class Usage(BaseModel):
    """How many tokens a call had."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(BaseModel):
    """An answer of `/v1/embeddings`."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


example(
    Embeddings, object="list", data=[{"object": "embedding", "index": 0, "embedding": [0.021, -0.034]}],
    model="all-MiniLM-L6-v2", usage={"prompt_tokens": 9, "total_tokens": 9},
)  # fmt: skip


class Model(BaseModel):
    """A model that is served."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    dimensions: int
    aliases: list[str]
    settings: ServedSettings


class Models(BaseModel):
    """An answer of `/v1/models`."""

    object: Literal["list"]
    data: list[Model]


class OpenAIError(BaseModel):
    """What was wrong, as OpenAI says it."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIProblem(BaseModel):
    """The body of an error, as OpenAI has it."""

    error: OpenAIError


# text-embeddings-inference.


class _Tei(Lenient):
    truncate: bool | None = Field(None, description="Cut a text that is too long; by default as the operator says.")
    truncation_direction: Literal["right", "Right"] = Field("right", description="Only the end is ever cut.")
    prompt_name: str | None = Field(None, description="A prompt of the model's, by name.")


class EmbedCall(_Tei):
    """A call of `/embed`."""

    inputs: Inputs
    normalize: bool | None = Field(None, description="Scale to length 1, or not; by default as the model is made.")
    dimensions: int | None = Field(None, description="Refused unless it is the model's own number.")


example(EmbedCall, inputs=[_MAN, _GUITAR])


class SimilarityInput(Lenient):
    """A sentence, and those to compare it with."""

    source_sentence: str
    sentences: Strings


class SimilarityCall(Lenient):
    """A call of `/similarity`."""

    inputs: SimilarityInput
    parameters: _Tei | None = None


example(SimilarityCall, inputs={"source_sentence": _MAN, "sentences": [_GUITAR, "The market fell."]})


class TokenizeCall(Lenient):
    """A call of `/tokenize`."""

    inputs: Texts
    add_special_tokens: bool = True
    prompt_name: str | None = None


example(TokenizeCall, inputs=_MAN)


class Token(BaseModel):
    """A token: `start` and `stop` count letters of the text."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class Info(BaseModel):
    """An answer of `/info`; besides what text-embeddings-inference says, the settings and the signature."""

    model_id: str
    model_sha: str
    model_dtype: str
    model_type: dict[str, dict[str, str]]
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_batch_requests: int | None
    max_client_batch_size: int
    auto_truncate: bool
    tokenization_workers: int
    version: str
    sha: str | None
    docker_label: str | None
    settings: ServedSettings
    signature: ServedSignature


class TeiProblem(BaseModel):
    """The body of an error, as text-embeddings-inference has it."""

    error: str
    error_type: str


# Our own.


class DistributionsCall(Strict):
    """A call of `/v1/distributions`."""

    input: Inputs
    model: str | None = None


example(DistributionsCall, input=[_MAN, "It happened."])


class OneDistribution(BaseModel):
    """The Gaussian of one text."""

    index: int
    mean: Vector
    variance: Vector
    total: float = Field(description="The sum of the variances: how uncertain the text is, in one number.")
    coverage: float | None = Field(description="How well the head knows such text; below 0.01 do not trust it.")


class Distributions(BaseModel):
    """An answer of `/v1/distributions`."""

    object: Literal["list"]
    data: list[OneDistribution]
    model: str
    signature: ServedSignature
    usage: Usage


class CompareCall(Strict):
    """A call of `/v1/compare`: two sentences, or two lists of them, compared pair by pair."""

    first: Texts
    second: Texts
    model: str | None = None


example(CompareCall, first=_MAN, second=_GUITAR)
OneComparison: Any = _of_dataclass(
    Comparison,
    "Comparison",
    doubt=(dict[str, tuple[float, float]], Field(description="Total variance of both sentences, for each source.")),
    word=(Literal["likely", "unsure", "unlikely"], ...),
    answer=(str, Field(description="All of it in words.")),
)


class Comparisons(BaseModel):
    """An answer of `/v1/compare`."""

    data: list[OneComparison]
    model: str
    usage: Usage


class SpecificityCall(Strict):
    """A call of `/v1/specificity`."""

    input: Texts
    model: str | None = None


example(SpecificityCall, input=["They did it again.", "The bank raised its interest rate to 5 percent."])
OneSpecificity: Any = _of_dataclass(
    Specificity, "Specificity", **dict.fromkeys(("score", "at_length", "value"), (float, ...))
)


class Specificities(BaseModel):
    """An answer of `/v1/specificity`."""

    data: list[OneSpecificity]
    model: str
    usage: Usage


SearchCall: Any = create_model(
    "SearchCall",
    __base__=Strict,
    __doc__="A call of `/v1/search`; its options are those of `Index.search`.",
    queries=(Texts, ...),
    model=(str | None, None),
    **_options(
        Index.search,
        {"self", "queries"},
        {
            "k": {"ge": 1, "le": MOST_HITS}, "precision": {"gt": 0, "lt": 1, "strict": False},
            "certainty": {"gt": 0, "lt": 1, "strict": False},
        },
    ),
)  # fmt: skip
example(SearchCall, queries=["how do I reset my password?"], k=3)
OneHit: Any = _of_dataclass(Hit, "Hit", metadata=(dict[str, Value], ...))
OneResult: Any = _of_dataclass(
    Result, "Result", hits=(list[OneHit], ...), threshold=(float | None, ...), probability=(float | None, ...),
    answer=(str | None, Field(description="The id of the answer; null says that there is no good match.")),
)  # fmt: skip


class Results(BaseModel):
    """An answer of `/v1/search`."""

    data: list[OneResult]
    model: str
    usage: Usage


class ClassifyCall(Strict):
    """A call of `/v1/classify`."""

    input: Texts
    model: str | None = None


example(ClassifyCall, input=["The goalkeeper was injured."])


class OneClass(BaseModel):
    """The class of one text."""

    label: str | int | bool
    probability: float
    probabilities: dict[str, float]


class Classes(BaseModel):
    """An answer of `/v1/classify`."""

    data: list[OneClass]
    model: str
    usage: Usage
