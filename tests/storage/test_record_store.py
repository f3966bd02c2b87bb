"""The records: which of them are the same, and what editing and deleting them does."""

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from storage_parts import StorageParts

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.errors import StorageError
from langchain_agentmem.records import Record
from langchain_agentmem.scopes import Visibility
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import KINDS, LIVE, MEMORIES, MESSAGES, RecordKind
from langchain_agentmem.storage.saving import Saved

NOON = datetime(2023, 5, 8, 12, tzinfo=UTC)


class Parts(StorageParts):
    """A store with what it keeps level."""

    def save(self, *records: Record, replace: bool = True) -> Saved:
        kind: RecordKind = MEMORIES if isinstance(records[0], Memory) else MESSAGES
        return self.store.save(kind, records, replace=replace)

    def found(self, query: str, kind: RecordKind = MEMORIES) -> list[str]:
        return [id_ for id_, _ in self.keywords.search(kind, query, LIVE, 100).ranking]

    def queued(self) -> list[str]:
        return [entry.id for entry in self.queue.take_after(1000, 0)]

    def work_off_queue(self) -> None:
        self.queue.done(self.queue.take_after(1000, 0))

    def count(self, kind: RecordKind = MEMORIES) -> int:
        return self.store.count(kind, LIVE)


@pytest.fixture(params=["disk", "memory"])
def parts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Parts]:
    with closing(Database(tmp_path / "db" if request.param == "disk" else None)) as database:
        yield Parts(database)


def message(content: str = "hello", **fields: Any) -> Message:
    return Message.model_validate(
        {"session_key": "s1", "role": "user", "recorded_at": NOON, "content": content, **fields}
    )


FULL_MEMORY = Memory(
    id="m1",
    content="Prefers dark mode\x00 with a NUL \U0001f600",
    type="persona",
    priority=-1,
    scene_name="editor setup",
    scope="thread",
    scope_id="t1",
    strength=0.25,
    tags=["ui", "a, b", '"quoted"'],
    session_key="s1",
    created_at=NOON.replace(microsecond=123457),
    updated_at=NOON,
    metadata={"nested": {"list": [1, 2.5, None, True, "é"]}},
)
FULL_MESSAGE = message(
    id="m1", name="Anna", role="tool", scope="persona", scope_id="u::p", metadata={"a": []}
)


@pytest.mark.parametrize("record", [FULL_MEMORY, FULL_MESSAGE], ids=["memory", "message"])
def test_a_record_comes_back_as_it_was_saved(parts: Parts, record: Record) -> None:
    saved = parts.save(record)

    assert saved.records == [record]
    assert parts.store.get("m1") == record


def test_a_record_without_an_id_gets_one_that_is_the_same_everywhere(parts: Parts) -> None:
    (memory,) = parts.save(Memory(content="x")).records
    (said,) = parts.save(message("x")).records

    assert memory.id.startswith("mem-")
    assert said.id.startswith("msg-")
    with closing(Database(None)) as other:
        elsewhere = StorageParts(other).store
        assert elsewhere.save(MEMORIES, [Memory(content="x")]).records[0].id == memory.id
        assert elsewhere.save(MESSAGES, [message("x")]).records[0].id == said.id


