"""Peers whose packages are large or bring much with them: measured where they are installed.

Both get the same vectors as all the others, and are asked with their own defaults.
"""

import logging
import os
import tempfile
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from peers import (
    ChromaPeer,
    EnsemblePeer,
    InMemoryStorePeer,
    Item,
    Peer,
    PrecomputedEmbeddings,
    Vector,
)

_AGENT = "bench"
_RECORD_KEY = "record_id"


def open_mem0(folder: Path, embeddings: PrecomputedEmbeddings) -> Any:
    """Open a memory of mem0 in an empty folder, with its vectors in an embedded Qdrant.

    Raises:
        ImportError: mem0 is not installed.
    """
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["MEM0_DIR"] = str(folder)
    logging.getLogger("mem0").setLevel(logging.ERROR)  # it warns at each text of what it lacks
    vectors = {
        "collection_name": f"bench-{uuid.uuid4()}",
        "path": str(folder / "vectors"),
        "embedding_model_dims": embeddings.dimensions,
    }
    return import_module("mem0").Memory.from_config(
        {
            "embedder": {"provider": "langchain", "config": {"model": embeddings}},
            # Never asked: with `infer=False` there is nothing for it to do.
            "llm": {"provider": "openai", "config": {"api_key": "unused"}},
            "vector_store": {"provider": "qdrant", "config": vectors},
            "history_db_path": str(folder / "history.db"),
        }
    )


def close_mem0(memory: Any) -> None:
    """Close a memory of mem0, with the store that it leaves open."""
    memory.vector_store.client.close()
    memory.close()


class Mem0Peer:
    """mem0 with `infer=False`: records are kept as they are, with no language model.

    Users are its own; all records are one agent's, by which an unrestricted search asks.

    Its keyword search needs a file from a model hub and its entities a model of spaCy. Where it
    has them it uses them by itself; else it searches vectors alone.
    """

    name = "mem0"
    slow = True

    def __init__(self, items: Sequence[Item]) -> None:
        """Add the items that have a vector, one by one, to a store in a temporary folder."""
        self._folder = tempfile.TemporaryDirectory(prefix="agentmem-bench-mem0-")
        self._embeddings = PrecomputedEmbeddings(items)
        self._memory = open_mem0(Path(self._folder.name), self._embeddings)
        for item in items:
            if item.vector is not None:
                self._embeddings.expect(item.text, item.vector)  # it embeds texts as queries
                self._memory.add(
                    [{"role": "user", "content": item.text}],
                    user_id=item.user,
                    agent_id=_AGENT,
                    metadata={_RECORD_KEY: item.id},
                    infer=False,
                )

    def search(
        self, query: str, query_vector: Vector, k: int, user: str | None = None
    ) -> list[str]:
        """Return the ids of the `k` best items."""
        self._embeddings.expect(query, query_vector)
        wanted = {"agent_id": _AGENT} if user is None else {"user_id": user}
        found = self._memory.search(query, filters=wanted, top_k=k)
        return [each["metadata"][_RECORD_KEY] for each in found["results"]]

    def close(self) -> None:
        """Close the store and delete its folder."""
        close_mem0(self._memory)
        self._folder.cleanup()


class TxtaiPeer:
    """txtai's hybrid index: BM25 and vectors, half each. Without its database it has no filter."""

    name = "txtai hybrid"
    slow = True

    def __init__(self, items: Sequence[Item]) -> None:
        """Index the items that have a vector."""
        self._vectors = {item.text: item.vector for item in items if item.vector is not None}

        def transform(texts: Sequence[str]) -> np.ndarray:
            return np.array([self._vectors[text] for text in texts], dtype=np.float32)

        self._index = import_module("txtai").Embeddings(
            method="external", transform=transform, hybrid=True
        )
        self._index.index([(item.id, item.text, None) for item in items if item.vector is not None])

    def search(
        self, query: str, query_vector: Vector, k: int, user: str | None = None
    ) -> list[str]:
        """Return the ids of the `k` best items.

        Raises:
            ValueError: A user is given.
        """
        if user is not None:
            msg = f"user: {self.name} cannot restrict a search"
            raise ValueError(msg)
        self._vectors.setdefault(query, query_vector)
        return [id_ for id_, _ in self._index.search(query, k)]

    def close(self) -> None:
        """Free the index."""
        self._index.close()


OTHERS: dict[str, Callable[[Sequence[Item]], Peer]] = {"mem0": Mem0Peer, "txtai": TxtaiPeer}
"""Peers by the package that they need."""


def build_other_peers(items: Sequence[Item]) -> list[Peer]:
    """Build those of the peers whose packages are installed."""
    return [build(items) for package, build in OTHERS.items() if find_spec(package)]


def filtering_peers(items: Sequence[Item], *, with_mem0: bool) -> Generator[Peer, None, None]:
    """Build the peers that can restrict a search to a user.

    Each is built when it is asked for, and closed when the next one is; Chroma stays open for the
    ensemble, which searches it.
    """
    with closing(ChromaPeer(items)) as chroma:
        yield chroma
        yield EnsemblePeer(items, chroma)
    with closing(InMemoryStorePeer(items)) as store:
        yield store
    if with_mem0 and find_spec("mem0"):
        with closing(Mem0Peer(items)) as mem0:
            yield mem0


def missing_peers() -> list[str]:
    """Return the packages of those peers that are not installed."""
    return [package for package in OTHERS if not find_spec(package)]
