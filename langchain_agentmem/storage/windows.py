"""A message is understood with its neighbours: "Three times a week" answers the line before it.

The messages that match a query, and those around them, are scored anew by their *window*: BM25
(Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009) over the term frequencies
of the message plus those of its neighbours at lower weights. How rare a term is, is known from
the whole index. A message whose speaker the query names weighs more: who asks what Anna said, asks
for Anna's own lines.
"""

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from langchain_agentmem.storage.conversation import Surroundings, line_of, surroundings, within
from langchain_agentmem.storage.kinds import AMONG, Condition, Context, RecordKind
from langchain_agentmem.storage.text import QueryTerm, query_terms

WINDOW_HITS = 30
"""How many plain hits are looked at with their neighbours."""
_K1 = 1.2
_B = 0.3  # a window's length says less than a text's: half of it is not about the message


@dataclass(slots=True)
class _Line:
    """The term frequencies of one message."""

    length: int
    counts: list[int] = field(default_factory=list)


def rank_windows(
    connection: sqlite3.Connection,
    kind: RecordKind,
    hits: Sequence[int],
    *,
    table: str,
    terms: Sequence[QueryTerm],
    rarity: Sequence[float],
    condition: Condition,
) -> list[tuple[str, float]]:
    """Score messages and their neighbours by their windows.

    Args:
        connection: A connection to the database.
        kind: A kind of record that has a `context`.
        hits: Row numbers of messages that match, best first.
        table: Its full-text table.
        terms: The terms of the query.
        rarity: The inverse document frequency of each term.
        condition: What a result must meet; neighbours that only lend their words need not.

    Returns:
        Pairs of id and BM25 score, best first; ties by row number.
    """
    context = kind.context
    if context is None:
        return []
    reach = len(context.weights)
    windows: dict[int, Surroundings] = {}
    # Twice the reach: the windows of a hit's neighbours reach further than its own.
    for seq, around in surroundings(connection, kind, hits, 2 * reach).items():
        line = line_of(seq, around)
        own = len(around.before)
        for position in range(max(0, own - reach), min(len(line), own + reach + 1)):
            windows.setdefault(line[position], within(line, position, reach))
    needed = {seq for window in windows.values() for seq in (*window.before, *window.after)}
    lines = _read_lines(connection, table, terms, needed | windows.keys())
    speakers, ids = _read_messages(connection, kind, list(windows), condition)
    named = {term.text for term in terms}
    average = sum(line.length for line in lines.values()) / max(1, len(lines))
    usual = average * (1.0 + 2.0 * sum(context.weights)) or 1.0
    scored = [
        (
            seq,
            _score(_parts(lines, seq, windows[seq], context), rarity, usual)
            * (1.0 + context.speaker_bonus * bool(named & speakers[seq])),
        )
        for seq in ids
        # Its neighbours move a record up or down; to be an answer it must match itself.
        if seq in lines and any(lines[seq].counts)
    ]
    scored.sort(key=lambda item: (-item[1], item[0]))
    return [(ids[seq], score) for seq, score in scored if score > 0]


def inverse_document_frequency(matching: int, total: int) -> float:
    """Return how much a term says that occurs in `matching` of `total` texts, above 0."""
    return math.log(1.0 + (total - matching + 0.5) / (matching + 0.5))


def _parts(
    lines: Mapping[int, _Line], seq: int, window: Surroundings, context: Context
) -> list[tuple[float, _Line]]:
    """Return a message and its neighbours with what each counts."""
    parts = [(1.0, lines[seq])] if seq in lines else []
    for distance, weight in enumerate(context.weights, start=1):
        parts += [(weight, lines[n]) for n in window.at_distance(distance) if n in lines]
    return parts


def _score(
    parts: Sequence[tuple[float, _Line]], rarity: Sequence[float], usual_length: float
) -> float:
    length = sum(weight * line.length for weight, line in parts)
    damping = _K1 * (1.0 - _B + _B * length / usual_length)
    score = 0.0
    for index, idf in enumerate(rarity):
        frequency = 0.0
        for weight, line in parts:
            frequency += weight * line.counts[index]
        if frequency:
            score += idf * frequency * (_K1 + 1.0) / (frequency + damping)
    return score


def _read_lines(
    connection: sqlite3.Connection, table: str, terms: Sequence[QueryTerm], seqs: set[int]
) -> dict[int, _Line]:
    rows = connection.execute(
        f"SELECT rowid, terms FROM {table} WHERE rowid {AMONG}",
        (json.dumps(list(seqs)),),
    )
    lines: dict[int, _Line] = {}
    for seq, text in rows:
        words = text.split()
        lines[seq] = _Line(len(words), term_frequencies(words, terms))
    return lines


def term_frequencies(words: Sequence[str], terms: Sequence[QueryTerm]) -> list[int]:
    """Return how often each term stands among the terms of a text."""
    return [
        sum(word.startswith(term.text) for word in words) if term.prefix else words.count(term.text)
        for term in terms
    ]


def _read_messages(
    connection: sqlite3.Connection, kind: RecordKind, seqs: list[int], condition: Condition
) -> tuple[dict[int, frozenset[str]], dict[int, str]]:
    """Return the speakers' names as terms, and the ids, of those that meet the condition."""
    rows = connection.execute(
        f"SELECT r.seq, r.id, r.name FROM {kind.name} r WHERE r.seq {AMONG} AND {condition.sql}",
        (json.dumps(seqs), *condition.parameters),
    )
    speakers: dict[int, frozenset[str]] = {}
    ids: dict[int, str] = {}
    for seq, id_, name in rows:
        ids[seq] = id_
        speakers[seq] = _name_terms(name) if name else frozenset()
    return speakers, ids


@lru_cache(maxsize=1024)
def _name_terms(name: str) -> frozenset[str]:
    return frozenset(term.text for term in query_terms(name))
