"""Eight writers and eight searchers share one memory: no error, no loss, no starving search."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from workers import keyword_of, missing, text_of

from langchain_agentmem import AgentMemory, Memory


def share(folder: Path, seconds: float) -> None:
    numbers = itertools.count()
    written: list[int] = []
    with AgentMemory.open(folder, embedding="local", timeout=30) as memory:
        stop_at = time.monotonic() + seconds

        def write() -> int:
            writes = 0
            while time.monotonic() < stop_at:
                number = next(numbers)
                report = memory.add_memories([Memory(id=f"m{number}", content=text_of(number))])
                assert (report.saved, report.problem) == (1, None)
                written.append(number)
                writes += 1
            return writes

        def search() -> int:
            searches = 0
            while time.monotonic() < stop_at:
                number = written[-1] if written else 0
                found = memory.search_memories(keyword_of(number))
                assert found.notes == [] or "wait" in found.notes[0]
                if written:
                    assert found.results[0].id == f"m{number}"
                searches += 1
            return searches

        with ThreadPoolExecutor(16) as threads:
            running = [threads.submit(work) for work in [write, search] * 8]
            assert all(thread.result() > 0 for thread in running)
        assert memory.sync().pending == 0
        assert missing(memory, written, by="keyword") == []
        assert missing(memory, written, by="vector") == []
        assert [finding for finding in memory.check() if not finding.ok] == []


def test_sixteen_threads_share_a_memory(tmp_path: Path) -> None:
    share(tmp_path / "m", seconds=5)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sixteen_threads_share_a_memory_for_a_minute(tmp_path: Path) -> None:
    share(tmp_path / "m", seconds=60)
