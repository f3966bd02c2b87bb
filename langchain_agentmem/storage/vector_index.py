"""The vector index: one Chroma collection per record kind and embedding model.

Collections have cosine space and no embedding function: vectors come ready made. They hold ids
and vectors, no texts; they are derived from the database and can be rebuilt from it.
"""

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.errors import VectorIndexError, describe, panics_raised
from langchain_agentmem.storage.kinds import RecordKind

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

P = ParamSpec("P")
T = TypeVar("T")

# Below Chroma's own limits: 5,461 records a batch, 32,766 SQL variables a call.
_MAX_IDS_PER_GET = 5000
_PROBE_SIZE = 256
_DELETED_MEANWHILE = "Error finding id"
"""What a query of Chroma's says when a vector went after it was found and before it was read."""
_table_lock = Lock()  # Chroma's table of open systems is not guarded
_used_by: int | None = None
"""The process that used Chroma first: this one, or one that it was forked from."""


def was_used_before_fork() -> bool:
    """Whether a forked child asks whose parent had Chroma open.

    Chroma's threads are the parent's, and opening it anew or writing hangs for lack of them.
    """
    return _used_by is not None and _used_by != os.getpid()


def _broken(panic: BaseException) -> VectorIndexError:
    return VectorIndexError(describe(panic))


@panics_raised(_broken)
def embedded_client(folder: Path) -> "ClientAPI":
    """Open Chroma in a folder of this process's own.

    Raises:
        Exception: Whatever Chroma raises when the folder cannot be used.
    """
    import chromadb
    from chromadb.config import Settings

    # One path, one system: Chroma shares what is open in this process by the path's text.
    path = str(folder.resolve())
    folder.mkdir(mode=0o700, exist_ok=True)
    with _using():
        try:
            return chromadb.PersistentClient(path, settings=Settings(anonymized_telemetry=False))
        except BaseException:
            # Chroma keeps a system that failed to start, and would hand it out ever after.
            from chromadb.api.shared_system_client import SharedSystemClient as shared  # noqa: N813

            if path not in shared._identifier_to_refcount:  # noqa: SLF001
                shared._identifier_to_system.pop(path, None)  # noqa: SLF001
            raise


@contextmanager
def _using() -> Iterator[None]:
    global _used_by  # noqa: PLW0603
    with _table_lock:
        _used_by = _used_by or os.getpid()
        yield


def keep_private(folder: Path) -> None:
    """Take from other users whatever Chroma made in its folder under the process's umask."""
    for parent, _, files in os.walk(folder):
        for path, mode in [(parent, 0o700), *((os.path.join(parent, f), 0o600) for f in files)]:  # noqa: PTH118
            with suppress(OSError):  # files come and go
                if os.stat(path).st_mode & 0o077:  # noqa: PTH116  (a tenth of the time of Path)
                    os.chmod(path, mode)  # noqa: PTH101


def in_memory_client() -> "ClientAPI":
    """Open Chroma in memory.

    All such clients of a process share one system, which refuses settings other than those that it
    was made with. So the settings are those of the application's own client, where it has one, or
    else Chroma's, with which an in-memory `langchain_chroma.Chroma` can be made later on.
    """
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient as shared  # noqa: N813

    with _using():
        running = shared._identifier_to_system.get("ephemeral")  # noqa: SLF001
        return chromadb.EphemeralClient(settings=running.settings if running else None)


def check_client(client: Any) -> "ClientAPI":
    """Return `client` if it is a synchronous Chroma client.

    Raises:
        TypeError: It is not; an asynchronous client is named as such.
    """
    method = getattr(client, "get_or_create_collection", None)
    if inspect.iscoroutine(client) or inspect.iscoroutinefunction(method):
        msg = (
            "chroma_client: asynchronous Chroma clients are not supported; give a "
            "chromadb.HttpClient: searches run it off the event loop"
        )
        raise TypeError(msg)
    if not callable(method):
        msg = f"chroma_client: {type(client).__name__} is not a Chroma client"
        raise TypeError(msg)
    return client  # type: ignore[no-any-return]


