"""In how many records a term occurs: what tells rare terms from common ones.

FTS5 counts a term by walking through all its records. So the counts of terms that are common are
kept until much was added or removed, and those of rare terms, which cost next to nothing, are
taken anew.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from langchain_agentmem.storage.kinds import RecordKind
from langchain_agentmem.storage.text import QueryTerm

COMMON = 1000
"""Terms of at least so many records are counted once and remembered."""
DRIFT = 0.02
"""Which part of the memory may be added, or of the records of a term removed, before it is counted
anew."""
_MOST_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class TermCounts:
    """The counts of a query's terms.

    Attributes:
        total: How many records there are, about: the highest row number.
        matching: In how many of them each term occurs.
    """

    total: int
    matching: list[int]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A count, with the size of the memory when it was taken."""

    matching: int
    total: int
    indexed: int

    def holds(self, total: int, indexed: int) -> bool:
        """Tell whether too little was added or removed since to matter."""
        added = total - self.total
        removed = self.indexed + max(0, added) - indexed  # below 0: brought back
        # What was removed may all have held the term.
        return abs(added) <= DRIFT * self.total and abs(removed) <= DRIFT * self.matching


class TermCounter:
    """Counts terms in the index of one database."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._kept: dict[tuple[str, QueryTerm], _Kept] = {}

    def count(
        self,
        connection: sqlite3.Connection,
        kind: RecordKind,
        table: str,
        terms: Sequence[QueryTerm],
    ) -> TermCounts:
        """Count the records that hold each of the terms in an FTS5 table of the kind."""
        total = connection.execute(f"SELECT coalesce(max(seq), 0) FROM {kind.name}").fetchone()[0]
        indexed, _ = averages(connection, table)
        counted = [self._count(connection, kind, term, total, indexed) for term in terms]
        return TermCounts(total, counted)

    def _count(
        self,
        connection: sqlite3.Connection,
        kind: RecordKind,
        term: QueryTerm,
        total: int,
        indexed: int,
    ) -> int:
        kept = self._kept.get((kind.name, term))
        if kept is not None and kept.holds(total, indexed):
            return min(kept.matching, total)
        last = term.text + chr(0x10FFFF) if term.prefix else term.text
        row = connection.execute(
            f"SELECT coalesce(sum(doc), 0) FROM {kind.name}_terms WHERE term BETWEEN ? AND ?",
            (term.text, last),
        ).fetchone()
        matching = int(row[0])
        if matching >= COMMON:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[kind.name, term] = _Kept(matching, total, indexed)
        return min(matching, total)


def averages(connection: sqlite3.Connection, table: str) -> tuple[int, float]:
    """Return the number of records and of terms in each in the mean, as FTS5 keeps them."""
    row = connection.execute(f"SELECT block FROM {table}_data WHERE id = 1")
    numbers = _varints(row.fetchone()[0])
    records, terms = numbers[:2] if len(numbers) > 1 else (0, 0)
    return records, (terms / records if records and terms else 1.0)


def _varints(block: bytes) -> list[int]:
    """Read SQLite's variable-length integers (https://sqlite.org/fileformat2.html#varint)."""
    numbers, value = [], 0
    for byte in block:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004
            numbers.append(value)
            value = 0
    return numbers
