"""What is kept of a conversation that a graph's state holds, seen again and again."""

import json
from typing import Any

import exported
import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic import ValidationError
from scripted_model import call

from langchain_agentmem import AgentMemory, Capture, Recall
from langchain_agentmem.storage.database import Database

ANN: Any = {"configurable": {"user_id": "ann", "thread_id": "t1"}}
BOB: Any = {"configurable": {"user_id": "bob", "thread_id": "t1"}}


def kept(memory: AgentMemory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exported.lines(memory, only="conversations")]


def texts(memory: AgentMemory) -> list[tuple[str, str]]:
    return [(each["role"], each["content"]) for each in kept(memory)]


def capture(memory: AgentMemory, messages: Any, config: Any = ANN) -> Any:
    """Capture as a new process would: with nothing known."""
    return Capture(memory, timeout=60).save(messages, config)


TALK: list[AnyMessage] = [
    SystemMessage("You are kind.", id="s"),
    HumanMessage("Which tea?", id="h1"),
    AIMessage("Let me see.", id="a1", tool_calls=[call("memory_search", query="tea")]),
    ToolMessage("Found: green tea", tool_call_id="call-memory_search-1", id="x1"),
    AIMessage("", id="a2", tool_calls=[call("memory_search", 2, query="tea")]),
    ToolMessage("Found: green tea", tool_call_id="call-memory_search-2", id="x2"),
    AIMessage("Green tea.", id="a3"),
]


def test_what_user_and_assistant_said_is_kept(keyword_memory: AgentMemory) -> None:
    report = capture(keyword_memory, TALK)
    assert report.saved == 3
    assert [(m["id"], m["session_key"], m["role"], m["content"]) for m in kept(keyword_memory)] == [
        ("h1", "t1", "user", "Which tea?"),
        ("a1", "t1", "assistant", "Let me see."),
        ("a3", "t1", "assistant", "Green tea."),
    ]
    assert {message["scope_id"] for message in kept(keyword_memory)} == {"ann"}


def test_seen_again_it_is_kept_once_with_its_first_time(keyword_memory: AgentMemory) -> None:
    capture(keyword_memory, TALK[:3])
    first = kept(keyword_memory)
    capture(keyword_memory, TALK)
    assert capture(keyword_memory, TALK).saved == 0
    assert kept(keyword_memory)[:2] == first
    assert len(kept(keyword_memory)) == 3


def test_one_object_saves_nothing_twice(keyword_memory: AgentMemory) -> None:
    one = Capture(keyword_memory, timeout=60)
    report = one.save(TALK, ANN)
    assert report is not None
    assert report.saved == 3
    assert one.save(TALK, ANN) is None
    more = one.save([*TALK, HumanMessage("Thanks", id="h2")], ANN)
    assert more is not None
    assert (more.saved, more.duplicates) == (1, 0)


def test_what_changed_under_its_id_is_replaced(keyword_memory: AgentMemory) -> None:
    """As by a middleware that redacts an answer."""
    one = Capture(keyword_memory, timeout=60)
    for text in ("The code is 4711", "The code is [redacted]", "The code is 4711"):
        one.save([HumanMessage("Code?", id="h"), AIMessage(text, id="a")], ANN)
        assert texts(keyword_memory) == [("user", "Code?"), ("assistant", text)]


def test_the_same_ids_in_the_threads_of_two_users_are_two_messages(
    keyword_memory: AgentMemory,
) -> None:
    one = Capture(keyword_memory, timeout=60)
    for config in (ANN, BOB):
        one.save(TALK, config)
    assert [each["scope_id"] for each in kept(keyword_memory)].count("bob") == 3
    assert len(kept(keyword_memory)) == 6


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("others", [("bob",), ("bob", "cid"), ("",)])
def test_in_a_thread_of_several_each_turn_is_kept_for_its_user(
    keyword_memory: AgentMemory, others: tuple[str, ...], ids: bool
) -> None:
    """What one has said to the agent that they share never becomes another's, nor everybody's."""
    one = Capture(keyword_memory, timeout=60)
    talk: list[AnyMessage] = []
    turns = ["ann", *others, "ann", *others]
    for n, user in enumerate(turns):
        config: Any = {"configurable": {"user_id": user, "thread_id": "room"}}
        talk.append(HumanMessage(f"Question {n}", id=f"h{n}" if ids else None))
        one.save(talk, config)
        talk.append(AIMessage(f"Answer {n}", id=f"a{n}" if ids else None))
        one.save(talk, config)
        capture(keyword_memory, talk, config)
    assert [(each.get("scope_id", ""), each["content"]) for each in kept(keyword_memory)] == [
        (user, f"{what} {n}") for n, user in enumerate(turns) for what in ("Question", "Answer")
    ]
    assert Capture(keyword_memory, timeout=60).save(talk[:-2], ANN) is not None  # another thread


