"""Our own routes, below `/v1`: distributions, comparisons, specificity, words, maps, search and classification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from fastapi import APIRouter, Response

from sen2pro.encoder.backend import Tokens
from sen2pro.errors import Sen2ProError
from sen2pro.estimation.specificity import explain, without_each_word
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.search.documents import check_where
from sen2pro.server import schemas
from sen2pro.server.engine import TextGaussian, labels_of
from sen2pro.server.http_errors import RequestError, error_docs
from sen2pro.server.mapping import make_map
from sen2pro.server.requests import ApiRequest
from sen2pro.server.routing import ApiRoute
from sen2pro.signature import Signature

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.search import Index

router = APIRouter(route_class=ApiRoute, tags=["v1"], responses=error_docs("/v1", schemas.OpenAIErrorBody))
ARROW = "application/vnd.apache.arrow.stream"
_MOST_WORDS, _MOST_LETTERS = 400, 20_000  # of a request to /v1/explain: it encodes the text once without each word
_MOST_MAPPED = 300
_MOST_HITS = 100_000  # of all queries of a request
_MOST_CHARACTERS = 50_000_000  # of the texts of these hits
_MOST_PROBABILITIES = 1_000_000  # of a response of /v1/classify
_MOST_DOCUMENTS, _MOST_EXAMPLES, _MOST_LABELS = 2000, 200, 20
_BYTES_PER_DOCUMENT = 500  # in an index, besides the vector and the text
_BYTES_PER_CLASSIFIER = 4096  # besides its weights


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
    request.service.check_model(body.model)
    rows = await request.distributions(request.as_list(body.input, "input"))
    signature = request.engine.model.signature(request.engine.prompt())
    if ARROW in request.headers.get("accept", ""):
        return Response(to_arrow(rows, signature), media_type=ARROW)
    data = [{"index": i, **vars(row)} for i, row in enumerate(rows)]
    return request.answer(data, object="list", signature=asdict(signature))


def to_arrow(rows: Sequence[TextGaussian], signature: Signature) -> bytes:
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


@router.post("/v1/compare", responses={200: {"model": schemas.Answer[schemas.ComparedPair]}})
async def compare(body: schemas.CompareRequest, request: ApiRequest) -> Response:
    """Return how likely sentences mean the same, how similar they are, and why."""
    request.service.check_model(body.model)
    if not request.engine.compares:
        message = "comparisons come with the default model only, and this server has another one"
        raise RequestError("missing", message)
    first, second = request.as_list(body.first, "first"), request.as_list(body.second, "second")
    if len(first) != len(second):
        message = f"give as many texts as 'first' and 'second', not {len(first)} and {len(second)}"
        raise RequestError("invalid", message)
    tokens = await request.tokenize([*first, *second], request.engine.prompt())
    pairs = [tokens.rows([i, len(first) + i]) for i in range(len(first))]
    found = await request.run(request.engine.comparisons(), pairs, pairs)
    return request.answer([{**asdict(each), "verdict": each.verdict, "answer": str(each)} for each in found])


@router.post("/v1/specificity", responses={200: {"model": schemas.Answer[schemas.TextSpecificity]}})
async def specificity(body: schemas.TextsRequest, request: ApiRequest) -> Response:
    """Return how specific texts are."""
    request.service.check_model(body.model)
    if not request.engine.specifies:
        raise RequestError("missing", "there is no specificity head for the model of this server")
    tokens = await request.tokenize(request.as_list(body.input, "input"), request.engine.prompt())
    return request.answer(await request.run_texts(request.engine.specificity(), tokens))


@router.post("/v1/explain", responses={200: {"model": schemas.Answer[schemas.TextExplanation]}})
async def explain_texts(body: schemas.TextsRequest, request: ApiRequest) -> Response:
    """Return which words carry a text: how far the meaning moves when each of them is left out."""
    engine, prompt = request.engine, request.engine.prompt()
    request.service.check_model(body.model)
    given = request.as_list(body.input, "input")
    if sum(map(len, given)) > _MOST_LETTERS:
        raise RequestError("large", f"the texts of a request may have {_MOST_LETTERS} characters in sum", "input")
    tokens = await request.tokenize(given, prompt)
    words = [text.split() for text in tokens.texts]
    if sum(map(len, words)) > _MOST_WORDS:
        raise RequestError("large", f"the texts of a request may have {_MOST_WORDS} words in sum", "input")
    copies = [without_each_word(each) for each in words]
    units = await request.by_parts(lambda part: [engine.tokenize(part, prompt)], list(chain.from_iterable(copies)))
    rows = iter(await request.run_texts(engine.vectors(prompt), Tokens.join(units)))
    found = [explain(each, np.stack([next(rows) for _ in some])) for each, some in zip(words, copies, strict=True)]
    return request.answer([{"words": each.words, "moves": each.moves, "share": each.share} for each in found])


@router.post("/v1/map", responses={200: {"model": schemas.Map}})
async def draw_map(body: schemas.MapRequest, request: ApiRequest) -> Response:
    """Return texts in the plane: where each lies, its ellipse, and named groups."""
    engine, prompt = request.engine, request.engine.prompt()
    request.service.check_model(body.model)
    if len(body.input) < 2:
        raise RequestError("invalid", "a map takes at least 2 texts", "input")
    tokens = await request.tokenize(request.as_list(body.input, "input", _MOST_MAPPED), prompt)
    rows = await request.run_texts(engine.distributions(prompt), tokens)
    scores: list[float | None] = [None] * len(tokens)
    if engine.specifies:
        scores = [row.score for row in await request.run_texts(engine.specificity(), tokens)]
    draw = partial(make_map, tokens.texts, engine.gaussian(rows, prompt), scores)
    points, groups = await request.run_in_thread(draw, "fits")
    return request.answer(points, groups=groups)


@router.post("/v1/search", responses={200: {"model": schemas.Answer[schemas.FoundTexts]}})
async def search(body: schemas.SearchRequest, request: ApiRequest) -> Response:
    """Return texts of the server's index, or of the request, with the probability that each is right."""
    engine = request.engine
    request.service.check_model(body.model)
    queries = request.as_list(body.queries, "queries")
    if len(queries) * body.k > _MOST_HITS:
        raise RequestError("large", f"a request may ask for {_MOST_HITS} hits, its queries times 'k'", "k")
    check_where(body.where)
    if body.documents is None:
        index = engine.index
        if index is None:
            raise RequestError("missing", "this server has no index to search; give 'documents'")
    else:
        index = await _index_of(request, body.documents)
    if body.precision is not None and not index.calibrated:
        raise RequestError("invalid", "precision needs calibrated probabilities; this index has none", "precision")
    tokens = await request.tokenize(queries, index.prompt("query"))
    job = engine.search(index, body.k, body.where, body.precision, body.certainty)
    results = await request.run_texts(job, tokens)
    if sum(len(hit.text) for result in results for hit in result) > _MOST_CHARACTERS:
        message = f"the hits of a request may have {_MOST_CHARACTERS} characters; ask for fewer hits"
        raise RequestError("large", message, "k")
    return request.answer([result.to_json() for result in results])


