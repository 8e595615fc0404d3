"""The dialect of text-embeddings-inference: `/embed`, `/similarity`, `/tokenize`, `/info`, `/health`, `/metrics`."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from sen2pro import __version__
from sen2pro.server import problems, schemas
from sen2pro.server.doors import Answer, Call, Operation
from sen2pro.server.metrics import CONTENT_TYPE
from sen2pro.server.openai_routes import settings, vectors
from sen2pro.server.problems import Problem
from sen2pro.server.state import State, parts

_MOST_TOKENIZED = 1_000_000  # characters of a call of /tokenize: its answer is some thirty times as long


async def embed(state: State, call: Call) -> Answer:
    """Answer `/embed`."""
    asked: schemas.EmbedCall = call.body
    state.check_dimensions(asked.dimensions)
    if asked.normalize is False and state.serving.vectors == "mean" and state.engine.model.normalize:
        raise Problem("invalid", "this server gives means of vectors of length 1; leave 'normalize' out", "normalize")
    prompt = state.engine.prompt(asked.prompt_name)
    texts = await state.texts(call, state.listed(asked.inputs, "inputs"), prompt, asked.truncate)
    return Answer(await vectors(state, call, texts, prompt, asked.normalize))


async def similarity(state: State, call: Call) -> Answer:
    """Answer `/similarity`: the cosine of one sentence with each of the others."""
    asked: schemas.SimilarityCall = call.body
    options = asked.parameters
    prompt = state.engine.prompt(options.prompt_name if options else None)
    others = state.listed(asked.inputs.sentences, "inputs.sentences")
    every = state.listed([asked.inputs.source_sentence, *others], "inputs")
    texts = await state.texts(call, every, prompt, options.truncate if options else None)
    rows = np.stack(await vectors(state, call, texts, prompt)).astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return Answer((rows[1:] @ rows[0]).tolist())


async def tokenize(state: State, call: Call) -> Answer:
    """Answer `/tokenize`."""
    asked: schemas.TokenizeCall = call.body
    prompt = state.engine.prompt(asked.prompt_name) if asked.prompt_name else ""
    texts = state.listed(asked.inputs, "inputs")
    most = max(_MOST_TOKENIZED, state.serving.characters)
    if sum(map(len, texts)) + len(texts) * len(prompt) > most:
        raise Problem("large", f"the texts of a call of /tokenize may have {most} characters in sum", "inputs")
    await state.texts(call, texts, prompt, truncate=True)
    found: list[bytes] = []
    for part in parts([prompt + text for text in texts]):
        found += await state.in_time(call, state.engine.tokenized, part, asked.add_special_tokens)
    return Answer(b"[" + b",".join(found) + b"]")


async def info(state: State, call: Call) -> Answer:
    """Answer `/info`."""
    model, serving = state.engine.model, state.serving
    return Answer(
        {
            "model_id": state.name, "model_sha": state.signature.hash, "model_dtype": model.encoder.precision,
            "model_type": {"embedding": {"pooling": model.encoder.pooling_name}},
            "max_concurrent_requests": serving.connections, "max_input_length": model.encoder.max_length,
            "max_batch_tokens": state.batcher.budget, "max_batch_requests": None,
            "max_client_batch_size": serving.texts, "auto_truncate": serving.truncate, "tokenization_workers": 1,
            "version": __version__, "sha": None, "docker_label": None, "settings": settings(state),
            "signature": asdict(state.signature),
        }
    )  # fmt: skip


async def health(state: State, call: Call) -> Answer:
    """Answer `/health`: 200 once the server has warmed up, 503 before that and while it stops."""
    state.check_ready()
    return Answer(b"", kind=b"text/plain")


async def metrics(state: State, call: Call) -> Answer:
    """Answer `/metrics`."""
    return Answer(state.metrics.page(), kind=CONTENT_TYPE.encode())


_EMBED = "Vectors of texts, as text-embeddings-inference gives them."
OPERATIONS = (
    Operation("POST", "/embed", embed, _EMBED, list[list[float]], schemas.EmbedCall, problems.tei),
    Operation("POST", "/", embed, f"{_EMBED} The same as /embed.", list[list[float]], schemas.EmbedCall, problems.tei),
    Operation(
        "POST", "/similarity", similarity, "The cosine of a sentence with others.", list[float],
        schemas.SimilarityCall, problems.tei,
    ),
    Operation(
        "POST", "/tokenize", tokenize, "The tokens of texts.", list[list[schemas.Token]], schemas.TokenizeCall,
        problems.tei,
    ),
    Operation("GET", "/info", info, "What is served, and how.", schemas.Info, None, problems.tei, is_always=True),
    Operation(
        "GET", "/health", health, "200 if the server is ready.", None, None, problems.tei, is_open=True, is_always=True
    ),
    Operation(
        "GET", "/metrics", metrics, "Numbers for Prometheus.", None, None, problems.tei, is_always=True,
        more={"text/plain": {"schema": {"type": "string"}}},
    ),
)  # fmt: skip
