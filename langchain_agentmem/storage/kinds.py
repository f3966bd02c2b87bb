"""What differs between memories and messages, as data.

One pipeline, one keyword index and one vector index serve both kinds of record. A `RecordKind`
tells them the table, its columns, how a record becomes a row and a row a hit, which text is
searched, and what each filter means in SQL (on the table under the alias `r`).
"""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar, cast

from langchain_agentmem.records import (
    Memory,
    Message,
    Record,
    from_epoch_us,
    role_name,
    to_epoch_us,
)
from langchain_agentmem.results import Hit, MemoryHit, MessageHit
from langchain_agentmem.scopes import UNSCOPED, UNSCOPED_BY_INDEX, Visibility
from langchain_agentmem.storage.text import normalize

RecordT = TypeVar("RecordT", bound=Record)
HitT = TypeVar("HitT", bound=Hit)


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter of a search: an SQL condition with one `?`, and how its value is bound."""

    sql: str
    bind: Callable[[Any], Any]
    facet: str | None = None
    """The column whose values are named when no visible record matches the filter."""
    listed: str | None = None
    """An indexed column that as a rule has few distinct values: they are looked through, and not
    the records."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An SQL condition on `r` with its parameters."""

    sql: str
    parameters: tuple[Any, ...] = ()
    selective: bool = False
    """Whether it keeps out live records by more than what always holds of a kind."""
    seek: str | None = None
    """The same in the form that finds its records fastest through an index; None: `sql` is it."""
    listed: str | None = None
    """The distinct values, in SQL, that `seek` looks through first."""

    def and_also(self, other: "Condition | None") -> "Condition":
        """Return the condition that both hold; without another, this one."""
        if other is None:
            return self
        return Condition(
            f"{self.sql} AND {other.sql}",
            (*self.parameters, *other.parameters),
            selective=True,
        )


def distinct(table: str, column: str) -> str:
    """Return SQL for the distinct values of an indexed column, which reads no more than those.

    SQLite itself would read the whole index. See "Loose indexscan" in PostgreSQL's wiki.
    """
    return (
        f"WITH RECURSIVE found(value) AS (SELECT min({column}) FROM {table} UNION ALL "
        f"SELECT (SELECT min({column}) FROM {table} WHERE {column} > value) FROM found "
        "WHERE value IS NOT NULL) SELECT value FROM found"
    )


AMONG = "IN (SELECT value FROM json_each(?))"
"""SQL behind a column whose value is in a list that travels as one JSON parameter: one prepared
statement for any length."""

LIVE = Condition("r.deleted_at IS NULL")
"""Everything but deleted records."""


@dataclass(frozen=True, slots=True)
class Context:
    """How records of a kind are understood with those around them in time.

    Attributes:
        weights: What the words of a neighbour count beside those of the record itself: of the
            next, the second next.
        similarity_weights: The same for how similar a neighbour's vector is to the query.
        speaker_bonus: How much more a record weighs whose speaker the query names.
        counts: SQL condition that a neighbour meets, its table under the alias `{0}`.
    """

    weights: tuple[float, ...]
    similarity_weights: tuple[float, ...]
    speaker_bonus: float
    counts: str