def abandon_client(client: "ClientAPI", folder: Path) -> None:
    """Close an embedded client whose files are gone, and let none open what it had open."""
    from chromadb.api.shared_system_client import SharedSystemClient as shared  # noqa: N813

    path = str(folder.resolve())
    server = getattr(client, "_server", None)
    with _using():
        system = shared._identifier_to_system.get(path)  # noqa: SLF001
        if system is not None and server in system._instances.values():  # noqa: SLF001
            del shared._identifier_to_system[path]  # noqa: SLF001
    close_client(client)


def close_client(client: "ClientAPI") -> None:
    """Close a client."""
    close = getattr(client, "close", None)  # clients before chromadb 1.4 have none
    if close is not None:
        with _using():
            close()


def _chroma_call(
    method: Callable[Concatenate["VectorIndex", P], T],
) -> Callable[Concatenate["VectorIndex", P], T]:
    """Make it one of the index's calls.

    Collections that somebody else replaced are looked up again, and panics are taken for errors.
    """

    @functools.wraps(method)
    def call(self: "VectorIndex", *args: P.args, **kwargs: P.kwargs) -> T:
        with self._calls, panics_raised(_broken):
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                if type(error).__name__ != "NotFoundError":
                    raise
            self._collections.clear()
            return method(self, *args, **kwargs)

    return call