async def _index_of(request: ApiRequest, documents: Sequence[str]) -> Index:
    """Return an index of documents: a cached one, or a new one. A request that runs out of time can be repeated."""
    model, indexes = request.engine.model, request.service.indexes
    if find_spec("faiss") is None:
        raise RequestError("missing", "searching in documents needs: pip install 'sen2pro[search]'", "documents")
    given = [str(text) for text in request.as_list(list(documents), "documents", _MOST_DOCUMENTS)]
    key = indexes.key(given)
    index = indexes.get(key)
    if index is None:
        index = await request.run_in_thread(partial(_new_index, model), "fits")
        size = len(given) * (4 * model.dim + _BYTES_PER_DOCUMENT) + 2 * sum(map(len, given))
        indexes.put(key, index, size)
    done = len(index)
    if done < len(given):
        tokens = await request.tokenize(given[done:], index.prompt("document"))
        rows = [tokens.rows([i]) for i in range(len(tokens))]
        await request.run(request.engine.indexing(index), list(enumerate(rows, done)), rows)
    return index


def _new_index(model: Sen2Pro) -> Index:
    """Return an empty index. The first import takes a second or two."""
    from sen2pro.search import Index

    return Index.build(model)


@router.post("/v1/classify", responses={200: {"model": schemas.Answer[schemas.Label]}})
async def classify(body: schemas.ClassifyRequest, request: ApiRequest) -> Response:
    """Return labels of texts, with probabilities, by the server's classifier or by examples of the request."""
    engine = request.engine
    request.service.check_model(body.model)
    given = request.as_list(body.input, "input")
    if body.examples is not None:
        classifier = await _classifier_of(request, body.examples)
        gaussian = engine.gaussian(await request.distributions(given), engine.prompt())
        return request.answer(labels_of(classifier, classifier.predict_proba(gaussian)))
    if engine.classifier is None:
        raise RequestError("missing", "this server has no classifier; give 'examples'")
    classes = len(engine.classifier.classes_)
    if len(given) > 1 and len(given) * classes > _MOST_PROBABILITIES:
        most = max(1, _MOST_PROBABILITIES // classes)
        message = f"with {classes} classes, a request may have {most} texts, not {len(given)}"
        raise RequestError("large", message, "input")
    tokens = await request.tokenize(given, engine.prompt())
    return request.answer(await request.run_texts(engine.labels(engine.classifier), tokens))


async def _classifier_of(request: ApiRequest, examples: Sequence[schemas.Example]) -> Sen2ProClassifier:
    """Return a classifier that learned from examples: a cached one, or a new one."""
    engine, classifiers = request.engine, request.service.classifiers
    texts, labels = [example.text for example in examples], [example.label for example in examples]
    if len(set(labels)) > _MOST_LABELS:
        raise RequestError("large", f"examples may have {_MOST_LABELS} labels, not {len(set(labels))}", "examples")
    given = request.as_list(texts, "examples", _MOST_EXAMPLES)
    key = classifiers.key([*texts, *labels])
    classifier = classifiers.get(key)
    if classifier is None:
        gaussian = engine.gaussian(await request.distributions(given), engine.prompt())
        try:
            classifier = await request.run_in_thread(partial(_fitted, engine.model, gaussian, labels), "fits")
        except Sen2ProError as error:
            raise RequestError("invalid", str(error), "examples") from None
        classifiers.put(key, classifier, 16 * engine.model.dim * len(set(labels)) + _BYTES_PER_CLASSIFIER)
    return classifier


def _fitted(model: Sen2Pro, gaussian: Gaussian, labels: list[str]) -> Sen2ProClassifier:
    """Return a classifier that learned from Gaussians (n, k). The first import takes a second or two."""
    from sen2pro.classification import Sen2ProClassifier

    # The simplest features and head: a choice by cross-validation would take twice as long and seldom chooses others.
    return Sen2ProClassifier(model, features="mean", head="expected").fit(gaussian, labels)
