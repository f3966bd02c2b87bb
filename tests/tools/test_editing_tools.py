"""The tools that edit: what a model can do with them, for whom, and what it reads."""

import re
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool
from output_parser import MemoryEntry, parse

from langchain_agentmem import AgentMemory, AgentMemoryToolkit, Memory, Message
from langchain_agentmem.quoting import quote

ANN: RunnableConfig = {"configurable": {"user_id": "ann"}}
BOB: RunnableConfig = {"configurable": {"user_id": "bob"}}
NAMES = ["memory_add", "memory_update", "memory_delete", "memory_merge"]


class Agent:
    """Calls the tools of a memory as a model does."""

    def __init__(self, memory: AgentMemory, config: RunnableConfig = ANN) -> None:
        tools = AgentMemoryToolkit(memory=memory, editing=True).get_tools()
        self.tools = {tool.name: tool for tool in tools}
        self.config = config

    def call(self, tool: str, **arguments: Any) -> ToolMessage:
        call = {"type": "tool_call", "id": "1", "name": tool, "args": arguments}
        answer = self.tools[tool].invoke(call, self.config)
        assert isinstance(answer, ToolMessage)
        return answer

    def add(self, content: str, **arguments: Any) -> str:
        return str(self.call("memory_add", content=content, **arguments).artifact["id"])

    def entries(self, query: str) -> list[MemoryEntry]:
        text = str(self.call("memory_search", query=query, limit=20).content)
        return [e for e in parse("memories", text).entries if isinstance(e, MemoryEntry)]

    def found(self, query: str) -> set[str]:
        return {entry.content for entry in self.entries(query)}


@pytest.fixture
def ann(keyword_memory: AgentMemory) -> Agent:
    return Agent(keyword_memory)


@pytest.fixture
def bob(keyword_memory: AgentMemory) -> Agent:
    return Agent(keyword_memory, BOB)


class TestToolkit:
    def test_by_default_nothing_can_be_changed(self, keyword_memory: AgentMemory) -> None:
        tools = AgentMemoryToolkit(memory=keyword_memory).get_tools()
        assert [tool.name for tool in tools] == ["memory_search", "conversation_search"]
        keyword_memory.add_memory("tea")
        (entry,) = parse("memories", tools[0].invoke({"query": "tea"})).entries
        assert isinstance(entry, MemoryEntry)
        assert entry.id is None

    def test_with_editing_there_are_four_more(self, ann: Agent) -> None:
        assert list(ann.tools) == ["memory_search", "conversation_search", *NAMES]

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("memory_add", ["content", "type", "scene", "tags"]),
            ("memory_update", ["id", "content", "type", "scene", "tags"]),
            ("memory_delete", ["ids"]),
            ("memory_merge", ["ids", "content"]),
        ],
    )
    def test_a_model_sees_nothing_that_says_whose(
        self, ann: Agent, name: str, arguments: list[str]
    ) -> None:
        function = convert_to_openai_tool(ann.tools[name])["function"]
        properties = function["parameters"]["properties"]
        assert list(properties) == arguments
        assert all(shown.get("description") for shown in properties.values())

    def test_search_shows_the_ids_that_the_others_take(self, ann: Agent) -> None:
        id_ = ann.add("green tea")
        assert [entry.id for entry in ann.entries("tea")] == [id_]

    @pytest.mark.parametrize(
        "id_", ["a]b", "[x]", 'say "hi"', "two  spaces", "ü", "-x", "`", "a,b"]
    )
    def test_any_id_can_be_given_back_as_printed_or_as_it_is(
        self, keyword_memory: AgentMemory, ann: Agent, id_: str
    ) -> None:
        keyword_memory.add_memories([Memory(id=id_, content="tea")], config=ANN)
        text = str(ann.call("memory_search", query="tea").content)
        printed = text.split("[id: ")[1].split("\n", maxsplit=1)[0].removesuffix("]")
        for sent, content in ((printed, "tea one"), (id_, "tea two")):
            assert ann.call("memory_update", id=sent, content=content).status == "success"
            assert ann.found("tea") == {content}
        assert ann.call("memory_delete", ids=[printed]).content == "Deleted 1 memory."


