"""`Memory` and `Message` are well-formed from the moment they are made."""

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic import ValidationError

from langchain_agentmem import Memory, Message
from langchain_agentmem.records import (
    clean_text,
    format_time,
    from_epoch_us,
    parse_time,
    parse_time_range,
    to_epoch_us,
)

NOON = datetime(2023, 5, 8, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "moment"),
    [
        (NOON, NOON),
        (datetime(2023, 5, 8, 12), NOON),  # noqa: DTZ001  (a time without a zone is the point)
        (datetime(2023, 5, 8, 14, tzinfo=timezone(timedelta(hours=2))), NOON),
        (date(2023, 5, 8), datetime(2023, 5, 8, tzinfo=UTC)),
        ("2023-05-08T12:00:00Z", NOON),
        ("2023-05-08T12:00:00", NOON),
        ("2023-05-08 14:00+02:00", NOON),
        ("  2023-05-08T12:00:00Z\n", NOON),
        ("2023-05-08", datetime(2023, 5, 8, tzinfo=UTC)),
        ("20230508", datetime(2023, 5, 8, tzinfo=UTC)),
        (1683547200, NOON),
        (1683547200.0, NOON),
        (1683547200000, NOON),
        ("1683547200", NOON),
        ("1683547200000", NOON),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-86400, datetime(1969, 12, 31, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_as_utc(given: Any, moment: datetime) -> None:
    parsed = parse_time(given)

    assert parsed == moment
    assert parsed.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "given",
    [
        None,
        True,
        "",
        "yesterday",
        "2023-13-01",
        "2023-05-08T25:00",
        math.nan,
        math.inf,
        1e30,
        [],
        {},
        b"2023-05-08",
        datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
    ],
)
def test_what_is_no_time_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot read .* as a time"):
        parse_time(given)


@pytest.mark.parametrize("given", ["9999-12-31T23:59:59-12:00", "soon " * 5000])
def test_what_was_given_is_named_as_it_was_but_not_at_length(given: str) -> None:
    with pytest.raises(ValueError, match="cannot read") as error:
        parse_time(given)
    assert repr(given)[:100] in str(error.value)
    assert len(str(error.value)) < 400


def test_the_letters_of_a_time_may_be_small() -> None:
    assert parse_time("2023-05-08t13:56:00z") == parse_time("2023-05-08T13:56:00Z")


@pytest.mark.parametrize(
    "moment",
    [
        NOON,
        NOON + timedelta(microseconds=1),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
)
def test_times_survive_text_and_epoch_to_the_microsecond(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment
    assert from_epoch_us(to_epoch_us(moment)) == moment


def test_times_are_written_in_utc_with_a_z() -> None:
    assert format_time(datetime(2023, 5, 8, 13, 56, tzinfo=UTC)) == "2023-05-08T13:56:00Z"
    cest = datetime(2023, 5, 8, 14, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(cest) == "2023-05-08T12:00:00Z"


LAST_MOMENT = datetime(2023, 5, 8, 23, 59, 59, 999999, tzinfo=UTC)


@pytest.mark.parametrize("day", ["2023-05-08", "20230508", " 2023-05-08 ", date(2023, 5, 8)])
def test_a_date_as_the_end_of_a_range_means_its_whole_day(day: Any) -> None:
    assert parse_time_range(day, day) == (datetime(2023, 5, 8, tzinfo=UTC), LAST_MOMENT)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2023-05", date(2023, 5, 1), date(2023, 5, 31)),
        (" 2024-02 ", date(2024, 2, 1), date(2024, 2, 29)),
        ("2023-12", date(2023, 12, 1), date(2023, 12, 31)),
        ("2023", date(2023, 1, 1), date(2023, 12, 31)),
        ("9999-12", date(9999, 12, 1), date(9999, 12, 31)),
        ("0001", date(1, 1, 1), date(1, 12, 31)),
    ],
)
def test_a_month_or_a_year_is_a_range_of_all_of_it(text: str, first: date, last: date) -> None:
    ends = datetime.combine(first, time(), UTC), datetime.combine(last, time.max, UTC)
    assert parse_time_range(text, text) == ends


@pytest.mark.parametrize(
    "text", ["2023-13", "2023-00", "0000", "202305", "2023-02-30", "23-05", "2023-5", "٢٠٢٣"]
)
def test_what_is_no_day_month_or_year_is_refused(text: str) -> None:
    for after, before in ((text, None), (None, text)):
        with pytest.raises(ValueError, match=f"^{'after' if after else 'before'}: cannot read"):
            parse_time_range(after, before)


@pytest.mark.parametrize("text", ["2023-05", "2023"])
def test_a_record_has_a_time_and_no_month(text: str) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        parse_time(text)


@pytest.mark.parametrize("moment", ["2023-05-08T12:00:00.000Z", NOON, 1683547200])
def test_a_time_as_the_end_of_a_range_means_that_time(moment: Any) -> None:
    assert parse_time_range(None, moment) == (None, NOON)


@pytest.mark.parametrize("printed", ["2023-05-08T12:00:00Z", "2023-05-08 14:00:00+02:00"])
def test_a_time_as_results_print_it_means_its_whole_second_as_the_end(printed: str) -> None:
    end = NOON + timedelta(seconds=1) - timedelta(microseconds=1)

    assert parse_time_range(printed, printed) == (NOON, end)


@pytest.mark.parametrize("nothing", [None, "", "   "])
def test_a_range_may_be_open(nothing: Any) -> None:
    assert parse_time_range(nothing, nothing) == (None, None)


def test_the_last_day_that_there_is_can_end_a_range() -> None:
    assert parse_time_range(None, "9999-12-31")[1] == datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("after", "before", "named"), [("soon", None, "after"), (None, "soon", "before")]
)
def test_an_unreadable_end_of_a_range_is_named(after: Any, before: Any, named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: cannot read 'soon'"):
        parse_time_range(after, before)


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ("plain", "plain"),
        ("\ud83d", "\ufffd"),
        ("a\udc00b", "a\ufffdb"),
        ("\U0001f600", "\U0001f600"),
        ("nul \x00 stays", "nul \x00 stays"),
    ],
)
def test_lone_surrogates_are_replaced(given: str, clean: str) -> None:
    assert clean_text(given) == clean
    assert Memory(content=f"x{given}").content == f"x{clean}"


