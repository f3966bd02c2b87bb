"""The embedding service fails in every way: records are safe, searches go on, vectors follow."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Literal

import processes
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from pydantic import PrivateAttr
from servers.openai_embeddings import EmbeddingServer, Fault
from workers import missing, text_of

from langchain_agentmem import AgentMemory, EmbeddingSettings, Memory, WriteReport

LIMIT = 0.5
"""Seconds that a search gives to either of its halves here."""


@pytest.fixture
def memory(tmp_path: Path, service_settings: EmbeddingSettings) -> Iterator[AgentMemory]:
    """A memory whose vectors come over HTTP, with a first record that has one."""
    settings = service_settings.model_copy(update={"timeout": 2.0, "cool_down": 0})
    with AgentMemory.open(tmp_path / "m", embedding=settings, timeout=LIMIT) as opened:
        assert add(opened, 0).pending == 0
        yield opened


def add(memory: AgentMemory, *numbers: int) -> WriteReport:
    return memory.add_memories([Memory(id=f"m{n}", content=text_of(n)) for n in numbers])


def check_mended(memory: AgentMemory, server: EmbeddingServer, *numbers: int) -> None:
    server.fault = None
    report = memory.sync()
    assert (report.pending, report.problem) == (0, None)
    assert missing(memory, list(numbers), by="vector") == []
    assert [finding for finding in memory.check() if not finding.ok] == []


FAULTS = {
    "500": (Fault(status=500), "HTTP status 500"),
    "401": (Fault(status=401), "embedding.api_key"),
    "a hang": (Fault(delay=60.0), "did not answer in time"),
    "invalid JSON": (Fault(garbage=True), "JSONDecodeError"),
    "too few vectors": (Fault(drop=1), "vectors of shape"),
    "a wrong dimension": (Fault(wrong_dimension=7), "7 dimensions, and 256 before"),
    "NaN": (Fault(non_finite="nan"), "NaN or infinite"),
    "infinity": (Fault(non_finite="inf"), "NaN or infinite"),
    "zeros": (Fault(zeros=True), "a vector of zeros"),
    "a drip of bytes": (Fault(drip=0.5), "did not answer in time"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_neither_the_record_nor_the_search(
    memory: AgentMemory, server: EmbeddingServer, name: str
) -> None:
    server.fault, reason = FAULTS[name]
    report = add(memory, 1, 2)
    assert report.saved == 2
    assert report.pending == 2
    assert reason in (report.problem or "")
    status = memory.status()
    assert status.pending == 2
    assert reason in " ".join(status.problems)
    found = memory.search_memories(text_of(1))
    assert found.results[0].id == "m1"
    assert found.strategy == "fts"
    assert any(word in " ".join(found.notes) for word in ("the embedding model", "longer than"))
    check_mended(memory, server, 0, 1, 2)


@pytest.mark.parametrize("order", ["reversed", "all 0", "twice"])
def test_vectors_go_to_their_records_in_whatever_order_they_come(
    memory: AgentMemory, server: EmbeddingServer, order: Literal["reversed", "all 0", "twice"]
) -> None:
    server.fault = Fault(order=order)
    assert add(memory, *range(1, 21)).pending == 0
    check_mended(memory, server, *range(21))


def test_a_first_answer_of_the_wrong_dimension_is_not_the_rule_for_the_next(
    tmp_path: Path, server: EmbeddingServer, service_settings: EmbeddingSettings
) -> None:
    with AgentMemory.open(tmp_path / "m", embedding=service_settings) as memory:
        assert add(memory, 0).pending == 0
    with AgentMemory.open(tmp_path / "m", embedding=service_settings) as memory:
        server.fault = Fault(wrong_dimension=7)
        report = add(memory, 1)
        assert report.pending == 1
        assert "7" in (report.problem or "")
        server.fault = None
        assert add(memory, 2).pending == 0
        assert missing(memory, [0, 1, 2], by="vector") == []


def test_a_model_that_changed_its_dimension_has_its_vectors_made_anew(
    tmp_path: Path, server: EmbeddingServer, service_settings: EmbeddingSettings
) -> None:
    with AgentMemory.open(tmp_path / "m", embedding=service_settings) as memory:
        server.fault = Fault(wrong_dimension=7)
        assert add(memory, 0).pending == 0
        server.fault = None
        assert add(memory, 1).pending == 1
        assert memory.rebuild_vectors().pending == 0
        assert missing(memory, [0, 1], by="vector") == []


class Slow(DeterministicFakeEmbedding):
    """A model that hangs until it is let go."""

    _let_go: Event = PrivateAttr(default_factory=Event)

    def let_go(self) -> None:
        self._let_go.set()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        assert self._let_go.wait(60)
        return super().embed_documents(texts)


def test_a_model_that_hangs_holds_up_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langchain_agentmem.storage.vectors.WRITE_SECONDS", 0.5)
    model = Slow(size=8)
    with AgentMemory.open(tmp_path / "m", embedding=model) as memory:
        for number in range(3):
            report = add(memory, number)
            assert (report.saved, report.pending) == (1, number + 1)
            assert "takes too long" in (report.problem or "")
            assert memory.search_memories(text_of(number)).results[0].id == f"m{number}"
        model.let_go()
        monkeypatch.undo()  # half a second may be short for what no longer hangs, too
        # The write that was given up may still be ending, and none waits behind it.
        assert add(memory, 3).saved == 1
        give_up = time.monotonic() + 60
        while memory.status().pending:
            memory.sync()
            assert time.monotonic() < give_up
        for number in range(4):
            found = memory.search_memories(text_of(number)).results[0]
            assert (found.id, found.vector_rank) == (f"m{number}", 1)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(delay=600.0), id="hang"),
        pytest.param(Fault(drip=5.0), id="drip", marks=pytest.mark.slow),
    ],
)
def test_a_hanging_service_keeps_no_program_from_ending(
    tmp_path: Path, server: EmbeddingServer, fault: Fault
) -> None:
    server.fault = fault
    told = processes.run("leave_while_writing", folder=str(tmp_path / "m"), url=server.base_url)
    assert told == [{"saved": 1}]


def test_a_refused_connection(memory: AgentMemory, server: EmbeddingServer) -> None:
    server.stop()
    report = add(memory, 1)
    assert report.pending == 1
    assert "cannot be reached" in (report.problem or "")
    found = memory.search_memories(text_of(1))
    assert found.strategy == "fts"
    assert "cannot be reached" in found.notes[0]
    server.start()
    check_mended(memory, server, 0, 1)


def test_a_service_that_fails_once_is_asked_again_by_a_write(
    memory: AgentMemory, server: EmbeddingServer
) -> None:
    server.fault = Fault(status=500, times=1)
    assert add(memory, 1).pending == 0
    server.fault = Fault(status=429, retry_after=0.3, times=1)
    before = time.monotonic()
    assert add(memory, 2).pending == 0
    assert time.monotonic() - before > 0.3, "it waited as long as it was asked to"


def test_a_refused_key_is_not_tried_again(memory: AgentMemory, server: EmbeddingServer) -> None:
    server.fault = Fault(status=401)
    before = len(server.requests)
    add(memory, 1)
    assert len(server.requests) == before + 1


def test_an_input_limit_is_found_by_halving(memory: AgentMemory, server: EmbeddingServer) -> None:
    server.fault = Fault(max_inputs=10)
    report = add(memory, *range(1, 26))
    assert (report.indexed, report.pending) == (25, 0)
    assert missing(memory, list(range(26)), by="vector") == []


def test_one_poisonous_text_takes_no_other_with_it(
    memory: AgentMemory, server: EmbeddingServer
) -> None:
    server.fault = Fault(poison=text_of(5))
    report = add(memory, *range(1, 21))
    assert (report.indexed, report.pending) == (19, 1)
    assert "m5" in (report.problem or "")
    assert missing(memory, [n for n in range(21) if n != 5], by="vector") == []
    add(memory, 21)
    assert memory.status().pending == 1, "it holds up nobody"
    check_mended(memory, server, *range(22))


def test_the_next_write_brings_the_vectors_of_the_former_one(
    memory: AgentMemory, server: EmbeddingServer
) -> None:
    server.fault = Fault(status=503)
    assert add(memory, 1).pending == 1
    server.fault = None
    assert add(memory, 2).pending == 0
    assert missing(memory, [1, 2], by="vector") == []


def test_searches_drain_the_queue_a_little_at_a_time(
    memory: AgentMemory, server: EmbeddingServer
) -> None:
    server.fault = Fault(status=503)
    assert add(memory, *range(1, 41)).pending == 40
    server.fault = None
    give_up = time.monotonic() + 60
    while memory.status().pending:
        memory.search_memories("anything")
        assert time.monotonic() < give_up


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_search_waits_for_its_time_limit_and_the_next_ones_for_nothing(
    tmp_path: Path, server: EmbeddingServer, service_settings: EmbeddingSettings, way: str
) -> None:
    settings = service_settings.model_copy(update={"cool_down": 600})
    with AgentMemory.open(tmp_path / "m", embedding=settings, timeout=LIMIT) as memory:
        assert add(memory, 0).pending == 0
        server.fault = Fault(delay=60.0)

        async def search(query: str) -> str:
            if way == "sync":
                found = await asyncio.to_thread(memory.search_memories, query)
            else:
                found = await memory.asearch_memories(query)
            assert found.strategy == "fts"
            return " ".join(found.notes)

        assert f"took longer than {LIMIT} s" in await search(text_of(0))
        before = len(server.requests)
        assert f"no answer within {LIMIT} s" in await search(f"{text_of(0)} again")
        assert len(server.requests) == before, "the service is not asked during the cool-down"


async def test_many_searches_at_once_wait_no_longer_than_one(
    memory: AgentMemory, server: EmbeddingServer
) -> None:
    server.fault = Fault(delay=60.0)
    threads = [asyncio.to_thread(memory.search_memories, f"{text_of(0)} {n}") for n in range(24)]
    tasks = [memory.asearch_memories(f"{text_of(0)} {n}") for n in range(24, 48)]
    started = time.monotonic()
    found = await asyncio.gather(*threads, *tasks)
    assert time.monotonic() - started < 10
    assert {each.results[0].id for each in found} == {"m0"}


async def test_a_cancelled_write_is_whole_or_not_there(
    memory: AgentMemory, server: EmbeddingServer
) -> None:
    server.fault = Fault(delay=0.05)
    for batch in range(1, 9):
        numbers = range(batch * 10, batch * 10 + 10)
        records = [Memory(id=f"m{n}", content=text_of(n)) for n in numbers]
        task = asyncio.create_task(memory.aadd_memories(records))
        await asyncio.sleep(batch * 0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    server.fault = None
    assert (await memory.async_sync()).pending == 0
    there = [n for n in range(10, 90) if await memory.aget(f"m{n}")]
    assert len(there) % 10 == 0
    assert missing(memory, there, by="vector") == []
    assert [finding for finding in memory.check() if not finding.ok] == []


async def test_a_cancelled_search_harms_no_other(
    memory: AgentMemory, server: EmbeddingServer
) -> None:
    server.fault = Fault(delay=0.3)
    tasks = [asyncio.create_task(memory.asearch_memories(f"query {n}")) for n in range(20)]
    await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    server.fault = None
    assert (await memory.asearch_memories(text_of(0))).strategy == "hybrid"


def test_a_write_does_not_wait_for_the_end_of_a_long_sync(
    memory: AgentMemory, server: EmbeddingServer
) -> None:
    server.fault = Fault(status=503)
    add(memory, *range(1, 2600))
    server.fault = Fault(delay=0.1)
    with ThreadPoolExecutor() as other:
        sync = other.submit(memory.sync)
        time.sleep(0.2)
        report = add(memory, 5000)
        assert not sync.done(), "the write came between"
        assert report.saved == 1
        server.fault = None
        sync.result()
    check_mended(memory, server, 5000)
