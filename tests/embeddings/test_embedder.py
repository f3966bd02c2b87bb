"""The `Embedder` guards a model: it checks, cuts, remembers, and does not insist."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from langchain_core.embeddings import Embeddings

from langchain_agentmem.embeddings import embedder as embedder_module
from langchain_agentmem.embeddings.embedder import (
    ATTEMPTS,
    MAX_WAIT_SECONDS,
    QUERY_CACHE_SIZE,
    Embedded,
    Embedder,
)
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


def fail(_: list[str]) -> Any:
    msg = "out of order"
    raise ConnectionError(msg)


COOL_DOWN = 30.0


def embedder(model: Model, **options: Any) -> Embedder:
    return Embedder(model, name="some-model", identity="i", advice="check the plug", **options)


def rows(done: Embedded) -> list[list[float]]:
    """The vectors of a list of texts that were all embedded, in its order."""
    assert (done.rejected, done.problem) == ({}, None)
    return [done.vectors[position].tolist() for position in range(len(done.vectors))]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the time that the embedder sees."""
    now = [1000.0]
    monkeypatch.setattr(f"{embedder_module.__name__}.time.monotonic", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


def test_a_query_becomes_a_vector() -> None:
    vector = embedder(Model()).embed_query("four")

    assert vector.dtype == np.float32
    assert vector.tolist() == [4.0, 1.0]


def test_documents_become_vectors_in_calls_of_the_batch_size() -> None:
    model = Model()

    done = embedder(model, batch_size=2).embed_documents(["a", "bb", "ccc", "dddd", "eeeee"])

    assert {vector.dtype for vector in done.vectors.values()} == {np.dtype(np.float32)}
    assert rows(done) == [[1, 1], [2, 1], [3, 1], [4, 1], [5, 1]]
    assert model.calls == [["a", "bb"], ["ccc", "dddd"], ["eeeee"]]


def test_no_documents_are_no_call() -> None:
    model = Model()

    assert embedder(model).embed_documents([]) == Embedded()
    assert model.calls == []


def test_long_texts_are_cut() -> None:
    model = Model()
    cutting = embedder(model, max_input_chars=5)

    cutting.embed_query("1234567")
    cutting.embed_documents(["abcdefgh", "abc"])

    assert model.calls == [["12345"], ["abcde", "abc"]]


def test_the_vectors_of_the_latest_queries_are_remembered() -> None:
    model = Model()
    caching = embedder(model)

    first = caching.embed_query("again")
    for _ in range(3):
        assert caching.embed_query("again") is first
    assert model.calls == [["again"]]

    for i in range(QUERY_CACHE_SIZE - 1):
        caching.embed_query(f"query {i}")
    caching.embed_query("again")  # used a moment ago, so it stays longer than `query 0`
    caching.embed_query("one more")
    model.calls.clear()
    caching.embed_query("again")
    caching.embed_query("query 0")
    assert model.calls == [["query 0"]]


def test_a_remembered_vector_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        embedder(Model()).embed_query("query")[0] = 5


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
def test_what_is_no_vector_is_an_error(vector: Any, reason: str) -> None:
    broken = embedder(Model(lambda texts: [vector for _ in texts]))

    with pytest.raises(EmbeddingError, match=reason) as caught:
        broken.embed_query("query")
    assert "the embedding model some-model failed" in str(caught.value)
    assert "check the plug" in str(caught.value)
    done = broken.embed_documents(["a", "b"])
    assert done.vectors == {}
    for told in done.rejected.values():
        assert re.search(reason, told)
        assert told.startswith("the embedding model some-model failed")
        assert told.endswith("check the plug")
    assert set(done.rejected) == {0, 1}


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: [[1.0, 2.0]] * (len(texts) - 1),
        lambda texts: [[1.0, 2.0]] * (len(texts) + 1),
        lambda texts: [[1.0, [2.0]] for _ in texts],
        lambda _: [],
        lambda _: None,
        lambda _: {"data": []},
        fail,
    ],
)
def test_documents_that_are_answered_wrongly_have_no_vectors(
    answer: Any, pauses: list[float]
) -> None:
    done = embedder(Model(answer)).embed_documents(["a", "b", "c"])

    assert done.vectors == {}
    assert (done.problem or "").startswith("the embedding model some-model failed")
    assert (done.problem or "").endswith("check the plug")


