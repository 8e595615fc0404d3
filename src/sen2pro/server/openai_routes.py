"""OpenAI's dialect: `/v1/embeddings` and `/v1/models`."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np

from sen2pro.server import schemas
from sen2pro.server.doors import Answer, Call, Operation
from sen2pro.server.engine import Text
from sen2pro.server.state import State
from sen2pro.types import Array


async def vectors(
    state: State, call: Call, texts: list[Text], prompt: str, normalize: bool | None = None
) -> list[Array]:
    """Return what the embedding routes give for texts: plain vectors, or means if the operator said so."""
    engine = state.engine
    if state.serving.vectors == "plain":
        return await state.run_texts(call, engine.plain(prompt, normalize), texts)
    rows = await state.run_texts(call, engine.distributions(prompt), texts, engine.passes)
    means = [row.mean for row in rows]
    return [mean / max(float(np.linalg.norm(mean)), 1e-12) for mean in means] if normalize else means


async def embeddings(state: State, call: Call) -> Answer:
    """Answer `/v1/embeddings`."""
    asked: schemas.EmbeddingsCall = call.body
    state.check_model(asked.model)
    state.check_dimensions(asked.dimensions)
    prompt = state.engine.prompt(None)
    texts = await state.texts(call, state.listed(asked.input, "input"), prompt)
    rows: list[Any] = await vectors(state, call, texts, prompt)
    if asked.encoding_format == "base64":
        rows = [b64encode(row.astype("<f4", copy=False).tobytes()).decode("ascii") for row in rows]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    return Answer({"object": "list", "data": data, "model": state.name, "usage": state.usage(call)})


async def models(state: State, call: Call) -> Answer:
    """Answer `/v1/models`."""
    served = {
        "id": state.name, "object": "model", "created": state.created, "owned_by": "sen2pro",
        "dimensions": state.engine.model.dim, "aliases": sorted(state.names - {state.name}),
        "settings": settings(state),
    }  # fmt: skip
    return Answer({"object": "list", "data": [served]})


def settings(state: State) -> dict[str, Any]:
    """Return the settings of the model; of a vocabulary only whether there is one, since it can have any size."""
    shown = state.engine.model.settings.to_json()
    return {**shown, "vocabulary": None if shown["vocabulary"] is None else ["..."]}


OPERATIONS = (
    Operation(
        "POST", "/v1/embeddings", embeddings, "Vectors of texts, as OpenAI gives them.", schemas.Embeddings,
        schemas.EmbeddingsCall,
    ),
    Operation("GET", "/v1/models", models, "The model that is served.", schemas.Models, is_always=True),
)  # fmt: skip
