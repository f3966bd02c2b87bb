"""The tools in real agents: `ToolNode`, `create_agent`, a checkpointer on disk, many users."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from output_parser import parse
from scripted_model import ScriptedModel, call, call_then_repeat

from langchain_agentmem import AgentMemory, AgentMemoryToolkit

Plan = Callable[[str], list[dict[str, Any]]]


def search_memories(question: str) -> list[dict[str, Any]]:
    return [call("memory_search", query=question)]


def search_both(question: str) -> list[dict[str, Any]]:
    return [
        call("memory_search", query=question, limit="3"),
        call("conversation_search", query=question, session_key=""),
    ]


def agent_of(memory: AgentMemory, plan: Plan = search_memories, **options: Any) -> Any:
    tools = AgentMemoryToolkit(memory=memory).get_tools()
    return create_agent(ScriptedModel(script=call_then_repeat(plan)), tools, **options)


def turn(user_id: str, thread_id: str = "thread-1") -> dict[str, Any]:
    return {"configurable": {"user_id": user_id, "thread_id": thread_id}}


def ask(question: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(question)]}


def tool_messages(state: dict[str, Any]) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def fill(memory: AgentMemory, user_id: str = "ann") -> None:
    memory.add_memory(f"{user_id} is allergic to walnuts", config=turn(user_id))
    memory.add_messages("kitchen", [("user", f"no walnuts for {user_id}")], config=turn(user_id))


class TestToolNode:
    def test_it_calls_the_tools_for_the_turns_user(self, memory: AgentMemory) -> None:
        fill(memory)
        tools: list[BaseTool] = AgentMemoryToolkit(memory=memory).get_tools()
        graph = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "tools")
        graph.add_edge("tools", END)
        run: Any = graph.compile()
        request = {"messages": [AIMessage("", tool_calls=search_both("walnuts"))]}

        answers = tool_messages(run.invoke(request, turn("ann")))
        assert [answer.name for answer in answers] == ["memory_search", "conversation_search"]
        assert [answer.status for answer in answers] == ["success", "success"]
        assert [answer.artifact["total"] for answer in answers] == [1, 1]
        assert parse("memories", str(answers[0].content)).entries[0].content == (
            "ann is allergic to walnuts"
        )

        nobody = tool_messages(run.invoke(request, turn("bob")))
        assert [answer.artifact["total"] for answer in nobody] == [0, 0]

    def test_unusable_arguments_are_answered(self, memory: AgentMemory) -> None:
        fill(memory)
        state = agent_of(memory, lambda _: [call("memory_search", limit=3)]).invoke(ask("?"))
        (answer,) = tool_messages(state)
        assert answer.status == "error"
        assert "query" in str(answer.content)


class TestCreateAgent:
    def test_the_model_reads_what_was_found(self, memory: AgentMemory) -> None:
        fill(memory)
        state = agent_of(memory, search_both).invoke(ask("walnuts"), turn("ann"))
        read = state["messages"][-1].content
        assert read.startswith("I read: Found 1 matching memory (strategy: hybrid):\n\n- **[")
        assert "\nFound 1 matching message (strategy: hybrid):\n\n---\n**[user]** Session" in read
        assert "ann is allergic to walnuts" in read

    async def test_async(self, memory: AgentMemory) -> None:
        fill(memory)
        agent = agent_of(memory, search_both)
        state = await agent.ainvoke(ask("walnuts"), turn("ann"))
        same = agent.invoke(ask("walnuts"), turn("ann"))
        assert [message.content for message in state["messages"]] == [
            message.content for message in same["messages"]
        ]
        assert [message.artifact for message in tool_messages(state)] == [
            message.artifact for message in tool_messages(same)
        ]

    def test_ids_that_a_model_invents_do_not_count(self, memory: AgentMemory) -> None:
        fill(memory)
        spoof: Any = {"user_id": "ann", "scope": "user", "config": turn("ann"), "memory": None}
        agent = agent_of(memory, lambda query: [call("memory_search", query=query, **spoof)])
        (answer,) = tool_messages(agent.invoke(ask("walnuts"), turn("bob")))
        assert answer.artifact["total"] == 0

    @pytest.mark.parametrize("checkpointer", [None, InMemorySaver()])
    async def test_a_run_does_not_die_of_a_failing_search(
        self, memory: AgentMemory, checkpointer: Any
    ) -> None:
        fill(memory)
        agent = agent_of(memory, search_both, checkpointer=checkpointer)
        memory.close()
        for state in (
            agent.invoke(ask("walnuts"), turn("ann", "sync")),
            await agent.ainvoke(ask("walnuts"), turn("ann", "async")),
        ):
            assert [answer.status for answer in tool_messages(state)] == ["error", "error"]
            assert state["messages"][-1].content.startswith("I read: memory_search failed: ")


class TestCheckpointer:
    def test_the_artifact_survives_on_disk(self, memory: AgentMemory, tmp_path: Path) -> None:
        fill(memory)
        path = str(tmp_path / "checkpoints.sqlite3")
        with SqliteSaver.from_conn_string(path) as saver:
            state = agent_of(memory, search_both, checkpointer=saver).invoke(
                ask("walnuts"), turn("ann")
            )
        with SqliteSaver.from_conn_string(path) as saver:
            agent = agent_of(memory, search_both, checkpointer=saver)
            kept = agent.get_state(turn("ann")).values
            assert tool_messages(kept) == tool_messages(state)
            assert [answer.artifact for answer in tool_messages(kept)] == [
                memory.search_memories("walnuts", 3, config=turn("ann")).to_dict(),
                memory.search_conversations("walnuts", config=turn("ann")).to_dict(),
            ]
            continued = agent.invoke(ask("walnuts again"), turn("ann"))
        assert len(tool_messages(continued)) == 4

    def test_so_do_the_largest_integers_of_metadata(self, memory: AgentMemory) -> None:
        numbers = {"least": -(2**63), "most": 2**64 - 1}
        memory.add_memory("Ann likes walnuts", metadata=numbers, config=turn("ann"))
        agent = agent_of(memory, search_both, checkpointer=InMemorySaver())
        state = agent.invoke(ask("walnuts"), turn("ann"))
        assert tool_messages(state)[0].artifact["results"][0]["metadata"] == numbers

    def test_a_conversation_can_be_remembered_from_its_state(
        self, keyword_memory: AgentMemory
    ) -> None:
        """What an agent's state holds can be saved as it is, again and again."""
        agent = agent_of(keyword_memory, checkpointer=InMemorySaver())
        for question in ("where is the walnut oil", "and the figs"):
            state = agent.invoke(ask(question), turn("ann"))
            keyword_memory.add_messages("thread-1", state["messages"], config=turn("ann"))
        found = keyword_memory.search_conversations("walnut oil", role="user", config=turn("ann"))
        assert [hit.content for hit in found.results] == ["where is the walnut oil"]