def room(user: str, thread: str = "room") -> Any:
    return {"configurable": {"user_id": user, "thread_id": thread}}


def shared_talk(ids: bool) -> list[AnyMessage]:
    """Ann asks and is answered, twice; then bob."""
    said = ["Question 0", "Answer 0", "Question 1", "Answer 1", "Question 2", "Answer 2"]
    kinds = [HumanMessage, AIMessage] * 3
    return [
        kind(text, id=f"m{n}" if ids else None)
        for n, (kind, text) in enumerate(zip(kinds, said, strict=True))
    ]


def owners(memory: AgentMemory) -> list[tuple[str, str]]:
    return [(each.get("scope_id", ""), each["content"]) for each in kept(memory)]


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("other", ["bob", ""])
@pytest.mark.parametrize("remove", ["delete", "purge"])
def test_what_a_user_has_removed_becomes_no_other_users(
    keyword_memory: AgentMemory, remove: str, other: str, ids: bool
) -> None:
    talk = shared_talk(ids)
    for end in (2, 4):
        capture(keyword_memory, talk[:end], room("ann"))
    hers = {each["content"]: each["id"] for each in kept(keyword_memory)}
    getattr(keyword_memory, remove)([hers["Question 0"], hers["Answer 1"]])
    capture(keyword_memory, talk, room(other))
    assert owners(keyword_memory) == [
        ("ann", "Answer 0"),
        ("ann", "Question 1"),
        (other, "Question 2"),
        (other, "Answer 2"),
    ]


def test_what_is_only_deleted_stays_deleted_for_its_own_user(keyword_memory: AgentMemory) -> None:
    talk = shared_talk(ids=True)
    capture(keyword_memory, talk[:4], room("ann"))
    keyword_memory.delete(["m0", "m3"])
    capture(keyword_memory, talk, room("ann"))
    assert [text for _, text in owners(keyword_memory)] == [
        "Answer 0",
        "Question 1",
        "Question 2",
        "Answer 2",
    ]


@pytest.mark.parametrize("first", ["room", "copy"])
def test_equal_ids_in_two_threads_leave_each_thread_to_its_users(
    keyword_memory: AgentMemory, first: str
) -> None:
    """As in a copied thread, or with a client that numbers its messages."""
    talk = shared_talk(ids=True)
    for thread in (first, "copy" if first == "room" else "room"):
        capture(keyword_memory, talk[:4], room("ann", thread))
    capture(keyword_memory, talk, room("bob"))
    assert [text for user, text in owners(keyword_memory) if user == "bob"] == [
        "Question 2",
        "Answer 2",
    ]


@pytest.mark.parametrize("ids", [True, False])
def test_what_could_not_be_kept_for_its_user_becomes_no_other_users(
    keyword_memory: AgentMemory, ids: bool
) -> None:
    talk = shared_talk(ids)
    capture(keyword_memory, talk[:2], room("ann"))
    capture(keyword_memory, talk, room("bob"))  # ann's second turn was not captured
    assert owners(keyword_memory) == [
        ("ann", "Question 0"),
        ("ann", "Answer 0"),
        ("bob", "Question 2"),
        ("bob", "Answer 2"),
    ]


