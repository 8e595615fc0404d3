"""Request and response bodies: pydantic checks the requests, and the OpenAPI document shows both.

Settings, signatures, comparisons and hits are derived from the types of the library, so new fields appear here too.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated, Any, Generic, Literal, TypeVar, get_type_hints

from msgspec import structs
from pydantic import BaseModel, ConfigDict, Field, create_model

from sen2pro.calibration.comparison import Comparison
from sen2pro.estimation.specificity import Specificity
from sen2pro.search.results import Hit, Result
from sen2pro.search.stores.protocol import Value
from sen2pro.server.mapping import MapGroup, MapPoint
from sen2pro.settings import CERTAINTY, FileSettings, help_of
from sen2pro.signature import Signature

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
Row = TypeVar("Row")


class Lenient(BaseModel):
    """A request body in the dialect of another API: unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)


class Strict(BaseModel):
    """A request body of our own routes: an unknown field is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)


def _example(**content: object) -> dict[str, Any]:
    """Return the configuration that shows an example of a body in the OpenAPI document."""
    return {"examples": [content]}


def _of_dataclass(kind: type, name: str, **changed: Any) -> Any:
    """Return a pydantic model with the fields of a dataclass of the library, some of them changed or added."""
    hints = get_type_hints(kind)
    own: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is MISSING and each.default_factory is MISSING else None)
        for each in fields(kind)
    }
    return create_model(name, __doc__=(kind.__doc__ or "").split("\n\n")[0], **{**own, **changed})


_SETTINGS: dict[str, Any] = {
    each.name: (Any, Field(each.default, description=help_of(FileSettings).get(each.name, "")))
    for each in structs.fields(FileSettings)
}
ServedSettings: Any = create_model("Settings", __doc__="The operator's settings of the encoder.", **_SETTINGS)
ServedSignature: Any = _of_dataclass(Signature, "Signature")

# OpenAI.


class EmbeddingsRequest(Lenient, json_schema_extra=_example(input=[_MAN, _GUITAR], model="all-MiniLM-L6-v2")):
    """The body of `/v1/embeddings`."""

    input: Inputs
    model: str | None = Field(None, description="The served model, or one of its aliases.")
    encoding_format: Literal["float", "base64"] | None = Field("float", description="null is the same as float.")
    dimensions: int | None = Field(None, description="Refused unless it is the model's own number.")
    user: str | None = None


class Embedding(BaseModel):
    """One vector."""

    object: Literal["embedding"]
    index: int
    embedding: Vector | str = Field(description="Numbers, or base64 of little-endian float32.")


class Usage(BaseModel):
    """The number of tokens of a request."""

    prompt_tokens: int
    total_tokens: int


class Answer(BaseModel, Generic[Row]):
    """The response of routes below `/v1`: one row per text, pair or query."""

    data: list[Row]
    model: str
    usage: Usage


class Embeddings(Answer[Embedding]):
    """The response of `/v1/embeddings`."""

    object: Literal["list"]


class ServedModel(BaseModel):
    """A model that is served."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    dimensions: int
    aliases: list[str]
    settings: ServedSettings


class Models(BaseModel):
    """The response of `/v1/models`."""

    object: Literal["list"]
    data: list[ServedModel]


class OpenAIError(BaseModel):
    """What was wrong, as OpenAI says it."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIErrorBody(BaseModel):
    """The body of an error, as OpenAI has it."""

    error: OpenAIError


# text-embeddings-inference.


class TeiOptions(Lenient):
    """The options of a text in TEI's dialect."""

    truncate: bool | None = Field(None, description="Cut a text that is too long; by default as the operator says.")
    truncation_direction: Literal["right", "Right"] = Field("right", description="Only the end is ever cut.")
    prompt_name: str | None = Field(None, description="A prompt of the model's, by name.")


class EmbedRequest(TeiOptions, json_schema_extra=_example(inputs=[_MAN, _GUITAR])):
    """The body of `/embed`."""

    inputs: Inputs
    normalize: bool | None = Field(None, description="Scale to length 1, or not; by default as the model is made.")
    dimensions: int | None = Field(None, description="Refused unless it is the model's own number.")


class SimilarityInput(Lenient):
    """A sentence, and those to compare it with."""

    source_sentence: str
    sentences: Strings


