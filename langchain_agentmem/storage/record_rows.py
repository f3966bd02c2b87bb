"""Single rows of the record tables: finding, inserting and changing them.

Each function works inside the caller's transaction.
"""

import json
import sqlite3
import uuid
from collections.abc import Collection, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any

from langchain_agentmem.records import Message, Record, clean_id, to_epoch_us
from langchain_agentmem.scopes import Visibility
from langchain_agentmem.storage.kinds import AMONG, KINDS, RecordKind

Owner = tuple[str, str]
"""Scope and scope id."""
EVERYTHING = Visibility()
_ROWS_PER_STATEMENT = (250, 25, 1)
"""Python lets go of its lock for each statement and, where other threads are busy, waits 5 ms to
have it again: row by row, a save of thousands would take many seconds. Few sizes, as each is a
statement that is kept."""
_LONGEST_ID_TAKEN = 499  # so that what is put behind it leaves an id that a record may have


def locate(
    connection: sqlite3.Connection,
    id: str,
    visibility: Visibility = EVERYTHING,
    kinds: Sequence[RecordKind] = KINDS,
) -> tuple[RecordKind, sqlite3.Row] | None:
    """Find a record, deleted or not, by id, if it is visible.

    Where none has the id, it is the record whose writer gave this id, if there is only one to be
    seen.
    """
    visible, parameters = visibility.where()
    for column in ("id", "given_id"):
        found = [
            (kind, row)
            for kind in kinds
            for row in connection.execute(
                f"SELECT r.* FROM {kind.name} r WHERE r.{column} = ? AND {visible} LIMIT 2",
                (clean_id(id), *parameters),
            )
        ]
        if len(found) == 1:
            return found[0]
    return None


def locate_in(
    connection: sqlite3.Connection, kind: RecordKind, id: str, visibility: Visibility = EVERYTHING
) -> sqlite3.Row | None:
    """Find a record of one kind, as `locate` does."""
    found = locate(connection, id, visibility, (kind,))
    return found[1] if found else None


def find_saved(
    connection: sqlite3.Connection, kind: RecordKind, record: Record
) -> sqlite3.Row | None:
    """Find the stored version of a record that is about to be saved."""
    if record.id:
        # The plus keeps SQLite from reading through all of the owner's records.
        owner = " AND ".join(f"+{name} = ?" for name in kind.identity_fields)
        either = (record.id, record.given_id or record.id)
        return _fetch_one(
            connection,
            f"SELECT * FROM {kind.name} WHERE (id IN (?, ?) OR given_id IN (?, ?)) "
            f"AND {owner} ORDER BY id <> ?, given_id IS NOT NULL",
            (
                *either,
                *either,
                *(getattr(record, name) for name in kind.identity_fields),
                record.id,
            ),
        )
    sql = (
        f"SELECT * FROM {kind.name} WHERE scope = ? AND scope_id = ? AND content_hash = ?"
        " AND content = ?"
    )
    parameters: list[Any] = [
        record.scope,
        record.scope_id,
        _content_hash(record.content),
        record.content,
    ]
    if isinstance(record, Message):
        sql += " AND session_key = ? AND role = ? AND recorded_at = ?"
        parameters += [record.session_key, record.role, to_epoch_us(record.recorded_at)]
    return _fetch_one(connection, f"{sql} ORDER BY deleted_at IS NOT NULL, seq", parameters)


def owners(
    connection: sqlite3.Connection, kind: RecordKind, session_key: str, ids: Collection[str]
) -> dict[str, set[Owner]]:
    """Return, by the id that was given, who has such records of a conversation, deleted or not."""
    rows = connection.execute(
        f"SELECT id, given_id, scope, scope_id FROM {kind.name} "
        f"WHERE session_key = ? AND (id {AMONG} OR given_id {AMONG})",
        (session_key, *[json.dumps(list(ids))] * 2),
    )
    found: dict[str, set[Owner]] = {}
    for row in rows:
        for id_ in {row["id"], row["given_id"]}.intersection(ids):
            found.setdefault(id_, set()).add((row["scope"], row["scope_id"]))
    return found


