"""Reciprocal Rank Fusion of two ranked lists."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.search.fusion import FUSION_DEPTH, RRF_K, Fused, fuse

RANKING = st.lists(st.integers(0, 40).map(str), unique=True, max_size=30)


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


def test_one_order_for_ever() -> None:
    keyword, vector = [f"id{i}" for i in range(50)], [f"id{i}" for i in range(25, 75)]
    random.Random(1).shuffle(keyword)  # noqa: S311  (a test, not a secret)

    assert all(fuse(keyword, vector) == fuse(keyword, vector) for _ in range(50))