def test_a_model_that_answers_several_texts_wrongly_is_asked_for_one_at_a_time() -> None:
    ragged = Model(lambda texts: [[1.0] * (i + 1) for i, _ in enumerate(texts)])

    assert rows(embedder(ragged).embed_documents(["a", "b", "c"])) == [[1], [1], [1]]


def test_vectors_of_another_dimension_than_before_are_not_taken() -> None:
    changing = Model(lambda texts: [[1.0] * len(texts[0]) for _ in texts])

    done = embedder(changing, batch_size=1).embed_documents(["a", "bb", "c"])

    assert set(done.vectors) == {0, 2}
    assert "it answered 2 dimensions, and 1 before" in done.rejected[1]


class StatusError(Exception):
    """An answer of a service, as the clients of such services raise it."""

    def __init__(self, status: int, retry_after: float | None = None) -> None:
        super().__init__("the body, with what was sent")
        self.status_code = status
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.response = httpx.Response(status, headers=headers)


def failing(*faults: Exception) -> Model:
    """A model whose first calls fail, one after the other."""
    waiting = list(faults)

    def answer(texts: list[str]) -> Any:
        if waiting:
            raise waiting.pop(0)
        return [[float(len(text))] for text in texts]

    return Model(answer)


def refusing(refuses: Callable[[list[str]], bool], error: Exception) -> Model:
    """A model that never takes some lists of texts."""

    def answer(texts: list[str]) -> Any:
        if refuses(texts):
            raise error
        return [[float(len(text))] for text in texts]

    return Model(answer)


def has_poison(texts: list[str]) -> bool:
    return any("poison" in text for text in texts)


PERHAPS_THE_TEXT = [StatusError(500), ValueError("index out of range"), KeyError(7)]
"""What some services and models raise over a text, and others when they are broken."""


class TestPatience:
    """A batch is asked for again where that may help."""

    @pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
    def test_a_busy_service_is_asked_again(self, pauses: list[float], status: int) -> None:
        model = failing(StatusError(status), StatusError(status))

        assert rows(embedder(model).embed_documents(["a", "bb"])) == [[1], [2]]
        assert model.calls == [["a", "bb"]] * 3
        assert len(pauses) == 2
        assert 0 < pauses[0] < pauses[1] < 1

    def test_a_service_out_of_reach_is_asked_again(self, pauses: list[float]) -> None:
        model = failing(ConnectionRefusedError("no"), httpx.ConnectError("no"))

        assert rows(embedder(model).embed_documents(["a"])) == [[1]]
        assert len(pauses) == 2

    def test_and_not_for_ever(self, pauses: list[float]) -> None:
        model = Model(fail)

        done = embedder(model, batch_size=2).embed_documents(["a", "bb", "ccc"])

        assert (done.vectors, done.rejected) == ({}, {})
        assert "it cannot be reached" in (done.problem or "")
        assert model.calls == [["a", "bb"]] * ATTEMPTS
        assert len(pauses) == ATTEMPTS - 1

    @pytest.mark.parametrize(("asked", "waited"), [(3, 3), (0.01, 0.2), (3600, MAX_WAIT_SECONDS)])
    def test_it_waits_for_as_long_as_it_is_asked_to_within_reason(
        self, pauses: list[float], asked: float, waited: float
    ) -> None:
        embedder(failing(StatusError(429, retry_after=asked))).embed_documents(["a"])

        assert pauses == [waited]

    @pytest.mark.parametrize("status", [401, 402, 403, 404])
    def test_a_refusal_ends_the_work_at_once(self, pauses: list[float], status: int) -> None:
        model = failing(StatusError(status))

        done = embedder(model, batch_size=1).embed_documents(["a", "bb"])

        assert (done.vectors, done.rejected) == ({}, {})
        assert f"HTTP status {status}" in (done.problem or "")
        assert "what was sent" not in (done.problem or "")
        assert (len(model.calls), pauses) == (1, [])

    def test_a_service_that_hangs_is_not_asked_again(self, pauses: list[float]) -> None:
        model = failing(TimeoutError())
        hanging = embedder(model)

        done = hanging.embed_documents(["a"])

        assert "it did not answer in time" in (done.problem or "")
        assert (len(model.calls), pauses) == (1, [])
        assert hanging.hanging
        assert hanging.cooling_down

    def test_what_was_embedded_before_a_failure_is_kept(self, pauses: list[float]) -> None:
        model = refusing(lambda texts: "ccc" in texts, StatusError(503))

        done = embedder(model, batch_size=2).embed_documents(["a", "bb", "ccc", "dddd"])

        assert (set(done.vectors), done.rejected) == ({0, 1}, {})
        assert "HTTP status 503" in (done.problem or "")


