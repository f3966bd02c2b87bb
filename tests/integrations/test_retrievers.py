"""Retrievers find what the run's user may see, wherever they are called from."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import ValidationError
from scripted_model import call

from langchain_agentmem import AgentMemory, ConversationRetriever, MemoryRetriever

USERS = ("ann", "bob")
Kind = type[MemoryRetriever] | type[ConversationRetriever]
KINDS: list[Kind] = [MemoryRetriever, ConversationRetriever]


def turn(user: str) -> RunnableConfig:
    return {"configurable": {"user_id": user, "thread_id": f"thread of {user}"}}


@pytest.fixture
def filled(memory: AgentMemory) -> AgentMemory:
    for user in USERS:
        memory.add_memory(f"{user} likes oat milk", type="persona", config=turn(user))
        memory.add_memory(f"{user} bought oats", scene_name="Kitchen", config=turn(user))
        memory.add_messages(
            "t1", [("user", f"oat milk for {user}"), ("assistant", "noted")], config=turn(user)
        )
    return memory


def test_a_document_is_the_record(filled: AgentMemory) -> None:
    (document,) = MemoryRetriever(memory=filled, type="persona").invoke("oat", turn("ann"))
    (hit,) = filled.search_memories("oat", type="persona", config=turn("ann")).results
    assert (document.id, document.page_content) == (hit.id, "ann likes oat milk")
    expected = hit.to_dict() | {"strategy": "hybrid"}
    assert document.metadata == {
        name: value for name, value in expected.items() if name not in ("id", "content")
    }
    json.dumps(document.metadata)


def test_filters_are_options_and_arguments(filled: AgentMemory) -> None:
    memories = MemoryRetriever(memory=filled, scene="kitchen")
    assert [d.page_content for d in memories.invoke("oats", turn("ann"))] == ["ann bought oats"]
    everything = MemoryRetriever(memory=filled)
    assert len(everything.invoke("oats", turn("ann"))) == 2
    assert len(everything.invoke("oats", turn("ann"), k=1)) == 1
    assert len(everything.invoke("oats", turn("ann"), type="persona")) == 1
    assert everything.invoke("oats", turn("ann"), before="2020-01-01") == []

    talk = ConversationRetriever(memory=filled, role="user", context=1)
    (document,) = talk.invoke("oat milk", turn("ann"))
    assert document.metadata["session_key"] == "t1"
    assert [each["content"] for each in document.metadata["after"]] == ["noted"]
    assert talk.invoke("oat milk", turn("ann"), exclude_session="t1") == []


@pytest.mark.parametrize(
    ("options", "named"), [({"k": 0}, "k"), ({"k": 101}, "k"), ({"sceen": "x"}, "sceen")]
)
def test_unusable_options_are_named(
    keyword_memory: AgentMemory, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValidationError, match=named):
        MemoryRetriever(memory=keyword_memory, **options)


@pytest.mark.parametrize("arguments", [{"k": 0}, {"k": True}, {"k": "3"}, {"limit": 3}, {"kk": 1}])
def test_unusable_arguments_are_named(
    keyword_memory: AgentMemory, arguments: dict[str, Any]
) -> None:
    with pytest.raises((ValueError, TypeError), match=next(iter(arguments))):
        MemoryRetriever(memory=keyword_memory).invoke("x", **arguments)


def texts(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


def alone(retriever: Any) -> Any:
    return retriever | texts


def in_a_chain(retriever: Any) -> Any:
    """As in a chain that answers from documents: the retriever is a branch of a branch."""
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    gather = {"context": retriever | texts, "question": RunnablePassthrough()}
    return RunnablePassthrough() | gather | prompt | (lambda prompt: prompt.to_string())


def in_a_function(retriever: Any) -> Any:
    """Called with no config, which the context of the run supplies."""

    async def acall(query: str) -> str:
        return texts(await retriever.ainvoke(query))

    return RunnableLambda(lambda query: texts(retriever.invoke(query)), afunc=acall)


class Asked(TypedDict, total=False):
    query: str
    found: str


def in_a_node(retriever: Any) -> Any:
    graph = StateGraph(Asked)

    def node(state: Asked) -> dict[str, Any]:
        return {"found": texts(retriever.invoke(state["query"]))}

    async def anode(state: Asked) -> dict[str, Any]:
        return {"found": texts(await retriever.ainvoke(state["query"]))}

    graph.add_node("retrieve", RunnableLambda(node, afunc=anode))
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", END)
    compiled: Any = graph.compile()
    ask: Any = RunnableLambda(lambda query: {"query": query})
    return ask | compiled | (lambda state: state["found"])


def as_a_tool(retriever: Any) -> Any:
    tool = create_retriever_tool(retriever, "remember", "Search what is remembered.")
    return RunnableLambda(lambda query: {"query": query}) | tool


def as_a_tool_of_a_graph(retriever: Any) -> Any:
    graph = StateGraph(MessagesState)
    tool = create_retriever_tool(retriever, "remember", "Search what is remembered.")
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)

    def request(query: str) -> dict[str, Any]:
        calls = [call("remember", query=query)]
        return {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]}

    last = RunnableLambda(lambda state: state["messages"][-1].content)
    compiled: Any = graph.compile()
    return RunnableLambda(request) | compiled | last


PLACES: list[Callable[[Any], Any]] = [
    alone,
    in_a_chain,
    in_a_function,
    in_a_node,
    as_a_tool,
    as_a_tool_of_a_graph,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
class TestScope:
    def test_each_user_finds_their_own(self, filled: AgentMemory, place: Any, kind: Any) -> None:
        chain = place(kind(memory=filled))
        found = chain.batch(["oat milk"] * 6, [turn(user) for user in USERS * 3])
        self.check(found)

    async def test_async(self, filled: AgentMemory, place: Any, kind: Any) -> None:
        chain = place(kind(memory=filled))
        runs = [chain.ainvoke("oat milk", turn(user)) for user in USERS * 3]
        self.check(await asyncio.gather(*runs))

    @staticmethod
    def check(found: list[str]) -> None:
        for user, text in zip(USERS * 3, found, strict=True):
            (other,) = set(USERS) - {user}
            assert user in text
            assert other not in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_without_ids_sees_nothing_where_scopes_are_required(kind: Any) -> None:
    with AgentMemory.in_memory(embedding="none", require_scope=True) as memory:
        memory.add_memory("oat milk", scope_id="ann")
        assert kind(memory=memory).invoke("oat milk") == []


def test_bound_arguments_and_a_config_of_its_own(filled: AgentMemory) -> None:
    retriever = MemoryRetriever(memory=filled).with_config(turn("bob")).bind(k=1)
    (document,) = retriever.invoke("oat milk")
    assert document.page_content == "bob likes oat milk"
