"""The vector half of a memory: embedding model, vector index and indexer.

Or the reason why it is missing: then searches go on by keyword, writes queue their vectors, and
`problem` says what to do. What is missing is tried again: a process takes the index of a folder
over when its owner is gone.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock

from langchain_agentmem.embeddings.embedder import Embedder
from langchain_agentmem.embeddings.provider import EmbeddingChoice, make_embedder
from langchain_agentmem.errors import EmbeddingError, StorageError, describe
from langchain_agentmem.scopes import Visibility
from langchain_agentmem.storage import vector_index
from langchain_agentmem.storage.chroma_source import ChromaSource
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.index_files import put_aside
from langchain_agentmem.storage.kinds import RecordKind
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.schema import MEMORY_ID
from langchain_agentmem.storage.vector_copies import VectorCopies
from langchain_agentmem.storage.vector_index import VectorIndex
from langchain_agentmem.storage.vector_indexer import (
    OTHER_MODEL,
    Indexed,
    Progress,
    ReadyVector,
    VectorIndexer,
)
from langchain_agentmem.storage.vector_queue import VectorQueue
from langchain_agentmem.storage.vector_writers import VectorWriters
from langchain_agentmem.storage.write_behind import WriteBehind

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""How often a vector index that cannot be had is tried again."""
WRITE_SECONDS = 45.0
"""How long a write waits for its vectors; they may follow later."""

NO_EMBEDDING = "there is no embedding model, by choice: no vectors can be made"

OWNED_ELSEWHERE = (
    "answered by keywords alone: another process has the vector index of this folder. For several "
    "processes run a Chroma server and give chroma_client=chromadb.HttpClient(...)"
)

