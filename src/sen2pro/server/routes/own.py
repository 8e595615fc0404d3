"""Our own routes about texts: distributions, comparisons, specificity, explanations and maps."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from fastapi import APIRouter, Response

from sen2pro.server import schemas
from sen2pro.server.engine import Distribution, Text, comparison_to_json
from sen2pro.server.http_errors import RequestError, error_docs
from sen2pro.server.mapping import make_map
from sen2pro.server.requests import ApiRequest, ApiRoute, data_response
from sen2pro.server.texts import as_list, read_texts
from sen2pro.signature import Signature

router = APIRouter(route_class=ApiRoute, tags=["v1"], responses=error_docs("/v1", schemas.OpenAIErrorBody))
ARROW = "application/vnd.apache.arrow.stream"
_MOST_WORDS = 400  # of a request to /v1/explain: each word takes a pass
_MOST_MAPPED = 300


async def _read_input(
    request: ApiRequest,
    body: schemas.DistributionsRequest | schemas.SpecificityRequest | schemas.ExplainRequest | schemas.MapRequest,
    most: int | None = None,
) -> list[Text]:
    """Return the texts of a body with the fields `input` and `model`."""
    service = request.service
    service.check_model(body.model)
    return await read_texts(request, as_list(body.input, "input", service.serving, most), service.engine.prompt())


@router.post(
    "/v1/distributions",
    responses={
        200: {
            "model": schemas.Distributions, "content": {ARROW: {"schema": {"type": "string", "format": "binary"}}}
        }
    },
)  # fmt: skip
async def distributions(body: schemas.DistributionsRequest, request: ApiRequest) -> Response:
    """Return means and variances of texts, as JSON or as an Arrow stream."""
    service = request.service
    engine, prompt = service.engine, service.engine.prompt()
    texts = await _read_input(request, body)
    rows = await request.run_texts(engine.distributions(prompt), texts, engine.passes)
    signature = engine.model.signature(prompt)
    if ARROW in request.headers.get("accept", ""):
        return Response(to_arrow(rows, signature), media_type=ARROW)
    data = [{"index": index, **row.to_json()} for index, row in enumerate(rows)]
    return data_response(request, data, object="list", signature=asdict(signature))


def to_arrow(rows: list[Distribution], signature: Signature) -> bytes:
    """Return an Arrow stream with the columns mean, variance, total and coverage; its metadata has the signature."""
    import pyarrow as pa

    columns = {}
    for name, arrays in (("mean", [row.mean for row in rows]), ("variance", [row.variance for row in rows])):
        array = np.stack(arrays)
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])
    columns["total"] = pa.array([row.total for row in rows], pa.float64())
    columns["coverage"] = pa.array([row.coverage for row in rows], pa.float32())
    table = pa.table(columns).replace_schema_metadata({"signature": signature.to_json()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@router.post("/v1/compare", responses={200: {"model": schemas.Comparisons}})
async def compare(body: schemas.CompareRequest, request: ApiRequest) -> Response:
    """Return how likely sentences mean the same, how similar they are, and why."""
    service = request.service
    service.check_model(body.model)
    if not service.engine.compares:
        message = "comparisons come with the default model only, and this server has another one"
        raise RequestError("missing", message)
    first, second = as_list(body.first, "first", service.serving), as_list(body.second, "second", service.serving)
    if len(first) != len(second):
        message = f"give as many texts as 'first' and 'second', not {len(first)} and {len(second)}"
        raise RequestError("invalid", message)
    texts = await read_texts(request, [*first, *second], service.engine.prompt())
    pairs = list(zip(texts[: len(first)], texts[len(first) :], strict=True))
    weights = [one.weight + other.weight for one, other in pairs]
    found = await request.run(service.engine.comparisons(), pairs, weights)
    return data_response(request, [comparison_to_json(each) for each in found])


@router.post("/v1/specificity", responses={200: {"model": schemas.Specificities}})
async def specificity(body: schemas.SpecificityRequest, request: ApiRequest) -> Response:
    """Return how specific texts are."""
    engine = request.service.engine
    if not engine.specifies:
        raise RequestError("missing", "there is no specificity head for the model of this server")
    texts = await _read_input(request, body)
    return data_response(request, [row.to_json() for row in await request.run_texts(engine.specificity(), texts)])


@router.post("/v1/explain", responses={200: {"model": schemas.Explanations}})
async def explain(body: schemas.ExplainRequest, request: ApiRequest) -> Response:
    """Return which words carry a text: how far the meaning moves when each of them is left out."""
    engine = request.service.engine
    texts = await _read_input(request, body)
    words = [text.text.split() for text in texts]
    if sum(map(len, words)) > _MOST_WORDS:
        raise RequestError("large", f"the texts of a request may have {_MOST_WORDS} words in sum", "input")
    copies = [engine.without_each_word(each) for each in words]
    prompt = engine.prompt()
    units = engine.tokenize([copy for some in copies for copy in some], prompt)
    rows = await request.run_texts(engine.vectors(prompt), units)
    data, start = [], 0
    for each, some in zip(words, copies, strict=True):
        found = engine.explanation(each, rows[start : start + len(some)])
        start += len(some)
        data.append({"words": found.words, "moves": found.moves, "share": found.share})
    return data_response(request, data)


@router.post("/v1/map", responses={200: {"model": schemas.Map}})
async def draw_map(body: schemas.MapRequest, request: ApiRequest) -> Response:
    """Return texts in the plane: where each lies, its ellipse, and named groups."""
    engine, prompt = request.service.engine, request.service.engine.prompt()
    if len(body.input) < 2:
        raise RequestError("invalid", "a map takes at least 2 texts", "input")
    texts = await _read_input(request, body, _MOST_MAPPED)
    rows = await request.run_texts(engine.distributions(prompt), texts, engine.passes)
    scores: list[float] | list[None] = [None] * len(texts)
    if engine.specifies:
        scores = [row.score for row in await request.run_texts(engine.specificity(), texts)]
    lines = [text.text for text in texts]
    found = await request.run_in_thread(lambda: make_map(lines, engine.gaussian(rows, prompt)), "fits")
    data = [
        {
            "index": i, "x": found.points[i, 0], "y": found.points[i, 1], "rx": found.ellipses[i, 0],
            "ry": found.ellipses[i, 1], "angle": found.ellipses[i, 2], "total": rows[i].total, "score": scores[i],
            "group": found.groups[i], "nearest": found.nearest[i], "cosine": found.cosines[i],
        }
        for i in range(len(texts))
    ]  # fmt: skip
    groups = [{"name": name, "size": int((found.groups == i).sum())} for i, name in enumerate(found.names)]
    return data_response(request, data, groups=groups)
