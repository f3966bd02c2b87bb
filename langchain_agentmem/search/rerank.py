"""What may change an answer's order: age before the fusion, likeness to what is above after it."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.search.fusion import Fused, Ranking

DIVERSIFIED = 50
"""How many candidates maximal marginal relevance chooses among."""


def age_keywords(ranking: Ranking, factors: Mapping[str, float]) -> Ranking:
    """Multiply BM25 scores by a factor for the age of each record; those without one keep theirs.

    Args:
        ranking: The keyword list; scores are BM25 `b` as `b / (1 + b)`, and so are those returned.
        factors: 0 to 1 by id.
    """

    def aged(score: float, factor: float) -> float:
        # On `b` itself: `b / (1 + b)` of good matches lie so close that age would decide alone.
        return score * factor / (1.0 - score + score * factor)

    return _reordered((id_, aged(score, factors.get(id_, 1.0))) for id_, score in ranking)


def age_vectors(ranking: Ranking, factors: Mapping[str, float]) -> Ranking:
    """Multiply cosines by a factor for the age of each record; negative ones stay as they are."""
    return _reordered(
        (id_, score * factors.get(id_, 1.0) if score > 0 else score) for id_, score in ranking
    )


def _reordered(ranking: Iterable[tuple[str, float]]) -> Ranking:
    return sorted(ranking, key=lambda item: -item[1])  # stable: ties keep their order


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