class TestHalving:
    """A batch that is not taken is taken apart."""

    @pytest.mark.parametrize("status", [400, 413, 422])
    @pytest.mark.parametrize("limit", [1, 2, 3, 10])
    def test_a_limit_on_inputs_is_found(self, pauses: list[float], status: int, limit: int) -> None:
        model = refusing(lambda texts: len(texts) > limit, StatusError(status))
        texts = ["x" * i for i in range(1, 40)]

        assert rows(embedder(model, batch_size=32).embed_documents(texts)) == [
            [i] for i in range(1, 40)
        ]
        assert pauses == []
        too_many = [call for call in model.calls if len(call) > limit]
        assert len(too_many) <= 5  # it is found once, and kept to

    @pytest.mark.parametrize("error", [StatusError(400), *PERHAPS_THE_TEXT], ids=repr)
    @pytest.mark.parametrize("place", [0, 1, 25, 49])
    def test_a_bad_text_takes_no_other_with_it(
        self, pauses: list[float], error: Exception, place: int
    ) -> None:
        texts = [f"text {i}" for i in range(50)]
        texts[place] = "poison"
        model = refusing(has_poison, error)

        done = embedder(model, batch_size=16).embed_documents(texts)

        assert done.problem is None
        assert set(done.vectors) == set(range(50)) - {place}
        assert set(done.rejected) == {place}
        assert done.rejected[place].startswith("the embedding model some-model failed")
        assert "what was sent" not in done.rejected[place]
        assert len(model.calls) < 20  # and costs little: the others go in batches again

    @pytest.mark.parametrize("error", [StatusError(400), *PERHAPS_THE_TEXT], ids=repr)
    def test_bad_texts_here_and_there_take_none_with_them(
        self, pauses: list[float], error: Exception
    ) -> None:
        bad = {0, 1, 7, 8, 30, 49}
        texts = ["poison" if i in bad else f"text {i}" for i in range(50)]

        done = embedder(refusing(has_poison, error), batch_size=16).embed_documents(texts)

        assert done.problem is None
        assert set(done.rejected) == bad
        assert set(done.vectors) == set(range(50)) - bad

    def test_texts_that_are_said_to_be_bad_are_so_however_many(self, pauses: list[float]) -> None:
        texts = ["poison"] * 20 + ["text"]

        done = embedder(refusing(has_poison, StatusError(422))).embed_documents(texts)

        assert (set(done.vectors), done.problem) == ({20}, None)

    @pytest.mark.parametrize("error", PERHAPS_THE_TEXT, ids=repr)
    def test_a_model_that_fails_on_everything_is_soon_left_alone(
        self, pauses: list[float], error: Exception
    ) -> None:
        model = refusing(lambda _: True, error)

        done = embedder(model, batch_size=128).embed_documents([f"text {i}" for i in range(500)])

        assert done.vectors == {}
        assert (done.problem or "").startswith("the embedding model some-model failed")
        assert len(model.calls) <= 13
        assert sum(pauses) < 1

    def test_a_vector_that_is_no_vector_takes_no_other_with_it(self) -> None:
        model = Model(lambda texts: [[float("nan") if text == "bad" else 1.0] for text in texts])

        done = embedder(model).embed_documents(["a", "bad", "c"])

        assert set(done.vectors) == {0, 2}
        assert "NaN or infinite" in done.rejected[1]
        assert done.problem is None


def test_after_a_failure_the_model_is_left_alone_for_a_while(
    clock: Callable[[float], None],
) -> None:
    model = Model(fail)
    broken = embedder(model)

    for query in ("one", "two", "three"):
        assert broken.cooling_down == (query != "one")
        with pytest.raises(EmbeddingError, match="out of order"):
            broken.embed_query(query)
    assert model.calls == [["one"]]

    clock(COOL_DOWN + 1)
    assert not broken.cooling_down
    with pytest.raises(EmbeddingError, match="out of order"):
        broken.embed_query("two")
    assert model.calls == [["one"], ["two"]]


def test_a_model_that_works_again_is_used_again(clock: Callable[[float], None]) -> None:
    model = Model(fail)
    mended = embedder(model)
    with pytest.raises(EmbeddingError):
        mended.embed_query("one")
    model.answer = lambda texts: [[1.0] for _ in texts]

    clock(COOL_DOWN + 1)

    assert mended.embed_query("one").tolist() == [1.0]
    assert mended.embed_query("two").tolist() == [1.0]


