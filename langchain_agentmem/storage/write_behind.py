"""Vectors that are written while the next records are read and saved: for imports.

A record counts as saved when it is in the database; its vector is queued there and may follow. As
long as a `WriteBehind` is entered, what this context saves has its vectors written in a thread of
their own, one batch behind: memory use stays that of two batches, whatever there is to import.
"""

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self

from langchain_agentmem.storage.vector_indexer import Indexed
from langchain_agentmem.workers import Workers

_current: ContextVar["WriteBehind | None"] = ContextVar("agentmem_write_behind", default=None)


class WriteBehind:
    """Runs the writing of vectors one batch behind.

    Attributes:
        last: After the end, what the writing of the last batch did.
    """

    def __init__(self) -> None:
        """Start with nothing under way."""
        self.last = Indexed(0)
        self._workers = Workers(1, "agentmem-behind")
        self._under_way: Future[Indexed] | None = None
        self._token: Token[WriteBehind | None] | None = None

    @staticmethod
    def current() -> "WriteBehind | None":
        """Return the one that this context has entered, or None."""
        return _current.get()

    def follow(self, write: Callable[[], Indexed]) -> Indexed:
        """Have a batch written; returns what the writing of the batch before did, once it is done.

        Raises:
            Exception: Whatever the batch before raised.
        """
        before = self._finished()
        self._under_way = self._workers.submit(write)
        return before

    def __enter__(self) -> Self:
        """Have what this context saves from now on written behind."""
        self._token = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for what is under way."""
        if self._token is not None:
            _current.reset(self._token)
        try:
            self.last = self._finished()
        except Exception:
            if error is None:  # else the first failure is the one to hear of
                raise
        finally:
            self._workers.close()

    def _finished(self) -> Indexed:
        under_way, self._under_way = self._under_way, None
        return Indexed(0) if under_way is None else under_way.result()
