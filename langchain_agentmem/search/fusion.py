"""The fusion of the keyword list and the vector list: by ranks, or by scores.

Which of the two, and how much the vector list weighs, the embedding model decides: by ranks for
services and models given as objects, by scores for the small models of `local` and `chroma`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from langchain_agentmem.embeddings.settings import Fusion

RRF_K = 60
FUSION_DEPTH = 20
"""How deep fusion looks into each list, whatever the limit of the search.

The length of the longest answer that an agent can ask for: what one index alone would have shown
it. Deeper down, a record in the middle of both lists would beat the first of one of them.
"""
OVER_RETRIEVAL = 3
SCORED_DEPTH = OVER_RETRIEVAL * FUSION_DEPTH
"""How deep fusion by scores looks up a record of one list in the other. As many candidates as a
search of few results has; those of many results have more, and must not fuse otherwise for it."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A record's place in the fused list. Ranks are 1-based, None where a list lacks it."""

    id: str
    score: float
    keyword_rank: int | None
    vector_rank: int | None
    keyword_part: float | None = None
    vector_part: float | None = None
    """What each list contributes to the score."""


Parts = tuple[float, float]
"""What the keyword list and the vector list contribute to a score."""
Ranking = Sequence[tuple[str, float]]
"""Ids with scores, best first, each id once."""


def fuse_ranks(
    keyword: Ranking, vector: Ranking, *, vector_weight: float = 1.0, depth: int = FUSION_DEPTH
) -> list[Fused]:
    """Fuse two lists by the ranks in them (RRF).

    Reciprocal Rank Fusion (Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms
    Condorcet and individual rank learning methods", SIGIR 2009): a record's score is the sum, over
    the lists that hold it, of `weight / (60 + rank)`, rank from 1; a list that lacks it adds
    nothing.

    The first `depth` of each list are fused. What lies deeper follows after them, each record by
    its better rank alone, so that the head of the answer is the same for every limit.

    Args:
        keyword: The keyword list.
        vector: The vector list.
        vector_weight: Weight of the vector list; the keyword list weighs 1.
        depth: How many of each list are fused.

    Returns:
        Every id of both lists once. Order: score, then the better of both ranks, then the
        keyword rank, then the id; so it is the same every time.
    """
    keyword_rank, vector_rank = _ranks(keyword), _ranks(vector)

    def term(rank: int | None, weight: float) -> float:
        return weight / (RRF_K + rank) if rank is not None else 0.0

    def parts(id_: str) -> Parts:
        return (
            term(_within(keyword_rank.get(id_), depth), 1.0),
            term(_within(vector_rank.get(id_), depth), vector_weight),
        )

    def tail_parts(id_: str) -> Parts:
        by_keyword = term(keyword_rank.get(id_), 1.0)
        by_vector = term(vector_rank.get(id_), vector_weight)
        return (by_keyword, 0.0) if by_keyword >= by_vector else (0.0, by_vector)

    return _place(keyword, vector, depth, parts, tail_parts)


def fuse_scores(
    keyword: Ranking, vector: Ranking, *, vector_weight: float = 1.0, depth: int = FUSION_DEPTH
) -> list[Fused]:
    """Fuse two lists by the scores in them.

    A convex combination (Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid
    Retrieval", 2023): each list's scores are brought to 0..1, the best of the list being 1, and
    added with the weights 1 and `vector_weight`. Keyword scores start at no match at all, cosines
    at that of the last candidate. Unlike ranks, scores tell a clear winner from a narrow one, which
    matters where one list is much more reliable than the other.

    Args:
        keyword: The keyword list; scores are BM25 `b` as `b / (1 + b)`.
        vector: The vector list; scores are cosines.
        vector_weight: See above.
        depth: Ids deeper than this in both lists come after all others.

    Returns:
        As `fuse_ranks`; scores within 0 to 1.
    """
    # To a fixed depth, so that the head of the answer is the same for every limit.
    bm25 = {id_: score / (1.0 - score) for id_, score in keyword[:SCORED_DEPTH]}
    best = max(bm25.values(), default=0.0) or 1.0
    lowest = vector[:SCORED_DEPTH][-1][1] if vector else 0.0
    spread = (max((score for _, score in vector), default=0.0) - lowest) or 1.0
    near = {id_: max(0.0, score - lowest) / spread for id_, score in vector}
    whole = 1.0 + vector_weight

    def parts(id_: str) -> Parts:
        return (
            bm25.get(id_, 0.0) / best / whole,
            vector_weight * near.get(id_, 0.0) / whole,
        )

    return _place(keyword, vector, depth, parts, parts)


FUSIONS: Mapping[Fusion, Callable[..., list[Fused]]] = {"rrf": fuse_ranks, "scores": fuse_scores}
"""The ways of fusing, by the name that the embedding settings use."""


def _place(
    keyword: Ranking,
    vector: Ranking,
    depth: int,
    parts: Callable[[str], Parts],
    tail_parts: Callable[[str], Parts],
) -> list[Fused]:
    keyword_rank, vector_rank = _ranks(keyword), _ranks(vector)

    def place(id_: str, both: Parts, at_most: float = float("inf")) -> Fused:
        score = min(at_most, sum(both))
        return Fused(id_, score, keyword_rank.get(id_), vector_rank.get(id_), *both)

    in_head = dict.fromkeys(id_ for id_, _ in (*keyword[:depth], *vector[:depth]))
    head = sorted((place(id_, parts(id_)) for id_ in in_head), key=_order)
    lowest = head[-1].score if head else 1.0
    in_tail = dict.fromkeys(id_ for id_, _ in (*keyword[depth:], *vector[depth:]))
    tail = [place(id_, tail_parts(id_), lowest) for id_ in in_tail if id_ not in in_head]
    return head + sorted(tail, key=_order)


def _ranks(ranking: Ranking) -> dict[str, int]:
    return {id_: rank for rank, (id_, _) in enumerate(ranking, start=1)}


def _within(rank: int | None, depth: int) -> int | None:
    return rank if rank is not None and rank <= depth else None


def _order(place: Fused) -> tuple[float, int, int, str]:
    ranks = [rank for rank in (place.keyword_rank, place.vector_rank) if rank is not None]
    return (-place.score, min(ranks), place.keyword_rank or max(ranks) + 1, place.id)
