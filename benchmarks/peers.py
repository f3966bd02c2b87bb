"""The peers that benchmarks compare with, built from the same records and the same vectors.

Each peer is what a LangChain user would otherwise reach for, with its own defaults: a vector store
alone, the ensemble of BM25 and that vector store, and LangGraph's store. None of them embeds
anything: the vectors are given, so that a comparison is one of search and not of models.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import chromadb
import numpy as np
from langchain_chroma import Chroma
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_core.embeddings import Embeddings
from langgraph.store.memory import InMemoryStore

ID_KEY = "id"
NAMESPACE = ("bench",)

Vector: TypeAlias = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Item:
    """A record to search: without a vector, only keywords find it."""

    id: str
    text: str
    vector: Vector | None


class Peer(Protocol):
    """A searchable index of items."""

    name: str

    def search(self, query: str, query_vector: Vector, k: int) -> list[str]:
        """Return the ids of the `k` best items, best first."""

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
    """langchain-chroma's vector store: cosine distance, in memory."""

    name = "Chroma"

    def __init__(self, items: Sequence[Item]) -> None:
        """Index the items that have a vector."""
        client = chromadb.EphemeralClient()
        self.embeddings = PrecomputedEmbeddings(items)
        self.store = Chroma(
            client=client,
            collection_name=f"bench-{uuid.uuid4()}",  # all ephemeral clients share one database
            collection_configuration={"hnsw": {"space": "cosine"}},
            embedding_function=self.embeddings,
        )
        with_vector = [item for item in items if item.vector is not None]
        for batch in _batches(with_vector, client.get_max_batch_size()):
            self.store.add_texts(
                [item.text for item in batch],
                metadatas=[{ID_KEY: item.id} for item in batch],
                ids=[item.id for item in batch],
            )

    def search(self, query: str, query_vector: Vector, k: int) -> list[str]:
        """Return the ids of the `k` nearest items."""
        self.embeddings.expect(query, query_vector)
        return [doc.metadata[ID_KEY] for doc in self.store.similarity_search(query, k=k)]

    def close(self) -> None:
        """Delete the collection."""
        self.store.delete_collection()


class EnsemblePeer:
    """LangChain's EnsembleRetriever over BM25 (its default preprocessing) and Chroma, half each.

    It searches the collection of the Chroma peer, and closes with it.
    """

    name = "EnsembleRetriever"

    def __init__(self, items: Sequence[Item], chroma: ChromaPeer) -> None:
        """Index the items for BM25, beside a Chroma peer that holds the same items."""
        self._chroma = chroma
        self._bm25 = BM25Retriever.from_texts(
            [item.text for item in items],
            metadatas=[{ID_KEY: item.id} for item in items],
        )
        self._ensembles: dict[int, EnsembleRetriever] = {}

    def search(self, query: str, query_vector: Vector, k: int) -> list[str]:
        """Return the ids of the `k` best of both retrievers' first `k`."""
        self._chroma.embeddings.expect(query, query_vector)
        return [doc.metadata[ID_KEY] for doc in self._ensemble(k).invoke(query)][:k]

    def close(self) -> None:
        """Do nothing: the collection is the Chroma peer's."""

    def _ensemble(self, k: int) -> EnsembleRetriever:
        """The ensemble for this `k`, which both retrievers take at construction."""
        if k not in self._ensembles:
            self._ensembles[k] = EnsembleRetriever(
                retrievers=[
                    self._bm25.model_copy(update={"k": k}),
                    self._chroma.store.as_retriever(search_kwargs={"k": k}),
                ],
                weights=[0.5, 0.5],
                id_key=ID_KEY,
            )
        return self._ensembles[k]


class InMemoryStorePeer:
    """LangGraph's InMemoryStore with an embedding index."""

    name = "InMemoryStore"

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
                NAMESPACE,
                item.id,
                {"text": item.text},
                index=None if item.vector is not None else False,
            )

    def search(self, query: str, query_vector: Vector, k: int) -> list[str]:
        """Return the keys of the `k` nearest items."""
        self._embeddings.expect(query, query_vector)
        return [found.key for found in self._store.search(NAMESPACE, query=query, limit=k)]

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


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