def test_an_edit_of_an_earlier_message_reaches_its_owner_alone(keyword_memory: AgentMemory) -> None:
    talk = shared_talk(ids=True)
    capture(keyword_memory, talk[:4], room("ann"))
    talk[0] = HumanMessage("Question [redacted]", id="m0")
    capture(keyword_memory, talk, room("bob"))
    assert ("ann", "Question 0") in owners(keyword_memory)
    capture(keyword_memory, talk, room("ann"))
    assert [text for user, text in owners(keyword_memory) if user == "ann"][:2] == [
        "Question [redacted]",
        "Answer 0",
    ]


def test_conversations_without_a_thread_are_nobody_elses(keyword_memory: AgentMemory) -> None:
    """Two users who begin alike do not share a conversation."""
    talk = shared_talk(ids=False)
    for user in ("ann", "bob"):
        capture(keyword_memory, talk, {"configurable": {"user_id": user}})
    assert owners(keyword_memory) == [
        (user, str(each.content)) for user in ("ann", "bob") for each in talk
    ]


def test_a_long_thread_is_looked_up_at_once(
    keyword_memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = [HumanMessage(f"Question {n}", id=f"m{n}") for n in range(100)]
    reads: list[str] = []
    read = Database.read

    def counted(database: Database) -> Any:
        reads.append("")
        return read(database)

    monkeypatch.setattr(Database, "read", counted)
    counts = []
    for end in (10, 100):
        reads.clear()
        capture(keyword_memory, talk[:end], room("ann", f"{end}"))
        counts.append(len(reads))
    assert counts[0] == counts[1]


def test_messages_without_ids_are_told_apart_by_their_place(keyword_memory: AgentMemory) -> None:
    """In a state that gives no ids, "ok" said twice is said twice, however often it is seen."""
    talk: list[Any] = [("user", "ok"), ("assistant", "Fine."), ("user", "ok")]
    for end in (1, 2, 3, 3):
        capture(keyword_memory, talk[:end])
    assert texts(keyword_memory) == talk


@pytest.mark.parametrize(
    "id_", ["", " ", "1" * 512, "1" * 513, "\ud800", "a\x00b", "\n</memories>"]
)
def test_no_id_of_a_message_loses_it(keyword_memory: AgentMemory, id_: str) -> None:
    for answer in ("Green tea.", "[redacted]"):
        try:
            talk = [HumanMessage("Which tea?", id="h"), AIMessage(answer, id=id_)]
        except ValidationError:
            pytest.skip("this version of pydantic lets no message have such an id")
        capture(keyword_memory, talk)
        assert capture(keyword_memory, talk).saved == 0
        assert texts(keyword_memory)[-1] == ("assistant", answer)
    assert len(texts(keyword_memory)) == (2 if id_.strip() else 3)  # what has no id is new text


def test_without_a_thread_the_beginning_names_the_conversation(keyword_memory: AgentMemory) -> None:
    config = {"configurable": {"user_id": "ann"}}
    for end in (1, 2, 3):
        # As a graph without a checkpointer does it: new ids for the same messages each time.
        talk = [HumanMessage("Roof", id=f"{end}a"), AIMessage("Which?", id=f"{end}b")]
        capture(keyword_memory, [*talk, HumanMessage("Mine", id=f"{end}c")][:end], config)
    capture(keyword_memory, [HumanMessage("Tea", id="1a")], config)
    assert [content for _, content in texts(keyword_memory)] == ["Roof", "Which?", "Mine", "Tea"]
    sessions = [each["session_key"] for each in kept(keyword_memory)]
    assert len(set(sessions[:3])) == 1
    assert sessions[3] != sessions[0]
    assert all(session.startswith("no-thread-") for session in sessions)


def test_a_recalled_block_in_a_message_is_cut_out(keyword_memory: AgentMemory) -> None:
    keyword_memory.add_memory("green tea </memories>", config=ANN)
    block = Recall(keyword_memory, timeout=60).block([HumanMessage("Which tea?")], ANN)
    assert "green tea" in block
    capture(
        keyword_memory,
        [
            HumanMessage(f"{block}\n\nWhich tea?", id="1"),
            AIMessage(f"I read:\n{block}\nSo: green.", id="2"),
            HumanMessage(block, id="3"),
            HumanMessage("What is <memories> for? </memories>", id="4"),
        ],
    )
    assert [content.strip() for _, content in texts(keyword_memory)] == [
        "Which tea?",
        "I read:\nSo: green.",
        "What is <memories> for? </memories>",
    ]


def test_other_forms_and_roles(keyword_memory: AgentMemory) -> None:
    capture(
        keyword_memory,
        [
            RemoveMessage(id="gone"),
            {"role": "user", "content": "a dict"},
            ChatMessage(content="of a role of its own", role="critic", id="c1"),
            ChatMessage(content="of the user", role="user", id="c2"),
            HumanMessage("a summary", additional_kwargs={"lc_source": "summarization"}, id="c3"),
            AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "A."}]),
        ],
    )
    assert texts(keyword_memory) == [
        ("user", "a dict"),
        ("user", "of the user"),
        ("assistant", "A."),
    ]


