"""A memory is also found by the messages it was distilled from, as far as the turn sees them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.storage import sources
from langchain_agentmem.storage.kinds import LIVE, MEMORIES, Condition
from langchain_agentmem.storage.schema import MIGRATIONS
from langchain_agentmem.storage.selection import select

ANN: dict[str, Any] = {"configurable": {"user_id": "ann"}}
BEN: dict[str, Any] = {"configurable": {"user_id": "ben"}}
SAID = "The zeppelin lands at the quarry on Friday"


def told(id: str = "d1", content: str = SAID, **fields: Any) -> Message:
    return Message.model_validate({"id": id, "role": "user", "content": content} | fields)


def distilled(*sources: object, content: str = "Ann expects a visitor", **fields: Any) -> Memory:
    metadata = {"source_message_ids": list(sources)}
    return Memory.model_validate(
        {"id": "visit", "content": content, "metadata": metadata, "session_key": "s"} | fields
    )


def found(memory: AgentMemory, query: str = "zeppelin quarry", **options: Any) -> list[str]:
    return [hit.id for hit in memory.search_memories(query, **options).results]


@pytest.fixture
def linked(keyword_memory: AgentMemory) -> AgentMemory:
    keyword_memory.add_messages("s", [told()])
    keyword_memory.add_memories([distilled("d1")])
    return keyword_memory


def test_the_words_of_its_source_find_a_memory(linked: AgentMemory) -> None:
    (hit,) = linked.search_memories("zeppelin quarry").results
    assert (hit.id, hit.source, hit.keyword_rank) == ("visit", "d1", 1)


def test_its_own_words_find_it_without_a_source(linked: AgentMemory) -> None:
    (hit,) = linked.search_memories("visitor").results
    assert (hit.id, hit.source) == ("visit", None)


@pytest.mark.parametrize("first", ["messages", "memories"])
def test_either_may_come_first(keyword_memory: AgentMemory, first: str) -> None:
    if first == "messages":
        keyword_memory.add_messages("s", [told()])
    keyword_memory.add_memories([distilled("d1")])
    if first == "memories":
        assert found(keyword_memory) == []
        keyword_memory.add_messages("s", [told()])
    assert found(keyword_memory) == ["visit"]


def test_what_both_say_comes_before_what_one_says(linked: AgentMemory) -> None:
    linked.add_memory("A zeppelin and a quarry were on the stamp of an old letter in the attic")
    linked.add_memories([distilled("d1", id="both", content="Ann awaits the zeppelin")])
    assert found(linked)[0] == "both"


def test_the_best_of_several_sources_counts(keyword_memory: AgentMemory) -> None:
    keyword_memory.add_messages(
        "s", [told(), told("d2", "A quarry"), told("d3", "Nothing of the kind")]
    )
    keyword_memory.add_memories([distilled("d3", "d2", "d1")])
    (hit,) = keyword_memory.search_memories("zeppelin quarry").results
    assert hit.source == "d1"


@pytest.mark.parametrize("how", ["delete", "purge", "update"])
def test_a_source_that_is_gone_gives_nothing(linked: AgentMemory, how: str) -> None:
    if how == "update":
        linked.add_messages("s", [told(content="Something else")])
    else:
        getattr(linked, how)("d1")
    assert found(linked) == []


@pytest.mark.parametrize("how", ["delete", "purge"])
def test_a_memory_that_is_gone_is_not_found_by_its_source(linked: AgentMemory, how: str) -> None:
    getattr(linked, how)("visit")
    assert found(linked) == []
    if how == "delete":
        linked.restore("visit")
        assert found(linked) == ["visit"]


@pytest.mark.parametrize("scene", ["hobby", None])
@pytest.mark.parametrize("lend_to", ["nothing", "another scene"])
def test_better_sources_of_nothing_that_is_looked_for_are_passed_over(
    keyword_memory: AgentMemory, lend_to: str, scene: str | None
) -> None:
    better = [told(f"n{i}", "zeppelin quarry") for i in range(100)]
    keyword_memory.add_messages("s", [*better, told()])
    keyword_memory.add_memories([distilled("d1", scene_name="hobby")])
    if lend_to == "another scene":
        keyword_memory.add_memories(
            distilled(m.id, id=f"o{m.id}", content=f"Note {m.id}", scene_name="work")
            for m in better
        )
        scene = "hobby"  # without a filter, those that lend more come first

    (hit,) = keyword_memory.search_memories("zeppelin quarry", scene=scene).results
    assert (hit.id, hit.source) == ("visit", "d1")


@pytest.mark.parametrize("most", [5000, 0], ids=["looked at each", "too many"])
def test_a_source_whose_id_others_have_is_found_among_better_ones(
    keyword_memory: AgentMemory, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(sources, "_MOST_SOURCES", most)
    better = [told(f"n{i}", "zeppelin quarry") for i in range(100)]
    keyword_memory.add_messages("other", [told("d1", "Nothing of the kind"), *better])
    keyword_memory.add_messages("s", [told()])
    keyword_memory.add_memories([distilled("d1", scene_name="hobby")])

    (hit,) = keyword_memory.search_memories("zeppelin quarry", scene="hobby").results
    assert hit.id == "visit"
    assert hit.source not in (None, "d1")


def test_a_filter_makes_looking_at_sources_little_dearer(keyword_memory: AgentMemory) -> None:
    """Counted in SQLite's own steps, which no busy machine changes."""
    numbers = range(2000)
    keyword_memory.add_messages(
        "s", [told(f"d{n}", f"zeppelin {'quarry ' * (n % 3)} number {n}") for n in numbers]
    )
    keyword_memory.add_memories(
        distilled(f"d{n}", id=f"m{n}", content=f"Note {n}", scene_name=f"scene {n % 20}.")
        for n in numbers
    )
    index = keyword_memory._keywords
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    def cost(scene: str | None) -> int:
        nonlocal steps
        steps = 0
        condition = (
            LIVE
            if scene is None
            else LIVE.and_also(Condition("r.scene_name = ?", (scene,), selective=True))
        )
        with keyword_memory._database.read() as connection:
            selection = select(connection, MEMORIES, condition)
            connection.set_progress_handler(count, 100)
        try:
            found = index.search(
                MEMORIES,
                "zeppelin quarry",
                condition,
                10,
                source_condition=LIVE,
                selection=selection,
            )
        finally:
            with keyword_memory._database.read() as connection:
                connection.set_progress_handler(None, 0)
        assert len(found.ranking) == 10
        return steps

    assert cost("scene 7.") < 3 * cost(None)


