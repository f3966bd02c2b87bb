"""Brings the vector index level with the database, by working through the vector queue."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

from langchain_agentmem.embeddings.embedder import Embedder
from langchain_agentmem.errors import describe
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import KINDS, RecordKind
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.vector_index import VectorIndex
from langchain_agentmem.storage.vector_queue import QueueEntry, VectorQueue

logger = logging.getLogger(__name__)

_CHUNK = 512
BACKLOG_PER_WRITE = 512
"""How many entries of earlier writes a write works on beside its own."""
Progress = Callable[[int, int], None]
"""Called with the entries that are done and those that remain."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What a run of the indexer did."""

    written: int
    """Vectors written."""
    problem: str | None = None
    """Why it stopped early, or None."""


class VectorIndexer:
    """Works through the queue; one thread at a time."""

    def __init__(
        self,
        database: Database,
        store: RecordStore,
        queue: VectorQueue,
        embedder: Embedder,
        index: VectorIndex,
    ) -> None:
        """Queue all records anew if the vectors are those of another embedding model."""
        self._store = store
        self._queue = queue
        self._embedder = embedder
        self._index = index
        self._lock = Lock()
        self.last_problem: str | None = None
        self._has_other_models = index.has_other_models()
        with database.write() as connection:
            row = connection.execute(
                "SELECT value FROM meta WHERE key = 'embedding_model'"
            ).fetchone()
            if row is None or row[0] != embedder.fingerprint:
                queue.put_all(connection)
                connection.execute(
                    "INSERT OR REPLACE INTO meta VALUES ('embedding_model', ?)",
                    (embedder.fingerprint,),
                )
            else:
                self._queue_lost_vectors(connection)

    def _queue_lost_vectors(self, connection: sqlite3.Connection) -> None:
        """Queue what differs, where the vector index was deleted or restored behind our back."""
        for kind in KINDS:
            live, queued = (
                {row[0] for row in connection.execute(sql)}
                for sql in (
                    f"SELECT id FROM {kind.name} WHERE deleted_at IS NULL",
                    f"SELECT id FROM vector_queue WHERE kind = '{kind.name}'",
                )
            )
            if abs(self._index.count(kind) - len(live)) > len(queued):
                self._queue.put(connection, kind, (live ^ self._index.ids(kind)) - queued)

    def index(self, kind: RecordKind, ids: Sequence[str]) -> Indexed:
        """Write the vectors of these records, and of a bounded number that waited before them."""
        with self._lock:
            own = self._work(lambda limit: self._queue.take(limit, kind.name, ids), len(ids))
            if own.problem is not None:
                return own
            backlog = self._work(self._queue.take, BACKLOG_PER_WRITE)
            return Indexed(own.written + backlog.written, backlog.problem)

    def sync(self, progress: Progress | None = None) -> Indexed:
        """Work through the whole queue."""
        with self._lock:
            return self._work(self._queue.take, None, progress)

    def _work(
        self,
        take: Callable[[int], list[QueueEntry]],
        limit: int | None,
        progress: Progress | None = None,
    ) -> Indexed:
        written = processed = 0
        try:
            while limit is None or processed < limit:
                size = _CHUNK if limit is None else min(_CHUNK, limit - processed)
                entries = take(size)
                if not entries:
                    break
                written += self._level(entries)
                self._queue.done(entries)
                processed += len(entries)
                if progress is not None:
                    progress(processed, self._queue.pending())
            if self._has_other_models and not self._queue.pending():
                # Level at last: the vectors of the former model have served their time.
                self._index.drop_other_models()
                self._has_other_models = False
        except Exception as error:  # noqa: BLE001  (whatever fails, the queue keeps the work)
            self.last_problem = f"vectors could not be written: {describe(error)}"
            logger.warning("%s", self.last_problem)
            return Indexed(written, self.last_problem)
        self.last_problem = None
        return Indexed(written)

    def _level(self, entries: Sequence[QueueEntry]) -> int:
        written = 0
        for kind in KINDS:
            ids = [entry.id for entry in entries if entry.kind == kind.name]
            if not ids:
                continue
            texts = {
                record.id: kind.embedded_text(record) for record in self._store.live(kind, ids)
            }
            if texts:
                vectors = self._embedder.embed_documents(list(texts.values()))
                self._index.upsert(kind, list(texts), vectors)
                written += len(texts)
            gone = [id_ for id_ in ids if id_ not in texts]
            if gone:
                self._index.delete(kind, gone)
        return written
