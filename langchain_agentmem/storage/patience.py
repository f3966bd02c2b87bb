"""A Chroma that hangs is waited for only so long.

Chroma's HTTP client has no time limit: a server that takes connections and answers nothing would
hold up for ever whoever opens a memory or syncs it.
"""

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import Any

from langchain_agentmem.errors import VectorIndexError, describe
from langchain_agentmem.workers import Workers

CLIENT_SECONDS = 10.0
"""How long a call of a client may take: it looks for collections, or makes and deletes them."""
COLLECTION_SECONDS = 60.0
"""How long a call of a collection may take: it reads or writes up to a batch of vectors."""
_MAKES_A_COLLECTION = "get_or_create_collection"
_MOST_AT_ONCE = 64


class PatientClient:
    """A Chroma client whose calls, and those of its collections, end after a while.

    The call itself goes on in its thread, and may still have its effect. So nothing more is asked
    until it has ended: what is written later must not be overtaken by it.

    Args:
        client: A Chroma client.
    """

    def __init__(self, client: Any) -> None:
        """Wait for nothing yet."""
        self._client = client
        self._workers = Workers(_MOST_AT_ONCE, "agentmem-chroma")
        self._overdue: list[Future[Any]] = []
        self._lock = Lock()

    def __getattr__(self, name: str) -> Any:
        """Return what the client has by this name; a method with its time limit."""
        method = getattr(self._client, name)
        if name == _MAKES_A_COLLECTION:
            return lambda *args, **kwargs: _PatientCollection(
                self, self.call(CLIENT_SECONDS, partial(method, *args, **kwargs))
            )
        return self.limited(method, CLIENT_SECONDS)

    def limited(self, attribute: Any, seconds: float) -> Any:
        """Return a method that is waited for so many seconds; anything else as it is."""
        if not callable(attribute):
            return attribute
        return lambda *args, **kwargs: self.call(seconds, partial(attribute, *args, **kwargs))

    def call(self, seconds: float, function: Callable[[], Any]) -> Any:
        """Call Chroma.

        Raises:
            VectorIndexError: It does not answer.
            Exception: Whatever `function` raises.
        """
        with self._lock:
            self._overdue = [future for future in self._overdue if not future.done()]
            if self._overdue:
                msg = "Chroma still owes an earlier answer"
                raise VectorIndexError(msg)
        try:
            future = self._workers.submit(copy_context().run, function)
        except RuntimeError as error:  # there can be no more threads
            raise VectorIndexError(describe(error)) from error
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done() and not future.cancelled():
                raise  # the function's own
            if not future.cancel():
                with self._lock:
                    self._overdue.append(future)
            msg = f"Chroma did not answer within {seconds:g} s"
            raise VectorIndexError(msg) from None


class _PatientCollection:
    def __init__(self, client: PatientClient, collection: Any) -> None:
        self._client = client
        self._collection = collection

    def __getattr__(self, name: str) -> Any:
        return self._client.limited(getattr(self._collection, name), COLLECTION_SECONDS)
