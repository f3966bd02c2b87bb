"""Tries out an embedded vector index, in a process of its own that may die of it.

Chroma reads its nearest-neighbour files without checking them: on damaged ones it crashes the
process. `main` is run in a child process, on a copy of the index: writing belongs to the trial.
"""

import json
import sys
from typing import Any

READY = "ready"
"""Said once Chroma is there: whatever comes after it is the index's doing."""
SOUND = "sound"
"""Said at the end of a trial that found nothing wrong."""

_PAGE = 1000
_PROBES = 16
_NEAREST = 100


def main() -> None:
    """Read the folder's path from stdin as JSON, try the index out, and print what was found."""
    folder = json.loads(sys.stdin.readline())
    import chromadb
    from chromadb.config import Settings

    print(READY, flush=True)  # noqa: T201  (the parent process reads it)
    client: Any = chromadb.PersistentClient(folder, settings=Settings(anonymized_telemetry=False))
    for found in client.list_collections():
        _try_out(client.get_collection(found.name, embedding_function=None))
    client.close()
    print(SOUND, flush=True)  # noqa: T201


def _try_out(collection: Any) -> None:
    """Touch every vector, walk the graph from many sides and write to it.

    Raises:
        Exception: Something is wrong with the collection.
    """
    import numpy as np

    probes: Any = None
    for start in range(0, collection.count(), _PAGE):
        page = collection.get(limit=_PAGE, offset=start, include=["embeddings"])
        vectors = np.asarray(page["embeddings"], dtype=np.float32)
        if probes is None:
            random = np.random.default_rng(0)
            probes = list(random.normal(size=(_PROBES, vectors.shape[1])).astype(np.float32))
        if not np.isfinite(vectors).all():
            msg = "a stored vector is not finite"
            raise ValueError(msg)
        # A query restricted to an id that the graph has lost fails.
        collection.query(query_embeddings=probes[:1], ids=page["ids"], n_results=1, include=[])
    if probes is None:
        return
    collection.query(query_embeddings=probes, n_results=_NEAREST, include=["distances"])
    for number, probe in enumerate(probes):
        collection.upsert(ids=[f"trial {number}"], embeddings=[probe])
    collection.delete(ids=[f"trial {number}" for number in range(_PROBES)])
