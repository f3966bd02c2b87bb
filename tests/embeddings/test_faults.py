"""What an exception of an embedding model means, told of real ones."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
from langchain_openai import OpenAIEmbeddings
from servers import openai_embeddings
from servers.openai_embeddings import KEY, EmbeddingServer

from langchain_agentmem import EmbeddingError
from langchain_agentmem.embeddings.faults import Fault, read_fault

TEXT = "Minka is a cat"


def client(base_url: str, timeout: float = 10.0, key: str = KEY) -> OpenAIEmbeddings:
    options: dict[str, Any] = {
        "model": "wordllama",
        "base_url": base_url,
        "api_key": key,
        "timeout": timeout,
        "max_retries": 0,
        "check_embedding_ctx_length": False,
    }
    return OpenAIEmbeddings(**options)


def fault_of(embeddings: OpenAIEmbeddings) -> Fault:
    """What a call that fails is read as."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  (any is to be understood)
        embeddings.embed_documents([TEXT])
    fault = read_fault(caught.value)
    assert TEXT not in fault.description
    assert KEY not in fault.description
    return fault


@contextmanager
def silent_port() -> Iterator[str]:
    """The address of a port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "input"),
        (401, "refused"),
        (402, "refused"),
        (403, "refused"),
        (404, "refused"),
        (408, "busy"),
        (409, "busy"),
        (413, "input"),
        (418, "other"),
        (422, "input"),
        (425, "busy"),
        (429, "busy"),
        (500, "broken"),
        (501, "other"),
        (502, "busy"),
        (503, "busy"),
        (504, "busy"),
        (529, "busy"),
    ],
)
class TestStatus:
    """An answer with an HTTP error."""

    def test_of_a_service_through_langchain(
        self, server: EmbeddingServer, status: int, kind: Any
    ) -> None:
        server.fault = openai_embeddings.Fault(status=status)

        assert fault_of(client(server.base_url)) == Fault(kind, f"HTTP status {status}")

    def test_of_httpx(self, server: EmbeddingServer, status: int, kind: Any) -> None:
        server.fault = openai_embeddings.Fault(status=status)
        body = {"input": [TEXT], "model": "wordllama"}
        answer = httpx.post(f"{server.base_url}/embeddings", json=body, trust_env=False)

        with pytest.raises(httpx.HTTPStatusError) as caught:
            answer.raise_for_status()

        assert read_fault(caught.value) == Fault(kind, f"HTTP status {status}")


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nX-Other: 1", f" {KEY}\x00"])
def test_a_key_that_no_header_can_hold_is_not_told(server: EmbeddingServer, key: str) -> None:
    embeddings = client(server.base_url, key=key)

    fault = fault_of(embeddings)

    assert fault.kind == "refused"
    assert "no request can be sent to it (LocalProtocolError)" in fault.description
    assert server.requests == []


@pytest.mark.parametrize(
    ("error", "description"),
    [
        (httpx.ConnectError("[Errno 111] refused"), "it cannot be reached ([Errno 111] refused)"),
        (ConnectionResetError("reset by peer"), "it cannot be reached (reset by peer)"),
        (httpx.ProxyError(f"407 {KEY}"), "it cannot be reached (ProxyError)"),
        (httpx.RemoteProtocolError(f"bad {TEXT}"), "it cannot be reached (RemoteProtocolError)"),
        (httpx.UnsupportedProtocol(KEY), "no request can be sent to it (UnsupportedProtocol)"),
    ],
)
def test_of_the_network_alone_the_words_are_told(error: Exception, description: str) -> None:
    assert read_fault(error).description == description


def test_the_pause_that_a_service_asks_for_is_read(server: EmbeddingServer) -> None:
    server.fault = openai_embeddings.Fault(status=429, retry_after=2.5)

    assert fault_of(client(server.base_url)) == Fault("busy", "HTTP status 429", retry_after=2.5)


def pause_asked_for(header: str) -> float | None:
    request = httpx.Request("POST", "http://127.0.0.1/v1/embeddings")
    response = httpx.Response(503, headers={"Retry-After": header}, request=request)
    return read_fault(httpx.HTTPStatusError("busy", request=request, response=response)).retry_after


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("0", 0),
        ("-3", 0),
        ("soon", None),
        ("", None),
        ("Mon, 99 Foo 2026 25:61:00 GMT", None),
        ("Wed, 21 Oct 2026 07:28:00 +9999", None),
        ("Wed, 21 Oct 2026 07:28:00 +99999999999999", None),
    ],
)
def test_it_may_be_seconds(header: str, seconds: float | None) -> None:
    assert pause_asked_for(header) == seconds


@pytest.mark.parametrize("zone", ["GMT", "-0000", "+0000"])
@pytest.mark.parametrize(("ahead", "seconds"), [(3600, 3600), (-3600, 0)])
def test_it_may_be_a_date(zone: str, ahead: int, seconds: int) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)

    assert pause_asked_for(date.replace("GMT", zone)) == pytest.approx(seconds, abs=60)


def test_a_service_that_does_not_answer_in_time() -> None:
    with silent_port() as address:
        fault = fault_of(client(address, timeout=0.2))
        assert fault == Fault("busy", "it did not answer in time", timed_out=True)
        with pytest.raises(httpx.ReadTimeout) as caught:
            httpx.get(address, timeout=0.2, trust_env=False)

    assert read_fault(caught.value) == fault


def test_a_service_that_is_not_there(server: EmbeddingServer) -> None:
    server.stop()

    fault = fault_of(client(server.base_url))
    with pytest.raises(httpx.ConnectError) as caught:
        httpx.get(server.base_url, trust_env=False)

    for each in (fault, read_fault(caught.value)):
        assert (each.kind, each.timed_out) == ("busy", False)
        assert each.description.startswith("it cannot be reached")


def test_a_service_that_hangs_up() -> None:
    def hang_up(request: httpx.Request) -> httpx.Response:
        msg = "Server disconnected without sending a response."
        raise httpx.RemoteProtocolError(msg, request=request)

    embeddings = client("http://127.0.0.1/v1")
    hanging_up = httpx.Client(transport=httpx.MockTransport(hang_up))
    embeddings = embeddings.model_copy()
    embeddings.client._client._client = hanging_up

    assert fault_of(embeddings).kind == "busy"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), Fault("busy", "it did not answer in time", timed_out=True)),
        (
            ConnectionResetError("reset"),
            Fault("busy", "it cannot be reached (ConnectionResetError: reset)"),
        ),
        # What a model says of a text may repeat the text, which is not for logs.
        (
            ValueError("cannot read 'my secret'"),
            Fault("other", "ValueError, which the debug log tells more of"),
        ),
        (KeyError(7), Fault("other", "KeyError, which the debug log tells more of")),
        (EmbeddingError("of shape (3,)"), Fault("other", "of shape (3,)")),
    ],
    ids=repr,
)
def test_a_model_in_this_process(error: Exception, expected: Fault) -> None:
    assert read_fault(error) == expected


@pytest.mark.parametrize("how", ["cause", "context"])
def test_the_reason_behind_an_exception_is_found(how: str) -> None:
    wrapped: Exception = RuntimeError("embedding failed")
    try:
        try:
            raise TimeoutError  # noqa: TRY301
        except TimeoutError as error:
            if how == "cause":
                raise wrapped from error
            raise wrapped  # noqa: B904  (as many libraries do)
    except RuntimeError as error:
        wrapped = error

    assert read_fault(wrapped).timed_out


def test_exceptions_that_cause_each_other_are_read_too() -> None:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one

    assert read_fault(one) == Fault("other", "RuntimeError, which the debug log tells more of")


@pytest.mark.parametrize("status", [True, "500", None, 500.0])
def test_a_status_is_a_whole_number(status: Any) -> None:
    error = ValueError("it is something else")
    error.status_code = status  # type: ignore[attr-defined]

    assert read_fault(error).kind == "other"
