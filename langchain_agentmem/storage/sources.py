"""A memory is also found by what it was distilled from.

A memory says in a few words what a conversation said in many, and a question may use the words of
either. Memories that name the messages they came from (`metadata["source_message_ids"]`) take the
score of the one that matches best in addition to their own. The links live in a table that
triggers keep level with the memories; the messages may come before, after or never.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from langchain_agentmem.storage.kinds import AMONG, Condition, RecordKind

_MOST_SOURCES = 5000


@dataclass(frozen=True, slots=True)
class Lent:
    """What its sources give a record."""

    score: float
    """The BM25 score of the source that matches best."""
    source: str
    """The id of that source."""


def has_sources(connection: sqlite3.Connection, kind: RecordKind) -> bool:
    """Tell whether any record of a kind that has `sources` names what it was distilled from."""
    row = connection.execute(f"SELECT EXISTS (SELECT 1 FROM {kind.name}_sources)").fetchone()
    return bool(row[0])


def lends(kind: RecordKind) -> Condition:
    """Return the condition on a source that any record of a kind was distilled from it."""
    return Condition(
        f"EXISTS (SELECT 1 FROM {kind.name}_sources link WHERE link.source IN (r.id, r.given_id))",
        selective=True,
    )


def sources_of(
    connection: sqlite3.Connection, kind: RecordKind, few: Iterable[int], condition: Condition
) -> dict[int, str] | None:
    """Find what a few records were distilled from.

    Args:
        connection: A connection to the database.
        kind: A kind of record that has `sources`.
        few: The row numbers of the records.
        condition: What a source must meet.

    Returns:
        The ids of the sources by row number; None where they are too many to look at each.
    """
    if kind.sources is None:
        return {}
    named = f"SELECT link.source FROM {kind.name}_sources link WHERE link.seq {AMONG}"
    seqs = json.dumps(list(few))
    rows = connection.execute(
        f"SELECT r.seq, r.id FROM {kind.sources.name} r "
        f"WHERE (r.id IN ({named}) OR r.given_id IN ({named})) AND {condition.sql} LIMIT ?",
        (seqs, seqs, *condition.parameters, _MOST_SOURCES + 1),
    ).fetchall()
    return dict(rows) if len(rows) <= _MOST_SOURCES else None


def lent_by_sources(
    connection: sqlite3.Connection,
    kind: RecordKind,
    scores: Mapping[str, float],
    condition: Condition,
) -> dict[str, Lent]:
    """Find the records that were distilled from what matches a query.

    A source is known by its id, or by the one its writer gave it; where that is the id of several
    records, it is the one of the same conversation and owner.

    Args:
        connection: A connection to the database.
        kind: A kind of record that has `sources`.
        scores: BM25 scores of sources by id, all of which the search may see.
        condition: What a record must meet.

    Returns:
        By the id of the record, what its sources give it.
    """
    if kind.sources is None or not scores:
        return {}
    rows = connection.execute(
        f"SELECT r.id, s.id FROM json_each(?) AS wanted "
        f"CROSS JOIN {kind.sources.name} s ON s.id = wanted.value "
        f"CROSS JOIN {kind.name}_sources link ON link.source IN (s.id, s.given_id) "
        f"CROSS JOIN {kind.name} r ON r.seq = link.seq "
        "WHERE r.session_key IN ('', s.session_key) "
        "AND (r.scope <> s.scope OR r.scope_id = s.scope_id OR '' IN (r.scope_id, s.scope_id)) "
        f"AND {condition.sql}",
        (json.dumps(list(scores)), *condition.parameters),
    )
    lent: dict[str, Lent] = {}
    for id_, source in rows:
        if id_ not in lent or scores[source] > lent[id_].score:
            lent[id_] = Lent(scores[source], source)
    return lent
