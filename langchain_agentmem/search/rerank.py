"""What may change the order of an answer after the fusion: age, and likeness to what is above."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from langchain_agentmem.search.fusion import Fused
from langchain_agentmem.storage.vector_index import Vectors

DIVERSIFIED = 50
"""How many candidates maximal marginal relevance chooses among."""


def decay(places: Sequence[Fused], factors: Mapping[str, float]) -> list[Fused]:
    """Multiply scores by a factor for the age of each record; those without one keep theirs."""
    aged = [replace(place, score=place.score * factors.get(place.id, 1.0)) for place in places]
    return sorted(aged, key=lambda place: -place.score)  # stable: ties keep their order


def recency_factor(age_days: float, half_life_days: float) -> float:
    """Return 1 for what is new or lies ahead, 0.5 after one half-life, 0.25 after two."""
    return float(0.5 ** (max(0.0, age_days) / half_life_days))


def diversify(
    places: Sequence[Fused], vectors: Mapping[str, Vectors], diversity: float, limit: int
) -> list[Fused]:
    """Choose records that are relevant and unlike those chosen before.

    Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998): the next record is the one
    with the greatest `(1 - diversity) * relevance - diversity * likeness`, where relevance is its
    score as a share of the best score and likeness the greatest cosine to a record chosen already.

    Args:
        places: Candidates, best first.
        vectors: Their vectors, each of length 1; a record without one is like no other.
        diversity: 0 (relevance alone) to 1.
        limit: How many to choose.

    Returns:
        The chosen records in the order of choice, the others behind them as they were.
    """
    rest = list(places[:DIVERSIFIED])
    best = max((place.score for place in rest), default=0.0) or 1.0
    likeness = dict.fromkeys((place.id for place in rest), 0.0)
    chosen: list[Fused] = []
    while rest and len(chosen) < limit:
        pick = max(
            range(len(rest)),
            key=lambda i: (
                (1.0 - diversity) * rest[i].score / best - diversity * likeness[rest[i].id],
                -i,
            ),
        )
        place = rest.pop(pick)
        chosen.append(place)
        own = vectors.get(place.id)
        for other in rest:
            vector = vectors.get(other.id)
            if own is not None and vector is not None:
                likeness[other.id] = max(likeness[other.id], float(np.dot(own, vector)))
    return [*chosen, *rest, *places[DIVERSIFIED:]]
