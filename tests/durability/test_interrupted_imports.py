"""An import breaks off: repeated, it ends with all vectors written, or says why not."""

import json
import os
import signal
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from threading import Timer

import processes
import pytest
from servers.openai_embeddings import EmbeddingServer, Fault
from workers import missing, text_of

from langchain_agentmem import AgentMemory, EmbeddingSettings, ImportReport, Memory
from langchain_agentmem.integrations.histories import import_history
from langchain_agentmem.integrations.imports import import_lines, save_lines, write_waiting_vectors
from langchain_agentmem.interchange import read_records
from langchain_agentmem.storage.vector_indexer import BACKLOG_PER_WRITE
from langchain_agentmem.storage.vectors import OWNED_ELSEWHERE

COUNT = 700
"""More than a batch has."""
Open = Callable[[], AgentMemory]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Memories in the interchange format."""
    path = tmp_path / "memories.jsonl"
    lines = ({"id": f"m{n}", "content": text_of(n)} for n in range(COUNT))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture
def open_again(tmp_path: Path, service_settings: EmbeddingSettings) -> Open:
    settings = service_settings.model_copy(update={"timeout": 2.0, "cool_down": 0})
    return lambda: AgentMemory.open(tmp_path / "m", embedding=settings)


def check_repeated(memory: AgentMemory, file: Path, *, indexed: int) -> None:
    report = import_lines(memory, read_records(file))

    assert report == ImportReport(duplicates=COUNT, indexed=indexed)
    assert missing(memory, list(range(0, COUNT, 50)), by="vector") == []
    assert [finding for finding in memory.check() if not finding.ok] == []


def test_what_failed_is_told_and_done_by_the_next_one(
    open_again: Open, server: EmbeddingServer, file: Path
) -> None:
    with open_again() as memory:
        server.fault = Fault(status=503)
        report = import_lines(memory, read_records(file))
        assert (report.memories, report.indexed, report.pending) == (COUNT, 0, COUNT)
        assert report.problems == []
        assert "HTTP status 503" in (report.problem or "")
        again = import_lines(memory, read_records(file))
        assert (again.duplicates, again.pending) == (COUNT, COUNT)
        assert "HTTP status 503" in (again.problem or "")
        server.fault = None
        check_repeated(memory, file, indexed=COUNT)


def test_a_failure_that_passes_leaves_nothing_to_do(
    open_again: Open, server: EmbeddingServer, file: Path
) -> None:
    one_batch = list(islice(read_records(file), 100))
    with open_again() as memory:
        server.fault = Fault(status=500, times=3)  # as often as a write asks
        report = import_lines(memory, one_batch)
        assert report == ImportReport(memories=100, indexed=100)


def test_a_text_that_cannot_be_embedded_is_named(
    open_again: Open, server: EmbeddingServer, file: Path
) -> None:
    with open_again() as memory:
        server.fault = Fault(poison=text_of(5))
        report = import_lines(memory, read_records(file))
        assert (report.memories, report.indexed, report.pending) == (COUNT, COUNT - 1, 1)
        assert "m5" in (report.problem or "")


def test_a_killed_import_goes_on_where_it_was(
    open_again: Open, server: EmbeddingServer, file: Path, tmp_path: Path
) -> None:
    server.fault = Fault(delay=60.0)
    worker = processes.start(
        "import_file", folder=str(tmp_path / "m"), file=str(file), url=server.base_url
    )
    assert worker.stdout is not None
    told = json.loads(worker.stdout.readline())
    worker.kill()
    worker.wait()
    server.fault = None
    with open_again() as memory:
        there = memory.status()
        assert there.memories >= told["saved"]
        assert there.pending == there.memories
        report = import_lines(memory, read_records(file))
        assert report.duplicates == there.memories
        assert (report.saved + report.duplicates, report.indexed) == (COUNT, COUNT)
        assert (report.pending, report.problem) == (0, None)
        check_repeated(memory, file, indexed=0)


def test_other_formats_are_finished_alike(
    open_again: Open, server: EmbeddingServer, tmp_path: Path
) -> None:
    talk = tmp_path / "talk.json"
    talk.write_text(json.dumps([{"type": "human", "content": text_of(1)}]))
    with open_again() as memory:
        server.fault = Fault(status=503)
        assert "HTTP status 503" in (import_history(memory, talk).problem or "")
        server.fault = None
        assert import_history(memory, talk) == ImportReport(duplicates=1, indexed=1)


def test_a_sync_that_gets_on_is_waited_for(
    open_again: Open, server: EmbeddingServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is waited for as long: the whole may take longer."""
    monkeypatch.setattr("langchain_agentmem.storage.vector_indexer._CHUNK", 100)
    with open_again() as memory:
        server.fault = Fault(status=503)
        save_lines(memory, read_records(file))
        server.fault = Fault(delay=0.4)  # of each of the 7 parts
        parts: list[int] = []
        report = memory.sync(lambda done, _: parts.append(done), timeout=2.5)
        assert (report.indexed, report.pending, report.problem) == (COUNT, 0, None)
        assert parts == list(range(100, COUNT + 1, 100))


