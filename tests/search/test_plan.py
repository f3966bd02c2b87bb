"""What a search decides, told when asked; and what a search does not do each time anew."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_agentmem import AgentMemory, Memory
from langchain_agentmem.storage import selection
from langchain_agentmem.storage.vector_index import VectorIndex


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[AgentMemory]:
    with AgentMemory.open(tmp_path, embedding=DeterministicFakeEmbedding(size=8)) as opened:
        opened.add_memories(
            [
                Memory(
                    content=f"tea number {i}",
                    type="odd" if i % 2 else "even",
                    scene_name="shed" if i % 20 == 1 else "house",
                )
                for i in range(600)
            ]
        )
        yield opened


def test_a_plan_is_told_only_when_it_is_asked_for(memory: AgentMemory) -> None:
    silent = memory.search_memories("tea")
    told = memory.search_memories("tea", explain=True)

    assert silent.plan == []
    assert "plan" not in silent.to_dict()
    assert silent.results == told.results
    assert told.to_dict()["plan"] == told.plan
    assert [step.partition(":")[0] for step in sorted(told.plan)] == [
        "filters",
        "keywords",
        "vectors",
    ]


def test_few_records_are_looked_at_one_by_one(memory: AgentMemory) -> None:
    plan = " ".join(memory.search_memories("tea", scene="shed", explain=True).plan)

    assert "filters: 30 of about 600 memories match" in plan
    assert "keywords: each of the 30 was read" in plan
    assert "vectors: the query was compared with each of the 30" in plan


def test_keywords_are_ranked_where_no_more_hold_one_than_match_the_filter(
    memory: AgentMemory,
) -> None:
    result = memory.search_memories("tea 301 303 302", type="odd", explain=True)
    plan = " ".join(result.plan)

    assert "filters: 300 of about 600 memories match" in plan
    assert "keywords: all that holds a term of the query was ranked" in plan
    assert "vectors: the query was compared with each of the 300" in plan
    assert {hit.content for hit in result.results} >= {"tea number 301", "tea number 303"}
    assert all(int(hit.content.split()[-1]) % 2 for hit in result.results)


def test_of_many_the_nearest_are_asked_for(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "few_at_most", lambda _: 10)
    result = memory.search_memories("tea", type="odd", explain=True)
    plan = " ".join(result.plan)

    assert "% of about 600 memories match" in plan
    assert "nearest match" in plan
    assert result.total == 5


async def test_the_async_twin_tells_its_plan_too(memory: AgentMemory) -> None:
    told = (await memory.asearch_memories("tea", type="odd", explain=True)).plan

    assert sorted(told) == sorted(memory.search_memories("tea", type="odd", explain=True).plan)


def test_the_vectors_are_not_counted_at_each_search(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VectorIndex, "count", lambda *_: pytest.fail("Chroma counts by reading"))

    result = memory.search_memories("tea", type="odd")

    assert (result.strategy, result.notes) == ("hybrid", [])


def test_threads_are_kept_for_the_next_search(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.search_memories("tea")  # starts the one that is kept
    started: list[str] = []
    start = threading.Thread.start

    def noted(self: threading.Thread) -> None:
        started.append(self.name)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", noted)
    for i in range(30):
        memory.search_memories(f"tea number {i}")

    # The kept one may not be idle yet when the next search comes.
    assert len(started) <= 1
