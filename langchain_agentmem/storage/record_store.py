"""The records themselves: saving, reading, editing and deleting them.

Every change commits record, keyword row and vector-queue entry in one transaction.

Which records are the same: a given id is unique within its owner (for messages, within the owner's
conversation). Without an id, a memory is known by its text, a message by role, text and time.
"""

import json
import sqlite3
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from langchain_agentmem.records import Memory, Message, Record, clean_text, to_epoch_us, utc_now
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import KINDS, LIVE, Condition, RecordKind, RecordT
from langchain_agentmem.storage.vector_queue import VectorQueue

Changed = dict[str, list[str]]
"""Ids of changed records, by the name of their kind."""


@dataclass(slots=True)
class Saved:
    """What `RecordStore.save` did."""

    records: list[Any] = field(default_factory=list)
    """As stored, in the order given."""
    changed: list[str] = field(default_factory=list)
    """Ids of those that were new or changed."""
    duplicates: int = 0
    conflicts: list[int] = field(default_factory=list)
    """Positions of records that were not saved: their id is there in another version."""


class RecordStore:
    """Reads and writes records of both kinds."""

    def __init__(self, database: Database, keywords: KeywordIndex, queue: VectorQueue) -> None:
        """Work on `database`, keeping `keywords` and `queue` level with it."""
        self._database = database
        self._keywords = keywords
        self._queue = queue

    def check_open(self) -> None:
        """Raise a `StorageError` if the memory is closed."""
        self._database.check_open()

    def save(self, kind: RecordKind, records: Sequence[Record], *, replace: bool = True) -> Saved:
        """Save records in one transaction.

        A record that is there already is a duplicate. Under a given id that is there, the fields
        that were set explicitly replace the stored ones; unless `replace` is false: then the
        stored ones stand, and the record's position is among the conflicts. A deleted memory
        that is saved again comes back; a deleted message that is captured again stays deleted.
        """
        saved = Saved()
        indexed: list[tuple[int, str]] = []
        with self._database.write() as connection:
            for position, record in enumerate(records):
                row = self._find(connection, kind, record)
                if row is None:
                    stored, seq = self._insert(connection, kind, record)
                else:
                    seq, deleted = row["seq"], row["deleted_at"] is not None
                    old = kind.from_row(row)
                    stored = _next_version(old, record, deleted=deleted)
                    if stored is old:
                        saved.duplicates += 1
                        saved.records.append(old)
                        continue
                    if not replace and not deleted:
                        saved.conflicts.append(position)
                        saved.records.append(old)
                        continue
                    self._store(connection, kind, seq, stored)
                saved.records.append(stored)
                saved.changed.append(stored.id)
                indexed.append((seq, kind.searched_text(stored)))
            # A record that occurs twice in one call is indexed as it was stored last.
            self._keywords.put(connection, kind, dict(indexed).items())
            self._queue.put(connection, kind, saved.changed)
        return saved

    def get(self, id: str) -> Record | None:
        """Return a record by id, or None where there is none or it is deleted."""
        with self._database.read() as connection:
            found = self._locate(connection, id)
        if found is None or found[1]["deleted_at"] is not None:
            return None
        kind, row = found
        return kind.from_row(row)  # type: ignore[no-any-return]

    def update(self, kind: RecordKind, id: str, changes: Mapping[str, Any]) -> Any:
        """Change fields of a live record and return it; None where there is no such record.

        Raises:
            ValueError: A field is unknown or its value unusable.
        """
        with self._database.write() as connection:
            row = _fetch_one(
                connection,
                f"SELECT * FROM {kind.name} WHERE id = ? AND deleted_at IS NULL",
                (clean_text(id),),
            )
            if row is None:
                return None
            old = kind.from_row(row)
            record = kind.record_type.model_validate({**dict(old), **changes, "id": id})
            if record == old:
                return old
            record = _touched(record, changes)
            self._store(connection, kind, row["seq"], record)
            self._keywords.put(connection, kind, [(row["seq"], kind.searched_text(record))])
            self._queue.put(connection, kind, [id])
        return record

    def delete(self, ids: Iterable[str]) -> Changed:
        """Take records out of every search; they can be restored."""
        deleted_at = to_epoch_us(utc_now())
        return self._set_deleted(ids, deleted_at)

    def restore(self, ids: Iterable[str]) -> Changed:
        """Bring deleted records back."""
        return self._set_deleted(ids, None)

    def purge(self, ids: Iterable[str]) -> Changed:
        """Remove records, deleted or not, from the database for good."""
        changed: Changed = {kind.name: [] for kind in KINDS}
        with self._database.write() as connection:
            for id_ in dict.fromkeys(ids):
                found = self._locate(connection, id_)
                if found is None:
                    continue
                kind, row = found
                self._keywords.remove(connection, kind, [row["seq"]])
                connection.execute(f"DELETE FROM {kind.name} WHERE seq = ?", (row["seq"],))
                self._queue.put(connection, kind, [id_])
                changed[kind.name].append(id_)
            self._keywords.optimize(connection)
        self._database.checkpoint()
        return changed

    def live(self, kind: RecordKind, ids: Sequence[str]) -> list[Any]:
        """Read those of the records that are not deleted."""
        rows = self.fetch(kind, ids, LIVE)
        return [kind.from_row(row) for row in rows.values()]

    def fetch(
        self, kind: RecordKind, ids: Sequence[str], condition: Condition
    ) -> dict[str, sqlite3.Row]:
        """Read those of the records that meet the condition, by id."""
        sql = f"SELECT r.* FROM {kind.name} r WHERE r.id IN ({_LIST}) AND {condition.sql}"
        with self._database.read() as connection:
            rows = connection.execute(sql, (json.dumps(ids), *condition.parameters)).fetchall()
        return {row["id"]: row for row in rows}

    def matching(self, kind: RecordKind, ids: Sequence[str], condition: Condition) -> set[str]:
        """Return which of the ids belong to records that meet the condition."""
        sql = f"SELECT r.id FROM {kind.name} r WHERE r.id IN ({_LIST}) AND {condition.sql}"
        with self._database.read() as connection:
            return {
                row[0] for row in connection.execute(sql, (json.dumps(ids), *condition.parameters))
            }

    def ids(self, kind: RecordKind, condition: Condition, limit: int) -> list[str]:
        """Return the ids of up to `limit` records that meet the condition."""
        sql = f"SELECT r.id FROM {kind.name} r WHERE {condition.sql} LIMIT ?"
        with self._database.read() as connection:
            return [row[0] for row in connection.execute(sql, (*condition.parameters, limit))]

    def count(self, kind: RecordKind, condition: Condition) -> int:
        """Count the records that meet the condition."""
        sql = f"SELECT count(*) FROM {kind.name} r WHERE {condition.sql}"
        with self._database.read() as connection:
            return int(connection.execute(sql, condition.parameters).fetchone()[0])

    def values(self, kind: RecordKind, column: str, condition: Condition, limit: int) -> list[str]:
        """Return the distinct values of a column among records that meet the condition.

        The most frequent come first.
        """
        sql = (
            f"SELECT r.{column} FROM {kind.name} r WHERE {condition.sql} AND r.{column} <> '' "
            f"GROUP BY r.{column} ORDER BY count(*) DESC, r.{column} LIMIT ?"
        )
        with self._database.read() as connection:
            return [row[0] for row in connection.execute(sql, (*condition.parameters, limit))]

    def _find(
        self, connection: sqlite3.Connection, kind: RecordKind, record: Record
    ) -> sqlite3.Row | None:
        """Find the stored version of a record that is about to be saved."""
        if record.id:
            owner = " AND ".join(f"{name} = ?" for name in kind.identity_fields)
            return _fetch_one(
                connection,
                f"SELECT * FROM {kind.name} WHERE (id = ? OR given_id = ?) AND {owner} "
                "ORDER BY given_id IS NOT NULL",
                (record.id, record.id, *(getattr(record, name) for name in kind.identity_fields)),
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

    def _insert(
        self, connection: sqlite3.Connection, kind: RecordKind, record: Record
    ) -> tuple[Record, int]:
        id_ = record.id or _derived_id(kind, record)
        # The same id under another owner, or of another kind, is another record.
        if _id_is_taken(connection, id_):
            id_ = f"{id_}-{uuid.uuid4().hex[:12]}"
        columns = ("id", "given_id", "content_hash", *kind.row_columns)
        marks = ", ".join("?" * len(columns))
        given = record.id if record.id and record.id != id_ else None
        cursor = connection.execute(
            f"INSERT INTO {kind.name} ({', '.join(columns)}) VALUES ({marks})",
            (id_, given, _content_hash(record.content), *kind.to_row(record)),
        )
        return record.model_copy(update={"id": id_}), int(cursor.lastrowid or 0)

    def _store(
        self, connection: sqlite3.Connection, kind: RecordKind, seq: int, record: Record
    ) -> None:
        assignments = ", ".join(f"{column} = ?" for column in kind.row_columns)
        connection.execute(
            f"UPDATE {kind.name} SET content_hash = ?, deleted_at = NULL, {assignments} "
            "WHERE seq = ?",
            (_content_hash(record.content), *kind.to_row(record), seq),
        )

    def _set_deleted(self, ids: Iterable[str], deleted_at: int | None) -> Changed:
        changed: Changed = {kind.name: [] for kind in KINDS}
        with self._database.write() as connection:
            for id_ in dict.fromkeys(ids):
                found = self._locate(connection, id_)
                if found is None or (found[1]["deleted_at"] is None) == (deleted_at is None):
                    continue
                kind, row = found
                connection.execute(
                    f"UPDATE {kind.name} SET deleted_at = ? WHERE seq = ?",
                    (deleted_at, row["seq"]),
                )
                if deleted_at is None:
                    text = kind.searched_text(kind.from_row(row))
                    self._keywords.put(connection, kind, [(row["seq"], text)])
                else:
                    self._keywords.remove(connection, kind, [row["seq"]])
                self._queue.put(connection, kind, [id_])
                changed[kind.name].append(id_)
        return changed

    def _locate(
        self, connection: sqlite3.Connection, id: str
    ) -> tuple[RecordKind, sqlite3.Row] | None:
        id = clean_text(id)
        for kind in KINDS:
            row = _fetch_one(connection, f"SELECT * FROM {kind.name} WHERE id = ?", (id,))
            if row is not None:
                return kind, row
        return None


# A list of ids travels as one JSON parameter: one prepared statement for any length.
_LIST = "SELECT value FROM json_each(?)"


def _next_version(old: RecordT, record: RecordT, *, deleted: bool) -> RecordT:
    """Return what is stored when `record` is saved over `old`; `old` itself: nothing changes."""
    if deleted and isinstance(record, Message):
        return old
    given = {name: getattr(record, name) for name in record.model_fields_set}
    # Saying a thing twice does not change it: without an id, the first saying stands.
    changes = given if record.id or deleted else {}
    merged = old.model_copy(update={**changes, "id": old.id})
    return old if merged == old and not deleted else _touched(merged, changes)


def _touched(record: RecordT, changes: Mapping[str, Any]) -> RecordT:
    """Return a changed record with the time of the change, where its kind keeps one."""
    if isinstance(record, Memory) and "updated_at" not in changes:
        return record.model_copy(update={"updated_at": utc_now()})
    return record


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
