"""SQLite's full-text modules: what differs between them, and how much they take at once."""

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from langchain_agentmem.batches import take
from langchain_agentmem.storage.query import Dialect


@dataclass(frozen=True, slots=True)
class Engine:
    """A full-text module, and how it is used."""

    name: Dialect
    suffix: str
    """Tables of one engine cannot be touched by another."""
    options: str
    rank: str
    """SQL whose smallest value is the best hit."""
    empty: tuple[str, ...]
    """What empties a table through those behind it, for where the module itself is missing."""


ENGINES = (
    Engine(
        name="fts5",
        suffix="fts",
        options="fts5(terms, tokenize = 'ascii')",
        rank="f.rank",
        empty=(
            *(f"DELETE FROM {{table}}_{part}" for part in ("content", "docsize", "idx", "data")),
            # No averages and no segments, without which FTS5 could not open the table again.
            "INSERT INTO {table}_data VALUES (1, x''), (10, x'00000000000000')",
        ),
    ),
    Engine(
        name="fts4",
        suffix="fts4",
        options="fts4(terms, tokenize=simple)",
        # The offsets text grows with every term that matches, four numbers each.
        rank="-length(offsets({table}))",
        empty=tuple(
            f"DELETE FROM {{table}}_{part}"
            for part in ("content", "docsize", "segments", "segdir", "stat")
        ),
    ),
)

_BATCH_ROWS = 1000


def batched(rows: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Cut rows into batches that are one statement each, by their number and by their length."""
    remaining = iter(rows)
    while batch := take(remaining, _BATCH_ROWS, lambda row: len(row[1])):
        yield batch


def levels(connection: sqlite3.Connection, table: str) -> int:
    """Return how many levels an FTS5 index has, from the head of its structure record."""
    sql = f"SELECT substr(block, 5, 2) FROM {table}_data WHERE id = 10"
    first, second = (connection.execute(sql).fetchone()[0] + b"\0\0")[:2]
    return int((first & 0x7F) << 7 | second) if first & 0x80 else int(first)
