"""What keeps a memory in order: status, sync, verification, repair and closing."""

from typing import Any, Self

from langchain_agentmem.arguments import seconds
from langchain_agentmem.results import Finding, MemoryStatus, WriteReport
from langchain_agentmem.search.pipeline import SearchPipeline
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.doctor import Doctor
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import LIVE, MEMORIES, MESSAGES
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.vector_indexer import Indexed, Progress
from langchain_agentmem.storage.vectors import VectorHalf
from langchain_agentmem.twins import in_thread


class Upkeep:
    """The part of `AgentMemory` that looks after its parts."""

    _database: Database
    _keywords: KeywordIndex
    _store: RecordStore
    _vectors: VectorHalf
    _doctor: Doctor
    _pipeline: SearchPipeline

    def sync(
        self, progress: Progress | None = None, *, timeout: float | None = None
    ) -> WriteReport:
        """Bring the vector index level with the database.

        Args:
            progress: Called with the number of records done and of those that remain.
            timeout: Seconds to wait for the next vectors, of some hundreds of records at a time,
                before what hangs is left to go on alone. None: as long as it takes.

        Raises:
            ValueError: `timeout` is no number above 0.
            StorageError: The database cannot be used.
        """
        if timeout is not None:
            timeout = seconds("timeout", timeout)
        return self._synced(self._vectors.sync(progress, timeout))

    def rebuild_vectors(self, progress: Progress | None = None) -> WriteReport:
        """Make the vector index anew from the database, whatever state it is in.

        Args:
            progress: As in `sync`.
        """
        return self._synced(self._vectors.rebuild(progress))

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Verify database, keyword index, queue and vectors against each other.

        The embedding model is asked for the vector of one short text, unless it failed a moment
        ago.

        Args:
            repair: First mend what can be made anew from the records.
        """
        if repair:
            self._doctor.repair()
            self.sync()
            if not self._doctor.vectors_are_sound():
                self.rebuild_vectors()
        return self._doctor.examine()

    def status(self) -> MemoryStatus:
        """Count what there is, and tell what is degraded."""
        embedder = self._vectors.embedder
        problems = (
            self._database.read_only,
            self._keywords.problem,
            self._keywords.note,
            self._vectors.problem,
            self._vectors.backlog(),
        )
        return MemoryStatus(
            location=self._database.location,
            memories=self._store.count(MEMORIES, LIVE),
            messages=self._store.count(MESSAGES, LIVE),
            pending=self._vectors.pending(),
            strategy=self._pipeline.strategy,
            embedding=embedder.name if embedder else None,
            keyword_index=self._keywords.engine,
            problems=[problem for problem in problems if problem],
        )

    def close(self) -> None:
        """Release the database, the workers and Chroma. Closing twice is fine.

        In a forked child it does nothing: what was opened is its parent's.
        """
        if self._database.is_inherited:
            return
        self._database.close()  # first: whoever is at work then learns why it cannot go on
        self._pipeline.close()
        self._vectors.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return this memory: copies of a tool or an agent work on the same one."""
        return self

    def __copy__(self) -> Self:
        """Return this memory, as `__deepcopy__` does."""
        return self

    def __reduce__(self) -> Any:
        """Refuse to be pickled.

        Raises:
            TypeError: Always: a memory is files that are open here.
        """
        msg = "a memory cannot be pickled: open its folder where it is used"
        raise TypeError(msg)

    def __enter__(self) -> Self:
        """Return this memory."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close this memory."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return this memory."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close this memory."""
        await self.aclose()

    async_sync = in_thread(sync)
    arebuild_vectors = in_thread(rebuild_vectors)
    acheck = in_thread(check)
    astatus = in_thread(status)
    aclose = in_thread(close)

    def _synced(self, done: Indexed) -> WriteReport:
        return WriteReport(
            indexed=done.written, pending=self._vectors.pending(), problem=done.problem
        )
