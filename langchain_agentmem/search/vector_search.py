"""Nearest neighbours among the records that meet a condition.

Chroma knows ids and vectors alone; what may be in the answer, the database knows. Few matching
records: their vectors are compared one by one, exactly. Many: Chroma is asked for more neighbours
until enough of them match. Either way a filter never starves the answer.
"""

from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.vector_index import VectorIndex, Vectors

EXACT_UP_TO = 1000
"""Up to this many matching records are compared one by one."""
_HEADROOM = 1.3
_WIDENING = 4


class VectorSearch:
    """Searches the vector index under the condition of a request."""

    def __init__(self, store: RecordStore, index: VectorIndex) -> None:
        """Search `index`; ask `store` what matches."""
        self._store = store
        self._index = index

    def search(self, request: SearchRequest, vector: Vectors) -> list[tuple[str, float]]:
        """Return ids with their cosine similarity, nearest first, all matching the request."""
        condition, wanted = request.condition, request.candidates
        total = self._index.count(request.kind)
        if total == 0:
            return []
        k = wanted
        if condition.selective:
            matching = self._store.count(request.kind, condition)
            if matching <= EXACT_UP_TO:
                return self._exact(request, vector, matching)[:wanted]
            # As many neighbours as hold enough matching ones where these lie evenly.
            k = int(wanted * max(1.0, total / matching) * _HEADROOM)
        while True:
            k = min(k, total)
            near = self._index.query(request.kind, vector, k)
            allowed = self._store.matching(request.kind, [id_ for id_, _ in near], condition)
            found = [(id_, similarity) for id_, similarity in near if id_ in allowed]
            if len(found) >= wanted or k >= total:
                return found[:wanted]
            k *= _WIDENING

    def similarities(
        self, request: SearchRequest, vector: Vectors, ids: list[str]
    ) -> dict[str, float]:
        """Return the cosine similarity of each of the ids that has a vector."""
        return self._index.similarities(request.kind, vector, ids)

    def _exact(
        self, request: SearchRequest, vector: Vectors, matching: int
    ) -> list[tuple[str, float]]:
        if matching == 0:
            return []
        ids = self._store.ids(request.kind, request.condition, matching)
        similarities = self.similarities(request, vector, ids)
        return sorted(similarities.items(), key=lambda item: (-item[1], item[0]))
