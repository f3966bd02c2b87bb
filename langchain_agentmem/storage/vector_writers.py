"""Threads that write vectors, and are waited for no longer than a caller can bear."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from threading import Lock

from langchain_agentmem.errors import describe
from langchain_agentmem.storage.vector_indexer import Indexed
from langchain_agentmem.workers import Workers

logger = logging.getLogger(__name__)

_MOST_WRITERS = 64

TOO_SLOW = (
    "writing vectors takes too long: the embedding service or Chroma hangs. The records are safe, "
    "and their vectors follow"
)


class VectorWriters:
    """Has vectors written in threads of its own.

    What takes too long goes on alone. Until it ends, nothing else is begun: it would only wait
    behind it.
    """

    def __init__(self) -> None:
        """Start with idle threads."""
        self._workers = Workers(_MOST_WRITERS, "agentmem-writes")
        self._overdue: Future[Indexed] | None = None
        self._lock = Lock()

    def run(self, work: Callable[[], Indexed], seconds: float) -> Indexed:
        """Have vectors written, and wait for it so long.

        Returns:
            What was done, with what was overdue before and has ended meanwhile.

        Raises:
            Exception: Whatever `work` raises.
        """
        with self._lock:
            overdue = self._overdue
            if overdue is not None and not overdue.done():
                return Indexed(0, TOO_SLOW)
            self._overdue = None
        late = 0 if overdue is None or overdue.exception() else overdue.result().written
        try:
            working = self._workers.submit(copy_context().run, work)
        except RuntimeError as error:  # the memory was closed, or there can be no more threads
            return Indexed(late, describe(error))
        try:
            ended = bool(wait([working], seconds).done)
        except BaseException:  # the caller was interrupted, and the work goes on
            self._overdue = working
            raise
        if not ended:
            self._overdue = working
            logger.warning("%s", TOO_SLOW)
            return Indexed(late, TOO_SLOW)
        done: Indexed = working.result()
        return Indexed(late + done.written, done.problem)

    def outwait(self, seconds: float, waiting: Callable[[], int]) -> None:
        """Wait for what is overdue, until it has got on with nothing for so long.

        Args:
            seconds: How long that may be.
            waiting: Counts what there is to do still.
        """
        overdue, left = self._overdue, waiting()
        while overdue is not None and not wait([overdue], seconds).done:
            before, left = left, waiting()
            if left >= before:
                return

    def close(self) -> None:
        """Let the threads go; what is under way ends by itself."""
        self._workers.close()