FORKED = (
    "answered by keywords alone: this process was forked from one that had used Chroma, which does "
    "not survive that. Start processes by spawn, or run a Chroma server and give "
    "chroma_client=chromadb.HttpClient(...)"
)


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
        chroma: ChromaSource,
    ) -> None:
        """Open what can be opened."""
        self.embedder: Embedder | None = None
        self.index: VectorIndex | None = None
        self.problem: str | None = None
        self._database = database
        self._store = store
        self._queue = queue
        self._chroma = chroma
        self._indexer: VectorIndexer | None = None
        self._writers = VectorWriters()
        self._opened: tuple[int, int] | None = None
        self._lock = Lock()
        self._tried_at = 0.0
        self._closed = False
        try:
            self.embedder = make_embedder(embedding)
        except EmbeddingError as error:
            self.problem = str(error)
        try:
            self.open_index()
        except BaseException:
            self.close()
            raise

    @property
    def wanted(self) -> bool:
        """Whether records wait for vectors: there is a model, or one is missing."""
        return self.embedder is not None or self.problem is not None

    @property
    def is_owned_elsewhere(self) -> bool:
        """Whether another process has the vector index, which is no fault."""
        return self.problem == OWNED_ELSEWHERE

    @property
    def is_left_behind(self) -> bool:
        """Whether another embedding model came into use since this memory was opened."""
        return self._indexer is not None and not self._indexer.is_current()

    @property
    def folder(self) -> Path | None:
        """Where the vectors are, if it is a folder of this memory's."""
        return self._chroma.folder

    @property
    def copies(self) -> VectorCopies | None:
        """The copies of the vectors in the database, or None without a vector index."""
        return self._indexer.copies if self._indexer is not None else None

    @property
    def can_be_retried(self) -> bool:
        """Whether a vector index is wanted and missing, and it is time to try again."""
        if self._was_taken_away():
            return True
        missing = self.embedder is not None and self._indexer is None
        return missing and time.monotonic() - self._tried_at > RETRY_SECONDS

    def open_index(self) -> None:
        """Open the vector index unless it is open; on failure, `problem` tells why."""
        if self.embedder is None or self._indexer is not None:
            return
        with self._lock:
            if self._indexer is not None or self._closed:
                return
            self._tried_at = time.monotonic()
            try:
                self._open(self.embedder)
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001  (keyword search goes on)
                self._fail(
                    f"answered by keywords alone: the vector index cannot be used "
                    f"({describe(error)}); `agentmem doctor` tells more"
                )

    def level(self, kind: RecordKind, ids: Sequence[str]) -> Indexed:
        """Bring the vectors of changed records level with the database.

        What takes longer than `WRITE_SECONDS` goes on without the caller. Within a `WriteBehind`,
        the answer is that of the batch before.
        """
        behind = WriteBehind.current()
        if behind is not None:
            return behind.follow(partial(self._level, kind, ids))
        return self._level(kind, ids)

    def _level(self, kind: RecordKind, ids: Sequence[str]) -> Indexed:
        def work() -> Indexed:
            try:
                indexer = self._ready_indexer()
            except StorageError as error:  # no failure of a write: its records are saved
                return Indexed(0, str(error))
            if indexer is None:
                return Indexed(0, self.problem)
            if not ids:
                return Indexed(0)
            done = indexer.index(kind, ids)
            self._keep_private()
            return done

        return self._writers.run(work, WRITE_SECONDS)

    def take_over(self, kind: RecordKind, ready: Mapping[str, ReadyVector]) -> Indexed:
        """Write vectors that were made elsewhere with this model, by record id."""
        indexer = self._ready_indexer()
        if indexer is None:
            return Indexed(0, self.problem)
        done = indexer.take_over(kind, ready)
        self._keep_private()
        return done

    def level_a_little(self) -> None:
        """Work on a few waiting entries, or try to open a missing index; fails in silence."""
        indexer = self._ready_indexer()
        if indexer is not None and not self._queue.is_empty():
            indexer.index_a_little()

    def sync(self, progress: Progress | None = None, timeout: float | None = None) -> Indexed:
        """Work through the whole queue.

        With a `timeout` in parts, each of which is waited for no longer than that. What hangs goes
        on without the caller, and no further part is begun.
        """
        self._database.check_usable()
        self._tried_at = 0.0
        if timeout is not None:
            return self._sync_in_parts(progress, timeout)
        indexer = self._ready_indexer()
        if indexer is None:
            return Indexed(0, self.problem)
        done = indexer.sync(progress)
        self._keep_private()
        return done

    def _sync_in_parts(self, progress: Progress | None, timeout: float) -> Indexed:
        def begin() -> Indexed:
            indexer = self._ready_indexer()
            if indexer is None:
                return Indexed(0, self.problem)
            indexer.compare()
            return Indexed(0)

        def go_on() -> Indexed:
            indexer = self._ready_indexer()
            return indexer.index_next(last) if indexer else Indexed(0, self.problem)

        self._writers.outwait(timeout, self._queue.pending)
        done = self._writers.run(begin, timeout)
        last = self._queue.last_position()
        total = left = 0 if done.problem else self._queue.pending_until(last)
        while left:
            part = self._writers.run(go_on, timeout)
            done = Indexed(done.written + part.written, part.problem or done.problem)
            before, left = left, self._queue.pending_until(last)
            if left == before:
                break
            if progress is not None:
                progress(total - left, left)
        self._keep_private()
        return done

    @property
    def have_work(self) -> bool:
        """Whether it is worth a moment's work in the background: see `level_a_little`."""
        return self.can_be_retried or (self.wanted and not self._queue.is_empty())

    def pending(self) -> int:
        """Count the records that wait for their vectors; 0 where no vectors are wanted."""
        return self._queue.pending() if self.wanted else 0

    def backlog(self, visibility: Visibility | None = None) -> str | None:
        """Tell in a sentence what the vector index lacks, or None.

        Args:
            visibility: Who reads it: others' records are not counted, and the latest problem,
                which may name one, is left out.
        """
        if self._indexer is None:
            return None
        if self.is_left_behind:
            return OTHER_MODEL
        if self._queue.is_empty():
            return None
        restricted = visibility if visibility and not visibility.everything else None
        pending = self._queue.pending(restricted)
        if not pending:
            return None
        problem = None if restricted else self._indexer.last_problem
        why = f" ({problem})" if problem else ""
        wait = "record waits" if pending == 1 else "records wait"
        return f"{pending} {wait} to be found by meaning{why}; memory.sync() writes the vectors"

    def rebuild(self, progress: Progress | None = None) -> Indexed:
        """Throw the vector index away and make it anew from the database.

        A folder that Chroma cannot open is put aside, not deleted. Without an embedding model there
        is nothing to make it with, and it stays as it is.

        Raises:
            StorageError: The database cannot be written, or the folder not be moved.
        """
        self._database.check_usable()
        if self.embedder is None:
            return Indexed(0, self.problem or NO_EMBEDDING)
        try:
            if not self._owns():
                return Indexed(0, OWNED_ELSEWHERE)
            if self.is_left_behind:  # the other model's vectors would go too
                return Indexed(0, OTHER_MODEL)
            with self._database.write() as connection:
                self._queue.put_all(connection)
            self.embedder.forget_dimension()
            with self._lock:
                self._tried_at = 0.0
                problem = self._thrown_away()
        except OSError as error:
            msg = f"cannot make the vector index {self.folder} anew: {describe(error)}"
            raise StorageError(msg) from error
        return self.sync(progress) if problem is None else Indexed(0, problem)

    def close(self) -> None:
        """Release the vector index, and its ownership."""
        with self._lock:
            self._closed = True
            self._writers.close()
            index, self.index, self._indexer = self.index, None, None
            try:
                if index is not None and self._chroma.end is not None:
                    self._chroma.end(index)
                    self._keep_private()
            finally:
                if self._chroma.ownership is not None:
                    self._chroma.ownership.release()

    def _was_taken_away(self) -> bool:
        files = self._chroma.files
        if self._indexer is None or files is None:
            return False
        return self._opened is not None and self._opened != files.identity()

    def _let_go_of_what_is_gone(self) -> None:
        """Close an index whose files were deleted or replaced while it was open."""
        with self._lock:
            if self.index is None or self._chroma.folder is None or not self._was_taken_away():
                return
            logger.warning("the vector index was taken away; it is made anew from the database")
            index, self.index, self._indexer = self.index, None, None
            self._tried_at = 0.0
            index.abandon(self._chroma.folder)

    def _ready_indexer(self) -> VectorIndexer | None:
        if self._was_taken_away():
            self._let_go_of_what_is_gone()
        if self.can_be_retried:
            self.open_index()
        return self._indexer

    def _open(self, embedder: Embedder) -> None:
        ours = self._chroma.end is not None
        if ours and vector_index.was_used_before_fork():
            self._fail(FORKED)
            return
        if not self._owns():
            self._fail(OWNED_ELSEWHERE)
            return
        namespace = self._database.meta(MEMORY_ID) or ""
        files = self._chroma.files
        if files is not None and self._chroma.ownership is not None:
            self._chroma.ownership.begin(files.make_safe)
        client = self._chroma.open()
        self._opened = files.identity() if files is not None else None
        try:
            index = VectorIndex(client, namespace, embedder.fingerprint, calls=files)
            indexer = VectorIndexer(
                self._database, self._store, self._queue, embedder, index, turn=self._chroma.turn
            )
        except BaseException:
            if ours:  # left open, it would be there for whoever opens the folder rebuilt
                vector_index.close_client(client)
            raise
        self.index, self._indexer, self.problem = index, indexer, None
        self._keep_private()

    def _keep_private(self) -> None:
        if self._chroma.folder is not None:
            vector_index.keep_private(self._chroma.folder)

    def _thrown_away(self) -> str | None:
        """Empty the index, or put its folder aside; tells why that could not be done, or None."""
        index, folder = self.index, self._chroma.folder
        if index is not None:
            try:
                index.drop()
            except Exception as error:  # noqa: BLE001  (whatever Chroma raises)
                problem = f"the vector index cannot be emptied: {describe(error)}"
                logger.warning("%s", problem)
                if folder is None:
                    return problem
                self.index = self._indexer = None
                index.close()
            else:
                return None
        if folder is not None:
            put_aside(folder)
        return None

    def _owns(self) -> bool:
        ownership = self._chroma.ownership
        return ownership is None or ownership.acquire()

    def _fail(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem
