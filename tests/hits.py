"""Hits as a search returns them, for tests of what becomes of them."""

from datetime import UTC, datetime
from typing import Any

from langchain_agentmem import MemoryHit, MessageHit

NOON = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def memory_hit(content: str = "Prefers dark mode", **fields: Any) -> MemoryHit:
    values: dict[str, Any] = {
        "id": "mem-1",
        "type": "persona",
        "priority": 80,
        "scene_name": "",
        "tags": [],
        "scope": "user",
        "scope_id": "",
        "strength": 1.0,
        "session_key": "",
        "created_at": NOON,
        "updated_at": None,
        "metadata": {},
        "score": 2 / 61,
    }
    return MemoryHit(content=content, **(values | fields))


def message_hit(content: str = "the text of the message", **fields: Any) -> MessageHit:
    values: dict[str, Any] = {
        "id": "msg-1",
        "session_key": "thread-1",
        "role": "user",
        "name": None,
        "recorded_at": NOON,
        "scope": "user",
        "scope_id": "",
        "metadata": {},
        "score": 2 / 61,
    }
    return MessageHit(content=content, **(values | fields))
