"""The server as its clients see it: a real process, the openai client, a client of text-embeddings-inference, httpx."""

from __future__ import annotations

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from labelled_texts import LABELS, TEXTS

pytest.importorskip("fastapi", reason="the server's packages are not installed: pip install 'sen2pro[server]'")
openai = pytest.importorskip("openai")
import httpx
from huggingface_hub import InferenceClient
from server_process import running

from sen2pro import Sen2Pro
from sen2pro.calibration.comparison import Comparison
from sen2pro.classification import Sen2ProClassifier
from sen2pro.search import Hit, Index
from sen2pro.settings import DATA
from sen2pro.signature import Signature

pytestmark = pytest.mark.slow

MAN, PLAYS, MARKET = "A man is playing a guitar.", "Someone plays an instrument.", "The market fell again."
DOCUMENTS = {
    "password": "To reset your password, open Settings and choose Security.",
    "shipping": "We ship to all of Europe within five days.",
    "office": "Our office is in Lyon, next to the station.",
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "serving.md"


@pytest.fixture(scope="module")
def model():
    return Sen2Pro(method="one-pass")


@pytest.fixture(scope="module")
def classifier(model):
    return Sen2ProClassifier("all-MiniLM-L6-v2").fit(TEXTS, LABELS)


@pytest.fixture(scope="module")
def index(model):
    return Index.build(
        model, list(DOCUMENTS.values()), ids=list(DOCUMENTS), metadata=[{"lang": "en"}, {"lang": "fr"}, {"lang": "en"}]
    )


@pytest.fixture(scope="module")
def server(model, index, classifier, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    index.save(folder / "index")
    classifier.save(folder / "classifier")
    options = ("--index", folder / "index", "--classifier", folder / "classifier", "--alias", "text-embedding-3-small")
    with running(folder, *options) as started:
        yield started


def close(ours, theirs):
    return np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)).max() <= 1e-6


# Clients of others; tests/contract has the bodies.


def test_the_openai_client_gets_the_vectors_of_the_library(server, model):
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0, http_client=httpx.Client(trust_env=False)
    ) as client:
        answer = client.embeddings.create(input=[MAN, PLAYS], model="all-MiniLM-L6-v2")  # asks for base64 automatically
        assert close([row.embedding for row in answer.data], model.encode_plain([MAN, PLAYS]))
        assert answer.usage.prompt_tokens == sum(map(len, model.encoder.tokenize([MAN, PLAYS]).ids))
        ids = list(model.encoder.tokenize([MAN, PLAYS]).ids)  # of the second, without [CLS] and [SEP]
        two = client.embeddings.create(input=[ids[0], ids[1][1:-1]], model="text-embedding-3-small").data
        assert close([row.embedding for row in two], model.encode_plain([MAN, PLAYS]))
        with pytest.raises(openai.NotFoundError) as refused:
            client.embeddings.create(input=MAN, model="text-embedding-ada-002")
        assert refused.value.code == "model_not_found"
        (served,) = client.models.list().data
        assert (served.id, set(served.settings)) == ("all-MiniLM-L6-v2", set(DATA))


