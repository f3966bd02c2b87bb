"""Nearest neighbours among the records that meet a condition; no filter starves the answer."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from storage_parts import VectorParts

from langchain_agentmem import Memory, Message
from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.records import Record
from langchain_agentmem.results import Hit
from langchain_agentmem.scopes import Turn, Visibility
from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.search.vector_search import VectorSearch
from langchain_agentmem.storage import selection
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES, RecordKind
from langchain_agentmem.storage.schema import EMBEDDING_MODEL
from langchain_agentmem.storage.vector_copies import VectorCopies
from langchain_agentmem.storage.vector_index import VectorIndex

QUERY = np.array([0.0, 1.0], dtype=np.float32)


class Parts(VectorParts):
    """A store and a vector index, and a search over them."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.copies = VectorCopies(database, "m")
        self.nearest = VectorSearch(self.store, self.index, self.copies)

    def fill(self, kind: RecordKind, records: Sequence[Record], *, copied: bool = False) -> None:
        """Save records whose vectors turn away from the query one by one."""
        self.store.save(kind, records)
        angles = np.linspace(0, np.pi, len(records), dtype=np.float32)
        vectors = list(np.stack([np.sin(angles), np.cos(angles)], axis=1))
        ids = [record.id for record in records]
        if copied:
            self.index.upsert(kind, ids, vectors)
            self.copies.settle(kind, self.queue.take(len(ids), kind.name, ids), vectors)
        else:
            self.place(kind, ids, vectors)

    def search(
        self,
        kind: RecordKind = MEMORIES,
        limit: int = 5,
        visibility: Visibility | None = None,
        **filters: Any,
    ) -> list[str]:
        request: SearchRequest[Hit] = SearchRequest(
            kind, "query", limit, filters, visibility or Visibility()
        )
        selected = self.store.select(kind, request.condition)
        return [id_ for id_, _ in self.nearest.search(request, QUERY, selected).ranking]


@pytest.fixture
def parts() -> Iterator[Parts]:
    with closing(Database(None)) as database:
        made = Parts(database)
        yield made
        made.index.drop()


