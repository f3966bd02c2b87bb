"""In how many records a term occurs: what tells rare terms from common ones.

FTS5 counts a term by walking through all its records. So the counts of terms that are common are
kept for a while, and those of rare terms, which cost next to nothing, are taken anew.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from langchain_agentmem.storage.kinds import RecordKind
from langchain_agentmem.storage.text import QueryTerm

COMMON = 1000
"""Terms of at least so many records are counted once and remembered."""
DRIFT = 0.02
"""How much the number of records may change before a term is counted anew."""
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


class TermCounter:
    """Counts terms in the index of one database."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._kept: dict[tuple[str, QueryTerm], tuple[int, int]] = {}

    def count(
        self, connection: sqlite3.Connection, kind: RecordKind, terms: Sequence[QueryTerm]
    ) -> TermCounts:
        """Count the records that hold each of the terms. FTS5 only."""
        total = connection.execute(f"SELECT coalesce(max(seq), 0) FROM {kind.name}").fetchone()[0]
        counted = [self._count(connection, kind, term, total) for term in terms]
        return TermCounts(total, counted)

    def _count(
        self, connection: sqlite3.Connection, kind: RecordKind, term: QueryTerm, total: int
    ) -> int:
        kept = self._kept.get((kind.name, term))
        if kept is not None and abs(total - kept[1]) <= DRIFT * kept[1]:
            return min(kept[0], total)
        last = term.text + chr(0x10FFFF) if term.prefix else term.text
        row = connection.execute(
            f"SELECT coalesce(sum(doc), 0) FROM {kind.name}_terms WHERE term BETWEEN ? AND ?",
            (term.text, last),
        ).fetchone()
        matching = int(row[0])
        if matching >= COMMON:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[kind.name, term] = (matching, total)
        return min(matching, total)
