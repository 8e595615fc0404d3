"""Our own routes that know texts: search in an index, and classification, with the server's texts or the request's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response

from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.search.documents import check_where
from sen2pro.server import schemas
from sen2pro.server.cache import key_of
from sen2pro.server.engine import SearchOptions, Text, labels_of
from sen2pro.server.http_errors import RequestError, error_docs
from sen2pro.server.requests import ApiRequest, ApiRoute, data_response
from sen2pro.server.texts import as_list, read_texts

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.search import Index

router = APIRouter(route_class=ApiRoute, tags=["v1"], responses=error_docs("/v1", schemas.OpenAIErrorBody))
_MOST_HITS = 100_000  # of all queries of a request
_MOST_CHARACTERS = 50_000_000  # of the texts of these hits
_MOST_PROBABILITIES = 1_000_000  # of a response of /v1/classify
_MOST_DOCUMENTS, _MOST_EXAMPLES, _MOST_LABELS = 2000, 200, 20
_BYTES_PER_DOCUMENT = 500  # in an index, besides the vector and the text
_BYTES_PER_CLASSIFIER = 4096  # besides its weights


@router.post("/v1/search", responses={200: {"model": schemas.Results}})
async def search(body: schemas.SearchRequest, request: ApiRequest) -> Response:
    """Return texts of the server's index, or of the request, with the probability that each is right."""
    service = request.service
    service.check_model(body.model)
    queries = as_list(body.queries, "queries", service.serving)
    if len(queries) * body.k > _MOST_HITS:
        raise RequestError("large", f"a request may ask for {_MOST_HITS} hits, its queries times 'k'", "k")
    check_where(body.where)
    if body.documents is None:
        index = service.engine.index
        if index is None:
            raise RequestError("missing", "this server has no index to search; give 'documents'")
    else:
        index = await _index_of(request, body.documents)
    if body.precision is not None and not index.calibrated:
        raise RequestError("invalid", "precision needs calibrated probabilities; this index has none", "precision")
    options = SearchOptions(body.k, body.where, body.precision, body.certainty)
    texts = await read_texts(request, queries, "")
    weight = service.engine.search_weight(index, options)
    rows = await request.run_texts(service.engine.search(index, options), texts, index.passes, weight)
    if sum(row.characters for row in rows) > _MOST_CHARACTERS:
        message = f"the hits of a request may have {_MOST_CHARACTERS} characters; ask for fewer hits"
        raise RequestError("large", message, "k")
    return data_response(request, [row.content for row in rows])


async def _index_of(request: ApiRequest, documents: Sequence[str]) -> Index:
    """Return an index of documents: a cached one, or a new one. A request that runs out of time can be repeated."""
    service, model = request.service, request.service.engine.model
    if find_spec("faiss") is None:
        raise RequestError("missing", "searching in documents needs: pip install 'sen2pro[search]'", "documents")
    given = [str(text) for text in as_list(list(documents), "documents", service.serving, _MOST_DOCUMENTS)]
    key = key_of(given)
    index = service.indexes.get(key)
    if index is None:
        index = await request.run_in_thread(partial(_new_index, model), "fits")
        size = len(given) * (4 * model.dim + _BYTES_PER_DOCUMENT) + 2 * sum(map(len, given))
        service.indexes.put(key, index, size)
    done = len(index)
    if done < len(given):
        texts = await read_texts(request, given[done:], "")
        units: list[tuple[int, Text]] = list(enumerate(texts, start=done))
        await request.run(service.engine.indexing(index), units, [index.passes * text.weight for text in texts])
    return index


def _new_index(model: Sen2Pro) -> Index:
    """Return an empty index. The first import takes a second or two."""
    from sen2pro.search import Index

    return Index.build(model)


@router.post("/v1/classify", responses={200: {"model": schemas.Classes}})
async def classify(body: schemas.ClassifyRequest, request: ApiRequest) -> Response:
    """Return labels of texts, with probabilities, by the server's classifier or by examples of the request."""
    service = request.service
    engine, prompt = service.engine, service.engine.prompt()
    service.check_model(body.model)
    given = as_list(body.input, "input", service.serving)
    if body.examples is None:
        if engine.classifier is None:
            raise RequestError("missing", "this server has no classifier; give 'examples'")
        classes, passes = len(engine.classifier.classes_), engine.classifier.encoder.passes
        if len(given) > 1 and len(given) * classes > _MOST_PROBABILITIES:
            most = max(1, _MOST_PROBABILITIES // classes)
            message = f"with {classes} classes, a request may have {most} texts, not {len(given)}"
            raise RequestError("large", message, "input")
        texts = await read_texts(request, given, prompt)
        return data_response(request, await request.run_texts(engine.labels(engine.classifier), texts, passes))
    classifier = await _classifier_of(request, body.examples)
    texts = await read_texts(request, given, prompt)
    rows = await request.run_texts(engine.distributions(prompt), texts, engine.passes)
    return data_response(request, labels_of(classifier, classifier.predict_proba(engine.gaussian(rows, prompt))))


async def _classifier_of(request: ApiRequest, examples: Sequence[schemas.Example]) -> Sen2ProClassifier:
    """Return a classifier that learned from examples: a cached one, or a new one."""
    service, engine = request.service, request.service.engine
    given = [example.text for example in examples]
    labels = [example.label for example in examples]
    if len(set(labels)) > _MOST_LABELS:
        raise RequestError("large", f"examples may have {_MOST_LABELS} labels, not {len(set(labels))}", "examples")
    as_list(given, "examples", service.serving, _MOST_EXAMPLES)
    key = key_of([*given, *labels])
    classifier = service.classifiers.get(key)
    if classifier is None:
        prompt = engine.prompt()
        texts = await read_texts(request, given, prompt)
        rows = await request.run_texts(engine.distributions(prompt), texts, engine.passes)
        try:
            fit = partial(_fitted, engine.model, engine.gaussian(rows, prompt), labels)
            classifier = await request.run_in_thread(fit, "fits")
        except Sen2ProError as error:
            raise RequestError("invalid", str(error), "examples") from None
        service.classifiers.put(key, classifier, 16 * engine.model.dim * len(set(labels)) + _BYTES_PER_CLASSIFIER)
    return classifier


def _fitted(model: Sen2Pro, gaussian: Gaussian, labels: list[str]) -> Sen2ProClassifier:
    """Return a classifier that learned from Gaussians (n, k). The first import takes a second or two."""
    from sen2pro.classification import Sen2ProClassifier

    # The simplest features and head: a choice by cross-validation would take twice as long and seldom chooses others.
    return Sen2ProClassifier(model, features="mean", head="expected").fit(gaussian, labels)
