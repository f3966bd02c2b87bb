"""The peers of the latency benchmark, which can restrict a search to one user, each in its way."""

import tempfile
import uuid
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import chromadb
import numpy as np
from langchain_chroma import Chroma
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langgraph.store.memory import InMemoryStore
from other_peers import close_mem0, open_mem0
from peers import Item, PrecomputedEmbeddings, Vector

_ID = "id"
_USER = "user"


class FilterablePeer(Protocol):
    """A searchable index of items that belong to users."""

    name: str
    slow: bool
    """Whether a few questions have to do."""

    def search(self, query: str, query_vector: Vector, k: int, user: str | None) -> list[str]:
        """Return the ids of the `k` best items, of one user if given, best first."""

    def close(self) -> None:
        """Free what the peer holds."""


class FilterableChroma:
    """langchain-chroma on disk, with a `filter` on the user."""

    name = "langchain-chroma"
    slow = False

    def __init__(self, ids: Sequence[str], items: Sequence[Item], users: Sequence[str]) -> None:
        """Index the items."""
        self._folder = tempfile.TemporaryDirectory(prefix="agentmem-bench-chroma-")
        client = chromadb.PersistentClient(self._folder.name)
        self.embeddings = PrecomputedEmbeddings(items)
        self.store = Chroma(
            client=client,
            collection_name=f"bench-{uuid.uuid4()}",
            collection_configuration={"hnsw": {"space": "cosine"}},
            embedding_function=self.embeddings,
        )
        size = client.get_max_batch_size()
        for start in range(0, len(items), size):
            batch = slice(start, start + size)
            self.store.add_texts(
                [item.text for item in items[batch]],
                metadatas=[
                    {_ID: id_, _USER: user}
                    for id_, user in zip(ids[batch], users[batch], strict=True)
                ],
                ids=list(ids[batch]),
            )

    def search(self, query: str, query_vector: Vector, k: int, user: str | None) -> list[str]:
        """Return the ids of the `k` nearest items."""
        self.embeddings.expect(query, query_vector)
        wanted = None if user is None else {_USER: user}
        found = self.store.similarity_search(query, k=k, filter=wanted)
        return [str(each.metadata[_ID]) for each in found]

    def close(self) -> None:
        """Delete the collection."""
        self.store.delete_collection()


class FilterableEnsemble:
    """EnsembleRetriever over BM25 and the Chroma peer; BM25 knows no filter."""

    name = "EnsembleRetriever"
    slow = True

    def __init__(
        self, items: Sequence[Item], users: Sequence[str], chroma: FilterableChroma
    ) -> None:
        """Index the items for BM25."""
        self._chroma = chroma
        self._bm25 = BM25Retriever.from_texts(
            [item.text for item in items],
            metadatas=[
                {_ID: item.id, _USER: user} for item, user in zip(items, users, strict=True)
            ],
        )

    def search(self, query: str, query_vector: Vector, k: int, user: str | None) -> list[str]:
        """Return the ids of the `k` best of both."""
        self._chroma.embeddings.expect(query, query_vector)
        options = {"k": k} if user is None else {"k": k, "filter": {_USER: user}}
        ensemble = EnsembleRetriever(
            retrievers=[
                self._bm25.model_copy(update={"k": k}),
                self._chroma.store.as_retriever(search_kwargs=options),
            ],
            weights=[0.5, 0.5],
            id_key=_ID,
        )
        return [str(each.metadata[_ID]) for each in ensemble.invoke(query)][:k]

    def close(self) -> None:
        """Do nothing: the collection is the Chroma peer's."""


class FilterableStore:
    """LangGraph's InMemoryStore; users are namespaces."""

    name = "InMemoryStore"
    slow = True

    def __init__(self, items: Sequence[Item], users: Sequence[str]) -> None:
        """Put the items one by one."""
        self._embeddings = PrecomputedEmbeddings(items)
        self._store = InMemoryStore(
            index={
                "dims": self._embeddings.dimensions,
                "embed": self._embeddings,
                "fields": ["text"],
            }
        )
        for item, user in zip(items, users, strict=True):
            self._store.put(("bench", user), item.id, {"text": item.text})

    def search(self, query: str, query_vector: Vector, k: int, user: str | None) -> list[str]:
        """Return the keys of the `k` nearest items."""
        self._embeddings.expect(query, query_vector)
        namespace = ("bench",) if user is None else ("bench", user)
        return [found.key for found in self._store.search(namespace, query=query, limit=k)]

    def close(self) -> None:
        """Do nothing: the store is garbage when it is let go."""


class FilterableMem0:
    """mem0 with `infer=False`, whose users are its own; an unfiltered search it does not know."""

    name = "mem0"
    slow = True

    def __init__(self, items: Sequence[Item], users: Sequence[str]) -> None:
        """Add the items one by one."""
        self._folder = tempfile.TemporaryDirectory(prefix="agentmem-bench-mem0-")
        self._embeddings = PrecomputedEmbeddings(items)
        self._memory = open_mem0(Path(self._folder.name), self._embeddings)
        for item, user in zip(items, users, strict=True):
            if item.vector is not None:
                self._embeddings.expect(item.text, item.vector)
            self._memory.add(
                [{"role": "user", "content": item.text}],
                user_id=user,
                agent_id="bench",
                metadata={"record_id": item.id},
                infer=False,
            )

    def search(self, query: str, query_vector: Vector, k: int, user: str | None) -> list[str]:
        """Return the ids of the `k` best items."""
        self._embeddings.expect(query, query_vector)
        wanted = {"agent_id": "bench"} if user is None else {"user_id": user}
        found = self._memory.search(query, filters=wanted, top_k=k)
        return [str(each["metadata"]["record_id"]) for each in found["results"]]

    def close(self) -> None:
        """Close the store and delete its folder."""
        close_mem0(self._memory)
        self._folder.cleanup()


def build_filterable(
    ids: Sequence[str],
    texts: Sequence[str],
    vectors: np.ndarray,
    users: Sequence[str],
    *,
    with_mem0: bool,
) -> Iterator[FilterablePeer]:
    """Build the peers, each when it is asked for; Chroma stays for the ensemble."""
    items = [Item(*each) for each in zip(ids, texts, vectors, strict=True)]
    chroma = FilterableChroma(ids, items, users)
    shared = _NotClosed(chroma)
    yield shared
    yield FilterableEnsemble(items, users, chroma)
    chroma.close()
    yield FilterableStore(items, users)
    if with_mem0 and find_spec("mem0"):
        yield FilterableMem0(items, users)


class _NotClosed:
    """A peer that another one searches still."""

    def __init__(self, peer: FilterablePeer) -> None:
        self._peer = peer
        self.name, self.slow = peer.name, peer.slow

    def search(self, query: str, query_vector: Vector, k: int, user: str | None) -> list[str]:
        """Ask the peer."""
        return self._peer.search(query, query_vector, k, user)

    def close(self) -> None:
        """Leave it open."""
