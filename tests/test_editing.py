"""Editing: changing, deleting, restoring, purging and merging records."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from langchain_agentmem import AgentMemory, Memory, Message, SearchResult

ANN = {"configurable": {"user_id": "ann"}}
BOB = {"configurable": {"user_id": "bob"}}
WAYS = ("hybrid", "embedding", "fts")


class CountingEmbeddings(Embeddings):
    """Two directions, cats and everything else; keeps what it was asked to embed."""

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.embedded += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.0] if "cat" in text else [0.0, 1.0]


def ids(result: SearchResult[Any]) -> set[str]:
    return {hit.id for hit in result.results}


def found(memory: AgentMemory, query: str) -> set[str]:
    """The records that have a word or a meaning of the query."""
    memories = memory.search_memories(query, 100, min_similarity=0.5)
    messages = memory.search_conversations(query, 100, min_similarity=0.5)
    return ids(memories) | ids(messages)


class TestUpdate:
    def test_one_record_is_embedded_and_indexed_anew(self, tmp_path: Path) -> None:
        model = CountingEmbeddings()
        with AgentMemory.open(tmp_path, embedding=model) as memory:
            one, other = memory.add_memory("a cat"), memory.add_memory("a dog")
            model.embedded.clear()
            changed = memory.update_memory(one.id, content="a horse")
            assert model.embedded == ["a horse"]
            assert (changed.id, changed.content) == (one.id, "a horse")
            assert changed.updated_at is not None
            assert memory.get(one.id) == changed
            assert found(memory, "cat") == set()
            assert one.id in found(memory, "horse")
            assert memory.get(other.id) == other
            assert memory.status().pending == 0

    @pytest.mark.parametrize(
        ("field", "value", "query"),
        [
            ("tags", ["bicycle"], "bicycle"),
            ("scene_name", "garage", "garage"),
            ("type", "anything at all", None),
            ("priority", -1, None),
            ("strength", 0.0, None),
            ("metadata", {"a": [1]}, None),
            ("session_key", "s-2", None),
        ],
    )
    def test_each_field(
        self, keyword_memory: AgentMemory, field: str, value: Any, query: str | None
    ) -> None:
        saved = keyword_memory.add_memory("flat tyre")
        changes: dict[str, Any] = {field: value}
        changed = keyword_memory.update_memory(saved.id, **changes)
        assert getattr(changed, field) == value
        assert (
            changed.model_copy(update={field: getattr(saved, field), "updated_at": None}) == saved
        )
        (hit,) = keyword_memory.search_memories(query or "tyre").results
        assert getattr(hit, field) == value

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"content": " "}, "content"),
            ({"strength": 1.1}, "strength"),
            ({"strength": -0.1}, "strength"),
            ({"type": ""}, "type"),
            ({"tags": [1]}, "tags"),
            ({"colour": "red"}, "colour"),
        ],
    )
    def test_an_unusable_change_is_named_and_changes_nothing(
        self, keyword_memory: AgentMemory, changes: Any, named: str
    ) -> None:
        saved = keyword_memory.add_memory("tea")
        with pytest.raises(ValueError, match=named):
            keyword_memory.update_memory(saved.id, **changes)
        assert keyword_memory.get(saved.id) == saved

    async def test_async(self, keyword_memory: AgentMemory) -> None:
        saved = await keyword_memory.aadd_memory("tea", config=ANN)
        await keyword_memory.aupdate_memory(saved.id, content="coffee", config=ANN)
        assert await keyword_memory.adelete(saved.id, config=BOB) == 0
        assert await keyword_memory.adelete(saved.id, config=ANN) == 1
        assert await keyword_memory.arestore(saved.id, config=ANN) == 1
        assert await keyword_memory.apurge(saved.id, config=ANN) == 1
        assert await keyword_memory.aget(saved.id) is None


class TestTags:
    def test_they_are_searched_and_returned(self, keyword_memory: AgentMemory) -> None:
        keyword_memory.add_memory("tea", tags=["Green Leaf", "hot"])
        (hit,) = keyword_memory.search_memories("leaf").results
        assert hit.tags == ["Green Leaf", "hot"]

    @pytest.mark.parametrize(
        ("stored", "tags"),
        [("{", []), ("{}", []), ('"a"', []), ("[1, null]", []), ('["a", 1]', ["a"]), ("", [])],
    )
    def test_unreadable_ones_are_an_empty_list(
        self, keyword_memory: AgentMemory, stored: str, tags: list[str]
    ) -> None:
        saved = keyword_memory.add_memory("tea", tags=["hot"])
        with keyword_memory._database.write() as connection:
            connection.execute("UPDATE memories SET tags = ?", (stored,))
        (hit,) = keyword_memory.search_memories("tea").results
        record = keyword_memory.get(saved.id)
        assert isinstance(record, Memory)
        assert (hit.tags, record.tags) == (tags, tags)
        assert keyword_memory.update_memory(saved.id, content="coffee").tags == tags


@pytest.fixture(params=WAYS)
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A memory with a memory and a message on cats, on each path of a search."""
    if request.param == "embedding":
        from sqlite_without_fts5 import remove_full_text

        remove_full_text(monkeypatch)
    model: Any = "none" if request.param == "fts" else CountingEmbeddings()
    with AgentMemory.open(tmp_path / "kept", embedding=model) as memory:
        memory.add_memories([Memory(id="fact", content="the cat Qwertz")])
        memory.add_messages("s", [Message(id="line", role="user", content="the cat Qwertz")])
        assert memory.status().strategy == request.param
        assert found(memory, "cat") == {"fact", "line"}
        yield memory


