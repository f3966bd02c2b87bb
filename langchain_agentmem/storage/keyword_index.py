"""The keyword index: one full-text table per record kind, in the database's own transactions.

The tables hold the terms of `text.index_text`, so SQLite only splits at spaces; queries are quoted
terms: no text that a user sends can be syntax. FTS5 ranks by BM25. Where SQLite lacks it, FTS4
ranks by how many terms match; where that is missing too, there is no keyword index.
"""

import json
import logging
import math
import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from langchain_agentmem.errors import StorageError
from langchain_agentmem.storage import query as query_language
from langchain_agentmem.storage.candidates import Candidates
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.full_text import ENGINES, Engine, batched, levels
from langchain_agentmem.storage.kinds import AMONG, KINDS, Condition, RecordKind
from langchain_agentmem.storage.schema import KEYWORD_INDEX
from langchain_agentmem.storage.selection import EVERY_RECORD, Selection, select
from langchain_agentmem.storage.sources import Lent, has_sources, lends, lent_by_sources, sources_of
from langchain_agentmem.storage.term_counts import TermCounter
from langchain_agentmem.storage.text import analysis_version, index_text
from langchain_agentmem.storage.windows import (
    WINDOW_HITS,
    inverse_document_frequency,
    rank_windows,
)

logger = logging.getLogger(__name__)

_LEAST_STRENGTH = 0.001
_MOST_LEVELS = 500
"""FTS5 adds a level whenever it is optimized, and cannot open a table again that has 2,000."""
_WHERE_WRITTEN = "open this memory once where it can be written"
_ALL_RANKED = "all that matches was ranked"
_ENOUGH_LEND = WINDOW_HITS // 2
"""How many of the best sources must lend, or else those that lend nothing are left out."""
_TOO_DEEP = re.compile(r"malformed MATCH|expression tree is too large|parser stack overflow")


@dataclass(frozen=True, slots=True)
class KeywordHits:
    """What a keyword search found."""

    ranking: list[tuple[str, float]]
    """Pairs of id and score, best first."""
    excluded: Condition | None = None
    """The further condition of a query with NOT, or None."""
    sources: dict[str, str] = field(default_factory=dict)
    """By id, the source whose score was added to that of a record."""
    method: str = "nothing to look for"
    """How they were found, for people to read."""