class TestAdd:
    def test_it_is_filed_for_the_turns_user(self, ann: Agent, bob: Agent) -> None:
        answer = ann.call(
            "memory_add", content="tea", type="persona", scene="kitchen", tags=["green"]
        )
        memory = answer.artifact
        assert answer.content == f"Saved as {memory['id']}."
        assert (memory["scope"], memory["scope_id"]) == ("user", "ann")
        assert (memory["type"], memory["scene_name"], memory["tags"]) == (
            "persona",
            "kitchen",
            ["green"],
        )
        assert ann.found("green") == {"tea"}
        assert bob.found("green") == set()

    @pytest.mark.parametrize(
        ("ids", "owner"),
        [
            ({}, ("user", "")),
            ({"thread_id": "t"}, ("user", "")),
            ({"user_id": " ann "}, ("user", "ann")),
            ({"user_id": "ann", "persona_id": "p", "organization_id": "o"}, ("user", "ann")),
        ],
    )
    def test_whoever_the_turn_is(
        self, keyword_memory: AgentMemory, ids: dict[str, str], owner: tuple[str, str]
    ) -> None:
        memory = Agent(keyword_memory, {"configurable": ids}).call("memory_add", content="tea")
        assert (memory.artifact["scope"], memory.artifact["scope_id"]) == owner

    def test_the_same_text_is_saved_once(self, ann: Agent, bob: Agent) -> None:
        id_ = ann.add("tea")
        again = ann.call("memory_add", content="tea", tags=["other"])
        assert again.content == f"Already there as {id_}."
        assert bob.add("tea") != id_

    @pytest.mark.parametrize("content", ["", "  ", None, ["tea"], {"a": 1}])
    def test_an_unusable_text_is_named(self, ann: Agent, content: Any) -> None:
        answer = ann.call("memory_add", content=content)
        assert answer.status == "error"
        assert "content" in str(answer.content)


class TestUpdate:
    def test_only_the_named_fields_change(self, ann: Agent) -> None:
        id_ = ann.add("tea", type="persona", scene="kitchen", tags=["green"])
        answer = ann.call("memory_update", id=id_, content="coffee", scene="", tags=None)
        assert answer.content == f"Updated {id_}."
        assert (ann.found("tea"), ann.found("coffee")) == (set(), {"coffee"})
        kept = {name: answer.artifact[name] for name in ("type", "scene_name", "tags")}
        assert kept == {"type": "persona", "scene_name": "kitchen", "tags": ["green"]}
        assert ann.call("memory_update", id=id_, tags=[]).artifact["tags"] == []

    def test_a_change_of_nothing_is_answered(self, ann: Agent) -> None:
        answer = ann.call("memory_update", id=ann.add("tea"))
        assert answer.status == "error"
        assert "name at least one field" in str(answer.content)

    def test_a_message_is_no_memory(self, keyword_memory: AgentMemory, ann: Agent) -> None:
        message = Message(id="line", role="user", content="tea")
        keyword_memory.add_messages("s", [message], config=ANN)
        answer = ann.call("memory_update", id="line", content="coffee")
        assert answer.content == "memory_update failed: id: there is no memory 'line'"


class TestDelete:
    def test_memories_go_and_code_can_restore_them(
        self, keyword_memory: AgentMemory, ann: Agent
    ) -> None:
        one, two = ann.add("tea one"), ann.add("tea two")
        assert ann.call("memory_delete", ids=[one, two, one]).content == "Deleted 2 memories."
        assert ann.found("tea") == set()
        again = ann.call("memory_delete", ids=one)
        assert again.content == f"Deleted 0 memories. There are no memories with the ids: {one}."
        assert again.artifact == {"deleted": [], "unknown": [one]}
        assert keyword_memory.restore([one, two]) == 2

    def test_messages_stay(self, keyword_memory: AgentMemory, ann: Agent) -> None:
        message = Message(id="line", role="user", content="tea")
        keyword_memory.add_messages("s", [message], config=ANN)
        assert ann.call("memory_delete", ids=["line"]).artifact["unknown"] == ["line"]
        assert keyword_memory.get("line", config=ANN) is not None


