"""Nearest-neighbour files that are torn or garbled, on which Chroma itself crashes its process.

A memory opens in spite of them, without a crash, answers by keyword, and has its vectors again
after a sync.
"""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import RemoteMemory
from workers import text_of

from langchain_agentmem import AgentMemory, Memory
from langchain_agentmem.storage.index_files import IndexFiles

COUNT = 1200
"""Enough for Chroma to write its index to files, which it does every 1,000 vectors."""
SOME = list(range(0, COUNT, 60))
FILES = ("header.bin", "data_level0.bin", "length.bin", "link_lists.bin", "index_metadata.pickle")


def shorten(part: float) -> Callable[[bytes], bytes]:
    return lambda content: content[: int(len(content) * part)]


def zero_the_end(content: bytes) -> bytes:
    half = len(content) // 2
    return content[:half] + bytes(len(content) - half)


def flip_some_bytes(content: bytes) -> bytes:
    dice = random.Random(len(content))  # noqa: S311
    changed = bytearray(content)
    for _ in range(5):
        changed[dice.randrange(len(changed))] ^= 0xFF
    return bytes(changed)


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "deleted": lambda _: None,
    "empty": shorten(0),
    "cut to a twentieth": shorten(0.05),
    "cut in half": shorten(0.5),
    "cut at the end": shorten(0.99),
    "zeros": lambda content: bytes(len(content)),
    "zeros from the middle": zero_the_end,
    "ones": lambda content: b"\xff" * len(content),
    "random": lambda content: random.Random(1).randbytes(len(content)),  # noqa: S311
    "some bytes flipped": flip_some_bytes,
    "longer": lambda content: content + content[:5000],
}
CRASHES = [
    ("header.bin", "zeros from the middle"),
    ("data_level0.bin", "random"),
    ("link_lists.bin", "zeros"),
]
"""Damages on which Chroma is known to crash."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory with an index on disk that is as it should be."""
    folder = tmp_path_factory.mktemp("sound") / "m"
    with AgentMemory.open(folder, embedding="local") as memory:
        memory.add_memories([Memory(id=f"m{n}", content=text_of(n)) for n in range(COUNT)])
    assert len(list((folder / "chroma").glob("*/header.bin"))) == 1
    return folder


def garble(folder: Path, name: str, damage: str) -> None:
    (path,) = (folder / "chroma").glob(f"*/{name}")
    content = DAMAGES[damage](path.read_bytes())
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


def check_usable(folder: Path) -> None:
    """A memory in another process opens the folder, lives, answers and comes level."""
    with RemoteMemory(folder) as memory:
        assert memory("missing", numbers=SOME, by="keyword") == []
        synced = memory("sync")
        assert (synced["pending"], synced["problem"]) == (0, None)
        assert memory("missing", numbers=SOME, by="vector") == []
        assert [finding for finding in memory("check") if not finding[1]] == []
        memory("add", first=COUNT, count=1)
        assert memory("missing", numbers=[COUNT], by="vector") == []
        memory.close()
        assert memory.process.returncode == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "damage"), CRASHES)
def test_an_index_that_crashes_chroma_is_made_anew(
    sound: Path, tmp_path: Path, name: str, damage: str
) -> None:
    folder = shutil.copytree(sound, tmp_path / "m")
    garble(folder, name, damage)
    check_usable(folder)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_no_damage_of_the_index_files_ends_a_process(
    sound: Path, tmp_path: Path, name: str, damage: str
) -> None:
    folder = shutil.copytree(sound, tmp_path / "m")
    garble(folder, name, damage)
    check_usable(folder)


def no_room_for_a_copy(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / "chroma.trial").touch()


def a_python_that_fails(folder: Path, patch: pytest.MonkeyPatch) -> None:
    python = folder / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o700)
    patch.setattr("langchain_agentmem.storage.index_files.get_executable", lambda: str(python))


def no_python(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("langchain_agentmem.storage.index_files.get_executable", lambda: "/bin/agent")


@pytest.mark.parametrize("hinder", [no_room_for_a_copy, a_python_that_fails, no_python])
def test_an_index_that_could_not_be_tried_out_is_tried_out_at_the_next_opening(
    sound: Path, tmp_path: Path, hinder: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    folder = shutil.copytree(sound, tmp_path / "m")
    (folder / "chroma.seal").unlink()
    with pytest.MonkeyPatch.context() as patch:
        hinder(folder, patch)
        with AgentMemory.open(folder, embedding="local") as memory:
            assert memory.search_memories(text_of(1)).strategy == "hybrid"
            memory.add_memory("one more")
    assert not IndexFiles(folder / "chroma").is_sealed()

    (folder / "chroma.trial").unlink(missing_ok=True)
    AgentMemory.open(folder, embedding="local").close()
    assert IndexFiles(folder / "chroma").is_sealed()


def state(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of the index files; a folder that changes meanwhile has none."""
    try:
        paths = sorted((folder / "chroma").glob("*/*"))
        return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    except OSError:
        return []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_writers_killed_while_chroma_writes_its_files_harm_nothing(
    tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311
    written = 0
    for _ in range(5):
        writer = RemoteMemory(tmp_path / "m")
        before = state(tmp_path / "m")
        for _ in range(4):
            writer.send("add", first=written, count=500)
            written += 500
        while state(tmp_path / "m") == before:
            assert writer.process.poll() is None
        time.sleep(dice.choice([0, 0.001, 0.002, 0.004, 0.008]))
        writer.kill()
        with RemoteMemory(tmp_path / "m") as memory:
            there = memory("status")["memories"]
            assert there <= written
            written = there
            assert memory("sync")["pending"] == 0
            assert [finding for finding in memory("check") if not finding[1]] == []
            some = sorted(dice.sample(range(written), min(written, 30)))
            assert memory("missing", numbers=some, by="vector") == []
