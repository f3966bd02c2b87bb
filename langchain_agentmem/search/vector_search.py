"""Nearest neighbours among the records that meet a condition.

Chroma knows ids and vectors alone; what may be in the answer, the database knows. Few matching
records: their vectors are compared one by one, exactly. Many: Chroma is asked for more neighbours
until enough of them match. Either way a filter never starves the answer.
"""

from dataclasses import dataclass

from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.vector_index import VectorIndex, Vectors

EXACT_UP_TO = 1000
"""Up to this many matching records are compared one by one."""
SPREAD_OVER = 100
"""How many candidates lend each other strength."""
_HEADROOM = 1.3
_WIDENING = 4


@dataclass(frozen=True, slots=True)
class Nearest:
    """What lies near a query."""

    ranking: list[tuple[str, float]]
    """Ids with the score that they are ranked by, best first."""
    similarity: dict[str, float]
    """The cosine of each to the query, -1 to 1."""


class VectorSearch:
    """Searches the vector index under the condition of a request."""

    def __init__(self, store: RecordStore, index: VectorIndex) -> None:
        """Search `index`; ask `store` what matches."""
        self._store = store
        self._index = index

    def search(self, request: SearchRequest, vector: Vectors) -> Nearest:
        """Rank the records nearest to a query, all of them matching the request.

        The score is the cosine. Where records are understood with those around them, it is the
        mean cosine of a record and its neighbours, weighted; those that are not near themselves
        count as near as the last candidate is.
        """
        context = request.kind.context
        if context is None:
            found = self._near(request, vector, request.candidates)
            return Nearest(found, dict(found))
        found = self._near(request, vector, max(request.candidates, SPREAD_OVER))
        similarity = dict(found)
        if not found:
            return Nearest([], similarity)
        weights = context.similarity_weights
        # A fixed number lends strength, so that the order does not depend on the limit.
        lending = dict(found[:SPREAD_OVER])
        floor = min(lending.values())
        neighbours = self._store.neighbours(request.kind, list(similarity), len(weights))
        scores: dict[str, float] = {}
        for id_, own in found:
            total, whole = own, 1.0
            for weight, around in zip(weights, neighbours.get(id_, []), strict=False):
                total += weight * sum(lending.get(each, floor) for each in around)
                whole += weight * len(around)
            scores[id_] = total / whole
        ranking = sorted(scores.items(), key=lambda item: (-item[1], -similarity[item[0]], item[0]))
        return Nearest(ranking, similarity)

    def _near(
        self, request: SearchRequest, vector: Vectors, wanted: int
    ) -> list[tuple[str, float]]:
        condition = request.condition
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

    def vectors(self, request: SearchRequest, ids: list[str]) -> dict[str, Vectors]:
        """Return the vectors, each of length 1, of those of the ids that have one."""
        return self._index.vectors(request.kind, ids)

    def _exact(
        self, request: SearchRequest, vector: Vectors, matching: int
    ) -> list[tuple[str, float]]:
        if matching == 0:
            return []
        ids = self._store.ids(request.kind, request.condition, matching)
        similarities = self.similarities(request, vector, ids)
        return sorted(similarities.items(), key=lambda item: (-item[1], item[0]))
