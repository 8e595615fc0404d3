"""The dialect of text-embeddings-inference: `/embed`, `/similarity`, `/tokenize`, `/info`, `/health`, `/metrics`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import numpy as np
from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from sen2pro import __version__
from sen2pro.server import schemas
from sen2pro.server.http_errors import RequestError, error_docs, json_response
from sen2pro.server.observability import METRICS_TYPE
from sen2pro.server.requests import ApiRequest
from sen2pro.server.routing import ApiRoute
from sen2pro.validation import check_sentences

router = APIRouter(
    route_class=ApiRoute, tags=["text-embeddings-inference"], responses=error_docs("/", schemas.TeiError)
)
_MOST_TOKENIZED = 1_000_000  # characters of a request to /tokenize: its response is about thirty times as long


@router.post("/embed", responses={200: {"model": list[list[float]]}})
@router.post("/", name="embed at the root", responses={200: {"model": list[list[float]]}})
async def embed(body: schemas.EmbedRequest, request: ApiRequest) -> Response:
    """Return the vectors of texts, as text-embeddings-inference does; `/` is the same as `/embed`."""
    request.service.check_dimensions(body.dimensions)
    if body.normalize is False and request.serving.vectors == "mean" and request.engine.model.normalize:
        message = "this server gives means of vectors of length 1; leave 'normalize' out"
        raise RequestError("invalid", message, "normalize")
    prompt = request.engine.prompt(body.prompt_name)
    texts = await request.tokenize(request.as_list(body.inputs, "inputs"), prompt, body.truncate)
    return json_response(await request.embed(texts, body.normalize))


@router.post("/similarity", responses={200: {"model": list[float]}})
async def similarity(body: schemas.SimilarityRequest, request: ApiRequest) -> Response:
    """Return the cosine of one sentence with each of the others."""
    options = body.parameters or schemas.TeiOptions.model_validate({})
    request.as_list(body.inputs.sentences, "inputs.sentences")
    given = request.as_list([body.inputs.source_sentence, *body.inputs.sentences], "inputs")
    texts = await request.tokenize(given, request.engine.prompt(options.prompt_name), options.truncate)
    rows = np.stack(await request.embed(texts)).astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return json_response((rows[1:] @ rows[0]).tolist())


@router.post("/tokenize", responses={200: {"model": list[list[schemas.TextToken]]}})
async def tokenize(body: schemas.TokenizeRequest, request: ApiRequest) -> Response:
    """Return the tokens of texts."""
    prompt = request.engine.prompt(body.prompt_name) if body.prompt_name else ""
    texts = check_sentences([str(text) for text in request.as_list(body.inputs, "inputs")])
    most = max(_MOST_TOKENIZED, request.serving.characters)
    if sum(map(len, texts)) + len(texts) * len(prompt) > most:
        raise RequestError("large", f"the texts of a request to /tokenize may have {most} characters in sum", "inputs")
    work = partial(request.engine.list_tokens, special=body.add_special_tokens)
    rows = await request.by_parts(work, [prompt + text for text in texts])
    request.text_count += len(rows)
    request.token_count += sum(count for count, _ in rows)
    return Response(b"[" + b",".join(row for _, row in rows) + b"]", media_type="application/json")


@router.get("/info", responses={200: {"model": schemas.Info}})
async def info(request: ApiRequest) -> Response:
    """Return what is served, and how."""
    service, model, serving = request.service, request.engine.model, request.serving
    return json_response(
        {
            "model_id": service.name, "model_sha": service.signature.hash, "model_dtype": model.encoder.precision,
            "model_type": {"embedding": {"pooling": model.encoder.pooling_name}},
            "max_concurrent_requests": serving.connections, "max_input_length": model.encoder.max_length,
            "max_batch_tokens": service.batcher.budget, "max_batch_requests": None,
            "max_client_batch_size": serving.texts, "auto_truncate": serving.truncate, "tokenization_workers": 1,
            "version": __version__, "sha": None, "docker_label": None, "settings": service.public_settings(),
            "signature": asdict(service.signature),
        }
    )  # fmt: skip


@router.get("/health", response_class=PlainTextResponse)
async def health(request: ApiRequest) -> Response:
    """Return 200 if the server is ready, 503 while it starts or stops."""
    request.service.check_ready()
    return PlainTextResponse("")


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: ApiRequest) -> Response:
    """Return metrics for Prometheus."""
    return Response(request.service.metrics.page(), headers={"content-type": METRICS_TYPE})