def test_links_follow_the_metadata(linked: AgentMemory) -> None:
    linked.update_memory("visit", metadata={"source_message_ids": ["d9"]})
    assert found(linked) == []
    linked.update_memory("visit", metadata={"source_message_ids": "d1"})
    assert found(linked) == ["visit"]
    linked.update_memory("visit", metadata={})
    assert found(linked) == []


def test_a_source_that_a_turn_may_not_see_gives_nothing(keyword_memory: AgentMemory) -> None:
    keyword_memory.add_messages("s", [told()], config=ANN)
    keyword_memory.add_memories([distilled("d1", scope_id="ben")])
    assert found(keyword_memory, config=BEN) == []
    # Not even to a turn that sees both: they are not of one owner.
    assert found(keyword_memory) == []
    keyword_memory.add_messages("s", [told()], config=BEN)  # the same id, another message
    assert found(keyword_memory, config=BEN) == ["visit"]
    assert found(keyword_memory, config=ANN) == []


def test_the_same_id_in_another_conversation_is_another_message(
    keyword_memory: AgentMemory,
) -> None:
    keyword_memory.add_messages("t", [told()])
    keyword_memory.add_memories([distilled("d1")])
    assert found(keyword_memory) == []
    keyword_memory.add_messages("s", [told(content="The zeppelin is late")])
    assert found(keyword_memory, "late") == ["visit"]
    assert found(keyword_memory, "quarry") == []


def test_system_text_gives_nothing(keyword_memory: AgentMemory) -> None:
    keyword_memory.add_messages("s", [told(role="system")])
    keyword_memory.add_memories([distilled("d1")])
    assert found(keyword_memory) == []


@pytest.mark.parametrize(
    "filters", [{"type": "persona"}, {"scene": "garden"}, {"scope": "organization"}], ids=str
)
def test_filters_hold_for_what_its_source_finds(
    linked: AgentMemory, filters: dict[str, str]
) -> None:
    config = {"configurable": {"organization_id": "acme"}}
    assert found(linked, config=config) == ["visit"]
    assert found(linked, config=config, **filters) == []


@pytest.mark.parametrize("query", ['"zeppelin lands"', "zeppelin AND quarry", "zeppelin NOT moon"])
def test_operators_ask_for_the_memory_itself(linked: AgentMemory, query: str) -> None:
    linked.add_memories([Memory(id="own", content="The zeppelin lands in the quarry")])
    assert found(linked, query) == ["own"]


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_the_first_is_the_first_for_every_limit(keyword_memory: AgentMemory, limit: int) -> None:
    keyword_memory.add_messages("s", [told(f"d{n}", f"{SAID} {'again ' * n}") for n in range(30)])
    keyword_memory.add_memories(
        [distilled(f"d{n}", id=f"m{n}", content=f"Visit {n} of a zeppelin") for n in range(30)]
    )
    assert found(keyword_memory, limit=limit) == found(keyword_memory, limit=30)[:limit]


def bring_back_to(version: int, location: str) -> None:
    """Take from a database what versions after this one have added."""
    with closing(sqlite3.connect(":memory:")) as earlier:
        for script in MIGRATIONS[:version]:
            earlier.executescript(script)
        kept = {row[0] for row in earlier.execute("SELECT name FROM sqlite_master")}
    with closing(sqlite3.connect(location)) as database, database:
        made = database.execute(
            "SELECT type, name FROM sqlite_master WHERE sql IS NOT NULL "
            "AND name NOT GLOB '*_fts*' AND name NOT GLOB '*_terms'"
        ).fetchall()
        for type_ in ("trigger", "index", "table"):
            for name in (name for of, name in made if of == type_ and name not in kept):
                database.execute(f"DROP {type_} {name}")
        database.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_memories_that_were_there_before_are_linked(tmp_path: Path, version: int) -> None:
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        memory.add_messages("s", [told()])
        memory.add_memories([distilled("d1"), distilled(3, " ", id="other", content="No source")])
        location = memory.status().location
    bring_back_to(version, location)
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        assert found(memory) == ["visit"]
        memory.add_messages("s", [told("3", "A zebra at the well")])
        assert found(memory, "zebra") == ["other"]
