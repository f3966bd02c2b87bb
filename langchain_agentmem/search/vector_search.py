"""Nearest neighbours among the records that meet a condition.

Chroma knows ids and vectors alone; what may be in the answer, the database knows. Few matching
records: their vectors are compared one by one, exactly. Many: Chroma is asked for more neighbours
until enough of them match. Where those that match lie far from the query, so that comparing all of
them costs less, and where Chroma's graph ends before, because it falls into parts that do not lead
to each other, as among many equal vectors, the copies of their vectors are compared.
Either way a filter never starves the answer.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.storage.kinds import Condition
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.selection import Selection
from langchain_agentmem.storage.vector_copies import VectorCopies, at_least_as_near, up_to_date
from langchain_agentmem.storage.vector_index import VectorIndex, unit

SPREAD_OVER = 100
"""How many candidates, the nearest, lend each other strength."""
_HEADROOM = 1.3
_WIDENING = 4


@dataclass(frozen=True, slots=True)
class Nearest:
    """What lies near a query."""

    ranking: list[tuple[str, float]]
    """Ids with the score that they are ranked by, best first."""
    similarity: dict[str, float]
    """The cosine of each to the query, -1 to 1."""
    method: str
    """How they were found, for people to read."""


class VectorSearch:
    """Searches the vector index under the condition of a request.

    Args:
        store: Knows what matches.
        index: The vector index.
        copies: Copies of its vectors, which are read faster.
    """

    def __init__(self, store: RecordStore, index: VectorIndex, copies: VectorCopies) -> None:
        """Search `index`."""
        self._store = store
        self._index = index
        self._copies = copies

    def search(
        self,
        request: SearchRequest,
        vector: Vectors,
        selection: Selection,
        excluded: Condition | None = None,
    ) -> Nearest:
        """Rank the records nearest to a query, all of them matching the request.

        The score is the cosine. Where records are understood with those around them, it is the
        mean cosine of a record and its neighbours, weighted; those that are not near themselves
        count as near as the last candidate is.

        Args:
            request: What is searched, and how many candidates it takes.
            vector: The query's vector, (dim,) float32.
            selection: How many records match.
            excluded: What the query excludes, as a condition that a record must meet besides.
        """
        context, wanted = request.kind.context, request.candidates
        if context is None:
            found, method = self._near(request, vector, wanted, selection, excluded)
            return Nearest(found, dict(found), method)
        wanted = max(wanted, SPREAD_OVER)
        found, method = self._near(request, vector, wanted, selection, excluded)
        similarity = dict(found)
        if not found:
            return Nearest([], similarity, method)
        weights = context.similarity_weights
        # A fixed number lends and gets strength, so that the order does not depend on the limit.
        lending = dict(found[:SPREAD_OVER])
        floor = min(lending.values())
        neighbours = self._store.neighbours(request.kind, list(lending), len(weights))
        scores: dict[str, float] = {}
        for id_, own in lending.items():
            total, whole = own, 1.0
            for weight, around in zip(weights, neighbours.get(id_, []), strict=False):
                total += weight * sum(lending.get(each, floor) for each in around)
                whole += weight * len(around)
            scores[id_] = total / whole
        ranking = sorted(scores.items(), key=lambda item: (-item[1], -similarity[item[0]], item[0]))
        # The others are no nearer than the last of those, whose means are no lower than it is.
        return Nearest([*ranking, *found[SPREAD_OVER:]], similarity, method)

    def _near(
        self,
        request: SearchRequest,
        vector: Vectors,
        wanted: int,
        selection: Selection,
        excluded: Condition | None,
    ) -> tuple[list[tuple[str, float]], str]:
        kind, matches = request.kind, request.condition.and_also(excluded)
        if selection.few is not None:
            few = selection.few
            if excluded is not None:
                left = self._store.matching(kind, list(few.values()), matches)
                few = {seq: id_ for seq, id_ in few.items() if id_ in left}
            found, compared = self._exact(request, vector, few, wanted)
            all_of = "each" if compared == len(few) else f"the {compared:,} with a vector"
            return found, f"the query was compared with {all_of} of the {len(few):,}"
        k, most = neighbours_for(wanted, selection), _worth_asking_for(selection)
        condition = matches.and_also(up_to_date(kind))
        while True:
            near = self._index.query(kind, vector, k)
            allowed = self._store.matching(kind, [id_ for id_, _ in near], condition)
            found = [(id_, similarity) for id_, similarity in near if id_ in allowed]
            method = f"{len(found):,} of the {len(near):,} nearest match"
            ended = len(near) < k
            if len(found) >= wanted:
                break
            dear = k * wanted > most * max(1, len(found))  # at the rate at which they match so far
            if self._copies.more_than(kind, len(near)) if ended else dear:
                nearest, are_all = self._copies.nearest(kind, vector, matches, wanted)
                if ended or are_all:
                    found = _in_order(dict(found) | dict(nearest))
                    why = "there are more vectors" if ended else "those that match lie far"
                    method += f"; as {why}, the query was compared with all that do"
                    break
                most = math.inf  # what has no copy may be nearer, and only the index finds it
            elif ended:
                break
            k *= _WIDENING
        return found[:wanted], method

    def similarities(
        self, request: SearchRequest, vector: Vectors, ids: list[str]
    ) -> dict[str, float]:
        """Return the cosine similarity of each of the ids that has a vector of its text."""
        level = self._store.matching(request.kind, ids, up_to_date(request.kind))
        return self._index.similarities(request.kind, vector, [i for i in ids if i in level])

    def vectors(self, request: SearchRequest, ids: list[str]) -> dict[str, Vectors]:
        """Return the vectors, each of length 1, of those of the ids that have one."""
        return self._index.vectors(request.kind, ids)

    def _exact(
        self, request: SearchRequest, vector: Vectors, few: Mapping[int, str], wanted: int
    ) -> tuple[list[tuple[str, float]], int]:
        """Compare the query with each of a few records; return the nearest, and how many it was."""
        kind = request.kind
        seqs, matrix = self._copies.read(kind, list(few), len(vector))
        cosines = np.clip(matrix @ unit(vector), -1.0, 1.0)
        # Of those alone that are as near as the last that is wanted: equal ones go by their ids.
        near = at_least_as_near(cosines, wanted)
        similarities = {few[seqs[n]]: float(cosines[n]) for n in near}
        compared = len(seqs)
        if compared < len(few):
            known = set(seqs)
            without = [id_ for seq, id_ in few.items() if seq not in known]
            others = self.similarities(request, vector, without)
            similarities |= others
            compared += len(others)
        return _in_order(similarities)[:wanted], compared


def _in_order(similarities: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(similarities.items(), key=lambda item: (-item[1], item[0]))


def neighbours_for(wanted: int, selection: Selection) -> int:
    """Return how many neighbours hold enough that match, where those lie evenly."""
    if selection.share >= 1.0:
        return wanted
    return int(wanted / max(selection.share, 1.0 / max(1, selection.total)) * _HEADROOM) + 1


def _worth_asking_for(selection: Selection) -> float:
    """Return how many neighbours cost as much as comparing the query with all that match.

    One neighbour, which is looked up in the database, takes about as long as one comparison.
    """
    return selection.share * selection.total if selection.share < 1.0 else math.inf
