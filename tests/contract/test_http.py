"""HTTP: status codes, headers and bodies of every route, as clients of a real server see them."""

import base64
import json
import re
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("fastapi", reason="the server's packages are not installed: pip install 'sen2pro[server]'")

from contract import about, api
from contract.about import NONE, ONE_PASS, SAMPLING
from contract.files.make import ENCODER, TINY
from contract.golden import cases
from contract.server import seen, serving
from contract.texts import DOCUMENTS, LABELLED, LABELS, MAN, METADATA

KEY = "correct-horse-battery-staple"
VAGUE = "They did it again."
CASES = cases("http")
ANSWERED = {**CASES["answered"], "embeddings-long": ["PLAIN", "/v1/embeddings", {"input": "word " * 600}]}
REFUSED = {
    **CASES["refused"],
    "many": ["/v1/embeddings", {"input": ["a"] * 2049}],
    "large": ["/v1/embeddings", {"input": "a" * 50_001}],
    "tei-long": ["/embed", {"inputs": "word " * 600, "truncate": False}],
    "tei-many": ["/embed", {"inputs": ["a"] * 2049}],
}
MISSING = CASES["not served"]


@pytest.fixture(scope="module")
def server(one_pass, tmp_path_factory):
    """The default model in one pass, with an index and a classifier."""
    folder = tmp_path_factory.mktemp("server")
    index = api.Index.build(one_pass, list(DOCUMENTS.values()), ids=list(DOCUMENTS), metadata=METADATA)
    index.save(folder / "index")
    api.Sen2ProClassifier(C=1.0, features="mean", head="expected").fit(LABELLED, LABELS).save(folder / "classifier")
    with serving(
        folder, "--index", "index", "--classifier", "classifier", "--alias", "text-embedding-3-small"
    ) as client:
        yield client


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A small model that samples, behind a key and with narrow limits."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys").write_text(KEY + "\n", encoding="utf-8")
    options = (
        "--method sampling --samples 50 --vectors mean --no-truncate --served-name mine --key-file keys --texts 4 "
        "--queue 1 --characters 300 --body-bytes 2048 --batch-tokens 64 --cors https://example.org"
    )
    with serving(folder, "--model", str(ENCODER), *options.split()) as client:
        yield client


def opened(client, path, body, **headers):
    return client.post(path, json=body, headers={"authorization": f"Bearer {KEY}", **headers})


@pytest.mark.parametrize("name", ANSWERED)
def test_answers(name, server, golden):
    how, path, body = ANSWERED[name]
    found = seen(server.post(path, json=body))
    if path == "/v1/compare":
        for row in found["body"]["data"]:
            row["answer"] = type(row["answer"]).__name__  # prose
    golden({"route": path, **found}, getattr(about, how))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, server, golden):
    path, body = REFUSED[name]
    golden({"route": path, **seen(server.post(path, json=body))}, NONE)


@pytest.mark.parametrize("path", ["/v1/models", "/info", "/health"])
def test_what_is_served(path, server, golden):
    golden(seen(server.get(path)), ONE_PASS)


def test_bodies_that_are_no_json(server, golden):
    found = {}
    for path in ("/v1/embeddings", "/embed"):
        for name, content, headers in (
            ("broken", b'{"input": ', {"content-type": "application/json"}),
            ("text", b"hello", {"content-type": "text/plain"}),
            ("packed", b"{}", {"content-type": "application/json", "content-encoding": "gzip"}),
            ("untyped", b"{}", {}),
        ):
            found[f"{path} {name}"] = seen(server.post(path, content=content, headers=headers))
    golden(found, NONE)


def test_base64_says_the_same(server):
    numbers, encoded = (
        server.post("/v1/embeddings", json={"input": MAN, "encoding_format": kind}).json()["data"][0]["embedding"]
        for kind in ("float", "base64")
    )
    assert np.array_equal(np.float32(numbers), np.frombuffer(base64.b64decode(encoded), "<f4"))


def test_distributions_as_arrow(server, golden):
    kind = "application/vnd.apache.arrow.stream"
    answer = server.post("/v1/distributions", json={"input": [MAN, VAGUE]}, headers={"accept": kind})
    table = pa.ipc.open_stream(BytesIO(answer.content)).read_all()
    signature = json.loads(table.schema.metadata[b"signature"])
    columns = {name: np.array(table[name].to_pylist()) for name in table.column_names}
    golden({**seen(answer), "types": {field.name: str(field.type) for field in table.schema}, "columns": columns,
            "signature": {**signature, "version": "str"}}, ONE_PASS)  # fmt: skip