class TestDelete:
    def test_it_is_gone_from_every_search_at_once_and_can_be_restored(
        self, kept: AgentMemory
    ) -> None:
        assert kept.delete(["fact", "line", "unknown", "fact"]) == 2
        assert found(kept, "cat") == set()
        assert (kept.get("fact"), kept.get("line")) == (None, None)
        assert kept.delete(["fact", "line"]) == 0
        assert kept.restore("fact") == 1
        assert found(kept, "cat") == {"fact"}
        assert kept.restore(["fact", "line"]) == 1
        assert found(kept, "cat") == {"fact", "line"}
        assert kept.restore(["fact", "line", "unknown"]) == 0

    def test_a_deleted_memory_cannot_be_changed(self, kept: AgentMemory) -> None:
        kept.delete("fact")
        with pytest.raises(ValueError, match="there is no memory 'fact'"):
            kept.update_memory("fact", content="a dog")

    def test_said_again_it_comes_back(self, kept: AgentMemory) -> None:
        kept.delete("fact")
        again = kept.add_memory("the cat Qwertz")
        assert again.id == "fact"
        assert found(kept, "cat") == {"fact", "line"}


class TestPurge:
    @pytest.mark.parametrize("deleted_before", [False, True])
    @pytest.mark.parametrize("changed_before", [False, True])
    def test_its_text_is_in_no_file(
        self, tmp_path: Path, *, deleted_before: bool, changed_before: bool
    ) -> None:
        with AgentMemory.open(tmp_path / "m", embedding=CountingEmbeddings()) as memory:
            memory.add_memory("a dog stays", tags=["Staysqq"])
            fact = memory.add_memory("Zyxwvq cat", scene_name="Scenezq", tags=["Tagzq"])
            (line,) = memory.add_messages("Sessionzq", [("user", "Zyxwvq cat")]).records
            assert _files_with(tmp_path, b"Zyxwvq")
            if changed_before:
                memory.update_memory(fact.id, content="Newzq cat")
            if deleted_before:
                memory.delete([fact.id, line.id])
            assert memory.purge([fact.id, line.id, "unknown"]) == 2
            assert memory.purge([fact.id, line.id]) == 0
            assert memory.restore([fact.id, line.id]) == 0
            for word in (b"zyxwvq", b"scenezq", b"tagzq", b"sessionzq", b"newzq"):
                assert _files_with(tmp_path, word) == []
            assert fact.id not in memory._vectors.index.ids(_memories())  # type: ignore[union-attr]
        for word in (b"zyxwvq", b"scenezq", b"tagzq", b"sessionzq", b"newzq"):
            assert _files_with(tmp_path, word) == []
        assert _files_with(tmp_path, b"staysqq")


def _memories() -> Any:
    from langchain_agentmem.storage.kinds import MEMORIES

    return MEMORIES


