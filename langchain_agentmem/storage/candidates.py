"""Which records a keyword query looks at: those with its rarest terms, and a bounded number.

FTS5 finds the records that hold a term quickly and ranks them slowly, and a question's common words
match most of the database. So FTS5 ranks those that hold the rarest terms, the *rare* ones, which
together occur a bounded number of times. The *common* rest says little of its own: it orders what
the rare terms found, and where they found little, records are added that hold several common
terms, the latest first. (The idea is that of MaxScore: Turtle and Flood, "Query evaluation:
strategies and optimizations", 1995.) Where all terms are rare, as in any small memory, FTS5 ranks
all that matches. Records that are few by their filters are all looked at.
"""

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_agentmem.storage.kinds import AMONG, Condition, RecordKind
from langchain_agentmem.storage.query import alternatives, together
from langchain_agentmem.storage.selection import Selection
from langchain_agentmem.storage.term_counts import TermCounts, averages
from langchain_agentmem.storage.text import QueryTerm, readable_terms
from langchain_agentmem.storage.windows import term_frequencies

RANKED = 5000
"""How often the rare terms of a query occur together, at the most."""
REFINED = 200
"""How many candidates are ordered by all terms of the query, the common ones included."""
READ_AT_MOST = 3000
"""Up to so many records that meet a filter are read and scored one by one."""
_READ_WHILE_RANKED = 0.2
"""How many records are read and scored in the time that FTS5 takes for one that holds a term."""
_K1 = 1.2
_B = 0.75

Row = tuple[int, str, float]
"""A record's row number, its id and its BM25 score, negative as in FTS5: the best is the least."""


@dataclass(frozen=True, slots=True)
class Split:
    """The terms of a query by how much finding them costs."""

    rare: list[QueryTerm]
    common: list[QueryTerm]
    """From the rarest on."""


def split(terms: Sequence[QueryTerm], counts: TermCounts) -> Split:
    """Take terms from the rarest on, as long as they occur at most `RANKED` times in all."""
    ordered = sorted(zip(counts.matching, terms, strict=True), key=lambda pair: pair[0])
    rare: list[QueryTerm] = []
    left = RANKED
    for matching, term in ordered:
        left -= matching
        if left < 0:
            break
        rare.append(term)
    return Split(rare, [term for _, term in ordered[len(rare) :]])


