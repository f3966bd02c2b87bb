"""The embeddings server answers as OpenAI does, and breaks and mends as told."""

import base64
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from langchain_openai import OpenAIEmbeddings

from servers.openai_embeddings import DIMENSIONS, EmbeddingServer, Fault

TEXTS = ["The cat sleeps on the sofa", "A kitten naps on the couch", "Interest rates rose again"]


@pytest.fixture
def client(server: EmbeddingServer) -> Iterator[httpx.Client]:
    """One connection kept alive, as a real client has it."""
    with httpx.Client(base_url=server.base_url, timeout=10, trust_env=False) as client:
        yield client


def embed(client: httpx.Client, given: Any, **arguments: Any) -> httpx.Response:
    return client.post("/embeddings", json={"model": "m", "input": given, **arguments})


def vectors(response: httpx.Response) -> np.ndarray:
    return np.array([item["embedding"] for item in response.raise_for_status().json()["data"]])


def langchain_embeddings(server: EmbeddingServer, **settings: Any) -> OpenAIEmbeddings:
    settings |= {"base_url": server.base_url, "api_key": "test", "model": "wordllama"}
    return OpenAIEmbeddings(check_embedding_ctx_length=False, **settings)


def test_langchain_gets_vectors_that_carry_meaning(server: EmbeddingServer) -> None:
    cat, kitten, rates = np.array(langchain_embeddings(server).embed_documents(TEXTS))

    assert cat @ kitten > cat @ rates
    assert len(cat) == DIMENSIONS
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == "Bearer test"
    assert request.body["input"] == TEXTS


async def test_langchain_async_query_is_the_same_vector(server: EmbeddingServer) -> None:
    embeddings = langchain_embeddings(server, dimensions=64)

    vector = await embeddings.aembed_query(TEXTS[0])

    assert len(vector) == 64
    assert vector == pytest.approx(embeddings.embed_query(TEXTS[0]))


def test_both_encodings_hold_the_same_unit_vectors(client: httpx.Client) -> None:
    floats = vectors(embed(client, TEXTS, dimensions=100))
    encoded = embed(client, TEXTS, dimensions=100, encoding_format="base64").json()["data"]

    decoded = [np.frombuffer(base64.b64decode(item["embedding"]), "<f4") for item in encoded]
    np.testing.assert_allclose(decoded, floats)
    np.testing.assert_allclose(np.linalg.norm(floats, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"input": [1, 2, 3]},
        {"input": [[1, 2, 3]]},
        {"input": []},
        {"input": ["text", ""]},
        {"input": None},
        {"input": "text", "model": ""},
        {"input": "text", "encoding_format": "int8"},
        {"input": "text", "dimensions": DIMENSIONS + 1},
    ],
)
def test_bad_arguments_are_refused(client: httpx.Client, arguments: dict[str, Any]) -> None:
    response = client.post("/embeddings", json={"model": "m", **arguments})

    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_other_paths_are_unknown(client: httpx.Client) -> None:
    assert client.post("/chat/completions", json={}).status_code == 404
    assert client.get("/models").status_code == 404
    assert embed(client, "still in step").status_code == 200


def test_a_status_fault_mends_itself(client: httpx.Client, server: EmbeddingServer) -> None:
    server.fault = Fault(status=429, retry_after=2, times=2)

    responses = [embed(client, "text") for _ in range(3)]

    assert [response.status_code for response in responses] == [429, 429, 200]
    assert responses[0].headers["retry-after"] == "2"
    assert server.fault is None


def test_langchain_sees_the_error_that_openai_would_raise(server: EmbeddingServer) -> None:
    embeddings = langchain_embeddings(server, max_retries=0)
    server.fault = Fault(status=401)
    with pytest.raises(openai.AuthenticationError, match="told to fail"):
        embeddings.embed_query("text")

    server.fault = None
    assert len(embeddings.embed_query("text")) == DIMENSIONS


def test_conditional_faults_hit_only_what_they_name(
    client: httpx.Client, server: EmbeddingServer
) -> None:
    server.fault = Fault(max_inputs=2, poison="rates", times=2)

    statuses = [embed(client, given).status_code for given in (TEXTS[:2], TEXTS, TEXTS[2], TEXTS)]

    assert statuses == [200, 400, 400, 200]


def test_faulty_vectors(client: httpx.Client, server: EmbeddingServer) -> None:
    server.fault = Fault(drop=1)
    assert len(vectors(embed(client, TEXTS))) == 2
    server.fault = Fault(wrong_dimension=300)
    assert vectors(embed(client, TEXTS)).shape == (3, 300)
    server.fault = Fault(non_finite="nan")
    assert np.isnan(vectors(embed(client, TEXTS))).any(axis=1).all()
    server.fault = Fault(non_finite="inf")
    assert np.isinf(vectors(embed(client, TEXTS))).any(axis=1).all()
    server.fault = Fault(garbage=True)
    with pytest.raises(ValueError, match="Expecting value"):
        embed(client, TEXTS).json()


def test_a_hang_outlasts_the_client(client: httpx.Client, server: EmbeddingServer) -> None:
    server.fault = Fault(delay=60, times=1)
    with pytest.raises(httpx.ReadTimeout):
        client.post("/embeddings", json={"model": "m", "input": "text"}, timeout=0.2)

    assert embed(client, "text").status_code == 200


def test_stopping_ends_a_hang(client: httpx.Client, server: EmbeddingServer) -> None:
    server.fault = Fault(delay=60)
    threading.Timer(0.2, server.stop).start()
    started = time.monotonic()

    with pytest.raises(httpx.TransportError):
        embed(client, "text")

    assert time.monotonic() - started < 5


def test_refused_while_stopped_and_back_on_the_same_port(
    client: httpx.Client, server: EmbeddingServer
) -> None:
    before = vectors(embed(client, TEXTS))
    address = server.base_url

    server.stop()
    with pytest.raises(httpx.ConnectError):
        embed(client, TEXTS)

    server.start()
    assert server.base_url == address
    np.testing.assert_array_equal(vectors(embed(client, TEXTS)), before)
