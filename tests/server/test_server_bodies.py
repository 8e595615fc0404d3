"""Bodies of calls that are wrong in very many places: what is kept of them is little."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("fastapi", reason="the server's packages are not installed: pip install 'sen2pro[server]'")
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sen2pro.server import bodies, schemas
from sen2pro.server.bodies import check_amount
from sen2pro.server.doors import invalid
from sen2pro.server.problems import Problem

MANY = 5000


def fault(kind, body):
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_json(json.dumps(body).encode())
    return refused.value


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (schemas.EmbeddingsCall, {"input": [*[1] * MANY, ""]}), (schemas.EmbeddingsCall, {"input": [-1] * MANY}),
        (schemas.EmbeddingsCall, {"input": [[-1] * MANY] * 3}), (schemas.EmbeddingsCall, {"input": [[""]] * MANY}),
        (schemas.EmbedCall, {"inputs": [None] * MANY}), (schemas.CompareCall, {"first": [1] * MANY, "second": "a"}),
        (schemas.SimilarityCall, {"inputs": {"source_sentence": "a", "sentences": [1] * MANY}}),
        (schemas.TokenizeCall, {"inputs": [1] * MANY}), (schemas.SearchCall, {"queries": [1] * MANY}),
    ],
)  # fmt: skip
def test_a_list_of_many_faults_is_read_to_the_first(kind, body):
    assert fault(kind, body).error_count() < 20


def test_many_unknown_fields_are_told_in_one_sentence():
    error = fault(schemas.CompareCall, {f"field {n}": n for n in range(MANY)})
    problem = invalid(error, schemas.CompareCall)
    assert "the fields are: first, second, model" in problem.message
    assert len(problem.message) < 200


@given(st.lists(st.text('",:[]{}\\a'), min_size=2, max_size=30))
def test_what_stands_in_texts_is_not_counted(texts):
    body = json.dumps({"input": texts}).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "MOST_PARTS", 0)
        patch.setattr(bodies, "MOST_VALUES", len(texts))
        check_amount(body, 3)  # the object, its field and its list
        with pytest.raises(Problem, match="2 lists and fields, not 3"):
            check_amount(body, 2)
        patch.setattr(bodies, "MOST_VALUES", len(texts) - 1)
        with pytest.raises(Problem, match=f"{len(texts) - 1} values, not {len(texts)}"):
            check_amount(body, 3)


def test_an_encoding_of_null_is_the_same_as_none():
    for body in (b'{"input": "a", "encoding_format": null}', b'{"input": "a"}'):
        assert TypeAdapter(schemas.EmbeddingsCall).validate_json(body).encoding_format in (None, "float")
