"""`AgentMemoryToolkit`: the tools of one memory."""

from typing import Any

from langchain_core.tools import BaseTool, BaseToolkit
from pydantic import ConfigDict, Field

from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.search.request import MAX_CONTEXT, Diversity, HalfLifeDays, MinSimilarity
from langchain_agentmem.tools.conversation_search import ConversationSearchTool
from langchain_agentmem.tools.memory_add import MemoryAddTool
from langchain_agentmem.tools.memory_delete import MemoryDeleteTool
from langchain_agentmem.tools.memory_merge import MemoryMergeTool
from langchain_agentmem.tools.memory_search import MemorySearchTool
from langchain_agentmem.tools.memory_update import MemoryUpdateTool


class AgentMemoryToolkit(BaseToolkit):
    """The tools of one `AgentMemory`, for `create_agent`, `ToolNode` or `bind_tools`."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: AgentMemory = Field(exclude=True, repr=False)
    """The memory that the tools work on."""
    editing: bool = False
    """Whether the agent may also add, update, delete and merge memories."""
    min_similarity: MinSimilarity = None
    """Cosine below which a record is no answer; None: no such bound."""
    half_life_days: HalfLifeDays = None
    """Age in days at which a score counts half; None: age does not count."""
    diversity: Diversity = None
    """How much results must differ from those above them; None: not at all."""
    context: int = Field(default=0, ge=0, le=MAX_CONTEXT)
    """How many messages before and after each found message are shown with it."""
    past_only: bool = False
    """Whether `conversation_search` leaves out the thread that it is called in."""

    def get_tools(self) -> list[BaseTool]:
        """Return `memory_search` and `conversation_search`, and with `editing` four more."""
        memory = self.memory
        options: dict[str, Any] = {
            "memory": memory,
            "min_similarity": self.min_similarity,
            "half_life_days": self.half_life_days,
            "diversity": self.diversity,
        }
        tools: list[BaseTool] = [
            MemorySearchTool(**options, show_ids=self.editing),
            ConversationSearchTool(**options, context=self.context, past_only=self.past_only),
        ]
        if self.editing:
            tools += [
                MemoryAddTool(memory=memory),
                MemoryUpdateTool(memory=memory),
                MemoryDeleteTool(memory=memory),
                MemoryMergeTool(memory=memory),
            ]
        return tools
