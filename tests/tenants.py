"""Many tenants who said the same, and who may see what: the rule written down a second time.

Every record has the same few texts, so that only ownership tells them apart, and carries its number
as a mark in whatever of it can come to light: id, type, scene, session, tags, metadata. `marks`
finds them in anything, so what one turn reads of another's is seen wherever it surfaces.
"""

import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_agentmem import AgentMemory, Memory, Message

TEXTS = ("the harbour gate code is 4711", "retrieval of the boats was blue NOT red")
QUERIES = (
    "harbour",
    "what was the gate code",
    "boats retrieved",
    '"gate code"',
    '"code gate"',
    "harb* OR boat*",
    "harbour AND code",
    "harbour NOT boats",
    "(harbour OR boats) AND nothing",
    "harbour AND",
    "something to drink",
    "4711",
)
USERS = ("ann", "bob", "a.b@c.com")


@dataclass(frozen=True)
class Owner:
    """Under whom a record is kept, and what its metadata says if that is nobody."""

    scope: str
    scope_id: str
    stray_of: str = ""
    """For a record under no scope id: the id that its metadata names."""


OWNERS = (
    *(Owner("user", user) for user in USERS),
    *(Owner("persona", f"{user}::coach") for user in USERS),
    *(Owner("thread", thread) for thread in ("t1", "t2")),
    *(Owner("organization", organization) for organization in ("acme", "globex")),
    *(Owner(scope, "") for scope in ("user", "persona", "thread", "organization")),
    *(Owner("user", "", stray_of=user) for user in USERS),
)
RECORDS = [(owner, text) for owner in OWNERS for text in TEXTS]
"""Owner and text of each record; its place is its mark."""


def ids_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the ids that a config names."""
    given = {key: str(value or "").strip() for key, value in config["configurable"].items()}
    return {key: value for key, value in given.items() if value}


def own_id(ids: dict[str, str], scope: str) -> str | None:
    """Return the scope id of a turn, or None."""
    if scope == "persona":
        both = "user_id" in ids and "persona_id" in ids
        return f"{ids['user_id']}::{ids['persona_id']}" if both else None
    return ids.get(f"{scope}_id")


def visible(config: Mapping[str, Any], scope: str | None = None) -> set[int]:
    """Return the marks that a turn may read."""
    ids = ids_of(config)
    if scope is None and not ids:
        return set(range(len(RECORDS)))
    seen = set()
    for mark, (owner, _) in enumerate(RECORDS):
        if owner.stray_of or scope not in (None, owner.scope):
            continue
        own = own_id(ids, owner.scope)
        if scope is not None and own is None:
            continue
        if owner.scope_id in ("", own):
            seen.add(mark)
    return seen


def record_id(mark: int, kind: str = "memories") -> str:
    """Return the id of a record."""
    return f"{kind}-mark{mark}."


def fill(memory: AgentMemory) -> None:
    """Save every record, as a memory and as a message."""
    memories, messages = [], []
    for mark, (owner, text) in enumerate(RECORDS):
        shared: dict[str, Any] = {
            "content": text,
            "scope": owner.scope,
            "scope_id": owner.scope_id,
            "session_key": f"session-mark{mark}.",
            "metadata": {"mark": f"mark{mark}."}
            | ({"scope_id": owner.stray_of} if owner.stray_of else {}),
        }
        memories.append(
            Memory(
                id=record_id(mark),
                type=f"type-mark{mark}.",
                scene_name=f"scene-mark{mark}.",
                tags=[f"tag-mark{mark}."],
                **shared,
            )
        )
        messages.append(Message(id=record_id(mark, "messages"), role="user", **shared))
    memory.add_memories(memories)
    memory.add_messages(None, messages)
    # A writer of another kind put the id into the metadata alone.
    strays = [mark for mark, (owner, _) in enumerate(RECORDS) if owner.stray_of]
    with sqlite3.connect(memory.status().location) as connection:
        for kind in ("memories", "messages"):
            connection.executemany(
                f"UPDATE {kind} SET scope_id = '' WHERE id = ?",  # noqa: S608
                [(record_id(mark, kind),) for mark in strays],
            )
    connection.close()


def marks(anything: Any) -> set[int]:
    """Return the marks in a text or in JSON data."""
    text = anything if isinstance(anything, str) else json.dumps(anything)
    return {int(number) for number in re.findall(r"mark(\d+)\.", text)}
