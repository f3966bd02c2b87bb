"""Many processes, one folder: one owns the vector index, all write, all search by keyword."""

import time
from pathlib import Path

import processes
import pytest
from processes import RemoteMemory, write_together
from workers import keyword_of, missing, text_of

from langchain_agentmem import AgentMemory, Memory


def check_all_found(folder: Path, count: int) -> None:
    numbers = list(range(count))
    with AgentMemory.open(folder, embedding="local") as memory:
        assert memory.status().memories == count
        assert missing(memory, numbers, by="keyword") == []
        assert memory.sync().pending == 0
        assert missing(memory, numbers, by="vector") == []
    state = processes.evidence(folder)
    assert len(state["memories"]) == count
    assert state["memories_nearest"] == state["memories_vectors"] == state["memories"]


def test_four_writers_lose_nothing(tmp_path: Path) -> None:
    assert write_together(tmp_path / "m", 60) == 240
    check_all_found(tmp_path / "m", 240)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_four_writers_of_400_lose_nothing(tmp_path: Path) -> None:
    assert write_together(tmp_path / "m", 400) == 1600
    check_all_found(tmp_path / "m", 1600)


def test_six_first_openings_at_the_same_moment_all_succeed(tmp_path: Path) -> None:
    start = time.time() + 4
    openers = [
        processes.start("open_first", folder=str(tmp_path / "m"), start=start, number=number)
        for number in range(6)
    ]
    told = [processes.lines(opener) for opener in openers]
    assert [line["found"][0] for (line,) in told] == [f"m{number}" for number in range(6)]
    assert [opener.returncode for opener in openers] == [0] * 6


@pytest.mark.parametrize("end", ["closes", "is killed"])
def test_ownership_passes_on_when_the_owner(tmp_path: Path, end: str) -> None:
    owner = RemoteMemory(tmp_path / "m")
    with RemoteMemory(tmp_path / "m") as heir:
        assert owner("add", first=0, count=1)["pending"] == 0
        report = heir("add", first=1, count=1)
        assert report["pending"] == 1
        assert "another process has the vector index" in report["problem"]
        assert heir("status")["strategy"] == "fts"
        found = heir("search", query=keyword_of(0))
        assert found["strategy"] == "fts"
        assert "another process has the vector index" in found["notes"][0]
        if end == "closes":
            owner.close()
        else:
            owner.kill()
        report = heir("sync")
        assert report == {"pending": 0, "problem": None}
        assert heir("missing", numbers=[0, 1], by="vector") == []


def test_a_search_of_the_heir_takes_the_index_over_by_itself(tmp_path: Path) -> None:
    owner = RemoteMemory(tmp_path / "m")
    with RemoteMemory(tmp_path / "m") as heir:
        heir("add", first=1, count=1)
        owner.close()
        give_up = time.monotonic() + 60
        # The vector is found a moment before it is taken off the queue.
        while heir("missing", numbers=[1], by="vector") or heir("status")["pending"]:
            assert time.monotonic() < give_up
            time.sleep(0.1)


def test_a_search_that_does_not_own_the_index_is_never_stale_by_keyword(tmp_path: Path) -> None:
    with RemoteMemory(tmp_path / "m") as owner, RemoteMemory(tmp_path / "m") as other:
        for number in range(20):
            owner("add", first=number, count=1)
            assert other("missing", numbers=[number], by="keyword") == []
            other("add", first=100 + number, count=1)
            assert owner("missing", numbers=[100 + number], by="keyword") == []


def test_an_index_that_another_process_has_is_no_fault(tmp_path: Path) -> None:
    with RemoteMemory(tmp_path / "m") as owner, RemoteMemory(tmp_path / "m") as other:
        owner("add", first=0, count=1)
        for pending in (0, 1):
            for repair in (False, True):
                found = other("check", repair=repair)
                assert [ok for _, ok, _ in found] == [True] * len(found)
                assert "another process" in found[-1][2]
            assert other("add", first=10 + pending, count=1)["pending"] == pending + 1


def test_what_others_queued_the_owner_writes_while_it_searches_and_writes(tmp_path: Path) -> None:
    with RemoteMemory(tmp_path / "m") as owner, RemoteMemory(tmp_path / "m") as other:
        assert other("add", first=0, count=5)["pending"] == 5
        assert owner("add", first=100, count=1)["pending"] == 0, "a write drains the queue"
        assert other("add", first=5, count=5)["pending"] == 5
        give_up = time.monotonic() + 60
        while owner("missing", numbers=list(range(10)), by="vector"):
            assert time.monotonic() < give_up, "searches drain the queue"


def test_a_folder_opened_twice_in_one_process_works_in_both(tmp_path: Path) -> None:
    with (
        AgentMemory.open(tmp_path / "m", embedding="local") as first,
        AgentMemory.open(tmp_path / "m", embedding="local") as second,
    ):
        for number, memory in enumerate([first, second, first, second]):
            report = memory.add_memories([_memory(number)])
            assert (report.indexed, report.pending) == (1, 0)
        for memory in (first, second):
            assert missing(memory, [0, 1, 2, 3], by="keyword") == []
            assert missing(memory, [0, 1, 2, 3], by="vector") == []
            assert memory.status().problems == []
        first.close()
        second.add_memories([_memory(4)])
        assert second.search_memories(text_of(4)).strategy == "hybrid"
        assert missing(second, [0, 1, 2, 3, 4], by="vector") == []


def _memory(number: int) -> Memory:
    return Memory(id=f"m{number}", content=text_of(number))