def test_documents_that_were_embedded_end_the_wait() -> None:
    model = Model(fail)
    mended = embedder(model)
    with pytest.raises(EmbeddingError):
        mended.embed_query("one")
    model.answer = lambda texts: [[1.0] for _ in texts]

    mended.embed_documents(["text"])

    assert mended.embed_query("one").tolist() == [1.0]


def test_a_remembered_query_is_answered_during_the_wait() -> None:
    model = Model()
    broken = embedder(model)
    broken.embed_query("known")
    model.answer = fail
    with pytest.raises(EmbeddingError):
        broken.embed_query("unknown")

    broken.check_query("known")
    assert broken.embed_query("known").tolist() == [5.0, 1.0]
    with pytest.raises(EmbeddingError, match="failed"):
        broken.check_query("unknown too")


class PanicException(BaseException):
    """As Rust code raises it, a tokenizer's for one; the real type cannot be imported."""


def test_a_panic_of_native_code_is_a_failure_and_tells_no_text() -> None:
    def panic(texts: list[str]) -> list[list[float]]:
        raise PanicException(f"byte 3 is not a boundary of {texts[0]!r}")  # noqa: EM102, TRY003

    panicking = embedder(Model(panic))

    with pytest.raises(EmbeddingError, match="its native code broke down") as caught:
        panicking.embed_query("my secret")
    done = panicking.embed_documents(["my secret"])

    assert "secret" not in str(caught.value)
    assert list(done.rejected) == [0]
    assert "secret" not in done.rejected[0]


def test_an_unusable_answer_starts_the_wait_too() -> None:
    model = Model(lambda texts: [[float("nan")] for _ in texts])
    broken = embedder(model)

    for _ in range(2):
        with pytest.raises(EmbeddingError, match="NaN"):
            broken.embed_query("query")
    assert len(model.calls) == 1


def test_a_query_that_was_given_up_starts_the_wait() -> None:
    model = Model()
    slow = embedder(model)
    slow.give_up_query(2.5)

    with pytest.raises(EmbeddingError, match=r"no answer within 2\.5 s"):
        slow.embed_query("query")
    assert model.calls == []


def test_a_query_that_the_model_does_not_take_leaves_others_alone() -> None:
    model = refusing(has_poison, StatusError(400))
    picky = embedder(model)
    with pytest.raises(EmbeddingError, match="HTTP status 400"):
        picky.embed_query("poison")

    assert not picky.cooling_down
    assert picky.embed_query("four").tolist() == [4.0]


def test_how_long_it_is_left_alone_can_be_set(clock: Callable[[float], None]) -> None:
    model = Model(fail)
    broken = embedder(model, cool_down=5)
    for seconds, calls in ((0, 1), (4, 1), (2, 2)):
        clock(seconds)
        with pytest.raises(EmbeddingError):
            broken.embed_query("query")
        assert len(model.calls) == calls

    insistent = embedder(Model(fail), cool_down=0)
    with pytest.raises(EmbeddingError):
        insistent.embed_query("query")
    assert not insistent.cooling_down


def test_a_model_that_hung_is_trusted_again_after_a_while(clock: Callable[[float], None]) -> None:
    hanging = embedder(failing(TimeoutError()))
    hanging.embed_documents(["a"])
    assert hanging.hanging

    clock(COOL_DOWN + 1)
    assert not hanging.hanging


@pytest.mark.parametrize("texts", [["a"], []])
def test_a_model_that_hung_is_trusted_again_after_an_answer(texts: list[str]) -> None:
    hanging = embedder(failing(TimeoutError()))
    hanging.embed_documents(["a"])

    hanging.embed_documents(texts)

    assert hanging.hanging == (not texts)


def test_a_query_that_is_forgotten_is_asked_for_again() -> None:
    model = Model()
    forgetful = embedder(model, max_input_chars=5)
    forgetful.embed_query("a long query")
    forgetful.forget("a long query")
    forgetful.forget("never asked")

    forgetful.embed_query("a long query")

    assert model.calls == [["a lon"]] * 2


def test_models_are_told_apart_by_their_identity() -> None:
    def fingerprint(identity: str) -> str:
        return Embedder(Model(), name="same", identity=identity).fingerprint

    assert fingerprint("a") == fingerprint("a")
    assert fingerprint("a") != fingerprint("b")
    assert fingerprint("a").isalnum()
