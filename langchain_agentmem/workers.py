"""Threads that do a memory's waiting, and how long what they do is waited for.

`concurrent.futures` waits at exit for whatever its threads are doing: an embedding model that hangs
would hold the whole program. These are daemon threads; what is under way at exit gets a moment to
end, because a thread that is cut off inside native code can take the process down with it.
"""

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

IDLE_SECONDS = 10.0
"""How long a thread waits for more work before it ends."""
GRACE_SECONDS = 3.0
"""How long the end of the program waits for work that is under way, at the most."""

REST_SECONDS = 30.0
"""How long a service that does not answer is left alone, at the most."""

T = TypeVar("T")


class Workers:
    """A pool of daemon threads, started as they are needed.

    Args:
        most: How many threads there are at the most; more work waits in line.
        name: The threads' name.
    """

    def __init__(self, most: int, name: str) -> None:
        """Start with no thread."""
        self._most = most
        self._name = name
        self._closed = False
        self.begin_anew()
        _pools.add(self)

    def begin_anew(self) -> None:
        """Have no thread and nothing in line: a forked child has none of its parent's threads."""
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._threads = 0
        self._idle = 0

    def submit(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Have a thread call `function`.

        Raises:
            RuntimeError: The pool is closed, or the process can have no more threads.
        """
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                msg = f"the workers {self._name} have been let go"
                raise RuntimeError(msg)
            if self._idle <= len(self._waiting) and self._threads < self._most:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
                self._threads += 1
            self._waiting.append((future, function, arguments))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Take no more work; what waits or is under way is done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def finish(self, deadline: float) -> None:
        """Close, and wait for all work, but not beyond a moment of the monotonic clock."""
        self.close()
        with self._changed:
            self._changed.wait_for(lambda: not self._threads, max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (job := self._next()) is not None:
            future, function, arguments = job
            if future.set_running_or_notify_cancel():
                try:
                    result = function(*arguments)
                except BaseException as error:  # noqa: BLE001  (raised where the result is read)
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del job, future, function, arguments  # an idle thread keeps nothing alive

    def _next(self) -> tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]] | None:
        with self._changed:
            self._idle += 1
            more = self._changed.wait_for(lambda: self._waiting or self._closed, IDLE_SECONDS)
            self._idle -= 1
            if more and self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            self._changed.notify_all()
            return None


class NoAnswerError(TimeoutError):
    """A service did not answer in time, and is waited for no longer."""


class Patience:
    """Waits for the answers of one service, none too long, and knows whether it hangs.

    Args:
        service: What it is called within a sentence.
    """

    def __init__(self, service: str) -> None:
        """Wait for nothing yet."""
        self._service = service
        self._overdue: tuple[Future[Any], float] | None = None

    @property
    def problem(self) -> str | None:
        """That it still works on what was given up a moment ago, or None."""
        if self._overdue is None:
            return None
        future, since = self._overdue
        hangs = not future.done() and time.monotonic() - since < REST_SECONDS
        return f"{self._service} still owes an earlier answer" if hangs else None

    def wait(self, future: "Future[T]", seconds: float) -> T:
        """Return an answer.

        Raises:
            NoAnswerError: It did not come in time, and was given up.
            Exception: Whatever the call raised.
        """
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done() and not future.cancelled():  # just now, or the error is the call's own
                return future.result()
            self.give_up(future)
            msg = f"{self._service} did not answer within {seconds:g} s"
            raise NoAnswerError(msg) from None

    def give_up(self, future: "Future[Any]") -> None:
        """Wait for an answer no longer."""
        if not future.cancel():
            self._overdue = future, time.monotonic()


_pools: "weakref.WeakSet[Workers]" = weakref.WeakSet()


def _begin_anew_after_fork() -> None:
    for pool in list(_pools):
        pool.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew_after_fork)


@atexit.register
def _finish_all() -> None:
    deadline = time.monotonic() + GRACE_SECONDS
    for pool in list(_pools):
        pool.finish(deadline)
