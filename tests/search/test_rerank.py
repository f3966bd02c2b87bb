"""What changes the order: age before the fusion, and likeness to what is above after it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.search.fusion import Fused, Ranking
from langchain_agentmem.search.rerank import (
    DIVERSIFIED,
    age_keywords,
    age_vectors,
    diversify,
    recency_factor,
)
from langchain_agentmem.storage.vector_index import VectorIndex


def places(**scores: float) -> list[Fused]:
    return [Fused(id_, score, rank, None) for rank, (id_, score) in enumerate(scores.items(), 1)]


def ids(fused: list[Fused]) -> list[str]:
    return [place.id for place in fused]


def ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


class TestDecay:
    @pytest.mark.parametrize(
        ("age", "half_life", "factor"),
        [
            (0, 30, 1.0),
            (30, 30, 0.5),
            (60, 30, 0.25),
            (15, 30, 0.5**0.5),
            (1, 0.5, 0.25),
            (-1, 30, 1.0),  # lies ahead
            (-1e6, 30, 1.0),
            (1e9, 1, 0.0),
        ],
    )
    def test_each_half_life_halves(self, age: float, half_life: float, factor: float) -> None:
        assert recency_factor(age, half_life) == pytest.approx(factor)

    def test_bm25_is_multiplied_and_the_list_ordered_anew(self) -> None:
        plain = [("old", 0.9), ("new", 0.75), ("timeless", 0.5)]  # BM25 9, 3 and 1
        aged = age_keywords(plain, {"old": 1 / 9, "new": 0.5})
        assert [id_ for id_, _ in aged] == ["new", "old", "timeless"]
        assert [score for _, score in aged] == pytest.approx([0.6, 0.5, 0.5])

    def test_cosines_are_multiplied_where_they_are_positive(self) -> None:
        plain = [("old", 0.8), ("new", 0.5), ("unlike", -0.2)]
        aged = age_vectors(plain, {"old": 0.5, "unlike": 0.1})
        assert aged == [("new", 0.5), ("old", 0.4), ("unlike", -0.2)]

    @pytest.mark.parametrize("age", [age_keywords, age_vectors])
    def test_ties_keep_their_order(self, age: Callable[..., Ranking]) -> None:
        aged = age([("b", 0.8), ("c", 0.4), ("a", 0.4)], {"b": 0.0})
        assert [id_ for id_, _ in aged] == ["c", "a", "b"]

    @given(st.floats(0.0, 1.0, exclude_max=True), st.floats(0.0, 1.0))
    def test_aged_scores_stay_within_bounds(self, score: float, factor: float) -> None:
        for age in (age_keywords, age_vectors):
            ((_, aged),) = age([("a", score)], {"a": factor})
            assert 0.0 <= aged <= score + 1e-12


class TestAgeInAnswers:
    @pytest.mark.parametrize(
        ("fields", "factor"),
        [
            ({"created_at": ago(0)}, 1.0),
            ({"created_at": ago(10)}, 0.5),
            ({"created_at": ago(20)}, 0.25),
            ({"created_at": ago(-365)}, 1.0),
            ({"created_at": ago(20), "priority": 0}, 0.25),
            ({"created_at": ago(20), "priority": -1}, None),
            ({"created_at": ago(10), "updated_at": ago(0)}, 1.0),
        ],
        ids=["new", "one half-life", "two", "ahead", "priority 0", "global instruction", "updated"],
    )
    def test_a_hit_tells_the_factor_of_its_age(
        self, keyword_memory: AgentMemory, fields: dict[str, Any], factor: float | None
    ) -> None:
        keyword_memory.add_memories([Memory(content="Drinks tea", **fields)])
        (plain,) = keyword_memory.search_memories("tea").results
        (aged,) = keyword_memory.search_memories("tea", half_life_days=10).results

        assert plain.recency is None
        if factor is None:
            assert (aged.recency, aged.score) == (None, plain.score)
        else:
            assert aged.recency == pytest.approx(factor, rel=1e-3)
            assert aged.score == pytest.approx(plain.score * factor, rel=1e-3)

    def test_the_new_comes_before_the_old_and_instructions_do_not_age(
        self, keyword_memory: AgentMemory
    ) -> None:
        keyword_memory.add_memories(
            [
                Memory(id="old", content="Likes tea", created_at=ago(400)),
                Memory(id="rule", content="Offer tea", created_at=ago(400), priority=-1),
                Memory(id="new", content="Drinks tea", created_at=ago(0.1)),
            ]
        )

        found = keyword_memory.search_memories("tea", half_life_days=30).results

        assert {hit.id for hit in found[:2]} == {"rule", "new"}
        assert [hit.id for hit in found[2:]] == ["old"]
        assert [hit.score for hit in found] == sorted((h.score for h in found), reverse=True)

    def test_messages_age_by_when_they_were_said(self, keyword_memory: AgentMemory) -> None:
        keyword_memory.add_messages(
            None,
            [
                Message(id=id_, session_key=id_, role="user", content="tea?", recorded_at=ago(days))
                for id_, days in [("old", 10), ("new", 0)]
            ],
        )

        found = keyword_memory.search_conversations("tea", half_life_days=10).results

        assert [hit.id for hit in found] == ["new", "old"]
        assert [hit.recency for hit in found] == pytest.approx([1.0, 0.5], rel=1e-3)

    def test_age_is_counted_before_the_limit(self, keyword_memory: AgentMemory) -> None:
        keyword_memory.add_memories(
            [
                Memory(id="old", content="tea tea tea", created_at=ago(400)),
                Memory(id="new", content="tea, perhaps, in the afternoon", created_at=ago(0)),
            ]
        )

        assert keyword_memory.search_memories("tea", 1).results[0].id == "old"
        assert keyword_memory.search_memories("tea", 1, half_life_days=30).results[0].id == "new"

    def test_a_much_better_match_outweighs_a_few_days(self, keyword_memory: AgentMemory) -> None:
        filler = [Memory(content=f"Pays bill number {n}", created_at=ago(9)) for n in range(50)]
        apt = Memory(id="apt", content="Grows jasmine for tea in Kyoto", created_at=ago(8))
        vague = Memory(id="vague", content="Drinks tea", created_at=ago(1))
        keyword_memory.add_memories([*filler, apt, vague])

        query = "jasmine tea from Kyoto"
        found = keyword_memory.search_memories(query, half_life_days=30).results
        assert [hit.id for hit in found] == ["apt", "vague"]

    def test_the_new_is_found_behind_many_old_ones(self, keyword_memory: AgentMemory) -> None:
        old = [Memory(content=f"tea tea tea {n}", created_at=ago(900)) for n in range(200)]
        new = Memory(id="new", content="Had some tea in a garden by the sea", created_at=ago(0))
        keyword_memory.add_memories([*old, new])

        assert keyword_memory.search_memories("tea", 1, half_life_days=30).results[0].id == "new"

    async def test_async_is_the_same(self, keyword_memory: AgentMemory) -> None:
        keyword_memory.add_memories([Memory(content="tea", created_at=ago(10))])

        (hit,) = (await keyword_memory.asearch_memories("tea", half_life_days=10)).results

        assert hit.recency == pytest.approx(0.5, rel=1e-3)


def toward(degrees: float) -> Vectors:
    angle = np.deg2rad(degrees)
    return np.array([np.cos(angle), np.sin(angle)], dtype=np.float32)


ALIKE = places(a=1.0, b=0.9, c=0.8, d=0.3)
VECTORS = {"a": toward(0), "b": toward(2), "c": toward(4), "d": toward(90)}


class TestDiversify:
    @pytest.mark.parametrize(
        ("diversity", "order"),
        [(0.0, "abcd"), (0.1, "abcd"), (0.5, "adbc"), (1.0, "adcb")],
    )
    def test_what_is_like_those_above_comes_later(self, diversity: float, order: str) -> None:
        assert ids(diversify(ALIKE, VECTORS, diversity, 4)) == list(order)

    @pytest.mark.parametrize("diversity", [0.0, 0.3, 0.7, 0.99])
    def test_the_best_stays_first(self, diversity: float) -> None:
        assert diversify(ALIKE, VECTORS, diversity, 4)[0].id == "a"

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
    def test_up_to_the_limit_are_chosen_and_the_others_follow_as_they_were(
        self, limit: int
    ) -> None:
        chosen = ids(diversify(ALIKE, VECTORS, 0.5, 4))[:limit]
        others = [id_ for id_ in "abcd" if id_ not in chosen]

        assert ids(diversify(ALIKE, VECTORS, 0.5, limit)) == [*chosen, *others]

    def test_a_record_without_a_vector_is_like_no_other(self) -> None:
        vectors = {id_: VECTORS[id_] for id_ in "ab"}

        assert ids(diversify(ALIKE, vectors, 0.5, 4)) == ["a", "c", "d", "b"]
        assert ids(diversify(ALIKE, {}, 0.5, 4)) == ["a", "b", "c", "d"]

    def test_the_opposite_is_no_more_unlike_than_what_is_at_right_angles(self) -> None:
        vectors = {"a": toward(0), "b": toward(90), "c": toward(180), "d": toward(0)}

        assert ids(diversify(ALIKE, vectors, 0.5, 4)) == ["a", "b", "c", "d"]

    def test_scores_and_ranks_stay_what_they_were(self) -> None:
        changed = diversify(ALIKE, VECTORS, 0.5, 4)

        assert sorted(changed, key=lambda place: -place.score) == ALIKE

    def test_it_chooses_among_the_first_candidates_only(self) -> None:
        many = places(**{f"m{n}": 1.0 - n / 1000 for n in range(DIVERSIFIED + 1)})
        vectors = {place.id: toward(0) for place in many} | {f"m{DIVERSIFIED}": toward(90)}

        assert ids(diversify(many, vectors, 0.9, DIVERSIFIED + 1)) == ids(many)

    def test_nothing_and_worthless_scores_are_no_error(self) -> None:
        assert diversify([], {}, 0.5, 5) == []
        assert ids(diversify(places(a=0.0, b=0.0), {}, 0.5, 5)) == ["a", "b"]


TEA = [
    "Drinks green tea in the morning",
    "Drinks green tea every morning",
    "In the morning drinks green tea",
    "Green tea is drunk in the morning",
]
OTHER = "Tea stains are on the carpet"


@pytest.fixture(scope="module")
def tea() -> Iterator[AgentMemory]:
    """Four times the same with other words, and something else; no test changes it."""
    with closing(AgentMemory.in_memory(embedding="local")) as memory:
        memory.add_memories([Memory(id=text, content=text) for text in [*TEA, OTHER]])
        yield memory


class TestDiversityInAnswers:
    def test_near_duplicates_do_not_fill_the_answer(self, tea: AgentMemory) -> None:
        plain = tea.search_memories("green tea", 2)
        diverse = tea.search_memories("green tea", 2, diversity=0.7)

        assert OTHER not in [hit.id for hit in plain.results]
        assert [hit.id for hit in diverse.results] == [plain.results[0].id, OTHER]
        assert diverse.notes == []

    def test_0_changes_nothing(self, tea: AgentMemory) -> None:
        assert tea.search_memories("green tea", diversity=0) == tea.search_memories("green tea")

    def test_1_looks_at_unlikeness_alone(self, tea: AgentMemory) -> None:
        assert tea.search_memories("green tea", diversity=1).results[1].id == OTHER

    def test_hits_tell_the_places_that_they_had(self, tea: AgentMemory) -> None:
        plain = {hit.id: hit for hit in tea.search_memories("green tea").results}
        diverse = {hit.id: hit for hit in tea.search_memories("green tea", diversity=0.7).results}

        assert diverse == plain
        assert list(diverse) != list(plain)

    async def test_async_is_the_same(self, tea: AgentMemory) -> None:
        found = await tea.asearch_memories("green tea", 2, diversity=0.7)

        assert found == tea.search_memories("green tea", 2, diversity=0.7)

    def test_without_vectors_a_note_says_so(self, keyword_memory: AgentMemory) -> None:
        keyword_memory.add_memories([Memory(content=text) for text in TEA])
        plain = keyword_memory.search_memories("green tea")

        diverse = keyword_memory.search_memories("green tea", diversity=0.5)

        assert diverse.results == plain.results
        assert [note for note in diverse.notes if note not in plain.notes] == [
            "diversity could not be applied without vectors"
        ]
        assert keyword_memory.search_memories("green tea", diversity=0).notes == plain.notes

    def test_vectors_that_cannot_be_read_cost_the_diversity_alone(
        self, tea: AgentMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plain = tea.search_memories("green tea")

        def broken(*_: Any) -> None:
            msg = "disk I/O error"
            raise OSError(msg)

        monkeypatch.setattr(VectorIndex, "vectors", broken)
        diverse = tea.search_memories("green tea", diversity=0.5)

        assert diverse.results == plain.results
        (note,) = diverse.notes
        assert note.startswith("diversity could not be applied: ")
        assert "disk I/O error" in note

    def test_age_counts_before_likeness(self) -> None:
        with closing(AgentMemory.in_memory(embedding="local")) as memory:
            memory.add_memories(
                [Memory(id=text, content=text, created_at=ago(0)) for text in TEA[:2]]
                + [Memory(id=OTHER, content=OTHER, created_at=ago(1000))]
            )
            both = memory.search_memories("green tea", half_life_days=10, diversity=0.3)

        assert [hit.id for hit in both.results][-1] == OTHER
        assert both.results[-1].recency == pytest.approx(0.5**100, rel=1e-3)


@pytest.mark.parametrize("search", ["search_memories", "search_conversations"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("half_life_days", value) for value in (0, -1, float("nan"), float("inf"), "30", True)],
        *[("diversity", value) for value in (-0.1, 1.1, float("nan"), "0.5", True)],
    ],
)
def test_unusable_options_are_named(
    keyword_memory: AgentMemory, search: str, name: str, value: Any
) -> None:
    with pytest.raises(ValueError, match=name):
        getattr(keyword_memory, search)("tea", **{name: value})
