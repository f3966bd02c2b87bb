"""The SQLite file: what is committed is on disk, and no file of others is touched."""

import multiprocessing
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from python_process import run_python

import langchain_agentmem
from langchain_agentmem.errors import StorageError
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.folder import FILE_NAME


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


@pytest.fixture(params=["disk", "memory"])
def database(request: pytest.FixtureRequest, path: Path) -> Iterator[Database]:
    """A database on disk, and one in memory."""
    with closing(Database(path if request.param == "disk" else None)) as opened:
        yield opened


def put(database: Database, key: str, value: str = "v") -> None:
    with database.write() as connection:
        connection.execute("INSERT INTO meta VALUES (?, ?)", (key, value))


def keys(database: Database) -> set[str]:
    with database.read() as connection:
        return {row[0] for row in connection.execute("SELECT key FROM meta")}


def test_what_is_written_is_read(database: Database) -> None:
    put(database, "a", "1")

    assert database.meta("a") == "1"
    assert database.meta("missing") is None


def test_a_failed_block_leaves_nothing_behind(database: Database) -> None:
    def fail() -> None:
        with database.write() as connection:
            connection.execute("INSERT INTO meta VALUES ('a', '1')")
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert database.meta("a") is None
    put(database, "a")  # and the next transaction works
    assert database.meta("a") == "v"


def test_errors_of_sqlite_are_storage_errors(database: Database) -> None:
    with pytest.raises(StorageError, match=r"cannot write the database .*no such table"):
        put_into_missing_table(database)
    with pytest.raises(StorageError, match="cannot read the database"), database.read() as reader:
        reader.execute("SELECT * FROM missing")


def put_into_missing_table(database: Database) -> None:
    with database.write() as connection:
        connection.execute("INSERT INTO missing VALUES (1)")


def test_committed_means_synced_in_wal_mode(path: Path) -> None:
    with closing(Database(path)) as database:
        for borrow in (database.write, database.read):
            with borrow() as connection:
                assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
                assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL


def test_a_reopened_database_holds_what_was_written(path: Path) -> None:
    with closing(Database(path)) as database:
        put(database, "a", "1")
        memory_id = database.meta("memory_id")
    with closing(Database(path)) as database:
        assert database.meta("a") == "1"
        assert memory_id
        assert database.meta("memory_id") == memory_id


def test_every_database_has_an_id_of_its_own(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "a")) as one, closing(Database(tmp_path / "b")) as other:
        assert one.meta("memory_id") != other.meta("memory_id")


def test_threads_write_in_turns_and_lose_nothing(database: Database) -> None:
    def work(worker: int) -> None:
        for i in range(25):
            put(database, f"{worker}-{i}")
            assert f"{worker}-{i}" in keys(database)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {f"{worker}-{i}" for worker in range(8) for i in range(25)} <= keys(database)


def test_a_reader_does_not_wait_for_a_writer_and_sees_what_was_committed(path: Path) -> None:
    with closing(Database(path)) as database:
        seen: list[set[str]] = []
        with database.write() as connection:
            connection.execute("INSERT INTO meta VALUES ('a', '1')")
            reader = threading.Thread(target=lambda: seen.append(keys(database)))
            reader.start()
            reader.join(timeout=30)
        assert len(seen) == 1
        assert "a" not in seen[0]


def _write_in_another_process(path: Path, worker: int) -> None:
    with closing(Database(path)) as database:
        for i in range(20):
            put(database, f"{worker}-{i}")


