"""The vector queue: which records' vectors are not level with the database.

An entry names a record and says nothing more. Whoever works on it looks at the record as it is
by then: alive, its vector is written; deleted or gone, its vector is removed. So every entry can
be worked on twice, and in any order, without harm.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from langchain_agentmem.scopes import Visibility
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.differences import find_differences
from langchain_agentmem.storage.kinds import AMONG, KINDS, RecordKind


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
        connection.execute(
            "INSERT OR REPLACE INTO vector_queue (kind, id) SELECT ?, value FROM json_each(?)",
            (kind.name, json.dumps(list(ids))),
        )

    def put_what_differs(
        self, kind: RecordKind, with_vectors: Callable[[], AbstractSet[str]]
    ) -> None:
        """Queue what the vectors lack or have too much; see `find_differences`."""
        found = find_differences(self._database, kind, with_vectors)
        if found:
            with self._database.write() as connection:
                self.put(connection, kind, [*found.missing, *found.ghosts])

    def put_all(self, connection: sqlite3.Connection) -> None:
        """Queue every live record."""
        for kind in KINDS:
            connection.execute(
                "INSERT OR REPLACE INTO vector_queue (kind, id) "
                f"SELECT '{kind.name}', id FROM {kind.name} WHERE deleted_at IS NULL ORDER BY seq"
            )

    def explains(self, kind: RecordKind, stored: int) -> bool:
        """Tell whether this number of vectors is what the records and the queue lead to expect."""
        sql = (
            f"SELECT (SELECT count(*) FROM {kind.name} WHERE deleted_at IS NULL AND id NOT IN "
            "(SELECT id FROM vector_queue WHERE kind = ?)), "
            "(SELECT count(*) FROM vector_queue WHERE kind = ?)"
        )
        with self._database.read() as connection:
            settled, waiting = connection.execute(sql, (kind.name, kind.name)).fetchone()
        return bool(settled <= stored <= settled + waiting)

    def take(self, limit: int, kind: str, ids: Sequence[str]) -> list[QueueEntry]:
        """Return up to `limit` entries of these records, oldest first, without removing them."""
        return self._entries(
            f"kind = ? AND id {AMONG}",
            (kind, json.dumps(list(ids))),
            limit,
        )

    def take_after(self, limit: int, position: int) -> list[QueueEntry]:
        """Return up to `limit` entries behind a position, oldest first, without removing them."""
        return self._entries("seq > ?", (position,), limit)

    def last_position(self) -> int:
        """Return the position of the last entry."""
        with self._database.read() as connection:
            return int(
                connection.execute("SELECT coalesce(max(seq), 0) FROM vector_queue").fetchone()[0]
            )

    def done(self, entries: Iterable[QueueEntry]) -> None:
        """Remove entries that were worked on, unless they were queued anew meanwhile."""
        with self._database.write() as connection:
            connection.executemany(
                "DELETE FROM vector_queue WHERE seq = ?", [(entry.seq,) for entry in entries]
            )

    def defer(self, entries: Iterable[QueueEntry]) -> None:
        """Move entries to the end, unless they were queued anew meanwhile."""
        with self._database.write() as connection:
            for entry in entries:
                taken = connection.execute(
                    "DELETE FROM vector_queue WHERE seq = ?", (entry.seq,)
                ).rowcount
                if taken:
                    connection.execute(
                        "INSERT INTO vector_queue (kind, id) VALUES (?, ?)", (entry.kind, entry.id)
                    )

    def is_empty(self) -> bool:
        """Tell whether nothing waits, without counting."""
        with self._database.read() as connection:
            row = connection.execute("SELECT EXISTS (SELECT 1 FROM vector_queue)").fetchone()
        return not row[0]

    def pending_until(self, last: int) -> int:
        """Count the entries up to a position."""
        with self._database.read() as connection:
            sql = "SELECT count(*) FROM vector_queue WHERE seq <= ?"
            return int(connection.execute(sql, (last,)).fetchone()[0])

    def pending(self, visibility: Visibility | None = None) -> int:
        """Count the entries; with a visibility, those of live records alone that it lets see."""
        with self._database.read() as connection:
            if visibility is None:
                count = connection.execute("SELECT count(*) FROM vector_queue").fetchone()
                return int(count[0])
            visible = [(kind, kind.where({}, visibility)) for kind in KINDS]
            return sum(
                connection.execute(
                    f"SELECT count(*) FROM vector_queue q JOIN {kind.name} r ON r.id = q.id "
                    f"WHERE q.kind = '{kind.name}' AND {condition.sql}",
                    condition.parameters,
                ).fetchone()[0]
                for kind, condition in visible
            )

    def _entries(self, condition: str, parameters: Sequence[Any], limit: int) -> list[QueueEntry]:
        sql = f"SELECT seq, kind, id FROM vector_queue WHERE {condition} ORDER BY seq LIMIT ?"
        with self._database.read() as connection:
            return [QueueEntry(*row) for row in connection.execute(sql, (*parameters, limit))]