def test_a_client_of_text_embeddings_inference_gets_the_vectors_of_the_library(server, model):
    client = InferenceClient(model=server.url)
    assert close(client.feature_extraction(MAN, normalize=True, truncate=True), model.encode_plain([MAN]))


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/embeddings", {}, "'input' is missing"), ("/v1/embeddings", {"input": [MAN, 5]}, "'input' must be a text"),
        ("/v1/embeddings", {"input": []}, "'input' is empty"), ("/v1/embeddings", [MAN], "must be a JSON object"),
        ("/v1/embeddings", {"input": [MAN, " \u200b"]}, "sentence 1 is empty or blank"),
        ("/v1/embeddings", {"input": [10**9]}, "outside this model's vocabulary"),
        ("/v1/embeddings", {"input": [[101, 102]]}, "only special tokens"),
        ("/v1/embeddings", {"input": MAN, "encoding_format": "hex"}, "'encoding_format' must be 'float' or 'base64'"),
        ("/v1/embeddings", {"input": MAN, "dimensions": 256}, "384 dimensions"),
        ("/v1/distributions", {"input": MAN, "colour": 1}, "unknown field; the fields are: input, model"),
        ("/v1/compare", {"first": MAN}, "'second' is missing"),
        ("/v1/compare", {"first": [MAN], "second": [MAN, MAN]}, "as many texts"),
        ("/v1/search", {"queries": MAN, "k": 0}, "'k' must be greater than or equal to 1"),
        ("/v1/search", {"queries": MAN, "where": {"a.b": 1}}, "a metadata key"),
        ("/v1/search", {"queries": MAN, "precision": 2}, "'precision' must be less than 1"),
        ("/v1/classify", {"input": [[1]]}, "'input' must be a text or a list of texts"),
    ],
)  # fmt: skip
def test_an_error_names_the_field_and_the_fault(server, path, body, message):
    answer = server.post(path, body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


# Many clients.


def test_an_answer_does_not_depend_on_who_else_is_in_the_batch(server, model):
    """A hundred requests of one to five texts each, on 32 connections at once, of two jobs and all lengths."""
    words = "the cat sat on a mat and then it looked at some other animals in that very old house".split()
    texts = [" ".join(words[n % 7 : n % 7 + 1 + n % 11]) + f" number {n}" for n in range(120)]
    calls = [(slice(n, n + 1 + n % 5), n % 4 == 0) for n in range(100)]
    plain, gaussian = model.encode_plain(texts), model.encode(texts)
    before = server.metric("sen2pro_batch_texts_count")
    with server.client(limits=httpx.Limits(max_connections=32)) as client, ThreadPoolExecutor(32) as pool:

        def ask(call):
            here, with_variance = call
            path = "/v1/distributions" if with_variance else "/v1/embeddings"
            return client.post(path, json={"input": texts[here]}).json()["data"]

        answers = list(pool.map(ask, calls))
    for (here, with_variance), rows in zip(calls, answers, strict=True):
        if with_variance:
            assert close([row["mean"] for row in rows], gaussian.mean[here])
            assert close([row["variance"] for row in rows], gaussian.variance[here])
        else:
            assert close([row["embedding"] for row in rows], plain[here])
    assert server.metric("sen2pro_batch_texts_count") - before < len(calls)  # requests did share batches


# What is written about the server.


def test_the_document_of_the_routes_is_made_from_the_types_of_the_library(server):
    document = server.client().get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    assert set(schemas["Settings"]["properties"]) == set(DATA)
    assert set(schemas["Signature"]["properties"]) == {each.name for each in fields(Signature)}
    assert {each.name for each in fields(Comparison)} < set(schemas["Comparison"]["properties"])
    assert set(schemas["Hit"]["properties"]) == {each.name for each in fields(Hit)}


def test_every_example_of_the_document_works(server):
    document = server.client().get("/openapi.json").json()
    tried = 0
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            assert about["summary"], path
            if method == "get":
                assert server.client().get(path).status_code == 200
                continue
            name = about["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            for example in document["components"]["schemas"][name]["examples"]:
                assert server.post(path, example).status_code == 200, path
                tried += 1
            assert {"400", "401", "413", "422", "429", "503", "504"} & set(about["responses"])
    assert tried >= 10


CURL = re.compile(r"^curl .*?(?=\n(?:curl|```|$))", re.DOTALL | re.MULTILINE)
LINES = [line for line in CURL.findall(PAGE.read_text(encoding="utf-8")) if "localhost:8080" in line]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("localhost:8080")[1].split()[0])
def test_the_curl_lines_of_the_documentation_run(server, line, tmp_path):
    command = line.replace("http://localhost:8080", server.url).replace("curl ", "curl --noproxy '*' -sS ", 1)
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if "arrow" in command:
        assert list(tmp_path.iterdir())
    elif "/metrics" in command:
        assert b"sen2pro_requests_total" in done.stdout
    elif "/health" not in command:
        assert "error" not in json.loads(done.stdout)