class Candidates:
    """Finds candidates in one full-text table of FTS5.

    Args:
        connection: A connection to the database.
        kind: Which records.
        table: Their full-text table.
        condition: What a record must meet.
        selection: How many meet it.

    Attributes:
        method: How candidates were found, for people to read.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        kind: RecordKind,
        table: str,
        condition: Condition,
        selection: Selection,
    ) -> None:
        """Look at nothing yet."""
        self.method = ""
        self._connection = connection
        self._kind = kind
        self._table = table
        self._condition = condition
        self._few = selection.few
        # Records of one time or session lie side by side: FTS5 need not look elsewhere.
        self._bounds = (min(selection.few), max(selection.few)) if selection.few else None

    def find(self, terms: Sequence[QueryTerm], counts: TermCounts, limit: int) -> list[Row]:
        """Return up to `limit` records, best first; those that all terms rank before the rest."""
        few, parts = self._few, split(terms, counts)
        holding = math.inf if parts.common else sum(counts.matching)
        if few is not None and len(few) <= min(READ_AT_MOST, _READ_WHILE_RANKED * holding):
            self.method = f"each of the {len(few):,} was read"
            return self._scored(few, terms, counts)[:limit]
        if not parts.common:
            self.method = "all that holds a term of the query was ranked"
            return self.ranked(alternatives(terms), limit)
        # As many whatever the limit, so that the order does not depend on it.
        found = {row[0]: row for row in self._by_rare_terms(parts)}
        self._fill(found, parts.common, REFINED)
        rare, common = (readable_terms(t.text for t in each) for each in (parts.rare, parts.common))
        self.method = (
            f"{len(found):,} candidates by rare terms ({rare or 'none'}), ordered by common ones "
            f"({common}), too"
        )
        refined = self._scored({seq: row[1] for seq, row in found.items()}, terms, counts)
        if len(refined) >= limit:
            return refined[:limit]
        worst = refined[-1][2] if refined else 0.0
        rest = self.ranked(alternatives(parts.rare), limit) if parts.rare else []
        more = {row[0]: row for row in rest}
        self._fill(more, parts.common, limit + len(found))
        tail = [(seq, id_, worst) for seq, id_, _ in more.values() if seq not in found]
        return [*refined, *tail][:limit]

    def ranked(self, expression: str, limit: int) -> list[Row]:
        """Return what matches an expression, as FTS5 ranks it."""
        # Asked for its rank, FTS5 sorts all that matches by itself. Under a filter, what that
        # leaves out need not be ranked before.
        order = "+f.rank" if self._condition.selective else "f.rank"
        return self._rows("f.rank", expression, order, limit)

    def _by_rare_terms(self, parts: Split) -> list[Row]:
        if not parts.rare:
            return []
        rare = alternatives(parts.rare)
        rows = self.ranked(rare, REFINED)
        if len(rows) < REFINED:
            return rows
        # Among so many, those that hold a common term as well might be missing.
        for term in parts.common:
            rows += self._latest(together([rare, alternatives([term])]), REFINED // 4)
        return rows

    def _fill(self, found: dict[int, Row], common: Sequence[QueryTerm], wanted: int) -> None:
        """Add the latest records that hold all common terms, then all but the commonest, ..."""
        for size in range(len(common), 0, -1):
            if len(found) >= wanted:
                return
            expression = together([alternatives([term]) for term in common[:size]])
            found |= {row[0]: row for row in self._latest(expression, wanted)}
        if len(found) < wanted and len(common) > 1:
            found |= {row[0]: row for row in self._latest(alternatives(common), wanted)}

    def _latest(self, expression: str, limit: int) -> list[Row]:
        return self._rows("0.0", expression, "f.rowid DESC", limit)

    def _rows(self, place: str, expression: str, order: str, limit: int) -> list[Row]:
        within = "" if self._bounds is None else "AND f.rowid BETWEEN ? AND ? "
        sql = (
            f"SELECT r.seq, r.id, {place} FROM {self._table} AS f "
            f"CROSS JOIN {self._kind.name} r ON r.seq = f.rowid "
            f"WHERE {self._table} MATCH ? {within}AND {self._condition.sql} "
            f"ORDER BY {order} LIMIT ?"
        )
        parameters = (expression, *(self._bounds or ()), *self._condition.parameters, limit)
        return [tuple(row) for row in self._connection.execute(sql, parameters)]

    def _scored(
        self, ids: Mapping[int, str], terms: Sequence[QueryTerm], counts: TermCounts
    ) -> list[Row]:
        """Score records by all terms, as FTS5 would, and leave out those that hold none."""
        records, length = averages(self._connection, self._table)
        weights = [_inverse_document_frequency(n, records) for n in counts.matching]
        # What holds no term need not be read: SQLite sees that faster than Python would.
        holds = " OR ".join("instr(c0, ?)" for _ in terms)
        texts = self._connection.execute(
            f"SELECT id, c0 FROM {self._table}_content WHERE id {AMONG} AND ({holds})",
            (json.dumps(list(ids)), *(term.text for term in terms)),
        )
        scored: list[Row] = []
        for seq, text in texts:
            words = text.split()
            damping = _K1 * (1.0 - _B + _B * len(words) / length)
            score = 0.0
            for weight, frequency in zip(weights, term_frequencies(words, terms), strict=True):
                if frequency:
                    score -= weight * frequency * (_K1 + 1.0) / (frequency + damping)
            if score:
                scored.append((seq, ids[seq], score))
        scored.sort(key=lambda row: (row[2], row[0]))
        return scored


def _inverse_document_frequency(matching: int, total: int) -> float:
    # FTS5 has another formula than the windows: what most records hold says nothing.
    matching = min(matching, total)
    return max(1e-6, math.log((total - matching + 0.5) / (matching + 0.5)))
