"""The keyword index: one FTS5 table per record kind, in the database's own transactions.

The tables hold the terms of `text.index_text`, so FTS5 itself only splits at spaces. Queries are
quoted terms joined by OR: no text that a user sends can be FTS5 syntax.
"""

import sqlite3
from collections.abc import Iterable, Sequence

from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import KINDS, Condition, RecordKind
from langchain_agentmem.storage.text import ANALYSIS_VERSION, index_text, query_terms

MAX_QUERY_TERMS = 64
_LEAST_BM25 = 0.001
_REBUILD_BATCH = 1000


class KeywordIndex:
    """Full-text search over the records of a database.

    Attributes:
        problem: Why there is no keyword index, or None where there is one.
    """

    def __init__(self, database: Database) -> None:
        """Make the tables if missing; fill them anew if the analysis of text has changed."""
        self._database = database
        self.problem: str | None = None
        with database.write() as connection:
            try:
                for kind in KINDS:
                    connection.execute(
                        f"CREATE VIRTUAL TABLE IF NOT EXISTS {kind.name}_fts "
                        "USING fts5(terms, tokenize = 'ascii')"
                    )
            except sqlite3.OperationalError as error:
                self.problem = f"this SQLite has no FTS5 ({error}): keyword search is off"
                return
            self._rebuild_if_outdated(connection)

    @property
    def kind(self) -> str | None:
        """The kind of index, for people to read."""
        return None if self.problem else "fts5"

    def put(
        self, connection: sqlite3.Connection, kind: RecordKind, rows: Iterable[tuple[int, str]]
    ) -> None:
        """Index texts under their row numbers, in place of what was there."""
        if self.problem:
            return
        entries = [(seq, index_text(text)) for seq, text in rows]
        self.remove(connection, kind, [seq for seq, _ in entries])
        connection.executemany(f"INSERT INTO {kind.name}_fts (rowid, terms) VALUES (?, ?)", entries)

    def remove(self, connection: sqlite3.Connection, kind: RecordKind, seqs: Iterable[int]) -> None:
        """Take rows out of the index; unknown ones are passed over."""
        if self.problem:
            return
        connection.executemany(
            f"DELETE FROM {kind.name}_fts WHERE rowid = ?", [(seq,) for seq in seqs]
        )

    def search(
        self,
        kind: RecordKind,
        query: str,
        condition: Condition,
        limit: int,
        deadline: float | None = None,
    ) -> list[tuple[str, float]]:
        """Rank the records that hold any term of the query.

        Args:
            kind: Which records.
            query: Any text.
            condition: What a record must meet.
            limit: How many to return at the most.
            deadline: `time.monotonic()` seconds after which the search is given up.

        Returns:
            Pairs of id and score, best first. The score is BM25 `b` (k1 = 1.2, b = 0.75, as
            FTS5 computes it) mapped to `b / (1 + b)`, within 0 to 1.

        Raises:
            StorageError: The database failed, or the deadline passed.
        """
        expression = match_expression(query)
        if self.problem or not expression:
            return []
        sql = (
            f"SELECT r.id, f.rank FROM {kind.name}_fts f JOIN {kind.name} r ON r.seq = f.rowid "
            f"WHERE f.{kind.name}_fts MATCH ? AND {condition.sql} ORDER BY f.rank LIMIT ?"
        )
        with self._database.read(deadline) as connection:
            rows = connection.execute(sql, (expression, *condition.parameters, limit)).fetchall()
        return [(id_, _score(rank)) for id_, rank in rows]

    def check(self, connection: sqlite3.Connection) -> None:
        """Run FTS5's integrity check.

        Raises:
            sqlite3.DatabaseError: The index is damaged.
        """
        for kind in KINDS:
            table = f"{kind.name}_fts"
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")

    def optimize(self, connection: sqlite3.Connection) -> None:
        """Merge the index into one segment, which holds no trace of what was removed."""
        for kind in KINDS if not self.problem else ():
            table = f"{kind.name}_fts"
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")

    def _rebuild_if_outdated(self, connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT value FROM meta WHERE key = 'text_analysis'").fetchone()
        if row and row[0] == str(ANALYSIS_VERSION):
            return
        for kind in KINDS:
            connection.execute(f"DELETE FROM {kind.name}_fts")
            cursor = connection.execute(
                f"SELECT * FROM {kind.name} WHERE deleted_at IS NULL ORDER BY seq"
            )
            while rows := cursor.fetchmany(_REBUILD_BATCH):
                self.put(
                    connection,
                    kind,
                    ((row["seq"], kind.searched_text(kind.from_row(row))) for row in rows),
                )
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES ('text_analysis', ?)", (str(ANALYSIS_VERSION),)
        )


def match_expression(query: str) -> str:
    """Return the FTS5 expression of a query: its quoted terms joined by OR, or an empty string."""
    terms: Sequence = query_terms(query)[:MAX_QUERY_TERMS]
    return " OR ".join(f'"{term.text}"{" *" if term.prefix else ""}' for term in terms)


def _score(rank: float) -> float:
    # Where most records hold a term, BM25 gives next to nothing for it; a match is still a match.
    bm25 = max(_LEAST_BM25, -rank)
    return bm25 / (1.0 + bm25)
