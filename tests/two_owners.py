"""A memory of two users, who both gave their records the same ids."""

from typing import Any

from langchain_agentmem import AgentMemory, Memory, Message

ANN: dict[str, Any] = {"configurable": {"user_id": "ann"}}
BEN: dict[str, Any] = {"configurable": {"user_id": "ben"}}


def fill_for_two(memory: AgentMemory) -> None:
    """Save a pet and a message of each, and a message and a memory of nobody."""
    for config, pet in ((ANN, "cat"), (BEN, "dog")):
        memory.add_memories([Memory(id="pet", content=f"has a {pet}")], config=config)
        said = Message(id="1", role="user", content=f"my {pet}", recorded_at="2026-01-02")
        memory.add_messages("s", [said], config=config)
    memory.add_messages("s", [Message(role="tool", content="42", recorded_at="2026-01-01")])
    memory.add_memory("likes tea", tags=["drinks"], priority=-1, scene_name="home")
