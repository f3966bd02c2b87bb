"""From what callers hand over to records that are ready to be saved."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from langchain_core.messages import RemoveMessage

from langchain_agentmem.arguments import listed, text_argument
from langchain_agentmem.errors import describe
from langchain_agentmem.records import Memory, Message, Record, utc_now
from langchain_agentmem.scopes import Turn

RecordT = TypeVar("RecordT", bound=Record)
_NO_TURN = Turn()


def as_memories(memories: Iterable[Any], turn: Turn) -> list[Memory]:
    """Check memories and file them under their owner.

    Raises:
        TypeError: They are no list, or one is no `Memory`; its position is named.
        ValueError: A memory names a scope that the turn lacks the ids for.
    """
    filed: list[Memory] = []
    for position, memory in enumerate(listed("memories", memories, "memories")):
        if not isinstance(memory, Memory):
            msg = f"memories[{position}] is a {type(memory).__name__}, not a Memory"
            raise TypeError(msg)
        filed.append(_with(memory, _owner(memory, turn)))
    return filed


def as_messages(
    session_key: str | None, messages: Iterable[Any], turn: Turn
) -> tuple[list[Message], int]:
    """Convert messages of a conversation and file them under their owner.

    Messages without a time of their own get the present, a microsecond apart, so that their order
    is kept.

    Returns:
        The messages, and how many were left out because they have no text.

    Raises:
        TypeError: The messages are no list, or the session key is no text.
        ValueError: A message cannot be read, or its conversation is unclear; its position is
            named.
    """
    now = utc_now()
    skipped = 0
    filed: list[Message] = []
    session_key = text_argument("session_key", session_key or "").strip()
    for position, item in enumerate(listed("messages", messages, "messages")):
        message: Message | None
        if isinstance(item, Message):
            message = item
        elif isinstance(item, RemoveMessage):
            message = None
        else:
            try:
                message = Message.from_langchain(
                    item, recorded_at=now + timedelta(microseconds=position)
                )
            except ValueError as error:
                msg = f"messages[{position}] cannot be read: {describe(error)}"
                raise ValueError(msg) from error
            # The time was ours, not the message's: captured again, it keeps its first one.
            if message is not None:
                message = unstated(message, "recorded_at")
        if message is None:
            skipped += 1
            continue
        update: dict[str, Any] = _owner(message, turn)
        update["session_key"] = _session(session_key, message, position)
        filed.append(_with(message, update))
    return filed, skipped


def unstated(record: RecordT, *names: str) -> RecordT:
    """Return a record whose fields of these names its writer did not give: stored ones stand."""
    record.model_fields_set.difference_update(names)
    return record


def _session(session_key: str, message: Message, position: int) -> str:
    own = message.session_key
    if session_key and own and own != session_key:
        msg = (
            f"messages[{position}] belongs to session {own!r}, not to {session_key!r}; "
            "give session_key=None to keep each message's own"
        )
        raise ValueError(msg)
    if not (own or session_key):
        msg = f"session_key: messages[{position}] belongs to no conversation; name one"
        raise ValueError(msg)
    return own or session_key


def _with(record: RecordT, update: Mapping[str, Any]) -> RecordT:
    """Return a record with other values; itself, where it has them already."""
    for name, value in update.items():
        if getattr(record, name) != value:
            return record.model_copy(update=update)
    return record


def _owner(record: Record, turn: Turn) -> dict[str, Any]:
    """Return whose the record is: its own say first, then the turn's."""
    if record.scope_id or turn == _NO_TURN:
        return {}
    own = record.scope if "scope" in record.model_fields_set else None
    scope, scope_id = turn.files_under(own)
    return {"scope": scope, "scope_id": scope_id}