SAME = [
    (Memory(content="x"), Memory(content="x")),
    (Memory(content="x", priority=1), Memory(content="x", priority=2)),
    (Memory(content="x", scope_id="a"), Memory(content="x", scope_id="a", type="persona")),
    (Memory(id="m", content="x"), Memory(content="x")),
    (message(), message()),
    (message(), message(name="Anna")),
    (message(id="m"), message()),
    (message(id="m"), message(id="m")),
]
DIFFERENT = [
    (Memory(content="x"), Memory(content="y")),
    (Memory(content="x"), Memory(content="x ")),
    (Memory(content="x"), Memory(content="X")),
    (Memory(content="x", scope_id="a"), Memory(content="x", scope_id="b")),
    (Memory(content="x", scope_id="a"), Memory(content="x")),
    (Memory(content="x", scope_id="a"), Memory(content="x", scope="thread", scope_id="a")),
    (Memory(id="m", content="x"), Memory(id="n", content="x")),
    (Memory(id="m", content="x", scope_id="a"), Memory(id="m", content="x", scope_id="b")),
    (message(), message("bye")),
    (message(), message(role="assistant")),
    (message(), message(session_key="s2")),
    (message(), message(recorded_at=NOON.replace(microsecond=1))),
    (message(), message(scope_id="a")),
    (message(id="m"), message(id="n")),
    (message(id="m"), message(id="m", session_key="s2")),
    (message(id="m"), message(id="m", scope_id="a")),
]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_record_is_kept_once(
    parts: Parts, one: Record, other: Record, at_once: bool
) -> None:
    saves = [parts.save(one, other)] if at_once else [parts.save(one), parts.save(other)]
    records = [record for saved in saves for record in saved.records]

    assert records[0] == records[1]
    assert sum(len(saved.changed) for saved in saves) == 1
    assert sum(saved.duplicates for saved in saves) == 1
    assert sum(parts.count(kind) for kind in KINDS) == 1


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_records_are_kept_both_with_their_own_fields(
    parts: Parts, one: Record, other: Record, at_once: bool
) -> None:
    saves = [parts.save(one, other)] if at_once else [parts.save(one), parts.save(other)]
    records = [record for saved in saves for record in saved.records]

    assert records[0].id != records[1].id
    for given, stored in zip((one, other), records, strict=True):
        assert parts.store.get(stored.id) == stored
        taken = given.id if given.id and given.id != stored.id else ""
        assert stored == given.model_copy(update={"id": stored.id, "given_id": taken})
    # Saved once more, each is itself.
    assert parts.save(one).records == [records[0]]
    assert parts.save(other).records == [records[1]]
    assert sum(parts.count(kind) for kind in KINDS) == 2


def test_a_memory_and_a_message_never_share_an_id(parts: Parts) -> None:
    parts.save(Memory(id="x", content="memory"))
    (said,) = parts.save(message(id="x")).records

    assert said.id != "x"
    assert parts.store.get("x") == parts.save(Memory(id="x", content="memory")).records[0]
    assert parts.store.get(said.id) == said


@pytest.mark.parametrize(("one", "other"), [*SAME, *DIFFERENT])
def test_what_was_returned_can_be_saved_again_without_a_change(
    parts: Parts, one: Record, other: Record
) -> None:
    stored = [*parts.save(one).records, *parts.save(other).records]
    before = sum(parts.count(kind) for kind in KINDS)

    saved = parts.save(*(parts.store.get(record.id) for record in stored))  # type: ignore[arg-type]

    assert saved.duplicates == 2
    assert saved.changed == []
    assert sum(parts.count(kind) for kind in KINDS) == before


def test_under_a_given_id_the_given_fields_replace_the_stored_ones(parts: Parts) -> None:
    parts.save(Memory(id="m", content="red", priority=80, tags=["a"], created_at=NOON))

    saved = parts.save(Memory(id="m", content="blue", strength=0.5))

    (stored,) = saved.records
    assert saved.changed == ["m"]
    assert (stored.content, stored.strength) == ("blue", 0.5)
    assert (stored.priority, stored.tags, stored.created_at) == (80, ["a"], NOON)
    assert stored.updated_at is not None
    assert parts.store.get("m") == stored
    assert parts.found("red") == []
    assert parts.found("blue") == ["m"]


def test_without_replacing_the_stored_fields_stand_and_the_conflict_is_told(parts: Parts) -> None:
    parts.save(Memory(id="m", content="red"))

    saved = parts.save(
        Memory(id="n", content="new"),
        Memory(id="m", content="blue"),
        Memory(id="m", content="red"),
        replace=False,
    )

    assert saved.conflicts == [1]
    assert saved.changed == ["n"]
    assert saved.duplicates == 1
    assert [record.content for record in saved.records] == ["new", "red", "red"]
    assert parts.found("blue") == []


def test_a_record_twice_in_one_call_is_stored_and_indexed_as_it_came_last(parts: Parts) -> None:
    parts.save(Memory(id="m", content="red"), Memory(id="m", content="blue"))

    assert parts.found("red") == []
    assert parts.found("blue") == ["m"]
    assert parts.count() == 1


def test_a_deleted_memory_that_is_saved_again_comes_back(parts: Parts) -> None:
    (memory,) = parts.save(Memory(content="red", priority=10)).records
    parts.store.delete([memory.id])

    saved = parts.save(Memory(content="red", priority=20))

    assert saved.changed == [memory.id]
    assert saved.records[0].priority == 20
    assert parts.found("red") == [memory.id]


