"""Whose a record is: how it is filed, and which turns see it then."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from langchain_agentmem import AgentMemory, Memory, Message

NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)
ALL_IDS = {"user_id": "u", "persona_id": "p", "thread_id": "t", "organization_id": "o"}
SCOPES = ("user", "persona", "thread", "organization")


def turn(**ids: Any) -> dict[str, Any]:
    return {"configurable": ids}


ALL = turn(**ALL_IDS)


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[AgentMemory]:
    with AgentMemory.open(tmp_path / "s", embedding="none", require_scope=True) as opened:
        yield opened


@pytest.fixture
def shelves(keyword_memory: AgentMemory) -> AgentMemory:
    """A record of each scope of the turn `ALL`, of another's, and under no id."""
    for scope, own in zip(SCOPES, ("u", "u::p", "t", "o"), strict=True):
        for scope_id in (own, f"other {own}", ""):
            label = f"{scope} {scope_id or 'of nobody'}"
            keyword_memory.add_memory(f"tea: {label}", scope=scope, scope_id=scope_id)
            message = Message(role="user", content=f"tea: {label}", scope=scope, scope_id=scope_id)
            keyword_memory.add_messages("s", [message])
    return keyword_memory


def found(memory: AgentMemory, **options: Any) -> set[str]:
    """What both searches find, which is the same."""
    memories = memory.search_memories("tea", 100, **options)
    messages = memory.search_conversations("tea", 100, **options)
    contents = {hit.content.removeprefix("tea: ") for hit in memories.results}
    assert contents == {hit.content.removeprefix("tea: ") for hit in messages.results}
    assert memories.notes == messages.notes
    return contents


UNSCOPED = {f"{scope} of nobody" for scope in SCOPES}


class TestColumns:
    @pytest.mark.parametrize("table", ["memories", "messages"])
    def test_scope_and_scope_id_are_indexed(self, keyword_memory: AgentMemory, table: str) -> None:
        with closing(sqlite3.connect(keyword_memory.status().location)) as connection:
            plan = connection.execute(
                f"EXPLAIN QUERY PLAN SELECT 1 FROM {table} WHERE scope = 'user' AND scope_id = 'u'"  # noqa: S608
            ).fetchone()
        assert "USING" in plan[3]
        assert "(scope=? AND scope_id=?)" in plan[3]


