"""`conversation_search`: sessions and times, as a model gives them."""

import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from output_parser import MessageEntry, Output, parse

from langchain_agentmem import AgentMemory, ConversationSearchTool, Message


@pytest.fixture
def tool(keyword_memory: AgentMemory) -> ConversationSearchTool:
    return ConversationSearchTool(memory=keyword_memory)


def search(tool: ConversationSearchTool, **arguments: Any) -> Output:
    return parse("messages", tool.invoke({"query": "roof", **arguments}))


def found(tool: ConversationSearchTool, **arguments: Any) -> list[MessageEntry]:
    output = search(tool, **arguments)
    assert output.message is None
    return [entry for entry in output.entries if isinstance(entry, MessageEntry)]


def test_a_model_sees_query_limit_and_filters(tool: ConversationSearchTool) -> None:
    function = convert_to_openai_tool(tool)["function"]
    assert function["name"] == "conversation_search"
    assert list(function["parameters"]["properties"]) == [
        "query",
        "limit",
        "after",
        "before",
        "session_key",
        "role",
    ]


def test_an_answer_in_full(tool: ConversationSearchTool) -> None:
    said = "The roof leaks.\n\nSince Monday."
    tool.memory.add_messages(
        None,
        [Message(session_key="house", role="user", content=said, recorded_at="2026-05-08T13:56Z")],
    )
    (entry,) = found(tool)
    assert (entry.role, entry.session_key) == ("user", "house")
    assert (entry.recorded_at, entry.content) == ("2026-05-08T13:56:00Z", said)


def test_what_was_said_is_found_and_nothing_else(tool: ConversationSearchTool) -> None:
    """Case 31."""
    tool.memory.add_messages(
        "house",
        [
            SystemMessage("You talk about the roof."),
            HumanMessage("Is the roof mended?"),
            ToolMessage('{"roof": "leaks"}', tool_call_id="1"),
            AIMessage("The roof still leaks."),
        ],
    )
    assert {entry.role for entry in found(tool)} == {"user", "assistant"}


SESSION_KEYS = [
    "thread-1",
    "slack:C024BE91L/1700000000.123456",
    "6f1d3b0e-7f6a-4c5b-9a51-6a5b9d2e8a11",
    "a.b@c.com",
    "17",
    "口令",
    "👩‍🚀",
    "two words",
    "two  spaces",
    "a] [2024-01-01T00:00:00Z] (score: 1.000)",
    "a\n\n---\n**[user]** Session: b",
    "a\u2028b",
    "a\tb",
    "a\x00b",
    "a\u202eb",
    "\U000e0001",
    'say "hi"',
    '"quoted"',
    "'single'",
    "back\\slash",
    "back\\nslash",
    "</memories>",
    "[x]",
    "(x)",
    "a, b",
    "- x",
    "# x",
    "> x",
    "*",
    "`x`",
    "%_?",
    "null",
    "None",
    "true",
    "{}",
    "a' OR '1'='1",
]