class VectorIndex:
    """Vectors of both record kinds under one embedding model.

    Args:
        client: A Chroma client; it may be shared with other programs.
        namespace: Tells this memory's collections from others; letters and digits.
        fingerprint: Tells the embedding model from others; letters and digits.
        calls: Entered for each call of Chroma; it can be entered several times at once.
    """

    def __init__(
        self,
        client: "ClientAPI",
        namespace: str,
        fingerprint: str,
        *,
        calls: AbstractContextManager[object] | None = None,
    ) -> None:
        """Use collections named `agentmem-<namespace>-<kind>-<fingerprint>`."""
        self._client = client
        self._calls = calls or nullcontext()
        self._prefix = f"agentmem-{namespace[:16]}-"
        self._fingerprint = fingerprint
        self._collections: dict[str, Collection] = {}
        self._batch = int(client.get_max_batch_size())

    @_chroma_call
    def place(self, kind: RecordKind) -> str:
        """Return what tells a collection from one of the same name elsewhere."""
        return str(self._collection(kind).id)

    @_chroma_call
    def upsert(self, kind: RecordKind, ids: Sequence[str], vectors: Sequence[Vectors]) -> None:
        """Write vectors, (dim,) float32 each, one per id, in place of those that were there."""
        collection = self._collection(kind)
        for start in range(0, len(ids), self._batch):
            stop = start + self._batch
            embeddings: list[Any] = list(vectors[start:stop])
            collection.upsert(ids=list(ids[start:stop]), embeddings=embeddings)

    @_chroma_call
    def delete(self, kind: RecordKind, ids: Sequence[str]) -> None:
        """Remove vectors; unknown ids are passed over."""
        collection = self._collection(kind)
        for start in range(0, len(ids), _MAX_IDS_PER_GET):
            collection.delete(ids=list(ids[start : start + _MAX_IDS_PER_GET]))

    @_chroma_call
    def query(self, kind: RecordKind, vector: Vectors, k: int) -> list[tuple[str, float]]:
        """Return the `k` nearest ids with their cosine similarity (-1 to 1), nearest first."""
        queries: list[Any] = [vector]
        collection = self._collection(kind)
        answer = _asked(
            lambda: collection.query(query_embeddings=queries, n_results=k, include=["distances"])
        )
        distances = answer["distances"] or [[]]
        return [
            (id_, _clamp(1.0 - distance))
            for id_, distance in zip(answer["ids"][0], distances[0], strict=True)
        ]

    @_chroma_call
    def similarities(
        self, kind: RecordKind, vector: Vectors, ids: Sequence[str]
    ) -> dict[str, float]:
        """Return the exact cosine similarity (-1 to 1) of each of the ids that has a vector."""
        stored = self.vectors(kind, ids)
        if not stored:
            return {}
        cosines = np.stack(list(stored.values())) @ unit(vector)
        return dict(zip(stored, map(_clamp, cosines.tolist()), strict=True))

    @_chroma_call
    def vectors(self, kind: RecordKind, ids: Sequence[str]) -> dict[str, Vectors]:
        """Return the vector of each of the ids that has one, (dim,) float32, of length 1."""
        found: dict[str, Vectors] = {}
        for start in range(0, len(ids), _MAX_IDS_PER_GET):
            some = list(ids[start : start + _MAX_IDS_PER_GET])
            stored = self._collection(kind).get(ids=some, include=["embeddings"])
            if not stored["ids"]:
                continue
            matrix = np.asarray(stored["embeddings"], dtype=np.float32)
            found.update(zip(stored["ids"], unit(matrix), strict=True))
        return found

    @_chroma_call
    def count(self, kind: RecordKind) -> int:
        """Count the vectors."""
        return int(self._collection(kind).count())

    @_chroma_call
    def ids(self, kind: RecordKind) -> set[str]:
        """Return the ids of all vectors."""
        collection = self._collection(kind)
        found: set[str] = set()
        for offset in range(0, collection.count(), _MAX_IDS_PER_GET):
            found.update(collection.get(limit=_MAX_IDS_PER_GET, offset=offset, include=[])["ids"])
        return found

    @_chroma_call
    def reachable(self, kind: RecordKind) -> set[str]:
        """Return the ids of the vectors that the nearest-neighbour index finds.

        Chroma may store a vector and never find it. A query restricted to such an id fails, which
        is how they are told apart.
        """
        stored = self.ids(kind)
        if not stored:  # Chroma takes no empty list
            return stored
        collection = self._collection(kind)
        ids = sorted(stored)
        lost: set[str] = set()
        sizes = collection.get(ids=ids[:1], include=["embeddings"])["embeddings"]
        if sizes is None or len(sizes) == 0:
            return stored
        probe: list[Any] = [np.full(len(sizes[0]), 1.0, dtype=np.float32)]
        waiting = [ids[start : start + _PROBE_SIZE] for start in range(0, len(ids), _PROBE_SIZE)]
        while waiting:
            some = waiting.pop()
            try:
                # What comes back may be less: among many equal vectors some are passed over.
                collection.query(query_embeddings=probe, ids=some, n_results=1, include=[])
            except Exception as error:
                # Chroma has one error for all internal faults. Others tell nothing of the vector:
                # a server may have gone away in between.
                if type(error).__name__ != "InternalError":
                    raise
                if len(some) == 1:
                    lost.update(some)
                else:
                    middle = len(some) // 2
                    waiting += [some[:middle], some[middle:]]
        return stored - lost

    @_chroma_call
    def has_other_models(self) -> bool:
        """Tell whether there are collections of other embedding models."""
        return any(not name.endswith(f"-{self._fingerprint}") for name in self._names())

    @_chroma_call
    def drop_other_models(self) -> None:
        """Delete this memory's collections of other embedding models."""
        for name in self._names():
            if not name.endswith(f"-{self._fingerprint}"):
                self._client.delete_collection(name)

    @_chroma_call
    def drop(self) -> None:
        """Delete all of this memory's collections."""
        self._collections.clear()
        for name in self._names():
            self._client.delete_collection(name)

    def abandon(self, folder: Path) -> None:
        """Close an embedded client whose folder was taken away or replaced."""
        self._collections.clear()
        abandon_client(self._client, folder)

    @_chroma_call
    def close(self) -> None:
        """Close the client."""
        self._collections.clear()
        close_client(self._client)

    def _names(self) -> list[str]:
        names = (collection.name for collection in self._client.list_collections())
        return [name for name in names if name.startswith(self._prefix)]

    def _collection(self, kind: RecordKind) -> "Collection":
        collection = self._collections.get(kind.name)
        if collection is None:
            collection = self._client.get_or_create_collection(
                f"{self._prefix}{kind.name}-{self._fingerprint}",
                configuration={"hnsw": {"space": "cosine"}},
                embedding_function=None,
            )
            self._collections[kind.name] = collection
        return collection


def _asked(query: Callable[[], T]) -> T:
    """Query Chroma, and once more where a vector was deleted while it looked."""
    try:
        return query()
    except Exception as error:
        if _DELETED_MEANWHILE not in str(error):
            raise
    return query()


def unit(vectors: Vectors) -> Vectors:
    """Return vectors, (dim,) or (n, dim) float32, at the length of 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    lengths[lengths == 0] = 1.0
    scaled: Vectors = vectors / lengths
    return scaled


def _clamp(similarity: float) -> float:
    return max(-1.0, min(1.0, float(similarity)))
