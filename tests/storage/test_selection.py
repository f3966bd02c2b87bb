"""How many records a filter leaves is found out through indexes, at a bounded price."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from storage_parts import StorageParts

from langchain_agentmem import Memory, Message
from langchain_agentmem.scopes import Turn
from langchain_agentmem.storage import selection
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES, Condition, RecordKind
from langchain_agentmem.storage.selection import EVERY_RECORD, few_at_most

TOTAL = 1500
LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Memories and messages of ten users, a hundred scenes and as many sessions."""
    with closing(Database(None)) as opened:
        store = StorageParts(opened).store
        common = [
            {
                "id": f"{i}",
                "content": f"text {i}",
                "scope": "user",
                "scope_id": f"u{i % 10}",
                "session_key": f"s{i // 15}",
            }
            for i in range(TOTAL)
        ]
        store.save(
            MEMORIES,
            [
                Memory.model_validate(
                    {**each, "scene_name": f"Scene {i % 100}.", "created_at": 1000 + i}
                )
                for i, each in enumerate(common)
            ],
        )
        store.save(
            MESSAGES,
            [
                Message.model_validate({**each, "role": "user", "recorded_at": 1000 + i})
                for i, each in enumerate(common)
            ],
        )
        store.delete(["7"])
        yield opened


def condition(kind: RecordKind, user: str | None = None, **filters: Any) -> Condition:
    config = None if user is None else {"configurable": {"user_id": user}}
    return kind.where(filters, Turn.from_config(config).sees())


def select(database: Database, kind: RecordKind, condition: Condition) -> selection.Selection:
    with database.read() as connection:
        return selection.select(connection, kind, condition)


@pytest.mark.parametrize("total", [1_000, 5_000, 99_991, 100_000, 1_000_000])
def test_the_sample_is_even_and_has_no_period(total: int) -> None:
    drawn = selection.sample(total)
    assert set(drawn) <= set(range(1, total + 1))
    tenths = [(number - 1) * 10 // total for number in drawn]
    for period in (2, 3, 5, 7, 10):
        for each in range(period):
            expected = len(drawn) / period
            assert sum(number % period == each for number in drawn) > expected / 3
    assert all(tenths.count(tenth) > len(drawn) / 20 for tenth in range(10))


CASES = [
    (MEMORIES, {"user": "u7"}, 149),
    (MEMORIES, {"scene": "scene 42."}, 15),
    (MEMORIES, {"scene": "SCENE 4"}, 11 * 15),
    (MEMORIES, {"scene": "scene 42.", "user": "u2"}, 15),
    (MEMORIES, {"scene": "scene 42.", "user": "u3"}, 0),
    (MEMORIES, {"session_key": "s3"}, 15),
    (MEMORIES, {"scene": "nowhere"}, 0),
    (MESSAGES, {"session_key": "s0"}, 15),
    (MESSAGES, {"user": "nobody"}, 0),
    (MESSAGES, {"role": "tool"}, 0),
]


@pytest.mark.parametrize(("kind", "filters", "matching"), CASES)
def test_of_few_all_are_known(
    database: Database, kind: RecordKind, filters: dict[str, Any], matching: int
) -> None:
    asked = condition(kind, **filters)

    found = select(database, kind, asked)

    assert found.few is not None
    assert len(found.few) == matching
    with database.read() as connection:
        sql = f"SELECT r.seq, r.id FROM {kind.name} r WHERE {asked.sql}"  # noqa: S608
        assert dict(connection.execute(sql, asked.parameters).fetchall()) == found.few


@pytest.mark.parametrize("most", [10, 100])
def test_of_many_the_share_is_known(
    database: Database, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(selection, "few_at_most", lambda _: most)

    found = select(database, MESSAGES, condition(MESSAGES, user="u3"))

    assert found.few is None
    assert found.share == pytest.approx(0.1, abs=0.05)


def test_without_a_filter_nothing_is_counted(database: Database) -> None:
    store = StorageParts(database).store

    assert store.select(MEMORIES, condition(MEMORIES)) is EVERY_RECORD


@pytest.mark.parametrize(
    ("kind", "filters"),
    [
        (MEMORIES, {"user": "u3"}),
        (MEMORIES, {"scene": "scene 42."}),
        (MEMORIES, {"session_key": "s3"}),
        (MEMORIES, {"after": LONG_AGO}),
        (MEMORIES, {"type": "persona"}),
        (MESSAGES, {"user": "u3"}),
        (MESSAGES, {"session_key": "s3"}),
        (MESSAGES, {"before": LONG_AGO}),
    ],
)
def test_the_records_are_found_through_an_index(
    database: Database, kind: RecordKind, filters: dict[str, Any]
) -> None:
    asked = condition(kind, **filters)
    select = f"SELECT r.seq, r.id FROM {kind.name} r WHERE {asked.seek}"  # noqa: S608
    with database.read() as connection:
        steps = [
            row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {select}", asked.parameters)
        ]

    assert not any(step.startswith("SCAN r") for step in steps), steps


def test_scenes_too_many_to_list_are_searched_through(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = condition(MEMORIES, scene="scene 42.")
    listed = select(database, MEMORIES, asked)
    monkeypatch.setattr(selection, "_MOST_LISTED", 50)

    assert select(database, MEMORIES, asked) == listed


@pytest.mark.parametrize(
    ("total", "few"), [(10, 1000), (10_000, 1183), (100_000, 3741), (10**8, 12_000)]
)
def test_what_few_means_grows_more_slowly_than_the_memory(total: int, few: int) -> None:
    assert few_at_most(total) == few
