"""Storage that was deleted, garbled, filled up or write-protected.

Vectors are made anew from the database. The database itself is never overwritten: what cannot be
read is refused by name.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import processes
import pytest
from processes import RemoteMemory
from typer.testing import CliRunner
from workers import keyword_of, missing, text_of

from langchain_agentmem import AgentMemory, Memory
from langchain_agentmem.cli import app
from langchain_agentmem.errors import StorageError
from langchain_agentmem.storage.kinds import MEMORIES as _MEMORIES

NUMBERS = list(range(1, 31))
GARBAGE = bytes(range(256)) * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with AgentMemory.open(tmp_path / "m", embedding="local") as memory:
        memory.add_memories([Memory(id=f"m{n}", content=text_of(n)) for n in NUMBERS])
    return tmp_path / "m"


def doctor(folder: Path, *options: str) -> tuple[int, str]:
    arguments = ["doctor", "--memory", str(folder), "--embedding", "local", *options]
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def delete_folder(chroma: Path) -> None:
    shutil.rmtree(chroma)


def empty_folder(chroma: Path) -> None:
    shutil.rmtree(chroma)
    chroma.mkdir()


def make_it_a_file(chroma: Path) -> None:
    shutil.rmtree(chroma)
    chroma.write_bytes(b"not a folder")


def garble_sqlite(chroma: Path) -> None:
    (chroma / "chroma.sqlite3").write_bytes(GARBAGE)


def garble_a_part_of_sqlite(chroma: Path) -> None:
    with (chroma / "chroma.sqlite3").open("r+b") as file:
        file.seek(4096)
        file.write(GARBAGE)


def use_a_future_schema(chroma: Path) -> None:
    with sqlite3.connect(chroma / "chroma.sqlite3") as database:
        database.execute(
            "INSERT INTO migrations SELECT dir, 9999, '9999-x.sql', 'x', 'x' "
            "FROM migrations WHERE dir = 'sysdb' LIMIT 1"
        )
        database.execute("ALTER TABLE collections RENAME TO collections_of_the_future")


DAMAGES: list[Callable[[Path], None]] = [
    delete_folder, empty_folder, make_it_a_file, garble_sqlite, garble_a_part_of_sqlite,
    use_a_future_schema,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_vectors_are_rebuilt_from_the_database(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    damage(folder / "chroma")
    with AgentMemory.open(folder, embedding="local", timeout=60) as memory:
        found = memory.search_memories(keyword_of(7))
        assert found.results[0].id == "m7"
        level = not memory.status().problems  # it may have been mended in the background by now
        assert found.notes or level, "the answer says that it is degraded"
        found_wrong = [finding for finding in memory.check() if not finding.ok]
        if memory.status().pending or memory.status().strategy == "fts":
            assert found_wrong
    assert (repaired := doctor(folder, "--repair"))[0] == 0, repaired
    with AgentMemory.open(folder, embedding="local") as memory:
        assert missing(memory, NUMBERS, by="vector") == []
    assert doctor(folder)[0] == 0


@pytest.mark.parametrize("damage", [delete_folder, make_it_a_file, garble_sqlite])
def test_rebuild_vectors_mends_it_as_well(folder: Path, damage: Callable[[Path], None]) -> None:
    damage(folder / "chroma")
    with AgentMemory.open(folder, embedding="local") as memory:
        report = memory.rebuild_vectors()
        assert (report.pending, report.problem) == (0, None)
        assert missing(memory, NUMBERS, by="vector") == []


def test_garbled_nearest_neighbour_files_are_rebuilt(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with AgentMemory.open(folder, embedding="local") as memory:
        numbers = range(1500)  # enough for Chroma to write its index to files
        memory.add_memories([Memory(id=f"m{n}", content=text_of(n)) for n in numbers])
    files = [path for path in (folder / "chroma").rglob("*") if path.suffix in (".bin", ".pickle")]
    assert files
    for path in files:
        path.write_bytes(GARBAGE)
    with AgentMemory.open(folder, embedding="local") as memory:
        found = memory.search_memories(keyword_of(7))
        assert found.results[0].id == "m7"
        assert found.notes
    code, output = doctor(folder)
    assert code == 1
    assert "vector index" in output
    assert (repaired := doctor(folder, "--repair"))[0] == 0, repaired
    with AgentMemory.open(folder, embedding="local") as memory:
        assert missing(memory, list(range(0, 1500, 50)), by="vector") == []


def replace_folder(chroma: Path) -> None:
    other = chroma.with_name("other")
    with AgentMemory.open(other, embedding="local") as memory:
        memory.add_memory("of another memory")
    shutil.rmtree(chroma)
    (other / "chroma").rename(chroma)


@pytest.mark.parametrize("memories", [1, 2])
@pytest.mark.parametrize("damage", [delete_folder, empty_folder, replace_folder])
def test_an_index_that_is_taken_away_while_it_is_open_is_made_anew(
    folder: Path, damage: Callable[[Path], None], memories: int
) -> None:
    with ExitStack() as stack:
        opened = [
            stack.enter_context(AgentMemory.open(folder, embedding="local"))
            for _ in range(memories)
        ]
        assert all(missing(memory, NUMBERS, by="vector") == [] for memory in opened)
        damage(folder / "chroma")
        for number, memory in enumerate(opened, 100):
            memory.add_memories([Memory(id=f"m{number}", content=text_of(number))])
            assert memory.sync().pending == 0
        numbers = [*NUMBERS, *range(100, 100 + memories)]
        for memory in opened:
            assert missing(memory, numbers, by="vector") == []
            assert [finding for finding in memory.check() if not finding.ok] == []
    assert doctor(folder)[0] == 0
    with AgentMemory.open(folder, embedding="local") as memory:
        assert memory.status().pending == 0
        assert missing(memory, numbers, by="vector") == []


def change(folder: Path, *statements: str) -> None:
    with sqlite3.connect(folder / "agentmem.sqlite3") as database:
        for statement in statements:
            database.execute(statement)


def lose_a_keyword_row(folder: Path) -> None:
    change(folder, "DELETE FROM memories_fts WHERE rowid = 3")


def stray_keyword_row(folder: Path) -> None:
    change(folder, "INSERT INTO memories_fts (rowid, terms) VALUES (999, 'stray')")


def leave_a_queue(folder: Path) -> None:
    with AgentMemory.open(folder, embedding="none") as memory:
        memory.add_memory("not yet embedded")


def lose_a_vector(folder: Path) -> None:
    with AgentMemory.open(folder, embedding="local") as memory:
        assert memory._vectors.index is not None
        memory._vectors.index._collection(_MEMORIES).delete(ids=["m3"])


def leave_a_ghost(folder: Path) -> None:
    with AgentMemory.open(folder, embedding="local") as memory:
        assert memory._vectors.index is not None
        memory._vectors.index._collection(_MEMORIES).add(
            ids=["ghost"], embeddings=np.full((1, 256), 0.5, dtype=np.float32)
        )


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lose_a_keyword_row, "1 are missing, 0 should not be there"),
        (stray_keyword_row, "0 are missing, 1 should not be there"),
        (leave_a_queue, "waits to be found by meaning"),
        # The memory notices at its opening already, and queues what is to be done.
        (lose_a_vector, "waits to be found by meaning"),
        (leave_a_ghost, "waits to be found by meaning"),
    ],
)
def test_the_doctor_names_and_mends(
    folder: Path, damage: Callable[[Path], None], told: str
) -> None:
    damage(folder)
    code, output = doctor(folder)
    assert code == 1
    assert told in output
    code, output = doctor(folder, "--repair")
    assert (code, "WRONG" in output) == (0, False)
    assert doctor(folder)[0] == 0


def test_an_exchanged_vector_is_found_by_the_doctor(folder: Path) -> None:
    with AgentMemory.open(folder, embedding="local") as memory:
        assert memory._vectors.index is not None
        collection = memory._vectors.index._collection(_MEMORIES)
        collection.delete(ids=["m3"])
        collection.add(ids=["ghost"], embeddings=np.full((1, 256), 0.5, dtype=np.float32))
        (wrong,) = [finding for finding in memory.check() if not finding.ok]
        assert "1 (m3) lack a vector" in wrong.detail
        assert "1 (ghost) have one and no record" in wrong.detail
    assert doctor(folder)[0] == 1
    assert (repaired := doctor(folder, "--repair"))[0] == 0, repaired


def another_program(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (text)")


def newer_version(path: Path) -> None:
    with AgentMemory.open(path.parent, embedding="none"):
        pass
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path.write_bytes(GARBAGE), "not a database"),
        (another_program, "database of another program"),
        (newer_version, "newer version"),
    ],
)
def test_a_file_that_is_no_database_of_ours_is_left_alone(
    tmp_path: Path, make: Callable[[Path], None], told: str
) -> None:
    path = tmp_path / "agentmem.sqlite3"
    make(path)
    before = path.read_bytes()
    with pytest.raises(StorageError, match=told) as error:
        AgentMemory.open(tmp_path, embedding="none")
    assert str(path) in str(error.value)
    assert path.read_bytes() == before


def test_a_database_garbled_in_the_middle_is_named_and_reported(folder: Path) -> None:
    path = folder / "agentmem.sqlite3"
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(GARBAGE * 4)
    before = path.read_bytes()
    try:
        with AgentMemory.open(folder, embedding="none") as memory:
            assert not all(finding.ok for finding in memory.check())
    except StorageError as error:
        assert str(path) in str(error)  # noqa: PT017
    assert path.read_bytes() == before


def test_a_full_disk_refuses_writes_and_answers_searches(folder: Path) -> None:
    with RemoteMemory(folder) as memory:
        memory("limit_file_size", bytes=1000)
        with pytest.raises(RuntimeError, match="StorageError: cannot write the database"):
            memory("add", first=100, count=50)
        assert memory("missing", numbers=[1, 2], by="keyword") == []
        assert memory("status")["memories"] == len(NUMBERS)
    assert doctor(folder)[0] == 0


def in_mounts(script: str) -> list[str]:
    prefix = processes.in_private_mounts(script)
    if prefix is None:
        pytest.skip("mounting is not allowed here")
    return prefix


@pytest.mark.slow
def test_a_full_file_system_refuses_writes_and_answers_searches(folder: Path) -> None:
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    mount = f"mount -t tmpfs -o size=3m tmpfs {folder} && cp -r {copy}/. {folder}"
    with RemoteMemory(folder, prefix=in_mounts(mount)) as memory:
        assert memory("add", first=100, count=10)["saved"] == 10
        with pytest.raises(RuntimeError, match="StorageError: cannot write the database"):
            memory("add", first=200, count=15_000)
        assert memory("status")["memories"] == len(NUMBERS) + 10, "nothing is kept in part"
        assert memory("missing", numbers=[1, 100], by="keyword") == []


def test_a_read_only_folder_refuses_writes_and_answers_searches(folder: Path) -> None:
    mount = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
    with RemoteMemory(folder, prefix=in_mounts(mount)) as memory:
        found = memory("search", query=keyword_of(7))
        assert found["results"][0]["id"] == "m7"
        assert found["notes"]
        with pytest.raises(RuntimeError, match="StorageError: cannot write the database"):
            memory("add", first=100, count=1)
        problems = " ".join(memory("status")["problems"])
        assert "readonly" in problems.replace("-", "").lower()
        assert "still in the write-ahead log, is not seen" in problems  # as no log can be opened
