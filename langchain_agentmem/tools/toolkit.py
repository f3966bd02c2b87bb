"""`AgentMemoryToolkit`: the tools of one memory."""

from langchain_core.tools import BaseTool, BaseToolkit
from pydantic import ConfigDict, Field

from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.tools.conversation_search import ConversationSearchTool
from langchain_agentmem.tools.memory_search import MemorySearchTool


class AgentMemoryToolkit(BaseToolkit):
    """The search tools of one `AgentMemory`, for `create_agent`, `ToolNode` or `bind_tools`."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: AgentMemory = Field(exclude=True, repr=False)
    """The memory that the tools search."""
    min_similarity: float | None = Field(default=None, ge=-1, le=1)
    """Cosine below which a record is no answer; None: no such bound."""

    def get_tools(self) -> list[BaseTool]:
        """Return `memory_search` and `conversation_search`."""
        options = {"memory": self.memory, "min_similarity": self.min_similarity}
        return [MemorySearchTool(**options), ConversationSearchTool(**options)]
