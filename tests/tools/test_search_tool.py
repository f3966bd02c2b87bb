"""What both search tools promise: arguments, artifacts, failures, and who sees what."""

import asyncio
import copy
import json
import logging
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import Embeddings
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId
from langchain_core.utils.function_calling import convert_to_openai_tool
from output_parser import Kind, parse
from pydantic import ValidationError
from servers.openai_embeddings import EmbeddingServer, Fault

from langchain_agentmem import (
    AgentMemory,
    AgentMemoryToolkit,
    ConversationSearchTool,
    EmbeddingSettings,
    Memory,
    MemorySearchTool,
)
from langchain_agentmem.tools.memory_search import MemorySearchInput
from langchain_agentmem.tools.memory_tool import Answer

KINDS: dict[str, Kind] = {"memory_search": "memories", "conversation_search": "messages"}
TOOLS = pytest.mark.parametrize("name", KINDS)


def tool_of(memory: AgentMemory, name: str) -> BaseTool:
    return {tool.name: tool for tool in AgentMemoryToolkit(memory=memory).get_tools()}[name]


def call(tool: BaseTool, config: Any = None, /, **arguments: Any) -> ToolMessage:
    """Call a tool as an agent does."""
    request = {"type": "tool_call", "id": "call-1", "name": tool.name, "args": arguments}
    answer = tool.invoke(request, config)
    assert isinstance(answer, ToolMessage)
    return answer


def fill(memory: AgentMemory, count: int = 1, config: Any = None) -> None:
    """Save `count` memories and messages that match "harbour"."""
    known = [Memory(content=f"harbour fact {number}") for number in range(count)]
    memory.add_memories(known, config=config)
    said = [("user", f"harbour message {number}") for number in range(count)]
    memory.add_messages("thread-1", said, config=config)


def user(user_id: Any) -> RunnableConfig:
    return {"configurable": {"user_id": user_id}}


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    """A memory with 25 matches of each kind, which no test changes."""
    with AgentMemory.open(tmp_path_factory.mktemp("harbour"), embedding="none") as memory:
        fill(memory, 25)
        yield memory


class TestSchema:
    """What a model is told."""

    @TOOLS
    def test_nothing_that_is_injected_is_shown(
        self, keyword_memory: AgentMemory, name: str
    ) -> None:
        function = convert_to_openai_tool(tool_of(keyword_memory, name))["function"]
        assert function["name"] == name
        hidden = {"config", "run_manager", "memory", "user_id", "min_similarity", "runtime"}
        assert not hidden & set(function["parameters"]["properties"])
        assert function["parameters"]["required"] == ["query"]

    @TOOLS
    def test_limit_is_an_integer_of_1_to_20_and_5_by_default(
        self, keyword_memory: AgentMemory, name: str
    ) -> None:
        function = convert_to_openai_tool(tool_of(keyword_memory, name))["function"]
        limit = function["parameters"]["properties"]["limit"]
        assert {key: limit.get(key) for key in ("type", "default", "minimum", "maximum")} == {
            "type": "integer",
            "default": 5,
            "minimum": 1,
            "maximum": 20,
        }

    @TOOLS
    def test_every_argument_is_described(self, keyword_memory: AgentMemory, name: str) -> None:
        tool = tool_of(keyword_memory, name)
        function = convert_to_openai_tool(tool)["function"]
        assert function["description"] == tool.description
        for argument in function["parameters"]["properties"].values():
            assert argument["description"].endswith(".")

    @TOOLS
    def test_only_keywords_of_json_schema_are_used(
        self, keyword_memory: AgentMemory, name: str
    ) -> None:
        """Strict services refuse a schema with others."""
        known = {"type", "description", "default", "minimum", "maximum", "anyOf", "title"}
        function = convert_to_openai_tool(tool_of(keyword_memory, name))["function"]
        for argument in function["parameters"]["properties"].values():
            assert set(argument) <= known

    @TOOLS
    def test_the_other_tool_is_named_as_it_is_called(
        self, keyword_memory: AgentMemory, name: str
    ) -> None:
        other = next(each for each in KINDS if each != name)
        assert other in tool_of(keyword_memory, name).description


