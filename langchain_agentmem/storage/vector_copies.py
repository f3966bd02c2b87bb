"""Copies of the vectors in the database, by row number, for records that are compared one by one.

Chroma takes long to give vectors back. A copy is made when a vector has been written; triggers
remove it when its record changes or goes, so a copy is never older than its record. What has no
copy is asked of the vector index.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np

from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import KINDS, RecordKind
from langchain_agentmem.storage.vector_index import Vectors
from langchain_agentmem.storage.vector_queue import QueueEntry


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

    def settle(self, kind: RecordKind, written: Mapping[QueueEntry, Vectors]) -> None:
        """Take entries whose vectors are written off the queue, and keep copies of the vectors.

        Entries that were queued anew meanwhile stay, and leave no copy.
        """
        rows = [
            (_unit(vector).astype(np.float32).tobytes(), entry.id, entry.seq)
            for entry, vector in written.items()
        ]
        with self._database.write() as connection:
            connection.executemany(
                f"INSERT OR REPLACE INTO {kind.name}_vectors (seq, vector) "
                f"SELECT r.seq, ?1 FROM {kind.name} r WHERE r.id = ?2 AND r.deleted_at IS NULL "
                "AND EXISTS (SELECT 1 FROM vector_queue WHERE seq = ?3)",
                rows,
            )
            connection.executemany(
                "DELETE FROM vector_queue WHERE seq = ?", [(seq,) for _, _, seq in rows]
            )

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
            "WHERE seq IN (SELECT value FROM json_each(?)) AND length(vector) = ? "
            "AND EXISTS (SELECT 1 FROM meta WHERE key = 'embedding_model' AND value = ?)"
        )
        with self._database.read() as connection:
            rows = connection.execute(
                sql, (json.dumps(list(seqs)), 4 * dimension, self._fingerprint)
            ).fetchall()
        matrix = np.frombuffer(b"".join(row[1] for row in rows), dtype=np.float32)
        return [row[0] for row in rows], matrix.reshape(len(rows), dimension)


def _unit(vector: Vectors) -> Vectors:
    unit: Vectors = vector / (float(np.linalg.norm(vector)) or 1.0)
    return unit
