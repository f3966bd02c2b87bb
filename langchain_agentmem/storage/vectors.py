"""The vector half of a memory: embedding model, vector index and indexer.

Or the reason why it is missing: then searches go on by keyword, writes queue their vectors, and
`problem` says what to configure.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from langchain_agentmem.embeddings.embedder import Embedder
from langchain_agentmem.embeddings.provider import EmbeddingChoice, make_embedder
from langchain_agentmem.errors import EmbeddingError, StorageError, describe
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import RecordKind
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.vector_index import VectorIndex
from langchain_agentmem.storage.vector_indexer import Indexed, Progress, VectorIndexer
from langchain_agentmem.storage.vector_queue import VectorQueue

logger = logging.getLogger(__name__)


class VectorHalf:
    """Embedding model, vector index and indexer of one memory, as far as they can be had.

    Attributes:
        embedder: The embedding model, or None.
        index: The vector index, or None.
        problem: Why vectors are not to be had, as a note for answers; None where they are, or
            where none are wanted.
    """

    def __init__(
        self,
        database: Database,
        store: RecordStore,
        queue: VectorQueue,
        *,
        embedding: EmbeddingChoice,
        open_chroma: Callable[[], Any],
        end: Callable[[VectorIndex], None] | None,
    ) -> None:
        """Open what can be opened.

        Args:
            database: The open database.
            store: Its records.
            queue: Its vector queue.
            embedding: The user's choice.
            open_chroma: Opens the Chroma client; called only if there is an embedding.
            end: What `close` does to the index; None: nothing, the client is somebody else's.
        """
        self.embedder: Embedder | None = None
        self.index: VectorIndex | None = None
        self.problem: str | None = None
        self._queue = queue
        self._indexer: VectorIndexer | None = None
        self._end = end
        try:
            self.embedder = make_embedder(embedding)
        except EmbeddingError as error:
            self.problem = str(error)
        if self.embedder is None:
            return
        namespace = database.meta("memory_id") or ""
        try:
            index = VectorIndex(open_chroma(), namespace, self.embedder.fingerprint)
            self._indexer = VectorIndexer(database, store, queue, self.embedder, index)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  (keyword search goes on)
            self.problem = (
                f"answered by keywords alone: the vector index cannot be used: {describe(error)}"
            )
            logger.warning("%s", self.problem)
        else:
            self.index = index

    def level(self, kind: RecordKind, ids: Sequence[str]) -> Indexed:
        """Bring the vectors of changed records level with the database."""
        if self._indexer is None:
            return Indexed(0, self.problem)
        return self._indexer.index(kind, ids) if ids else Indexed(0)

    def sync(self, progress: Progress | None = None) -> Indexed:
        """Work through the whole queue."""
        if self._indexer is None:
            return Indexed(0, self.problem)
        return self._indexer.sync(progress)

    def pending(self) -> int:
        """Count the records that wait for their vectors; 0 where no vectors are wanted."""
        wanted = self.embedder is not None or self.problem is not None
        return self._queue.pending() if wanted else 0

    def backlog(self) -> str | None:
        """Tell in a sentence what the vector index lacks, or None."""
        if self._indexer is None:
            return None
        pending = self._queue.pending()
        if not pending:
            return None
        why = f" ({self._indexer.last_problem})" if self._indexer.last_problem else ""
        wait = "record waits" if pending == 1 else "records wait"
        return f"{pending} {wait} to be found by meaning{why}; memory.sync() writes the vectors"

    def close(self) -> None:
        """Release the vector index."""
        index, self.index = self.index, None
        if index is not None and self._end is not None:
            self._end(index)
