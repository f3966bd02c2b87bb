"""The files of an embedded vector index, and whether they can be opened without harm.

Chroma writes its nearest-neighbour files in place, within a call. A process that dies in such a
call leaves them torn, and Chroma may crash whoever opens torn files (a segmentation fault, no
exception). So a seal notes what the files look like whenever no call is under way. Files that do
not match it are tried out on a copy, in a process that may die of it, before this process opens
them; what fails the trial is removed, and made anew from the database.
"""

import json
import logging
import os
import shutil
import struct
import subprocess
import sys
from contextlib import suppress
from multiprocessing.spawn import get_executable
from pathlib import Path
from threading import Lock
from types import TracebackType

from langchain_agentmem.errors import describe
from langchain_agentmem.storage import index_trial
from langchain_agentmem.storage.folder import BROKEN_SUFFIX, NEW_SUFFIX, SEAL_SUFFIX, TRIAL_SUFFIX

logger = logging.getLogger(__name__)

_TRIAL_SECONDS = 60.0
_BYTES_PER_SECOND = 2_000_000
"""How slow a trial may be beyond that."""
_TRIAL = f"""
import json, sys
sys.path[:] = json.loads(sys.stdin.readline())
from {index_trial.__name__} import main
main()
"""

# The head of Chroma's header.bin (hnswlib's persistent format, version 1): version, offset of
# level 0, greatest and present number of elements, bytes per element.
_HEADER = struct.Struct("<iQQQQ")
_HEADER_SIZE, _HEADER_VERSION = 100, 1
_LENGTH_BYTES = 4

_DATABASE = "chroma.sqlite3"

Listing = list[list[str | int]]


class _UntriedError(Exception):
    """Whether the files are sound could not be found out."""


