"""Hybrid search over what a LangChain agent remembers.

`AgentMemory` keeps memories and messages; `AgentMemoryToolkit` gives an agent the tools
`memory_search` and `conversation_search` over it.
"""

from langchain_agentmem.embeddings.settings import EmbeddingSettings
from langchain_agentmem.errors import AgentMemoryError, EmbeddingError, StorageError
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.records import Memory, Message
from langchain_agentmem.results import (
    Finding,
    MemoryHit,
    MemoryStatus,
    MessageHit,
    SearchResult,
    WriteReport,
)
from langchain_agentmem.tools.conversation_search import ConversationSearchTool
from langchain_agentmem.tools.memory_search import MemorySearchTool
from langchain_agentmem.tools.toolkit import AgentMemoryToolkit

__all__ = [
    "AgentMemory",
    "AgentMemoryError",
    "AgentMemoryToolkit",
    "ConversationSearchTool",
    "EmbeddingError",
    "EmbeddingSettings",
    "Finding",
    "Memory",
    "MemoryHit",
    "MemorySearchTool",
    "MemoryStatus",
    "Message",
    "MessageHit",
    "SearchResult",
    "StorageError",
    "WriteReport",
]
