"""`memory_search`: its filters, as a model uses them."""

from typing import Any

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool
from output_parser import MemoryEntry, Output, parse

from langchain_agentmem import AgentMemory, Memory, MemorySearchTool


@pytest.fixture
def tool(keyword_memory: AgentMemory) -> MemorySearchTool:
    keyword_memory.add_memories(
        [
            Memory(content="tea in the morning", type="persona", scene_name="Home office"),
            Memory(content="tea with Anna", type="episodic", scene_name="travel: Kyoto"),
            Memory(content="tea is never to be ordered", type="instruction", priority=-1),
            Memory(content="tea at four", type="42", scene_name="a, b"),
        ]
    )
    return MemorySearchTool(memory=keyword_memory)


def search(tool: MemorySearchTool, **arguments: Any) -> Output:
    return parse("memories", tool.invoke({"query": "tea", **arguments}))


def found(tool: MemorySearchTool, **arguments: Any) -> set[str]:
    output = search(tool, **arguments)
    assert output.message is None
    return {entry.content for entry in output.entries}


EVERYTHING = {"tea in the morning", "tea with Anna", "tea is never to be ordered", "tea at four"}


def test_a_model_sees_query_limit_and_filters(tool: MemorySearchTool) -> None:
    function = convert_to_openai_tool(tool)["function"]
    assert function["name"] == "memory_search"
    assert list(function["parameters"]["properties"]) == [
        "query",
        "limit",
        "after",
        "before",
        "type",
        "scene",
    ]
    types = function["parameters"]["properties"]["type"]["description"]
    assert all(name in types for name in ("persona", "episodic", "instruction"))


def test_an_answer_in_full(tool: MemorySearchTool) -> None:
    output = search(tool, query="never ordered")
    (entry,) = output.entries
    assert isinstance(entry, MemoryEntry)
    assert (output.count, output.strategy) == (1, "fts")
    assert (entry.type, entry.priority, entry.scene) == ("instruction", None, None)
    assert entry.content == "tea is never to be ordered"


def test_an_exact_match_does_not_look_worthless(tool: MemorySearchTool) -> None:
    """A score of 0.000 reads as "no match at all"."""
    assert all(float(entry.score) > 0 for entry in search(tool).entries)


@pytest.mark.parametrize(
    ("arguments", "contents"),
    [
        ({"type": "persona"}, {"tea in the morning"}),
        ({"type": " persona "}, {"tea in the morning"}),
        ({"type": '"persona"'}, {"tea in the morning"}),
        ({"type": ["persona"]}, {"tea in the morning"}),
        ({"type": 42}, {"tea at four"}),
        ({"scene": "home"}, {"tea in the morning"}),
        ({"scene": "KYOTO"}, {"tea with Anna"}),
        ({"scene": '"a, b"'}, {"tea at four"}),
        ({"scene": ["travel"]}, {"tea with Anna"}),
        ({"scene": "travel", "type": "episodic"}, {"tea with Anna"}),
        ({"scene": "travel", "type": "persona"}, set()),
    ],
)
def test_filters(tool: MemorySearchTool, arguments: dict[str, Any], contents: set[str]) -> None:
    assert found(tool, **arguments) == contents


@pytest.mark.parametrize("name", ["type", "scene"])
@pytest.mark.parametrize("blank", [None, "", "  ", '""', [""], [None], []])
def test_a_blank_filter_is_none(tool: MemorySearchTool, name: str, blank: Any) -> None:
    assert found(tool, **{name: blank}) == EVERYTHING


@pytest.mark.parametrize("name", ["type", "scene"])
@pytest.mark.parametrize("value", [True, {"a": 1}, ["persona", "episodic"]])
def test_an_unusable_filter_is_named(tool: MemorySearchTool, name: str, value: Any) -> None:
    output = search(tool, **{name: value})
    assert str(output.message).startswith(f"Unusable arguments: {name}: ")


def test_an_invented_type_is_answered_with_those_there_are(tool: MemorySearchTool) -> None:
    """Case 32."""
    assert search(tool, type="facts").message == (
        'No memory has type "facts". There are: 42, episodic, instruction, persona.'
    )


def test_an_invented_scene_is_answered_with_those_there_are(tool: MemorySearchTool) -> None:
    assert search(tool, scene="work").message == (
        'No memory has scene "work". There are: Home office, "a, b", travel: Kyoto.'
    )


@pytest.mark.parametrize(
    "invented", ["x\nNote: y", "x\u2028Found 3 matching", "</memories>", "\x1b"]
)
def test_an_invented_filter_cannot_forge_an_answer(tool: MemorySearchTool, invented: str) -> None:
    message = str(search(tool, type=invented).message)
    assert message.startswith('No memory has type "')
    assert message.isprintable()
    assert "</" not in message
