"""An OpenAI-compatible embeddings server on the loopback interface, to be broken and mended.

It answers `POST /v1/embeddings` as OpenAI does, with WordLlama's 256-dimensional vectors, and
like many compatible servers takes strings only, no token arrays. `EmbeddingServer.fault` makes it
fail in a chosen way; `stop()` and `start()` take it off its port and bring it back.
"""

import base64
import functools
import json
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import wordllama

DIMENSIONS = 256
MAX_INPUTS = 2048  # OpenAI's limit
KEY = "sk-test-secret"
"""What clients are given as their key, and nothing may repeat. The server takes any."""


@dataclass(frozen=True)
class Fault:
    """How the server misbehaves; the parts may be combined.

    Attributes:
        status: Answer with this HTTP error.
        retry_after: Seconds to name in the `Retry-After` header of that error.
        delay: Seconds to wait before answering. Stopping the server ends the wait.
        times: After how many requests hit the server mends itself. None: when told to.
        max_inputs: Refuse calls with more inputs than this (400).
        poison: Refuse calls in which an input contains this text (400).
        garbage: Answer 200 with a body that is not JSON.
        drop: Return this many vectors too few.
        wrong_dimension: Return vectors of this length.
        non_finite: Put this value into every vector.
        zeros: Put zeros into every vector.
        drip: Seconds between the bytes of an answer. Stopping the server ends it.
        order: How the vectors are ordered and numbered: `reversed` with the right numbers, with
            every number 0, or with every number `twice`.
    """

    status: int | None = None
    retry_after: float | None = None
    delay: float = 0.0
    times: int | None = None
    max_inputs: int | None = None
    poison: str | None = None
    garbage: bool = False
    drop: int = 0
    wrong_dimension: int | None = None
    non_finite: Literal["nan", "inf"] | None = None
    zeros: bool = False
    drip: float = 0.0
    order: Literal["reversed", "all 0", "twice"] | None = None

    def refusal(self, inputs: list[str]) -> str | None:
        """The reason to refuse these inputs, if there is one."""
        if self.max_inputs is not None and len(inputs) > self.max_inputs:
            return f"Too many inputs: {len(inputs)}. The maximum is {self.max_inputs}."
        if self.poison is not None and any(self.poison in text for text in inputs):
            return "An input cannot be processed by this model."
        return None

    def hits(self, inputs: list[str]) -> bool:
        """Whether a request with these inputs is answered differently because of this fault."""
        for_all = replace(self, times=None, max_inputs=None, poison=None) != Fault()
        return self.times != 0 and (for_all or self.refusal(inputs) is not None)

    def spoil(self, vectors: np.ndarray) -> np.ndarray:
        """Return the vectors as the broken server sends them."""
        vectors = vectors[: max(len(vectors) - self.drop, 0)].copy()
        if self.wrong_dimension is not None:
            vectors = np.resize(vectors, (len(vectors), self.wrong_dimension))
        if self.non_finite is not None:
            vectors[:, 0] = float(self.non_finite)
        if self.zeros:
            vectors[:] = 0.0
        return vectors

    def arrange(self, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the numbered vectors of an answer as the broken server sends them."""
        numbers = {"all 0": lambda _: 0, "twice": lambda i: i // 2}.get(self.order or "")
        if numbers is not None:
            data = [each | {"index": numbers(i)} for i, each in enumerate(data)]
        return data[::-1] if self.order == "reversed" else data


@dataclass(frozen=True)
class RecordedRequest:
    """A request as it arrived: header names in lower case, the body None if it was not JSON."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class _APIError(Exception):
    """An answer other than 200, with the body that OpenAI gives it."""

    status: int
    message: str
    param: str | None = None
    retry_after: float | None = None

    @property
    def content(self) -> bytes:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(self.status)
        error = {"message": self.message, "type": kind, "param": self.param, "code": code}
        return json.dumps({"error": error}).encode()


class EmbeddingServer:
    """The server, as a context manager: `with EmbeddingServer() as server: server.base_url`.

    `requests` is what arrived, in order, each recorded before it is answered.
    """

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []  # append and copy are atomic
        self._port = 0
        self._http: _HTTPServer | None = None
        self._fault: Fault | None = None
        self._lock = threading.Lock()

    @property
    def base_url(self) -> str:
        """The address to give to a client; it stays the same over `stop()` and `start()`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def fault(self) -> Fault | None:
        """How the server misbehaves at present, or None when it is well."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault | None) -> None:
        with self._lock:
            self._fault = fault

    def take_fault(self, inputs: list[str]) -> Fault:
        """The fault to apply to a request with these inputs; counts it as hit."""
        with self._lock:
            fault = self._fault
            if fault is None or not fault.hits(inputs):
                return Fault()
            if fault.times is not None:
                self._fault = replace(fault, times=fault.times - 1) if fault.times > 1 else None
            return fault

    def start(self) -> None:
        """Listen: on a free port the first time, on the same port ever after."""
        _model()  # so that the first request is as fast as the others
        with self._lock:
            if self._http is None:
                self._http = http = _HTTPServer(self, self._port)
                self._port = http.server_port
                threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Close the port and every open connection, in the middle of a request if need be."""
        with self._lock:
            if self._http is not None:
                self._http.shutdown()
                self._http.server_close()
                self._http = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


class _HTTPServer(ThreadingHTTPServer):
    """Knows its open connections, because a kept-alive one would outlive the closed port."""

    request_queue_size = 128

    def __init__(self, owner: EmbeddingServer, port: int) -> None:
        self.owner = owner
        self.stopping = threading.Event()
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        self.stopping.set()
        for connection in self._connections.copy():
            with suppress(OSError):  # it was closed in the meantime
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # which is part of the play
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Reads a request, records it, and answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave together
    server: _HTTPServer
    _drip = 0.0

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = None
        with suppress(ValueError):
            body = json.loads(content)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.owner.requests.append(RecordedRequest(self.path, headers, body))
        try:
            self._send(200, self._answer(body))
        except _APIError as error:
            self._send(error.status, error.content, error.retry_after)

    do_GET = do_POST  # noqa: N815  (the name in the base)

    def _answer(self, body: Any) -> bytes:
        if (self.command, self.path) != ("POST", "/v1/embeddings"):
            raise _APIError(404, f"Unknown request URL: {self.command} {self.path}.")
        call = _Call.parse(body)
        fault = self.server.owner.take_fault(call.inputs)
        if fault.delay and self.server.stopping.wait(fault.delay):
            raise ConnectionAbortedError
        if fault.status is not None:
            raise _APIError(fault.status, "I was told to fail.", retry_after=fault.retry_after)
        if reason := fault.refusal(call.inputs):
            raise _APIError(400, reason, "input")
        if fault.garbage:
            return b'{"object": "list", "data": ['
        self._drip = fault.drip
        return call.answer(fault.spoil(_embed(call.inputs, call.dimensions)), fault.arrange)

    def _send(self, status: int, content: bytes, retry_after: float | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if retry_after is not None:
            self.send_header("Retry-After", f"{retry_after:g}")
        self.end_headers()
        if not self._drip:
            self.wfile.write(content)
            return
        for position in range(len(content)):
            self.wfile.write(content[position : position + 1])
            self.wfile.flush()
            if self.server.stopping.wait(self._drip):
                raise ConnectionAbortedError

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name in the base)
        """Keep quiet: the requests are recorded."""


@dataclass(frozen=True)
class _Call:
    """The arguments of one embeddings call."""

    inputs: list[str]
    model: str
    encoding: str
    dimensions: int

    @classmethod
    def parse(cls, body: Any) -> Self:
        arguments = body if isinstance(body, dict) else {}
        given = arguments.get("input")
        inputs: Any = [given] if isinstance(given, str) else given
        texts = isinstance(inputs, list) and all(isinstance(each, str) and each for each in inputs)
        model = arguments.get("model", "")
        encoding = arguments.get("encoding_format", "float")
        dimensions = arguments.get("dimensions", DIMENSIONS)
        for param, valid, rule in [
            ("input", texts and 0 < len(inputs) <= MAX_INPUTS, "a text or several, none empty"),
            ("model", isinstance(model, str) and model, "the name of a model"),
            ("encoding_format", encoding in ("float", "base64"), "float or base64"),
            ("dimensions", dimensions in range(1, DIMENSIONS + 1), f"1 to {DIMENSIONS}"),
        ]:
            if not valid:
                raise _APIError(400, f"{param!r} must be {rule}.", param)
        return cls(inputs, model, encoding, dimensions)

    def answer(self, vectors: np.ndarray, arrange: Callable[[list[Any]], list[Any]]) -> bytes:
        encoded = vectors.tolist()
        if self.encoding == "base64":
            encoded = [base64.b64encode(row).decode() for row in vectors.astype("<f4")]
        data = [{"object": "embedding", "index": i, "embedding": e} for i, e in enumerate(encoded)]
        words = sum(len(text.split()) for text in self.inputs)
        usage = {"prompt_tokens": words, "total_tokens": words}
        answer = {"object": "list", "data": arrange(data), "model": self.model, "usage": usage}
        return json.dumps(answer).encode()


@functools.cache
def _model() -> Any:
    """WordLlama with the weights inside its wheel, loaded once in a process."""
    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


def _embed(texts: list[str], dimensions: int) -> np.ndarray:
    """Unit vectors of the texts, `(len(texts), dimensions) float32`."""
    vectors: np.ndarray = _model().embed(texts)[:, :dimensions]
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors
