"""`AgentMemory`: the front door. It wires the parts together and holds no logic of theirs."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self, Unpack, cast

from langchain_agentmem.capture import as_memories, as_messages
from langchain_agentmem.embeddings.provider import EmbeddingChoice
from langchain_agentmem.records import Memory, MemoryChanges, Message
from langchain_agentmem.results import MemoryHit, MemoryStatus, MessageHit, WriteReport
from langchain_agentmem.scopes import Turn
from langchain_agentmem.search.pipeline import SearchPipeline
from langchain_agentmem.search.request import SearchRequest, make_request
from langchain_agentmem.storage import vector_index
from langchain_agentmem.storage.database import FILE_NAME, Database, private_folder
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import KINDS, LIVE, MEMORIES, MESSAGES, RecordKind
from langchain_agentmem.storage.record_store import Changed, RecordStore, Saved
from langchain_agentmem.storage.vector_index import VectorIndex
from langchain_agentmem.storage.vector_indexer import Progress
from langchain_agentmem.storage.vector_queue import VectorQueue
from langchain_agentmem.storage.vectors import VectorHalf
from langchain_agentmem.twins import in_thread, runs_search, runs_search_async

CHROMA_FOLDER = "chroma"
SEARCH_TIMEOUT_SECONDS = 5.0

Config = Mapping[str, Any]


class AgentMemory:
    """What an agent remembers: memories and messages, searched by meaning and by words.

    Make one with `open` or `in_memory`. One object serves any number of threads and tasks. Every
    method that does I/O has an async twin with the prefix `a` (that of `sync` is `async_sync`).
    """

    def __init__(
        self,
        database: Database,
        *,
        embedding: EmbeddingChoice = None,
        open_chroma: Callable[[], Any],
        end_vectors: Callable[[VectorIndex], None] | None = None,
        timeout: float = SEARCH_TIMEOUT_SECONDS,
    ) -> None:
        """Wire the parts together. Users call `open` or `in_memory`.

        Args:
            database: The open database.
            embedding: See `open`.
            open_chroma: Opens the Chroma client; called only if there is an embedding.
            end_vectors: Ends the vector index when the memory is closed; None: a client of
                somebody else's is left as it is.
            timeout: See `open`.
        """
        self._database = database
        self._keywords = KeywordIndex(database)
        queue = VectorQueue(database)
        self._store = RecordStore(database, self._keywords, queue)
        self._vectors = VectorHalf(
            database,
            self._store,
            queue,
            embedding=embedding,
            open_chroma=open_chroma,
            end=end_vectors,
        )
        self._pipeline = SearchPipeline(self._store, self._keywords, self._vectors, timeout=timeout)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        embedding: EmbeddingChoice = None,
        chroma_client: Any = None,
        timeout: float = SEARCH_TIMEOUT_SECONDS,
    ) -> Self:
        """Open the memory in a folder, made if missing.

        Args:
            folder: Holds the database and, unless `chroma_client` is given, the vectors.
            embedding: A LangChain `Embeddings` object, `EmbeddingSettings`, a provider's name
                (`openai_compatible`, `local`, `chroma`, `none`), or None for the environment's
                settings. What is missing turns embedding off and is named in every answer.
            chroma_client: A Chroma client of your own, such as a `chromadb.HttpClient`.
            timeout: Seconds that each half of a search may take; the other answers alone then.

        Raises:
            StorageError: The folder or the database in it cannot be used.
            TypeError: `embedding` or `chroma_client` is of no usable type.
            ValueError: An argument is unusable; it is named.
        """
        if chroma_client is not None:
            vector_index.check_client(chroma_client)
        path = private_folder(folder)
        return cls(
            Database(path / FILE_NAME),
            embedding=embedding,
            open_chroma=lambda: chroma_client or vector_index.embedded_client(path / CHROMA_FOLDER),
            end_vectors=VectorIndex.close if chroma_client is None else None,
            timeout=timeout,
        )

    @classmethod
    def in_memory(
        cls, *, embedding: EmbeddingChoice = None, timeout: float = SEARCH_TIMEOUT_SECONDS
    ) -> Self:
        """Open a memory that keeps nothing on disk. See `open`."""
        return cls(
            Database(None),
            embedding=embedding,
            open_chroma=vector_index.in_memory_client,
            end_vectors=VectorIndex.drop,  # the memory system lives on in this process
            timeout=timeout,
        )

    def add_memory(
        self,
        content: str,
        *,
        type: str = "episodic",
        priority: int = 50,
        scene_name: str = "",
        tags: Iterable[str] = (),
        config: Config | None = None,
        **fields: Any,
    ) -> Memory:
        """Save one memory and return it as it is stored.

        A text that its owner has saved before is not saved again: the memory that is there comes
        back.

        Args:
            content: What is to be remembered.
            type: Free text; usual are persona, episodic, instruction.
            priority: 0 to 100, higher matters more; below zero: a global instruction.
            scene_name: Where it belongs, such as a project or a place.
            tags: Words to find it by.
            config: The `RunnableConfig` of the turn whose memory it is.
            **fields: Further fields of `Memory`.

        Raises:
            ValueError: A field is unusable; it is named.
            StorageError: The database cannot be written. Nothing was saved.
        """
        given = {"type": type, "priority": priority, "scene_name": scene_name, "tags": tags}
        memory = Memory.model_validate({"content": content, **given, **fields})
        report = self.add_memories([memory], config=config)
        return cast("Memory", report.records[0])

    def add_memories(
        self, memories: Iterable[Memory], *, config: Config | None = None, replace: bool = True
    ) -> WriteReport:
        """Save memories in one transaction.

        Args:
            memories: What is to be remembered.
            config: The `RunnableConfig` of the turn whose memories they are.
            replace: Under an id that is there, the fields that are given replace the stored
                ones. False: the stored ones stand, and the report lists the conflict.

        Raises:
            TypeError: Something else than a `Memory` is among them.
            StorageError: The database cannot be written. Nothing was saved.
        """
        filed = as_memories(memories, Turn.from_config(config))
        return self._report(MEMORIES, self._store.save(MEMORIES, filed, replace=replace))

    def add_messages(
        self,
        session_key: str | None,
        messages: Iterable[Any],
        *,
        config: Config | None = None,
        replace: bool = True,
    ) -> WriteReport:
        """Save messages of a conversation in one transaction.

        A message that is there already (by its id within the conversation; without an id, by
        role, text and time) is not saved twice.

        Args:
            session_key: The conversation; None: each `Message` names its own.
            messages: LangChain messages, `Message` objects, or both. Messages without text (bare
                tool calls) are skipped.
            config: The `RunnableConfig` of the turn whose messages they are.
            replace: As in `add_memories`.

        Raises:
            ValueError: A message is unusable; its position is named.
            StorageError: The database cannot be written. Nothing was saved.
        """
        filed, skipped = as_messages(session_key, messages, Turn.from_config(config))
        saved = self._store.save(MESSAGES, filed, replace=replace)
        return self._report(MESSAGES, saved, skipped)

    @runs_search
    def search_memories(
        self,
        query: str,
        limit: int = 5,
        *,
        type: str | None = None,
        scene: str | None = None,
        session_key: str | None = None,
        after: Any = None,
        before: Any = None,
        scope: str | None = None,
        config: Config | None = None,
        min_similarity: float | None = None,
    ) -> SearchRequest[MemoryHit]:
        """Search distilled memories.

        Args:
            query: Any text. A blank one finds nothing.
            limit: How many results at the most, 1 to 100.
            type: Only memories of this type.
            scene: Only memories whose scene name contains this, in any case.
            session_key: Only memories that come from this conversation.
            after: Only memories created then or later (datetime, ISO 8601 or epoch).
            before: Only memories created then or earlier; a date means its whole day.
            scope: Only this scope's records of the turn, and its unscoped ones.
            config: The `RunnableConfig` of the turn; its ids decide what is visible.
            min_similarity: Cosine (-1 to 1) below which a memory is no answer.

        Returns:
            A `SearchResult` of `MemoryHit`.

        Raises:
            ValueError: An argument is unusable; it is named.
            StorageError: The database cannot be read.
        """
        return make_request(
            MEMORIES,
            query,
            limit,
            filters={"type": type, "scene": scene, "session_key": session_key},
            bounds={"after": after, "before": before},
            visibility=Turn.from_config(config).sees(scope),
            min_similarity=min_similarity,
        )

    @runs_search
    def search_conversations(
        self,
        query: str,
        limit: int = 5,
        *,
        session_key: str | None = None,
        after: Any = None,
        before: Any = None,
        role: str | None = None,
        scope: str | None = None,
        config: Config | None = None,
        min_similarity: float | None = None,
    ) -> SearchRequest[MessageHit]:
        """Search past messages.

        Args:
            query: Any text. A blank one finds nothing.
            limit: How many results at the most, 1 to 100.
            session_key: Only messages of this conversation.
            after: Only messages recorded then or later (datetime, ISO 8601 or epoch).
            before: Only messages recorded then or earlier; a date means its whole day.
            role: Only messages of this role; None: of user and assistant. System prompts and
                tool output are found only when asked for here.
            scope: Only this scope's records of the turn, and its unscoped ones.
            config: The `RunnableConfig` of the turn; its ids decide what is visible.
            min_similarity: Cosine (-1 to 1) below which a message is no answer.

        Returns:
            A `SearchResult` of `MessageHit`.

        Raises:
            ValueError: An argument is unusable; it is named.
            StorageError: The database cannot be read.
        """
        return make_request(
            MESSAGES,
            query,
            limit,
            filters={"session_key": session_key, "role": role},
            bounds={"after": after, "before": before},
            visibility=Turn.from_config(config).sees(scope),
            min_similarity=min_similarity,
        )

    asearch_memories = runs_search_async(search_memories)
    asearch_conversations = runs_search_async(search_conversations)

    def get(self, id: str) -> Memory | Message | None:
        """Return the record with this id, or None where there is none or it is deleted."""
        return cast("Memory | Message | None", self._store.get(id))

    def update_memory(self, id: str, **changes: Unpack[MemoryChanges]) -> Memory:
        """Change fields of a memory; a changed content is indexed and embedded anew.

        Args:
            id: Which memory.
            **changes: New values by field name.

        Raises:
            ValueError: There is no live memory with this id, a field is unknown or its value
                unusable; it is named.
        """
        updated: Memory | None = self._store.update(MEMORIES, id, changes)
        if updated is None:
            msg = f"id: there is no memory {id!r}"
            raise ValueError(msg)
        self._vectors.level(MEMORIES, [id])
        return updated

    def delete(self, ids: str | Iterable[str]) -> int:
        """Take records out of every search at once; `restore` brings them back.

        Returns:
            How many were deleted; ids that are unknown or deleted already do not count.
        """
        return self._edit(self._store.delete, ids)

    def restore(self, ids: str | Iterable[str]) -> int:
        """Bring deleted records back. Returns how many."""
        return self._edit(self._store.restore, ids)

    def purge(self, ids: str | Iterable[str]) -> int:
        """Remove records from disk for good, deleted before or not. Returns how many."""
        return self._edit(self._store.purge, ids)

    def sync(self, progress: Progress | None = None) -> WriteReport:
        """Bring the vector index level with the database.

        Args:
            progress: Called with the number of records done and of those that remain.
        """
        done = self._vectors.sync(progress)
        return WriteReport(
            indexed=done.written, pending=self._vectors.pending(), problem=done.problem
        )

    def status(self) -> MemoryStatus:
        """Count what there is, and tell what is degraded."""
        embedder = self._vectors.embedder
        problems = (self._keywords.problem, self._vectors.problem, self._vectors.backlog())
        return MemoryStatus(
            location=self._database.location,
            memories=self._store.count(MEMORIES, LIVE),
            messages=self._store.count(MESSAGES, LIVE),
            pending=self._vectors.pending(),
            strategy=self._pipeline.strategy,
            embedding=embedder.name if embedder else None,
            keyword_index=self._keywords.kind,
            problems=[problem for problem in problems if problem],
        )

    def close(self) -> None:
        """Release the database, the workers and Chroma. Closing twice is fine."""
        self._pipeline.close()
        self._vectors.close()
        self._database.close()

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

    aadd_memory = in_thread(add_memory)
    aadd_memories = in_thread(add_memories)
    aadd_messages = in_thread(add_messages)
    aget = in_thread(get)
    aupdate_memory = in_thread(update_memory)
    adelete = in_thread(delete)
    arestore = in_thread(restore)
    apurge = in_thread(purge)
    async_sync = in_thread(sync)
    astatus = in_thread(status)
    aclose = in_thread(close)

    def _report(self, kind: RecordKind, saved: Saved, skipped: int = 0) -> WriteReport:
        done = self._vectors.level(kind, saved.changed)
        return WriteReport(
            saved=len(saved.changed),
            duplicates=saved.duplicates,
            indexed=done.written,
            pending=self._vectors.pending(),
            skipped=skipped,
            problem=done.problem,
            conflicts=saved.conflicts,
            records=saved.records,
        )

    def _edit(self, change: Callable[[list[str]], Changed], ids: str | Iterable[str]) -> int:
        changed = change([ids] if isinstance(ids, str) else list(ids))
        for kind in KINDS:
            self._vectors.level(kind, changed[kind.name])
        return sum(map(len, changed.values()))