def test_processes_share_a_file(path: Path) -> None:
    context: Any = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_write_in_another_process, args=(path, worker)) for worker in (0, 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert [process.exitcode for process in processes] == [0, 0]
    with closing(Database(path)) as database:
        assert {f"{worker}-{i}" for worker in (0, 1) for i in range(20)} <= keys(database)


_SEEN = """
import sqlite3, sys
keys = sqlite3.connect(sys.argv[1]).execute("SELECT key FROM meta").fetchall()
print(*(key for (key,) in keys))
"""


def seen_by_another_process(path: Path) -> set[str]:
    done = run_python(_SEEN, path)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def _open_and_close(path: Path) -> None:
    Database(path).close()


def _fail_to_open(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "_migrate", _refuse)
        with pytest.raises(StorageError):
            Database(path)


def _refuse(*_: object) -> None:
    msg = "disk I/O error"
    raise sqlite3.OperationalError(msg)


def _open_for_reading(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "_migrate", _refuse_to_write)
        with closing(Database(path)) as database:
            assert database.read_only


def _refuse_to_write(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("then", [_open_and_close, _fail_to_open, _open_for_reading])
def test_another_opening_in_the_process_leaves_its_locks(
    path: Path, then: Callable[[Path], None]
) -> None:
    # Closing any descriptor of a file gives up all locks of the process on it. Without them,
    # another process that closes the file last takes the write-ahead log away from under this one.
    with closing(Database(path)) as database:
        put(database, "before")
        then(path)
        context: Any = multiprocessing.get_context("spawn")
        other = context.Process(target=_open_and_close, args=(path,))
        other.start()
        other.join(60)
        assert other.exitcode == 0

        put(database, "after")

        assert path.with_name(f"{path.name}-wal").is_file()
        assert seen_by_another_process(path) >= {"before", "after"}


@pytest.mark.skipif(not Path("/proc/locks").is_file(), reason="the system does not list its locks")
@pytest.mark.parametrize("then", [_open_and_close, _fail_to_open, _open_for_reading])
def test_the_system_lists_the_lock_after_another_opening(
    path: Path, then: Callable[[Path], None]
) -> None:
    with closing(Database(path)):
        inode = f":{path.stat().st_ino} "
        locked = [line for line in Path("/proc/locks").read_text().splitlines() if inode in line]
        if not locked:
            pytest.skip("the locks of this process are not listed here")
        then(path)
        listed = Path("/proc/locks").read_text().splitlines()
        assert [line for line in listed if inode in line]


def test_the_files_of_a_database_are_private_even_behind_a_link(path: Path) -> None:
    real = path.with_name("elsewhere")
    path.symlink_to(real)
    with closing(Database(path)) as database:
        put(database, "a")
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes[real.name] == 0o600
    assert set(modes.values()) == {0o600}


def test_a_query_past_its_deadline_is_interrupted(database: Database) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"

    with (
        pytest.raises(StorageError, match="interrupted"),
        database.read(deadline=time.monotonic() + 0.05) as connection,
    ):
        connection.execute(endless).fetchone()

    with database.read() as connection:  # the connection is fit for further use
        assert connection.execute("SELECT count(*) FROM meta").fetchone()[0] == 1


def test_a_closed_database_says_so(database: Database) -> None:
    database.close()
    database.close()

    with pytest.raises(StorageError, match="is closed"):
        database.meta("memory_id")
    with pytest.raises(StorageError, match="is closed"):
        put(database, "a")


def test_a_read_that_is_under_way_outlives_close(path: Path) -> None:
    database = Database(path)
    with database.read() as connection:
        database.close()
        assert connection.execute("SELECT count(*) FROM meta").fetchone()[0] == 1


@pytest.mark.parametrize(
    "content", [b"no database, but a letter" * 100, b"SQLite format 3\x00junk"]
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(StorageError, match="cannot open the database"):
        Database(path)
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE memories (x)")

    with pytest.raises(StorageError, match="is a database of another program"):
        Database(path)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("memories",)]


def test_a_database_of_a_newer_version_is_refused(path: Path) -> None:
    Database(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 99")

    with pytest.raises(StorageError, match=r"newer version.*schema 99.*upgrade"):
        Database(path)


def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot open the database"):
        Database(tmp_path)
    with pytest.raises(StorageError, match="cannot open the database"):
        Database(tmp_path / "missing" / FILE_NAME)


def test_first_openings_at_the_same_moment_all_see_a_database_of_this_package(
    tmp_path: Path,
) -> None:
    openers = 8
    for number in range(40):
        path = tmp_path / f"{number}.sqlite3"
        barrier = threading.Barrier(openers)

        def open_and_close(path: Path = path, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            Database(path).close()

        with ThreadPoolExecutor(openers) as pool:
            for done in [pool.submit(open_and_close) for _ in range(openers)]:
                done.result()


def test_no_placeholder_has_a_number() -> None:
    """From 3.14 on, Python's sqlite3 takes numbered ones for named, and refuses a sequence."""
    package = Path(langchain_agentmem.__file__).parent
    numbered = [path for path in package.rglob("*.py") if re.search(r"\?[1-9]", path.read_text())]
    assert numbered == []
