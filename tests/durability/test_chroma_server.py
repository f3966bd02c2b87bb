"""With a Chroma server every process searches by vector, and the server may die and come back."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromadb
import processes
import pytest
from processes import ChromaServer, RemoteMemory
from workers import missing, text_of

from langchain_agentmem import AgentMemory, Memory, MemoryHit, SearchResult
from langchain_agentmem.integrations.imports import import_lines
from langchain_agentmem.interchange import Line


@pytest.fixture
def chroma(tmp_path: Path) -> Iterator[ChromaServer]:
    with ChromaServer(tmp_path / "server") as running:
        yield running


def open_memory(folder: Path, chroma: ChromaServer, timeout: float = 5.0) -> AgentMemory:
    client = chromadb.HttpClient(host="127.0.0.1", port=chroma.port)
    return AgentMemory.open(folder, embedding="local", chroma_client=client, timeout=timeout)


def add(memory: AgentMemory, *numbers: int) -> int:
    return memory.add_memories([Memory(id=f"m{n}", content=text_of(n)) for n in numbers]).pending


def test_vectors_that_missed_changes_made_elsewhere_are_made_anew(
    tmp_path: Path, chroma: ChromaServer
) -> None:
    folder = tmp_path / "m"
    with open_memory(folder, chroma) as memory:
        assert add(memory, 1, 2) == 0
    with AgentMemory.open(folder, embedding="local") as memory:  # the vectors in its own folder
        assert memory.sync().pending == 0
        memory.update_memory("m1", content=text_of(3))
    for _ in range(2):  # to the server, and back: as many vectors in both places
        with open_memory(folder, chroma) as memory:
            assert memory.status().pending == 2
            assert memory.sync().pending == 0
            found = memory.search_memories(text_of(3), limit=1).results[0]
            assert (found.id, round(found.similarity or 0, 3)) == ("m1", 1.0)
        with open_memory(folder, chroma) as memory:
            assert memory.status().pending == 0, "nothing is made anew without need"
        with AgentMemory.open(folder, embedding="local") as memory:
            assert memory.status().pending == 2
            assert memory.rebuild_vectors().pending == 0
        with AgentMemory.open(folder, embedding="local") as memory:
            assert memory.status().pending == 0, "nothing is made anew without need"


def check_four_writers(folder: Path, chroma: ChromaServer, count: int) -> None:
    assert processes.write_together(folder, count, port=chroma.port) == 4 * count
    numbers = list(range(4 * count))
    with (
        RemoteMemory(folder, port=chroma.port) as one,
        RemoteMemory(folder, port=chroma.port) as two,
    ):
        assert one("sync")["pending"] == 0
        for reader in (one, two):
            reader.send("missing", numbers=numbers, by="vector")
        assert [reader.answer() for reader in (one, two)] == [[], []]
    state = processes.evidence(folder, port=chroma.port)
    assert len(state["memories"]) == 4 * count
    assert state["memories_nearest"] == state["memories_vectors"] == state["memories"]


def test_what_four_processes_write_each_finds_by_vector(
    tmp_path: Path, chroma: ChromaServer
) -> None:
    check_four_writers(tmp_path / "m", chroma, 40)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_four_processes_write_each_finds_by_vector_300(
    tmp_path: Path, chroma: ChromaServer
) -> None:
    check_four_writers(tmp_path / "m", chroma, 300)


def test_a_killed_server_costs_nothing_but_vectors_until_it_is_back(
    tmp_path: Path, chroma: ChromaServer
) -> None:
    with open_memory(tmp_path / "m", chroma) as memory:
        assert add(memory, 1, 2) == 0
        memory.search_memories(text_of(1))
        chroma.kill()
        found = memory.search_memories(text_of(2))
        assert found.results[0].id == "m2"
        assert found.strategy == "fts"
        assert "vector search failed" in found.notes[0]
        assert add(memory, 3) == 1
        assert memory.delete("m1") == 1
        assert memory.status().pending == 2
        assert "vectors could not be written" in " ".join(memory.status().problems)
        chroma.start()
        assert memory.sync().pending == 0
        assert missing(memory, [2, 3], by="vector") == []
        assert [finding for finding in memory.check() if not finding.ok] == []


def test_a_server_that_came_back_empty_is_filled_again(
    tmp_path: Path, chroma: ChromaServer
) -> None:
    with open_memory(tmp_path / "m", chroma) as memory:
        add(memory, 1, 2)
    chroma.kill()
    chroma.folder = tmp_path / "another"
    chroma.start()
    with open_memory(tmp_path / "m", chroma) as memory:
        assert memory.status().pending == 2
        memory.sync()
        assert missing(memory, [1, 2], by="vector") == []


def asks_vectors_again(memory: AgentMemory) -> bool:
    """Whether searches ask the vector index once more, before one loses patience."""
    give_up = time.monotonic() + 60
    while memory.search_memories(text_of(1)).strategy not in ("hybrid", "embedding"):
        if time.monotonic() > give_up:
            return False
    return True


@pytest.mark.parametrize("options", [{}, {"diversity": 0.5}, {"min_similarity": 0.1}])
async def test_a_frozen_server_holds_up_no_search(
    tmp_path: Path, chroma: ChromaServer, options: dict[str, Any]
) -> None:
    with open_memory(tmp_path / "m", chroma, timeout=0.5) as memory:
        add(memory, 1, 2)

        def search(number: int) -> SearchResult[MemoryHit]:
            return memory.search_memories(text_of(number), **options)

        with chroma.frozen():
            for _ in range(2):
                started = time.monotonic()
                found = await asyncio.gather(
                    *(memory.asearch_memories(text_of(1), **options) for _ in range(20)),
                    *(asyncio.to_thread(search, 2) for _ in range(20)),
                )
                assert time.monotonic() - started < 10
                assert [each.results[0].id for each in found] == ["m1"] * 20 + ["m2"] * 20
                assert all(each.notes[0].startswith("vector search ") for each in found)
                assert not any("the embedding model" in " ".join(each.notes) for each in found)
        assert asks_vectors_again(memory)
        assert add(memory, 3) == 0


async def test_a_server_that_freezes_beneath_a_search_holds_it_up_no_longer(
    tmp_path: Path, chroma: ChromaServer
) -> None:
    """What few records can be is compared in the database; Chroma is asked for what is beside."""
    query = "kitten zanzibar"
    with open_memory(tmp_path / "m", chroma, timeout=0.5) as memory:
        memory.add_memories(
            [Memory(content=f"cats and kittens number {n}", type="few") for n in range(90)]
            + [Memory(content="Interest rates rose again, says zanzibar", type="few")]
            + [Memory(content=f"something else {n}", type="many") for n in range(200)]
        )
        with chroma.frozen():
            for name, value in (("diversity", 0.5), ("min_similarity", -1.0)):
                options: dict[str, Any] = {"type": "few", name: value}
                memory._pipeline._branch._patience._overdue = None  # as if nothing had hung before
                many = [memory.asearch_memories(query, **options) for _ in range(20)]
                for found in await asyncio.gather(*many):
                    assert found.total == 5
                    assert any(note.startswith(f"{name} could not") for note in found.notes)
                found = memory.search_memories(query, **options)
                assert found.total == 5
        assert asks_vectors_again(memory)
        calm = memory.search_memories(query, type="few", diversity=0.5, min_similarity=-1.0)
        assert calm.notes == []


def test_a_frozen_server_holds_up_no_write(
    tmp_path: Path, chroma: ChromaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langchain_agentmem.storage.vectors.WRITE_SECONDS", 1.0)
    with open_memory(tmp_path / "m", chroma, timeout=0.5) as memory:
        assert add(memory, 1) == 0
        with chroma.frozen():
            report = memory.add_memories([Memory(id="m2", content=text_of(2))])
            assert (report.saved, report.pending) == (1, 1)
            assert "takes too long" in (report.problem or "")
            assert add(memory, 3) == 2
            assert memory.delete("m1") == 1
            assert missing(memory, [2, 3], by="keyword") == []
        give_up = time.monotonic() + 60
        while memory.status().pending:
            memory.sync()
            assert time.monotonic() < give_up
        assert missing(memory, [2, 3], by="vector") == []
        assert [finding for finding in memory.check() if not finding.ok] == []


def test_a_frozen_server_holds_up_no_import_for_ever(
    tmp_path: Path, chroma: ChromaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langchain_agentmem.storage.vectors.WRITE_SECONDS", 0.5)
    monkeypatch.setattr("langchain_agentmem.integrations.imports._STALLED_SECONDS", 0.5)
    lines = [Line("file", n, Memory(id=f"m{n}", content=text_of(n))) for n in range(700)]
    with open_memory(tmp_path / "m", chroma) as memory:
        memory.add_memory("the first")
        with chroma.frozen():
            report = import_lines(memory, lines)
            assert (report.memories, report.pending) == (700, 700)
            assert "takes too long" in (report.problem or "")
        give_up = time.monotonic() + 60
        while (report := import_lines(memory, lines)).pending:
            assert time.monotonic() < give_up
        assert (report.duplicates, report.problem) == (700, None)
        assert missing(memory, list(range(0, 700, 50)), by="vector") == []


def test_a_frozen_server_holds_up_no_opening(
    tmp_path: Path, chroma: ChromaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langchain_agentmem.storage.patience.SECONDS", 1.0)
    with open_memory(tmp_path / "m", chroma) as memory:
        assert add(memory, 1) == 0
    client = chromadb.HttpClient(host="127.0.0.1", port=chroma.port)
    with chroma.frozen():
        started = time.monotonic()
        memory = AgentMemory.open(tmp_path / "m", embedding="local", chroma_client=client)
        assert time.monotonic() - started < 10
        (problem,) = memory.status().problems
        assert "Chroma did not answer within 1 s" in problem
        found = memory.search_memories(text_of(1))
        assert (found.strategy, [hit.id for hit in found.results]) == ("fts", ["m1"])
        assert add(memory, 2) == 1
        assert "Chroma still owes an earlier answer" in (memory.sync().problem or "")
    with memory:
        assert asks_vectors_again(memory)
        assert memory.sync().pending == 0
        assert missing(memory, [1, 2], by="vector") == []
        assert memory.status().problems == []


async def test_an_asynchronous_client_is_refused(tmp_path: Path, chroma: ChromaServer) -> None:
    client = await chromadb.AsyncHttpClient(host="127.0.0.1", port=chroma.port)
    with pytest.raises(TypeError, match="asynchronous Chroma clients are not supported"):
        AgentMemory.open(tmp_path / "m", embedding="local", chroma_client=client)
    coroutine = chromadb.AsyncHttpClient(host="127.0.0.1", port=chroma.port)
    with pytest.raises(TypeError, match="asynchronous Chroma clients are not supported"):
        AgentMemory.open(tmp_path / "m", embedding="local", chroma_client=coroutine)
    coroutine.close()