def test_names_of_metrics(server, golden):
    server.post("/v1/nothing", json={})  # so that there is an error to be counted
    answer = server.get("/metrics")
    families = dict(re.findall(r"^# TYPE (\S+) (\S+)$", answer.text, re.MULTILINE))
    labels = {}
    for name, inside in re.findall(r"^(sen2pro\w+)\{(.*)\} ", answer.text, re.MULTILINE):
        labels[name] = sorted(re.findall(r'(\w+)="', inside))
    golden({**seen(answer), "families": families, "labels": labels}, NONE)


def test_calls_are_counted(server):
    def count():
        found = re.search(
            r'^sen2pro_requests_total\{route="/embed",status="200"\} (\S+)$', server.get("/metrics").text, re.M
        )
        return float(found[1]) if found else 0.0

    before = count()
    server.post("/embed", json={"inputs": MAN})
    assert count() == before + 1


def test_routes_of_the_document(server, golden):
    document = server.get("/openapi.json").json()
    routes = {}
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            schema = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "$ref" in schema:
                schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            fields = {"takes": sorted(schema.get("properties", {})), "requires": sorted(schema.get("required", []))}
            routes[f"{method.upper()} {path}"] = fields
    golden({"openapi": document["openapi"][:2], "routes": dict(sorted(routes.items()))}, NONE)


def test_fields_of_the_log(server, golden):
    """One line of JSON for each call, without a text of it."""
    number = server.post("/v1/specificity", json={"input": ["my secret sentence"]}).headers["x-request-id"]
    lines = []
    while not any(number in line for line in lines):
        lines = server.log.read_text().splitlines()
    assert not any("secret" in line for line in lines)
    (line,) = [json.loads(each) for each in lines if number in each]
    golden(
        {"fields": sorted(line), "values": {name: line[name] for name in ("route", "status", "kind", "texts")}}, NONE
    )


def test_keys(locked, golden):
    found = {
        f"{name} {path}": seen(locked.post(path, json={}, headers=headers))
        for name, headers in {
            "no key": {}, "a wrong key": {"authorization": "Bearer wrong-horse-battery-staple"},
            "another scheme": {"authorization": f"Basic {KEY}"},
        }.items()
        for path in ("/v1/embeddings", "/embed")
    }  # fmt: skip
    found |= {
        path: locked.get(path).status_code for path in ("/health", "/info", "/metrics", "/v1/models", "/openapi.json")
    }
    golden(found, NONE)


def test_means_of_samples(locked, golden):
    found = {}
    for path, body in {"/v1/embeddings": {"input": TINY}, "/embed": {"inputs": TINY[0], "normalize": True},
                       "/v1/distributions": {"input": TINY[:2], "model": "mine"}}.items():  # fmt: skip
        found[path] = seen(opened(locked, path, body))
    golden(found, SAMPLING)


@pytest.mark.parametrize("name", MISSING)
def test_what_is_not_served(name, locked, golden):
    golden(seen(opened(locked, *MISSING[name])), NONE)


def test_limits(locked, golden):
    calls = {
        "texts": ("/v1/embeddings", {"input": TINY * 2}),
        "tei texts": ("/embed", {"inputs": TINY * 2}),
        "characters": ("/v1/embeddings", {"input": "a" * 301}),
        "body": ("/v1/embeddings", {"input": "a" * 3000}),
        "tei body": ("/embed", {"inputs": "a" * 3000}),
        "long": ("/v1/embeddings", {"input": "the man " * 30}),
        "tei long": ("/embed", {"inputs": "the man " * 30}),
        "tei long, cut": ("/embed", {"inputs": "the man " * 30, "truncate": True}),
    }
    golden({name: seen(opened(locked, *call)) for name, call in calls.items()}, SAMPLING)


def test_web_pages_of_an_origin(locked, golden):
    found = {
        origin: seen(opened(locked, "/v1/embeddings", {"input": TINY[0]}, origin=origin))["headers"]
        for origin in ("https://example.org", "https://example.com")
    }  # fmt: skip
    golden(found, NONE)


@pytest.mark.parametrize(("path", "field"), [("/v1/distributions", "input"), ("/embed", "inputs")])
def test_a_full_queue(path, field, locked, golden):
    """One text may wait; of many that come at once some are refused."""
    for _ in range(10):
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: opened(locked, path, {field: TINY}), range(32)))
        assert {answer.status_code for answer in answers} <= {200, 429}
        refused = [answer for answer in answers if answer.status_code == 429]
        if refused:
            break
    golden(seen(refused[0]), NONE)
