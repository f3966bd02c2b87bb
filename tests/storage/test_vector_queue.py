"""The vector queue: what waits, in which order, and that nothing is taken off by mistake."""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from storage_parts import StorageParts

from langchain_agentmem import Memory, Message
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES, RecordKind
from langchain_agentmem.storage.vector_queue import QueueEntry, VectorQueue


@pytest.fixture(params=["disk", "memory"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with closing(Database(tmp_path / "db" if request.param == "disk" else None)) as opened:
        yield opened


@pytest.fixture
def queue(database: Database) -> VectorQueue:
    return VectorQueue(database)


def put(queue: VectorQueue, *ids: str, kind: RecordKind = MEMORIES) -> None:
    with queue._database.write() as connection:
        queue.put(connection, kind, ids)


def waiting(queue: VectorQueue) -> list[str]:
    return [entry.id for entry in queue.take_after(100, 0)]


def test_a_new_queue_is_empty(queue: VectorQueue) -> None:
    assert (queue.pending(), queue.last_position(), waiting(queue)) == (0, 0, [])


def test_entries_wait_in_the_order_in_which_they_came(queue: VectorQueue) -> None:
    put(queue, "b", "a")
    put(queue, "c", kind=MESSAGES)

    assert [(entry.kind, entry.id) for entry in queue.take_after(100, 0)] == [
        ("memories", "b"),
        ("memories", "a"),
        ("messages", "c"),
    ]
    assert queue.pending() == 3


def test_taking_removes_nothing(queue: VectorQueue) -> None:
    put(queue, "a", "b")

    assert queue.take_after(1, 0) == queue.take_after(1, 0)
    assert queue.take(1, "memories", ["a"]) == queue.take_after(1, 0)
    assert queue.pending() == 2


def test_one_works_through_it_by_position(queue: VectorQueue) -> None:
    put(queue, *"abcde")
    first = queue.take_after(2, 0)
    rest = queue.take_after(100, first[-1].seq)

    assert [entry.id for entry in first + rest] == list("abcde")
    assert queue.last_position() == rest[-1].seq
    assert queue.take_after(100, queue.last_position()) == []


def test_the_entries_of_given_records_are_taken(queue: VectorQueue) -> None:
    put(queue, *"abc")
    put(queue, "a", "d", kind=MESSAGES)

    taken = queue.take(100, "memories", ["c", "a", "d", "unknown"])

    assert [(entry.kind, entry.id) for entry in taken] == [("memories", "a"), ("memories", "c")]
    assert len(queue.take(1, "memories", ["a", "c"])) == 1
    assert queue.take(100, "memories", []) == []


def test_more_records_than_sqlite_takes_variables(queue: VectorQueue) -> None:
    ids = [f"m{i}" for i in range(40_000)]
    put(queue, *ids)

    assert len(queue.take(50_000, "memories", ids)) == 40_000


def test_what_is_done_is_gone(queue: VectorQueue) -> None:
    put(queue, *"abc")
    done = queue.take(100, "memories", ["b"])

    queue.done(done)
    queue.done(done)

    assert waiting(queue) == ["a", "c"]


def test_a_record_waits_once_and_its_latest_change_counts(queue: VectorQueue) -> None:
    put(queue, "a", "b")
    before = queue.take(100, "memories", ["a"])

    put(queue, "a")

    assert waiting(queue) == ["b", "a"]
    queue.done(before)  # whoever worked on the older version does not take off the newer one
    assert waiting(queue) == ["b", "a"]
    queue.done(queue.take(100, "memories", ["a"]))
    assert waiting(queue) == ["b"]


def test_positions_are_not_used_again(queue: VectorQueue) -> None:
    put(queue, "a")
    stale = queue.take_after(100, 0)
    queue.done(stale)

    put(queue, "b")
    queue.done(stale)

    assert waiting(queue) == ["b"]


def test_what_is_deferred_waits_behind_the_others(queue: VectorQueue) -> None:
    put(queue, *"abcd")

    queue.defer(queue.take(100, "memories", ["a", "c"]))

    assert waiting(queue) == ["b", "d", "a", "c"]
    assert queue.pending() == 4


@pytest.mark.parametrize("change", ["done", "queued anew", "deferred"])
def test_what_has_changed_meanwhile_is_not_deferred(queue: VectorQueue, change: str) -> None:
    put(queue, "a", "b")
    taken = queue.take(100, "memories", ["a"])
    if change == "done":
        queue.done(taken)
    elif change == "queued anew":
        put(queue, "a")
    else:
        queue.defer(taken)
    put(queue, "c")
    expected = waiting(queue)

    queue.defer(taken)

    assert waiting(queue) == expected


def test_a_write_that_fails_leaves_no_entry(queue: VectorQueue) -> None:
    class OutOfOrderError(Exception):
        pass

    with suppress(OutOfOrderError), queue._database.write() as connection:
        queue.put(connection, MEMORIES, ["a"])
        raise OutOfOrderError

    assert queue.pending() == 0


def test_every_live_record_can_be_queued(database: Database, queue: VectorQueue) -> None:
    store = StorageParts(database).store
    store.save(MEMORIES, [Memory(id=id_, content=id_) for id_ in "abc"])
    store.save(MESSAGES, [Message(id="m", session_key="s", role="user", content="m")])
    store.delete(["b"])
    queue.done(queue.take_after(100, 0))
    put(queue, "c")

    with database.write() as connection:
        queue.put_all(connection)

    assert sorted(waiting(queue)) == ["a", "c", "m"]


def test_what_waits_outlives_the_process(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "db")) as database:
        put(VectorQueue(database), "a", "b")
        entries = VectorQueue(database).take_after(100, 0)
    with closing(Database(tmp_path / "db")) as database:
        assert VectorQueue(database).take_after(100, 0) == entries
        assert entries[0] == QueueEntry(1, "memories", "a")