@pytest.mark.parametrize("id_", ["", "m1"])
def test_a_deleted_message_that_is_captured_again_stays_deleted(parts: Parts, id_: str) -> None:
    (said,) = parts.save(message(id=id_)).records
    parts.store.delete([said.id])

    saved = parts.save(message(id=id_))

    assert saved.changed == []
    assert saved.duplicates == 1
    assert parts.store.get(said.id) is None
    assert parts.found("hello", MESSAGES) == []


def test_a_purged_record_can_be_saved_anew(parts: Parts) -> None:
    (said,) = parts.save(message()).records
    parts.store.purge([said.id])

    assert parts.save(message()).changed == [said.id]
    assert parts.found("hello", MESSAGES) == [said.id]


def test_an_update_changes_the_named_fields_and_tells_when(parts: Parts) -> None:
    parts.save(Memory(id="m", content="red", priority=80, created_at=NOON))

    updated = parts.store.update(MEMORIES, "m", {"content": "blue", "tags": ["new"]})

    assert (updated.content, updated.tags) == ("blue", ["new"])
    assert (updated.priority, updated.created_at) == (80, NOON)
    assert updated.updated_at > NOON
    assert parts.store.get("m") == updated
    assert parts.found("red") == []
    assert parts.found("blue new") == ["m"]


def test_an_update_without_a_change_changes_nothing(parts: Parts) -> None:
    (memory,) = parts.save(Memory(id="m", content="red")).records
    parts.work_off_queue()

    assert parts.store.update(MEMORIES, "m", {"content": "red"}) == memory
    assert parts.queued() == []


def test_an_update_may_say_itself_when_it_was(parts: Parts) -> None:
    parts.save(Memory(id="m", content="red"))

    updated = parts.store.update(MEMORIES, "m", {"priority": 1, "updated_at": "2023-05-08T12:00Z"})

    assert updated.updated_at == NOON


@pytest.mark.parametrize(
    ("field", "value"),
    [("content", ""), ("priority", "high"), ("scope", "team"), ("colour", "red"), ("role", "user")],
)
def test_an_unusable_change_is_named_and_nothing_changes(
    parts: Parts, field: str, value: Any
) -> None:
    (memory,) = parts.save(Memory(id="m", content="red")).records

    with pytest.raises(ValueError, match=rf"(?m)^{field}"):
        parts.store.update(MEMORIES, "m", {"strength": 0.1, field: value})

    assert parts.store.get("m") == memory


@pytest.mark.parametrize("id_", ["missing", "deleted", "message", ""])
def test_only_a_live_record_of_the_kind_is_updated(parts: Parts, id_: str) -> None:
    parts.save(Memory(id="deleted", content="x"))
    parts.store.delete(["deleted"])
    parts.save(message(id="message"))

    assert parts.store.update(MEMORIES, id_, {"content": "y"}) is None


def test_an_old_text_can_be_saved_again_after_its_record_was_changed(parts: Parts) -> None:
    (memory,) = parts.save(Memory(content="Lives in Bonn")).records
    parts.store.update(MEMORIES, memory.id, {"content": "Lives in Rome"})

    saved = parts.save(Memory(content="Lives in Bonn"))

    assert len(saved.changed) == 1
    assert saved.records[0].id != memory.id
    assert parts.found("Bonn") == saved.changed
    assert parts.found("Rome") == [memory.id]


def test_a_record_that_was_given_to_another_owner_is_still_itself(parts: Parts) -> None:
    parts.save(Memory(id="m", content="red", scope_id="a"))
    moved = parts.store.update(MEMORIES, "m", {"scope_id": "b"})

    assert parts.save(moved).duplicates == 1
    assert parts.count() == 1


def test_a_former_owner_cannot_overwrite_a_record_that_was_given_away(parts: Parts) -> None:
    parts.save(Memory(id="m", content="red", scope_id="a"))
    moved = parts.store.update(MEMORIES, "m", {"scope_id": "b", "content": "of b"})

    parts.save(Memory(id="m", content="of a", scope_id="a"))

    assert parts.store.get("m") == moved


def test_deletion_takes_a_record_out_of_reads_and_of_the_index(parts: Parts) -> None:
    parts.save(Memory(id="m", content="red"), Memory(id="n", content="red"))

    changed = parts.store.delete(["m", "m", "missing"])

    assert changed == {"memories": ["m"], "messages": []}
    assert parts.store.get("m") is None
    assert parts.found("red") == ["n"]
    assert parts.count() == 1
    assert parts.store.delete(["m"]) == {"memories": [], "messages": []}


