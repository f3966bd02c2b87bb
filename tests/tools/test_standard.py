"""LangChain's standard tests of tools, for both tools over a real memory."""

import pytest
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from langchain_agentmem import AgentMemory, ConversationSearchTool, MemorySearchTool


class OverAMemory:
    """Gives each test a memory that holds an answer, and a tool over it."""

    memory: AgentMemory
    tool_class: type[BaseTool]

    @pytest.fixture(autouse=True)
    def _fill(self, memory: AgentMemory) -> None:
        memory.add_memory("Likes oat milk")
        memory.add_messages("thread-1", [("user", "I like oat milk")])
        self.memory = memory

    @property
    def tool_constructor(self) -> type[BaseTool]:
        return self.tool_class

    @property
    def tool_constructor_params(self) -> dict[str, AgentMemory]:
        return {"memory": self.memory}

    @property
    def tool_invoke_params_example(self) -> dict[str, object]:
        return {"query": "oat milk", "limit": 3}


class TestMemorySearchUnit(OverAMemory, ToolsUnitTests):
    tool_class = MemorySearchTool


class TestMemorySearchIntegration(OverAMemory, ToolsIntegrationTests):
    tool_class = MemorySearchTool


class TestConversationSearchUnit(OverAMemory, ToolsUnitTests):
    tool_class = ConversationSearchTool


class TestConversationSearchIntegration(OverAMemory, ToolsIntegrationTests):
    tool_class = ConversationSearchTool
