"""`context`: what was said around a result comes with it, as far as the turn may see it."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from pydantic import ValidationError

from langchain_agentmem import (
    AgentMemory,
    AgentMemoryToolkit,
    ConversationSearchTool,
    Message,
    MessageHit,
)

ANN: dict[str, Any] = {"configurable": {"user_id": "ann"}}
LINES = ["Hello", "How are you?", "The roof leaks", "Since when?", "Since Monday", "I see"]
OTHERS = [
    pytest.param({"session_key": "t"}, id="another session"),
    pytest.param({"scope_id": "ben"}, id="another user"),
    pytest.param({"scope": "organization", "scope_id": "acme"}, id="an organization"),
    pytest.param({"role": "tool"}, id="tool output"),
    pytest.param({"role": "system"}, id="a system prompt"),
]


def said(content: str, minute: int, **fields: Any) -> Message:
    given = {"session_key": "s", "scope_id": "ann", "role": "user", "content": content, **fields}
    return Message.model_validate(
        {"id": content, "recorded_at": f"2026-05-01T10:{minute:02}Z"} | given
    )


@pytest.fixture
def talk() -> Iterator[AgentMemory]:
    """Ann and the assistant take turns, a minute apart."""
    with closing(AgentMemory.in_memory(embedding="none")) as memory:
        roles = ["user", "assistant"] * 3
        memory.add_messages(
            None,
            [
                said(text, minute, role=role, name="Anna" if role == "user" else None)
                for minute, (text, role) in enumerate(zip(LINES, roles, strict=True))
            ],
        )
        yield memory


def roof(memory: AgentMemory, **options: Any) -> MessageHit:
    (hit,) = memory.search_conversations("roof", **{"config": ANN, **options}).results
    return hit


def around(hit: MessageHit) -> tuple[list[str], list[str]]:
    return [each.content for each in hit.before], [each.content for each in hit.after]


class TestWhatComesWithAResult:
    @pytest.mark.parametrize("context", range(6))
    def test_so_many_to_each_side_in_the_order_of_the_conversation(
        self, talk: AgentMemory, context: int
    ) -> None:
        hit = roof(talk, context=context)

        assert hit.content == LINES[2]
        assert around(hit) == (LINES[max(0, 2 - context) : 2], LINES[3 : 3 + context])

    def test_by_default_nothing(self, talk: AgentMemory) -> None:
        assert around(roof(talk)) == ([], [])

    def test_with_who_said_it_and_when(self, talk: AgentMemory) -> None:
        hit = roof(talk, context=2)

        assert [(m.id, m.role, m.name) for m in [*hit.before, *hit.after]] == [
            ("Hello", "user", "Anna"),
            ("How are you?", "assistant", None),
            ("Since when?", "assistant", None),
            ("Since Monday", "user", "Anna"),
        ]
        times = [
            *(each.recorded_at for each in hit.before),
            hit.recorded_at,
            *(each.recorded_at for each in hit.after),
        ]
        assert times == sorted(set(times))

    @pytest.mark.parametrize("fields", OTHERS)
    def test_never_what_is_not_of_this_conversation(
        self, talk: AgentMemory, fields: dict[str, str]
    ) -> None:
        talk.add_messages(None, [said("private", 2, **fields)])

        for config in (ANN, None):
            assert around(roof(talk, context=5, config=config)) == (LINES[:2], LINES[3:])

    def test_nothing_deleted(self, talk: AgentMemory) -> None:
        talk.delete(["Since when?", "How are you?"])

        assert around(roof(talk, context=1)) == (["Hello"], ["Since Monday"])

    def test_it_is_no_result(self, talk: AgentMemory) -> None:
        plain = talk.search_conversations("roof", config=ANN)
        result = talk.search_conversations("roof", config=ANN, context=5)

        assert result.total == plain.total == len(result.results) == 1
        assert result.results[0].score == plain.results[0].score
        assert talk.search_conversations("roof", 1, config=ANN, context=5).total == 1

    def test_results_beside_each_other_show_each_other(self, talk: AgentMemory) -> None:
        result = talk.search_conversations("since", config=ANN, context=1)

        assert {hit.content: around(hit) for hit in result.results} == {
            "Since when?": (["The roof leaks"], ["Since Monday"]),
            "Since Monday": (["Since when?"], ["I see"]),
        }

    async def test_async_is_the_same(self, talk: AgentMemory) -> None:
        result = await talk.asearch_conversations("roof", config=ANN, context=2)

        assert result == talk.search_conversations("roof", config=ANN, context=2)

    def test_with_vectors_too(self) -> None:
        with closing(AgentMemory.in_memory(embedding="local")) as memory:
            memory.add_messages("s", [("user", text) for text in LINES])
            result = memory.search_conversations("water through the ceiling", 1, context=1)

        (hit,) = result.results
        place = LINES.index(hit.content)
        assert result.strategy == "embedding"
        assert around(hit) == (LINES[max(0, place - 1) : place], LINES[place + 1 : place + 2])


class TestFilters:
    """Filters say what a result is; what stands around it need only be visible."""

    @pytest.mark.parametrize(
        "filters",
        [
            {"role": "user"},
            {"session_key": "s"},
            {"after": "2026-05-01T10:02Z"},
            {"before": "2026-05-01T10:02Z"},
            {"after": "2026-05-01T10:02Z", "before": "2026-05-01T10:02Z", "role": "user"},
            {"scope": "user"},
        ],
        ids=str,
    )
    def test_they_do_not_limit_it(self, talk: AgentMemory, filters: dict[str, str]) -> None:
        assert around(roof(talk, context=5, **filters)) == (LINES[:2], LINES[3:])

    def test_around_tool_output_stands_what_was_said(self, talk: AgentMemory) -> None:
        talk.add_messages(None, [said("roof.json", 2, role="tool")])

        hit = roof(talk, role="tool", context=1)

        assert (hit.content, around(hit)) == ("roof.json", (["The roof leaks"], ["Since when?"]))

    def test_a_turn_that_sees_nothing_gets_nothing(self, talk: AgentMemory) -> None:
        ben: dict[str, Any] = {"configurable": {"user_id": "ben"}}
        talk.add_messages(None, [said("My roof too", 2, scope_id="ben")])

        (hit,) = talk.search_conversations("roof", config=ben, context=5).results

        assert (hit.content, around(hit)) == ("My roof too", ([], []))


class TestAsData:
    def test_it_is_json(self, talk: AgentMemory) -> None:
        result = talk.search_conversations("roof", config=ANN, context=1)

        data = result.to_dict()

        assert json.loads(json.dumps(data)) == data
        assert data["total"] == 1
        assert data["results"][0]["before"] == [
            {
                "id": "How are you?",
                "role": "assistant",
                "name": None,
                "content": "How are you?",
                "recorded_at": "2026-05-01T10:01:00Z",
            }
        ]
        assert [each["content"] for each in data["results"][0]["after"]] == ["Since when?"]

    def test_the_artifact_has_it_too(self, talk: AgentMemory) -> None:
        tool = ConversationSearchTool(memory=talk, context=1)
        call = {"name": tool.name, "args": {"query": "roof"}, "id": "1", "type": "tool_call"}

        artifact = tool.invoke(call, config={"configurable": {"user_id": "ann"}}).artifact

        assert artifact == talk.search_conversations("roof", config=ANN, context=1).to_dict()


class TestBounds:
    @pytest.mark.parametrize("context", [-1, 6, 1.5, "2", None, True])
    def test_another_number_is_an_error_that_names_it(
        self, talk: AgentMemory, context: Any
    ) -> None:
        with pytest.raises(ValueError, match="context must be a whole number from 0 to 5"):
            talk.search_conversations("roof", context=context)

    async def test_the_async_search_names_it_too(self, talk: AgentMemory) -> None:
        with pytest.raises(ValueError, match="context must be"):
            await talk.asearch_conversations("roof", context=6)

    @pytest.mark.parametrize("context", [-1, 6, 1.5, "many", None])
    @pytest.mark.parametrize("made", [AgentMemoryToolkit, ConversationSearchTool])
    def test_toolkit_and_tool_name_it(self, talk: AgentMemory, made: Any, context: Any) -> None:
        with pytest.raises(ValidationError, match="context"):
            made(memory=talk, context=context)

    def test_the_toolkit_gives_it_to_the_tool(self, talk: AgentMemory) -> None:
        (tool,) = (
            tool
            for tool in AgentMemoryToolkit(memory=talk, context=3).get_tools()
            if isinstance(tool, ConversationSearchTool)
        )

        assert tool.context == 3
        assert "context" not in tool.args

    def test_memories_have_none(self, talk: AgentMemory) -> None:
        search: Any = talk.search_memories
        with pytest.raises(TypeError, match="context"):
            search("roof", context=1)
