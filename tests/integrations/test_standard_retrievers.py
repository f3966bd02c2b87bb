"""LangChain's standard tests of retrievers, over a real memory."""

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests

from langchain_agentmem import AgentMemory, ConversationRetriever, MemoryRetriever


class OverAMemory:
    """Gives each test a memory that holds answers, and a retriever over it."""

    memory: AgentMemory
    retriever_class: type[MemoryRetriever] | type[ConversationRetriever]

    @pytest.fixture(autouse=True)
    def _fill(self, memory: AgentMemory) -> None:
        for number in range(5):
            memory.add_memory(f"Likes oat milk number {number}")
            memory.add_messages("thread-1", [("user", f"I like oat milk number {number}")])
        self.memory = memory

    @property
    def retriever_constructor(self) -> type[MemoryRetriever] | type[ConversationRetriever]:
        return self.retriever_class

    @property
    def retriever_constructor_params(self) -> dict[str, object]:
        return {"memory": self.memory}

    @property
    def retriever_query_example(self) -> str:
        return "oat milk"


class TestMemoryRetriever(OverAMemory, RetrieversIntegrationTests):
    retriever_class = MemoryRetriever


class TestConversationRetriever(OverAMemory, RetrieversIntegrationTests):
    retriever_class = ConversationRetriever
