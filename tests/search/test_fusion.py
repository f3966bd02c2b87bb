"""Reciprocal Rank Fusion of two ranked lists."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.search.fusion import (
    FUSION_DEPTH,
    RRF_K,
    SCORED_DEPTH,
    Fused,
    fuse_ranks,
    fuse_scores,
)

RANKING = st.lists(st.integers(0, 40).map(str), unique=True, max_size=30)


def fuse(keyword_ids: Sequence[str], vector_ids: Sequence[str], **options: Any) -> list[Fused]:
    """Fuse by rank: whatever the scores are, they do not count."""
    keyword, vector = ([(id_, 0.5) for id_ in ids] for ids in (keyword_ids, vector_ids))
    places = fuse_ranks(keyword, vector, **options)
    return [replace(place, keyword_part=None, vector_part=None) for place in places]


def test_a_score_is_the_sum_of_both_terms() -> None:
    assert fuse(["a", "b"], ["b", "c"]) == [
        Fused("b", 1 / 62 + 1 / 61, 2, 1),
        Fused("a", 1 / 61, 1, None),
        Fused("c", 1 / 62, None, 2),
    ]


@pytest.mark.parametrize(
    ("keyword", "vector", "order"),
    [
        ([], [], []),
        (["a"], [], ["a"]),
        ([], ["a", "b"], ["a", "b"]),
        (["a", "b"], ["a", "b"], ["a", "b"]),
        (["a", "b"], ["b", "a"], ["a", "b"]),  # a tie: the keyword list decides
        (["b", "a"], ["a", "b"], ["b", "a"]),
        (["a"], ["b"], ["a", "b"]),
        (["z"], ["a"], ["z", "a"]),
        (["x", "a"], ["y", "a"], ["a", "x", "y"]),  # in both lists beats first in one
    ],
)
def test_the_order_is_by_score_then_by_rank(
    keyword: list[str], vector: list[str], order: list[str]
) -> None:
    assert [place.id for place in fuse(keyword, vector)] == order


def test_a_lighter_vector_list_counts_for_less() -> None:
    fused = fuse(["a", "b"], ["c", "b"], vector_weight=0.5)

    assert [place.id for place in fused] == ["b", "a", "c"]
    assert fused[0].score == pytest.approx(1 / 62 + 0.5 / 62)
    assert fused[2].score == pytest.approx(0.5 / 61)


@given(RANKING, RANKING)
def test_every_id_comes_once_with_its_ranks_and_its_score(
    keyword: list[str], vector: list[str]
) -> None:
    fused = fuse(keyword, vector, depth=30)

    assert sorted(place.id for place in fused) == sorted({*keyword, *vector})
    for place in fused:
        ranks = [
            ranking.index(place.id) + 1 if place.id in ranking else None
            for ranking in (keyword, vector)
        ]
        assert [place.keyword_rank, place.vector_rank] == ranks
        assert place.score == pytest.approx(sum(1 / (RRF_K + rank) for rank in ranks if rank))
    assert [place.score for place in fused] == sorted((p.score for p in fused), reverse=True)


@given(RANKING, RANKING, st.integers(1, 12))
def test_what_lies_deeper_than_the_depth_does_not_change_the_head(
    keyword: list[str], vector: list[str], depth: int
) -> None:
    head = fuse(keyword[:depth], vector[:depth], depth=depth)
    whole = fuse(keyword, vector, depth=depth)

    assert [(p.id, p.score) for p in whole[: len(head)]] == [(p.id, p.score) for p in head]
    assert sorted(place.id for place in whole) == sorted({*keyword, *vector})
    assert all(high.score >= low.score for high, low in itertools.pairwise(whole))


def test_a_record_in_the_depth_of_one_list_and_below_it_in_the_other() -> None:
    keyword = [f"k{i}" for i in range(FUSION_DEPTH)]
    vector = [f"v{i}" for i in range(FUSION_DEPTH + 5)] + ["k0"]

    (place,) = [place for place in fuse(keyword, vector) if place.id == "k0"]

    assert fuse(keyword, vector)[0].id == "k0"
    assert place.score == pytest.approx(1 / 61)
    assert (place.keyword_rank, place.vector_rank) == (1, FUSION_DEPTH + 6)


def test_the_parts_of_a_score_are_told() -> None:
    place = fuse_ranks([("a", 0.9)], [("b", 0.8), ("a", 0.7)], vector_weight=0.5)[0]

    assert place == Fused("a", 1 / 61 + 0.5 / 62, 1, 2, 1 / 61, 0.5 / 62)


class TestFusionByScores:
    """Each list's scores count as shares of its best, the vector list's at its weight."""

    def test_bm25_and_cosine_are_brought_to_one_scale(self) -> None:
        # BM25 of 3 and 1 is told as 3/4 and 1/2; cosines start at that of the last candidate.
        keyword = [("a", 0.75), ("b", 0.5)]
        vector = [("b", 0.9), ("c", 0.5), ("d", 0.1)]

        places = {place.id: place for place in fuse_scores(keyword, vector, vector_weight=0.5)}

        assert places["a"].score == pytest.approx(1.0 / 1.5)
        assert places["b"].score == pytest.approx((1 / 3 + 0.5) / 1.5)
        assert places["c"].score == pytest.approx(0.25 / 1.5)
        assert places["d"].score == 0
        assert places["b"].keyword_part == pytest.approx(1 / 3 / 1.5)
        assert places["b"].vector_part == pytest.approx(0.5 / 1.5)

    def test_a_clear_winner_of_one_list_stays_first(self) -> None:
        keyword = [("winner", 0.95), ("a", 0.5), ("b", 0.5)]
        vector = [("a", 0.9), ("b", 0.89), ("winner", 0.1)]

        assert fuse_scores(keyword, vector, vector_weight=0.3)[0].id == "winner"
        assert fuse_ranks(keyword, vector)[0].id == "a"

    @given(RANKING, RANKING, st.floats(0.05, 1))
    def test_every_id_comes_once_within_0_and_1_and_in_falling_order(
        self, keyword: list[str], vector: list[str], weight: float
    ) -> None:
        scored = [
            [(id_, 0.9 / (place + 1)) for place, id_ in enumerate(ids)] for ids in (keyword, vector)
        ]

        places = fuse_scores(scored[0], scored[1], vector_weight=weight)

        assert sorted(place.id for place in places) == sorted({*keyword, *vector})
        scores = [place.score for place in places]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 + 1e-9 for score in scores)

    @given(st.permutations(range(300)), st.permutations(range(300)), st.integers(0, 240))
    def test_more_candidates_do_not_change_the_head(
        self, keyword: list[int], vector: list[int], more: int
    ) -> None:
        by_keyword = [(str(id_), 0.99 - place / 1000) for place, id_ in enumerate(keyword)]
        by_vector = [(str(id_), 0.9 - place / 1000) for place, id_ in enumerate(vector)]
        depth = SCORED_DEPTH + more

        few = fuse_scores(by_keyword[:SCORED_DEPTH], by_vector[:SCORED_DEPTH])
        many = fuse_scores(by_keyword[:depth], by_vector[:depth])

        head = [(place.id, place.score) for place in few[:FUSION_DEPTH]]
        assert [(place.id, place.score) for place in many[:FUSION_DEPTH]] == head

    def test_one_list_alone_and_none_at_all(self) -> None:
        assert [place.id for place in fuse_scores([("a", 0.5)], [])] == ["a"]
        assert [place.id for place in fuse_scores([], [("a", 0.5)])] == ["a"]
        assert fuse_scores([], []) == []
