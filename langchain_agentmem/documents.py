"""From the documents of a vector store to records.

Metadata that means what a field of a record means becomes that field; a value that the field does
not take stays in the metadata, with everything else.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from langchain_agentmem.records import SCOPES, Memory, Message, Record
from langchain_agentmem.scopes import Turn

_SESSION = ("session_key", "thread_id", "session_id", "conversation_id")
_COMMON: dict[str, tuple[str, ...]] = {"session_key": _SESSION}
_MEMORY = {
    **_COMMON,
    "type": ("type",),
    "priority": ("priority",),
    "scene_name": ("scene_name", "scene"),
    "strength": ("strength",),
    "tags": ("tags",),
    "created_at": ("created_at", "recorded_at", "timestamp", "date"),
    "updated_at": ("updated_at",),
}
_MESSAGE = {
    **_COMMON,
    "role": ("role", "type"),
    "name": ("name", "speaker"),
    "recorded_at": ("recorded_at", "created_at", "timestamp", "date"),
}
_LABELS = {"session_key", "type", "scene_name", "role", "name"}


def as_record(
    record_type: type[Memory] | type[Message],
    id: str,
    content: str,
    metadata: Mapping[str, Any] | None,
    session_key: str,
) -> Record:
    """Make a record of a document.

    Args:
        record_type: What it becomes.
        id: The document's id, which it keeps.
        content: The document's text.
        metadata: The document's metadata.
        session_key: The conversation of a message whose metadata names none.

    Raises:
        ValueError: The text or the id is unusable.
    """
    rest = dict(metadata or {})
    fields, named_by = _owner(rest)
    for key in named_by:
        del rest[key]
    sources: dict[str, dict[str, Any]] = {}
    for name, keys in (_MESSAGE if record_type is Message else _MEMORY).items():
        for key in keys:
            if _is_given(rest.get(key)):
                value = rest.pop(key)
                sources[name] = {key: value}
                fields[name] = _read_as(name)(value)
                break
    while True:
        try:
            return _make(record_type, {**fields, "id": id, "content": content}, rest, session_key)
        except ValidationError as error:
            unfit = {str(item["loc"][0]) for item in error.errors() if item["loc"]} & set(sources)
            if not unfit:
                raise
            for name in unfit:
                del fields[name]
                rest |= sources.pop(name)


def _make(
    record_type: type[Memory] | type[Message],
    fields: dict[str, Any],
    metadata: dict[str, Any],
    session_key: str,
) -> Record:
    if record_type is Message:
        fields = {"role": "user", "session_key": session_key, **fields}
    return record_type.model_validate({**fields, "metadata": metadata})


def _owner(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return whose record it is, and the keys that say so.

    A document of a user's never becomes everybody's: without a usable scope it stays the user's.
    """
    turn = Turn.from_config({"configurable": {k: v for k, v in metadata.items() if _is_id(v)}})
    named = metadata.get("scope")
    scope = named if named in SCOPES else "user"
    keys = {"scope"} if named in SCOPES else set()
    if _is_id(metadata.get("scope_id")):
        return {"scope": scope, "scope_id": str(metadata["scope_id"])}, keys | {"scope_id"}
    if own := turn.scope_id(scope):
        used = {"user_id"} if scope == "user" and _is_id(metadata.get("user_id")) else set()
        return {"scope": scope, "scope_id": own}, keys | used
    if turn.user_id:
        return {"scope": "user", "scope_id": turn.user_id}, set()
    return ({"scope": scope} if keys else {}), keys


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and _is_given(str(value))


def _is_given(value: Any) -> bool:
    return value is not None and (not isinstance(value, str) or bool(value.strip()))


def _read_as(name: str) -> Callable[[Any], Any]:
    if name == "tags":
        return _tags
    return _label if name in _LABELS else lambda value: value


def _label(value: Any) -> Any:
    # Chroma keeps what looks like a number as a number.
    number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if number else value


def _tags(value: Any) -> Any:
    """Read tags that a store without lists keeps as one text: JSON, or between commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):  # no JSON, or nested too deeply
            return value
    return [tag.strip() for tag in value.split(",") if tag.strip()]
