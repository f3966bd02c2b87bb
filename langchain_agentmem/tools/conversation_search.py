"""The tool `conversation_search`: past messages."""

from typing import Any, ClassVar

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field

from langchain_agentmem.scopes import Turn
from langchain_agentmem.search.request import MAX_CONTEXT
from langchain_agentmem.tools.formatting import format_messages
from langchain_agentmem.tools.memory_tool import Answer, FilterText, OptionalText, RequiredText
from langchain_agentmem.tools.search_tool import (
    AFTER_DESCRIPTION,
    BEFORE_DESCRIPTION,
    DEFAULT_LIMIT,
    LIMIT_DESCRIPTION,
    Limit,
    SearchTool,
)

DESCRIPTION = """\
Search the messages of past conversations, word for word as they were said.

Use it when the exact wording, a name, a number, an identifier or the time of something said \
before matters ("what was the ticket number?", "when did we talk about the roof?"), or when \
memory_search found nothing. Do not use it for general knowledge or for what this conversation \
already says.

Write the query as a short phrase with the words that were probably used. To read on in one \
conversation, pass the session as printed in a result as session_key. If nothing fits, try other \
words once."""


class ConversationSearchInput(BaseModel):
    """What a model fills in."""

    query: RequiredText = Field(description="What to look for, in a few words.")
    limit: Limit = Field(default=DEFAULT_LIMIT, description=LIMIT_DESCRIPTION)
    session_key: OptionalText = Field(
        default=None,
        description=(
            "Only messages of this conversation, as printed after 'Session:' in a result. "
            "Leave out to search all."
        ),
    )
    after: FilterText = Field(default=None, description=AFTER_DESCRIPTION)
    before: FilterText = Field(default=None, description=BEFORE_DESCRIPTION)
    role: FilterText = Field(
        default=None,
        description="Only messages of this role: user or assistant. Leave out to search both.",
    )


class ConversationSearchTool(SearchTool):
    """Searches the messages of an `AgentMemory`; whose, the run's config decides."""

    format_result: ClassVar = format_messages

    name: str = "conversation_search"
    description: str = DESCRIPTION
    args_schema: type[BaseModel] = ConversationSearchInput
    context: int = Field(default=0, ge=0, le=MAX_CONTEXT)
    """How many messages before and after each result are shown with it."""
    past_only: bool = False
    """Whether the thread that the tool is called in is left out, unless it is asked for."""

    def _run(
        self,
        query: str,
        limit: int = DEFAULT_LIMIT,
        *,
        session_key: str | None = None,
        after: str | None = None,
        before: str | None = None,
        role: str | None = None,
        config: RunnableConfig,
    ) -> Answer:
        return self._answer(
            self.memory.search_conversations,
            query,
            limit,
            **self._options(config, session_key=session_key, after=after, before=before, role=role),
        )

    async def _arun(
        self,
        query: str,
        limit: int = DEFAULT_LIMIT,
        *,
        session_key: str | None = None,
        after: str | None = None,
        before: str | None = None,
        role: str | None = None,
        config: RunnableConfig,
    ) -> Answer:
        return await self._aanswer(
            self.memory.asearch_conversations,
            query,
            limit,
            **self._options(config, session_key=session_key, after=after, before=before, role=role),
        )

    def _options(self, config: RunnableConfig, **filters: str | None) -> dict[str, Any]:
        options = {**super()._options(config, **filters), "context": self.context}
        if self.past_only and not filters["session_key"]:
            with self._failures_told():
                options["exclude_session"] = Turn.from_config(config).thread_id
        return options
