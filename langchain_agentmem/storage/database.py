"""The SQLite file: connections, transactions, schema and migrations.

WAL mode with `synchronous=FULL`: a committed transaction is on disk. Any thread may read or
write; writers take turns, readers never wait for them.
"""

import errno
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, RLock
from weakref import WeakSet

from langchain_agentmem.errors import StorageError
from langchain_agentmem.storage.forks import keep_for_ever
from langchain_agentmem.storage.schema import MEMORY_ID, MIGRATIONS

BUSY_TIMEOUT_SECONDS = 30.0
_APPLICATION_ID = 0x61676D31  # "agm1", in the file's header
_IDLE_READERS = 32  # as many as a pipeline has workers: opening one anew takes as long as a query
_DEADLINE_CHECK_STEPS = 2000
_WITHOUT_LOG = " (and what was written last, and is still in the write-ahead log, is not seen)"
_TORN_BY_FORK = (
    "was in use at the moment of the fork that made this process, and SQLite does not survive "
    "that: fork while nothing uses the memory, or start processes by spawn"
)


class Database:
    """One SQLite database, on disk or in memory.

    Where the disk or folder cannot be written, an existing database is opened for reading.

    Args:
        path: The file; None for a database in memory.

    Attributes:
        read_only: Why it cannot be written, or None.

    Raises:
        StorageError: The file cannot be opened, is no database of this package, or comes from a
            newer version. Nothing is overwritten.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the database, made if missing, and bring its schema up to date."""
        self.path = path
        self.read_only: str | None = None
        self._write_lock = RLock()
        self._idle: list[sqlite3.Connection] = []
        self._idle_lock = Lock()
        self._closed = False
        self._pid = os.getpid()
        self._uri: str | None = None
        self._in_use: list[None] = []
        self._file = os.path.realpath(path) if path is not None else None
        if self._file in _torn_by_fork:
            raise StorageError(f"the database {self.location} {_TORN_BY_FORK}")  # noqa: EM102, TRY003
        _databases.add(self)
        with self._used():
            try:
                self._writer = self._open()
            except BaseException as error:
                _databases.discard(self)  # there is nothing that a fork would have to close
                if not isinstance(error, sqlite3.Error | OSError):
                    raise
                msg = f"cannot open the database {self.location}: {error}"
                raise StorageError(msg) from error

    @property
    def location(self) -> str:
        """The file's path, or `:memory:`."""
        return str(self.path) if self.path else ":memory:"

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @contextmanager
    def read(self, deadline: float | None = None) -> Iterator[sqlite3.Connection]:
        """Lend a connection for reading.

        Args:
            deadline: `time.monotonic()` seconds after which a running query is interrupted.

        Raises:
            StorageError: The database is closed, failed, or the deadline passed.
        """
        self.check_usable()
        with self._used(), self._borrowed() as connection, self._errors_named("read"):
            if deadline is not None:
                connection.set_progress_handler(
                    lambda: time.monotonic() > deadline, _DEADLINE_CHECK_STEPS
                )
            try:
                yield connection
            finally:
                if deadline is not None:
                    connection.set_progress_handler(None, 0)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Lend the writing connection inside a transaction, committed when the block ends.

        Raises:
            StorageError: The database is closed or failed. Nothing of the block is kept.
        """
        self.check_usable()  # before any lock: a forked child may inherit it locked
        with self._used(), self._write_lock, self._errors_named("write"):
            self.check_usable()
            if self.read_only is not None:
                msg = f"cannot write the database {self.location}: {self.read_only}"
                raise StorageError(msg)
            connection = self._writer
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked from the one that opened the database."""
        return os.getpid() != self._pid

    def meta(self, key: str) -> str | None:
        """Return a setting that is kept in the database."""
        with self.read() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    @staticmethod
    def set_meta(connection: sqlite3.Connection, key: str, value: str | None) -> None:
        """Keep a setting with what `connection` writes; None: forget it."""
        if value is None:
            connection.execute("DELETE FROM meta WHERE key = ?", (key,))
        else:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def checkpoint(self) -> bool:
        """Move what the write-ahead log holds into the file, and empty the log.

        Returns:
            False: others read what is in the log, and it was not emptied.
        """
        self.check_usable()  # before any lock: see `write`
        with self._used(), self._write_lock, self._errors_named("write"):
            self.check_usable()
            busy, *_ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def close(self) -> None:
        """Close all connections; further use raises `StorageError`."""
        if self.is_inherited:
            return
        with self._used(), self._write_lock, self._idle_lock:
            if self._closed:
                return
            self._closed = True
            for connection in [*self._idle, self._writer]:
                connection.close()
            self._idle.clear()

    @contextmanager
    def _used(self) -> Iterator[None]:
        self._in_use.append(None)  # a list, because append and pop are atomic
        try:
            yield
        finally:
            self._in_use.pop()

    @property
    def file_in_use(self) -> str | None:
        """The file, while somebody uses it."""
        return self._file if self._in_use else None

    def let_go_after_fork(self) -> None:
        """Close in a forked child what SQLite would take for the child's own.

        Where a thread of the parent was at work with the file that cannot be done: its locks are
        never released here. So the file is not opened in this process.
        """
        if self._in_use or self._file in _torn_by_fork:
            keep_for_ever(self)
        elif not self._closed:
            for connection in [*self._idle, self._writer]:
                connection.close()

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        if self.path is None:
            # A database in memory lives in its one connection.
            with self._write_lock:
                self.check_usable()
                yield self._writer
            return
        with self._idle_lock:
            self.check_usable()
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._connect()
        try:
            yield connection
        finally:
            with self._idle_lock:
                keep = not self._closed and len(self._idle) < _IDLE_READERS
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    @contextmanager
    def _errors_named(self, action: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            msg = f"cannot {action} the database {self.location}: {error}"
            raise StorageError(msg) from error

    def check_usable(self) -> None:
        """Raise a `StorageError` if the database is closed, or was opened before a fork."""
        if self._closed:
            msg = f"the memory at {self.location} is closed"
            raise StorageError(msg)
        if self.is_inherited:
            msg = (
                f"the memory at {self.location} was opened by process {self._pid}, which forked "
                "this one: open it again here"
            )
            raise StorageError(msg)

    def _open(self) -> sqlite3.Connection:
        if self.path is None:
            return self._migrated(self._connect())
        try:
            _create_private(self.path)
            return self._migrated(self._connect())
        except (sqlite3.OperationalError, OSError) as error:
            if not self.path.is_file() or not _is_unwritable(error):
                raise
            self.read_only = str(error)
            return self._open_for_reading()

    def _open_for_reading(self) -> sqlite3.Connection:
        # Reading a WAL database takes a shared-memory file beside it; where that cannot be made
        # either, the file is read as it lies there.
        for mode, lacking in (("mode=ro", ""), ("mode=ro&immutable=1", _WITHOUT_LOG)):
            self._uri = f"{self.path.resolve().as_uri()}?{mode}" if self.path else None
            connection = self._connect()
            try:
                version = self._check_ours(connection)
                if version < len(MIGRATIONS):
                    msg = f"{self.location} is of an older version and cannot be upgraded here"
                    raise StorageError(msg)  # noqa: TRY301
            except sqlite3.OperationalError:
                connection.close()
            except BaseException:
                connection.close()
                raise
            else:
                self.read_only = f"{self.read_only}{lacking}"
                return connection
        msg = "it can be neither written nor read"
        raise sqlite3.OperationalError(msg)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._uri or self.path or ":memory:",
            timeout=BUSY_TIMEOUT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            uri=self._uri is not None,
        )
        connection.row_factory = sqlite3.Row
        try:
            if self._uri is None:
                self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        if self.path is not None:
            # Turning WAL on writes to the file, which must be ours for that.
            self._check_ours_at_once(connection)
            _retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL"))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # what is purged is gone from disk

    def _migrated(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._migrate(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()  # which rolls back
            raise
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        version = self._check_ours(connection)
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            for statement in script.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        if version == 0:
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            self.set_meta(connection, MEMORY_ID, uuid.uuid4().hex)

    def _check_ours_at_once(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")  # between two looks another process may make the tables
        try:
            self._check_ours(connection)
        finally:
            connection.rollback()

    def _check_ours(self, connection: sqlite3.Connection) -> int:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > len(MIGRATIONS):
            msg = (
                f"{self.location} was written by a newer version of langchain-agentmem "
                f"(schema {version}, this one knows {len(MIGRATIONS)}): upgrade the package"
            )
            raise StorageError(msg)
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application != _APPLICATION_ID and (version > 0 or tables > 0):
            msg = f"{self.location} is a database of another program"
            raise StorageError(msg)
        return version


_databases: WeakSet[Database] = WeakSet()
_torn_by_fork: set[str] = set()
_creating = Lock()


def _create_private(path: Path) -> None:
    """Make the file for its user alone if it is missing: SQLite gives its others the same mode.

    A file that is there is not opened: whoever closes any descriptor of a file gives up all locks
    that this process has on it, those of SQLite included. Hence one creation at a time, too.
    """
    with _creating, suppress(FileExistsError):
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _let_go_after_fork() -> None:
    global _creating  # noqa: PLW0603
    _creating = Lock()
    inherited = list(_databases)
    _torn_by_fork.update(file for each in inherited if (file := each.file_in_use))
    for database in inherited:
        database.let_go_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_after_fork)


def _is_unwritable(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return primary in (
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
    )


def _retry_while_busy(action: Callable[[], object]) -> None:
    # Turning WAL on needs the file for itself, and SQLite's busy timeout does not cover that.
    give_up = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            action()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
        else:
            return
