"""Many records at once are saved as one after another would be."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_parts import StorageParts

from langchain_agentmem import Memory, Message
from langchain_agentmem.records import Record
from langchain_agentmem.storage import record_rows
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import KINDS, LIVE, MEMORIES, MESSAGES, RecordKind
from langchain_agentmem.storage.record_store import RecordStore

NOON = datetime(2023, 5, 8, 12, tzinfo=UTC)
# So few of everything that ids meet ids, given ids and equal texts, of the same owner and others.
IDS = st.sampled_from(["", "a", "b", "c"])
COMMON = {
    "id": IDS,
    "given_id": IDS,
    "content": st.sampled_from(["green tea", "black tea", "oak"]),
    "scope_id": st.sampled_from(["ann", "ann", "bob"]),
}
MESSAGE = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant"]),
    session_key=st.sampled_from(["s", "t"]),
    recorded_at=st.just(NOON),
    **COMMON,
)
MEMORY = st.builds(Memory, created_at=st.just(NOON), tags=st.just(["warm"]), **COMMON)
BATCHES = st.one_of(
    *(
        st.tuples(
            st.just(kind),
            st.lists(records, max_size=4),
            st.lists(records, min_size=1, max_size=8),
            st.sets(st.integers(0, 3), max_size=2),
        )
        for kind, records in ((MEMORIES, MEMORY), (MESSAGES, MESSAGE))
    )
)


@contextmanager
def new_store() -> Iterator[RecordStore]:
    with closing(Database(None)) as database:
        yield StorageParts(database).store


def everything(store: RecordStore, kind: RecordKind) -> list[tuple[Any, ...]]:
    """Return all records in the order of their rows, without what chance and the clock make."""
    return [
        (
            record.given_id or record.id,
            record.content,
            record.scope_id,
            record.session_key,
            getattr(record, "role", None),
        )
        for record in store.each(kind, LIVE)
    ]


def found(store: RecordStore, kind: RecordKind) -> list[list[str]]:
    return [
        sorted(
            store.fetch(kind, [id_], LIVE)[id_]["content"]
            for id_, _ in store._keywords.search(kind, query, LIVE, 100).ranking
        )
        for query in ("tea", "green", "oak", "warm")
    ]


@settings(max_examples=300)
@given(batch=BATCHES)
def test_as_one_after_another(
    batch: tuple[RecordKind, list[Record], list[Record], set[int]],
) -> None:
    kind, before, records, deleted = batch
    with new_store() as together, new_store() as alone:
        for store in (together, alone):
            first = [store.save(kind, [record]).records[0].id for record in before]
            store.delete([first[n] for n in deleted if n < len(first)])
        saved = together.save(kind, records)
        with mock.patch.object(record_rows, "free_ids", return_value=set()):  # each is looked up
            each = [alone.save(kind, [record]) for record in records]

        assert everything(together, kind) == everything(alone, kind)
        assert found(together, kind) == found(alone, kind)
        assert saved.duplicates == sum(one.duplicates for one in each)
        assert len(saved.changed) == sum(len(one.changed) for one in each)
        assert [r.content for r in saved.records] == [r.content for s in each for r in s.records]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("count", [1, 24, 25, 26, 249, 250, 251, 777, 2050])
@pytest.mark.parametrize("variables", [32_766, 999, 20], ids="{} variables".format)
def test_any_number_at_once(kind: RecordKind, count: int, variables: int) -> None:
    records: list[Record] = [
        Memory(id=f"r{i}", content=f"tea {i}", tags=[f"tag{i}"], priority=i % 100)
        if kind is MEMORIES
        else Message(id=f"r{i}", content=f"tea {i}", role="user", session_key=f"s{i % 7}")
        for i in range(count)
    ]
    with closing(Database(None)) as database:
        parts = StorageParts(database)
        with database.write() as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, variables)
        parts.store.save(kind, records)

        assert list(parts.store.each(kind, LIVE)) == records
        assert [entry.id for entry in parts.queue.take_after(10_000, 0)] == [r.id for r in records]
        for n in {0, count // 2, count - 1}:
            assert parts.keywords.search(kind, f'"tea {n}"', LIVE, 10).ranking[0][0] == f"r{n}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_thousands_take_few_statements(kind: RecordKind) -> None:
    """Beside a thread that is busy in Python, each statement may wait for 5 ms."""
    records: list[Record] = [
        Memory(id=f"r{i}", content="tea")
        if kind is MEMORIES
        else Message(id=f"r{i}", content="tea", role="user", session_key="s")
        for i in range(5000)
    ]
    statements: list[str] = []
    with closing(Database(None)) as database:
        parts = StorageParts(database)
        with database.write() as connection:
            connection.set_trace_callback(statements.append)
        parts.store.save(kind, records)

        assert parts.queue.pending() == 5000
        # Not those that SQLite runs within the full-text index. A trigger tells its statement anew.
        ours = {statement for statement in statements if not statement.startswith("--")}
        assert 3 <= len(ours) < 50


@settings(max_examples=300)
@given(batch=BATCHES)
def test_a_second_time_nothing_new(
    batch: tuple[RecordKind, list[Record], list[Record], set[int]],
) -> None:
    kind, _, records, _ = batch
    with new_store() as store:
        store.save(kind, records)
        there = everything(store, kind)
        store.save(kind, records)

        assert len(everything(store, kind)) == len(there)
