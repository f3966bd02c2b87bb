"""The vector queue: which records' vectors are not level with the database.

An entry names a record and says nothing more. Whoever works on it looks at the record as it is
by then: alive, its vector is written; deleted or gone, its vector is removed. So every entry can
be worked on twice, and in any order, without harm.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import KINDS, RecordKind


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A record whose vector is to be brought level."""

    seq: int
    kind: str
    id: str


class VectorQueue:
    """The queue's table. Entries are put in the transaction that changes their record."""

    def __init__(self, database: Database) -> None:
        """Work on `database`."""
        self._database = database

    def put(self, connection: sqlite3.Connection, kind: RecordKind, ids: Iterable[str]) -> None:
        """Queue records. An entry that waits already gets a new, later number.

        The new number keeps it from being taken off by whoever works on the older version.
        """
        connection.executemany(
            "INSERT OR REPLACE INTO vector_queue (kind, id) VALUES (?, ?)",
            [(kind.name, id_) for id_ in ids],
        )

    def put_all(self, connection: sqlite3.Connection) -> None:
        """Queue every live record."""
        for kind in KINDS:
            connection.execute(
                "INSERT OR REPLACE INTO vector_queue (kind, id) "
                f"SELECT '{kind.name}', id FROM {kind.name} WHERE deleted_at IS NULL ORDER BY seq"
            )

    def take(
        self, limit: int, kind: str | None = None, ids: Sequence[str] = ()
    ) -> list[QueueEntry]:
        """Return entries, oldest first, without removing them.

        Args:
            limit: How many at the most.
            kind: With `ids`: only the entries of these records.
            ids: See `kind`.
        """
        sql, parameters = "", []
        if kind is not None:
            sql = "WHERE kind = ? AND id IN (SELECT value FROM json_each(?))"
            parameters = [kind, json.dumps(list(ids))]
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT seq, kind, id FROM vector_queue {sql} ORDER BY seq LIMIT ?",
                (*parameters, limit),
            )
            return [QueueEntry(*row) for row in rows]

    def done(self, entries: Iterable[QueueEntry]) -> None:
        """Remove entries that were worked on, unless they were queued anew meanwhile."""
        with self._database.write() as connection:
            connection.executemany(
                "DELETE FROM vector_queue WHERE seq = ?", [(entry.seq,) for entry in entries]
            )

    def pending(self) -> int:
        """Count the entries."""
        with self._database.read() as connection:
            return int(connection.execute("SELECT count(*) FROM vector_queue").fetchone()[0])
