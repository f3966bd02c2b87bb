"""The peers that benchmarks compare with, built from the same records and the same vectors.

Each peer is what a LangChain user would otherwise reach for, with its own defaults: a vector store
alone, the ensemble of BM25 and that vector store, and LangGraph's store. None of them embeds
anything: the vectors are given, so that a comparison is one of search and not of models.
"""

import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import chromadb
import numpy as np
from langchain_chroma import Chroma
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_core.embeddings import Embeddings
from langgraph.store.memory import InMemoryStore

ID_KEY, USER_KEY = "id", "user"
NAMESPACE = ("bench",)

Vector: TypeAlias = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Item:
    """A record to search: without a vector, only keywords find it."""

    id: str
    text: str
    vector: Vector | None
    user: str | None = None
    """Whose it is, where searches are to be restricted to users."""


class Peer(Protocol):
    """A searchable index of items."""

    name: str
    slow: bool
    """Whether a few questions have to do, where there are many items."""

    def search(
        self, query: str, query_vector: Vector, k: int, user: str | None = None
    ) -> list[str]:
        """Return the ids of the `k` best items, of one user if given, best first."""

    def close(self) -> None:
        """Free what the peer holds."""


class PrecomputedEmbeddings(Embeddings):
    """Embeddings that look up what was computed before, by text.

    Equal texts share a vector. A query's vector is kept apart from the items', so that a query
    that repeats an item's text does no harm.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        """Take over the vectors of the items."""
        self._documents = {
            item.text: [float(x) for x in item.vector] for item in items if item.vector is not None
        }
        self._queries: dict[str, list[float]] = {}

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return len(next(iter(self._documents.values())))

    def expect(self, query: str, vector: Vector) -> None:
        """Set the vector that `embed_query` will return for this query."""
        self._queries[query] = [float(x) for x in vector]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Look up the vectors of items' texts."""
        return [self._documents[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Look up the vector of an expected query."""
        return self._queries[text]


class ChromaPeer:
    """langchain-chroma's vector store: cosine distance, on disk, with a `filter` on the user."""

    name = "langchain-chroma"
    slow = False

    def __init__(self, items: Sequence[Item]) -> None:
        """Index the items that have a vector."""
        self._folder = tempfile.TemporaryDirectory(prefix="agentmem-bench-chroma-")
        client = chromadb.PersistentClient(self._folder.name)
        self.embeddings = PrecomputedEmbeddings(items)
        self.store = Chroma(
            client=client,
            collection_name=f"bench-{uuid.uuid4()}",
            collection_configuration={"hnsw": {"space": "cosine"}},
            embedding_function=self.embeddings,
        )
        with_vector = [item for item in items if item.vector is not None]
        for batch in _batches(with_vector, client.get_max_batch_size()):
            self.store.add_texts(
                [item.text for item in batch],
                metadatas=[_metadata(item) for item in batch],
                ids=[item.id for item in batch],
            )

    def search(
        self, query: str, query_vector: Vector, k: int, user: str | None = None
    ) -> list[str]:
        """Return the ids of the `k` nearest items."""
        self.embeddings.expect(query, query_vector)
        wanted = None if user is None else {USER_KEY: user}
        found = self.store.similarity_search(query, k=k, filter=wanted)
        return [str(document.metadata[ID_KEY]) for document in found]

    def close(self) -> None:
        """Delete the collection and its folder."""
        self.store.delete_collection()
        self._folder.cleanup()


class EnsemblePeer:
    """LangChain's EnsembleRetriever over BM25 (its default preprocessing) and Chroma, half each.

    It searches the collection of the Chroma peer, and closes with it. BM25 knows no filter.
    """

    name = "EnsembleRetriever"
    slow = True

    def __init__(self, items: Sequence[Item], chroma: ChromaPeer) -> None:
        """Index the items for BM25, beside a Chroma peer that holds the same items."""
        self._chroma = chroma
        self._bm25 = BM25Retriever.from_texts(
            [item.text for item in items],
            metadatas=[_metadata(item) for item in items],
        )
        self._ensembles: dict[tuple[int, str | None], EnsembleRetriever] = {}

    def search(
        self, query: str, query_vector: Vector, k: int, user: str | None = None
    ) -> list[str]:
        """Return the ids of the `k` best of both retrievers' first `k`."""
        self._chroma.embeddings.expect(query, query_vector)
        found = self._ensemble(k, user).invoke(query)
        return [str(document.metadata[ID_KEY]) for document in found][:k]

    def close(self) -> None:
        """Do nothing: the collection is the Chroma peer's."""

    def _ensemble(self, k: int, user: str | None) -> EnsembleRetriever:
        """The ensemble for this `k` and user, which the retrievers take at construction."""
        if (k, user) not in self._ensembles:
            options: dict[str, Any] = {"k": k}
            if user is not None:
                options["filter"] = {USER_KEY: user}
            self._ensembles[k, user] = EnsembleRetriever(
                retrievers=[
                    self._bm25.model_copy(update={"k": k}),
                    self._chroma.store.as_retriever(search_kwargs=options),
                ],
                weights=[0.5, 0.5],
                id_key=ID_KEY,
            )
        return self._ensembles[k, user]


class InMemoryStorePeer:
    """LangGraph's InMemoryStore with an embedding index; users are namespaces."""

    name = "InMemoryStore"
    slow = True

    def __init__(self, items: Sequence[Item]) -> None:
        """Put each item; one without a vector is stored and not indexed."""
        self._embeddings = PrecomputedEmbeddings(items)
        self._store = InMemoryStore(
            index={
                "dims": self._embeddings.dimensions,
                "embed": self._embeddings,
                "fields": ["text"],
            }
        )
        # One by one: a batch in which a text repeats is refused by langgraph-checkpoint 4.3.
        for item in items:
            self._store.put(
                _namespace(item.user),
                item.id,
                {"text": item.text},
                index=None if item.vector is not None else False,
            )

    def search(
        self, query: str, query_vector: Vector, k: int, user: str | None = None
    ) -> list[str]:
        """Return the keys of the `k` nearest items."""
        self._embeddings.expect(query, query_vector)
        return [found.key for found in self._store.search(_namespace(user), query=query, limit=k)]

    def close(self) -> None:
        """Do nothing: the store is garbage when it is let go."""


def build_peers(items: Sequence[Item]) -> list[Peer]:
    """Build every peer from the same items.

    Args:
        items: The records, with distinct ids; at least one has a vector, and equal texts have
            equal vectors.

    Returns:
        The peers, to be closed together.

    Raises:
        ValueError: If no item has a vector.
    """
    if all(item.vector is None for item in items):
        msg = "The peers search vectors: give `items` at least one with a vector."
        raise ValueError(msg)
    chroma = ChromaPeer(items)
    return [chroma, EnsemblePeer(items, chroma), InMemoryStorePeer(items)]


def _metadata(item: Item) -> dict[str, str]:
    owner = {} if item.user is None else {USER_KEY: item.user}
    return {ID_KEY: item.id, **owner}


def _namespace(user: str | None) -> tuple[str, ...]:
    return NAMESPACE if user is None else (*NAMESPACE, user)


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
