"""Copies of the vectors in the database, by row number, for records that are compared one by one.

Chroma takes long to give vectors back. A copy is made when a vector has been written; triggers
remove it when its record changes or goes, so a copy is never older than its record. What has no
copy is asked of the vector index, unless it waits in the vector queue: then the vector there, if
any, is that of another text.
"""

import heapq
import json
import sqlite3
from collections.abc import Sequence

import numpy as np

from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import AMONG, KINDS, LIVE, Condition, RecordKind
from langchain_agentmem.storage.schema import EMBEDDING_MODEL
from langchain_agentmem.storage.vector_index import unit
from langchain_agentmem.storage.vector_queue import QueueEntry

_BATCH = 4096
_OF_THIS_MODEL = f"EXISTS (SELECT 1 FROM meta WHERE key = '{EMBEDDING_MODEL}' AND value = ?)"


def up_to_date(kind: RecordKind) -> Condition:
    """Return the condition that the vector of a record, if it has one, is that of its text."""
    return Condition(
        f"(EXISTS (SELECT 1 FROM {kind.name}_vectors WHERE seq = r.seq) OR {_does_not_wait(kind)})"
    )


def at_least_as_near(cosines: Vectors, wanted: int) -> Sequence[int]:
    """Return the positions of what is as near as the last that is wanted, or nearer."""
    if len(cosines) <= wanted:
        return range(len(cosines))
    least = np.partition(cosines, -wanted)[-wanted]
    positions: list[int] = np.flatnonzero(cosines >= least).tolist()
    return positions


def _does_not_wait(kind: RecordKind) -> str:
    return f"NOT EXISTS (SELECT 1 FROM vector_queue WHERE kind = '{kind.name}' AND id = r.id)"


class VectorCopies:
    """The copies of one embedding model's vectors.

    Args:
        database: The open database.
        fingerprint: Tells the embedding model from others; copies of others are not used.
    """

    def __init__(self, database: Database, fingerprint: str) -> None:
        """Work on `database`."""
        self._database = database
        self._fingerprint = fingerprint

    def settle(
        self, kind: RecordKind, written: Sequence[QueueEntry], vectors: Sequence[Vectors]
    ) -> None:
        """Take entries whose vectors are written off the queue, and keep copies of the vectors.

        Entries that were queued anew meanwhile stay, and leave no copy.

        Args:
            kind: Which records.
            written: The entries, at least one.
            vectors: The vector of each, (dim,) float32.
        """
        units = unit(np.stack(vectors).astype(np.float32))
        entries = json.dumps([entry.seq for entry in written])
        with self._database.write() as connection:
            # All at once: row by row, Python takes longer over them than SQLite.
            connection.execute(
                f"INSERT OR REPLACE INTO {kind.name}_vectors (seq, vector) "
                "SELECT r.seq, substr(:vectors, 1 + :size * entry.key, :size) "
                "FROM json_each(:entries) entry CROSS JOIN vector_queue q ON q.seq = entry.value "
                f"CROSS JOIN {kind.name} r ON r.id = q.id WHERE {LIVE.sql}",
                {"vectors": units.tobytes(), "size": units[0].nbytes, "entries": entries},
            )
            connection.execute(f"DELETE FROM vector_queue WHERE seq {AMONG}", (entries,))

    def clear(self, connection: sqlite3.Connection) -> None:
        """Remove all copies, in the caller's transaction."""
        for kind in KINDS:
            connection.execute(f"DELETE FROM {kind.name}_vectors")

    def read(
        self, kind: RecordKind, seqs: Sequence[int], dimension: int
    ) -> tuple[list[int], Vectors]:
        """Return the row numbers that have a copy, and the copies.

        Args:
            kind: Which records.
            seqs: Their row numbers.
            dimension: How long the vectors are.

        Returns:
            Row numbers, and as many vectors of length 1, (n, dimension) float32.
        """
        sql = (
            f"SELECT seq, vector FROM {kind.name}_vectors "
            f"WHERE seq {AMONG} AND length(vector) = ? "
            f"AND {_OF_THIS_MODEL}"
        )
        with self._database.read() as connection:
            rows = connection.execute(
                sql, (json.dumps(list(seqs)), 4 * dimension, self._fingerprint)
            ).fetchall()
        matrix = np.frombuffer(b"".join(row[1] for row in rows), dtype=np.float32)
        return [row[0] for row in rows], matrix.reshape(len(rows), dimension)

    def more_than(self, kind: RecordKind, number: int) -> bool:
        """Tell whether there are more copies than this, without counting them all."""
        sql = f"SELECT count(*) FROM (SELECT 1 FROM {kind.name}_vectors LIMIT ?)"
        with self._database.read() as connection:
            return bool(connection.execute(sql, (number + 1,)).fetchone()[0] > number)

    def nearest(
        self, kind: RecordKind, vector: Vectors, condition: Condition, wanted: int
    ) -> tuple[list[tuple[str, float]], bool]:
        """Compare a vector with every copy whose record meets a condition.

        Args:
            kind: Which records.
            vector: The vector, (dim,) float32.
            condition: What a record must meet.
            wanted: How many to return at the most.

        Returns:
            Ids with the cosine similarity (-1 to 1), nearest first; and whether all that meet the
            condition were compared, but for those whose vectors wait to be written.
        """
        sql = (
            f"SELECT r.id, v.vector FROM {kind.name} r LEFT JOIN {kind.name}_vectors v "
            f"ON v.seq = r.seq AND length(v.vector) = ? AND {_OF_THIS_MODEL} "
            f"WHERE {condition.sql} AND (v.seq IS NOT NULL OR {_does_not_wait(kind)})"
        )
        direction, best = unit(vector), list[tuple[float, str]]()
        are_all = True
        with self._database.read() as connection:
            cursor = connection.execute(
                sql, (4 * len(vector), self._fingerprint, *condition.parameters)
            )
            while batch := cursor.fetchmany(_BATCH):
                rows = [row for row in batch if row[1] is not None]
                are_all = are_all and len(rows) == len(batch)
                matrix = np.frombuffer(b"".join(row[1] for row in rows), dtype=np.float32)
                cosines = np.clip(matrix.reshape(len(rows), len(vector)) @ direction, -1.0, 1.0)
                near = at_least_as_near(cosines, wanted)
                found = [(-float(cosines[n]), rows[n][0]) for n in near]
                best = heapq.nsmallest(wanted, [*best, *found])
        return [(id_, -distance) for distance, id_ in best], are_all