@dataclass(frozen=True)
class RecordKind(Generic[RecordT, HitT]):
    """All that storage and search need to know of one kind of record."""

    name: str
    """The table's name, and the word that users read."""
    singular: str
    id_prefix: str
    record_type: type[RecordT]
    columns: tuple[str, ...]
    """The columns beyond those that every kind has."""
    identity_fields: tuple[str, ...]
    """The fields within which a given id is unique."""
    time_field: str
    filters: Mapping[str, Filter]
    unless_filtered: Mapping[str, str]
    """Conditions that hold where the filter of that name is not used."""
    own_values: Callable[[RecordT], tuple[Any, ...]]
    own_fields: Callable[[sqlite3.Row], dict[str, Any]]
    searched_text: Callable[[RecordT], str]
    """The text that the keyword index holds."""
    embedded_text: Callable[[Any], str]
    """The text that is embedded, of a record or of whatever has its `embedded_fields`."""
    embedded_fields: tuple[str, ...]
    """The fields that the embedded text is made of."""
    make_hit: Callable[..., HitT]
    hit_fields: tuple[str, ...]
    last_changed: Callable[[sqlite3.Row], int]
    """When a record became what it is, in microseconds since 1970: from then on it ages."""
    context: Context | None = None
    sources: "RecordKind[Any, Any] | None" = None
    """The kind of what records of this one were distilled from, as `<name>_sources` tells."""
    timeless: Callable[[sqlite3.Row], bool] = lambda _: False
    """Whether a record keeps its worth however old it is."""

    def where(
        self, filters: Mapping[str, Any], visibility: Visibility, *, whole: bool = False
    ) -> Condition:
        """Return the condition that a record must meet to be in an answer.

        Deletion, visibility and every filter are in it. It is the one that the branches narrow
        by and the one that the final read enforces.

        Args:
            filters: Values by the names of `filters`.
            visibility: What the turn may see.
            whole: Leave out what holds unless it is filtered, to learn what there is at all.
        """
        visible, parameters = visibility.where()
        parts = [LIVE.sql]
        listed: Filter | None = None
        selective = visible != "1"
        if selective:
            parts.append(visible)
        bound: list[Any] = list(parameters)
        for name, value in filters.items():
            selected = self.filters[name]
            parts.append(selected.sql)
            if selected.listed is not None:
                listed = selected
            bound.append(selected.bind(value))
            selective = True
        if not whole:
            parts += [sql for name, sql in self.unless_filtered.items() if name not in filters]
        sql = " AND ".join(parts)
        seek = sql.replace(UNSCOPED, UNSCOPED_BY_INDEX)
        if listed is None or listed.listed is None:
            return Condition(sql, tuple(bound), selective, seek)
        column, values = f"r.{listed.listed}", distinct(self.name, listed.listed)
        among = f"{values} WHERE {listed.sql.replace(column, 'value')}"
        seek = seek.replace(listed.sql, f"{column} IN ({among})")
        return Condition(sql, tuple(bound), selective, seek, values)

    def to_row(self, record: RecordT) -> tuple[Any, ...]:
        """Return the values of `content`, `session_key`, ... in the order of `row_columns`."""
        return (
            record.content,
            record.session_key,
            record.scope,
            record.scope_id,
            json.dumps(record.metadata, ensure_ascii=False) if record.metadata else None,
            *self.own_values(record),
        )

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns that `to_row` fills."""
        return ("content", "session_key", "scope", "scope_id", "metadata", *self.columns)

    def from_row(self, row: sqlite3.Row) -> RecordT:
        """Read a record back. It was validated when it was written."""
        return cast("RecordT", self.record_type.model_construct(**self._fields(row)))

    def to_hit(self, row: sqlite3.Row, **ranking: Any) -> HitT:
        """Make a hit of a row and of `score`, ranks and similarity."""
        fields = self._fields(row)
        return self.make_hit(**{name: fields[name] for name in self.hit_fields}, **ranking)

    def _fields(self, row: sqlite3.Row) -> dict[str, Any]:
        return {
            "id": row["id"],
            "given_id": row["given_id"] or "",
            "content": row["content"],
            "session_key": row["session_key"],
            "scope": row["scope"],
            "scope_id": row["scope_id"],
            "metadata": json.loads(row["metadata"]) if row["metadata"] else {},
            **self.own_fields(row),
        }


def _read_tags(stored: str | None) -> list[str]:
    try:
        tags = json.loads(stored) if stored else []
    except ValueError:
        return []
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def _memory_values(memory: Memory) -> tuple[Any, ...]:
    return (
        memory.type,
        memory.priority,
        memory.scene_name,
        normalize(memory.scene_name),
        memory.strength,
        json.dumps(memory.tags, ensure_ascii=False) if memory.tags else None,
        to_epoch_us(memory.created_at),
        to_epoch_us(memory.updated_at) if memory.updated_at else None,
    )


def _memory_fields(row: sqlite3.Row) -> dict[str, Any]:
    updated_at = row["updated_at"]
    return {
        "type": row["type"],
        "priority": row["priority"],
        "scene_name": row["scene_name"],
        "strength": row["strength"],
        "tags": _read_tags(row["tags"]),
        "created_at": from_epoch_us(row["created_at"]),
        "updated_at": None if updated_at is None else from_epoch_us(updated_at),
    }


def _message_values(message: Message) -> tuple[Any, ...]:
    return (message.role, message.name, to_epoch_us(message.recorded_at))


def _message_fields(row: sqlite3.Row) -> dict[str, Any]:
    return {
        "role": row["role"],
        "name": row["name"],
        "recorded_at": from_epoch_us(row["recorded_at"]),
    }


def _spoken_text(message: Message) -> str:
    return f"{message.name}: {message.content}" if message.name else message.content


_NOT_STORED = {field.name for field in fields(Hit)} | {"before", "after", "source"}


def _hit_fields(hit: type[Hit]) -> tuple[str, ...]:
    return tuple(name for name in hit.__dataclass_fields__ if name not in _NOT_STORED)


MESSAGES: RecordKind[Message, MessageHit] = RecordKind(
    name="messages",
    singular="message",
    id_prefix="msg",
    record_type=Message,
    columns=("role", "name", "recorded_at"),
    identity_fields=("scope", "scope_id", "session_key"),
    time_field="recorded_at",
    filters={
        "session_key": Filter("r.session_key = ?", str.strip, facet="session_key"),
        "exclude_session": Filter("r.session_key <> ?", str.strip),
        "role": Filter("r.role = ?", role_name, facet="role"),
        "after": Filter("r.recorded_at >= ?", to_epoch_us),
        "before": Filter("r.recorded_at <= ?", to_epoch_us),
    },
    # What was said is searched; system prompts and tool output only when asked for by role.
    unless_filtered={"role": "r.role IN ('user', 'assistant')"},
    own_values=_message_values,
    own_fields=_message_fields,
    searched_text=_spoken_text,
    embedded_text=_spoken_text,
    embedded_fields=("name", "content"),
    make_hit=MessageHit,
    hit_fields=_hit_fields(MessageHit),
    last_changed=lambda row: row["recorded_at"],
    context=Context(
        weights=(0.6, 0.3),
        similarity_weights=(0.3, 0.15),
        speaker_bonus=0.75,
        counts="{0}.role IN ('user', 'assistant')",
    ),
)

MEMORIES: RecordKind[Memory, MemoryHit] = RecordKind(
    name="memories",
    singular="memory",
    id_prefix="mem",
    record_type=Memory,
    columns=(
        "type",
        "priority",
        "scene_name",
        "scene_folded",
        "strength",
        "tags",
        "created_at",
        "updated_at",
    ),
    identity_fields=("scope", "scope_id"),
    time_field="created_at",
    filters={
        "type": Filter("r.type = ?", str.strip, facet="type"),
        "scene": Filter(
            "instr(r.scene_folded, ?) > 0",
            lambda value: normalize(value.strip()),
            facet="scene_name",
            listed="scene_folded",
        ),
        "session_key": Filter("r.session_key = ?", str.strip, facet="session_key"),
        "after": Filter("r.created_at >= ?", to_epoch_us),
        "before": Filter("r.created_at <= ?", to_epoch_us),
    },
    unless_filtered={},
    own_values=_memory_values,
    own_fields=_memory_fields,
    searched_text=lambda memory: "\n".join([memory.content, memory.scene_name, *memory.tags]),
    embedded_text=lambda memory: memory.content,
    embedded_fields=("content",),
    make_hit=MemoryHit,
    hit_fields=_hit_fields(MemoryHit),
    last_changed=lambda row: row["updated_at"] or row["created_at"],
    sources=MESSAGES,
    timeless=lambda row: row["priority"] < 0,
)

KINDS: tuple[RecordKind[Any, Any], ...] = (MEMORIES, MESSAGES)
