"""How database and vector index differ, beyond what waits in the vector queue."""

import sqlite3
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import RecordKind


@dataclass(frozen=True, slots=True)
class Differences:
    """What the queue knows nothing of."""

    missing: list[str]
    """Ids of records without a vector."""
    ghosts: list[str]
    """Ids of vectors without a record."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.missing or self.ghosts)

    def __and__(self, other: "Differences") -> "Differences":
        """Return what is in both."""
        return Differences(
            sorted({*self.missing} & {*other.missing}), sorted({*self.ghosts} & {*other.ghosts})
        )


def find_differences(
    database: Database, kind: RecordKind, with_vectors: Callable[[], AbstractSet[str]]
) -> Differences:
    """Compare the records with the ids that have a vector, which `with_vectors` reads.

    Both sides cannot be read at one moment, and a write under way in between looks like a
    difference. So what differs is looked at twice, and what is done by then is none.

    Raises:
        StorageError: The database cannot be read.
        Exception: Whatever `with_vectors` raises.
    """
    found = _differences(database, kind, with_vectors())
    return found and found & _differences(database, kind, with_vectors())


def _differences(
    database: Database, kind: RecordKind, with_vectors: AbstractSet[str]
) -> Differences:
    with database.read() as connection:
        live = _column(connection, f"SELECT id FROM {kind.name} WHERE deleted_at IS NULL")
        queued = _column(connection, f"SELECT id FROM vector_queue WHERE kind = '{kind.name}'")
    return Differences(sorted(live - with_vectors - queued), sorted(with_vectors - live - queued))


def _column(connection: sqlite3.Connection, sql: str) -> set[str]:
    return {row[0] for row in connection.execute(sql)}
