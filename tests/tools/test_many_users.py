"""One graph, one memory, two users with two threads each, a checkpointer on disk."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from scripted_model import ScriptedModel, call

from langchain_agentmem import AgentMemory, AgentMemoryToolkit

USERS = ("ann", "a.b@c.com")
THREADS = ("morning", "evening")


def obey(messages: list[BaseMessage]) -> AIMessage:
    """Do what is said in so many words: `remember: ...`, `recall: ...` or `forget: ...`."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return AIMessage(f"I read: {last.content}")
    verb, _, rest = str(last.content).partition(": ")
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "remember": ("memory_add", {"content": rest}),
        "recall": ("memory_search", {"query": rest, "limit": 20}),
        "forget": ("memory_delete", {"ids": rest.split()}),
    }
    name, arguments = calls[verb]
    return AIMessage("", tool_calls=[call(name, **arguments)])


def turn(user: str | None, thread: str, **more: str) -> RunnableConfig:
    ids = {"user_id": user} if user else {}
    return {"configurable": {**ids, "thread_id": f"{user}-{thread}", **more}}


def say(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def agent_of(memory: AgentMemory, checkpointer: Any) -> Any:
    tools = AgentMemoryToolkit(memory=memory, editing=True).get_tools()
    return create_agent(ScriptedModel(script=obey), tools, checkpointer=checkpointer)


def last_answer(state: dict[str, Any]) -> ToolMessage:
    (*_, answer) = (m for m in state["messages"] if isinstance(m, ToolMessage))
    return answer


def recalled(agent: Any, query: str, config: RunnableConfig) -> set[str]:
    answer = last_answer(agent.invoke(say(f"recall: {query}"), config))
    return {hit["content"] for hit in answer.artifact["results"]}


@pytest.fixture
def agent(memory: AgentMemory, tmp_path: Path) -> Iterator[Any]:
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite3")) as saver:
        yield agent_of(memory, saver)


def test_what_one_thread_learns_another_of_the_same_user_recalls(agent: Any) -> None:
    for user in USERS:
        for thread in THREADS:
            agent.invoke(say(f"remember: tea of {user} in the {thread}"), turn(user, thread))
    for user in USERS:
        for thread in (*THREADS, "a new thread"):
            assert recalled(agent, "tea", turn(user, thread)) == {
                f"tea of {user} in the morning",
                f"tea of {user} in the evening",
            }
    assert recalled(agent, "tea", turn("somebody else", "morning")) == set()


def test_the_checkpoints_of_a_user_hold_nothing_of_another(agent: Any) -> None:
    ann, other = (turn(user, "morning") for user in USERS)
    agent.invoke(say("remember: the code is 4711"), ann)
    agent.invoke(say("recall: code"), other)
    assert "4711" in str(agent.get_state(ann).values)
    assert "4711" not in str(agent.get_state(other).values)


def test_nobody_forgets_for_others(agent: Any) -> None:
    ann, other = (turn(user, "morning") for user in USERS)
    state = agent.invoke(say("remember: tea"), ann)
    id_ = last_answer(state).artifact["id"]
    assert last_answer(agent.invoke(say(f"forget: {id_}"), other)).artifact["deleted"] == []
    assert recalled(agent, "tea", ann) == {"tea"}
    assert last_answer(agent.invoke(say(f"forget: {id_}"), ann)).artifact["deleted"] == [id_]
    assert recalled(agent, "tea", ann) == set()


def test_an_organization_shares_what_code_filed_there(memory: AgentMemory, agent: Any) -> None:
    memory.add_memory("tea is at four", scope="organization", scope_id="acme")
    agent.invoke(say("remember: tea without milk"), turn("ann", "morning", organization_id="acme"))
    for user, own in (("ann", {"tea without milk"}), ("bob", set())):
        member = turn(user, "evening", organization_id="acme")
        assert recalled(agent, "tea", member) == {"tea is at four"} | own
        assert recalled(agent, "tea", turn(user, "evening", organization_id="other")) == own


def test_a_thread_alone_files_for_nobody_in_particular(agent: Any) -> None:
    """A one-user agent needs no ids: its memory crosses its threads."""
    agent.invoke(say("remember: tea at noon"), turn(None, "morning"))
    assert recalled(agent, "tea", turn(None, "evening")) == {"tea at noon"}


def test_a_conversation_goes_on_after_a_restart(memory: AgentMemory, tmp_path: Path) -> None:
    path = str(tmp_path / "saved.sqlite3")
    for number, text in enumerate(("remember: tea", "recall: tea"), start=1):
        with SqliteSaver.from_conn_string(path) as saver:
            state = agent_of(memory, saver).invoke(say(text), turn("ann", "morning"))
        assert len(state["messages"]) == 4 * number
    assert [hit["scope_id"] for hit in last_answer(state).artifact["results"]] == ["ann"]


class TestAtOnce:
    """Turns of both users, all at the same time, through one agent."""

    turns = [(user, thread) for user in USERS for thread in THREADS] * 4

    def test_in_threads(self, memory: AgentMemory) -> None:
        agent = agent_of(memory, InMemorySaver())

        def run(number: int) -> tuple[str, set[str]]:
            user, thread = self.turns[number]
            config = turn(user, f"{thread}-{number}")
            agent.invoke(say(f"remember: tea {number} of {user}"), config)
            return user, recalled(agent, "tea", config)

        with ThreadPoolExecutor(8) as workers:
            self.check(list(workers.map(run, range(len(self.turns)))))

    async def test_in_tasks(self, memory: AgentMemory) -> None:
        agent = agent_of(memory, InMemorySaver())

        async def run(number: int) -> tuple[str, set[str]]:
            user, thread = self.turns[number]
            config = turn(user, f"{thread}-{number}")
            await agent.ainvoke(say(f"remember: tea {number} of {user}"), config)
            state = await agent.ainvoke(say("recall: tea"), config)
            return user, {hit["content"] for hit in last_answer(state).artifact["results"]}

        self.check(await asyncio.gather(*map(run, range(len(self.turns)))))

    def check(self, runs: list[tuple[str, set[str]]]) -> None:
        for number, (user, contents) in enumerate(runs):
            assert f"tea {number} of {user}" in contents
            assert all(content.endswith(f" of {user}") for content in contents)