@pytest.fixture(params=[1000, 0], ids=["exact", "widening"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Takes the way for few matching records, and the way for many."""
    monkeypatch.setattr(selection, "few_at_most", lambda _: request.param)
    return "exact" if request.param else "widening"


def memories(count: int, **of_last: Any) -> list[Memory]:
    """Memories of which the last ones, far from the query, differ from the rest."""
    fields: list[dict[str, Any]] = [{} for _ in range(count - 3)] + [of_last] * 3
    return [
        Memory.model_validate({"id": f"{i:04}", "content": f"text {i}", **given})
        for i, given in enumerate(fields)
    ]


def test_the_nearest_come_first(parts: Parts) -> None:
    parts.fill(MEMORIES, memories(400))

    assert parts.search()[:10] == [f"{i:04}" for i in range(10)]
    assert len(parts.search(limit=5)) == 60
    assert len(parts.search(limit=100)) == 300


def test_without_vectors_there_are_no_neighbours(parts: Parts) -> None:
    parts.store.save(MEMORIES, memories(5))

    assert parts.search() == []


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("of_last", "filters"),
    [
        ({"type": "rare"}, {"type": "rare"}),
        ({"type": "Rare"}, {"type": "rARE"}),
        ({"scene_name": "Home office"}, {"scene": "home"}),
        ({"session_key": "s2"}, {"session_key": "s2"}),
        ({"scope_id": "anna"}, {"visibility": Visibility((("user", "anna"),), ("thread",))}),
    ],
)
def test_a_selective_filter_never_starves_the_answer(
    parts: Parts, of_last: dict[str, Any], filters: dict[str, Any]
) -> None:
    parts.fill(MEMORIES, memories(600, **of_last))

    assert parts.search(**filters) == ["0597", "0598", "0599"]


@pytest.mark.usefixtures("path")
def test_a_filter_that_nothing_meets_finds_nothing(parts: Parts) -> None:
    parts.fill(MEMORIES, memories(300))

    assert parts.search(type="missing") == []


@pytest.mark.usefixtures("path")
def test_what_a_turn_may_not_see_is_not_found(parts: Parts) -> None:
    parts.fill(MEMORIES, memories(300, scope_id="ben"))
    of_anna = Turn(user_id="anna").sees()

    found = parts.search(limit=100, visibility=of_anna)

    assert found == [f"{i:04}" for i in range(297)]


@pytest.mark.usefixtures("path")
def test_deleted_records_make_room_for_others(parts: Parts) -> None:
    """Their vectors may still be there: they are removed a moment later."""
    parts.fill(MEMORIES, memories(600))
    parts.store.delete([f"{i:04}" for i in range(590)])

    assert parts.search() == [f"{i:04}" for i in range(590, 600)]


def test_tool_output_between_does_not_starve_what_was_said(parts: Parts) -> None:
    said = [
        Message(
            id=f"{i:04}",
            session_key="s",
            role="user" if i >= 595 else "tool",
            content=f"text {i}",
        )
        for i in range(600)
    ]
    parts.fill(MESSAGES, said)

    assert parts.search(MESSAGES) == ["0595", "0596", "0597", "0598", "0599"]


def test_both_ways_find_the_same_in_the_same_order(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        memory.model_copy(update={"type": "odd" if i % 2 else "even"})
        for i, memory in enumerate(memories(400))
    ]
    parts.fill(MEMORIES, records)
    exact = parts.search(type="odd", limit=20)

    monkeypatch.setattr(selection, "few_at_most", lambda _: 0)
    widening = parts.search(type="odd", limit=20)

    assert exact == [f"{i:04}" for i in range(1, 121, 2)]
    assert widening == exact


def widening(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, **filters: Any
) -> tuple[list[str], list[int]]:
    """Search; return what is found, and how many neighbours the index was asked for each time."""
    asked: list[int] = []
    query = VectorIndex.query

    def counting(
        self: VectorIndex, kind: RecordKind, vector: Vectors, k: int
    ) -> list[tuple[str, float]]:
        asked.append(k)
        return query(self, kind, vector, k)

    with monkeypatch.context() as patched:
        patched.setattr(selection, "few_at_most", lambda _: 0)
        patched.setattr(VectorIndex, "query", counting)
        return parts.search(**filters), asked


class TestFarAway:
    """All that match lie farther from the query than most of what does not."""

    @pytest.fixture
    def far(self, parts: Parts) -> Parts:
        parts.fill(
            MEMORIES,
            [
                memory.model_copy(update={"type": "far" if i >= 3000 else "near"})
                for i, memory in enumerate(memories(3400))
            ],
            copied=True,
        )
        with parts.database.write() as connection:
            parts.database.set_meta(connection, EMBEDDING_MODEL, "m")
        return parts

    def test_all_that_match_are_compared_before_most_of_the_rest_is_asked_for(
        self, far: Parts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found, asked = widening(far, monkeypatch, type="far")
        assert sum(asked) < 1000
        assert found == [f"{i:04}" for i in range(3000, 3060)]

    def test_what_waits_for_its_vector_makes_it_no_dearer(
        self, far: Parts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, before = widening(far, monkeypatch, type="far")
        far.store.save(MEMORIES, [Memory(id="3000", content="changed", type="far")])

        found, asked = widening(far, monkeypatch, type="far")
        assert asked == before
        assert found == [f"{i:04}" for i in range(3001, 3061)]

    def test_vectors_without_copies_are_found_nonetheless(
        self, far: Parts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with far.database.write() as connection:
            connection.execute("DELETE FROM memories_vectors WHERE seq % 2")

        found, asked = widening(far, monkeypatch, type="far")
        assert sum(asked) > 3000
        assert found == [f"{i:04}" for i in range(3000, 3060)]


@pytest.mark.usefixtures("path")
def test_records_whose_vectors_wait_are_passed_over(parts: Parts) -> None:
    parts.fill(MEMORIES, memories(300, type="rare"))
    parts.store.save(MEMORIES, [Memory(id="waiting", content="new", type="rare")])

    assert parts.search(type="rare") == ["0297", "0298", "0299"]


def test_the_similarity_of_chosen_records(parts: Parts) -> None:
    parts.fill(MEMORIES, memories(5))
    request = SearchRequest(MEMORIES, "query", 5)

    found = parts.nearest.similarities(request, QUERY, ["0000", "0002", "0004", "missing"])

    assert found == pytest.approx({"0000": 1, "0002": 0, "0004": -1}, abs=1e-6)