class SimilarityRequest(
    Lenient,
    json_schema_extra=_example(inputs={"source_sentence": _MAN, "sentences": [_GUITAR, "The market fell."]}),
):
    """The body of `/similarity`."""

    inputs: SimilarityInput
    parameters: TeiOptions | None = None


class TokenizeRequest(Lenient, json_schema_extra=_example(inputs=_MAN)):
    """The body of `/tokenize`."""

    inputs: Texts
    add_special_tokens: bool = True
    prompt_name: str | None = None


class TextToken(BaseModel):
    """A token: `start` and `stop` count letters of the text."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class Info(BaseModel):
    """The response of `/info`; besides the fields of text-embeddings-inference, the settings and the signature."""

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


class TeiError(BaseModel):
    """The body of an error, as text-embeddings-inference has it."""

    error: str
    error_type: str


# Our own.


class DistributionsRequest(Strict, json_schema_extra=_example(input=[_MAN, "It happened."])):
    """The body of `/v1/distributions`."""

    input: Inputs
    model: str | None = None


class Distribution(BaseModel):
    """The Gaussian of one text."""

    index: int
    mean: Vector
    variance: Vector
    total: float = Field(description="The sum of the variances: how uncertain the text is, in one number.")
    coverage: float | None = Field(description="How well the head knows such text; below 0.01 do not trust it.")


class Distributions(Answer[Distribution]):
    """The response of `/v1/distributions`."""

    object: Literal["list"]
    signature: ServedSignature


class CompareRequest(Strict, json_schema_extra=_example(first=_MAN, second=_GUITAR)):
    """The body of `/v1/compare`: two sentences, or two lists of them, compared pair by pair."""

    first: Texts
    second: Texts
    model: str | None = None


ComparedPair: Any = _of_dataclass(
    Comparison,
    "Comparison",
    variances=(dict[str, tuple[float, float]], Field(description="Total variance of both sentences, for each source.")),
    verdict=(Literal["likely", "unsure", "unlikely"], ...),
    answer=(str, Field(description="All of it in words.")),
)


class TextsRequest(Strict, json_schema_extra=_example(input=["They did it again.", "The bank closed in 2019."])):
    """The body of `/v1/specificity` and of `/v1/explain`."""

    input: Texts
    model: str | None = None


TextSpecificity: Any = _of_dataclass(
    Specificity, "Specificity", **dict.fromkeys(("score", "at_length", "value"), (float, ...))
)


class TextExplanation(BaseModel):
    """The words of one text, and how far the meaning moves when each is left out (1 - cosine)."""

    words: list[str]
    moves: list[float]
    share: list[float] = Field(description="Each word's share of all moves.")


class SearchRequest(Strict, json_schema_extra=_example(queries=["how do I reset my password?"], k=3)):
    """The body of `/v1/search`; its options are those of `Index.search`."""

    queries: Texts
    documents: Strings | None = Field(
        None, description="Texts to search instead of the server's index; the id of a hit is the number of its text."
    )
    model: str | None = None
    k: int = Field(5, ge=1, le=10_000)
    where: dict[str, Any] | None = None
    precision: float | None = Field(None, gt=0, lt=1, strict=False)
    certainty: float = Field(CERTAINTY, gt=0, lt=1, strict=False)


FoundText: Any = _of_dataclass(Hit, "Hit", metadata=(dict[str, Value], ...))
FoundTexts: Any = _of_dataclass(
    Result, "Result", hits=(list[FoundText], ...), threshold=(float | None, ...), probability=(float | None, ...),
    answer=(str | None, Field(description="The id of the answer; null says that there is no good match.")),
)  # fmt: skip


class Example(Lenient):
    """A labelled text."""

    text: str
    label: str = Field(min_length=1, max_length=60)


class ClassifyRequest(Strict, json_schema_extra=_example(input=["The goalkeeper was injured."])):
    """The body of `/v1/classify`."""

    input: Texts
    examples: Annotated[list[Example], Field(fail_fast=True)] | None = Field(
        None, description="Labelled texts to learn from instead of the server's classifier."
    )
    model: str | None = None


class Label(BaseModel):
    """The label of one text."""

    label: str | int | bool
    probability: float
    probabilities: dict[str, float]


class MapRequest(Strict, json_schema_extra=_example(input=[_MAN, _GUITAR, "The market fell."])):
    """The body of `/v1/map`."""

    input: Strings
    model: str | None = None


class Map(Answer[MapPoint]):
    """The response of `/v1/map`."""

    groups: list[MapGroup]