class TestLooseArguments:
    """What models send where an id, a list or a filter is meant."""

    @pytest.mark.parametrize(
        "shape", ["{}", " {} ", "[id: {}]", " [ id: {} ] ", '"{}"', '[id: "{}"]'], ids=repr
    )
    def test_an_id_may_come_with_what_is_printed_around_it(self, ann: Agent, shape: str) -> None:
        id_ = ann.add("tea")
        assert ann.call("memory_update", id=shape.format(id_), content="mint").artifact["id"] == id_
        assert ann.call("memory_delete", ids=[shape.format(id_)]).artifact["deleted"] == [id_]

    @pytest.mark.parametrize(
        "shape",
        [
            "{}, {}",
            "{},{}",
            '["{}", "{}"]',
            "[id: {}] [id: {}]",
            '"{}", "{}"',
            "[id: {}], [id: {}]",
        ],
        ids=repr,
    )
    def test_ids_may_come_as_text(self, ann: Agent, shape: str) -> None:
        one, two = ann.add("tea"), ann.add("milk")
        deleted = ann.call("memory_delete", ids=shape.format(one, two)).artifact["deleted"]
        assert deleted == [one, two]

    def test_text_that_is_nested_too_deeply_for_json_is_no_list(self, ann: Agent) -> None:
        deep = "[" * 100_000 + "]"
        assert ann.call("memory_add", content="tea", tags=deep).artifact["tags"] == [deep]
        assert ann.call("memory_delete", ids=deep).artifact["deleted"] == []

    @pytest.mark.parametrize("id_", ["a, b", "x [id: y]", 'say "so"', "[a]", "1,5"], ids=repr)
    def test_ids_work_as_they_are_printed(
        self, keyword_memory: AgentMemory, ann: Agent, id_: str
    ) -> None:
        keyword_memory.add_memories([Memory(id=id_, content="tea")], config=ANN)
        content = str(ann.call("memory_search", query="tea").content)
        printed = content.partition("[id: ")[2].splitlines()[0].rpartition("]")[0]
        assert ann.call("memory_delete", ids=[printed]).artifact["deleted"] == [id_]

    @pytest.mark.parametrize("ids", [["[a]", "b"], ["a] [id: b", 'say "so]"'], ["x", "y]z"]])
    def test_ids_as_text_work_as_they_are_printed(
        self, keyword_memory: AgentMemory, ann: Agent, ids: list[str]
    ) -> None:
        keyword_memory.add_memories([Memory(id=id_, content="tea") for id_ in ids], config=ANN)
        content = str(ann.call("memory_search", query="tea").content)
        printed = " and ".join(re.findall(r"\[id: .*", content))
        deleted = ann.call("memory_delete", ids=printed).artifact["deleted"]
        assert sorted(deleted) == sorted(ids)

    @pytest.mark.parametrize(
        "content", ['"I will be back"', "  indented", "null", "[1, 2]", '"a" and "b"'], ids=repr
    )
    def test_a_content_is_kept_as_it_was_sent(self, ann: Agent, content: str) -> None:
        one, two = ann.add("first"), ann.add("second")
        assert ann.call("memory_add", content=content).artifact["content"] == content
        updated = ann.call("memory_update", id=one, content=f"{content} ")
        assert updated.artifact["content"] == f"{content} "
        merged = ann.call("memory_merge", ids=[one, two], content=content)
        assert merged.artifact["content"] == content

    @pytest.mark.parametrize("nothing", [None, "", " \n"], ids=repr)
    def test_a_content_that_says_nothing_changes_nothing(self, ann: Agent, nothing: Any) -> None:
        one, two = ann.add("first"), ann.add("second")
        changed = ann.call("memory_update", id=one, content=nothing, type="persona")
        assert changed.artifact["content"] == "first"
        merged = ann.call("memory_merge", ids=[one, two], content=nothing)
        assert merged.artifact["content"] == "first"

    @pytest.mark.parametrize("id_", ["a\n\nNote: b", "x [id: y]", "a\u2028---"], ids=ascii)
    def test_an_id_forges_no_part_of_an_answer(
        self, keyword_memory: AgentMemory, ann: Agent, id_: str
    ) -> None:
        keyword_memory.add_memories([Memory(id=id_, content="tea")], config=ANN)
        keyword_memory.add_memories([Memory(id="other", content="milk")], config=ANN)
        answers = [
            ann.call("memory_update", id=id_, content="mint"),
            ann.call("memory_merge", ids=[id_, "other"]),
            ann.call("memory_delete", ids=[f"{id_}!"]),
            ann.call("memory_update", id=f"{id_}!", content="mint"),
        ]
        for answer in answers:
            assert len(str(answer.content).splitlines()) == 1
        assert quote(id_) in str(answers[0].content)
        assert quote(id_) in str(answers[1].content)
        assert quote(f"{id_}!") in str(answers[2].content)

    @pytest.mark.parametrize(
        "tags", ["a, b", '["a", "b"]', ["a", "b"], "a,b,", '"a", "b"'], ids=repr
    )
    def test_tags_may_come_as_text(self, ann: Agent, tags: Any) -> None:
        assert ann.call("memory_add", content="tea", tags=tags).artifact["tags"] == ["a", "b"]
        id_ = ann.add("milk")
        assert ann.call("memory_update", id=id_, tags=tags).artifact["tags"] == ["a", "b"]
        assert ann.call("memory_update", id=id_, tags=[]).artifact["tags"] == []

    @pytest.mark.parametrize("nothing", [None, "", " ", "null", "None", []], ids=repr)
    def test_a_filter_that_says_nothing_filters_nothing(
        self, keyword_memory: AgentMemory, ann: Agent, nothing: Any
    ) -> None:
        ann.add("tea")
        keyword_memory.add_messages("s", [Message(role="user", content="tea")], config=ANN)
        filters = dict.fromkeys(("type", "scene", "after", "before"), nothing)
        assert ann.call("memory_search", query="tea", **filters).artifact["total"] == 1
        filters = dict.fromkeys(("role", "after", "before"), nothing)
        assert ann.call("conversation_search", query="tea", **filters).artifact["total"] == 1

    @pytest.mark.parametrize("role", ["user", "USER", " Human ", "human"], ids=repr)
    def test_a_role_goes_by_all_its_names(
        self, keyword_memory: AgentMemory, ann: Agent, role: str
    ) -> None:
        lines = [Message(role="user", content="tea?"), Message(role="assistant", content="tea!")]
        keyword_memory.add_messages("s", lines, config=ANN)
        found = ann.call("conversation_search", query="tea", role=role).artifact["results"]
        assert [hit["content"] for hit in found] == ["tea?"]


