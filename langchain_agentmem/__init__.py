"""Hybrid search over what a LangChain agent remembers.

`AgentMemory` keeps memories and messages; `AgentMemoryToolkit` gives an agent the tools
`memory_search` and `conversation_search` over it. Each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_agentmem.embeddings.settings import EmbeddingSettings
    from langchain_agentmem.errors import AgentMemoryError, EmbeddingError, StorageError
    from langchain_agentmem.integrations.capture_turns import Capture
    from langchain_agentmem.integrations.recall import Recall
    from langchain_agentmem.integrations.retrievers import ConversationRetriever, MemoryRetriever
    from langchain_agentmem.memory import AgentMemory
    from langchain_agentmem.records import Memory, Message
    from langchain_agentmem.reports import ImportReport, MemoryStats
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

_HOMES = {
    "AgentMemory": "memory",
    "AgentMemoryError": "errors",
    "AgentMemoryToolkit": "tools.toolkit",
    "Capture": "integrations.capture_turns",
    "ConversationRetriever": "integrations.retrievers",
    "ConversationSearchTool": "tools.conversation_search",
    "EmbeddingError": "errors",
    "EmbeddingSettings": "embeddings.settings",
    "Finding": "results",
    "ImportReport": "reports",
    "Memory": "records",
    "MemoryHit": "results",
    "MemoryRetriever": "integrations.retrievers",
    "MemorySearchTool": "tools.memory_search",
    "MemoryStats": "reports",
    "MemoryStatus": "results",
    "Message": "records",
    "MessageHit": "results",
    "Recall": "integrations.recall",
    "SearchResult": "results",
    "StorageError": "errors",
    "WriteReport": "results",
}
"""The module that each public name lives in."""

__all__ = [
    "AgentMemory",
    "AgentMemoryError",
    "AgentMemoryToolkit",
    "Capture",
    "ConversationRetriever",
    "ConversationSearchTool",
    "EmbeddingError",
    "EmbeddingSettings",
    "Finding",
    "ImportReport",
    "Memory",
    "MemoryHit",
    "MemoryRetriever",
    "MemorySearchTool",
    "MemoryStats",
    "MemoryStatus",
    "Message",
    "MessageHit",
    "Recall",
    "SearchResult",
    "StorageError",
    "WriteReport",
]


def __getattr__(name: str) -> Any:
    """Load a public name (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
