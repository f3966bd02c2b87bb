"""What readers of files read is saved as far as it can be, and the rest is named."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.batches import LONGEST_BATCH
from langchain_agentmem.errors import ScopeError
from langchain_agentmem.integrations import imports
from langchain_agentmem.integrations.imports import import_lines, save_lines
from langchain_agentmem.interchange import Line

NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)
BEN: dict[str, Any] = {"configurable": {"user_id": "ben"}}


def line(number: int, kind: str, scope: str = "user") -> Line:
    """A line whose record is the turn's only where the turn names such a scope."""
    fields: dict[str, Any] = {"content": f"text {number}", "scope": scope}
    if kind == "memory":
        return Line("file", number, Memory(**fields))
    said = Message(role="user", session_key="s", recorded_at=NOON, **fields)
    return Line("file", number, said)


@pytest.fixture
def memory() -> Iterator[AgentMemory]:
    with AgentMemory.in_memory(embedding="none") as opened:
        yield opened


@pytest.mark.parametrize("kind", ["memory", "message"])
@pytest.mark.parametrize("bad", [{1}, {7}, {1, 2, 3}, {2, 5, 9}, set(range(1, 11))])
def test_what_the_turn_cannot_own_is_named_and_the_rest_is_kept(
    memory: AgentMemory, kind: str, bad: set[int]
) -> None:
    lines = [line(n, kind, "organization" if n in bad else "user") for n in range(1, 11)]

    report = import_lines(memory, lines, config=BEN)

    assert (report.saved, report.skipped) == (10 - len(bad), len(bad))
    needs = 'scope "organization" needs config["configurable"]["organization_id"]'
    assert report.problems == [f"file:{n}: {needs}" for n in sorted(bad)]
    again = import_lines(memory, lines, config=BEN)
    assert (again.saved, again.duplicates, again.skipped) == (0, 10 - len(bad), len(bad))


def test_both_kinds_are_saved_and_counted(memory: AgentMemory) -> None:
    done: list[int] = []
    lines = [line(1, "memory"), line(2, "message"), Line("file", 3, None, "is bad")]
    report = save_lines(memory, lines, progress=done.append)

    assert (report.memories, report.messages, report.skipped) == (1, 1, 1)
    assert (report.problems, done) == (["file:3: is bad"], [3])


def test_a_turn_that_may_save_nothing_is_told_so() -> None:
    with (
        AgentMemory.in_memory(embedding="none", require_scope=True) as memory,
        pytest.raises(ScopeError, match="user_id"),
    ):
        import_lines(memory, [line(n, "memory") for n in range(10)], config={})


@pytest.mark.parametrize(("seconds", "sizes"), [(1e9, [2, 4, 4]), (0.0, [2, 2, 2, 2, 2])])
def test_batches_grow_as_long_as_they_are_quick(
    keyword_memory: AgentMemory, monkeypatch: pytest.MonkeyPatch, seconds: float, sizes: list[int]
) -> None:
    monkeypatch.setattr(imports, "_BATCH", 2)
    monkeypatch.setattr(imports, "_LARGEST_BATCH", 4)
    monkeypatch.setattr(imports, "_QUICK_SECONDS", seconds)
    lines = [Line("file", n, Memory(content=f"fact {n}")) for n in range(10)]
    done: list[int] = []

    report = save_lines(keyword_memory, lines, progress=done.append)

    assert (done, report.memories) == (sizes, 10)


def test_a_batch_that_takes_long_is_followed_by_a_smaller_one(
    keyword_memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "_BATCH", 2)
    monkeypatch.setattr(imports, "_QUICK_SECONDS", 1e9)
    lines = [Line("file", n, Memory(content=f"fact {n}")) for n in range(20)]
    done: list[int] = []

    def slow_down_after_4(count: int) -> None:
        done.append(count)
        if count == 4:
            monkeypatch.setattr(imports, "_QUICK_SECONDS", 0.0)

    assert save_lines(keyword_memory, lines, progress=slow_down_after_4).memories == 20
    assert done == [2, 4, 8, 4, 2]


def test_long_texts_make_small_batches(keyword_memory: AgentMemory) -> None:
    half = "x" * (LONGEST_BATCH // 2)
    texts = ["a", half, half, "b", f"{half} {half}", "c"]
    lines = [Line("file", n, Memory(content=text)) for n, text in enumerate(texts)]
    done: list[int] = []

    assert save_lines(keyword_memory, lines, progress=done.append).memories == 5
    assert done == [3, 2, 1]