def is_shared(
    connection: sqlite3.Connection, kind: RecordKind, session_key: str, owner: Owner
) -> bool:
    """Tell whether others than the owner have records of a conversation, deleted or not."""
    sql = f"SELECT 1 FROM {kind.name} WHERE session_key = ? AND (scope, scope_id) <> (?, ?) LIMIT 1"
    return _fetch_one(connection, sql, (session_key, *owner)) is not None


def free_ids(connection: sqlite3.Connection, records: Sequence[Record]) -> set[str]:
    """Return those of the records' ids, given ones included, that no record of any kind has."""
    ids = {id_ for record in records for id_ in (record.id, record.given_id) if id_}
    listed = json.dumps(list(ids))
    for kind in KINDS if ids else ():
        for column in ("id", "given_id"):
            taken = connection.execute(
                f"SELECT {column} FROM {kind.name} WHERE {column} {AMONG}",
                (listed,),
            )
            ids.difference_update(row[0] for row in taken)
    return ids


def insert(connection: sqlite3.Connection, kind: RecordKind, record: Record) -> tuple[Record, int]:
    """Insert a record; returns it with its id, and its row number."""
    id_ = record.id or _derived_id(kind, record)
    # The same id under another owner, or of another kind, is another record.
    if _id_is_taken(connection, id_):
        id_ = f"{id_[:_LONGEST_ID_TAKEN]}-{uuid.uuid4().hex[:12]}"
    # Beside no id, a given one means nothing: others of the same owner may have it as well.
    given = (record.id if record.id != id_ else record.given_id) if record.id else ""
    stored = record.model_copy(update={"id": id_, "given_id": given})
    return stored, insert_all(connection, kind, [stored])[0]


def insert_all(
    connection: sqlite3.Connection, kind: RecordKind, records: Sequence[Record]
) -> Sequence[int]:
    """Insert records under their ids, which no other has; returns their row numbers."""
    last = _fetch_one(connection, "SELECT seq FROM sqlite_sequence WHERE name = ?", (kind.name,))
    first = 1 + (last["seq"] if last else 0)
    columns = ("seq", "id", "given_id", "content_hash", *kind.row_columns)
    values = [
        (seq, r.id, r.given_id or None, _content_hash(r.content), *kind.to_row(r))
        for seq, r in enumerate(records, start=first)
    ]
    into = f"INSERT INTO {kind.name} ({', '.join(columns)}) VALUES "
    a_row = f"({', '.join('?' * len(columns))})"
    rows_allowed = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(columns)
    done = 0
    for size in (size for size in _ROWS_PER_STATEMENT if size <= max(1, rows_allowed)):
        stop = len(values) - (len(values) - done) % size
        connection.executemany(
            into + ", ".join([a_row] * size),
            (list(chain(*values[start : start + size])) for start in range(done, stop, size)),
        )
        done = stop
    return range(first, first + len(records))


def store(connection: sqlite3.Connection, kind: RecordKind, seq: int, record: Record) -> None:
    """Write a record over the one with this row number, and bring it back if it was deleted."""
    assignments = ", ".join(f"{column} = ?" for column in kind.row_columns)
    connection.execute(
        f"UPDATE {kind.name} SET content_hash = ?, deleted_at = NULL, {assignments} WHERE seq = ?",
        (_content_hash(record.content), *kind.to_row(record), seq),
    )


def _fetch_one(
    connection: sqlite3.Connection, sql: str, parameters: Sequence[Any]
) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(sql, parameters).fetchone()
    return row


def _id_is_taken(connection: sqlite3.Connection, id: str) -> bool:
    return any(
        _fetch_one(connection, f"SELECT 1 FROM {kind.name} WHERE id = ?", (id,)) for kind in KINDS
    )


def _digest(*parts: str) -> bytes:
    return blake2b(json.dumps(parts).encode(), digest_size=16).digest()


def _content_hash(content: str) -> bytes:
    return blake2b(content.encode(), digest_size=16).digest()


def _derived_id(kind: RecordKind, record: Record) -> str:
    parts = [record.scope, record.scope_id, record.content]
    if isinstance(record, Message):
        parts += [record.session_key, record.role, str(to_epoch_us(record.recorded_at))]
    return f"{kind.id_prefix}-{_digest(*parts).hex()[:20]}"