def test_restoring_undoes_deletion(parts: Parts) -> None:
    (memory,) = parts.save(Memory(id="m", content="red")).records
    parts.store.delete(["m"])

    assert parts.store.restore(["m", "missing"]) == {"memories": ["m"], "messages": []}
    assert parts.store.get("m") == memory
    assert parts.found("red") == ["m"]
    assert parts.store.restore(["m"]) == {"memories": [], "messages": []}


@pytest.mark.parametrize("deleted_before", [True, False])
def test_purging_removes_a_record_for_good(parts: Parts, deleted_before: bool) -> None:
    parts.save(Memory(id="m", content="xylophonesecret in a text"))
    if deleted_before:
        parts.store.delete(["m"])

    assert parts.store.purge(["m", "missing"]) == {"memories": ["m"], "messages": []}
    assert parts.store.purge(["m"]) == {"memories": [], "messages": []}
    assert parts.store.restore(["m"]) == {"memories": [], "messages": []}
    assert parts.found("xylophonesecret") == []
    with parts.database.read() as connection:
        assert not [line for line in connection.iterdump() if "xylophonesecret" in line]


def test_a_purged_text_is_not_left_in_the_files(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "db")) as database:
        store = StorageParts(database).store
        store.save(MEMORIES, [Memory(id="m", content="xylophonesecret in a text")])
        assert "xylophonesecret" in on_disk(tmp_path)
        store.purge(["m"])

        assert "xylophonesecret" not in on_disk(tmp_path)  # and closing it is not needed for that


def on_disk(folder: Path) -> str:
    """What the files hold, read by another process: closing them here would give up our locks."""
    files = [str(path) for path in folder.iterdir()]
    return subprocess.run(["cat", *files], capture_output=True, check=True).stdout.decode("latin-1")  # noqa: S607


