"""Threads that do a memory's waiting, and do not keep the interpreter from ending.

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
