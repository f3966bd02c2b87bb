"""Work that is waited for only so long, and whose failure is a line in the log.

A job that hangs holds up neither its agent nor the interpreter's end. Sync and async callers share
everything but the waiting.
"""

import asyncio
import contextvars
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from langchain_agentmem.errors import trace
from langchain_agentmem.workers import Workers

logger = logging.getLogger(__name__)
T = TypeVar("T")
DEFAULT_TIMEOUT_SECONDS = 2.0
MOST_AT_ONCE = 64
"""Jobs of one `TimeLimit` that may be under way: a memory that hangs must not fill the process."""


@dataclass(frozen=True)
class Job(Generic[T]):
    """Work under way in a thread."""

    future: "Future[T]"
    limit: "TimeLimit"
    otherwise: T
    """What stands for the result where it failed or came too late."""
    started: float

    def result(self) -> T:
        """Wait for the result in this thread."""
        try:
            return self.future.result(self._left())
        except Exception as error:  # noqa: BLE001  (an agent's run never dies of its memory)
            return self._given_up(error)

    async def aresult(self) -> T:
        """Wait for the result without blocking the event loop."""
        try:
            # Shielded: a caller that stops waiting does not call the work off.
            waited = asyncio.shield(asyncio.wrap_future(self.future))
            return await asyncio.wait_for(waited, self._left())
        except Exception as error:  # noqa: BLE001  (as above)
            return self._given_up(error)

    def _left(self) -> float:
        return max(0.0, self.started + self.limit.seconds - time.monotonic())

    def _given_up(self, error: Exception) -> T:
        what, seconds = self.limit.what, self.limit.seconds
        if isinstance(error, TimeoutError) and not self.future.done():
            logger.warning("%s took longer than %g s; the run goes on without it", what, seconds)
        else:
            # Not the error's text: it may repeat what was said.
            logger.warning("%s failed; the run goes on without it: %s", what, trace(error))
        return self.otherwise


class TimeLimit:
    """Starts jobs that are waited for up to a number of seconds."""

    def __init__(self, seconds: float, *, what: str) -> None:
        """Check the limit.

        Args:
            seconds: How long a job is waited for. It goes on after that, and ends by itself.
            what: What the jobs do, for the log.

        Raises:
            ValueError: `timeout` is no positive number.
        """
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not (number and math.isfinite(seconds) and seconds > 0):
            msg = f"timeout must be a number of seconds above 0, not {seconds!r}"
            raise ValueError(msg)
        self.seconds = seconds
        self.what = what
        self._workers = Workers(MOST_AT_ONCE, f"agentmem-{what}")

    def start(self, work: Callable[[], T], *, otherwise: T) -> Job[T]:
        """Begin `work` in a thread, in the caller's context."""
        started = time.monotonic()
        try:
            future = self._workers.submit(contextvars.copy_context().run, work)
        except RuntimeError as error:  # no more threads, or the program is ending
            future = Future()
            future.set_exception(error)
        return Job(future, self, otherwise, started)
