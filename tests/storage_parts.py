"""The parts of a memory, wired as `AgentMemory` wires them, for tests of one part among them."""

from collections.abc import Sequence

from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import RecordKind
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.vector_index import VectorIndex, in_memory_client
from langchain_agentmem.storage.vector_queue import VectorQueue


class StorageParts:
    """A database with its keyword index, its vector queue and the store that fills them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.keywords = KeywordIndex(database)
        self.queue = VectorQueue(database)
        self.store = RecordStore(database, self.keywords, self.queue)


class VectorParts(StorageParts):
    """The same beside a vector index in memory, to be dropped when it is done with."""

    def __init__(self, database: Database, fingerprint: str = "m") -> None:
        super().__init__(database)
        self.index = VectorIndex(in_memory_client(), database.meta("memory_id") or "", fingerprint)

    def place(self, kind: RecordKind, ids: Sequence[str], vectors: list[Vectors]) -> None:
        """Write vectors, and take their records off the queue."""
        self.index.upsert(kind, ids, vectors)
        self.queue.done(self.queue.take(len(ids), kind.name, ids))
