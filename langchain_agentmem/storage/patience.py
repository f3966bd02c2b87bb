"""A Chroma server that hangs holds up no opening of a memory.

Chroma's HTTP client has no time limit: a server that takes connections and answers nothing would
hold up for ever whoever opens an index on it.
"""

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from langchain_agentmem.errors import VectorIndexError
from langchain_agentmem.workers import NoAnswerError, Patience, Workers

SECONDS = 10.0
"""How long one of the calls may take that open an index."""
_GET_COLLECTION = "get_or_create_collection"
# What costs a server little. Calls that write are waited for as long as it takes: one that was
# given up could take effect after a later one.
_LIMITED = frozenset({"get_max_batch_size", "list_collections", "count"})
_MOST_AT_ONCE = 16


class PatientClient:
    """A Chroma client of which the calls that open an index end after a while.

    Args:
        client: A Chroma client.
    """

    def __init__(self, client: Any) -> None:
        """Wait for nothing yet."""
        self._client = client
        self._workers = Workers(_MOST_AT_ONCE, "agentmem-chroma")
        self._patience = Patience("Chroma")

    def __getattr__(self, name: str) -> Any:
        """Return what the client has by this name, with a time limit if it is to be quick."""
        if name.startswith("_"):  # asked for by copies of this, before there is a client
            raise AttributeError(name)
        if name == _GET_COLLECTION:
            return self._collection
        return self.limited(name, getattr(self._client, name))

    def limited(self, name: str, attribute: Any) -> Any:
        """Return a method with its time limit, if it has one; anything else as it is."""
        return partial(self._call, attribute) if name in _LIMITED else attribute

    def _collection(self, *args: Any, **options: Any) -> "_PatientCollection":
        get = getattr(self._client, _GET_COLLECTION)
        return _PatientCollection(self, self._call(get, *args, **options))

    def _call(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call Chroma.

        Raises:
            VectorIndexError: It does not answer, or did not a moment ago.
            Exception: Whatever `method` raises.
        """
        if problem := self._patience.problem:
            raise VectorIndexError(problem)
        work = partial(copy_context().run, method, *args, **options)
        try:
            future = self._workers.submit(work)
        except RuntimeError:  # there can be no more threads, or the program is ending
            return work()
        try:
            return self._patience.wait(future, SECONDS)
        except NoAnswerError as error:
            raise VectorIndexError(str(error)) from None


class _PatientCollection:
    def __init__(self, client: PatientClient, collection: Any) -> None:
        self._patient = client
        self._collection = collection

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._patient.limited(name, getattr(self._collection, name))
