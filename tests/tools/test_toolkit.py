"""`AgentMemoryToolkit`: the tools of one memory."""

from typing import Any

import pytest
from langchain_core.tools import BaseTool, BaseToolkit
from pydantic import ValidationError

from langchain_agentmem import (
    AgentMemory,
    AgentMemoryToolkit,
    ConversationSearchTool,
    MemorySearchTool,
)


def test_it_gives_both_search_tools(keyword_memory: AgentMemory) -> None:
    toolkit = AgentMemoryToolkit(memory=keyword_memory)
    tools = toolkit.get_tools()
    assert isinstance(toolkit, BaseToolkit)
    assert [tool.name for tool in tools] == ["memory_search", "conversation_search"]
    assert [type(tool) for tool in tools] == [MemorySearchTool, ConversationSearchTool]
    assert all(isinstance(tool, BaseTool) for tool in tools)


def test_they_search_its_memory(keyword_memory: AgentMemory) -> None:
    keyword_memory.add_memory("tea in the morning")
    keyword_memory.add_messages("thread-1", [("user", "some tea, please")])
    for tool in AgentMemoryToolkit(memory=keyword_memory).get_tools():
        assert tool.invoke("tea").startswith("Found 1 matching ")


def test_its_bound_is_that_of_the_tools(keyword_memory: AgentMemory) -> None:
    for tool in AgentMemoryToolkit(memory=keyword_memory, min_similarity=0.25).get_tools():
        assert isinstance(tool, MemorySearchTool | ConversationSearchTool)
        assert tool.min_similarity == 0.25


@pytest.mark.parametrize(
    ("options", "named"),
    [({"memry": 1}, "memry"), ({"min_similarity": 7}, "min_similarity"), ({"memory": 1}, "memory")],
)
def test_unusable_options_are_named(
    keyword_memory: AgentMemory, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValidationError, match=named):
        AgentMemoryToolkit(**{"memory": keyword_memory, **options})


def test_the_memory_is_not_part_of_a_dump(keyword_memory: AgentMemory) -> None:
    toolkit = AgentMemoryToolkit(memory=keyword_memory)
    assert toolkit.model_dump() == {
        "context": 0,
        "diversity": None,
        "editing": False,
        "half_life_days": None,
        "min_similarity": None,
        "past_only": False,
    }
    assert "AgentMemory object" not in repr(toolkit)
