"""OpenAI's dialect: `/v1/embeddings` and `/v1/models`."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
from fastapi import APIRouter, Response

from sen2pro.server import schemas
from sen2pro.server.http_errors import error_docs, json_response
from sen2pro.server.requests import ApiRequest
from sen2pro.server.routing import ApiRoute

router = APIRouter(route_class=ApiRoute, tags=["v1"], responses=error_docs("/v1", schemas.OpenAIErrorBody))


@router.post("/v1/embeddings", responses={200: {"model": schemas.Embeddings}})
async def embeddings(body: schemas.EmbeddingsRequest, request: ApiRequest) -> Response:
    """Return the vectors of texts, as OpenAI does."""
    request.service.check_model(body.model)
    request.service.check_dimensions(body.dimensions)
    texts = await request.tokenize(request.as_list(body.input, "input"), request.engine.prompt())
    rows = await request.embed(texts)
    encoded: list[object] = list(rows)
    if body.encoding_format == "base64":
        encoded = [b64encode(np.asarray(row, "<f4").tobytes()).decode("ascii") for row in rows]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(encoded)]
    return request.answer(data, object="list")


@router.get("/v1/models", responses={200: {"model": schemas.Models}})
async def models(request: ApiRequest) -> Response:
    """Return the model that is served."""
    service = request.service
    served = {
        "id": service.name, "object": "model", "created": service.created, "owned_by": "sen2pro",
        "dimensions": service.engine.model.dim, "aliases": sorted(service.names - {service.name}),
        "settings": service.public_settings(),
    }  # fmt: skip
    return json_response({"object": "list", "data": [served]})
