"""The `Embedder` guards a model: it checks, cuts, remembers, and does not insist."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings

from langchain_agentmem.embeddings import embedder as embedder_module
from langchain_agentmem.embeddings.embedder import QUERY_CACHE_SIZE, Embedder
from langchain_agentmem.errors import EmbeddingError


class Model(Embeddings):
    """A model that answers what it is told to and counts its calls."""

    def __init__(self, answer: Callable[[list[str]], Any] | None = None) -> None:
        self.answer = answer or (lambda texts: [[float(len(text)), 1.0] for text in texts])
        self.calls: list[list[str]] = []

    def embed_documents(self, texts: list[str]) -> Any:
        self.calls.append(texts)
        return self.answer(texts)

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]

    async def aembed_query(self, text: str) -> Any:
        return self.embed_query(text)


def fail(_: list[str]) -> Any:
    msg = "out of order"
    raise ConnectionError(msg)


def embedder(model: Model, **options: Any) -> Embedder:
    return Embedder(model, name="some-model", identity="i", advice="check the plug", **options)


Ask = Callable[[Embedder, str], np.ndarray]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Embeds a query, in both ways."""
    if request.param == "sync":
        return Embedder.embed_query
    return lambda embedder, text: asyncio.run(embedder.aembed_query(text))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the time that the embedder sees."""
    now = [1000.0]
    monkeypatch.setattr(f"{embedder_module.__name__}.time.monotonic", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


def test_a_query_becomes_a_vector(ask: Ask) -> None:
    vector = ask(embedder(Model()), "four")

    assert vector.dtype == np.float32
    assert vector.tolist() == [4.0, 1.0]


def test_documents_become_a_matrix_in_calls_of_the_batch_size() -> None:
    model = Model()

    vectors = embedder(model, batch_size=2).embed_documents(["a", "bb", "ccc", "dddd", "eeeee"])

    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[1, 1], [2, 1], [3, 1], [4, 1], [5, 1]]
    assert model.calls == [["a", "bb"], ["ccc", "dddd"], ["eeeee"]]


def test_no_documents_are_no_call() -> None:
    model = Model()

    assert len(embedder(model).embed_documents([])) == 0
    assert model.calls == []


def test_long_texts_are_cut(ask: Ask) -> None:
    model = Model()
    cutting = embedder(model, max_input_chars=5)

    ask(cutting, "1234567")
    cutting.embed_documents(["abcdefgh", "abc"])

    assert model.calls == [["12345"], ["abcde", "abc"]]


def test_the_vectors_of_the_latest_queries_are_remembered(ask: Ask) -> None:
    model = Model()
    caching = embedder(model)

    first = ask(caching, "again")
    for _ in range(3):
        assert ask(caching, "again") is first
    assert model.calls == [["again"]]

    for i in range(QUERY_CACHE_SIZE - 1):
        ask(caching, f"query {i}")
    ask(caching, "again")  # used a moment ago, so it stays longer than `query 0`
    ask(caching, "one more")
    model.calls.clear()
    ask(caching, "again")
    ask(caching, "query 0")
    assert model.calls == [["query 0"]]


def test_a_remembered_vector_cannot_be_changed(ask: Ask) -> None:
    with pytest.raises(ValueError, match="read-only"):
        ask(embedder(Model()), "query")[0] = 5


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([], "shape"),
        ([[1.0, 2.0]], "shape"),
        (5.0, "shape"),
        (None, "no vectors|NaN|shape"),
        ("text", "no vectors"),
        (["a", "b"], "no vectors"),
        ([1.0, float("nan")], "NaN or infinite"),
        ([1.0, float("inf")], "NaN or infinite"),
        ([1e300, 1.0], "NaN or infinite"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_what_is_no_vector_is_an_error(ask: Ask, vector: Any, reason: str) -> None:
    broken = embedder(Model(lambda texts: [vector for _ in texts]))

    with pytest.raises(EmbeddingError, match=reason) as caught:
        ask(broken, "query")
    assert "the embedding model some-model failed" in str(caught.value)
    assert "check the plug" in str(caught.value)
    with pytest.raises(EmbeddingError, match=reason):
        broken.embed_documents(["a", "b"])


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: [[1.0, 2.0]] * (len(texts) - 1),
        lambda texts: [[1.0, 2.0]] * (len(texts) + 1),
        lambda texts: [[1.0] * (i + 1) for i, _ in enumerate(texts)],
        lambda _: [],
        lambda _: None,
        lambda _: {"data": []},
        fail,
    ],
)
def test_documents_that_are_answered_wrongly_are_an_error(answer: Any) -> None:
    with pytest.raises(EmbeddingError, match="the embedding model some-model failed"):
        embedder(Model(answer)).embed_documents(["a", "b", "c"])


def test_batches_of_different_dimensions_are_an_error() -> None:
    changing = Model(lambda texts: [[1.0] * len(texts[0]) for _ in texts])

    with pytest.raises(EmbeddingError, match="the embedding model some-model failed"):
        embedder(changing, batch_size=1).embed_documents(["a", "bb"])


def test_after_a_failure_the_model_is_left_alone_for_a_while(
    ask: Ask, clock: Callable[[float], None]
) -> None:
    model = Model(fail)
    broken = embedder(model)

    for query in ("one", "two", "three"):
        with pytest.raises(EmbeddingError, match="out of order"):
            ask(broken, query)
    assert model.calls == [["one"]]

    clock(embedder_module.COOL_DOWN_SECONDS + 1)
    with pytest.raises(EmbeddingError, match="out of order"):
        ask(broken, "two")
    assert model.calls == [["one"], ["two"]]


def test_a_model_that_works_again_is_used_again(ask: Ask, clock: Callable[[float], None]) -> None:
    model = Model(fail)
    mended = embedder(model)
    with pytest.raises(EmbeddingError):
        ask(mended, "one")
    model.answer = lambda texts: [[1.0] for _ in texts]

    clock(embedder_module.COOL_DOWN_SECONDS + 1)

    assert ask(mended, "one").tolist() == [1.0]
    assert ask(mended, "two").tolist() == [1.0]


def test_documents_that_were_embedded_end_the_wait(ask: Ask) -> None:
    model = Model(fail)
    mended = embedder(model)
    with pytest.raises(EmbeddingError):
        ask(mended, "one")
    model.answer = lambda texts: [[1.0] for _ in texts]

    mended.embed_documents(["text"])

    assert ask(mended, "one").tolist() == [1.0]


def test_a_remembered_query_is_answered_during_the_wait(ask: Ask) -> None:
    model = Model()
    broken = embedder(model)
    ask(broken, "known")
    model.answer = fail
    with pytest.raises(EmbeddingError):
        ask(broken, "unknown")

    assert ask(broken, "known").tolist() == [5.0, 1.0]


def test_an_unusable_answer_starts_the_wait_too(ask: Ask) -> None:
    model = Model(lambda texts: [[float("nan")] for _ in texts])
    broken = embedder(model)

    for _ in range(2):
        with pytest.raises(EmbeddingError, match="NaN"):
            ask(broken, "query")
    assert len(model.calls) == 1


def test_a_query_that_was_given_up_starts_the_wait(ask: Ask) -> None:
    model = Model()
    slow = embedder(model)
    slow.give_up_query(2.5)

    with pytest.raises(EmbeddingError, match=r"no answer within 2\.5 s"):
        ask(slow, "query")
    assert model.calls == []


def test_models_are_told_apart_by_their_identity() -> None:
    def fingerprint(identity: str) -> str:
        return Embedder(Model(), name="same", identity=identity).fingerprint

    assert fingerprint("a") == fingerprint("a")
    assert fingerprint("a") != fingerprint("b")
    assert fingerprint("a").isalnum()
