"""Message histories of LangChain and LangGraph become conversations."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from exported import lines
from langchain_core.load import dumpd, dumps
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, EmbeddingSettings, Message
from langchain_agentmem.integrations.histories import import_history, import_threads, read_history
from langchain_agentmem.integrations.imports import import_lines

TALK: list[BaseMessage] = [
    SystemMessage("Be brief"),
    HumanMessage("The roof leaks", name="Ann", id="h1"),
    AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c"}]),
    ToolMessage("wet", tool_call_id="c"),
    AIMessage([{"type": "text", "text": "Since when?"}]),
    HumanMessage("Since March"),
]
SAID = [("user", "The roof leaks"), ("assistant", "Since when?"), ("user", "Since March")]


@pytest.fixture
def memory() -> Iterator[AgentMemory]:
    with AgentMemory.in_memory(embedding="none") as opened:
        yield opened


def messages_in(memory: AgentMemory, session: str) -> list[tuple[str, str]]:
    told = [json.loads(line) for line in lines(memory, only="conversations")]
    told = [each for each in told if each["session_key"] == session]
    in_order = sorted(told, key=lambda each: each["recorded_at"])
    return [(each["role"], each["content"]) for each in in_order]


def write(path: Path, document: Any) -> Path:
    text = document if isinstance(document, str) else json.dumps(document)
    path.write_text(text, encoding="utf-8")
    return path


class TestFiles:
    @pytest.mark.parametrize(
        "document",
        [
            messages_to_dict(TALK),
            dumpd(TALK),
            dumps(TALK),
            {"messages": dumpd(TALK)},
            {"talk": messages_to_dict(TALK)},
            {"messages": messages_to_dict(TALK), "thread_id": "talk"},
        ],
        ids=["messages_to_dict", "dumpd", "dumps", "state", "sessions", "named"],
    )
    def test_every_form_is_read(self, memory: AgentMemory, tmp_path: Path, document: Any) -> None:
        report = import_history(memory, write(tmp_path / "talk.json", document))

        assert (report.messages, report.problems) == (3, [])
        assert messages_in(memory, "talk") == SAID
        assert memory.get("h1") is not None

    def test_plain_role_and_content_are_read_too(self, memory: AgentMemory, tmp_path: Path) -> None:
        plain = [{"role": role, "content": content} for role, content in SAID]
        import_history(memory, write(tmp_path / "a.json", plain), session_key="t")

        assert messages_in(memory, "t") == SAID

    def test_doing_it_again_adds_what_is_new(self, memory: AgentMemory, tmp_path: Path) -> None:
        file = tmp_path / "talk.json"
        import_history(memory, write(file, messages_to_dict(TALK[:-1])))
        longer = [*TALK, HumanMessage("Since March"), AIMessage("I see")]

        report = import_history(memory, write(file, messages_to_dict(longer)))

        assert (report.messages, report.duplicates, report.conflicts) == (3, 2, 0)
        said_again = [("user", "Since March"), ("assistant", "I see")]
        assert messages_in(memory, "talk") == [*SAID, *said_again]

    @pytest.mark.parametrize(
        "bad", [7, "text", {}, {"type": "alien", "data": {"content": "x"}}, {"lc": 1, "kwargs": {}}]
    )
    def test_what_is_bad_is_named_by_number_and_the_rest_is_kept(
        self, memory: AgentMemory, tmp_path: Path, bad: Any
    ) -> None:
        one, *rest = messages_to_dict(TALK[1:])
        file = write(tmp_path / "talk.json", [one, bad, *rest])

        report = import_history(memory, file)

        expected = 1 if bad != "text" else 0  # which LangChain reads as what a user said
        assert (report.messages, report.skipped) == (4 - expected, expected)
        assert all(p.startswith(f"{file}: message 2: cannot be read") for p in report.problems)

    @pytest.mark.parametrize("id_", ["i" * 512, "i" * 600, "a\x00b", "\ud800", " "], ids=ascii)
    @pytest.mark.parametrize("text", ["\u200b", "\u2060\x00", " ", "hello"], ids=ascii)
    def test_no_id_and_no_text_loses_the_file(
        self, memory: AgentMemory, tmp_path: Path, id_: str, text: str
    ) -> None:
        said_under = {text: "1", "The roof leaks": id_}
        told = [{"role": "user", "content": each, "id": own} for each, own in said_under.items()]
        lines_read = list(read_history(write(tmp_path / "talk.json", told), "prefix/"))

        said = [line.record.content for line in lines_read if line.record]
        assert said == [*([text] if text == "hello" else []), "The roof leaks"]
        assert import_lines(memory, lines_read).problems == []

    @pytest.mark.parametrize("key", ["", " "])
    def test_a_list_under_a_blank_key_is_named_and_the_rest_is_kept(
        self, memory: AgentMemory, tmp_path: Path, key: str
    ) -> None:
        told = messages_to_dict(TALK)
        file = write(tmp_path / "talk.json", {"t": told, key: told[1:3]})

        report = import_history(memory, file)

        assert (report.messages, report.skipped) == (3, 2)
        assert report.problems == [
            f"{file}: message {number}: session_key: a message needs one" for number in (7, 8)
        ]

    @pytest.mark.parametrize("document", ["[", "7", '{"a": 1}', "[" * 100_000])
    def test_a_file_that_is_none_is_named(
        self, memory: AgentMemory, tmp_path: Path, document: str
    ) -> None:
        file = write(tmp_path / "talk.json", document)
        with pytest.raises(ValueError, match=r"talk\.json"):
            import_history(memory, file)


def answer(state: MessagesState) -> dict[str, list[AnyMessage]]:
    return {"messages": [AIMessage(f"answer to {state['messages'][-1].content}")]}


def talk(checkpointer: Any, thread: str, *texts: str, **ids: str) -> None:
    """Run a graph in a thread, once for each text."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph = builder.compile(checkpointer=checkpointer)
    for text in texts:
        graph.invoke(
            {"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread, **ids}}
        )


class PlainState(TypedDict):
    messages: list[Any]


def keep_list(checkpointer: Any, thread: str, messages: list[Any]) -> None:
    """Keep a state that is a plain list: nothing makes messages of what is in it."""
    builder: Any = StateGraph(PlainState)
    builder.add_node("talk", lambda _: {"messages": messages})
    builder.add_edge(START, "talk")
    builder.compile(checkpointer=checkpointer).invoke(
        {"messages": []}, {"configurable": {"thread_id": thread}}
    )


class TestThreads:
    @pytest.fixture(params=["memory", "sqlite"])
    def saver(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
        if request.param == "memory":
            yield InMemorySaver()
            return
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as opened:
            yield opened

    def test_every_threads_latest_messages_come_in(self, memory: AgentMemory, saver: Any) -> None:
        talk(saver, "t1", "one", "two")
        talk(saver, "t2", "three")

        report = import_threads(memory, saver)

        assert (report.messages, report.problems) == (6, [])
        assert messages_in(memory, "t1") == [
            ("user", "one"),
            ("assistant", "answer to one"),
            ("user", "two"),
            ("assistant", "answer to two"),
        ]

    def test_doing_it_again_adds_what_is_new(self, memory: AgentMemory, saver: Any) -> None:
        talk(saver, "t1", "one")
        import_threads(memory, saver)
        talk(saver, "t1", "two")

        report = import_threads(memory, saver)

        assert (report.messages, report.duplicates, report.conflicts) == (2, 2, 0)

    def test_what_was_captured_already_is_not_saved_twice(
        self, memory: AgentMemory, saver: Any
    ) -> None:
        from langchain_agentmem.integrations.capture_turns import Capture

        talk(saver, "t1", "one")
        run: Any = {"configurable": {"thread_id": "t1"}}
        messages = saver.get_tuple(run).checkpoint["channel_values"]["messages"]
        assert Capture(memory).save(messages, run) is not None

        report = import_threads(memory, saver)

        assert (report.messages, report.duplicates, report.conflicts) == (0, 2, 0)

    def test_they_belong_to_the_user_whose_run_it_was(
        self, memory: AgentMemory, saver: Any
    ) -> None:
        talk(saver, "t1", "one", user_id="ann")
        talk(saver, "t2", "one", user_id="ben")

        import_threads(memory, saver)

        for user, thread in (("ann", "t1"), ("ben", "t2")):
            found = memory.search_conversations("one", config={"configurable": {"user_id": user}})
            assert {hit.session_key for hit in found.results} == {thread}

    def test_in_a_thread_of_several_each_turn_belongs_to_its_user(
        self, memory: AgentMemory, saver: Any
    ) -> None:
        """A run that names no user makes nothing that was said before it everybody's."""
        users = ("ann", "ben", "ann", "")
        for n, user in enumerate(users):
            talk(saver, "room", str(n), **({"user_id": user} if user else {}))

        report = import_threads(memory, saver)

        assert (report.messages, report.duplicates, report.problems) == (8, 0, [])
        told = [json.loads(line) for line in lines(memory, only="conversations")]
        assert [(each.get("scope_id", ""), each["content"]) for each in told] == [
            (user, text) for n, user in enumerate(users) for text in (f"{n}", f"answer to {n}")
        ]
        again = import_threads(memory, saver)
        assert (again.messages, again.duplicates) == (0, 8)

    def test_ids_that_a_checkpoint_does_not_name_come_from_the_config(
        self, memory: AgentMemory, saver: Any
    ) -> None:
        talk(saver, "t1", "one")
        ann: dict[str, Any] = {"configurable": {"user_id": "ann"}}

        import_threads(memory, saver, config=ann)

        hits = memory.search_conversations("one").results
        assert {hit.scope_id for hit in hits} == {"ann"}

    def test_a_message_has_the_time_of_the_checkpoint_that_had_it_first(
        self, memory: AgentMemory, saver: Any
    ) -> None:
        talk(saver, "t1", "one", "two")
        points = list(saver.list({"configurable": {"thread_id": "t1"}}))[::-1]
        first = next(
            point.checkpoint["ts"]
            for point in points
            if point.checkpoint["channel_values"].get("messages")
        )

        import_threads(memory, saver)

        told = [json.loads(line)["recorded_at"] for line in lines(memory, only="conversations")]
        assert told[0] == first.replace("+00:00", "Z")
        assert told == sorted(set(told))
        assert told[-1] <= points[-1].checkpoint["ts"].replace("+00:00", "Z")

    def test_threads_can_be_chosen(self, memory: AgentMemory, saver: Any) -> None:
        talk(saver, "t1", "one")
        talk(saver, "t2", "two")

        report = import_threads(memory, saver, threads=["t2", "nowhere"])

        assert report.messages == 2
        assert report.problems == [
            'thread "nowhere": there are no messages under "messages" in its state'
        ]

    @pytest.mark.parametrize(
        "bad", [{"role": "alien", "content": "x"}, {"role": "tool", "content": "x"}, {"a": 1}, 5]
    )
    def test_a_message_that_cannot_be_read_is_named_and_the_rest_is_kept(
        self, memory: AgentMemory, saver: Any, bad: Any
    ) -> None:
        talk(saver, "t1", "one")
        keep_list(saver, "t2", [("user", "two"), bad, ("user", "three")])
        keep_list(saver, "t3", [bad])

        report = import_threads(memory, saver)

        assert (report.messages, report.skipped) == (4, 2)
        assert sorted(report.problems) == [
            'thread "t2": message 2 cannot be read',
            'thread "t3": message 1 cannot be read',
        ]
        assert messages_in(memory, "t2") == [("user", "two"), ("user", "three")]

    @pytest.mark.parametrize("key", ["user_id", "langgraph_user_id"])
    @pytest.mark.parametrize("of_config", ["user_id", "langgraph_user_id"])
    def test_the_checkpoints_own_user_comes_before_the_configs(
        self, memory: AgentMemory, saver: Any, key: str, of_config: str
    ) -> None:
        talk(saver, "t1", "one", **{key: "ben"})

        import_threads(memory, saver, config={"configurable": {of_config: "ann"}})

        told = [json.loads(line) for line in lines(memory, only="conversations")]
        assert {each["scope_id"] for each in told} == {"ben"}

    def test_what_a_turn_may_not_save_is_a_problem_and_the_rest_counts(self, saver: Any) -> None:
        talk(saver, "t1", "one", "two", user_id="ann")
        talk(saver, "t1", "three")
        talk(saver, "t2", "four", user_id="ben")
        with AgentMemory.in_memory(embedding="none", require_scope=True) as memory:
            report = import_threads(memory, saver, config={})

        assert (report.messages, report.skipped) == (6, 2)
        (problem,) = report.problems
        assert problem.startswith('thread "t1": messages 5 to 6 not saved: config["configurable"]')

    def test_what_waits_for_its_vector_is_counted_though_the_last_thread_has_none(
        self, saver: Any
    ) -> None:
        talk(saver, "t1", "one")
        settings = EmbeddingSettings(provider="openai_compatible")  # not configured: vectors wait
        with AgentMemory.in_memory(embedding=settings) as memory:
            report = import_threads(memory, saver, threads=["t1", "nowhere"])

            assert report.pending == memory.status().pending == 2

    def test_a_config_of_the_wrong_form_is_refused(self, memory: AgentMemory, saver: Any) -> None:
        with pytest.raises(ValueError, match="user_id"):
            import_threads(memory, saver, config={"configurable": {"user_id": ["ann"]}})

    def test_a_thread_is_named_as_it_is(self, memory: AgentMemory, saver: Any) -> None:
        talk(saver, "https://chat/1", "one")
        (first, *_) = saver.get_tuple({"configurable": {"thread_id": "https://chat/1"}}).checkpoint[
            "channel_values"
        ]["messages"]
        changed = Message(id=first.id, role="user", content="another", session_key="https://chat/1")
        memory.add_messages(None, [changed])

        report = import_threads(memory, saver)

        problem = f'https://chat/1: message 1: id: "{first.id}" is there with other content'
        assert report.problems == [f"{problem}; kept as it was"]

    async def test_an_asynchronous_checkpointer_is_read_in_a_thread(
        self, memory: AgentMemory, tmp_path: Path
    ) -> None:
        path = str(tmp_path / "threads.sqlite")
        with SqliteSaver.from_conn_string(path) as saver:
            talk(saver, "t1", "one")
        async with AsyncSqliteSaver.from_conn_string(path) as opened:
            report = await asyncio.to_thread(import_threads, memory, opened)

        assert report.messages == 2

    def test_what_is_no_checkpointer_is_named(self, memory: AgentMemory) -> None:
        with pytest.raises(TypeError, match="checkpointer must be a LangGraph checkpointer"):
            import_threads(memory, "threads.sqlite")
