"""Counts of what is in a database, and what it takes on disk."""

import sqlite3
from dataclasses import replace
from pathlib import Path

from langchain_agentmem.records import from_epoch_us
from langchain_agentmem.reports import Counts, KindStats, MemoryStats
from langchain_agentmem.scopes import Visibility
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import KINDS, MEMORIES, MESSAGES, Condition, RecordKind

# Whole seconds, rounded down: SQLite rounds fractions to the next millisecond, and perhaps month.
_SECONDS = "(r.{time} - ((r.{time} % 1000000) + 1000000) % 1000000) / 1000000"
_MONTH = f"strftime('%Y-%m', {_SECONDS}, 'unixepoch')"
_SCOPE = "CASE WHEN r.scope_id = '' THEN r.scope ELSE r.scope || ' ' || r.scope_id END"
_EVERY_KIND = {"session": "r.session_key", "scope": _SCOPE, "month": _MONTH}
_COUNTED = {
    MEMORIES.name: {"type": "r.type", "scene": "r.scene_name", **_EVERY_KIND},
    MESSAGES.name: {"role": "r.role", **_EVERY_KIND},
}


def count_all(
    database: Database,
    *,
    visibility: Visibility,
    most: int,
    vectors: Path | None,
    wants_vectors: bool,
) -> MemoryStats:
    """Count the records that are visible.

    Args:
        database: The open database.
        visibility: What is counted.
        most: How many values of each thing are told.
        vectors: The folder of the vectors, or None.
        wants_vectors: Whether records without a vector wait for one.
    """
    kinds: dict[str, KindStats] = {}
    with database.read() as connection:
        for kind in KINDS:
            counted = _count_kind(connection, kind, visibility, most)
            kinds[kind.name] = counted if wants_vectors else replace(counted, pending=0)
    sizes = {} if database.path is None else {"database": _size_of_database(database.path)}
    if vectors is not None and vectors.is_dir():
        sizes["vectors"] = sum(_size(path) for path in vectors.rglob("*"))
    return MemoryStats(location=database.location, sizes=sizes, **kinds)


def _count_kind(
    connection: sqlite3.Connection,
    kind: RecordKind,
    visibility: Visibility,
    most: int,
) -> KindStats:
    table, time = kind.name, kind.time_field
    live = kind.where({}, visibility, whole=True)
    visible, parameters = visibility.where()
    deleted = Condition(f"{visible} AND r.deleted_at IS NOT NULL", tuple(parameters))
    total, first, last = connection.execute(
        f"SELECT count(*), min(r.{time}), max(r.{time}) FROM {table} r WHERE {live.sql}",
        live.parameters,
    ).fetchone()
    waiting = Condition(
        f"{live.sql} AND r.id IN (SELECT id FROM vector_queue WHERE kind = '{table}')",
        live.parameters,
    )
    return KindStats(
        total=total,
        deleted=_count(connection, table, deleted),
        pending=_count(connection, table, waiting),
        first=None if first is None else from_epoch_us(first),
        last=None if last is None else from_epoch_us(last),
        by={
            name: _group(connection, table, value.format(time=time), live, most)
            for name, value in _COUNTED[table].items()
        },
    )


def _count(connection: sqlite3.Connection, table: str, condition: Condition) -> int:
    sql = f"SELECT count(*) FROM {table} r WHERE {condition.sql}"
    return int(connection.execute(sql, condition.parameters).fetchone()[0])


def _group(
    connection: sqlite3.Connection, table: str, value: str, live: Condition, most: int
) -> Counts:
    groups = (
        f"SELECT {value} AS value, count(*) AS records FROM {table} r WHERE {live.sql} GROUP BY 1"
    )
    by_time = value.startswith("strftime")
    order = "value DESC" if by_time else "records DESC, value"
    chosen = connection.execute(
        f"SELECT * FROM ({groups}) ORDER BY {order} LIMIT ?", (*live.parameters, most)
    ).fetchall()
    distinct = connection.execute(f"SELECT count(*) FROM ({groups})", live.parameters).fetchone()
    ordered = chosen[::-1] if by_time else chosen
    return Counts(distinct=distinct[0], most={row[0]: row[1] for row in ordered})


def _size_of_database(path: Path) -> int:
    return sum(_size(path.with_name(f"{path.name}{suffix}")) for suffix in ("", "-wal", "-shm"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # files come and go
        return 0
