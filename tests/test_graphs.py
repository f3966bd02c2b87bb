"""The recipes: a plain `StateGraph` that remembers, and an agent that searches at most three times.

They are the README's, with a scripted model.
"""

from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallLimitMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.channels import UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from scripted_model import ScriptedModel, call, search_then_repeat, system_text

from langchain_agentmem import AgentMemory, AgentMemoryToolkit, Capture, Recall
from langchain_agentmem.middleware import AgentMemoryMiddleware


def turn(user: str, thread: str) -> RunnableConfig:
    return {"configurable": {"user_id": user, "thread_id": thread}}


class State(MessagesState):
    recalled: Annotated[str, UntrackedValue]


def graph_of(memory: AgentMemory, model: ScriptedModel, saver: Any) -> Any:
    """A plain graph: recall, model and tools in turns, capture."""
    tools = AgentMemoryToolkit(memory=memory, past_only=True).get_tools()
    recall, capture = Recall(memory), Capture(memory)

    def recall_node(state: State, config: RunnableConfig) -> dict[str, Any]:
        return {"recalled": recall.block(state["messages"], config)}

    async def arecall_node(state: State, config: RunnableConfig) -> dict[str, Any]:
        return {"recalled": await recall.ablock(state["messages"], config)}

    def model_node(state: State) -> dict[str, Any]:
        system = SystemMessage(f"Be brief.\n\n{state.get('recalled', '')}")
        return {"messages": [model.invoke([system, *state["messages"]])]}

    def capture_node(state: State, config: RunnableConfig) -> None:
        capture.save(state["messages"], config)

    async def acapture_node(state: State, config: RunnableConfig) -> None:
        await capture.asave(state["messages"], config)

    builder = StateGraph(State)
    builder.add_node("recall", RunnableLambda(recall_node, afunc=arecall_node))
    builder.add_node("model", model_node)
    builder.add_node("tools", ToolNode(tools))
    builder.add_node("capture", RunnableLambda(capture_node, afunc=acapture_node))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: "capture"})
    builder.add_edge("tools", "model")
    builder.add_edge("capture", END)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_a_plain_graph_recalls_searches_and_captures(memory: AgentMemory, how: str) -> None:
    saver = InMemorySaver()
    model = ScriptedModel(script=search_then_repeat("conversation_search"))
    graph = graph_of(memory, model, saver)

    async def ask(text: str, config: RunnableConfig) -> str:
        given = {"messages": [HumanMessage(text)]}
        state = (
            graph.invoke(given, config) if how == "invoke" else await graph.ainvoke(given, config)
        )
        return str(state["messages"][-1].text)

    await ask("My dog is called Rex", turn("ann", "t1"))
    answer = await ask("What is my dog called?", turn("ann", "t2"))
    other = await ask("What is my dog called?", turn("bob", "t3"))

    assert "My dog is called Rex" in answer
    assert "Rex" not in other
    first, second = model.seen[2:4]
    assert '"My dog is called Rex"' in system_text(first)
    assert system_text(first) == system_text(second)
    assert "<memories>" not in str(list(saver.list(None)))
    found = memory.search_conversations("dog", 20, config=turn("ann", "t2")).results
    assert sorted(hit.content for hit in found if hit.role == "user") == [
        "My dog is called Rex",
        "What is my dog called?",
    ]


def greedy(messages: list[BaseMessage]) -> AIMessage:
    """Search two at a time, until it is told that it may not."""
    asked = max(i for i, each in enumerate(messages) if isinstance(each, HumanMessage))
    answers = [each for each in messages[asked:] if isinstance(each, ToolMessage)]
    if any(each.status == "error" for each in answers):
        done = sum(each.status == "success" for each in answers)
        return AIMessage(f"After {done} searches: Rex.")
    number = len(messages)
    return AIMessage(
        "",
        tool_calls=[
            call("memory_search", number, query="dog"),
            call("conversation_search", number, query="dog"),
        ],
    )


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_at_most_three_searches_per_turn(memory: AgentMemory, how: str) -> None:
    agent: Any = create_agent(
        ScriptedModel(script=greedy),
        middleware=[
            AgentMemoryMiddleware(memory, tools=True),
            ToolCallLimitMiddleware(run_limit=3),
        ],
        checkpointer=InMemorySaver(),
    )
    for number in range(2):  # the limit is a turn's, not a thread's
        given = {"messages": [HumanMessage(f"Dog {number}?")]}
        config = turn("ann", "t1")
        run = agent.invoke(given, config) if how == "invoke" else await agent.ainvoke(given, config)
        assert run["messages"][-1].text == "After 3 searches: Rex."