class TestSessionKey:
    @pytest.mark.parametrize("key", SESSION_KEYS)
    def test_as_printed_it_can_be_given_back(self, tool: ConversationSearchTool, key: str) -> None:
        """Case 14."""
        for session in (key, "another", f"{key}x"):
            tool.memory.add_messages(session, [("user", f"the roof in {session}")])
        header = tool.invoke({"query": "roof in", "limit": 20})
        printed = {
            line: line.split(" Session: ", 1)[1].rsplit(" [", 1)[0]
            for line in header.splitlines()
            if re.match(r"\*\*\[user\]\*\* Session: ", line)
        }
        assert len(printed) == 3
        given_back = [found(tool, session_key=shown) for shown in printed.values()]
        assert sorted(entry.session_key for (entry,) in given_back) == sorted(
            [key, "another", f"{key}x"]
        )

    @pytest.mark.parametrize("key", [key for key in SESSION_KEYS if key != '"quoted"'])
    def test_as_it_is_it_can_be_given_too(self, tool: ConversationSearchTool, key: str) -> None:
        for session in (key, "another"):
            tool.memory.add_messages(session, [("user", "the roof")])
        assert [entry.session_key for entry in found(tool, session_key=key)] == [key]

    @pytest.mark.parametrize("sent", [17, ["17"], " 17 ", '"17"'])
    def test_as_models_send_it(self, tool: ConversationSearchTool, sent: Any) -> None:
        for session in ("17", "18"):
            tool.memory.add_messages(session, [("user", "the roof")])
        assert [entry.session_key for entry in found(tool, session_key=sent)] == ["17"]

    @pytest.mark.parametrize("blank", [None, "", "  ", '""', [""], [None], []])
    def test_a_blank_one_is_none(self, tool: ConversationSearchTool, blank: Any) -> None:
        for session in ("17", "18"):
            tool.memory.add_messages(session, [("user", "the roof")])
        assert len(found(tool, session_key=blank)) == 2

    @pytest.mark.parametrize("sent", [True, {"key": "17"}, ["17", "18"]])
    def test_an_unusable_one_is_named(self, tool: ConversationSearchTool, sent: Any) -> None:
        tool.memory.add_messages("17", [("user", "the roof")])
        message = str(search(tool, session_key=sent).message)
        assert message.startswith("Unusable arguments: session_key: ")

    def test_an_unknown_one_is_answered_with_those_there_are(
        self, tool: ConversationSearchTool
    ) -> None:
        for session in ("house", "a\nb"):
            tool.memory.add_messages(session, [("user", "the roof")])
        assert search(tool, session_key="garden").message == (
            'No message has session_key "garden". There are: "a\\nb", house.'
        )

    def test_a_small_session_beside_a_large_one(self, tool: ConversationSearchTool) -> None:
        """Case 12."""
        tool.memory.add_messages("a", [("user", f"the roof, {n}") for n in range(50)])
        tool.memory.add_messages("b", [("user", "tiles for the roof")])
        assert [entry.content for entry in found(tool, session_key="b")] == ["tiles for the roof"]


class TestTimes:
    @pytest.fixture
    def year(self, tool: ConversationSearchTool) -> ConversationSearchTool:
        """A message at noon of every first of a month of 2026."""
        tool.memory.add_messages(
            "house",
            [
                Message(
                    role="user",
                    content=f"the roof in month {month}",
                    recorded_at=f"2026-{month:02}-01T12:00:00Z",
                )
                for month in range(1, 13)
            ],
        )
        return tool

    @pytest.mark.parametrize(
        ("arguments", "months"),
        [
            ({"after": "2026-11-01"}, {11, 12}),
            ({"after": "2026-11-01T12:00:00Z"}, {11, 12}),
            ({"after": "2026-11-01T12:00:01Z"}, {12}),
            ({"after": "2026-11-01T14:00:00+02:00"}, {11, 12}),
            ({"after": " 2026-11-01 12:00 "}, {11, 12}),
            ({"before": "2026-02-01"}, {1, 2}),
            ({"before": "2026-02-01T11:59:59Z"}, {1}),
            ({"after": "2026-06-01", "before": "2026-06-30"}, {6}),
            ({"after": 1793534400}, {11, 12}),
            ({"after": 1793534400.0}, {11, 12}),
            ({"after": 1793534400000}, {11, 12}),
            ({"after": ["2026-11-01"]}, {11, 12}),
            ({"after": '"2026-11-01"'}, {11, 12}),
            ({"after": "2026-12-02"}, set()),
            ({"after": "2026-06-02", "before": "2026-06-01"}, set()),
        ],
        ids=str,
    )
    def test_a_range(
        self, year: ConversationSearchTool, arguments: dict[str, Any], months: set[int]
    ) -> None:
        """Case 35."""
        entries = found(year, limit=20, **arguments)
        assert {int(entry.recorded_at[5:7]) for entry in entries} == months

    @pytest.mark.parametrize("end", ["after", "before"])
    @pytest.mark.parametrize("blank", [None, "", " ", [], [""]])
    def test_a_blank_end_is_none(self, year: ConversationSearchTool, end: str, blank: Any) -> None:
        assert len(found(year, limit=20, **{end: blank})) == 12

    @pytest.mark.parametrize("end", ["after", "before"])
    @pytest.mark.parametrize(
        "time", ["yesterday", "2026-13-01", "2026-02-30", "08/05/2026", "1e999", "nan", "9" * 400]
    )
    async def test_an_unreadable_one_is_named(
        self, year: ConversationSearchTool, end: str, time: str
    ) -> None:
        arguments = {"query": "roof", end: time}
        request = {"type": "tool_call", "id": "1", "name": year.name, "args": arguments}
        answer = year.invoke(request)
        assert answer.status == "error"
        assert answer.content.startswith(f"conversation_search failed: {end}: cannot read ")
        assert "ISO 8601" in answer.content
        assert await year.ainvoke(request) == answer
        assert year.invoke(arguments) == answer.content
