"""`AgentMemory`: the front door. It wires the parts together and holds no logic of theirs."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, Unpack, cast

from langchain_agentmem.arguments import ids_argument, text_argument
from langchain_agentmem.capture import as_memories, as_messages
from langchain_agentmem.embeddings.provider import EmbeddingChoice, embedding_of_store
from langchain_agentmem.errors import StorageError
from langchain_agentmem.records import Memory, MemoryChanges, Message
from langchain_agentmem.results import WriteReport
from langchain_agentmem.scopes import Config
from langchain_agentmem.search.pipeline import SearchPipeline
from langchain_agentmem.searching import Searching
from langchain_agentmem.storage.chroma_source import ChromaSource
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.doctor import Doctor
from langchain_agentmem.storage.folder import FILE_NAME, private_folder
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import KINDS, MEMORIES, MESSAGES, RecordKind
from langchain_agentmem.storage.record_store import Changed, RecordStore
from langchain_agentmem.storage.saving import Saved
from langchain_agentmem.storage.vector_indexer import Progress
from langchain_agentmem.storage.vector_queue import VectorQueue
from langchain_agentmem.storage.vectors import VectorHalf
from langchain_agentmem.transfer import Into, Transfer
from langchain_agentmem.twins import in_thread
from langchain_agentmem.upkeep import Upkeep

SEARCH_TIMEOUT_SECONDS = 5.0


class AgentMemory(Searching, Transfer, Upkeep):
    """What an agent remembers: memories and messages, searched by meaning and by words.

    Make one with `open` or `in_memory`. One object serves any number of threads and tasks. Every
    method that does I/O has an async twin with the prefix `a` (that of `sync` is `async_sync`).
    """

    def __init__(
        self,
        database: Database,
        *,
        embedding: EmbeddingChoice = None,
        chroma: ChromaSource,
        timeout: float = SEARCH_TIMEOUT_SECONDS,
        require_scope: bool = False,
    ) -> None:
        """Wire the parts together. Users call `open` or `in_memory`.

        Args:
            database: The open database.
            embedding: See `open`.
            chroma: Where the vectors are; opened only if there is an embedding.
            timeout: See `open`.
            require_scope: See `open`.

        Raises:
            TypeError: `embedding` is of no usable type.
            ValueError: An argument is unusable; it is named.
            StorageError: The database cannot be used.
        """
        self._require_scope = require_scope
        self._database = database
        with ExitStack() as undo:  # what cannot be opened whole leaves nothing open
            undo.callback(database.close)
            self._keywords = KeywordIndex(database)
            queue = VectorQueue(database)
            self._store = RecordStore(database, self._keywords, queue)
            if database.read_only is None:
                self._store.file_strays()
            self._vectors = VectorHalf(
                database,
                self._store,
                queue,
                embedding=embedding,
                chroma=chroma,
            )
            undo.callback(self._vectors.close)
            self._doctor = Doctor(database, self._keywords, queue, self._vectors)
            self._pipeline = SearchPipeline(
                self._store, self._keywords, self._vectors, timeout=timeout
            )
            undo.pop_all()

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        embedding: EmbeddingChoice = None,
        chroma_client: Any = None,
        timeout: float = SEARCH_TIMEOUT_SECONDS,
        require_scope: bool = False,
    ) -> Self:
        """Open the memory in a folder, made if missing.

        Args:
            folder: Holds the database and, unless `chroma_client` is given, the vectors.
            embedding: A LangChain `Embeddings` object, `EmbeddingSettings`, a provider's name
                (`openai_compatible`, `local`, `chroma`, `none`), or None for the environment's
                settings. What is missing turns embedding off and is named in every answer.
            chroma_client: A Chroma client of your own, such as a `chromadb.HttpClient`.
            timeout: Seconds that each half of a search may take; the other answers alone then.
            require_scope: Let a turn without any id see nothing, where it would see everything.

        Raises:
            StorageError: The folder or the database in it cannot be used.
            TypeError: `embedding` or `chroma_client` is of no usable type.
            ValueError: An argument is unusable; it is named.
        """
        path = private_folder(folder)
        chroma = (
            ChromaSource.embedded(path)
            if chroma_client is None
            else ChromaSource.given(chroma_client, path)
        )
        return cls(
            Database(path / FILE_NAME),
            embedding=embedding,
            chroma=chroma,
            timeout=timeout,
            require_scope=require_scope,
        )

    @classmethod
    def in_memory(
        cls,
        *,
        embedding: EmbeddingChoice = None,
        timeout: float = SEARCH_TIMEOUT_SECONDS,
        require_scope: bool = False,
    ) -> Self:
        """Open a memory that keeps nothing on disk. See `open`."""
        return cls(
            Database(None),
            embedding=embedding,
            chroma=ChromaSource.in_memory(),
            timeout=timeout,
            require_scope=require_scope,
        )

    @classmethod
    def from_chroma(
        cls,
        collection: Any,
        folder: str | Path = "agent-memory",
        *,
        embedding: EmbeddingChoice = None,
        into: Into = "memories",
        copy_vectors: bool = True,
        config: Config | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Self:
        """Open the memory in a folder and take a Chroma collection's documents in.

        What was left out is logged as a warning; `import_chroma` on an open memory reports it.

        Args:
            collection: See `import_chroma`.
            folder: See `open`.
            embedding: The embedding that made the collection's vectors. None: that of a
                `langchain_chroma.Chroma` store itself, or the one that the environment names;
                where there is neither, documents are found by keyword alone.
            into: See `import_chroma`.
            copy_vectors: See `import_chroma`.
            config: See `import_chroma`.
            progress: See `import_chroma`.
            **options: Further arguments of `open`.

        Raises:
            TypeError: See `open` and `import_chroma`.
            ValueError: See `open` and `import_chroma`.
            AgentMemoryError: See `open` and `import_chroma`.
        """
        memory = cls.open(folder, embedding=embedding_of_store(embedding, collection), **options)
        try:
            report = memory.import_chroma(
                collection,
                into=into,
                copy_vectors=copy_vectors,
                config=config,
                progress=progress,
            )
        except BaseException:
            memory.close()
            raise
        report.log_problems()
        return memory

    def add_memory(
        self,
        content: str,
        *,
        type: str | None = None,
        priority: int | None = None,
        scene_name: str | None = None,
        tags: Iterable[str] | None = None,
        config: Config | None = None,
        **fields: Any,
    ) -> Memory:
        """Save one memory and return it as it is stored.

        A text that its owner has saved before is not saved again: the memory that is there comes
        back.

        Args:
            content: What is to be remembered.
            type: Free text; usual are persona, episodic (unless given), instruction.
            priority: 0 to 100, 50 unless given; below zero: a global instruction.
            scene_name: Where it belongs, such as a project or a place.
            tags: Words to find it by.
            config: The `RunnableConfig` of the turn whose memory it is.
            **fields: Further fields of `Memory`.

        Raises:
            ValueError: A field is unusable, or an id in `config`; it is named.
            ScopeError: (a `ValueError`) The turn may save nothing.
            StorageError: The database cannot be written. Nothing was saved.
        """
        named = {"type": type, "priority": priority, "scene_name": scene_name, "tags": tags}
        # What is not given is not set: saving anew under an id leaves it as it was.
        given = {name: value for name, value in named.items() if value is not None}
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
            TypeError: They are no list, or something else than a `Memory` is among them.
            ValueError: A memory names a scope that the turn has no id for, or an id in `config` is
                unusable.
            ScopeError: (a `ValueError`) The turn may save nothing.
            StorageError: The database cannot be written. Nothing was saved.
        """
        filed = as_memories(memories, self._writes_as(config))
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
            TypeError: The messages are no list, or `session_key` is no text.
            ValueError: A message is unusable, and its position is named; or an id in `config`.
            ScopeError: (a `ValueError`) The turn may save nothing.
            StorageError: The database cannot be written. Nothing was saved.
        """
        filed, skipped = as_messages(session_key, messages, self._writes_as(config))
        saved = self._store.save(MESSAGES, filed, replace=replace)
        return self._report(MESSAGES, saved, skipped)

    def get(self, id: str, *, config: Config | None = None) -> Memory | Message | None:
        """Return the record with this id, or None where there is none or it is deleted.

        Args:
            id: Which record.
            config: The `RunnableConfig` of a turn: only what it can see is returned.

        Raises:
            TypeError: `id` is no text.
            ValueError: An id in `config` is unusable.
            StorageError: The database cannot be read.
        """
        return cast(
            "Memory | Message | None",
            self._store.get(text_argument("id", id), self._may_touch(config)),
        )

    def update_memory(
        self, id: str, *, config: Config | None = None, **changes: Unpack[MemoryChanges]
    ) -> Memory:
        """Change fields of a memory; a changed content is indexed and embedded anew.

        Args:
            id: Which memory.
            config: The `RunnableConfig` of a turn: only what it can see is changed.
            **changes: New values by field name.

        Raises:
            TypeError: `id` is no text.
            ValueError: There is no live memory with this id, a field is unknown or its value
                unusable; it is named.
            ScopeError: (a `ValueError`) The turn may change nothing.
            StorageError: The database cannot be written. Nothing was changed.
        """
        updated: Memory | None = self._store.update(
            MEMORIES, text_argument("id", id), changes, self._must_touch(config)
        )
        if updated is None:
            msg = f"id: there is no memory {id!r}"
            raise ValueError(msg)
        self._vectors.level(MEMORIES, [updated.id])
        return updated

    def merge_memories(
        self, ids: Iterable[str], content: str | None = None, *, config: Config | None = None
    ) -> Memory:
        """Make one memory of several that say the same.

        The first survives, with the tags of all and the greatest strength; the others are
        deleted, and can be restored.

        Args:
            ids: At least two live memories of one owner.
            content: The survivor's new text; None: it keeps its own.
            config: The `RunnableConfig` of a turn: only what it can see is merged.

        Raises:
            TypeError: `ids` are no ids.
            ValueError: The memories cannot be merged; nothing was changed.
            ScopeError: (a `ValueError`) The turn may change nothing.
            StorageError: The database cannot be written. Nothing was changed.
        """
        survivor, changed = self._store.merge(ids_argument(ids), content, self._must_touch(config))
        self._level(changed)
        return survivor

    def delete(self, ids: str | Iterable[str], *, config: Config | None = None) -> int:
        """Take records out of every search at once; `restore` brings them back.

        Args:
            ids: Which records, of either kind.
            config: The `RunnableConfig` of a turn: only what it can see is deleted.

        Returns:
            How many were deleted; ids that are unknown or deleted already do not count.

        Raises:
            TypeError: `ids` are no ids.
            ValueError: An id in `config` is unusable.
            ScopeError: (a `ValueError`) The turn may change nothing.
            StorageError: The database cannot be written. Nothing was changed.
        """
        return self._level(self._store.delete(ids_argument(ids), self._must_touch(config)))

    def restore(self, ids: str | Iterable[str], *, config: Config | None = None) -> int:
        """Bring deleted records back. Returns how many. Arguments and errors as in `delete`."""
        return self._level(self._store.restore(ids_argument(ids), self._must_touch(config)))

    def purge(self, ids: str | Iterable[str], *, config: Config | None = None) -> int:
        """Remove records from disk for good, deleted before or not. Returns how many.

        Arguments and errors as in `delete`.
        """
        return self._level(self._store.purge(ids_argument(ids), self._must_touch(config)))

    aadd_memory = in_thread(add_memory)
    aadd_memories = in_thread(add_memories)
    aadd_messages = in_thread(add_messages)
    aget = in_thread(get)
    aupdate_memory = in_thread(update_memory)
    adelete = in_thread(delete)
    arestore = in_thread(restore)
    apurge = in_thread(purge)
    amerge_memories = in_thread(merge_memories)

    def _report(self, kind: RecordKind, saved: Saved, skipped: int = 0) -> WriteReport:
        done = self._vectors.level(kind, saved.changed)
        problem = done.problem
        try:
            pending = self._vectors.pending()
        except StorageError as error:  # the records are saved, whatever fails by now
            pending, problem = len(set(saved.changed)) - done.written, problem or str(error)
        return WriteReport(
            saved=len(set(saved.changed)),
            duplicates=saved.duplicates,
            indexed=done.written,
            pending=max(0, pending),
            skipped=skipped,
            problem=problem,
            conflicts=saved.conflicts,
            records=saved.records,
        )

    def _level(self, changed: Changed) -> int:
        """Bring the vectors of changed records level; returns how many records there are."""
        for kind in KINDS:
            self._vectors.level(kind, changed[kind.name])
        return sum(map(len, changed.values()))
