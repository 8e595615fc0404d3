"""OpenAI's dialect: `/v1/embeddings` and `/v1/models`."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
from fastapi import APIRouter, Response

from sen2pro.server import schemas
from sen2pro.server.engine import Text
from sen2pro.server.http_errors import error_docs, json_response
from sen2pro.server.requests import ApiRequest, ApiRoute
from sen2pro.server.service import Service
from sen2pro.server.texts import as_list, read_texts
from sen2pro.validation import Array

router = APIRouter(route_class=ApiRoute, tags=["v1"], responses=error_docs("/v1", schemas.OpenAIErrorBody))


async def embed_texts(
    request: ApiRequest, texts: list[Text], prompt: str, normalize: bool | None = None
) -> list[Array]:
    """Return the vectors that embedding routes give: plain vectors, or means if the operator chose them."""
    engine = request.service.engine
    if request.service.serving.vectors == "plain":
        return await request.run_texts(engine.vectors(prompt, normalize), texts)
    rows = await request.run_texts(engine.distributions(prompt), texts, engine.passes)
    means = [row.mean for row in rows]
    return [mean / max(float(np.linalg.norm(mean)), 1e-12) for mean in means] if normalize else means


@router.post("/v1/embeddings", responses={200: {"model": schemas.Embeddings}})
async def embeddings(body: schemas.EmbeddingsRequest, request: ApiRequest) -> Response:
    """Return the vectors of texts, as OpenAI does."""
    service = request.service
    service.check_model(body.model)
    service.check_dimensions(body.dimensions)
    prompt = service.engine.prompt()
    texts = await read_texts(request, as_list(body.input, "input", service.serving), prompt)
    rows: list[Array] | list[str] = await embed_texts(request, texts, prompt)
    if body.encoding_format == "base64":
        rows = [b64encode(np.asarray(row, "<f4").tobytes()).decode("ascii") for row in rows]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    return json_response({"object": "list", "data": data, "model": service.name, "usage": request.usage})


@router.get("/v1/models", responses={200: {"model": schemas.Models}})
async def models(request: ApiRequest) -> Response:
    """Return the model that is served."""
    service = request.service
    served = {
        "id": service.name, "object": "model", "created": service.created, "owned_by": "sen2pro",
        "dimensions": service.engine.model.dim, "aliases": sorted(service.names - {service.name}),
        "settings": public_settings(service),
    }  # fmt: skip
    return json_response({"object": "list", "data": [served]})


def public_settings(service: Service) -> dict[str, object]:
    """Return the settings of the model; of a vocabulary only whether there is one, since it can have any size."""
    settings = service.engine.model.settings.to_json()
    return {**settings, "vocabulary": None if settings["vocabulary"] is None else ["..."]}