def test_a_purged_text_that_others_read_in_the_log_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("langchain_agentmem.storage.database.BUSY_TIMEOUT_SECONDS", 0.1)
    with AgentMemory.open(tmp_path, embedding="none") as memory:
        memory.add_memories([Memory(id=id_, content=f"{id_}secret") for id_ in "mn"])
        location = memory.status().location
        with closing(sqlite3.connect(location)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM memories").fetchone()
            assert memory.purge("m") == 1
        assert f"what was purged is left in {location}-wal" in caplog.text
        assert "msecret" not in caplog.text
        caplog.clear()

        memory.purge("n")

        assert caplog.text == ""
        assert "secret" not in on_disk(tmp_path)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_strays_are_found_without_a_look_at_all_records(parts: Parts, kind: RecordKind) -> None:
    asked: list[str] = []
    with parts.database.read() as connection:
        connection.set_trace_callback(asked.append)
    parts.store.file_strays()
    with parts.database.read() as connection:
        connection.set_trace_callback(None)
        plans = [
            row["detail"]
            for sql in asked
            if f"FROM {kind.name}" in sql
            for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")
        ]

    assert plans == [f"SCAN r USING INDEX {kind.name}_strays"]


def test_a_stray_that_somebody_else_files_meanwhile_keeps_that_owner(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.save(
        *(Memory(id=id_, content=id_, metadata={"scope_id": "ann"}) for id_ in ("a", "b", "c"))
    )
    with parts.database.write() as connection:
        connection.execute("UPDATE memories SET scope_id = ''")
    write = Database.write

    def others_first(database: Database) -> AbstractContextManager[sqlite3.Connection]:
        monkeypatch.undo()
        with write(database) as connection:
            connection.execute("UPDATE memories SET scope_id = 'bob' WHERE id = 'a'")
            connection.execute(
                "UPDATE memories SET metadata = '{\"scope_id\": \"eve\"}' WHERE id = 'b'"
            )
        return write(database)

    monkeypatch.setattr(Database, "write", others_first)
    parts.store.file_strays()

    with parts.database.read() as connection:
        owners = dict(connection.execute("SELECT id, scope_id FROM memories").fetchall())
    assert owners == {"a": "bob", "b": "", "c": "ann"}


def test_every_change_queues_its_records_for_the_vector_index(parts: Parts) -> None:
    steps: list[Any] = [
        lambda: parts.save(Memory(id="m", content="red")),
        lambda: parts.store.update(MEMORIES, "m", {"content": "blue"}),
        lambda: parts.store.delete(["m"]),
        lambda: parts.store.restore(["m"]),
        lambda: parts.store.purge(["m"]),
    ]
    for step in steps:
        step()
        assert parts.queued() == ["m"]
        parts.work_off_queue()


def test_a_failed_write_keeps_nothing(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(parts.queue, "put", fail)
    with pytest.raises(OSError):  # noqa: PT011  (an OSError without text)
        parts.save(Memory(id="m", content="red"))
    monkeypatch.undo()

    assert parts.store.get("m") is None
    assert parts.found("red") == []
    assert parts.save(Memory(id="m", content="red")).changed == ["m"]


@pytest.mark.parametrize("id_", ["", "missing", "a'b", "\x00", "\ud800", "x" * 10_000])
def test_any_text_can_be_asked_for_as_an_id(parts: Parts, id_: str) -> None:
    parts.save(Memory(id="m", content="red"))
    nothing: dict[str, list[str]] = {"memories": [], "messages": []}

    assert parts.store.get(id_) is None
    assert parts.store.delete([id_]) == nothing
    assert parts.store.restore([id_]) == nothing
    assert parts.store.purge([id_]) == nothing


@pytest.mark.parametrize("given", ["a\x00b", "\x00", "\ud800", " a\n"])
def test_any_id_is_found_again_by_every_way_of_asking(parts: Parts, given: str) -> None:
    """SQLite's JSON ends a text at a NUL, and stores no lone surrogate."""
    (stored,) = parts.save(message("tea", id=given)).records
    assert parts.store.get(given) == parts.store.get(stored.id) == stored
    assert list(parts.store.fetch(MESSAGES, [stored.id], LIVE)) == [stored.id]
    assert parts.found("tea", MESSAGES) == [stored.id]
    assert parts.save(message("tea", id=given)).duplicates == 1
    assert parts.store.purge([given]) == {"memories": [], "messages": [stored.id]}


def test_who_has_the_messages_of_a_conversation(parts: Parts) -> None:
    for user, session, ids in [("ann", "s1", "ab"), ("bob", "s1", "bc"), ("ann", "s2", "d")]:
        parts.save(
            *[
                message(f"{id_} of {user}", id=id_, scope_id=user, session_key=session)
                for id_ in ids
            ]
        )
    parts.store.delete(["a"])

    def left(session: str, user: str) -> tuple[set[str], set[str]]:
        return parts.store.left_to_others(MESSAGES, session, {*"abcdx"}, ("user", user))

    assert left("s1", "bob") == ({"a"}, {"d", "x"})
    assert left("s1", "ann") == ({"c"}, {"d", "x"})
    assert left("s1", "cid") == ({*"abc"}, {"d", "x"})
    assert left("s2", "ann") == (set(), set())
    assert left("s3", "bob") == (set(), set())


def test_a_write_of_many_records_is_read_back_by_many_ids(parts: Parts) -> None:
    memories = [Memory(id=f"m{i}", content=f"text {i}", scope_id=str(i % 2)) for i in range(3000)]
    parts.save(*memories)
    ids = [memory.id for memory in memories]
    of_one = MEMORIES.where({}, Visibility(owners=(("user", "1"),), unscoped=()))

    assert set(parts.store.fetch(MEMORIES, ids, LIVE)) == set(ids)
    assert parts.store.matching(MEMORIES, ids, of_one) == set(ids[1::2])
    assert parts.store.count(MEMORIES, of_one) == 1500
    assert len(parts.store.ids(MEMORIES, of_one, 10)) == 10
    assert list(parts.store.embedded_texts(MEMORIES, ids[:3])) == ids[:3]


def test_values_are_distinct_and_the_most_frequent_first(parts: Parts) -> None:
    types = ["b", "a", "c", "c", "a", "c"]
    parts.save(*(Memory(content=f"{i}", type=type_) for i, type_ in enumerate(types)))

    assert parts.store.values(MEMORIES, "type", LIVE, 10) == ["c", "a", "b"]
    assert parts.store.values(MEMORIES, "type", LIVE, 2) == ["c", "a"]
    assert parts.store.values(MEMORIES, "scene_name", LIVE, 10) == []


def test_a_closed_store_says_so(parts: Parts) -> None:
    parts.database.close()

    with pytest.raises(StorageError, match="is closed"):
        parts.save(Memory(content="x"))
    with pytest.raises(StorageError, match="is closed"):
        parts.store.get("m")