class TestManyUsers:
    """One graph and one pair of tools serve everybody at once."""

    users = ("ann", "bob", "a.b@c.com", "dan")

    def test_in_threads(self, memory: AgentMemory) -> None:
        for user_id in self.users:
            fill(memory, user_id)
        agent = agent_of(memory, search_both, checkpointer=InMemorySaver())

        def run(number: int) -> tuple[str, Any]:
            user_id = self.users[number % len(self.users)]
            return user_id, agent.invoke(ask("walnuts"), turn(user_id, f"thread-{number}"))

        with ThreadPoolExecutor(8) as workers:
            self.check(list(workers.map(run, range(24))))

    async def test_in_tasks(self, memory: AgentMemory) -> None:
        for user_id in self.users:
            fill(memory, user_id)
        agent = agent_of(memory, search_both, checkpointer=InMemorySaver())

        async def run(number: int) -> tuple[str, Any]:
            user_id = self.users[number % len(self.users)]
            config = turn(user_id, f"thread-{number}")
            return user_id, await agent.ainvoke(ask("walnuts"), config)

        self.check(await asyncio.gather(*map(run, range(24))))

    @staticmethod
    def check(runs: list[tuple[str, Any]]) -> None:
        for user_id, state in runs:
            memories, messages = (answer.artifact["results"] for answer in tool_messages(state))
            assert [hit["content"] for hit in memories] == [f"{user_id} is allergic to walnuts"]
            assert [hit["content"] for hit in messages] == [f"no walnuts for {user_id}"]