class IndexFiles:
    """The folder of an embedded index.

    As a context manager it stands for one call of Chroma that may write to the files.
    """

    def __init__(self, folder: Path) -> None:
        """Look after the files in `folder`; use `of`, which has one object for a folder."""
        self._folder = folder
        self._seal_file = folder.with_name(f"{folder.name}{SEAL_SUFFIX}")
        self._calls: list[None] = []  # a list, because append and pop are atomic
        self._begun = 0
        self._sealing = Lock()
        self._written: Listing | None = None
        self._untried = False
        """Whether the files were opened without a trial that they would have needed."""

    @classmethod
    def of(cls, folder: Path) -> "IndexFiles":
        """Return the object that all memories of this process share for a folder."""
        with _guard:
            return _known.setdefault(str(folder.resolve()), cls(folder))

    def __enter__(self) -> None:
        """Begin a call."""
        self._calls.append(None)
        self._begun += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End a call."""
        self._calls.pop()
        self._seal()

    def _seal(self) -> None:
        """Note what the files look like, unless a call is under way or nobody knows their state."""
        if self._calls or self._untried or not self._sealing.acquire(blocking=False):
            return
        try:
            begun = self._begun
            listing = self._listing()
            if listing == self._written:
                return
            for name, *_ in listing:
                _flush(self._folder / str(name))
            if not self._calls and self._begun == begun:
                _write_private(self._seal_file, json.dumps(listing))
                self._written = listing
        except OSError as error:  # without a seal the next opening takes longer, no more
            logger.debug("the vector index was not sealed: %s", error)
        finally:
            self._sealing.release()

    def identity(self) -> tuple[int, int] | None:
        """Return what tells the files that are there from any that take their place, or None."""
        try:
            state = (self._folder / _DATABASE).stat()
        except OSError:
            return None
        return state.st_dev, state.st_ino

    def is_sealed(self) -> bool:
        """Whether the files are as they were when no call was under way."""
        listing = self._listing()
        if not listing:
            return True
        try:
            return bool(json.loads(self._seal_file.read_bytes()) == listing)
        except (OSError, ValueError):
            return False

    def make_safe(self) -> None:
        """Remove an index that would harm whoever opens it.

        Called by the process that owns the index, before it opens it. Where there can be no trial
        it is opened, and not sealed: the next opening tries it out again.
        """
        self._written, self._untried = None, False
        if not self._folder.is_dir() or self.is_sealed():
            return
        try:
            fault = self._torn() or self._tried_out()
        except _UntriedError as why:
            logger.warning("the vector index could not be tried out: %s", why)
            self._untried = True
            return
        if fault is None:
            self._seal()
            return
        logger.warning(
            "the vector index was damaged, probably when a process was killed: %s. It is made "
            "anew from the database; memory.sync() completes that",
            fault,
        )
        shutil.rmtree(self._folder)

    def _listing(self) -> Listing:
        """Return name, bytes and time of change of each nearest-neighbour file.

        The database beside them is not listed: SQLite keeps it whole.
        """
        found: Listing = []
        with suppress(OSError):  # no folder, no files
            for segment in os.scandir(self._folder):
                if segment.is_dir(follow_symlinks=False):
                    for file in os.scandir(segment):
                        state = file.stat(follow_symlinks=False)
                        name = f"{segment.name}/{file.name}"
                        found.append([name, state.st_size, state.st_mtime_ns])
        return sorted(found)

    def _torn(self) -> str | None:
        """Return what is wrong with the sizes of the files, or None.

        What is cut off is read as whatever the memory holds, so that no trial is sure to fail.
        """
        for metadata in self._folder.glob("*/index_metadata.pickle"):  # else nothing is read
            with suppress(OSError):
                header = metadata.with_name("header.bin")
                head = header.read_bytes()
                if len(head) != _HEADER_SIZE:
                    return f"{header.name} has {len(head)} bytes"
                version, _, _, count, size = _HEADER.unpack_from(head)
                if version != _HEADER_VERSION:
                    continue  # a format that this is not written for
                for name, wanted in (
                    ("data_level0.bin", count * size),
                    ("length.bin", count * _LENGTH_BYTES),
                ):
                    there = header.with_name(name).stat().st_size
                    if there != wanted:
                        return f"{name} has {there} bytes, and should have {wanted}"
        return None

    def _tried_out(self) -> str | None:
        """Return why a trial of the index in another process failed, or None.

        Raises:
            _UntriedError: It did not get to the index.
        """
        python = os.fsdecode(get_executable() or "")
        if getattr(sys, "frozen", False) or not Path(python).name.startswith(("python", "pypy")):
            msg = "this process cannot start another Python"
            raise _UntriedError(msg)
        copy = self._folder.with_name(f"{self._folder.name}{TRIAL_SUFFIX}")
        shutil.rmtree(copy, ignore_errors=True)  # of a process that died in the middle
        try:
            shutil.copytree(self._folder, copy)
            bytes_ = sum(file.stat().st_size for file in copy.rglob("*"))
            ended = subprocess.run(  # noqa: S603  (this Python, and a text of this module)
                [python, "-c", _TRIAL],
                input=f"{json.dumps(sys.path)}\n{json.dumps(str(copy))}\n",
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                timeout=_TRIAL_SECONDS + bytes_ / _BYTES_PER_SECOND,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            said, how = os.fsdecode(error.stdout or b""), "hung"
        except OSError as error:
            raise _UntriedError(describe(error)) from error
        else:
            said, how = ended.stdout, f"ended with {ended.returncode}"
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        if index_trial.READY not in said.split():
            msg = f"the trial {how}"
            raise _UntriedError(msg)
        return None if index_trial.SOUND in said.split() else f"a trial of it {how}"


def put_aside(folder: Path) -> None:
    """Rename the folder of an index that cannot be used, if it is there.

    Raises:
        OSError: It cannot be renamed.
    """
    if folder.exists():
        number = 1
        while (aside := folder.with_name(f"{folder.name}{BROKEN_SUFFIX}{number}")).exists():
            number += 1
        folder.rename(aside)
        logger.warning("the unusable vector index was moved to %s", aside)


_known: dict[str, IndexFiles] = {}
_guard = Lock()


def _forget_after_fork() -> None:
    global _guard  # noqa: PLW0603
    _guard = Lock()
    _known.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def _flush(path: Path) -> None:
    """Have the disk hold the file, so that after a power cut no seal tells of lost writes."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _write_private(path: Path, text: str) -> None:
    new = path.with_name(f"{path.name}{NEW_SUFFIX}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    new.replace(path)