def test_a_memory_has_sensible_defaults() -> None:
    memory = Memory(content="Prefers dark mode")

    assert (memory.id, memory.type, memory.priority, memory.scene_name) == ("", "episodic", 50, "")
    assert (memory.scope, memory.scope_id, memory.strength) == ("user", "", 1.0)
    assert (memory.tags, memory.metadata, memory.updated_at) == ([], {}, None)
    assert abs(datetime.now(UTC) - memory.created_at) < timedelta(minutes=1)


def test_labels_are_trimmed_and_contents_are_kept() -> None:
    memory = Memory(
        id=" m1 ",
        content="  indented\n",
        type=" persona ",
        scene_name=" home ",
        scope_id=" u1 ",
        session_key=" s1 ",
        tags=[" ui "],
    )

    assert memory.content == "  indented\n"
    assert (memory.id, memory.type, memory.scene_name) == ("m1", "persona", "home")
    assert (memory.scope_id, memory.session_key, memory.tags) == ("u1", "s1", ["ui"])


@pytest.mark.parametrize(
    ("tags", "kept"),
    [(None, []), ("ui", ["ui"]), (("a", "b"), ["a", "b"]), (iter(["a"]), ["a"]), ([], [])],
)
def test_tags_are_a_list_of_texts(tags: Any, kept: list[str]) -> None:
    assert Memory(content="x", tags=tags).tags == kept


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", ""),
        ("content", " \n\t"),
        ("content", None),
        ("content", 5),
        ("id", "x" * 513),
        ("type", " "),
        ("type", None),
        ("priority", "high"),
        ("priority", 2**31),
        ("priority", 1.5),
        ("strength", 1.01),
        ("strength", -0.01),
        ("strength", math.nan),
        ("scope", "team"),
        ("tags", 5),
        ("tags", {"a": 1}),
        ("tags", [1]),
        ("created_at", "soon"),
        ("created_at", None),
        ("updated_at", "soon"),
        ("metadata", []),
        ("metadata", "text"),
        ("metadata", {"when": NOON}),
        ("metadata", {"x": math.nan}),
        ("metadata", {1: "x"}),
        ("metadata", {"x": {"y": {1, 2}}}),
        ("colour", "red"),
    ],
)
def test_an_unusable_field_of_a_memory_is_named(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"(?m)^{field}"):
        Memory.model_validate({"content": "x", field: value})


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"a": math.inf}, r"metadata\.a is inf"),
        ({"a": [1, {"b": math.nan}]}, r"metadata\.a\[1\]\.b is nan"),
        ({"a": {"b": NOON}}, r"metadata\.a\.b is a datetime"),
        ({"a": {2: 1}}, r"metadata\.a has the key 2"),
        ({"a": [2**64]}, r"metadata\.a\[0\] is an integer of more than 64 bits"),
        ({"a": -(2**63) - 1}, r"metadata\.a is an integer of more than 64 bits"),
        ({"a": 10**5000}, r"metadata\.a is an integer of more than 64 bits"),
    ],
)
def test_what_json_cannot_hold_is_named_by_its_path(metadata: Any, path: str) -> None:
    with pytest.raises(ValueError, match=path):
        Memory(content="x", metadata=metadata)


