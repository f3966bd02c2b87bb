"""Saving many records at once: which are new, which change what is there, which are there already.

An import saves hundreds at a time, nearly all of them new. Those whose ids nobody has are told from
the others by one look at the database, and inserted together; each of the others is looked up.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_agentmem.records import Memory, Message, Record, utc_now
from langchain_agentmem.storage import record_rows as rows
from langchain_agentmem.storage.kinds import RecordKind, RecordT


@dataclass(slots=True)
class Saved:
    """What was saved."""

    records: list[Any] = field(default_factory=list)
    """As stored, in the order given."""
    changed: list[str] = field(default_factory=list)
    """Ids of those that were new or changed."""
    duplicates: int = 0
    conflicts: list[int] = field(default_factory=list)
    """Positions of records that were not saved: their id is there in another version."""
    new: dict[int, str] = field(default_factory=dict)
    """The searched texts of new records, by row number."""
    replaced: dict[int, str] = field(default_factory=dict)
    """The searched texts of records that were there and changed, by row number."""


class Saving:
    """Saves records of one kind within the caller's transaction.

    Args:
        connection: A connection that is in a transaction.
        kind: The kind of the records.
    """

    def __init__(self, connection: sqlite3.Connection, kind: RecordKind) -> None:
        """Save nothing yet."""
        self._connection = connection
        self._kind = kind
        self._saved = Saved()
        self._waiting: list[Record] = []

    def save(self, records: Sequence[Record], *, replace: bool) -> Saved:
        """Save records; see `RecordStore.save`."""
        free = rows.free_ids(self._connection, records)
        for position, record in enumerate(records):
            # Ids that occur once more in the same call are not free any longer.
            if record.id in free and (not record.given_id or record.given_id in free):
                free -= {record.id, record.given_id}
                self._waiting.append(record)
                self._saved.records.append(record)
                self._saved.changed.append(record.id)
                continue
            self._insert_waiting()
            stored = self._save_one(position, record, replace=replace)
            free -= {stored.id, stored.given_id}
            self._saved.records.append(stored)
        self._insert_waiting()
        return self._saved

    def _save_one(self, position: int, record: Record, *, replace: bool) -> Any:
        row = rows.find_saved(self._connection, self._kind, record)
        if row is None:
            stored, seq = rows.insert(self._connection, self._kind, record)
            self._saved.changed.append(stored.id)
            self._saved.new[seq] = self._kind.searched_text(stored)
            return stored
        deleted = row["deleted_at"] is not None
        old = self._kind.from_row(row)
        stored = _next_version(old, record, deleted=deleted)
        if stored is old:
            self._saved.duplicates += 1
            return old
        if not replace and not deleted:
            self._saved.conflicts.append(position)
            return old
        rows.store(self._connection, self._kind, row["seq"], stored)
        self._saved.changed.append(stored.id)
        # A record that occurs twice in one call is indexed as it was stored last.
        texts = self._saved.new if row["seq"] in self._saved.new else self._saved.replaced
        texts[row["seq"]] = self._kind.searched_text(stored)
        return stored

    def _insert_waiting(self) -> None:
        if self._waiting:
            seqs = rows.insert_all(self._connection, self._kind, self._waiting)
            texts = map(self._kind.searched_text, self._waiting)
            self._saved.new |= zip(seqs, texts, strict=True)
            self._waiting = []


def touched(record: RecordT, changes: Mapping[str, Any]) -> RecordT:
    """Return a changed record with the time of the change, where its kind keeps one."""
    if isinstance(record, Memory) and "updated_at" not in changes:
        return record.model_copy(update={"updated_at": utc_now()})
    return record


def _next_version(old: RecordT, record: RecordT, *, deleted: bool) -> RecordT:
    """Return what is stored when `record` is saved over `old`; `old` itself: nothing changes."""
    if deleted and isinstance(record, Message):
        return old
    given = {name: getattr(record, name) for name in record.model_fields_set}
    # Saying a thing twice does not change it: without an id, the first saying stands.
    changes = given if record.id or deleted else {}
    merged = old.model_copy(update={**changes, "id": old.id, "given_id": old.given_id})
    return old if merged == old and not deleted else touched(merged, changes)
