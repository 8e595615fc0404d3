"""Our own routes: distributions, comparisons, specificity, search and classification."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from sen2pro.search.rows import check_where
from sen2pro.server import schemas
from sen2pro.server.doors import Answer, Call, Operation
from sen2pro.server.engine import Distribution
from sen2pro.server.problems import Problem
from sen2pro.server.state import State
from sen2pro.signature import Signature

_MOST_HITS = 100_000  # of all queries of a call
_MOST_LETTERS = 50_000_000  # of the texts of these hits
_MOST_SHARES = 1_000_000  # probabilities of a call of /v1/classify
ARROW = "application/vnd.apache.arrow.stream"


async def distributions(state: State, call: Call) -> Answer:
    """Answer `/v1/distributions`, as JSON or as an Arrow stream."""
    asked: schemas.DistributionsCall = call.body
    state.check_model(asked.model)
    engine, prompt = state.engine, state.engine.prompt(None)
    texts = await state.texts(call, state.listed(asked.input, "input"), prompt)
    rows: list[Distribution] = await state.run_texts(call, engine.distributions(prompt), texts, engine.passes)
    signature = engine.model.signature(prompt)
    if ARROW.encode() in call.headers.get(b"accept", b""):
        return Answer(arrow(rows, signature), kind=ARROW.encode())
    data = [{"index": index, **row.to_json()} for index, row in enumerate(rows)]
    return Answer({"object": "list", "data": data, "signature": asdict(signature), **_end(state, call)})


def arrow(rows: list[Distribution], signature: Signature) -> bytes:
    """Return an Arrow stream with the columns mean, variance, total and coverage; its metadata has the signature."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name in ("mean", "variance"):
        array = np.stack([getattr(row, name) for row in rows])
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])
    columns["total"] = pa.array([row.total for row in rows], pa.float64())
    columns["coverage"] = pa.array([row.coverage for row in rows], pa.float32())
    table = pa.table(columns).replace_schema_metadata({"signature": signature.to_json()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


async def compare(state: State, call: Call) -> Answer:
    """Answer `/v1/compare`."""
    asked: schemas.CompareCall = call.body
    state.check_model(asked.model)
    if not state.engine.compares:
        raise Problem("missing", "comparisons come with the default model only, and this server has another one")
    first, second = state.listed(asked.first, "first"), state.listed(asked.second, "second")
    if len(first) != len(second):
        raise Problem("invalid", f"give as many texts as 'first' and 'second', not {len(first)} and {len(second)}")
    texts = await state.texts(call, [*first, *second], state.engine.prompt(None))
    sizes = [text.weight for text in texts]
    weights = [a + b for a, b in zip(sizes[: len(first)], sizes[len(first) :], strict=True)]
    rows = await state.run(call, state.engine.comparisons(), list(zip(first, second, strict=True)), weights)
    return Answer({"data": rows, **_end(state, call)})


async def specificity(state: State, call: Call) -> Answer:
    """Answer `/v1/specificity`."""
    if not state.engine.specifies:
        raise Problem("missing", "there is no specificity head for the model of this server")
    return await _one_lane(state, call, state.engine.specificity)


async def search(state: State, call: Call) -> Answer:
    """Answer `/v1/search`."""
    asked = call.body
    state.check_model(asked.model)
    index = state.engine.index
    if index is None:
        raise Problem("missing", "this server has no index to search")
    options = asked.model_dump(exclude={"queries", "model"})
    check_where(options["where"])
    if options["precision"] is not None and not index.calibrated:
        raise Problem("invalid", "no precision can be kept: nothing is calibrated for this index", "precision")
    queries = state.listed(asked.queries, "queries")
    if len(queries) * asked.k > _MOST_HITS:
        raise Problem("large", f"a call may ask for {_MOST_HITS} hits, its queries times 'k'", "k")
    texts, weight = await state.texts(call, queries, ""), state.engine.search_weight(asked.k, asked.where)
    rows = await state.run_texts(call, state.engine.search(options), texts, index.passes, weight)
    if sum(len(hit["text"]) for row in rows for hit in row["hits"]) > _MOST_LETTERS:
        raise Problem("large", f"the hits of a call may have {_MOST_LETTERS} characters; ask for fewer of them", "k")
    return Answer({"data": rows, **_end(state, call)})


async def classify(state: State, call: Call) -> Answer:
    """Answer `/v1/classify`."""
    classifier = state.engine.classifier
    if classifier is None:
        raise Problem("missing", "this server has no classifier")
    count, classes = len(state.listed(call.body.input, "input")), len(classifier.classes_)
    if count > 1 and count * classes > _MOST_SHARES:
        most = max(1, _MOST_SHARES // classes)
        raise Problem("large", f"with {classes} classes, a call may have {most} texts, not {count}", "input")
    return await _one_lane(state, call, state.engine.classify, classifier.encoder.passes)


async def _one_lane(state: State, call: Call, lane: Any, passes: int = 1) -> Answer:
    state.check_model(call.body.model)
    texts = await state.texts(call, state.listed(call.body.input, "input"), state.engine.prompt(None))
    return Answer({"data": await state.run_texts(call, lane(), texts, passes), **_end(state, call)})


def _end(state: State, call: Call) -> dict[str, Any]:
    return {"model": state.name, "usage": state.usage(call)}


OPERATIONS = (
    Operation(
        "POST", "/v1/distributions", distributions, "Means and variances of texts.", schemas.Distributions,
        schemas.DistributionsCall, more={ARROW: {"schema": {"type": "string", "format": "binary"}}},
    ),
    Operation(
        "POST", "/v1/compare", compare, "How likely sentences mean the same, how similar they are, and why.",
        schemas.Comparisons, schemas.CompareCall,
    ),
    Operation(
        "POST", "/v1/specificity", specificity, "How specific texts are.", schemas.Specificities,
        schemas.SpecificityCall,
    ),
    Operation(
        "POST", "/v1/search", search, "Texts of the index, with probabilities.", schemas.Results, schemas.SearchCall
    ),
    Operation(
        "POST", "/v1/classify", classify, "Labels of texts, with probabilities.", schemas.Classes, schemas.ClassifyCall
    ),
)  # fmt: skip
