"""Vectors are written one batch behind, and nothing is lost or hidden by it."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_agentmem import AgentMemory, Memory
from langchain_agentmem.integrations.imports import import_lines
from langchain_agentmem.interchange import Line
from langchain_agentmem.storage.vector_indexer import Indexed
from langchain_agentmem.storage.write_behind import WriteBehind

FILE = Path("memories.jsonl")


def lines(count: int) -> list[Line]:
    return [
        Line(FILE, i, Memory(id=f"m{i}", content=f"memory number {i}")) for i in range(1, count + 1)
    ]


def test_a_batch_answers_with_what_became_of_the_one_before() -> None:
    with WriteBehind() as behind:
        answers = [behind.follow(partial(Indexed, n)).written for n in (1, 2, 3)]

    assert answers == [0, 1, 2]
    assert behind.last.written == 3


def test_the_next_batch_goes_on_while_one_is_written() -> None:
    next_one_is_saved = threading.Event()

    def write() -> Indexed:
        assert next_one_is_saved.wait(20)
        return Indexed(1)

    with WriteBehind() as behind:
        behind.follow(write)
        next_one_is_saved.set()  # which is not reached where `follow` waits for the end

    assert behind.last.written == 1


def test_a_failure_is_raised_where_the_next_batch_comes_or_the_work_ends() -> None:
    def fail() -> Indexed:
        msg = "no vectors"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="no vectors"), WriteBehind() as behind:
        behind.follow(fail)
    assert WriteBehind.current() is None


def test_an_import_writes_all_vectors_and_counts_them(tmp_path: Path) -> None:
    model = DeterministicFakeEmbedding(size=8)
    with AgentMemory.open(tmp_path, embedding=model) as memory:
        report = import_lines(memory, lines(1234))

        assert (report.memories, report.indexed, report.pending) == (1234, 1234, 0)
        assert memory.search_memories("memory number 1200").strategy == "hybrid"


def test_an_import_that_broke_off_goes_on_where_it_was(tmp_path: Path) -> None:
    broken: Any = [*lines(700), None]  # what cannot be read at all ends it
    with AgentMemory.open(tmp_path, embedding=DeterministicFakeEmbedding(size=8)) as memory:
        with pytest.raises(AttributeError):
            import_lines(memory, broken)
        report = import_lines(memory, lines(1234))

        assert (report.duplicates, report.memories, report.pending) == (500, 734, 0)
        assert memory.status().memories == 1234
