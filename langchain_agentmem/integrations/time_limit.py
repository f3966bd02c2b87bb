"""Work that is waited for only so long, and whose failure is a line in the log.

A job that hangs holds up neither its agent nor the interpreter's end. Sync and async callers share
everything but the waiting.
"""

import asyncio
import contextvars
import logging
import threading
import time
import traceback
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from langchain_agentmem import arguments
from langchain_agentmem.errors import trace
from langchain_agentmem.workers import Workers

logger = logging.getLogger(__name__)
T = TypeVar("T")
DEFAULT_TIMEOUT_SECONDS = 2.0
MOST_AT_ONCE = 64
"""Jobs of one `TimeLimit` that may be under way: a memory that hangs must not fill the process."""
SILENT_SECONDS = 60.0
"""How long the same warning is not repeated."""


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
        if self.future.done():  # a loop would take a turn to learn that, and the time may be up
            return self.result()
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
        if self.future.done() and self.future.exception() is None:
            return self.future.result()  # it came while the waiting was given up
        if isinstance(error, TimeoutError) and not self.future.done():
            self.limit.warn(f"{what} took longer than {seconds:g} s; the run goes on without it")
        else:
            # Not the error's text: it may repeat what was said.
            failed = f"{what} failed; the run goes on without it: {trace(error)}"
            self.limit.warn(failed, of=_origin(error))
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
        self.seconds = arguments.seconds("timeout", seconds)
        self.what = what
        self._warned: dict[Hashable, float] = {}
        self._lock = threading.Lock()
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

    def warn(self, text: str, *, of: Hashable = None) -> None:
        """Log a warning; if the same was logged within the last minute, at DEBUG.

        A memory that is closed or full fails at each step of each run.

        Args:
            text: What is said. Nothing of records or messages.
            of: What makes two warnings the same; None: the text.
        """
        now, key = time.monotonic(), text if of is None else of
        with self._lock:
            recent = {each: at for each, at in self._warned.items() if now - at < SILENT_SECONDS}
            level = logging.DEBUG if key in recent else logging.WARNING
            self._warned = {key: now, **recent}
        logger.log(level, "%s", text)


def _origin(error: Exception) -> Hashable:
    """Return of what type an error is and where it was raised, whoever called."""
    frames = traceback.extract_tb(error.__traceback__)
    return type(error), (frames[-1].filename, frames[-1].lineno) if frames else None