LIMITS: list[tuple[Any, int]] = [
    (1, 1),
    (5, 5),
    (20, 20),
    (0, 1),
    (-1, 1),
    (-3, 1),
    (21, 20),
    (99, 20),
    (10**400, 20),
    (-(10**400), 1),
    (2.7, 2),
    (0.5, 1),
    (1e9, 20),
    (math.inf, 20),
    (-math.inf, 1),
    (math.nan, 5),
    ("10", 10),
    (" 7 ", 7),
    ("2.7", 2),
    ("1e3", 20),
    ("-1", 1),
    ("9" * 5000, 20),
    ("nan", 5),
    ("many", 5),
    ("", 5),
    (None, 5),
    (True, 5),
    (False, 5),
    ([], 5),
    ([10], 5),
    ({"value": 10}, 5),
]


class TestLimit:
    """Case 15: whatever a model sends is a number of results."""

    @pytest.mark.parametrize(("sent", "found"), LIMITS, ids=lambda value: repr(value)[:20])
    @TOOLS
    def test_by_a_dict(self, harbour: AgentMemory, name: str, sent: Any, found: int) -> None:
        output = tool_of(harbour, name).invoke({"query": "harbour", "limit": sent})
        assert parse(KINDS[name], output).count == found

    @pytest.mark.parametrize(("sent", "found"), LIMITS, ids=lambda value: repr(value)[:20])
    @TOOLS
    def test_by_a_tool_call(self, harbour: AgentMemory, name: str, sent: Any, found: int) -> None:
        answer = call(tool_of(harbour, name), query="harbour", limit=sent)
        assert answer.status == "success"
        assert answer.artifact["total"] == found

    @TOOLS
    def test_left_out(self, harbour: AgentMemory, name: str) -> None:
        assert call(tool_of(harbour, name), query="harbour").artifact["total"] == 5

    @TOOLS
    def test_a_text_alone(self, harbour: AgentMemory, name: str) -> None:
        assert parse(KINDS[name], tool_of(harbour, name).invoke("harbour")).count == 5


class TestQuery:
    @pytest.mark.parametrize("query", ["", "   ", "\n\t", None])
    @TOOLS
    def test_a_blank_one_finds_nothing_and_says_so(
        self, harbour: AgentMemory, name: str, query: Any
    ) -> None:
        answer = call(tool_of(harbour, name), query=query)
        assert answer.status == "success"
        assert answer.artifact["strategy"] == "none"
        output = parse(KINDS[name], str(answer.content))
        assert (output.count, output.notes) == (0, ["the query is blank"])

    @pytest.mark.parametrize("query", [41252, 41252.0])
    @TOOLS
    def test_a_number_is_searched_as_its_text(
        self, keyword_memory: AgentMemory, name: str, query: float
    ) -> None:
        keyword_memory.add_memory(f"the ticket is {query}")
        keyword_memory.add_messages("thread-1", [("user", f"the ticket is {query}")])
        assert call(tool_of(keyword_memory, name), query=query).artifact["total"] == 1

    @pytest.mark.parametrize("arguments", [{}, {"query": ["harbour"]}, {"query": {"q": "x"}}])
    @TOOLS
    def test_an_unusable_one_is_named(
        self, harbour: AgentMemory, name: str, arguments: dict[str, Any]
    ) -> None:
        answer = call(tool_of(harbour, name), **arguments)
        assert answer.status == "error"
        assert str(answer.content).startswith("Unusable arguments: query: ")

    @TOOLS
    def test_arguments_that_do_not_exist_are_ignored(self, harbour: AgentMemory, name: str) -> None:
        answer = call(tool_of(harbour, name), query="harbour", offset=3, filter={"a": 1})
        assert answer.artifact["total"] == 5

    @pytest.mark.parametrize(
        "query", ["don't", "foo AND", "tags:ui", "NEAR/3", "*", "(", "🦀", "a\x00b", "\ud800", "口"]
    )
    @TOOLS
    def test_any_text_can_be_asked(self, harbour: AgentMemory, name: str, query: str) -> None:
        assert call(tool_of(harbour, name), query=query).status == "success"


