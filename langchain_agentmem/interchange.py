"""The interchange format: JSON Lines, one memory or message a line, read and written.

A line with a `role` is a message, any other a memory. See `Memory` and `Message` for the fields.
What `write_line` writes, `read_records` reads back as the same record.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from langchain_agentmem.errors import describe
from langchain_agentmem.records import (
    SOURCE_MESSAGE_IDS,
    Memory,
    Message,
    Record,
    format_time,
)


def file_name(records: str) -> str:
    """Return the name of the file that holds the `messages`, or the `memories`, of a folder."""
    return f"{records}.jsonl"


FILE_NAMES = (file_name("messages"), file_name("memories"))
"""The files that are read where a folder is given."""

_FIRST_OF_MESSAGE = ("id", "given_id", "session_key", "role", "name", "content", "recorded_at")
_FIRST_OF_MEMORY = (
    *("id", "given_id", "content", "type", "priority", "scene_name", "scope", "scope_id"),
    *("strength", "tags", "session_key", "created_at", "updated_at"),
)
_ALWAYS_WRITTEN = ("id", "content", "type", "role")
# Line ends to some readers, though not in JSON Lines.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, or part of one: a record, or the reason why it is none."""

    path: Path | str
    """The file, or what stands in its place."""
    number: int
    record: Record | None
    problem: str | None = None
    unit: str = ""
    """What is counted where it is not lines, such as `conversation`."""
    length: int = 0
    """How long it is, in bytes, where that is known."""

    def __str__(self) -> str:
        """Name the line and what is wrong with it."""
        where = f" {self.unit} {self.number}" if self.unit else str(self.number)
        return f"{self.path}:{where}: {self.problem}"


def files_of(path: Path) -> list[Path]:
    """Return the files to read for a file or a folder.

    Raises:
        ValueError: There is no such file, or none in the folder.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        msg = f"{path}: no such file or folder"
        raise ValueError(msg)
    found = [path / name for name in FILE_NAMES if (path / name).is_file()]
    if not found:
        msg = f"{path}: holds neither {' nor '.join(FILE_NAMES)}"
        raise ValueError(msg)
    return found


def count_lines(path: Path) -> int:
    """Count the lines of a file that are not blank."""
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


def read_records(path: Path, prefix: str = "") -> Iterator[Line]:
    """Read a file line by line; blank lines are passed over.

    A message without id and time could not be told from itself when the file is read again: it gets
    an id, of what it says and of how often the same was said before.

    Args:
        path: The file, UTF-8.
        prefix: Put before ids and session keys, so that equal ones of different sources stay
            apart.
    """
    said: Counter[str] = Counter()
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.strip():
                continue
            try:
                record = _read(raw, prefix)
                if isinstance(record, Message):
                    record = _with_id(record, said)
            except ValidationError as error:
                yield Line(path, number, None, describe(error))
            except ValueError as error:
                yield Line(path, number, None, str(error))
            else:
                yield Line(path, number, record, length=len(raw))


def write_line(record: Record) -> str:
    """Write a record as a line of JSON, its end included.

    Fields that hold what they hold unless given are left out.
    """
    fields: dict[str, Any] = {}
    known = type(record).model_fields
    first = _FIRST_OF_MESSAGE if isinstance(record, Message) else _FIRST_OF_MEMORY
    for name in dict.fromkeys([*first, *known]):
        value = getattr(record, name)
        unless_given = known[name].default
        if name in _ALWAYS_WRITTEN or value not in (unless_given, [], {}):
            fields[name] = format_time(value) if isinstance(value, datetime) else value
    return f"{json.dumps(fields, ensure_ascii=False).translate(_LINE_ENDS)}\n"


def _with_id(message: Message, said: Counter[str]) -> Message:
    if message.id or "recorded_at" in message.model_fields_set:
        return message
    parts = (message.session_key, message.role, message.name, message.content)
    owner = (message.scope, message.scope_id)
    digest = blake2b(json.dumps([*owner, *parts]).encode(), digest_size=10).hexdigest()
    said[digest] += 1
    return message.model_copy(update={"id": f"line-{digest}-{said[digest]}"})


def _read(raw: bytes, prefix: str) -> Record:
    try:
        fields = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        msg = f"is not UTF-8 ({error.reason} at byte {error.start})"
        raise ValueError(msg) from error
    except json.JSONDecodeError as error:
        msg = f"is not JSON ({error.msg} at column {error.colno})"
        raise ValueError(msg) from error
    except RecursionError as error:
        msg = "is nested too deeply"
        raise ValueError(msg) from error
    except ValueError as error:  # the only one that is left
        msg = "holds a number of too many digits"
        raise ValueError(msg) from error
    if not isinstance(fields, dict):
        msg = "is not a JSON object"
        raise ValueError(msg)  # noqa: TRY004  (a bad line, like the others)
    for name in ("id", "given_id", "session_key", "scope_id"):
        if isinstance(fields.get(name), int) and not isinstance(fields[name], bool):
            fields[name] = str(fields[name])
    if "role" in fields and not str(fields.get("session_key") or "").strip():
        msg = "session_key: a message needs one"
        raise ValueError(msg)
    for name in ("id", "given_id", "session_key") if prefix else ():
        if name in fields:
            fields[name] = _prefixed(prefix, fields[name])
    metadata = fields.get("metadata")
    sources = metadata.get(SOURCE_MESSAGE_IDS) if isinstance(metadata, dict) else None
    if prefix and metadata and sources:  # they are ids, too
        sources = sources if isinstance(sources, list) else [sources]
        named = [_prefixed(prefix, each) for each in sources]
        fields["metadata"] = {**metadata, SOURCE_MESSAGE_IDS: named}
    return (Message if "role" in fields else Memory).model_validate(fields)


def _prefixed(prefix: str, value: Any) -> Any:
    """Put a prefix before an id; what is none is left as it is, for the record to judge."""
    number = isinstance(value, int) and not isinstance(value, bool)
    known = str(value).strip() if number or isinstance(value, str) else ""
    return f"{prefix}{known}" if known else value
