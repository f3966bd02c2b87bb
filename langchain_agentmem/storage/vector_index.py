"""The vector index: one Chroma collection per record kind and embedding model.

Collections have cosine space and no embedding function: vectors come ready made. They hold ids
and vectors, no texts; they are derived from the database and can be rebuilt from it.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from langchain_agentmem.storage.kinds import RecordKind

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

Vectors = npt.NDArray[np.float32]

# Below Chroma's own limits: 5,461 records a batch, 32,766 SQL variables a call.
_MAX_IDS_PER_GET = 5000
_open_lock = Lock()  # Chroma's table of open systems is not guarded


def embedded_client(folder: Path) -> "ClientAPI":
    """Open Chroma in a folder of this process's own.

    Raises:
        Exception: Whatever Chroma raises when the folder cannot be used.
    """
    import chromadb
    from chromadb.config import Settings

    # One path, one system: Chroma shares what is open in this process by the path's text.
    path = str(folder.resolve())
    with _open_lock:
        return chromadb.PersistentClient(path, settings=Settings(anonymized_telemetry=False))


def in_memory_client() -> "ClientAPI":
    """Open Chroma in memory. All such clients of a process share one system."""
    import chromadb
    from chromadb.config import Settings

    with _open_lock:
        return chromadb.EphemeralClient(settings=Settings(anonymized_telemetry=False))


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


class VectorIndex:
    """Vectors of both record kinds under one embedding model.

    Args:
        client: A Chroma client; it may be shared with other programs.
        namespace: Tells this memory's collections from others; letters and digits.
        fingerprint: Tells the embedding model from others; letters and digits.
    """

    def __init__(self, client: "ClientAPI", namespace: str, fingerprint: str) -> None:
        """Use collections named `agentmem-<namespace>-<kind>-<fingerprint>`."""
        self._client = client
        self._prefix = f"agentmem-{namespace[:16]}-"
        self._fingerprint = fingerprint
        self._collections: dict[str, Collection] = {}
        self._batch = int(client.get_max_batch_size())

    def upsert(self, kind: RecordKind, ids: Sequence[str], vectors: Vectors) -> None:
        """Write vectors, (n, dim) float32, one per id, in place of those that were there."""
        collection = self._collection(kind)
        for start in range(0, len(ids), self._batch):
            stop = start + self._batch
            collection.upsert(ids=list(ids[start:stop]), embeddings=vectors[start:stop])

    def delete(self, kind: RecordKind, ids: Sequence[str]) -> None:
        """Remove vectors; unknown ids are passed over."""
        collection = self._collection(kind)
        for start in range(0, len(ids), _MAX_IDS_PER_GET):
            collection.delete(ids=list(ids[start : start + _MAX_IDS_PER_GET]))

    def query(self, kind: RecordKind, vector: Vectors, k: int) -> list[tuple[str, float]]:
        """Return the `k` nearest ids with their cosine similarity (-1 to 1), nearest first."""
        queries: list[Any] = [vector]
        answer = self._collection(kind).query(
            query_embeddings=queries, n_results=k, include=["distances"]
        )
        distances = answer["distances"] or [[]]
        return [
            (id_, _clamp(1.0 - distance))
            for id_, distance in zip(answer["ids"][0], distances[0], strict=True)
        ]

    def similarities(
        self, kind: RecordKind, vector: Vectors, ids: Sequence[str]
    ) -> dict[str, float]:
        """Return the exact cosine similarity (-1 to 1) of each of the ids that has a vector."""
        found: dict[str, float] = {}
        length = float(np.linalg.norm(vector)) or 1.0
        for start in range(0, len(ids), _MAX_IDS_PER_GET):
            some = list(ids[start : start + _MAX_IDS_PER_GET])
            stored = self._collection(kind).get(ids=some, include=["embeddings"])
            if not stored["ids"]:
                continue
            matrix = np.asarray(stored["embeddings"], dtype=np.float32)
            norms = np.linalg.norm(matrix, axis=1)
            norms[norms == 0] = 1.0
            cosines = (matrix @ vector) / (norms * length)
            found.update(zip(stored["ids"], map(_clamp, cosines.tolist()), strict=True))
        return found

    def count(self, kind: RecordKind) -> int:
        """Count the vectors."""
        return int(self._collection(kind).count())

    def ids(self, kind: RecordKind) -> set[str]:
        """Return the ids of all vectors."""
        collection = self._collection(kind)
        found: set[str] = set()
        for offset in range(0, collection.count(), _MAX_IDS_PER_GET):
            found.update(collection.get(limit=_MAX_IDS_PER_GET, offset=offset, include=[])["ids"])
        return found

    def has_other_models(self) -> bool:
        """Tell whether there are collections of other embedding models."""
        return any(not name.endswith(f"-{self._fingerprint}") for name in self._names())

    def drop_other_models(self) -> None:
        """Delete this memory's collections of other embedding models."""
        for name in self._names():
            if not name.endswith(f"-{self._fingerprint}"):
                self._client.delete_collection(name)

    def drop(self) -> None:
        """Delete all of this memory's collections."""
        self._collections.clear()
        for name in self._names():
            self._client.delete_collection(name)

    def close(self) -> None:
        """Close the client."""
        self._collections.clear()
        close = getattr(self._client, "close", None)  # clients before chromadb 1.4 have none
        if close is not None:
            close()

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


def _clamp(similarity: float) -> float:
    return max(-1.0, min(1.0, float(similarity)))