class KeywordIndex:
    """Full-text search over the records of a database.

    Attributes:
        problem: Why there is no keyword index, or None where there is one.
        note: What the answers of the index may lack, or None.
    """

    def __init__(self, database: Database) -> None:
        """Make the tables if missing; fill them anew if the analysis of text has changed."""
        self._database = database
        self._engine = ENGINES[0]
        self._counter = TermCounter()
        self.problem: str | None = None
        self.note: str | None = None
        if database.read_only is not None:
            self._choose_for_reading()
            return
        with database.write() as connection:
            problems: list[str] = []
            for engine in ENGINES:
                self._engine = engine
                try:
                    sound = [self._created_sound(connection, kind) for kind in KINDS]
                except sqlite3.OperationalError as error:
                    problems.append(str(error))
                else:
                    self._rebuild_if_outdated(connection, damaged=not all(sound))
                    return
            # What is written without an index, the next one has missed.
            self._empty(connection, ENGINES)
            database.set_meta(connection, KEYWORD_INDEX, None)
        self.problem = f"keyword search is off: this SQLite has no FTS ({'; '.join(problems)})"

    def _choose_for_reading(self) -> None:
        """Use the tables that were filled last; nothing can be made or mended here."""
        filled = self._database.meta(KEYWORD_INDEX)
        if filled is None:
            self.problem = f"keyword search is off: its index was emptied; {_WHERE_WRITTEN}"
            return
        name = filled.partition(" ")[0]
        self._engine = next((e for e in ENGINES if e.name == name), ENGINES[0])
        if filled != self._version:
            self.note = f"keywords may miss records: another version indexed them; {_WHERE_WRITTEN}"
        try:
            with self._database.read() as connection:
                for kind in KINDS:
                    connection.execute(f"SELECT 1 FROM {self.table(kind)} LIMIT 1")
        except StorageError as error:
            self.problem = f"keyword search is off: {error}"

    @property
    def _version(self) -> str:
        """What the index of this engine and this analysis of text is known by."""
        return f"{self._engine.name} {analysis_version()}"

    @property
    def engine(self) -> str | None:
        """The name of SQLite's module behind it, or None where there is no index."""
        return None if self.problem else self._engine.name

    def add(
        self, connection: sqlite3.Connection, kind: RecordKind, rows: Iterable[tuple[int, str]]
    ) -> None:
        """Index texts under row numbers that are new."""
        if self.problem:
            return
        for terms in batched((seq, index_text(text)) for seq, text in rows):
            # One statement: for each, Python may have to wait for its lock.
            connection.execute(
                f"INSERT INTO {self.table(kind)} (rowid, terms) "
                "SELECT CAST(key AS INTEGER), value FROM json_each(?)",
                (json.dumps(dict(terms), ensure_ascii=False),),
            )

    def put(
        self, connection: sqlite3.Connection, kind: RecordKind, rows: Iterable[tuple[int, str]]
    ) -> None:
        """Index texts under their row numbers, in place of what was there."""
        replaced = dict(rows)
        self.remove(connection, kind, replaced)
        self.add(connection, kind, replaced.items())

    def remove(self, connection: sqlite3.Connection, kind: RecordKind, seqs: Iterable[int]) -> None:
        """Take rows out of the index; unknown ones are passed over."""
        if self.problem:
            return
        connection.executemany(
            f"DELETE FROM {self.table(kind)} WHERE rowid = ?", [(seq,) for seq in seqs]
        )

    def search(
        self,
        kind: RecordKind,
        query: str,
        condition: Condition,
        limit: int,
        *,
        deadline: float | None = None,
        source_condition: Condition | None = None,
        selection: Selection | None = None,
    ) -> KeywordHits:
        """Rank the records that match a query.

        Args:
            kind: Which records.
            query: Any text, see `storage.query`. What its operators ask for comes first; where
                that finds nothing, its terms are alternatives.
            condition: What a record must meet.
            limit: How many to return at the most.
            deadline: `time.monotonic()` seconds after which the search is given up.
            source_condition: What the sources of a record must meet to give it their scores; None:
                they give nothing.
            selection: How many records meet the condition; None: that is to be found out.

        Returns:
            Ids with scores within 0 to 1. With FTS5 the score is BM25 `b` (k1 = 1.2, b = 0.75)
            mapped to `b / (1 + b)`.

        Raises:
            StorageError: The database failed, or the deadline passed.
        """
        if self.problem:
            return KeywordHits([])
        parsed = query_language.parse(query, self._engine.name)
        if parsed.strict is not None:
            with self._database.read(deadline) as connection:
                rows = self._rows(connection, kind, parsed.strict, condition, limit)
                found = {id_: _strength(place) for _, id_, place in rows}
                if parsed.completed is not None and len(rows) < limit:
                    rows = self._rows(connection, kind, parsed.completed, condition, limit)
                    worst = min(found.values(), default=math.inf)
                    for _, id_, place in rows:  # behind what is meant for sure
                        found.setdefault(id_, min(worst, _strength(place)))
            if found:
                ranking = [(id_, _saturated(score)) for id_, score in found.items()]
                excluded = self._exclusion(kind, parsed.excluded)
                return KeywordHits(ranking[:limit], excluded, method=_ALL_RANKED)
        if not parsed.natural:
            return KeywordHits([])
        with self._database.read(deadline) as connection:
            scores, method = self._match(
                connection, kind, parsed, condition, limit, selection=selection
            )
            lent: dict[str, Lent] = {}
            if kind.sources and source_condition and has_sources(connection, kind):
                few = selection.few if selection else None
                lent = self._lent(
                    connection, kind, parsed, condition, source_condition=source_condition, few=few
                )
                method += f"; {len(lent):,} by what they were distilled from"
        for id_, each in lent.items():
            scores[id_] = scores.get(id_, 0.0) + each.score
        ranking = sorted(scores.items(), key=lambda item: -item[1])  # stable: ties keep their order
        return KeywordHits(
            [(id_, _saturated(score)) for id_, score in ranking[:limit]],
            sources={id_: each.source for id_, each in lent.items()},
            method=method,
        )

    def _lent(
        self,
        connection: sqlite3.Connection,
        kind: RecordKind,
        query: query_language.KeywordQuery,
        condition: Condition,
        *,
        source_condition: Condition,
        few: Mapping[int, str] | None,
    ) -> dict[str, Lent]:
        """Find what is lent by the best sources, always as many, whatever the limit."""
        sources = kind.sources
        assert sources is not None  # noqa: S101  (it was asked for)
        best, _ = self._match(connection, sources, query, source_condition, WINDOW_HITS)
        lent = lent_by_sources(connection, kind, best, condition)
        if len(best) < WINDOW_HITS or len({each.source for each in lent.values()}) >= _ENOUGH_LEND:
            return lent
        # Most of the best are the source of nothing that is looked for: only those that are count.
        # Asked of each source that matches whether it is one of a few records', SQLite would go
        # through those each time.
        of_few = None if few is None else sources_of(connection, kind, few, source_condition)
        if of_few is None:
            lending, selection = source_condition.and_also(lends(kind)), EVERY_RECORD
        else:
            lending = Condition(f"r.seq {AMONG}", (json.dumps(list(of_few)),), selective=True)
            selection = replace(EVERY_RECORD, few=of_few)
        best, _ = self._match(connection, sources, query, lending, WINDOW_HITS, selection=selection)
        return lent_by_sources(connection, kind, best, condition)

    def _match(
        self,
        connection: sqlite3.Connection,
        kind: RecordKind,
        query: query_language.KeywordQuery,
        condition: Condition,
        limit: int,
        *,
        selection: Selection | None = None,
    ) -> tuple[dict[str, float], str]:
        """Score what matches any term of a query, by windows where the kind has any; tell how.

        Plain hits beyond those that are looked at with their neighbours follow behind.
        """
        if self._engine.name != "fts5":
            rows = self._rows(connection, kind, query.natural, condition, limit)
            return {id_: _strength(place) for _, id_, place in rows}, _ALL_RANKED
        table = self.table(kind)
        counts = self._counter.count(connection, kind, table, query.terms)
        if selection is None:
            selection = select(connection, kind, condition)
        candidates = Candidates(connection, kind, table, condition, selection)
        found = candidates.find(query.terms, counts, limit)
        scores: dict[str, float] = {}
        if kind.context is not None:
            scores = dict(
                rank_windows(
                    connection,
                    kind,
                    [seq for seq, _, _ in found[:WINDOW_HITS]],
                    table=table,
                    terms=query.terms,
                    rarity=[inverse_document_frequency(n, counts.total) for n in counts.matching],
                    condition=condition,
                )
            )
        lowest = min(scores.values(), default=math.inf)
        for _, id_, place in found:
            scores.setdefault(id_, min(lowest, _strength(place)))
        return scores, candidates.method

    def _rows(
        self,
        connection: sqlite3.Connection,
        kind: RecordKind,
        expression: str,
        condition: Condition,
        limit: int,
    ) -> list[tuple[int, str, float]]:
        table = self.table(kind)
        rank = self._engine.rank.format(table=table)
        sql = (
            f"SELECT r.seq, r.id, {rank} AS place FROM {table} AS f "
            f"JOIN {kind.name} r ON r.seq = f.rowid "
            f"WHERE {table} MATCH ? AND {condition.sql} ORDER BY place LIMIT ?"
        )
        try:
            return connection.execute(sql, (expression, *condition.parameters, limit)).fetchall()
        except sqlite3.OperationalError as error:
            if not _TOO_DEEP.search(str(error)):
                raise
            return []

    def _exclusion(self, kind: RecordKind, excluded: str | None) -> Condition | None:
        if excluded is None:
            return None
        table = self.table(kind)
        matching = f"SELECT rowid FROM {table} WHERE {table} MATCH ?"
        return Condition(f"r.seq NOT IN ({matching})", (excluded,))

    def check(self, connection: sqlite3.Connection) -> None:
        """Run SQLite's integrity check of the index.

        Raises:
            sqlite3.DatabaseError: The index is damaged.
        """
        for kind in KINDS:
            table = self.table(kind)
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")

    def optimize(self, connection: sqlite3.Connection) -> None:
        """Merge the index into one segment, which holds no trace of what was removed."""
        if self.problem:
            return
        for kind in KINDS:
            table = self.table(kind)
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
            if self._engine.name == "fts5" and levels(connection, table) > _MOST_LEVELS:
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('rebuild')")

    def rebuild(self, connection: sqlite3.Connection) -> None:
        """Make the index anew from the records."""
        for kind in KINDS:
            connection.execute(f"DROP TABLE IF EXISTS {self.table(kind)}")
            self._create(connection, kind)
            cursor = connection.execute(
                f"SELECT * FROM {kind.name} WHERE deleted_at IS NULL ORDER BY seq"
            )
            self.add(
                connection,
                kind,
                ((row["seq"], kind.searched_text(kind.from_row(row))) for row in cursor),
            )

    def table(self, kind: RecordKind) -> str:
        """Return the name of the index's table for a kind of record."""
        return f"{kind.name}_{self._engine.suffix}"

    def _create(self, connection: sqlite3.Connection, kind: RecordKind) -> None:
        connection.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {self.table(kind)} USING {self._engine.options}"
        )
        connection.execute(f"SELECT 1 FROM {self.table(kind)} LIMIT 1")
        if self._engine.name == "fts5":
            connection.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS {kind.name}_terms "
                f"USING fts5vocab({self.table(kind)}, row)"
            )

    def _created_sound(self, connection: sqlite3.Connection, kind: RecordKind) -> bool:
        """Make a table if missing; tells whether it was sound. One that is not is emptied."""
        try:
            self._create(connection, kind)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            logger.warning("the keyword index is damaged (%s) and is made anew", error)
            for statement in self._engine.empty:
                connection.execute(statement.format(table=self.table(kind)))
            self._create(connection, kind)
            return False
        return True

    def _rebuild_if_outdated(self, connection: sqlite3.Connection, *, damaged: bool) -> None:
        # What one engine indexed, another has missed.
        if self._database.meta(KEYWORD_INDEX) == self._version and not damaged:
            return
        self.rebuild(connection)
        self._empty(connection, [engine for engine in ENGINES if engine is not self._engine])
        self._database.set_meta(connection, KEYWORD_INDEX, self._version)

    def _empty(self, connection: sqlite3.Connection, engines: Iterable[Engine]) -> None:
        """Empty the tables of engines that are not in use: of what is purged, nothing stays."""
        for engine in engines:
            for table in (f"{kind.name}_{engine.suffix}" for kind in KINDS):
                if _is_there(connection, table):
                    for statement in engine.empty:
                        connection.execute(statement.format(table=table))


def _is_there(connection: sqlite3.Connection, table: str) -> bool:
    sql = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return connection.execute(sql, (table,)).fetchone() is not None


def _strength(place: float) -> float:
    # Where most records hold a term, BM25 gives next to nothing for it; a match is still a match.
    return max(_LEAST_STRENGTH, -place)


def _saturated(strength: float) -> float:
    return strength / (1.0 + strength)
