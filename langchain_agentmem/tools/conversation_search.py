"""The tool `conversation_search`: past messages."""

from typing import Any, ClassVar

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field, field_validator

from langchain_agentmem.scopes import Turn
from langchain_agentmem.search.request import MAX_CONTEXT
from langchain_agentmem.tools.formatting import format_messages
from langchain_agentmem.tools.memory_tool import read_filter, read_label
from langchain_agentmem.tools.search_tool import Searches, SearchInput, SearchTool

DESCRIPTION = """\
Search the messages of past conversations, word for word as they were said.

Use it when the exact wording, a name, a number, an identifier or the time of something said \
before matters ("what was the ticket number?", "when did we talk about the roof?"), or when \
memory_search found nothing. Do not use it for general knowledge or for what this conversation \
already says.

Write the query as a short phrase with the words that were probably used. To read on in one \
conversation, pass the session as printed in a result as session_key. If nothing fits, try other \
words once."""


class ConversationSearchInput(SearchInput):
    """What a model fills in."""

    session_key: str | None = Field(
        default=None,
        description=(
            "Only messages of this conversation, as printed after 'Session:' in a result. "
            "Leave out to search all."
        ),
    )
    role: str | None = Field(
        default=None,
        description="Only messages of this role: user or assistant. Leave out to search both.",
    )

    _read_session = field_validator("session_key", mode="before")(read_label)
    _read_role = field_validator("role", mode="before")(read_filter)


class ConversationSearchTool(SearchTool):
    """Searches the messages of an `AgentMemory`; whose, the run's config decides."""

    format_result: ClassVar = format_messages
    own_schema: ClassVar = ConversationSearchInput

    name: str = "conversation_search"
    description: str = DESCRIPTION
    args_schema: type[BaseModel] = ConversationSearchInput
    context: int = Field(default=0, ge=0, le=MAX_CONTEXT)
    """How many messages before and after each result are shown with it."""
    past_only: bool = False
    """Whether the thread that the tool is called in is left out, unless it is asked for."""

    @property
    def _searches(self) -> Searches:
        return self.memory.search_conversations, self.memory.asearch_conversations

    def _options(self, config: RunnableConfig, filters: dict[str, str | None]) -> dict[str, Any]:
        options = {**super()._options(config, filters), "context": self.context}
        if self.past_only and not filters.get("session_key"):
            options["exclude_session"] = Turn.from_config(config).thread_id
        return options
