"""What callers hand over becomes records of the right owner and conversation."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.capture import as_memories, as_messages
from langchain_agentmem.scopes import Turn

ANNA = Turn(user_id="anna", persona_id="tutor", thread_id="t1", organization_id="acme")
NOBODY = Turn()


@pytest.mark.parametrize(
    ("memory", "turn", "owner"),
    [
        (Memory(content="x"), NOBODY, ("user", "")),
        (Memory(content="x"), ANNA, ("user", "anna")),
        (Memory(content="x"), Turn(thread_id="t1"), ("user", "")),
        (Memory(content="x", scope="thread"), ANNA, ("thread", "t1")),
        (Memory(content="x", scope="persona"), ANNA, ("persona", "anna::tutor")),
        (Memory(content="x", scope="organization"), ANNA, ("organization", "acme")),
        (Memory(content="x", scope="thread"), NOBODY, ("thread", "")),
        (Memory(content="x", scope_id="ben"), ANNA, ("user", "ben")),
        (Memory(content="x", scope="thread", scope_id="t9"), ANNA, ("thread", "t9")),
    ],
)
def test_a_record_is_its_own_owners_else_its_turns(
    memory: Memory, turn: Turn, owner: tuple[str, str]
) -> None:
    (filed,) = as_memories([memory], turn)

    assert (filed.scope, filed.scope_id) == owner


def test_a_scope_that_the_turn_cannot_resolve_is_refused() -> None:
    with pytest.raises(ValueError, match=r'scope "persona" needs .*persona_id'):
        as_memories([Memory(content="x", scope="persona")], Turn(user_id="anna"))


@pytest.mark.parametrize(
    "other", ["text", {"content": "x"}, None, Message(role="user", content="x")]
)
def test_what_is_no_memory_is_named_by_its_position(other: Any) -> None:
    with pytest.raises(TypeError, match=r"memories\[1\] is a"):
        as_memories([Memory(content="x"), other], NOBODY)


def test_messages_of_every_form_are_captured_in_order() -> None:
    given = [
        HumanMessage("one", id="m1"),
        ("assistant", "two"),
        {"role": "user", "content": "three"},
        Message(role="tool", content="four", recorded_at="2023-05-08T12:00:00Z"),
        "five",
    ]

    messages, skipped = as_messages("s1", given, ANNA)

    assert skipped == 0
    assert [message.content for message in messages] == ["one", "two", "three", "four", "five"]
    assert [message.role for message in messages] == ["user", "assistant", "user", "tool", "user"]
    assert {message.session_key for message in messages} == {"s1"}
    assert {message.scope_id for message in messages} == {"anna"}
    assert messages[3].recorded_at == datetime(2023, 5, 8, 12, tzinfo=UTC)


def test_messages_without_a_time_are_recorded_now_and_in_order() -> None:
    messages, _ = as_messages("s1", [HumanMessage(str(i)) for i in range(20)], NOBODY)
    times = [message.recorded_at for message in messages]

    assert times == sorted(set(times))
    assert abs(datetime.now(UTC) - times[0]) < timedelta(minutes=1)
    # The time is not the message's own say: under its id, the first one stands.
    assert all("recorded_at" not in message.model_fields_set for message in messages)


@pytest.mark.parametrize(
    "without_text",
    [
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}]),
        HumanMessage([{"type": "image_url", "image_url": {"url": "data:"}}]),
        ToolMessage("", tool_call_id="1"),
        RemoveMessage(id="m1"),
    ],
)
def test_messages_without_text_are_skipped_and_counted(without_text: Any) -> None:
    messages, skipped = as_messages("s1", [without_text, HumanMessage("text")], NOBODY)

    assert [message.content for message in messages] == ["text"]
    assert skipped == 1


def test_nothing_is_captured_of_nothing() -> None:
    assert as_messages("s1", [], NOBODY) == ([], 0)


@pytest.mark.parametrize("given", ["text", {"role": "user", "content": "x"}, None, 5])
def test_what_is_no_list_of_messages_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="messages must be a list of messages, not"):
        as_messages("s1", given, NOBODY)


@pytest.mark.parametrize("given", [HumanMessage("x"), Message(role="user", content="x")])
def test_a_message_without_a_list_around_it_is_refused_as_such(given: Any) -> None:
    with pytest.raises(TypeError, match="messages must be a list of messages, not"):
        as_messages("s1", given, NOBODY)


@pytest.mark.parametrize(
    "unreadable",
    [
        5,
        None,
        object(),
        ("narrator", "x"),
        {"text": "x"},
        b"x",
        {"role": "tool", "content": "without the id of its call"},
        ("tool", "without the id of its call"),
    ],
)
def test_an_unreadable_message_is_named_by_its_position(unreadable: Any) -> None:
    with pytest.raises(ValueError, match=r"^messages\[1\] cannot be read"):
        as_messages("s1", [HumanMessage("fine"), unreadable], NOBODY)


@pytest.mark.parametrize(
    ("session_key", "own", "expected"),
    [
        ("s1", "", "s1"),
        (" s1 ", "", "s1"),
        ("s1", "s1", "s1"),
        (None, "s2", "s2"),
        ("", "s2", "s2"),
    ],
)
def test_a_message_belongs_to_the_session_that_is_named(
    session_key: str | None, own: str, expected: str
) -> None:
    message = Message(role="user", content="x", session_key=own)

    ((filed,), _) = as_messages(session_key, [message], NOBODY)

    assert filed.session_key == expected


def test_a_message_of_another_session_is_refused() -> None:
    message = Message(role="user", content="x", session_key="s2")

    with pytest.raises(ValueError, match=r"messages\[0\] belongs to session 's2', not to 's1'"):
        as_messages("s1", [message], NOBODY)


@pytest.mark.parametrize("session_key", [None, "", "  "])
def test_a_message_of_no_session_is_refused(session_key: str | None) -> None:
    with pytest.raises(ValueError, match=r"session_key: messages\[0\] belongs to no conversation"):
        as_messages(session_key, [HumanMessage("x")], NOBODY)


@pytest.mark.parametrize("content", ["", " \n", "\u200b", "\ufeff\u2060", "\x1b"])
def test_a_message_that_shows_nothing_is_skipped(keyword_memory: AgentMemory, content: str) -> None:
    report = keyword_memory.add_messages("s", [HumanMessage(content), HumanMessage("tea")])
    assert (report.saved, report.skipped) == (1, 1)
