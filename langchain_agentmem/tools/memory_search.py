"""The tool `memory_search`: distilled memories."""

from typing import ClassVar

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field

from langchain_agentmem.tools.formatting import format_memories
from langchain_agentmem.tools.memory_tool import Answer, FilterText, RequiredText
from langchain_agentmem.tools.search_tool import (
    AFTER_DESCRIPTION,
    BEFORE_DESCRIPTION,
    DEFAULT_LIMIT,
    LIMIT_DESCRIPTION,
    Limit,
    SearchTool,
)

DESCRIPTION = """\
Search long-term memory: facts, preferences, past events and standing instructions that were \
distilled from earlier conversations.

Use it before you answer whenever the user refers to something you were told before, asks for a \
personal recommendation, or when their preferences, plans or earlier decisions could matter. Do \
not use it for general knowledge or for what this conversation already says.

Write the query as a short phrase with the words that the memory would contain: names, places, \
things ("Anna birthday gift"), not "what did the user say". If nothing fits, try other words \
once, or conversation_search for the exact wording of what was said."""


class MemorySearchInput(BaseModel):
    """What a model fills in."""

    query: RequiredText = Field(description="What to look for, in a few words.")
    limit: Limit = Field(default=DEFAULT_LIMIT, description=LIMIT_DESCRIPTION)
    type: FilterText = Field(
        default=None,
        description=(
            "Only memories of this type: persona (who the user is), episodic (what happened) or "
            "instruction (what the user wants you to do). Leave out to search all."
        ),
    )
    scene: FilterText = Field(
        default=None,
        description="Only memories whose scene name contains this text. Leave out to search all.",
    )
    after: FilterText = Field(default=None, description=AFTER_DESCRIPTION)
    before: FilterText = Field(default=None, description=BEFORE_DESCRIPTION)


class MemorySearchTool(SearchTool):
    """Searches the distilled memories of an `AgentMemory`; whose, the run's config decides."""

    format_result: ClassVar = format_memories

    name: str = "memory_search"
    description: str = DESCRIPTION
    args_schema: type[BaseModel] = MemorySearchInput

    def _run(
        self,
        query: str,
        limit: int = DEFAULT_LIMIT,
        *,
        type: str | None = None,
        scene: str | None = None,
        after: str | None = None,
        before: str | None = None,
        config: RunnableConfig,
    ) -> Answer:
        return self._answer(
            self.memory.search_memories,
            query,
            limit,
            **self._options(config, type=type, scene=scene, after=after, before=before),
        )

    async def _arun(
        self,
        query: str,
        limit: int = DEFAULT_LIMIT,
        *,
        type: str | None = None,
        scene: str | None = None,
        after: str | None = None,
        before: str | None = None,
        config: RunnableConfig,
    ) -> Answer:
        return await self._aanswer(
            self.memory.asearch_memories,
            query,
            limit,
            **self._options(config, type=type, scene=scene, after=after, before=before),
        )