def _files_with(folder: Path, word: bytes) -> list[str]:
    """The files, Chroma's among them, that hold a word in any case."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any("chroma" in path.parts for path in files)
    return [path.name for path in files if word.lower() in path.read_bytes().lower()]


class TestMerge:
    def test_the_first_survives_with_the_tags_of_all(self, memory: AgentMemory) -> None:
        a = memory.add_memory("likes green tea", tags=["tea", "green"], strength=0.2, config=ANN)
        b = memory.add_memory("drinks sencha daily", tags=["green", "sencha"], config=ANN)
        c = memory.add_memory("no coffee", strength=0.4, config=ANN)
        merged = memory.merge_memories([a.id, b.id, c.id], "drinks sencha, no coffee", config=ANN)
        assert merged == memory.get(a.id)
        assert (merged.content, merged.strength) == ("drinks sencha, no coffee", 1.0)
        assert merged.tags == ["tea", "green", "sencha"]
        assert (memory.get(b.id), memory.get(c.id)) == (None, None)
        for query in ("sencha", "green", "coffee", "tea"):
            assert ids(memory.search_memories(query, config=ANN)) == {a.id}
        assert memory.restore([b.id, c.id]) == 2
        assert memory.status().pending == 0

    def test_without_a_text_the_survivor_keeps_its_own(self, keyword_memory: AgentMemory) -> None:
        a, b = keyword_memory.add_memory("one"), keyword_memory.add_memory("two", tags=["b"])
        assert keyword_memory.merge_memories([a.id, b.id]).content == "one"
        assert keyword_memory.search_memories("one two").total == 1

    @pytest.mark.parametrize(
        ("asked", "content", "named"),
        [
            ([], None, "at least two different memories, not 0"),
            (["ann-1"], None, "at least two different memories, not 1"),
            (["ann-1", "ann-1"], None, "at least two different memories, not 1"),
            ("ann-1", None, "at least two different memories, not 1"),
            (["ann-1", "unknown"], None, "there is no memory 'unknown'"),
            (["ann-1", "gone"], None, "there is no memory 'gone'"),
            (["ann-1", "line"], None, "there is no memory 'line'"),
            (["ann-1", "bob-1"], None, "different owners"),
            (["ann-1", "nobody"], None, "different owners"),
            (["ann-1", "ann-2"], "  ", "content"),
        ],
    )
    def test_what_cannot_be_merged_is_named_and_nothing_changes(
        self, keyword_memory: AgentMemory, asked: Any, content: str | None, named: str
    ) -> None:
        for id_, config in (("ann-1", ANN), ("ann-2", ANN), ("gone", ANN), ("bob-1", BOB)):
            record = Memory(id=id_, content=f"tea {id_}", tags=[id_])
            keyword_memory.add_memories([record], config=config)
        keyword_memory.add_memories([Memory(id="nobody", content="tea of nobody")])
        keyword_memory.add_messages("s", [Message(id="line", role="user", content="tea")])
        keyword_memory.delete("gone")
        before = keyword_memory.search_memories("tea", 100).to_dict()
        with pytest.raises(ValueError, match=named):
            keyword_memory.merge_memories(asked, content)
        assert keyword_memory.search_memories("tea", 100).to_dict() == before

    async def test_async(self, keyword_memory: AgentMemory) -> None:
        a, b = [keyword_memory.add_memory(text, config=ANN).id for text in ("one", "two")]
        with pytest.raises(ValueError, match="there is no memory"):
            await keyword_memory.amerge_memories([a, b], config=BOB)
        assert (await keyword_memory.amerge_memories([a, b], "both", config=ANN)).content == "both"


class TestTimes:
    """`after` and `before` include their ends; a date means its whole day."""

    @pytest.mark.parametrize(
        ("after", "before", "expected"),
        [
            ("2026-05-02", "2026-05-02", {2}),
            ("2026-05-02", None, {2, 3}),
            (None, "2026-05-02", {1, 2}),
            ("2026-05-02T12:00:00Z", "2026-05-02T12:00:00Z", {2}),
            ("2026-05-02T12:00:01Z", None, {3}),
            (None, "2026-05-02T11:59:59Z", {1}),
            ("2026-05-02T14:00:00+02:00", "2026-05-02T14:00:00+02:00", {2}),
            ("2026-05-03", "2026-05-01", set()),
        ],
    )
    def test_in_both_searches(
        self, keyword_memory: AgentMemory, after: Any, before: Any, expected: set[int]
    ) -> None:
        for day in (1, 2, 3):
            at = f"2026-05-0{day}T12:00:00Z"
            keyword_memory.add_memory(f"tea {day}", created_at=at)
            message = Message(role="user", content=f"tea {day}", recorded_at=at)
            keyword_memory.add_messages("s", [message])
        for search in (keyword_memory.search_memories, keyword_memory.search_conversations):
            hits = search("tea", 100, after=after, before=before).results
            assert {int(hit.content[-1]) for hit in hits} == expected

    @pytest.mark.parametrize(
        ("role", "total"), [(None, 2), ("user", 1), ("assistant", 1), ("system", 1), ("tool", 1)]
    )
    def test_a_role(self, keyword_memory: AgentMemory, role: str | None, total: int) -> None:
        roles: Any = ("user", "assistant", "system", "tool")
        lines = [Message(role=role, content=f"tea {role}") for role in roles]
        keyword_memory.add_messages("s", lines)
        hits = keyword_memory.search_conversations("tea", role=role).results
        assert len(hits) == total
        assert role is None or hits[0].role == role
