"""The tool `memory_search`: distilled memories."""

from typing import ClassVar

from pydantic import BaseModel, Field, field_validator

from langchain_agentmem.tools.formatting import format_memories
from langchain_agentmem.tools.memory_tool import read_filter
from langchain_agentmem.tools.search_tool import Searches, SearchInput, SearchTool

DESCRIPTION = """\
Search long-term memory: facts, preferences, past events and standing instructions that were \
distilled from earlier conversations.

Use it before you answer whenever the user refers to something you were told before, asks for a \
personal recommendation, or when their preferences, plans or earlier decisions could matter. Do \
not use it for general knowledge or for what this conversation already says.

Write the query as a short phrase with the words that the memory would contain: names, places, \
things ("Anna birthday gift"), not "what did the user say". If nothing fits, try other words \
once, or conversation_search for the exact wording of what was said."""


class MemorySearchInput(SearchInput):
    """What a model fills in."""

    type: str | None = Field(
        default=None,
        description=(
            "Only memories of this type: persona (who the user is), episodic (what happened) or "
            "instruction (what the user wants you to do). Leave out to search all."
        ),
    )
    scene: str | None = Field(
        default=None,
        description="Only memories whose scene name contains this text. Leave out to search all.",
    )

    _read_filters = field_validator("type", "scene", mode="before")(read_filter)


class MemorySearchTool(SearchTool):
    """Searches the distilled memories of an `AgentMemory`; whose, the run's config decides."""

    format_result: ClassVar = format_memories
    own_schema: ClassVar = MemorySearchInput

    name: str = "memory_search"
    description: str = DESCRIPTION
    args_schema: type[BaseModel] = MemorySearchInput

    @property
    def _searches(self) -> Searches:
        return self.memory.search_memories, self.memory.asearch_memories
