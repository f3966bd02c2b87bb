"""Who stands around a message: the same conversation of the same owner, in order of time."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from storage_parts import StorageParts

from langchain_agentmem import Memory, Message
from langchain_agentmem.storage.conversation import Surroundings, line_of, surroundings, within
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES, RecordKind

Sides = tuple[list[str], list[str]]


class Talk(StorageParts):
    """A store, and what is said in it; ids are what is said."""

    def say(self, id_: str, minute: int, **fields: Any) -> None:
        given = {"session_key": "s", "role": "user", "content": id_, **fields}
        at = f"2026-05-01T10:{minute:02}:00Z"
        self.store.save(MESSAGES, [Message.model_validate({"id": id_, "recorded_at": at, **given})])

    def around(self, id_: str, reach: int = 2) -> Sides:
        return self.store.conversation(MESSAGES, [id_], reach)[id_]


@pytest.fixture
def talk() -> Iterator[Talk]:
    """Five messages, a minute apart."""
    with closing(Database(None)) as database:
        made = Talk(database)
        for minute, id_ in enumerate("abcde"):
            made.say(id_, minute)
        yield made


def test_a_neighbour_that_is_purged_while_it_is_looked_up_is_left_out(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def then_purge(*arguments: Any) -> dict[int, Surroundings]:
        found = surroundings(*arguments)
        talk.store.purge(["b", "e"])
        return found

    monkeypatch.setattr("langchain_agentmem.storage.record_store.surroundings", then_purge)

    assert talk.around("c") == (["a"], ["d"])


@pytest.mark.parametrize(
    ("id_", "reach", "before", "after"),
    [
        ("c", 1, "b", "d"),
        ("c", 2, "ab", "de"),
        ("c", 5, "ab", "de"),
        ("a", 2, "", "bc"),
        ("b", 2, "a", "cd"),
        ("e", 2, "cd", ""),
        ("e", 5, "abcd", ""),
    ],
)
def test_both_sides_come_in_the_order_of_the_conversation_up_to_its_ends(
    talk: Talk, id_: str, reach: int, before: str, after: str
) -> None:
    assert talk.around(id_, reach) == (list(before), list(after))


def test_time_comes_before_arrival() -> None:
    with closing(Database(None)) as database:
        talk = Talk(database)
        for id_, minute in [("last", 9), ("first", 1), ("middle", 5)]:
            talk.say(id_, minute)

        assert talk.around("middle") == (["first"], ["last"])


def test_at_one_time_the_first_to_arrive_stands_first() -> None:
    with closing(Database(None)) as database:
        talk = Talk(database)
        for id_ in ("z", "m", "a"):
            talk.say(id_, 0)

        assert talk.around("z") == ([], ["m", "a"])
        assert talk.around("m") == (["z"], ["a"])
        assert talk.around("a") == (["z", "m"], [])


def test_what_arrives_late_stands_where_its_time_says(talk: Talk) -> None:
    talk.say("between", 1, recorded_at="2026-05-01T10:01:30Z")

    assert talk.around("c") == (["b", "between"], ["d", "e"])
    assert talk.around("between") == (["a", "b"], ["c", "d"])


OTHERS = [
    pytest.param({"session_key": "t"}, id="another session"),
    pytest.param({"scope_id": "ben"}, id="another user"),
    pytest.param({"scope": "organization"}, id="another scope"),
    pytest.param({"scope": "organization", "scope_id": "acme"}, id="an organization"),
    pytest.param({"role": "system"}, id="a system prompt"),
    pytest.param({"role": "tool"}, id="tool output"),
]


@pytest.mark.parametrize("fields", OTHERS)
def test_what_is_not_said_in_this_conversation_stands_around_nothing(
    talk: Talk, fields: dict[str, str]
) -> None:
    talk.say("other", 2, **fields)

    assert talk.around("c", 5) == (["a", "b"], ["d", "e"])


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_what_is_said_in_this_conversation_does(talk: Talk, role: str) -> None:
    talk.say("other", 2, role=role)

    assert talk.around("c", 5) == (["a", "b"], ["other", "d", "e"])


@pytest.mark.parametrize("fields", OTHERS[:4])
def test_each_conversation_has_its_own_line(talk: Talk, fields: dict[str, str]) -> None:
    for minute, id_ in enumerate("ABC"):
        talk.say(id_, minute, **fields)

    assert talk.around("B", 5) == (["A"], ["C"])
    assert talk.around("b", 5) == (["a"], ["c", "d", "e"])


@pytest.mark.parametrize("role", ["system", "tool"])
def test_what_was_said_stands_around_a_system_or_tool_message(talk: Talk, role: str) -> None:
    talk.say("other", 2, role=role)

    assert talk.around("other") == (["b", "c"], ["d", "e"])


def test_a_deleted_message_leaves_the_line_and_a_restored_one_is_back(talk: Talk) -> None:
    talk.store.delete(["b"])
    assert talk.around("c") == (["a"], ["d", "e"])

    talk.store.restore(["b"])
    assert talk.around("c") == (["a", "b"], ["d", "e"])

    talk.store.purge(["b"])
    assert talk.around("c") == (["a"], ["d", "e"])


def test_a_message_that_is_moved_in_time_moves_in_the_line(talk: Talk) -> None:
    talk.say("a", 3)  # at the time of d, and it came before d

    assert talk.around("c") == (["b"], ["a", "d"])
    assert talk.around("d") == (["c", "a"], ["e"])


def test_other_words_leave_a_message_where_it_is(talk: Talk) -> None:
    talk.say("b", 1, content="other words")

    assert talk.around("c") == (["a", "b"], ["d", "e"])


def test_many_are_asked_for_at_once(talk: Talk) -> None:
    assert talk.store.conversation(MESSAGES, ["a", "e", "unknown"], 1) == {
        "a": ([], ["b"]),
        "e": (["d"], []),
    }
    assert talk.store.conversation(MESSAGES, [], 1) == {}


def test_neighbours_are_grouped_by_their_distance(talk: Talk) -> None:
    assert talk.store.neighbours(MESSAGES, ["b", "c"], 2) == {
        "b": [["a", "c"], ["d"]],
        "c": [["b", "d"], ["a", "e"]],
    }


def test_memories_have_no_context(talk: Talk) -> None:
    talk.store.save(MEMORIES, [Memory(id="m1", content="one"), Memory(id="m2", content="two")])

    assert talk.store.conversation(MEMORIES, ["m1"], 2) == {}
    assert talk.store.neighbours(MEMORIES, ["m1"], 2) == {}


@pytest.mark.parametrize(("kind", "known"), [(MESSAGES, True), (MEMORIES, False)])
def test_rows_stand_around_rows_nearest_first(
    talk: Talk, kind: RecordKind[Any, Any], known: bool
) -> None:
    with talk.database.read() as connection:
        around = surroundings(connection, kind, [3], 2)

    assert around == ({3: Surroundings(before=(2, 1), after=(4, 5))} if known else {})


def test_a_line_is_read_forwards() -> None:
    assert line_of(3, Surroundings(before=(2, 1), after=(4, 5))) == [1, 2, 3, 4, 5]
    assert line_of(3, Surroundings(before=(), after=())) == [3]


@pytest.mark.parametrize(
    ("position", "reach", "before", "after"),
    [
        (0, 2, (), (2, 3)),
        (1, 2, (1,), (3, 4)),
        (2, 1, (2,), (4,)),
        (2, 9, (2, 1), (4, 5)),
        (4, 2, (4, 3), ()),
    ],
)
def test_what_stands_around_a_place_of_a_line(
    position: int, reach: int, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    assert within([1, 2, 3, 4, 5], position, reach) == Surroundings(before, after)


@pytest.mark.parametrize(("distance", "there"), [(1, [2, 4]), (2, [1]), (3, [])])
def test_at_a_distance_stand_two_at_the_most(distance: int, there: list[int]) -> None:
    assert Surroundings(before=(2, 1), after=(4,)).at_distance(distance) == there
