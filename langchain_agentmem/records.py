"""What is kept: `Memory` (a distilled fact) and `Message` (a line of a conversation).

Both are frozen and validated when they are made: what reaches the database is well-formed.
Times are timezone-aware UTC; a time without a zone is read as UTC.
"""

import math
import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal, Self, TypedDict, get_args

import regex
from langchain_core.messages import ChatMessage
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from langchain_agentmem.messages import read_message, text_of
from langchain_agentmem.quoting import BLANK, shortened

Scope = Literal["thread", "user", "persona", "organization"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

Role = Literal["user", "assistant", "system", "tool"]
ROLES: tuple[Role, ...] = get_args(Role)
SOURCE_MESSAGE_IDS = "source_message_ids"
"""The key of `metadata` under which a memory names the messages that it was distilled from."""
LONGEST_ID = 512
"""How many characters an id may have."""
_ROLE_ALIASES = {
    "human": "user",
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "humanmessagechunk": "user",
    "developer": "system",
    "function": "tool",
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Epoch numbers beyond this are milliseconds: as seconds they would lie after the year 5100.
_LARGEST_EPOCH_SECONDS = 1e11
# A year, month or day. Six digits could be either of two things, and are none.
_DAYS = re.compile(r"(?!\d{6}$)(\d{4})(?:-?(\d\d)(?:-?(\d\d))?)?", re.ASCII)
_MAX_METADATA_DEPTH = 50
# What the checkpoints of an agent can hold of a tool's answer.
_LEAST_INTEGER, _LARGEST_INTEGER = -(2**63), 2**64 - 1
_VISIBLE = regex.compile(rf"[^\p{{Cc}}{BLANK}]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def utc_now() -> datetime:
    """Return the present as an aware UTC datetime."""
    return datetime.now(UTC)


def parse_time(value: Any) -> datetime:
    """Read a time as aware UTC.

    Args:
        value: A `datetime` or `date`, an ISO 8601 string, or an epoch number
            (seconds, or milliseconds where seconds would lie after the year 5100).

    Raises:
        ValueError: It is none of these.
    """
    given = value
    try:
        if isinstance(value, str):
            text = value.strip().upper()  # RFC 3339 has t and z as well
            number = re.fullmatch(r"\d{9,}(\.\d+)?", text)
            value = float(text) if number else datetime.fromisoformat(text)
        if isinstance(value, datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return aware.astimezone(UTC)
        if isinstance(value, date):
            return datetime.combine(value, time(), UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) > _LARGEST_EPOCH_SECONDS else value
            return _EPOCH + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        pass
    shown = shortened(repr(given))
    msg = f"cannot read {shown} as a time: give a datetime, ISO 8601 text or an epoch number"
    raise ValueError(msg)


def parse_time_range(after: Any, before: Any) -> tuple[datetime | None, datetime | None]:
    """Read both ends of an inclusive range of time.

    As an end, a date, a month (`2026-05`) or a year (`2026`) reaches to its last moment, and a text
    without a fraction to that of its second: what results print can be given back.

    Raises:
        ValueError: An end cannot be read; the message names it.
    """
    bounds: list[datetime | None] = []
    for argument, value in (("after", after), ("before", before)):
        if value is None or (isinstance(value, str) and not value.strip()):
            bounds.append(None)
            continue
        first, last = _days(value) or (value, value)
        try:
            bound = parse_time(first if argument == "after" else last)
        except ValueError as error:
            msg = f"{argument}: {error}"
            raise ValueError(msg) from None
        if argument == "before":
            bound += _what_it_covers(last)
        bounds.append(bound)
    return bounds[0], bounds[1]


def _days(value: Any) -> tuple[date, date] | None:
    """Return the first and the last day of a text that is a date, a month or a year."""
    if not isinstance(value, str) or not (match := _DAYS.fullmatch(value.strip())):
        return None
    year, month, day = match.groups()
    try:
        first = date(int(year), int(month or 1), int(day or 1))
        last_month = int(month or 12)
        last_day = int(day or monthrange(int(year), last_month)[1])
        return first, date(int(year), last_month, last_day)
    except ValueError:  # there is no such day
        return None


def _what_it_covers(value: Any) -> timedelta:
    """Return how far a time reaches as an end."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return timedelta(days=1) - timedelta(microseconds=1)
    if isinstance(value, str) and re.search(r"\d:\d\d:\d\d(?![.,\d])", value):
        return timedelta(seconds=1) - timedelta(microseconds=1)
    return timedelta()


def format_time(moment: datetime, *, timespec: str = "auto") -> str:
    """Write a time as ISO 8601 in UTC with a `Z`, which `parse_time` reads back.

    `timespec` is that of `datetime.isoformat`: `auto` loses nothing, `seconds` the fraction.
    """
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def to_epoch_us(moment: datetime) -> int:
    """Return whole microseconds since 1970-01-01 UTC, without rounding."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_epoch_us(microseconds: int) -> datetime:
    """Undo `to_epoch_us`."""
    return _EPOCH + timedelta(microseconds=microseconds)


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no encoding can store, by U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def clean_id(text: str) -> str:
    """Return an id as it is kept: trimmed, and with U+FFFD for what SQLite would end it at."""
    return clean_text(text).replace("\0", "\ufffd").strip()


def is_blank(text: str) -> bool:
    """Tell whether a text shows nothing: what cannot be seen and control characters alone."""
    return not _VISIBLE.search(text)


def _text(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _stripped(value: Any) -> Any:
    return clean_text(value).strip() if isinstance(value, str) else value


def _id(value: Any) -> Any:
    return clean_id(value) if isinstance(value, str) else value


def _json_value(value: Any, path: str, depth: int = 0) -> Any:
    """Return a copy of a JSON value, or raise a `ValueError` that names what is not one."""
    if depth > _MAX_METADATA_DEPTH:
        msg = f"metadata is nested more than {_MAX_METADATA_DEPTH} levels deep"
        raise ValueError(msg)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if _LEAST_INTEGER <= value <= _LARGEST_INTEGER:
            return value
        msg = f"{path} is an integer of more than 64 bits: give it as text"
        raise ValueError(msg)
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        msg = f"{path} is {value}, which JSON cannot hold"
        raise ValueError(msg)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                msg = f"{path} has the key {key!r}: keys must be strings"
                raise ValueError(msg)  # noqa: TRY004  (pydantic reports ValueError alone)
        return {
            clean_text(key): _json_value(item, f"{path}.{key}", depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            _json_value(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)
        ]
    msg = (
        f"{path} is a {type(value).__name__}: metadata holds JSON values alone "
        "(text, numbers, true, false, null, lists, objects)"
    )
    raise ValueError(msg)


Text = Annotated[str, BeforeValidator(_text)]
Label = Annotated[str, BeforeValidator(_stripped)]
Id = Annotated[str, BeforeValidator(_id)]
UtcTime = Annotated[datetime, BeforeValidator(parse_time)]


def role_name(text: str) -> str:
    """Return the name that a role goes by here, such as `user` for `Human`."""
    name = text.strip().lower()
    return _ROLE_ALIASES.get(name, name)


class Record(BaseModel):
    """What memories and messages share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Id = Field(default="", max_length=LONGEST_ID)
    """Stable id. Empty until saved: saving derives one from the owner and the text."""
    given_id: Id = ""
    """The id that the writer gave, where another owner had it already and `id` is another."""
    content: Text
    session_key: Label = ""
    """The conversation it belongs to, or comes from."""
    scope: Scope = "user"
    scope_id: Label = ""
    """Whose it is, within `scope`; empty: nobody's in particular, visible to every turn."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Any JSON object; kept and returned, not searched."""

    @model_validator(mode="before")
    @classmethod
    def _file_under_what_metadata_names(cls, data: Any) -> Any:
        """File a record without a scope id under the one in its metadata."""
        metadata = data.get("metadata") if isinstance(data, dict) else None
        if not isinstance(metadata, dict) or str(data.get("scope_id") or "").strip():
            return data
        for key in ("scope_id", "scopeId"):
            value = metadata.get(key)
            if isinstance(value, bool) or not isinstance(value, str | int | None):
                msg = f'metadata["{key}"] must be text, not {value!r}: it says whose the record is'
                raise ValueError(msg)  # noqa: TRY004  (a validation error, as all others)
            named = "" if value is None else str(value).strip()
            if named:
                scope = metadata.get("scope")
                filed = {"scope": scope} if "scope" not in data and scope in SCOPES else {}
                return {**data, **filed, "scope_id": named}
        return data

    @field_validator("content")
    @classmethod
    def _content_not_blank(cls, value: str) -> str:
        if is_blank(value):
            msg = "must not be blank"
            raise ValueError(msg)
        return value

    @field_validator("metadata", mode="before")
    @classmethod
    def _metadata_is_json(cls, value: Any) -> Any:
        if value is None:
            return {}
        return _json_value(value, "metadata") if isinstance(value, dict) else value


class Memory(Record):
    """One distilled fact, preference, event or standing instruction.

    Raises:
        pydantic.ValidationError: (a `ValueError`) A field is not usable; it names the field.
    """

    type: Label = "episodic"
    """Free text; usual are persona, episodic, instruction."""
    priority: int = Field(default=50, ge=-(2**31), lt=2**31)
    """0 to 100, higher matters more; below zero marks a global instruction."""
    scene_name: Label = ""
    """What it belongs to, such as `travel`; searched with the content."""
    strength: float = Field(default=1.0, ge=0.0, le=1.0)
    """How well established it is, 0 to 1."""
    tags: list[str] = Field(default_factory=list)
    """Searched with the content."""
    created_at: UtcTime = Field(default_factory=utc_now)
    updated_at: UtcTime | None = None

    @field_validator("type")
    @classmethod
    def _type_not_blank(cls, value: str) -> str:
        if not value:
            msg = "must not be blank (usual are persona, episodic, instruction)"
            raise ValueError(msg)
        return value

    @field_validator("tags", mode="before")
    @classmethod
    def _tags_are_clean(cls, value: Any) -> Any:
        if value is None:
            return []
        if isinstance(value, str):
            value = [value]
        if isinstance(value, Iterable) and not isinstance(value, dict):
            return [_stripped(tag) for tag in value]
        return value

    @field_validator("updated_at", mode="before")
    @classmethod
    def _no_time(cls, value: Any) -> Any:
        return None if value is None else parse_time(value)


class MemoryChanges(TypedDict, total=False):
    """The fields of a `Memory` that can be changed, as keyword arguments."""

    content: str
    type: str
    priority: int
    scene_name: str
    scope: str
    scope_id: str
    strength: float
    tags: list[str]
    session_key: str
    created_at: datetime | str | float
    updated_at: datetime | str | float | None
    metadata: dict[str, Any] | None


class Message(Record):
    """One message of a past conversation.

    Raises:
        pydantic.ValidationError: (a `ValueError`) A field is not usable; it names the field.
    """

    role: Role
    name: Label | None = None
    """Who speaks, where there are several; indexed with the content."""
    recorded_at: UtcTime = Field(default_factory=utc_now)

    @field_validator("role", mode="before")
    @classmethod
    def _known_role(cls, value: Any) -> Any:
        role = role_name(value) if isinstance(value, str) else value
        if role not in ROLES:
            msg = f"unknown role {value!r}: use one of {', '.join(ROLES)}"
            raise ValueError(msg)
        return role

    @classmethod
    def from_langchain(
        cls, message: Any, session_key: str = "", recorded_at: Any = None, **fields: Any
    ) -> Self | None:
        """Convert a LangChain message.

        The text blocks of the content are joined by line breaks; other blocks (images, tool
        calls) have no text to search and are left out.

        Args:
            message: A `BaseMessage`, or what LangChain reads as one, such as
                `("user", "text")` or `{"role": "user", "content": "text"}`.
            session_key: The conversation it belongs to.
            recorded_at: When it was said; the present if None.
            **fields: Further fields of the record.

        Returns:
            The message, or None where it has no text (a bare tool call, say).

        Raises:
            ValueError: The message, or its role, cannot be read.
        """
        read = read_message(message)
        content = text_of(read)
        if is_blank(content):
            return None
        return cls(
            id=read.id or "",
            session_key=session_key,
            role=read.role if isinstance(read, ChatMessage) else read.type,
            name=read.name or None,
            content=content,
            recorded_at=utc_now() if recorded_at is None else recorded_at,
            **fields,
        )
