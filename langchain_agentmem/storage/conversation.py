"""Which messages stand around a message: in the same conversation, said to or by the same owner."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain_agentmem.storage.kinds import AMONG, RecordKind


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The messages around one message, nearest first."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    def at_distance(self, distance: int) -> list[int]:
        """Return the messages at exactly this distance, two at the most."""
        return [side[distance - 1] for side in (self.before, self.after) if len(side) >= distance]


def surroundings(
    connection: sqlite3.Connection, kind: RecordKind, seqs: Iterable[int], reach: int
) -> dict[int, Surroundings]:
    """Find the `reach` records before and after each of the records.

    Args:
        connection: A connection to the database.
        kind: A kind of record that has a `context`.
        seqs: Row numbers.
        reach: How far to look, in records.

    Returns:
        The row numbers around each record. Only live records of the same conversation and owner
        count, in the order of their time.
    """
    context = kind.context
    if context is None:
        return {}
    time, counts = kind.time_field, context.counts.format("n")
    same = " AND ".join(f"n.{name} = r.{name}" for name in kind.identity_fields)

    def side(comparison: str, direction: str) -> str:
        return (
            "(SELECT group_concat(seq) FROM ("
            f"SELECT n.seq FROM {kind.name} n WHERE {same} AND n.deleted_at IS NULL "
            f"AND {counts} AND (n.{time}, n.seq) {comparison} (r.{time}, r.seq) "
            f"ORDER BY n.{time} {direction}, n.seq {direction} LIMIT {reach}))"
        )

    sql = (
        f"SELECT r.seq, {side('<', 'DESC')}, {side('>', 'ASC')} FROM {kind.name} r "
        f"WHERE r.seq {AMONG}"
    )
    rows = connection.execute(sql, (json.dumps(list(seqs)),))
    return {seq: Surroundings(_numbers(before), _numbers(after)) for seq, before, after in rows}


def line_of(seq: int, around: Surroundings) -> list[int]:
    """Return a message and what stands around it, in the order of the conversation."""
    return [*around.before[::-1], seq, *around.after]


def _numbers(joined: str | None) -> tuple[int, ...]:
    return tuple(map(int, joined.split(","))) if joined else ()


def within(line: Sequence[int], position: int, reach: int) -> Surroundings:
    """Return what stands around one place of a line."""
    return Surroundings(
        tuple(line[max(0, position - reach) : position][::-1]),
        tuple(line[position + 1 : position + 1 + reach]),
    )