def test_a_sync_that_was_given_up_holds_up_no_later_write(
    open_again: Open, server: EmbeddingServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes on alone is one part: after it, writes have their vectors again."""
    monkeypatch.setattr("langchain_agentmem.storage.vector_indexer._CHUNK", 100)
    with open_again() as memory:
        server.fault = Fault(status=503)
        save_lines(memory, read_records(file))
        server.fault = Fault(delay=1.0, times=1)
        report = memory.sync(timeout=0.2)
        assert (report.indexed, report.pending) == (0, COUNT)
        assert "takes too long" in (report.problem or "")
        memory._vectors._writers.outwait(20.0, lambda: 0)
        assert memory.status().pending == COUNT - 100, "the one part that was under way"
        report = memory.add_memories([Memory(id="new", content=text_of(COUNT))])
        assert (report.problem, report.pending) == (None, COUNT - 100 - BACKLOG_PER_WRITE)
        assert report.indexed == 100 + 1 + BACKLOG_PER_WRITE, "the part is counted, too"


def test_what_is_slow_and_gets_on_is_outwaited(
    open_again: Open, server: EmbeddingServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langchain_agentmem.storage.vector_indexer._CHUNK", 100)
    monkeypatch.setattr("langchain_agentmem.storage.vectors.WRITE_SECONDS", 0.2)
    monkeypatch.setattr("langchain_agentmem.integrations.imports._STALLED_SECONDS", 1.5)
    with open_again() as memory:
        server.fault = Fault(delay=0.4)  # so that the 7 parts take longer than either
        report = import_lines(memory, read_records(file))
        assert report == ImportReport(memories=COUNT, indexed=COUNT)


@pytest.mark.skipif(os.name != "posix", reason="there are no such signals")
def test_an_interrupted_sync_goes_on_with_one_part_alone(
    open_again: Open, server: EmbeddingServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langchain_agentmem.storage.vector_indexer._CHUNK", 100)
    with open_again() as memory:
        server.fault = Fault(status=503)
        save_lines(memory, read_records(file))
        server.fault = Fault(delay=1.0, times=1)
        former = signal.signal(signal.SIGUSR1, signal.default_int_handler)
        try:
            Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            with pytest.raises(KeyboardInterrupt):
                memory.sync(timeout=30)
        finally:
            signal.signal(signal.SIGUSR1, former)
        assert "takes too long" in (memory.sync(timeout=0.1).problem or "")
        memory._vectors._writers.outwait(20.0, lambda: 0)
        assert memory.status().pending == COUNT - 100
        check_repeated(memory, file, indexed=COUNT)


def test_what_was_saved_is_reported_though_the_memory_is_closed_meanwhile(
    open_again: Open, file: Path
) -> None:
    with open_again() as memory:
        report = save_lines(memory, read_records(file))
        memory.close()
        report = write_waiting_vectors(memory, report)
        assert report.memories == COUNT
        assert "is closed" in (report.problem or "")


def test_an_import_beside_the_owner_of_the_index_says_so(open_again: Open, file: Path) -> None:
    with open_again() as owner:
        owner.add_memory("the first")
        with open_again() as memory:
            report = import_lines(memory, read_records(file))
            assert report.memories == COUNT
            assert (report.pending, report.problem) in [(COUNT, OWNED_ELSEWHERE), (0, None)]


@pytest.mark.skipif(os.name != "posix", reason="peaks are read as Unix tells them")
@pytest.mark.parametrize("where", ["content", "metadata"])
def test_memory_use_does_not_grow_with_the_length_of_texts(tmp_path: Path, where: str) -> None:
    """500 records of 200 kB each: 100 MB, of which a batch holds one."""
    file = tmp_path / "long.jsonl"
    words = " ".join(text_of(n) for n in range(4200))[:200_000]
    with file.open("w") as out:
        for n in range(500):
            long = {"content": f"{n} {words}"}
            line = long if where == "content" else {"content": f"text {n}", "metadata": long}
            out.write(f"{json.dumps(line)}\n")

    (told,) = processes.run("import_long_texts", folder=str(tmp_path / "m"), file=str(file))

    assert told["saved"] == 500
    assert told["grown"] < 60
