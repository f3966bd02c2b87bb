"""Which process may use the embedded vector index of a folder: one at a time.

Embedded Chroma loses vectors when several processes write to one folder, and a process does not
see what another one wrote. So the first process that opens a folder owns its vector index, by a
file lock that is released when the process ends, however it ends. Within a process, any number of
memories share the ownership.
"""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock

from filelock import FileLock, Timeout

from langchain_agentmem.storage.folder import OWNER_LOCK, TURN_LOCK
from langchain_agentmem.storage.forks import keep_for_ever

TURN_TIMEOUT_SECONDS = 20.0
TURN_POLL_SECONDS = 0.01


@dataclass(slots=True)
class _Held:
    lock: FileLock
    holders: int
    begins: Lock = field(default_factory=Lock)
    begun: bool = False


_held: dict[str, _Held] = {}
_guard = Lock()


class Ownership:
    """The ownership of one folder, as one memory asks for it."""

    def __init__(self, folder: Path) -> None:
        """Ask for nothing yet."""
        self._path = str(folder.resolve() / OWNER_LOCK)
        self._mine: _Held | None = None

    def acquire(self) -> bool:
        """Become an owner if no other process is; tells whether this memory now is one."""
        with _guard:
            if self._mine is not None:
                return True
            held = _held.get(self._path)
            if held is None:
                lock = FileLock(self._path, thread_local=False, mode=0o600)
                try:
                    lock.acquire(blocking=False)
                except Timeout:
                    return False
                held = _held[self._path] = _Held(lock, 0)
            held.holders += 1
            self._mine = held
            return True

    def begin(self, prepare: Callable[[], None]) -> None:
        """Have `prepare` done, once for all memories of this process that own the folder."""
        held = self._mine
        if held is not None:
            with held.begins:
                if not held.begun:
                    prepare()
                held.begun = True

    def release(self) -> None:
        """Give it up; the last memory of the process that does lets other processes have it."""
        with _guard:
            held, self._mine = self._mine, None
            if held is None or held is not _held.get(self._path):  # it was taken before a fork
                return
            held.holders -= 1
            if held.holders == 0:
                del _held[self._path]
                held.lock.release()


def turns(folder: Path) -> Callable[[], AbstractContextManager[object]]:
    """Return what takes the lock under which the vector queue of a folder is worked on."""
    lock = FileLock(folder.resolve() / TURN_LOCK, thread_local=False, mode=0o600)
    return partial(lock.acquire, timeout=TURN_TIMEOUT_SECONDS, poll_interval=TURN_POLL_SECONDS)


def _forget_after_fork() -> None:
    # A forked child owns nothing, and what it inherits of Chroma hangs when it is used.
    global _guard  # noqa: PLW0603
    _guard = Lock()
    keep_for_ever(dict(_held))
    _held.clear()
    client = sys.modules.get("chromadb.api.shared_system_client")
    if client is not None:
        keep_for_ever(client.SharedSystemClient._identifier_to_system)  # noqa: SLF001
        client.SharedSystemClient.clear_system_cache()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
