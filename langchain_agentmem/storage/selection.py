"""How many records a condition lets through, found out at a bounded price.

What a search does depends on it: a few records are looked at one by one, of many the nearest and
the best are asked for until enough of them match.
"""

import json
import math
import random
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from langchain_agentmem.storage.kinds import AMONG, Condition, RecordKind

FEWEST, MOST = 1000, 12_000
"""Up to how many records count as few, in a small database and in a large one."""
_PER_RECORD = 140
_SAMPLE = 200
_CHANCE = random.Random(_SAMPLE)  # noqa: S311  (a sample, not a secret)
_PLACES = [(number + _CHANCE.random()) / _SAMPLE for number in range(_SAMPLE)]
_ENOUGH_IN_SAMPLE = 8
_CLEARLY = 1.3
_MOST_LISTED = 2000


@dataclass(frozen=True, slots=True)
class Selection:
    """What is known of the records that meet a condition.

    Attributes:
        total: How many records there are, about: the highest row number.
        share: Which part of them meets the condition, about.
        few: All that meet it, ids by row number; None: they are many, or all.
    """

    total: int
    share: float = 1.0
    few: Mapping[int, str] | None = None


EVERY_RECORD = Selection(total=0)
"""Where nothing is filtered; nobody counted."""


def few_at_most(total: int) -> int:
    """Return how many records of so many are few: where one by one begins to be slower.

    Comparing `m` records costs `m`; widening a search for neighbours costs the inverse of the
    share that they are of all. The balance grows with the square root of the total.
    """
    return int(min(MOST, max(FEWEST, math.sqrt(_PER_RECORD * total))))


def sample(total: int) -> list[int]:
    """Return some row numbers from 1 to `total`, one drawn from each of as many equal parts.

    At even distances they could fall in step with whatever is filtered by.
    """
    return [1 + int(total * place) for place in _PLACES]


def select(connection: sqlite3.Connection, kind: RecordKind, condition: Condition) -> Selection:
    """Find out how many records meet a condition, and which, where they are few."""
    if not condition.selective:
        return EVERY_RECORD
    total = connection.execute(f"SELECT coalesce(max(seq), 0) FROM {kind.name}").fetchone()[0]
    if not total:
        return Selection(total)
    most = few_at_most(total)
    share = 1.0
    if total > most:
        sql = f"SELECT count(*) FROM {kind.name} r WHERE r.seq {AMONG} AND {condition.sql}"
        found = connection.execute(
            sql, (json.dumps(sample(total)), *condition.parameters)
        ).fetchone()[0]
        share = found / _SAMPLE
        if found >= _ENOUGH_IN_SAMPLE and share * total > _CLEARLY * most:
            return Selection(total, share)
    sql = f"SELECT r.seq, r.id FROM {kind.name} r WHERE {_driving(connection, condition)} LIMIT ?"
    rows = connection.execute(sql, (*condition.parameters, most + 1)).fetchall()
    if len(rows) <= most:
        return Selection(total, len(rows) / total, dict(rows))
    return Selection(total, max(share, len(rows) / total))


def _driving(connection: sqlite3.Connection, condition: Condition) -> str:
    """Return the condition in the form that finds its records fastest."""
    if condition.listed is None:
        return condition.seek or condition.sql
    sql = f"SELECT count(*) FROM ({condition.listed} LIMIT ?)"
    values = connection.execute(sql, (_MOST_LISTED,)).fetchone()[0]
    return condition.seek or condition.sql if values < _MOST_LISTED else condition.sql