class TestArtifact:
    @TOOLS
    def test_it_is_the_search_result_as_json_data(self, memory: AgentMemory, name: str) -> None:
        fill(memory, 2)
        answer = call(tool_of(memory, name), query="harbour")
        search = memory.search_memories if name == "memory_search" else memory.search_conversations
        assert json.loads(json.dumps(answer.artifact, allow_nan=False)) == answer.artifact
        assert answer.artifact == search("harbour").to_dict()
        assert answer.artifact["strategy"] == "hybrid"

    @TOOLS
    def test_content_and_artifact_tell_the_same(self, memory: AgentMemory, name: str) -> None:
        fill(memory, 3)
        answer = call(tool_of(memory, name), query="harbour", limit=2)
        output = parse(KINDS[name], str(answer.content))
        found = answer.artifact["results"]
        assert [entry.content for entry in output.entries] == [hit["content"] for hit in found]
        assert [entry.score for entry in output.entries] == [f"{hit['score']:.3f}" for hit in found]
        assert (output.count, output.strategy) == (answer.artifact["total"], "hybrid")

    @TOOLS
    def test_a_record_is_there_whole(self, keyword_memory: AgentMemory, name: str) -> None:
        content = "harbour " + "x" * 10_000
        keyword_memory.add_memory(content, metadata={"a": [1, None, {"b": "</c>"}]})
        keyword_memory.add_messages("thread-1", [("user", content)])
        answer = call(tool_of(keyword_memory, name), query="harbour")
        assert answer.artifact["results"][0]["content"] == content
        assert "[... cut: 2000 of 10008 characters shown]" in str(answer.content)

    @TOOLS
    def test_a_dict_gives_the_text_alone(self, harbour: AgentMemory, name: str) -> None:
        tool = tool_of(harbour, name)
        text = tool.invoke({"query": "harbour"})
        assert text == tool.invoke("harbour") == call(tool, query="harbour").content

    @TOOLS
    async def test_async_gives_the_same(self, memory: AgentMemory, name: str) -> None:
        fill(memory, 3)
        tool = tool_of(memory, name)
        request = {"type": "tool_call", "id": "call-1", "name": name, "args": {"query": "harbour"}}
        answer = await tool.ainvoke(request)
        assert answer == call(tool, query="harbour")
        assert await tool.ainvoke("harbour") == answer.content


class TestNothingFound:
    """Case 33: an empty store and a store without a match are told apart."""

    @TOOLS
    def test_an_empty_store(self, keyword_memory: AgentMemory, name: str) -> None:
        output = parse(KINDS[name], tool_of(keyword_memory, name).invoke("harbour"))
        assert output.message == (
            f"There are no {KINDS[name]} yet: nothing has been saved that could be found."
        )

    @TOOLS
    def test_no_match(self, harbour: AgentMemory, name: str) -> None:
        output = parse(KINDS[name], tool_of(harbour, name).invoke("zeppelin"))
        assert (output.message, output.count, output.notes) == (None, 0, [])