def test_metadata_is_a_copy_without_surrogates_or_tuples() -> None:
    inner: dict[str, Any] = {"list": (1, 2), "text": "\ud800", "nothing": None}

    memory = Memory(content="x", metadata={"inner": inner})
    inner["list"] = "changed"

    assert memory.metadata == {"inner": {"list": [1, 2], "text": "\ufffd", "nothing": None}}


def test_metadata_that_is_nested_beyond_reason_is_refused_with_a_value_error() -> None:
    nested: dict[str, Any] = {}
    for _ in range(5000):
        nested = {"a": nested}

    with pytest.raises(ValueError, match="metadata"):
        Memory(content="x", metadata=nested)


def test_metadata_none_is_an_empty_object() -> None:
    assert Memory.model_validate({"content": "x", "metadata": None}).metadata == {}


def test_records_are_frozen() -> None:
    memory = Memory(content="x")

    with pytest.raises(ValidationError):
        setattr(memory, "content", "y")  # noqa: B010  (mypy knows that it is frozen)


@pytest.mark.parametrize(
    ("given", "role"),
    [
        ("user", "user"),
        ("human", "user"),
        (" Human ", "user"),
        ("HumanMessageChunk", "user"),
        ("assistant", "assistant"),
        ("ai", "assistant"),
        ("AIMessageChunk", "assistant"),
        ("system", "system"),
        ("developer", "system"),
        ("tool", "tool"),
        ("function", "tool"),
    ],
)
def test_the_names_that_roles_go_by_are_known(given: Any, role: str) -> None:
    assert Message(role=given, content="x").role == role


@pytest.mark.parametrize("role", ["", "robot", None, 5, [], {}])
def test_an_unknown_role_is_refused_with_the_roles_there_are(role: Any) -> None:
    with pytest.raises(ValueError, match="use one of user, assistant, system, tool"):
        Message(role=role, content="x")


@pytest.mark.parametrize(
    ("message", "role", "content"),
    [
        (HumanMessage("hi"), "user", "hi"),
        (AIMessage("hi"), "assistant", "hi"),
        (AIMessageChunk(content="hi"), "assistant", "hi"),
        (SystemMessage("hi"), "system", "hi"),
        (ToolMessage("hi", tool_call_id="1"), "tool", "hi"),
        (FunctionMessage(name="f", content="hi"), "tool", "hi"),
        (ChatMessage(role="assistant", content="hi"), "assistant", "hi"),
        (("user", "hi"), "user", "hi"),
        ("hi", "user", "hi"),
        ({"role": "assistant", "content": "hi"}, "assistant", "hi"),
        (HumanMessage(["a", "b"]), "user", "a\nb"),
        (
            HumanMessage(
                [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "data:"}},
                    {"type": "text", "text": "here"},
                ]
            ),
            "user",
            "look\nhere",
        ),
    ],
)
def test_a_langchain_message_is_converted(message: Any, role: str, content: str) -> None:
    converted = Message.from_langchain(message, "s1", NOON)

    assert converted is not None
    assert (converted.role, converted.content) == (role, content)
    assert (converted.session_key, converted.recorded_at) == ("s1", NOON)


def test_id_and_name_of_a_langchain_message_are_kept() -> None:
    converted = Message.from_langchain(HumanMessage("hi", id="m1", name="Anna"))

    assert converted is not None
    assert (converted.id, converted.name) == ("m1", "Anna")


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}]),
        AIMessage("  "),
        HumanMessage([{"type": "image_url", "image_url": {"url": "data:"}}]),
        HumanMessage([]),
    ],
)
def test_a_message_without_text_is_none(message: BaseMessage) -> None:
    assert Message.from_langchain(message) is None


def test_a_message_of_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown role 'narrator'"):
        Message.from_langchain(ChatMessage(role="narrator", content="x"))


@pytest.mark.parametrize(
    "content", ["", " ", "\n\t", "\u200b", "\ufeff \u2060", "\u3000", "\x00", "\u3164\u2800"]
)
def test_content_that_shows_nothing_is_blank(content: str) -> None:
    for record_type, fields in ((Memory, {}), (Message, {"role": "user"})):
        with pytest.raises(ValidationError, match="must not be blank"):
            record_type.model_validate({"content": content, **fields})


@pytest.mark.parametrize("content", ["\U0001f333", "\u200b.", "\ue000", "\u0301"])
def test_content_that_shows_anything_is_not(content: str) -> None:
    assert Memory(content=content).content == content


@pytest.mark.parametrize(
    "given",
    [
        {"role": "critic", "content": "x"},
        {"role": "tool", "content": "x"},
        {"content": "x"},
        {"role": "user", "content": 5},
        ("user",),
        5,
        None,
        object,
    ],
    ids=repr,
)
def test_whatever_cannot_be_read_as_a_message_is_one_kind_of_error(given: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        Message.from_langchain(given)
