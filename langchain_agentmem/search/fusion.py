"""Reciprocal Rank Fusion of the keyword list and the vector list.

Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank
learning methods", SIGIR 2009. A record's score is the sum, over the lists that hold it, of
`weight / (60 + rank)`, rank from 1; a list that lacks it adds nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

RRF_K = 60
FUSION_DEPTH = 20
"""How deep fusion looks into each list, whatever the limit of the search.

The length of the longest answer that an agent can ask for: what one index alone would have shown
it. Deeper down, a record in the middle of both lists would beat the first of one of them.
"""


@dataclass(frozen=True, slots=True)
class Fused:
    """A record's place in the fused list. Ranks are 1-based, None where a list lacks it."""

    id: str
    score: float
    keyword_rank: int | None
    vector_rank: int | None


def fuse(
    keyword_ids: Sequence[str],
    vector_ids: Sequence[str],
    *,
    vector_weight: float = 1.0,
    depth: int = FUSION_DEPTH,
) -> list[Fused]:
    """Fuse two ranked lists of ids.

    The first `depth` of each list are fused. What lies deeper follows after them, each record by
    its better rank alone, so that the head of the answer is the same for every limit.

    Args:
        keyword_ids: Best first, each id once.
        vector_ids: Best first, each id once.
        vector_weight: Weight of the vector list; the keyword list weighs 1.
        depth: How many of each list are fused.

    Returns:
        Every id of both lists once. Order: score, then the better of both ranks, then the
        keyword rank, then the id; so it is the same every time.
    """
    keyword_rank = {id_: rank for rank, id_ in enumerate(keyword_ids, start=1)}
    vector_rank = {id_: rank for rank, id_ in enumerate(vector_ids, start=1)}

    def place(id_: str, score: float) -> Fused:
        return Fused(id_, score, keyword_rank.get(id_), vector_rank.get(id_))

    def term(rank: int | None, weight: float) -> float:
        return weight / (RRF_K + rank) if rank is not None else 0.0

    head_ids = dict.fromkeys([*keyword_ids[:depth], *vector_ids[:depth]])
    head = [
        place(
            id_,
            term(_within(keyword_rank.get(id_), depth), 1.0)
            + term(_within(vector_rank.get(id_), depth), vector_weight),
        )
        for id_ in head_ids
    ]
    head.sort(key=_order)
    lowest = head[-1].score if head else 1.0
    tail_ids = dict.fromkeys([*keyword_ids[depth:], *vector_ids[depth:]])
    tail = [
        place(
            id_,
            min(
                lowest,
                max(term(keyword_rank.get(id_), 1.0), term(vector_rank.get(id_), vector_weight)),
            ),
        )
        for id_ in tail_ids
        if id_ not in head_ids
    ]
    tail.sort(key=_order)
    return head + tail


def _within(rank: int | None, depth: int) -> int | None:
    return rank if rank is not None and rank <= depth else None


def _order(place: Fused) -> tuple[float, int, int, str]:
    ranks = [rank for rank in (place.keyword_rank, place.vector_rank) if rank is not None]
    return (-place.score, min(ranks), place.keyword_rank or max(ranks) + 1, place.id)
