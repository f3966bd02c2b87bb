"""What there is, is counted: by kind, owner and month, deleted or waiting, and on disk."""

from pathlib import Path

import pytest
from two_owners import ANN, fill_for_two

from langchain_agentmem import AgentMemory, Message


@pytest.fixture
def filled(keyword_memory: AgentMemory) -> AgentMemory:
    fill_for_two(keyword_memory)
    return keyword_memory


def test_everything_is_counted(filled: AgentMemory) -> None:
    (tea,) = filled.search_memories("tea").results
    filled.add_memory("to be forgotten", id="gone")
    filled.delete("gone")

    counted = filled.stats()

    assert (counted.memories.total, counted.messages.total) == (3, 3)
    assert (counted.memories.deleted, counted.messages.deleted) == (1, 0)
    assert counted.memories.pending == 0
    assert counted.memories.last == tea.created_at
    assert counted.memories.by["type"].most == {"episodic": 3}
    assert counted.memories.by["scene"].most == {"": 2, "home": 1}
    assert counted.memories.by["scope"].most == {"user": 1, "user ann": 1, "user ben": 1}
    assert counted.messages.by["role"].most == {"user": 2, "tool": 1}
    assert counted.messages.by["session"].most == {"s": 3}
    assert counted.messages.by["month"].most == {"2026-01": 3}
    assert list(counted.sizes) == ["database"]
    assert counted.sizes["database"] > 10_000


def test_the_most_frequent_and_the_latest_are_told() -> None:
    with AgentMemory.in_memory(embedding="none") as memory:
        for month in range(1, 13):
            said = [
                Message(role="user", content=f"{n}", recorded_at=f"20{month + 10}-{month}-01")
                if month > 9
                else Message(role="user", content=f"{n}", recorded_at=f"20{month + 10}-0{month}-01")
                for n in range(month)
            ]
            memory.add_messages(f"s{month}", said)

        by = memory.stats(most=3).messages.by

    assert (by["session"].distinct, by["month"].distinct) == (12, 12)
    assert list(by["session"].most.items()) == [("s12", 12), ("s11", 11), ("s10", 10)]
    assert list(by["month"].most.items()) == [
        ("2020-10", 10),
        ("2021-11", 11),
        ("2022-12", 12),
    ]


@pytest.mark.parametrize(
    "moment",
    [
        "1969-12-31T23:59:59.999999Z",
        "2026-01-31T23:59:59.999999Z",
        "1969-12-31T23:59:59Z",
        "0001-01-01",
        "9999-12-31",
    ],
)
def test_any_time_has_its_month(moment: str) -> None:
    with AgentMemory.in_memory(embedding="none") as memory:
        memory.add_memory("x", created_at=moment)

        assert memory.stats().memories.by["month"].most == {moment[:7]: 1}


def test_a_turn_counts_what_it_sees(filled: AgentMemory) -> None:
    counted = filled.stats(config=ANN)

    assert (counted.memories.total, counted.messages.total) == (2, 2)
    assert counted.memories.by["scope"].most == {"user": 1, "user ann": 1}


def test_an_empty_memory_has_nothing() -> None:
    with AgentMemory.in_memory(embedding="none") as memory:
        counted = memory.stats()

    assert (counted.memories.total, counted.memories.first, counted.sizes) == (0, None, {})
    assert counted.memories.by["type"].most == {}


def test_vectors_that_are_missing_and_their_size_are_told(
    tmp_path: Path,
) -> None:
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        memory.add_memory("x")
    with AgentMemory.open(tmp_path / "m", embedding="local") as memory:
        assert memory.stats().memories.pending == 1
        memory.sync()
        counted = memory.stats()
    assert counted.memories.pending == 0
    assert counted.sizes["vectors"] > 0


async def test_the_async_twin_gives_the_same_as_json(filled: AgentMemory) -> None:
    counted = await filled.astats()

    data = counted.to_dict()
    assert data["memories"]["total"] == 3
    assert data["messages"]["first"] == "2026-01-01T00:00:00Z"


def test_a_number_that_makes_no_sense_is_named(filled: AgentMemory) -> None:
    with pytest.raises(ValueError, match="most must be a whole number of at least 1"):
        filled.stats(most=0)