class TestMerge:
    def test_one_memory_under_two_ids_is_one(self, keyword_memory: AgentMemory) -> None:
        keyword_memory.add_memories([Memory(id="note", content="tea")], config=ANN)
        report = keyword_memory.add_memories([Memory(id="note", content="tea")], config=BOB)
        both = [report.records[0].id, "note"]
        with pytest.raises(ValueError, match="at least two different memories, not 1"):
            keyword_memory.merge_memories(both, config=BOB)

    def test_a_memory_under_two_ids_is_counted_once(
        self, keyword_memory: AgentMemory, bob: Agent
    ) -> None:
        keyword_memory.add_memories([Memory(id="note", content="tea")], config=ANN)
        report = keyword_memory.add_memories([Memory(id="note", content="tea")], config=BOB)
        own, other = report.records[0].id, bob.add("milk")
        answer = bob.call("memory_merge", ids=[own, "note", other])
        assert answer.content == f"Merged 2 memories into {own}."

    def test_the_first_is_kept(self, ann: Agent) -> None:
        one, two = ann.add("tea", tags=["a"]), ann.add("likes tea", tags=["b"])
        answer = ann.call("memory_merge", ids=[one, two], content="likes green tea")
        assert answer.content == f"Merged 2 memories into {one}."
        assert answer.artifact["tags"] == ["a", "b"]
        assert [(e.id, e.content) for e in ann.entries("tea")] == [(one, "likes green tea")]

    @pytest.mark.parametrize("more", [[], ["unknown"]])
    def test_what_cannot_be_merged_is_answered(self, ann: Agent, more: list[str]) -> None:
        one = ann.add("tea")
        answer = ann.call("memory_merge", ids=[one, *more], content="x")
        assert answer.status == "error"
        assert str(answer.content).startswith("memory_merge failed: ids: ")
        assert ann.found("tea") == {"tea"}


