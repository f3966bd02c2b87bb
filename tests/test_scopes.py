"""Whose turn it is, and who sees what."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest

from langchain_agentmem import AgentMemory, Memory
from langchain_agentmem.scopes import Turn, check_scope

ALL_IDS = {"user_id": "u", "persona_id": "p", "thread_id": "t", "organization_id": "o"}


def config(**ids: Any) -> dict[str, Any]:
    return {"configurable": ids}


@pytest.mark.parametrize(
    ("given", "turn"),
    [
        (None, Turn()),
        ({}, Turn()),
        ({"configurable": None}, Turn()),
        (config(), Turn()),
        (config(**ALL_IDS), Turn("u", "p", "t", "o")),
        (config(user_id="  u  "), Turn("u")),
        (config(user_id=""), Turn()),
        (config(user_id="  "), Turn()),
        (config(user_id=None), Turn()),
        (config(user_id=17), Turn("17")),
        (config(user_id="a.b@c.com"), Turn("a.b@c.com")),
        (config(user_id="\ud800"), Turn("\ufffd")),
        (config(langgraph_user_id="platform"), Turn("platform")),
        (config(user_id="own", langgraph_user_id="platform"), Turn("own")),
        (config(user_id=" ", langgraph_user_id="platform"), Turn("platform")),
        (
            config(thread_id=UUID("12345678-1234-5678-1234-567812345678")),
            Turn(thread_id="12345678-1234-5678-1234-567812345678"),
        ),
        (config(checkpoint_ns="x", other=5), Turn()),
    ],
)
def test_a_turn_is_read_from_the_config(given: Any, turn: Turn) -> None:
    assert Turn.from_config(given) == turn


@pytest.mark.parametrize("key", [*ALL_IDS, "langgraph_user_id"])
@pytest.mark.parametrize("value", [True, False, 1.5, ["u"], {"id": "u"}, b"u"])
def test_an_id_that_is_no_text_is_named(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf'"{key}"'):
        Turn.from_config(config(**{key: value}))


@pytest.mark.parametrize(
    ("scope", "scope_id"),
    [("user", "u"), ("persona", "u::p"), ("thread", "t"), ("organization", "o")],
)
def test_a_turn_has_an_id_in_each_scope_that_it_names(scope: str, scope_id: str) -> None:
    assert Turn("u", "p", "t", "o").scope_id(scope) == scope_id
    assert Turn().scope_id(scope) is None


@pytest.mark.parametrize("turn", [Turn(user_id="u"), Turn(persona_id="p")])
def test_a_persona_needs_its_user(turn: Turn) -> None:
    assert turn.scope_id("persona") is None


@pytest.mark.parametrize(
    ("turn", "scope", "named"),
    [
        (Turn(), "user", ["user_id"]),
        (Turn(), "thread", ["thread_id"]),
        (Turn(), "organization", ["organization_id"]),
        (Turn(), "persona", ["user_id", "persona_id"]),
        (Turn(user_id="u"), "persona", ["persona_id"]),
        (Turn(persona_id="p"), "persona", ["user_id"]),
    ],
)
def test_the_config_keys_that_a_scope_lacks_are_named(
    turn: Turn, scope: str, named: list[str]
) -> None:
    expected = " and ".join(f'config["configurable"]["{name}"]' for name in named)

    denied = turn.sees(scope).denied
    assert denied is not None
    assert expected in denied
    with pytest.raises(ValueError, match=named[0]):
        turn.files_under(scope)


@pytest.mark.parametrize("scope", ["", "team", "USER", 5, None, [], {}])
def test_an_unknown_scope_is_refused_with_the_scopes_there_are(scope: Any) -> None:
    with pytest.raises(ValueError, match="use one of thread, user, persona, organization"):
        check_scope(scope)


@pytest.mark.parametrize(
    ("turn", "scope", "filed"),
    [
        (Turn(), None, ("user", "")),
        (Turn(thread_id="t"), None, ("user", "")),
        (Turn("u", "p", "t", "o"), None, ("user", "u")),
        (Turn("u", "p", "t", "o"), "thread", ("thread", "t")),
        (Turn("u", "p", "t", "o"), "persona", ("persona", "u::p")),
        (Turn("u", "p", "t", "o"), "organization", ("organization", "o")),
    ],
)
def test_new_records_are_filed_under_their_turn(
    turn: Turn, scope: str | None, filed: tuple[str, str]
) -> None:
    assert turn.files_under(scope) == filed


OWNERS = {
    "unscoped user": ("user", ""),
    "unscoped thread": ("thread", ""),
    "unscoped persona": ("persona", ""),
    "unscoped organization": ("organization", ""),
    "user u": ("user", "u"),
    "user v": ("user", "v"),
    "thread t": ("thread", "t"),
    "thread s": ("thread", "s"),
    "persona u::p": ("persona", "u::p"),
    "persona v::p": ("persona", "v::p"),
    "organization o": ("organization", "o"),
    "organization n": ("organization", "n"),
    # An id of one scope says nothing in another.
    "thread u": ("thread", "u"),
    "user t": ("user", "t"),
}
UNSCOPED = {name for name in OWNERS if name.startswith("unscoped")}


@pytest.fixture(scope="module")
def owned() -> Iterator[AgentMemory]:
    """A memory with one record for each owner, all with the same words but for the owner."""
    with closing(AgentMemory.in_memory(embedding="none")) as memory:
        memory.add_memories(
            [
                Memory(id=name, content="same secret", scope=scope, scope_id=scope_id)
                for name, (scope, scope_id) in OWNERS.items()
            ]
        )
        yield memory


@pytest.mark.parametrize(
    ("ids", "scope", "seen"),
    [
        ({}, None, set(OWNERS)),
        ({"user_id": "u"}, None, UNSCOPED | {"user u"}),
        ({"user_id": "nobody"}, None, UNSCOPED),
        ({"thread_id": "t"}, None, UNSCOPED | {"thread t"}),
        ({"organization_id": "o"}, None, UNSCOPED | {"organization o"}),
        ({"persona_id": "p"}, None, UNSCOPED),
        ({"user_id": "u", "persona_id": "p"}, None, UNSCOPED | {"user u", "persona u::p"}),
        (
            ALL_IDS,
            None,
            UNSCOPED | {"user u", "persona u::p", "thread t", "organization o"},
        ),
        (ALL_IDS, "user", {"unscoped user", "user u"}),
        (ALL_IDS, "thread", {"unscoped thread", "thread t"}),
        (ALL_IDS, "persona", {"unscoped persona", "persona u::p"}),
        (ALL_IDS, "organization", {"unscoped organization", "organization o"}),
        ({"thread_id": "t"}, "user", set()),
        ({}, "user", set()),
        ({"user_id": "u'; DROP TABLE memories; --"}, None, UNSCOPED),
        ({"user_id": "u%"}, None, UNSCOPED),
        ({"user_id": "U"}, None, UNSCOPED),
    ],
)
def test_a_search_sees_what_its_turn_may_see(
    owned: AgentMemory, ids: dict[str, str], scope: str | None, seen: set[str]
) -> None:
    result = owned.search_memories("secret", 100, scope=scope, config=config(**ids))

    assert {hit.id for hit in result.results} == seen