async def test_async(keyword_memory: AgentMemory) -> None:
    report = await Capture(keyword_memory, timeout=60).asave(TALK, ANN)
    assert report is not None
    assert report.saved == 3


def test_a_failure_is_told_in_the_log_and_made_good_later(
    keyword_memory: AgentMemory, caplog: pytest.LogCaptureFixture
) -> None:
    one = Capture(keyword_memory, timeout=60)
    broken: Any = {"configurable": {"user_id": ["ann"], "thread_id": "t1"}}
    assert one.save(TALK, broken) is None
    assert "capture failed; the run goes on without it" in caplog.text
    assert "Which tea?" not in caplog.text
    report = one.save(TALK, ANN)
    assert report is not None
    assert report.saved == 3


UNREADABLE = [
    {"role": "critic", "content": "secret"},
    {"role": "tool", "content": "secret"},
    {"type": "human"},
    5,
    None,
    ["secret"],
    ("user",),
    object,
]


@pytest.mark.parametrize("item", UNREADABLE, ids=repr)
def test_what_is_no_message_loses_no_other(
    keyword_memory: AgentMemory, item: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """In a state that is a plain list, say: it stays there, and is seen with every turn."""
    keyword_memory.add_memory("green tea", config=ANN)
    one = Capture(keyword_memory, timeout=60)
    talk: list[Any] = [("user", "Tea?"), item, ("assistant", "Green."), ("user", "Which tea?")]
    for end in (2, 3, 4):
        one.save(talk[:end], ANN)
    assert texts(keyword_memory) == [talk[0], talk[2], talk[3]]
    assert "green tea" in Recall(keyword_memory, timeout=60).block(talk, ANN)
    assert caplog.text.count(f"messages[1] ({type(item).__name__})") == 1
    assert "secret" not in caplog.text


def test_what_shows_nothing_is_not_said(keyword_memory: AgentMemory) -> None:
    keyword_memory.add_memory("green tea", config=ANN)
    block = Recall(keyword_memory, timeout=60).block([HumanMessage("Which tea?")], ANN)
    talk: list[Any] = [HumanMessage(f"\u200b{block}\u2060"), HumanMessage("Tea?")]
    capture(keyword_memory, talk)
    assert texts(keyword_memory) == [("user", "Tea?")]


def test_unusable_options_are_named(keyword_memory: AgentMemory) -> None:
    with pytest.raises(ValueError, match="timeout"):
        Capture(keyword_memory, timeout=0)


@pytest.mark.parametrize("given", ["tea", HumanMessage("tea"), {"messages": []}, None, 5])
def test_what_is_no_list_of_messages_is_refused(keyword_memory: AgentMemory, given: Any) -> None:
    """A state in place of its messages, say: silence would look like a memory without notes."""
    for call_ in (Capture(keyword_memory).save, Recall(keyword_memory).block):
        with pytest.raises(TypeError, match="messages must be a list of messages, not"):
            call_(given, ANN)


def test_the_log_names_the_key_that_the_config_lacks(caplog: pytest.LogCaptureFixture) -> None:
    with AgentMemory.in_memory(embedding="none", require_scope=True) as memory:
        turn: Any = {"configurable": {"thread_id": "t1"}}
        assert Capture(memory, timeout=60).save(TALK, turn) is None
    assert "capture failed" in caplog.text
    assert 'config["configurable"] names no user_id' in caplog.text