class TestOthers:
    """Records that the turn cannot see are, to a tool, not there."""

    def test_they_are_answered_like_unknown_ones(self, ann: Agent, bob: Agent) -> None:
        own = ann.add("tea of ann")
        theirs, more = bob.add("tea of bob"), bob.add("more tea of bob")
        calls: list[tuple[str, dict[str, Any]]] = [
            ("memory_update", {"id": theirs, "content": "changed"}),
            ("memory_delete", {"ids": [theirs]}),
            ("memory_merge", {"ids": [theirs, more]}),
            ("memory_merge", {"ids": [own, theirs]}),
        ]
        for name, arguments in calls:
            unknown = {k: _replaced(v, theirs, "mem-unknown") for k, v in arguments.items()}
            answers = [str(ann.call(name, **sent).content) for sent in (arguments, unknown)]
            assert answers[0].replace(theirs, "mem-unknown") == answers[1]
            assert "bob" not in answers[0]
        assert ann.found("tea") == {"tea of ann"}
        assert bob.found("tea") == {"tea of bob", "more tea of bob"}

    def test_shared_ones_can_be_edited_by_those_who_see_them(
        self, keyword_memory: AgentMemory, ann: Agent
    ) -> None:
        fact = keyword_memory.add_memory("tea at four", scope="organization", scope_id="acme")
        assert ann.call("memory_update", id=fact.id, content="tea at five").status == "error"
        member = Agent(
            keyword_memory, {"configurable": {"user_id": "ann", "organization_id": "acme"}}
        )
        changed = member.call("memory_update", id=fact.id, content="tea at five").artifact
        assert (changed["scope"], changed["scope_id"]) == ("organization", "acme")

    def test_a_turn_that_sees_nothing_edits_nothing(self) -> None:
        with AgentMemory.in_memory(embedding="none", require_scope=True) as memory:
            id_ = memory.add_memory("tea").id
            nobody = Agent(memory, {"configurable": {}})
            for name, arguments in (
                ("memory_update", {"id": id_, "content": "coffee"}),
                ("memory_delete", {"ids": [id_]}),
                ("memory_merge", {"ids": [id_, "x"]}),
            ):
                refused = nobody.call(name, **arguments)
                assert refused.status == "error"
                reason = "nothing can be seen without one of user_id"
                assert str(refused.content).startswith(f"{name} failed: {reason}")
            assert memory.get(id_) is not None
            text = str(nobody.call("memory_search", query="tea").content)
            (note,) = parse("memories", text).notes
            assert note.startswith("nothing can be seen without one of user_id")


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    return new if value == old else value


class TestFailures:
    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("memory_add", {"content": "tea"}),
            ("memory_update", {"id": "x", "content": "tea"}),
            ("memory_delete", {"ids": ["x"]}),
            ("memory_merge", {"ids": ["x", "y"]}),
        ],
    )
    async def test_a_run_does_not_die_of_them(
        self, keyword_memory: AgentMemory, ann: Agent, name: str, arguments: dict[str, Any]
    ) -> None:
        keyword_memory.close()
        assert ann.call(name, **arguments).status == "error"
        call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
        answer = await ann.tools[name].ainvoke(call, ANN)
        assert answer.content.startswith(f"{name} failed: the memory at ")

    async def test_async_gives_the_same(self, ann: Agent, bob: Agent) -> None:
        call = {"type": "tool_call", "id": "1", "name": "memory_add", "args": {"content": "tea"}}
        answer = await ann.tools["memory_add"].ainvoke(call, ANN)
        assert answer.artifact["scope_id"] == "ann"
        assert (ann.found("tea"), bob.found("tea")) == ({"tea"}, set())
