"""A message is as near to a query as it and its neighbours are, on the weighted mean."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from storage_parts import VectorParts

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.records import parse_time
from langchain_agentmem.results import Hit
from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.search.vector_search import Nearest, VectorSearch
from langchain_agentmem.storage import selection
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES, RecordKind
from langchain_agentmem.storage.vector_copies import VectorCopies

QUERY = np.array([0.0, 1.0], dtype=np.float32)
NEXT, SECOND = 0.3, 0.15


class Talk(VectorParts):
    """Messages whose cosines to the query are given."""

    def say(self, id_: str, cosine: float | None, minute: int = 0, **fields: Any) -> None:
        given = {"session_key": "s", "role": "user", "content": id_, **fields}
        at = f"2026-05-01T10:{minute:02}:00Z"
        self.store.save(MESSAGES, [Message.model_validate({"id": id_, "recorded_at": at, **given})])
        if cosine is not None:
            self.turn(MESSAGES, id_, cosine)

    def turn(self, kind: RecordKind[Any, Any], id_: str, cosine: float) -> None:
        """Give a record a vector with this cosine to the query."""
        vector = np.array([np.sqrt(1 - cosine**2), cosine], dtype=np.float32)
        self.place(kind, [id_], [vector])

    def search(self, kind: RecordKind[Any, Any] = MESSAGES, **filters: Any) -> Nearest:
        request: SearchRequest[Hit] = SearchRequest(kind, "query", 5, filters)
        return self.nearest(request)

    def nearest(self, request: SearchRequest[Any]) -> Nearest:
        selected = self.store.select(request.kind, request.condition)
        search = VectorSearch(self.store, self.index, VectorCopies(self.database, "m"))
        return search.search(request, QUERY, selected)


@pytest.fixture
def talk() -> Iterator[Talk]:
    with closing(Database(None)) as database:
        made = Talk(database)
        yield made
        made.index.drop()


@pytest.fixture
def five(talk: Talk) -> Talk:
    """Five messages of one conversation."""
    for minute, (id_, cosine) in enumerate(
        [("a", 0.9), ("b", 0.1), ("c", 0.5), ("d", 0.3), ("e", 0.7)]
    ):
        talk.say(id_, cosine, minute)
    return talk


def mean(own: float, next_to: list[float], second: list[float]) -> float:
    whole = 1 + NEXT * len(next_to) + SECOND * len(second)
    return (own + NEXT * sum(next_to) + SECOND * sum(second)) / whole


def test_the_weights_are_these() -> None:
    assert MESSAGES.context is not None
    assert MESSAGES.context.similarity_weights == (NEXT, SECOND)


def test_a_score_is_the_mean_of_a_message_and_the_two_to_each_side(five: Talk) -> None:
    expected = {
        "a": mean(0.9, [0.1], [0.5]),
        "b": mean(0.1, [0.9, 0.5], [0.3]),
        "c": mean(0.5, [0.1, 0.3], [0.9, 0.7]),
        "d": mean(0.3, [0.5, 0.7], [0.1]),
        "e": mean(0.7, [0.3], [0.5]),
    }

    ranking = five.search().ranking

    assert dict(ranking) == pytest.approx(expected, abs=1e-5)
    assert [id_ for id_, _ in ranking] == sorted(expected, key=lambda id_: -expected[id_])


def test_each_keeps_its_own_similarity(five: Talk) -> None:
    own = {"a": 0.9, "b": 0.1, "c": 0.5, "d": 0.3, "e": 0.7}

    assert five.search().similarity == pytest.approx(own, abs=1e-5)


def test_a_message_that_stands_alone_keeps_its_cosine(five: Talk) -> None:
    five.say("alone", 0.42, session_key="t")

    found = five.search()

    assert dict(found.ranking)["alone"] == found.similarity["alone"] == pytest.approx(0.42)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"session_key": "t"}, id="another session"),
        pytest.param({"scope_id": "ben"}, id="another user"),
        pytest.param({"role": "tool"}, id="tool output"),
        pytest.param({"role": "system"}, id="a system prompt"),
    ],
)
def test_what_is_not_said_in_the_conversation_changes_nothing(
    five: Talk, fields: dict[str, str]
) -> None:
    before = dict(five.search().ranking)
    five.say("other", 1.0, 2, **fields)

    after = dict(five.search().ranking)

    assert {id_: after[id_] for id_ in before} == before


def test_a_deleted_message_lends_nothing(five: Talk) -> None:
    five.store.delete(["b"])

    found = dict(five.search().ranking)

    assert "b" not in found
    assert found["a"] == pytest.approx(mean(0.9, [0.5], [0.3]), abs=1e-5)


def test_a_message_beside_a_near_one_rises_above_an_equal_one(talk: Talk) -> None:
    talk.say("far", 0.5, session_key="f")
    talk.say("near", 0.5, 1)
    talk.say("question", 0.9, 0)

    assert [id_ for id_, _ in talk.search().ranking] == ["question", "near", "far"]


def test_equal_scores_are_told_apart_by_the_own_cosine_then_by_id(talk: Talk) -> None:
    for id_ in ("b", "a"):
        talk.say(id_, 0.5, session_key=id_)

    assert [id_ for id_, _ in talk.search().ranking] == ["a", "b"]


@pytest.mark.parametrize("exact_up_to", [1000, 0], ids=["exact", "widening"])
def test_a_neighbour_that_is_no_candidate_counts_as_the_last_one_does(
    five: Talk, monkeypatch: pytest.MonkeyPatch, exact_up_to: int
) -> None:
    monkeypatch.setattr(selection, "few_at_most", lambda _: exact_up_to)
    five.say("answer", 0.6, 5, role="assistant")
    five.say("last", 0.2, 6, role="assistant")

    found = five.search(role="assistant")

    assert dict(found.ranking) == pytest.approx(
        {"answer": mean(0.6, [0.2, 0.2], [0.2]), "last": mean(0.2, [0.6], [0.2])}, abs=1e-5
    )
    assert set(found.similarity) == {"answer", "last"}


def test_a_neighbour_without_a_vector_counts_so_too(talk: Talk) -> None:
    talk.say("a", 0.8, 0)
    talk.say("pending", None, 1)
    talk.say("last", 0.1, 0, session_key="t")

    found = talk.search()

    assert dict(found.ranking) == pytest.approx({"a": mean(0.8, [0.1], []), "last": 0.1}, abs=1e-5)


def test_memories_are_ranked_by_their_cosines(talk: Talk) -> None:
    cosines = {"m1": 0.9, "m2": 0.1, "m3": 0.5}
    talk.store.save(MEMORIES, [Memory(id=id_, content=id_, session_key="s") for id_ in cosines])
    for id_, cosine in cosines.items():
        talk.turn(MEMORIES, id_, cosine)

    found = talk.search(MEMORIES)

    assert dict(found.ranking) == found.similarity == pytest.approx(cosines, abs=1e-5)


def test_nothing_is_near_where_there_is_nothing(talk: Talk) -> None:
    found = talk.search()

    assert (found.ranking, found.similarity) == ([], {})


def test_a_hit_shows_its_own_similarity_and_the_score_of_its_window() -> None:
    with closing(AgentMemory.in_memory(embedding="local")) as memory:
        memory.add_messages("s", [("user", "Our kitten naps on the couch"), ("user", "Lovely")])
        memory.add_messages("t", [("user", "Our kitten naps on the couch")])
        result = memory.search_conversations("sleeping feline pets")

    alone, beside, lovely = result.results
    assert result.strategy == "embedding"
    assert [hit.session_key for hit in result.results] == ["t", "s", "s"]
    assert alone.similarity == beside.similarity == pytest.approx(alone.score)
    assert beside.similarity is not None
    assert lovely.similarity is not None
    assert beside.score == pytest.approx(mean(beside.similarity, [lovely.similarity], []))


def test_the_first_does_not_depend_on_the_limit(talk: Talk) -> None:
    """`first` has a neighbour that is no candidate; the last candidate stands in for it."""
    messages = [("first", 0.99), ("filler", -0.99)]
    messages += [(f"other {n}", 0.6 - n / 100) for n in range(150)]
    cosines = np.array([0.60, *(cosine for _, cosine in messages)])
    ids = ["alone", *(id_ for id_, _ in messages)]
    sessions = ["alone", "s", "s", *(f"t{n}" for n in range(150))]
    talk.store.save(
        MESSAGES,
        [
            Message(
                id=id_,
                session_key=session,
                role="user",
                content=id_,
                recorded_at=parse_time(1e9 + n),
            )
            for n, (id_, session) in enumerate(zip(ids, sessions, strict=True))
        ],
    )
    vectors = np.stack([np.sqrt(1 - cosines**2), cosines], axis=1).astype(np.float32)
    talk.place(MESSAGES, ids, list(vectors))
    firsts = set()
    for limit in (5, 100):
        request = SearchRequest(MESSAGES, "query", limit)
        nearest = talk.nearest(request)
        firsts.add(nearest.ranking[0][0])

    assert len(firsts) == 1