class TestFailures:
    """An agent's run never dies of a search."""

    @TOOLS
    async def test_a_closed_memory(self, keyword_memory: AgentMemory, name: str) -> None:
        fill(keyword_memory)
        tool = tool_of(keyword_memory, name)
        keyword_memory.close()
        answer = call(tool, query="harbour")
        assert answer.status == "error"
        assert answer.artifact is None
        assert str(answer.content).startswith(f"{name} failed: ")
        assert "is closed" in str(answer.content)
        request = {"type": "tool_call", "id": "call-1", "name": name, "args": {"query": "harbour"}}
        assert await tool.ainvoke(request) == answer

    @TOOLS
    def test_a_closed_hybrid_memory(self, memory: AgentMemory, name: str) -> None:
        fill(memory)
        tool = tool_of(memory, name)
        memory.close()
        assert call(tool, query="harbour").status == "error"

    @TOOLS
    def test_a_database_without_its_tables(
        self,
        tmp_path: Path,
        keyword_memory: AgentMemory,
        name: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        fill(keyword_memory)
        tool = tool_of(keyword_memory, name)
        with sqlite3.connect(keyword_memory.status().location) as connection:
            connection.execute(f"DROP TABLE {KINDS[name]}")
        with caplog.at_level(logging.CRITICAL):
            answer = call(tool, query="harbour")
        assert answer.status == "error"
        assert str(answer.content).startswith(f"{name} failed: ")
        assert "\n" not in str(answer.content)

    @TOOLS
    def test_a_dict_gives_the_failure_as_text(self, keyword_memory: AgentMemory, name: str) -> None:
        fill(keyword_memory)
        tool = tool_of(keyword_memory, name)
        keyword_memory.close()
        assert tool.invoke({"query": "harbour"}).startswith(f"{name} failed: ")

    @TOOLS
    async def test_an_embedding_service_that_fails_leaves_the_keywords(
        self,
        tmp_path: Path,
        server: EmbeddingServer,
        service_settings: EmbeddingSettings,
        name: str,
    ) -> None:
        """Case 16."""
        with AgentMemory.open(tmp_path, embedding=service_settings) as memory:
            fill(memory)
            server.fault = Fault(status=500)
            answer = call(tool_of(memory, name), query="harbour")
            again = parse(KINDS[name], await tool_of(memory, name).ainvoke("harbour"))
        assert answer.status == "success"
        output = parse(KINDS[name], str(answer.content))
        assert (output.count, output.strategy) == (1, "fts")
        (note,) = output.notes
        assert note.startswith("answered by keywords alone: the embedding model wordllama failed: ")
        assert again == output

    @TOOLS
    def test_a_service_that_answers_a_web_page_does_not_flood_the_answer(
        self, tmp_path: Path, name: str
    ) -> None:
        """As gateways do; clients put the page into their error."""

        class BehindAGateway(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [[1.0, 0.0] for _ in texts]

            def embed_query(self, text: str) -> list[float]:
                page = f"<html><body>{'Bad gateway. ' * 10_000}</body></html>"
                raise RuntimeError(page)

        with AgentMemory.open(tmp_path, embedding=BehindAGateway()) as memory:
            fill(memory)
            output = parse(KINDS[name], tool_of(memory, name).invoke("harbour"))
        (note,) = output.notes
        assert "RuntimeError" in note
        assert "Bad gateway" not in note  # a page may repeat what it was sent
        assert len(note) < 2000

    @pytest.mark.parametrize("user_id", [True, 1.5, ["ann"], {"id": "ann"}])
    @TOOLS
    def test_an_unusable_id_in_the_config(
        self, harbour: AgentMemory, name: str, user_id: Any
    ) -> None:
        answer = call(tool_of(harbour, name), user(user_id), query="harbour")
        assert answer.status == "error"
        assert 'config["configurable"]["user_id"] must be text' in str(answer.content)


class TestWhoSeesWhat:
    @TOOLS
    def test_a_user_sees_their_own(self, memory: AgentMemory, name: str) -> None:
        fill(memory, 1, user("ann"))
        tool = tool_of(memory, name)
        assert call(tool, user("ann"), query="harbour").artifact["total"] == 1
        assert call(tool, user("bob"), query="harbour").artifact["total"] == 0

    @TOOLS
    def test_what_both_said_is_found_once_by_each(self, memory: AgentMemory, name: str) -> None:
        fill(memory, 1, user("ann"))
        fill(memory, 1, user("bob"))
        for user_id in ("ann", "bob"):
            answer = call(tool_of(memory, name), user(user_id), query="harbour")
            assert [hit["scope_id"] for hit in answer.artifact["results"]] == [user_id]

    @pytest.mark.parametrize(
        "spoof",
        [
            {"user_id": "ann"},
            {"scope_id": "ann", "scope": "user"},
            {"config": user("ann")},
            {"configurable": {"user_id": "ann"}},
            {"run_manager": None, "memory": None},
        ],
        ids=lambda spoof: next(iter(spoof)),
    )
    @TOOLS
    async def test_ids_among_the_arguments_are_ignored(
        self, memory: AgentMemory, name: str, spoof: dict[str, Any]
    ) -> None:
        fill(memory, 1, user("ann"))
        tool = tool_of(memory, name)
        assert call(tool, user("bob"), query="harbour", **spoof).artifact["total"] == 0
        request = {"query": "harbour", **spoof}
        assert parse(KINDS[name], tool.invoke(request, user("bob"))).count == 0
        assert parse(KINDS[name], await tool.ainvoke(request, user("bob"))).count == 0

    @pytest.mark.parametrize("user_id", ["a.b@c.com", "a/b", "口令", "a' OR 1=1 --", "*", 17])
    @TOOLS
    def test_any_id_works(self, keyword_memory: AgentMemory, name: str, user_id: Any) -> None:
        """Case 36."""
        fill(keyword_memory, 1, user(user_id))
        tool = tool_of(keyword_memory, name)
        assert call(tool, user(user_id), query="harbour").artifact["total"] == 1
        assert call(tool, user("somebody"), query="harbour").artifact["total"] == 0

    @TOOLS
    async def test_one_tool_serves_many_users_at_once(self, memory: AgentMemory, name: str) -> None:
        users = [f"user-{number}" for number in range(8)]
        for user_id in users:
            fill(memory, 2, user(user_id))
        tool = tool_of(memory, name)
        request = {"type": "tool_call", "id": "call-1", "name": name, "args": {"query": "harbour"}}
        answers = await asyncio.gather(
            *(tool.ainvoke(request, user(user_id)) for user_id in users * 5)
        )
        for user_id, answer in zip(users * 5, answers, strict=True):
            owners = [hit["scope_id"] for hit in answer.artifact["results"]]
            assert owners == [user_id, user_id]


class Same(MemorySearchInput):
    """The same arguments by another class, which LangChain itself reads."""


class Injected(MemorySearchInput):
    """One more argument, which the run injects."""

    call_id: Annotated[str, InjectedToolCallId] = ""


class EchoTool(MemorySearchTool):
    """Answers what it was called with."""

    def _run(self, query: str, limit: int = 0, *, config: RunnableConfig, **filters: Any) -> Answer:
        del config
        return Answer(json.dumps({"query": query, "limit": limit, **filters}), {})


class EchoWithTenant(MemorySearchTool):
    """Answers what it was called with, one argument of which no model sends."""

    def _run(  # type: ignore[override]
        self, query: str, *, tenant: Annotated[str, InjectedToolArg], **rest: Any
    ) -> Answer:
        return Answer(json.dumps([query, tenant, sorted(rest)]), {})


class Inputs(BaseCallbackHandler):
    """Keeps what callbacks are told of the arguments."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self.seen: list[Any] = []

    def on_tool_start(
        self, serialized: dict[str, Any], input_str: str, *, inputs: Any = None, **kwargs: Any
    ) -> None:
        """Keep them."""
        del serialized, kwargs
        self.seen.append((input_str, inputs))


def outcome(tool: BaseTool, arguments: dict[str, Any] | str) -> tuple[Any, ...]:
    """Return what a tool answers to arguments, sent in all ways, and what callbacks see."""
    inputs = Inputs()
    requests: list[Any] = [arguments]
    if isinstance(arguments, dict):
        requests.append({"type": "tool_call", "id": "call-1", "name": "x", "args": arguments})
    answers: list[Any] = []
    for request in requests:
        sent = copy.deepcopy(request)
        try:
            answer = tool.invoke(sent, {"callbacks": [inputs]})
        except TypeError as error:
            answer = repr(error)
        answers.append(getattr(answer, "content", answer))
        assert sent == request
    return answers, inputs.seen


class TestArguments:
    """What is read faster than LangChain does it is read as LangChain does it."""

    @pytest.mark.parametrize("tool", [EchoTool, EchoWithTenant])
    @pytest.mark.parametrize(
        "arguments",
        [
            "tea",
            {"query": "tea"},
            {"query": 7, "limit": "12", "type": "persona", "scene": "null", "after": None},
            {"query": "tea", "limit": 99, "before": "2026-05-08", "unknown": {"a": [1]}},
            {"query": "tea", "run_manager": 1, "callbacks": [], "config": {}, "self": 2},
            {"query": "tea", "args": [1], "kwargs": {"limit": 2}, "tenant": "t", "type": "x"},
            {"query": "tea", "tenant": "t"},
            {"query": None, "scene": ""},
            {"query": ["tea"]},
            {"limit": 3},
            {},
        ],
        ids=str,
    )
    def test_they_are_read_as_by_langchain(
        self, keyword_memory: AgentMemory, tool: Any, arguments: Any
    ) -> None:
        by_langchain = tool(memory=keyword_memory, args_schema=Same)
        assert outcome(tool(memory=keyword_memory), arguments) == outcome(by_langchain, arguments)

    def test_a_schema_of_ones_own_may_inject(self, keyword_memory: AgentMemory) -> None:
        tool = EchoTool(memory=keyword_memory, args_schema=Injected)
        inputs = Inputs()
        answer = call(tool, {"callbacks": [inputs]}, query="tea")
        assert json.loads(str(answer.content))["call_id"] == "call-1"
        assert inputs.seen == [("{'query': 'tea'}", {"query": "tea"})]
        assert "call_id" not in convert_to_openai_tool(tool)["function"]["parameters"]["properties"]

    def test_a_schema_can_be_replaced_later(self, keyword_memory: AgentMemory) -> None:
        tool = EchoTool(memory=keyword_memory)
        assert "call_id" not in str(call(tool, query="tea").content)
        tool.args_schema = Injected
        assert json.loads(str(call(tool, query="tea").content))["call_id"] == "call-1"


class TestConstructor:
    @pytest.mark.parametrize("tool", [MemorySearchTool, ConversationSearchTool])
    def test_a_typo_is_refused(self, tool: Any, keyword_memory: AgentMemory) -> None:
        with pytest.raises(ValidationError, match="min_similarty"):
            tool(memory=keyword_memory, min_similarty=0.3)

    @pytest.mark.parametrize("tool", [MemorySearchTool, ConversationSearchTool])
    def test_a_memory_is_needed(self, tool: Any) -> None:
        with pytest.raises(ValidationError, match="memory"):
            tool()
        with pytest.raises(ValidationError, match="memory"):
            tool(memory="agent-memory")

    @pytest.mark.parametrize("minimum", [-1.1, 2, "high"])
    @pytest.mark.parametrize("tool", [MemorySearchTool, ConversationSearchTool])
    def test_min_similarity_is_a_cosine(
        self, tool: Any, keyword_memory: AgentMemory, minimum: Any
    ) -> None:
        with pytest.raises(ValidationError, match="min_similarity"):
            tool(memory=keyword_memory, min_similarity=minimum)

    @pytest.mark.parametrize("tool", [MemorySearchTool, ConversationSearchTool])
    def test_name_and_description_can_be_changed(
        self, tool: Any, keyword_memory: AgentMemory
    ) -> None:
        changed = tool(memory=keyword_memory, name="recall", description="Recall things.")
        keyword_memory.close()
        assert changed.description == "Recall things."
        assert str(call(changed, query="x").content).startswith("recall failed: ")

    @TOOLS
    def test_the_memory_is_not_part_of_a_dump(self, keyword_memory: AgentMemory, name: str) -> None:
        tool = tool_of(keyword_memory, name)
        assert "memory" not in tool.model_dump()
        assert "AgentMemory" not in repr(tool)

    @TOOLS
    def test_min_similarity_drops_what_is_unlike_the_query(
        self, memory: AgentMemory, name: str
    ) -> None:
        """Case 22."""
        fill(memory, 3)
        tools = AgentMemoryToolkit(memory=memory, min_similarity=0.99).get_tools()
        tool = next(tool for tool in tools if tool.name == name)
        output = parse(KINDS[name], tool.invoke("harbour zeppelin"))
        assert (output.message, output.count, output.notes) == (None, 0, [])
