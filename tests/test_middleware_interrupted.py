"""What is kept of runs that are interrupted, broken off, failing or slow."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import exported
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from python_process import run_python
from scripted_model import ScriptedModel, call, repeat_the_system, say, system_text

from langchain_agentmem import AgentMemory
from langchain_agentmem.middleware import AgentMemoryMiddleware

TURN: Any = {"configurable": {"user_id": "ann", "thread_id": "t1"}}
MAIL = {"messages": [HumanMessage("Mail Bob about the roof")]}


@tool
def send_mail(text: str) -> str:
    """Send a mail."""
    return f"sent {text}"


@tool
def ask_first(text: str) -> str:
    """Ask the user before sending a mail."""
    return str(interrupt("May I?"))


def mails(messages: list[BaseMessage]) -> AIMessage:
    """Say so and send a mail, then be done."""
    if isinstance(messages[-1], HumanMessage):
        return AIMessage("I will mail him.", tool_calls=[call("send_mail", text="roof")])
    return AIMessage("Done.")


def asks_first(messages: list[BaseMessage]) -> AIMessage:
    if isinstance(messages[-1], HumanMessage):
        return AIMessage("I will mail him.", tool_calls=[call("ask_first", text="roof")])
    return AIMessage("Done.")


def kept(memory: AgentMemory) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in exported.lines(memory, only="conversations")]
    return [(each["role"], each["content"]) for each in lines]


BEFORE = [("user", "Mail Bob about the roof"), ("assistant", "I will mail him.")]
AFTER = [*BEFORE, ("assistant", "Done.")]
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})


def approving(memory: AgentMemory) -> tuple[Any, Any]:
    model, review = ScriptedModel(script=mails), HumanInTheLoopMiddleware({"send_mail": True})
    around = [review, AgentMemoryMiddleware(memory)]
    agent = create_agent(model, [send_mail], middleware=around, checkpointer=InMemorySaver())
    return agent, APPROVE


def asking(memory: AgentMemory) -> tuple[Any, Any]:
    agent = create_agent(
        ScriptedModel(script=asks_first),
        [ask_first],
        middleware=[AgentMemoryMiddleware(memory)],
        checkpointer=InMemorySaver(),
    )
    return agent, Command(resume="yes")


def pausing(memory: AgentMemory) -> tuple[Any, Any]:
    agent = create_agent(
        ScriptedModel(script=mails),
        [send_mail],
        middleware=[AgentMemoryMiddleware(memory)],
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    return agent, None


async def run(agent: Any, how: str, given: Any, config: Any) -> None:
    """Invoke an agent in one of both ways."""
    if how == "sync":
        agent.invoke(given, config)
    else:
        await agent.ainvoke(given, config)


@pytest.mark.parametrize("build", [approving, asking, pausing])
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_what_was_said_before_an_interrupt_is_kept_and_the_rest_after_it(
    keyword_memory: AgentMemory, build: Any, how: str
) -> None:
    agent, resume = build(keyword_memory)

    await run(agent, how, MAIL, TURN)
    assert kept(keyword_memory) == BEFORE
    await run(agent, how, resume, TURN)
    assert kept(keyword_memory) == AFTER


@pytest.mark.parametrize("build", [approving, asking, pausing])
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_turn_that_another_user_resumes_stays_the_first_users(
    keyword_memory: AgentMemory, build: Any, how: str
) -> None:
    """Who approves a step has not said what led to it; what follows is kept for them."""
    agent, resume = build(keyword_memory)
    bob: Any = {"configurable": {"user_id": "bob", "thread_id": "t1"}}
    for given, config in ((MAIL, TURN), (resume, bob)):
        await run(agent, how, given, config)

    lines = [json.loads(line) for line in exported.lines(keyword_memory)]
    assert [(each["scope_id"], each["role"], each["content"]) for each in lines] == [
        *(("ann", role, text) for role, text in BEFORE),
        ("bob", "assistant", "Done."),
    ]


def test_a_review_that_comes_first_leaves_the_user_message_and_the_rest_comes_later(
    keyword_memory: AgentMemory,
) -> None:
    """`after_model` runs from the last middleware to the first: here the review is before."""
    around = [AgentMemoryMiddleware(keyword_memory), HumanInTheLoopMiddleware({"send_mail": True})]
    agent: Any = create_agent(
        ScriptedModel(script=mails), [send_mail], middleware=around, checkpointer=InMemorySaver()
    )
    agent.invoke(MAIL, TURN)
    assert kept(keyword_memory) == BEFORE[:1]
    agent.invoke(APPROVE, TURN)
    assert kept(keyword_memory) == AFTER


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_a_model_that_fails_leaves_what_was_said(
    keyword_memory: AgentMemory, how: str
) -> None:
    def script(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], HumanMessage):
            return mails(messages)
        msg = "the service is down"
        raise RuntimeError(msg)

    agent: Any = create_agent(
        ScriptedModel(script=script),
        [send_mail],
        middleware=[AgentMemoryMiddleware(keyword_memory)],
    )
    run: Any = agent.ainvoke if how == "ainvoke" else partial(asyncio.to_thread, agent.invoke)
    with pytest.raises(RuntimeError, match="the service is down"):
        await run(MAIL, TURN)
    assert kept(keyword_memory) == BEFORE


@pytest.mark.parametrize("how", ["stream", "astream"])
async def test_a_stream_that_its_reader_breaks_off(keyword_memory: AgentMemory, how: str) -> None:
    """What the state has is kept; an answer that was cut off is in no state."""
    saver = InMemorySaver()
    model = ScriptedModel(script=say("A long answer of many words"))
    agent: Any = create_agent(
        model, middleware=[AgentMemoryMiddleware(keyword_memory)], checkpointer=saver
    )
    if how == "stream":
        with closing(agent.stream(MAIL, TURN, stream_mode="messages")) as chunks:
            assert next(chunks)[0].content
    else:
        chunks = agent.astream(MAIL, TURN, stream_mode="messages")
        assert (await anext(chunks))[0].content
        await chunks.aclose()
    assert kept(keyword_memory)[:1] == BEFORE[:1]

    agent.invoke({"messages": [HumanMessage("Go on with the roof")]}, TURN)
    roles = [role for role, _ in kept(keyword_memory)]
    assert roles[0] == "user"
    assert kept(keyword_memory)[-2:] == [
        ("user", "Go on with the roof"),
        ("assistant", "A long answer of many words"),
    ]


async def test_a_cancelled_run_leaves_the_user_message(keyword_memory: AgentMemory) -> None:
    called, release = threading.Event(), threading.Event()

    def script(_: list[BaseMessage]) -> AIMessage:
        called.set()
        release.wait(60)
        return AIMessage("Too late.")

    agent: Any = create_agent(
        ScriptedModel(script=script), middleware=[AgentMemoryMiddleware(keyword_memory)]
    )
    task = asyncio.create_task(agent.ainvoke(MAIL, TURN))
    await asyncio.to_thread(called.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert kept(keyword_memory) == BEFORE[:1]


class Hanging(Embeddings):
    """A model that answers when it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.released.wait(60)
        return [[1.0, 0.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[tuple[AgentMemory, Hanging]]:
    embeddings = Hanging()
    with AgentMemory.open(tmp_path / "hanging", embedding=embeddings) as memory:
        yield memory, embeddings
        embeddings.released.set()


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_a_memory_that_hangs_is_done_without(
    hanging: tuple[AgentMemory, Hanging], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The run ends while the model of the vectors is still waited for; nothing is lost."""
    memory, embeddings = hanging
    embeddings.released.set()
    memory.add_memory("Prefers green tea", config=TURN)
    embeddings.released.clear()
    model = ScriptedModel(script=repeat_the_system)
    remembers = AgentMemoryMiddleware(memory, timeout=0.2)
    agent: Any = create_agent(model, middleware=[remembers], checkpointer=InMemorySaver())
    given = {"messages": [HumanMessage("Which tea?")]}
    state = agent.invoke(given, TURN) if how == "invoke" else await agent.ainvoke(given, TURN)

    assert not embeddings.released.is_set()
    assert state["messages"][-1].text == "I know: "
    assert "recall took longer than 0.2 s" in caplog.text
    # Its vector waits, the message does not.
    assert ("user", "Which tea?") in kept(memory)


def test_a_hanging_memory_does_not_keep_the_program_from_ending(tmp_path: Path) -> None:
    script = """
import sys, threading
from langchain.agents import create_agent
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage
from scripted_model import ScriptedModel, say
from langchain_agentmem import AgentMemory
from langchain_agentmem.middleware import AgentMemoryMiddleware

class Hanging(Embeddings):
    def embed_documents(self, texts):
        threading.Event().wait()
    embed_query = embed_documents

memory = AgentMemory.open(sys.argv[1], embedding=Hanging())
remembers = AgentMemoryMiddleware(memory, timeout=0.2)
agent = create_agent(ScriptedModel(script=say("Fine.")), middleware=[remembers])
print(agent.invoke({"messages": [HumanMessage("Which tea?")]})["messages"][-1].text)
"""
    done = run_python(script, tmp_path / "m")
    assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        assert ("user", "Which tea?") in kept(memory)


def test_the_block_of_a_resumed_run_is_there_again(memory: AgentMemory) -> None:
    """In another process it is searched anew: nothing of it is in the checkpoint."""
    memory.add_memory("The roof is Bob's", config=TURN)
    saver = InMemorySaver()
    for given in (MAIL, None):
        model = ScriptedModel(script=mails)
        agent: Any = create_agent(
            model,
            [send_mail],
            middleware=[AgentMemoryMiddleware(memory)],
            checkpointer=saver,
            interrupt_before=["tools"],
        )
        agent.invoke(given, TURN)
        assert [system_text(seen).count("The roof is Bob's") for seen in model.seen] == [1]