class TestWriting:
    @pytest.mark.parametrize(
        ("config", "scope", "owner"),
        [
            (None, None, ("user", "")),
            (turn(), None, ("user", "")),
            (turn(user_id="u"), None, ("user", "u")),
            (turn(user_id=" u\n"), None, ("user", "u")),
            (turn(user_id=7), None, ("user", "7")),
            (turn(langgraph_user_id="u"), None, ("user", "u")),
            (turn(user_id=" ", langgraph_user_id="u"), None, ("user", "u")),
            (ALL, None, ("user", "u")),
            (ALL, "user", ("user", "u")),
            (ALL, "persona", ("persona", "u::p")),
            (ALL, "thread", ("thread", "t")),
            (ALL, "organization", ("organization", "o")),
            # A one-user agent's memory crosses its threads.
            (turn(thread_id="t"), None, ("user", "")),
            (turn(thread_id="t"), "thread", ("thread", "t")),
            (turn(organization_id="o"), None, ("user", "")),
            (turn(organization_id="o"), "organization", ("organization", "o")),
            (turn(persona_id="p"), None, ("user", "")),
            # Code that names no turn says itself.
            (None, "thread", ("thread", "")),
        ],
    )
    def test_a_record_is_filed_for_the_turn(
        self,
        keyword_memory: AgentMemory,
        config: dict[str, Any] | None,
        scope: Any,
        owner: tuple[str, str],
    ) -> None:
        asked = {"scope": scope} if scope else {}
        memory = keyword_memory.add_memory("tea", config=config, **asked)
        message = Message(role="user", content="tea", **asked)
        report = keyword_memory.add_messages("s", [message], config=config)
        for record in (memory, *report.records):
            stored = keyword_memory.get(record.id)
            assert stored is not None
            assert (stored.scope, stored.scope_id) == owner

    @pytest.mark.parametrize(
        ("config", "scope", "named"),
        [
            (turn(thread_id="t"), "user", '"user_id"'),
            (turn(user_id="u"), "persona", '"persona_id"'),
            (turn(persona_id="p"), "persona", '"user_id"'),
            (turn(user_id="u"), "thread", '"thread_id"'),
            (turn(user_id="u"), "organization", '"organization_id"'),
        ],
    )
    def test_a_scope_that_the_turn_lacks_is_refused(
        self, keyword_memory: AgentMemory, config: dict[str, Any], scope: Any, named: str
    ) -> None:
        with pytest.raises(ValueError, match=rf'scope "{scope}" needs .*{named}'):
            keyword_memory.add_memory("tea", scope=scope, config=config)
        assert keyword_memory.status().memories == 0

    def test_a_record_says_itself_whose_it_is(self, keyword_memory: AgentMemory) -> None:
        record = Memory(content="tea", scope="organization", scope_id=" acme ")
        (stored,) = keyword_memory.add_memories([record], config=ALL).records
        assert (stored.scope, stored.scope_id) == ("organization", "acme")

    @pytest.mark.parametrize(
        ("metadata", "owner"),
        [
            ({"scope_id": "x"}, ("user", "x")),
            ({"scopeId": " x "}, ("user", "x")),
            ({"scope_id": "", "scopeId": "x"}, ("user", "x")),
            ({"scope_id": 5}, ("user", "5")),
            ({"scope": "thread", "scope_id": "x"}, ("thread", "x")),
            ({"scope": "galaxy", "scope_id": "x"}, ("user", "x")),
            ({"scope": "thread"}, ("user", "u")),
            ({"scope_id": "\t"}, ("user", "u")),
        ],
    )
    def test_metadata_names_a_scope_where_the_record_does_not(
        self, keyword_memory: AgentMemory, metadata: dict[str, Any], owner: tuple[str, str]
    ) -> None:
        stored = keyword_memory.add_memory("tea", metadata=metadata, config=turn(user_id="u"))
        assert (stored.scope, stored.scope_id) == owner

    def test_the_same_text_is_one_record_within_a_scope(self, keyword_memory: AgentMemory) -> None:
        owners = [turn(user_id="a"), turn(user_id="b"), turn(user_id="a"), None, None]
        ids = [keyword_memory.add_memory("tea", config=owner).id for owner in owners]
        assert [ids.index(id_) for id_ in ids] == [0, 1, 0, 3, 3]
        assert keyword_memory.status().memories == 3


class TestSeeing:
    @pytest.mark.parametrize(
        ("config", "own"),
        [
            (ALL, {"user u", "persona u::p", "thread t", "organization o"}),
            (turn(user_id="u"), {"user u"}),
            (turn(user_id=" u "), {"user u"}),
            (turn(langgraph_user_id="u"), {"user u"}),
            (turn(user_id="u", persona_id="p"), {"user u", "persona u::p"}),
            (turn(persona_id="p"), set()),
            (turn(thread_id="t"), {"thread t"}),
            (turn(organization_id="o"), {"organization o"}),
            (turn(user_id="unknown"), set()),
            (turn(user_id="U"), set()),
        ],
    )
    def test_a_turn_sees_its_own_and_what_is_nobodys(
        self, shelves: AgentMemory, config: dict[str, Any], own: set[str]
    ) -> None:
        assert found(shelves, config=config) == own | UNSCOPED

    @pytest.mark.parametrize(
        ("scope", "own"),
        [("user", "u"), ("persona", "u::p"), ("thread", "t"), ("organization", "o")],
    )
    def test_a_scope_narrows(self, shelves: AgentMemory, scope: str, own: str) -> None:
        expected = {f"{scope} {own}", f"{scope} of nobody"}
        assert found(shelves, config=ALL, scope=scope) == expected

    @pytest.mark.parametrize("config", [None, {}, turn(), turn(user_id=" ", thread_id=None)])
    def test_without_ids_everything_is_seen(
        self, shelves: AgentMemory, config: dict[str, Any] | None
    ) -> None:
        assert len(found(shelves, config=config)) == 12

    @pytest.mark.parametrize(
        ("config", "scope", "named"),
        [
            (turn(), "user", ["user_id"]),
            (None, "organization", ["organization_id"]),
            (turn(user_id="u"), "thread", ["thread_id"]),
            (turn(user_id="u"), "persona", ["persona_id"]),
            (turn(persona_id="p"), "persona", ["user_id"]),
            (turn(), "persona", ["user_id", "persona_id"]),
            (turn(user_id="u::v", persona_id="p"), "persona", ["user_id"]),
        ],
    )
    def test_a_scope_that_cannot_be_resolved_is_closed(
        self, shelves: AgentMemory, config: Any, scope: str, named: list[str]
    ) -> None:
        assert found(shelves, config=config, scope=scope) == set()
        (note,) = shelves.search_memories("tea", config=config, scope=scope).notes
        assert note.startswith(f'scope "{scope}" needs ')
        keys = ("user_id", "persona_id", "thread_id", "organization_id")
        assert [key for key in keys if key in note] == named

    def test_an_unknown_scope_is_an_error(self, shelves: AgentMemory) -> None:
        with pytest.raises(ValueError, match="scope: unknown scope 'galaxy': use one of thread"):
            shelves.search_memories("tea", scope="galaxy")

    @pytest.mark.parametrize("value", [True, 1.5, ["u"], b"u"])
    def test_an_id_that_is_no_text_is_an_error(self, shelves: AgentMemory, value: Any) -> None:
        with pytest.raises(ValueError, match='"user_id"'):
            shelves.search_memories("tea", config=turn(user_id=value))

    @pytest.mark.parametrize(
        ("mine", "theirs"),
        [(("a", "b::c"), ("a::b", "c")), (("a", ":b"), ("a:", "b"))],
    )
    def test_no_persona_is_taken_for_another_users(
        self, keyword_memory: AgentMemory, mine: tuple[str, str], theirs: tuple[str, str]
    ) -> None:
        config = turn(user_id=mine[0], persona_id=mine[1])
        stored = keyword_memory.add_memory("tea", scope="persona", config=config)
        assert stored.scope_id == "::".join(mine)
        other = turn(user_id=theirs[0], persona_id=theirs[1])
        assert keyword_memory.search_memories("tea", config=config).total == 1
        assert keyword_memory.search_memories("tea", config=other).total == 0
        with pytest.raises(ValueError, match='user_id"\\] without "::"'):
            keyword_memory.add_memory("tea", scope="persona", config=other)


