"""An import breaks off: repeated, it ends with all vectors written, or says why not."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import processes
import pytest
from servers.openai_embeddings import EmbeddingServer, Fault
from workers import missing, text_of

from langchain_agentmem import AgentMemory, EmbeddingSettings, ImportReport
from langchain_agentmem.integrations.histories import import_history
from langchain_agentmem.integrations.imports import import_lines, save_lines
from langchain_agentmem.interchange import read_records

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
    with open_again() as memory:
        server.fault = Fault(status=500, times=3)  # as often as a write asks
        report = import_lines(memory, read_records(file))
        assert report == ImportReport(memories=COUNT, indexed=COUNT)


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


@pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan"), True])
def test_an_unusable_time_limit_is_named(keyword_memory: AgentMemory, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        keyword_memory.sync(timeout=timeout)


@pytest.mark.skipif(os.name != "posix", reason="peaks are read as Unix tells them")
def test_memory_use_does_not_grow_with_the_length_of_texts(tmp_path: Path) -> None:
    """500 records of 200 kB each: 100 MB, of which a batch holds one."""
    file = tmp_path / "long.jsonl"
    words = " ".join(text_of(n) for n in range(4200))[:200_000]
    with file.open("w") as out:
        out.writelines(f"{json.dumps({'content': f'{n} {words}'})}\n" for n in range(500))

    (told,) = processes.run("import_long_texts", folder=str(tmp_path / "m"), file=str(file))

    assert told["saved"] == 500
    assert told["grown"] < 100
