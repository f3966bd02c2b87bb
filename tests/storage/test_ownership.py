"""Which process may use the vector index of a folder: one, with all its memories."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from filelock import Timeout

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage import ownership
from langchain_agentmem.storage.folder import OWNER_LOCK, TURN_LOCK
from langchain_agentmem.storage.ownership import Ownership, turns

# The module alone: importing the package takes seconds.
HOLD = """
import importlib.util
import sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("ownership", sys.argv[1])
ownership = sys.modules["ownership"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ownership)
owner = ownership.Ownership(Path(sys.argv[2]))
print(owner.acquire(), flush=True)
sys.stdin.readline()
owner.release()
print("released", flush=True)
sys.stdin.readline()
"""


@contextmanager
def other_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that asks for the ownership, and gives it up at a line of input."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, ownership.__file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_the_memories_of_one_process_share_it(tmp_path: Path) -> None:
    one, other = Ownership(tmp_path), Ownership(tmp_path)

    assert one.acquire()
    assert other.acquire()
    assert one.acquire()  # again is fine
    one.release()
    with other_process(tmp_path) as process:
        assert said(process) == "False"  # the other memory has it still
    other.release()
    other.release()
    with other_process(tmp_path) as process:
        assert said(process) == "True"


def test_folders_have_owners_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    owner = Ownership(tmp_path / "a")
    assert owner.acquire()

    with other_process(tmp_path / "b") as process:
        assert said(process) == "True"
        assert not Ownership(tmp_path / "b").acquire()
    owner.release()


def test_a_folder_is_the_same_by_any_of_its_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    monkeypatch.chdir(tmp_path)
    owners = [Ownership(Path("folder")), Ownership(tmp_path / "link")]
    assert all(owner.acquire() for owner in owners)

    owners[0].release()

    with other_process(tmp_path / "folder") as process:
        assert said(process) == "False"
    owners[1].release()


def test_another_process_is_kept_out_until_it_is_released(tmp_path: Path) -> None:
    mine = Ownership(tmp_path)
    with other_process(tmp_path) as process:
        assert said(process) == "True"
        assert not mine.acquire()
        assert not mine.acquire()

        tell(process)
        assert said(process) == "released"

        assert mine.acquire()
    mine.release()


def test_the_end_of_a_process_releases_it_however_it_ends(tmp_path: Path) -> None:
    mine = Ownership(tmp_path)
    with other_process(tmp_path) as process:
        assert said(process) == "True"
        assert not mine.acquire()

        process.send_signal(signal.SIGKILL)
        process.wait(30)

        assert mine.acquire()
    mine.release()


def test_releasing_what_one_does_not_have_takes_it_from_nobody(tmp_path: Path) -> None:
    owner, stranger = Ownership(tmp_path), Ownership(tmp_path)
    assert owner.acquire()

    stranger.release()

    with other_process(tmp_path) as process:
        assert said(process) == "False"
    owner.release()


def test_threads_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    refused: list[int] = []

    def work(worker: int) -> None:
        for _ in range(50):
            owner = Ownership(tmp_path)
            if not owner.acquire():
                refused.append(worker)
            owner.release()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert refused == []
    assert str(tmp_path / OWNER_LOCK) not in ownership._held
    with other_process(tmp_path) as process:
        assert said(process) == "True"


@pytest.mark.parametrize("name", [OWNER_LOCK, TURN_LOCK])
def test_the_files_of_the_locks_are_private(tmp_path: Path, name: str) -> None:
    owner = Ownership(tmp_path)
    with turns(tmp_path)():
        assert owner.acquire()
        assert (tmp_path / name).stat().st_mode & 0o077 == 0
    owner.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_owns_nothing_and_takes_nothing_away(tmp_path: Path) -> None:
    owner = Ownership(tmp_path)
    assert owner.acquire()
    child = os.fork()
    if child == 0:
        owner.release()  # which is the parent's
        os._exit(int(Ownership(tmp_path).acquire()))
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    with other_process(tmp_path) as process:
        assert said(process) == "False"
    owner.release()


def test_one_at_a_time_has_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "TURN_TIMEOUT_SECONDS", 0.1)
    with turns(tmp_path)():
        started = time.monotonic()
        with pytest.raises(Timeout):
            turns(tmp_path)()
        assert 0.1 <= time.monotonic() - started < 10
    with turns(tmp_path)():
        pass


def test_memories_of_one_process_share_their_vectors(tmp_path: Path) -> None:
    with (
        AgentMemory.open(tmp_path, embedding="local") as one,
        AgentMemory.open(tmp_path, embedding="local") as other,
    ):
        one.add_memory("The kitten naps on the couch")
        found = other.search_memories("a sleeping cat")

        assert (found.strategy, found.total, found.notes) == ("embedding", 1, [])
        one.close()
        assert other.search_memories("a sleeping feline").total == 1


def test_a_memory_takes_the_index_over_when_its_owner_is_gone(tmp_path: Path) -> None:
    with other_process(tmp_path) as process:
        assert said(process) == "True"
        with closing(AgentMemory.open(tmp_path, embedding="local")) as memory:
            report = memory.add_memories([])
            memory.add_memory("The kitten naps on the couch")
            result = memory.search_memories("kitten")
            status = memory.status()

            assert (result.strategy, result.total) == ("fts", 1)
            assert "another process has the vector index of this folder" in result.notes[0]
            assert report.problem == result.notes[0] == status.problems[0]
            assert (status.strategy, status.pending) == ("fts", 1)
            assert not (tmp_path / "chroma").exists()

            process.kill()
            process.wait(30)

            assert memory.sync().indexed == 1
            found = memory.search_memories("a sleeping cat")
            assert (found.strategy, found.total, found.notes) == ("embedding", 1, [])