class TestRequiringAScope:
    @pytest.mark.parametrize("config", [None, {}, turn(), turn(user_id=" ")])
    def test_without_ids_nothing_is_seen_and_the_note_says_why(
        self, strict: AgentMemory, config: dict[str, Any] | None
    ) -> None:
        strict.add_memory("tea")
        result = strict.search_memories("tea", config=config)
        assert (result.results, result.strategy, result.message) == ([], "none", None)
        (note,) = result.notes
        assert note == (
            "nothing can be seen without one of user_id, persona_id, thread_id, organization_id "
            'in config["configurable"]'
        )
        assert strict.search_conversations("tea", config=config).notes == result.notes

    def test_with_an_id_it_is_as_ever(self, strict: AgentMemory) -> None:
        strict.add_memory("tea for all")
        strict.add_memory("tea for ann", config=turn(user_id="ann"))
        for user, total in (("ann", 2), ("bob", 1)):
            assert strict.search_memories("tea", config=turn(user_id=user)).total == total

    def test_a_config_without_ids_touches_nothing_but_code_without_one_does(
        self, strict: AgentMemory
    ) -> None:
        memory = strict.add_memory("tea")
        assert strict.get(memory.id, config=turn()) is None
        for touch in (strict.delete, strict.restore, strict.purge):
            with pytest.raises(ValueError, match="nothing can be seen without one of user_id"):
                touch(memory.id, config=turn())
        with pytest.raises(ValueError, match="nothing can be seen without one of user_id"):
            strict.update_memory(memory.id, config=turn(), content="coffee")
        assert strict.get(memory.id) == memory


class TestUnreadableOwners:
    """Metadata that names whose a record is by something else than text."""

    OWNERS = (["ann"], {"id": "ann"}, True, 1.5)

    @pytest.mark.parametrize("key", ["scope_id", "scopeId"])
    @pytest.mark.parametrize("owner", [*OWNERS, ("ann",), {"ann"}, b"ann", NOON], ids=repr)
    def test_it_is_not_saved(self, key: str, owner: object) -> None:
        with pytest.raises(ValueError, match=rf'metadata\["{key}"\] must be text'):
            Memory(content="tea", metadata={key: owner})

    @pytest.mark.parametrize("owner", OWNERS, ids=repr)
    def test_where_another_program_wrote_it_no_turn_reads_it(
        self, tmp_path: Path, owner: object
    ) -> None:
        with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
            memory.add_memories([Memory(id="tea", content="tea")])
        with closing(sqlite3.connect(tmp_path / "m" / "agentmem.sqlite3")) as database:
            written = json.dumps({"scope_id": owner})
            database.execute("UPDATE memories SET metadata = ?", (written,))
            database.commit()
        with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
            assert memory.search_memories("tea", config=turn(user_id="ann")).results == []
            assert memory.get("tea", config=turn(user_id="ann")) is None
            assert memory.get("tea") is not None


