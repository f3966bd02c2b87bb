"""The records themselves: saving, reading, editing and deleting them.

Every change commits record, keyword row and vector-queue entry in one transaction.

Which records are the same: a given id is unique within its owner (for messages, within the owner's
conversation). Without an id, a memory is known by its text, a message by role, text and time.
"""

import json
import logging
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from langchain_agentmem.records import SCOPES, Memory, Record, to_epoch_us, utc_now
from langchain_agentmem.scopes import METADATA_NAMES_NO_SCOPE, Visibility
from langchain_agentmem.storage import record_rows as rows
from langchain_agentmem.storage.conversation import Surroundings, surroundings
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import AMONG, KINDS, LIVE, MEMORIES, Condition, RecordKind
from langchain_agentmem.storage.record_rows import EVERYTHING
from langchain_agentmem.storage.saving import Saved, Saving, touched
from langchain_agentmem.storage.schema import MAY_BE_STRAY
from langchain_agentmem.storage.selection import Selection, select
from langchain_agentmem.storage.vector_queue import VectorQueue

logger = logging.getLogger(__name__)

_PAGE = 500
Changed = dict[str, list[str]]
"""Ids of changed records, by the name of their kind."""


class RecordStore:
    """Reads and writes records of both kinds."""

    def __init__(self, database: Database, keywords: KeywordIndex, queue: VectorQueue) -> None:
        """Work on `database`, keeping `keywords` and `queue` level with it."""
        self._database = database
        self._keywords = keywords
        self._queue = queue

    def check_usable(self) -> None:
        """Raise a `StorageError` if the memory is closed, or was opened before a fork."""
        self._database.check_usable()

    def save(self, kind: RecordKind, records: Sequence[Record], *, replace: bool = True) -> Saved:
        """Save records in one transaction.

        A record that is there already is a duplicate. Under a given id that is there, the fields
        that were set explicitly replace the stored ones; unless `replace` is false: then the
        stored ones stand, and the record's position is among the conflicts. A deleted memory
        that is saved again comes back; a deleted message that is captured again stays deleted.
        """
        with self._database.write() as connection:
            saved = Saving(connection, kind).save(records, replace=replace)
            self._keywords.add(connection, kind, saved.new.items())
            self._keywords.put(connection, kind, saved.replaced.items())
            self._queue.put(connection, kind, saved.changed)
        return saved

    def get(self, id: str, visibility: Visibility = EVERYTHING) -> Record | None:
        """Return a live record by id, if it is visible."""
        with self._database.read() as connection:
            found = rows.locate(connection, id, visibility)
        if found is None or found[1]["deleted_at"] is not None:
            return None
        kind, row = found
        return kind.from_row(row)  # type: ignore[no-any-return]

    def left_to_others(
        self, kind: RecordKind, session_key: str, ids: Collection[str], owner: rows.Owner
    ) -> tuple[set[str], set[str]]:
        """Return which ids of a conversation others have alone, and which another may have lost.

        The latter are those that nobody has, in a conversation that others have a part in.
        """
        with self._database.read() as connection:
            owners = rows.owners(connection, kind, session_key, ids)
            lost = set(ids) - set(owners)
            if lost and not rows.is_shared(connection, kind, session_key, owner):
                lost = set()
        return {id_ for id_, of in owners.items() if owner not in of}, lost

    def update(
        self,
        kind: RecordKind,
        id: str,
        changes: Mapping[str, Any],
        visibility: Visibility = EVERYTHING,
    ) -> Any:
        """Change fields of a live record and return it; None where there is none to be seen.

        Raises:
            ValueError: A field is unknown or its value unusable.
        """
        with self._database.write() as connection:
            row = rows.locate_in(connection, kind, id, visibility)
            if row is None or row["deleted_at"] is not None:
                return None
            return self._change(connection, kind, row, changes)

    def delete(self, ids: Iterable[str], visibility: Visibility = EVERYTHING) -> Changed:
        """Take records out of every search; they can be restored."""
        deleted_at = to_epoch_us(utc_now())
        with self._database.write() as connection:
            return self._set_deleted(connection, ids, deleted_at, visibility)

    def restore(self, ids: Iterable[str], visibility: Visibility = EVERYTHING) -> Changed:
        """Bring deleted records back."""
        with self._database.write() as connection:
            return self._set_deleted(connection, ids, None, visibility)

    def purge(self, ids: Iterable[str], visibility: Visibility = EVERYTHING) -> Changed:
        """Remove records, deleted or not, from the database for good."""
        changed: Changed = {kind.name: [] for kind in KINDS}
        with self._database.write() as connection:
            for id_ in dict.fromkeys(ids):
                found = rows.locate(connection, id_, visibility)
                if found is None:
                    continue
                kind, row = found
                self._keywords.remove(connection, kind, [row["seq"]])
                connection.execute(f"DELETE FROM {kind.name} WHERE seq = ?", (row["seq"],))
                self._queue.put(connection, kind, [row["id"]])
                changed[kind.name].append(row["id"])
            if any(changed.values()):
                self._keywords.optimize(connection)
        if any(changed.values()) and not self._database.checkpoint():
            logger.warning(
                "what was purged is left in %s-wal as long as others read it there: purge once "
                "more, or close the memory everywhere",
                self._database.location,
            )
        return changed

    def merge(
        self, ids: Sequence[str], content: str | None, visibility: Visibility = EVERYTHING
    ) -> tuple[Memory, Changed]:
        """Make one memory of several: the first takes the tags of all, the others are deleted.

        Args:
            ids: At least two live memories of one owner.
            content: The survivor's new text; None: it keeps its own.
            visibility: What may be touched.

        Raises:
            ValueError: The memories cannot be merged; nothing was changed.
        """
        with self._database.write() as connection:
            by_id: dict[str, sqlite3.Row] = {}
            for id_ in ids:
                row = rows.locate_in(connection, MEMORIES, id_, visibility)
                if row is None or row["deleted_at"] is not None:
                    msg = f"ids: there is no memory {id_!r}"
                    raise ValueError(msg)
                by_id.setdefault(row["id"], row)
            found = list(by_id.values())
            if len(found) < 2:  # noqa: PLR2004
                msg = f"ids: merging takes at least two different memories, not {len(found)}"
                raise ValueError(msg)
            memories = [_filed(MEMORIES, dict(MEMORIES.from_row(row))) for row in found]
            if len({(memory.scope, memory.scope_id) for memory in memories}) > 1:
                msg = "ids: memories of different owners cannot be merged"
                raise ValueError(msg)
            changes: dict[str, Any] = {
                "tags": list(dict.fromkeys(tag for memory in memories for tag in memory.tags)),
                "strength": max(memory.strength for memory in memories),
            }
            if content is not None:
                changes["content"] = content
            survivor: Memory = self._change(connection, MEMORIES, found[0], changes)
            changed = self._set_deleted(
                connection,
                [row["id"] for row in found[1:]],
                to_epoch_us(utc_now()),
                EVERYTHING,
            )
        changed[MEMORIES.name].insert(0, survivor.id)
        return survivor, changed

    def file_strays(self) -> None:
        """File records under no scope id under the one that their metadata names."""
        for kind in KINDS:
            sql = (
                f"SELECT r.* FROM {kind.name} r INDEXED BY {kind.name}_strays "
                f"WHERE {MAY_BE_STRAY} AND NOT {METADATA_NAMES_NO_SCOPE} ORDER BY r.seq"
            )
            with self._database.read() as connection:
                strays = connection.execute(sql).fetchall()
            if not strays:
                continue
            with self._database.write() as connection:
                for row in strays:
                    try:
                        record = _filed(kind, dict(kind.from_row(row)))
                    except ValueError:  # it names whose it is by something else than text
                        continue
                    # Somebody may have filed it since it was read, or named another owner.
                    connection.execute(
                        f"UPDATE {kind.name} SET scope = ?, scope_id = ? "
                        "WHERE seq = ? AND scope = ? AND scope_id = '' AND metadata = ?",
                        (record.scope, record.scope_id, row["seq"], row["scope"], row["metadata"]),
                    )

    def embedded_texts(
        self, kind: RecordKind, ids: Sequence[str], longest: int | None = None
    ) -> dict[str, str]:
        """Return the texts that are embedded, by id, of those of the records that are live.

        Args:
            kind: Which records.
            ids: Their ids.
            longest: Longer texts are cut to so many characters, so that few are in memory whole.
        """
        columns = ", ".join(f"r.{name}" for name in kind.embedded_fields)
        sql = f"SELECT r.id, {columns} FROM {kind.name} r WHERE r.id {AMONG} AND {LIVE.sql}"
        with self._database.read() as connection:
            # No whole records: an import asks for each of them.
            return {
                id_: kind.embedded_text(
                    SimpleNamespace(**dict(zip(kind.embedded_fields, values, strict=True)))
                )[:longest]
                for id_, *values in connection.execute(sql, (json.dumps(ids),))
            }

    def fetch(
        self, kind: RecordKind, ids: Sequence[str], condition: Condition
    ) -> dict[str, sqlite3.Row]:
        """Read those of the records that meet the condition, by id."""
        sql = f"SELECT r.* FROM {kind.name} r WHERE r.id {AMONG} AND {condition.sql}"
        with self._database.read() as connection:
            found = connection.execute(sql, (json.dumps(ids), *condition.parameters)).fetchall()
        return {row["id"]: row for row in found}

    def matching(self, kind: RecordKind, ids: Sequence[str], condition: Condition) -> set[str]:
        """Return which of the ids belong to records that meet the condition."""
        sql = f"SELECT r.id FROM {kind.name} r WHERE r.id {AMONG} AND {condition.sql}"
        with self._database.read() as connection:
            return {
                row[0] for row in connection.execute(sql, (json.dumps(ids), *condition.parameters))
            }

    def neighbours(
        self, kind: RecordKind, ids: Sequence[str], reach: int
    ) -> dict[str, list[list[str]]]:
        """Return the ids around each record: those next to it, second next, ... up to `reach`."""
        around, names = self._surroundings(kind, ids, reach)
        return {
            id_: [
                [names[n] for n in each.at_distance(distance) if n in names]
                for distance in range(1, reach + 1)
            ]
            for id_, each in around.items()
        }

    def conversation(
        self, kind: RecordKind, ids: Sequence[str], reach: int
    ) -> dict[str, tuple[list[str], list[str]]]:
        """Return the ids before and after each record, in the order of the conversation."""
        around, names = self._surroundings(kind, ids, reach)
        return {
            id_: (
                [names[n] for n in each.before[::-1] if n in names],
                [names[n] for n in each.after if n in names],
            )
            for id_, each in around.items()
        }

    def _surroundings(
        self, kind: RecordKind, ids: Sequence[str], reach: int
    ) -> tuple[dict[str, Surroundings], dict[int, str]]:
        """Return what stands around each record, by id, and the ids of that by row number.

        One that is purged while it is looked up has no id any more.
        """
        sql = f"SELECT seq, id FROM {kind.name} WHERE {{}} {AMONG}"
        with self._database.read() as connection:
            own = dict(connection.execute(sql.format("id"), (json.dumps(list(ids)),)).fetchall())
            around = surroundings(connection, kind, own, reach)
            there = {seq for each in around.values() for seq in (*each.before, *each.after)}
            names = dict(
                connection.execute(sql.format("seq"), (json.dumps(list(there)),)).fetchall()
            )
        return {own[seq]: each for seq, each in around.items()}, names

    def select(self, kind: RecordKind, condition: Condition) -> Selection:
        """Find out how many records meet a condition, and which, where they are few."""
        with self._database.read() as connection:
            return select(connection, kind, condition)

    def ids(self, kind: RecordKind, condition: Condition, limit: int) -> list[str]:
        """Return the ids of up to `limit` records that meet the condition."""
        sql = f"SELECT r.id FROM {kind.name} r WHERE {condition.sql} LIMIT ?"
        with self._database.read() as connection:
            return [row[0] for row in connection.execute(sql, (*condition.parameters, limit))]

    def each(self, kind: RecordKind, condition: Condition) -> Iterator[Any]:
        """Read all records that meet the condition, in the order they were saved.

        A page is in memory at a time. What is saved meanwhile comes too.
        """
        sql = (
            f"SELECT r.* FROM {kind.name} r WHERE r.seq > ? AND {condition.sql} "
            "ORDER BY r.seq LIMIT ?"
        )
        last = 0
        while True:
            with self._database.read() as connection:
                page = connection.execute(sql, (last, *condition.parameters, _PAGE)).fetchall()
            yield from map(kind.from_row, page)
            if len(page) < _PAGE:
                return
            last = page[-1]["seq"]

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

    def _change(
        self,
        connection: sqlite3.Connection,
        kind: RecordKind,
        row: sqlite3.Row,
        changes: Mapping[str, Any],
    ) -> Any:
        old = kind.from_row(row)
        fixed = {"id": old.id, "given_id": old.given_id}
        record = _filed(kind, {**dict(old), **changes, **fixed}, given=changes)
        if record == old:
            return old
        record = touched(record, changes)
        rows.store(connection, kind, row["seq"], record)
        self._keywords.put(connection, kind, [(row["seq"], kind.searched_text(record))])
        self._queue.put(connection, kind, [old.id])
        return record

    def _set_deleted(
        self,
        connection: sqlite3.Connection,
        ids: Iterable[str],
        deleted_at: int | None,
        visibility: Visibility,
    ) -> Changed:
        changed: Changed = {kind.name: [] for kind in KINDS}
        for id_ in dict.fromkeys(ids):
            found = rows.locate(connection, id_, visibility)
            if found is None or (found[1]["deleted_at"] is None) == (deleted_at is None):
                continue
            kind, row = found
            connection.execute(
                f"UPDATE {kind.name} SET deleted_at = ? WHERE seq = ?", (deleted_at, row["seq"])
            )
            if deleted_at is None:
                text = kind.searched_text(kind.from_row(row))
                self._keywords.put(connection, kind, [(row["seq"], text)])
            else:
                self._keywords.remove(connection, kind, [row["seq"]])
            self._queue.put(connection, kind, [row["id"]])
            changed[kind.name].append(row["id"])
        return changed


def _filed(kind: RecordKind, fields: dict[str, Any], given: Collection[str] = ()) -> Any:
    """Make a record of stored fields; under no scope id, it is filed as its metadata says."""
    metadata = fields["metadata"]
    names_scope = isinstance(metadata, dict) and metadata.get("scope") in SCOPES
    if not fields["scope_id"] and names_scope and "scope" not in given:
        del fields["scope"]
    return kind.record_type.model_validate(fields)