@pytest.mark.parametrize("key", ["scope_id", "scopeId"])
def test_what_is_blank_in_metadata_names_nobody(tmp_path: Path, key: str) -> None:
    """Python and SQL read blanks alike: else a record is filed for nobody, and seen by none."""
    blanks = [*filter(str.isspace, map(chr, range(sys.maxunicode + 1))), "", " \u3000\n"]
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        memory.add_memories([Memory(id=f"m{n}", content=f"tea {n}") for n, _ in enumerate(blanks)])
    with closing(sqlite3.connect(tmp_path / "m" / "agentmem.sqlite3")) as database, database:
        for n, blank in enumerate(blanks):
            written = json.dumps({key: blank})
            database.execute("UPDATE memories SET metadata = ? WHERE id = ?", (written, f"m{n}"))
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        hits = memory.search_memories("tea", 100, config=turn(user_id="ann")).results
        assert len(hits) == len(blanks)
        saved = [Memory(content=f"cup {n}", metadata={key: b}) for n, b in enumerate(blanks)]
        memory.add_memories(saved, config=turn(user_id="ann"))
        hits = memory.search_memories("cup", 100, config=turn(user_id="ann")).results
        assert [hit.scope_id for hit in hits] == ["ann"] * len(blanks)


class TestStrays:
    """Records under no scope id whose metadata names one: another writer's, say."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        metadata = [
            {"scope_id": "u"},
            {"scopeId": "u"},
            {"scope": "organization", "scope_id": "o"},
            {"scope": "galaxy", "scope_id": "u"},
            {"scope_id": 9},
            {"colour": "red"},
            {"scope_id": "\t"},
        ]
        with AgentMemory.open(tmp_path / "strays", embedding="none") as memory:
            memory.add_memories(
                [Memory(id=f"m{n}", content=f"tea {n}", metadata=m) for n, m in enumerate(metadata)]
            )
            location = memory.status().location
        with closing(sqlite3.connect(location)) as connection, connection:
            connection.execute("UPDATE memories SET scope = 'user', scope_id = ''")
        return tmp_path / "strays"

    def test_they_are_filed_at_the_next_open(self, folder: Path) -> None:
        with AgentMemory.open(folder, embedding="none") as memory:
            hits = memory.search_memories("tea", 100).results
        assert {hit.id: (hit.scope, hit.scope_id) for hit in hits} == {
            "m0": ("user", "u"),
            "m1": ("user", "u"),
            "m2": ("organization", "o"),
            "m3": ("user", "u"),
            "m4": ("user", "9"),
            "m5": ("user", ""),
            "m6": ("user", ""),
        }

    def test_until_then_no_turn_reads_them(self, folder: Path) -> None:
        with AgentMemory.open(folder, embedding="none") as memory:
            with closing(sqlite3.connect(memory.status().location)) as connection, connection:
                connection.execute("UPDATE memories SET scope = 'user', scope_id = ''")
            for ids in (ALL_IDS, {"user_id": "u"}, {"user_id": "9"}, {"thread_id": "t"}):
                hits = memory.search_memories("tea", 100, config=turn(**ids)).results
                assert {hit.id for hit in hits} == {"m5", "m6"}
                assert memory.get("m0", config=turn(**ids)) is None
                assert memory.delete("m0", config=turn(**ids)) == 0
            assert memory.search_memories("tea", 100).total == 7

    @pytest.mark.parametrize(
        ("id_", "owner"), [("m0", ("user", "u")), ("m2", ("organization", "o"))]
    )
    def test_writing_files_them_too(self, folder: Path, id_: str, owner: tuple[str, str]) -> None:
        with AgentMemory.open(folder, embedding="none") as memory:
            with closing(sqlite3.connect(memory.status().location)) as connection, connection:
                connection.execute("UPDATE memories SET scope = 'user', scope_id = ''")
            with pytest.raises(ValueError, match="different owners"):
                memory.merge_memories(["m0", "m4"])
            changed = memory.update_memory(id_, priority=1)
            assert (changed.scope, changed.scope_id) == owner
