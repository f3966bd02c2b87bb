"""Where SQLite was built without FTS5: FTS4, and where that is missing too, vectors alone."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlite_without_fts5 import remove_fts5, remove_full_text

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.database import Database

Remove = Callable[[pytest.MonkeyPatch], None] | None
SQLITES: dict[str, Remove] = {"fts5": None, "fts4": remove_fts5, "none": remove_full_text}


def open_with(
    sqlite: str, folder: Path, monkeypatch: pytest.MonkeyPatch, embedding: str = "none"
) -> AgentMemory:
    """Open a folder as a program does whose SQLite has this full-text module at best."""
    monkeypatch.undo()
    remove = SQLITES[sqlite]
    if remove is not None:
        remove(monkeypatch)
    return AgentMemory.open(folder, embedding=embedding)


def contents(memory: AgentMemory, query: str) -> list[str]:
    return [hit.content for hit in memory.search_memories(query, 20).results]


class TestFallingBack:
    @pytest.mark.parametrize(
        ("sqlite", "embedding", "index", "strategy"),
        [
            ("fts5", "local", "fts5", "hybrid"),
            ("fts4", "local", "fts4", "hybrid"),
            ("none", "local", None, "embedding"),
            ("fts5", "none", "fts5", "fts"),
            ("fts4", "none", "fts4", "fts"),
            ("none", "none", None, "none"),
        ],
    )
    def test_the_status_says_which(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        sqlite: str,
        embedding: str,
        index: str | None,
        strategy: str,
    ) -> None:
        with open_with(sqlite, tmp_path, monkeypatch, embedding) as memory:
            memory.add_memory("the cat sleeps on the warm roof")
            status = memory.status()
            assert (status.keyword_index, status.strategy) == (index, strategy)
            assert bool(status.problems) == (index is None)
            result = memory.search_memories("cat")
            assert result.strategy == strategy
            assert result.total == (strategy != "none")
            if index is None:
                (note,) = result.notes
                assert note.startswith("keyword search is off: this SQLite has no FTS")
                assert bool(result.message) == (strategy == "none")

    def test_more_matching_terms_rank_higher(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with open_with("fts4", tmp_path, monkeypatch) as memory:
            for text in ("red", "red green blue", "red green", "yellow"):
                memory.add_memory(text)
            hits = memory.search_memories("red green blue").results
        assert [hit.content for hit in hits] == ["red green blue", "red green", "red"]
        assert [hit.keyword_rank for hit in hits] == [1, 2, 3]
        assert 1 >= hits[0].score > hits[1].score > hits[2].score > 0

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("retrieved", ["retrieval of boats"]),
            ('"of boats"', ["retrieval of boats"]),
            ('"boats of"', ["retrieval of boats"]),
            ("boa*", ["retrieval of boats"]),
            ("口令", ["专属测试口令是闪电阻尼器"]),
            ("ADR-016", ["see ADR-016"]),
            ("see NOT ADR-016", ["see Rome"]),
            ("Rome OR 口令", ["see Rome", "专属测试口令是闪电阻尼器"]),
            ("Rome AND boats AND", ["retrieval of boats", "see Rome"]),
        ],
    )
    def test_it_speaks_the_same_language(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, found: list[str]
    ) -> None:
        with open_with("fts4", tmp_path, monkeypatch) as memory:
            for text in (
                "retrieval of boats",
                "专属测试口令是闪电阻尼器",
                "see ADR-016",
                "see Rome",
            ):
                memory.add_memory(text)
            assert sorted(contents(memory, query)) == found

    @pytest.mark.parametrize(
        "query",
        [
            "oak " + " ".join(f"NOT tree{number}" for number in range(40)),
            "(" * 12 + "oak" + " NOT elm) OR fir) AND oak)" * 4,
            "".join(f"(oak NOT (elm{n} AND " for n in range(8)) + "fir" + "))" * 8,
            " OR ".join(["(oak NOT elm)"] * 18),
        ],
    )
    @pytest.mark.parametrize("sqlite", ["fts4", "fts5"])
    def test_no_expression_is_too_deep(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlite: str, query: str
    ) -> None:
        """FTS4 takes trees of twelve levels; a deeper one is searched as natural text."""
        with open_with(sqlite, tmp_path, monkeypatch) as memory:
            memory.add_memory("oak")
            result = memory.search_memories(query)
            assert (result.total, result.notes) == (1, [])

    def test_it_can_be_verified_and_repaired(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with open_with("fts4", tmp_path, monkeypatch) as memory:
            saved = memory.add_memory("oak")
            memory.update_memory(saved.id, content="elm")
            assert (contents(memory, "oak"), contents(memory, "elm")) == ([], ["elm"])
            assert all(finding.ok for finding in memory.check())
            with sqlite3.connect(memory.status().location) as connection:
                connection.execute("DELETE FROM memories_fts4")
            connection.close()
            assert not all(finding.ok for finding in memory.check())
            assert all(finding.ok for finding in memory.check(repair=True))
            assert contents(memory, "elm") == ["elm"]


class TestGoingBackAndForth:
    @pytest.mark.parametrize(
        "sqlites",
        [
            ("fts5", "fts4", "fts5"),
            ("fts4", "fts5", "fts4"),
            ("fts5", "none", "fts5"),
            ("fts4", "none", "fts4"),
            ("none", "fts4", "none", "fts5", "fts4", "fts4", "fts5"),
        ],
        ids="-".join,
    )
    def test_nothing_is_lost_and_nothing_comes_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlites: tuple[str, ...]
    ) -> None:
        """At each step one record is written, one changed, one deleted and one purged."""
        kept: list[str] = []
        for step, sqlite in enumerate(sqlites):
            with open_with(sqlite, tmp_path, monkeypatch) as memory:
                words = [f"{word}{step}x" for word in ("kept", "old", "deleted", "purged")]
                saved = [memory.add_memory(f"oak {word}") for word in words]
                memory.update_memory(saved[1].id, content=f"oak new{step}x")
                memory.delete(saved[2].id)
                memory.purge(saved[3].id)
                kept += [f"oak kept{step}x", f"oak new{step}x"]
                if sqlite != "none":
                    assert sorted(contents(memory, "oak")) == sorted(kept)
                    assert contents(memory, "old0x deleted0x purged0x") == []
                    assert all(finding.ok for finding in memory.check())

    @pytest.mark.parametrize(
        ("written", "purged"),
        [("fts5", "fts4"), ("fts4", "fts5"), ("fts5", "none"), ("fts4", "none")],
    )
    def test_what_is_purged_is_not_left_in_the_other_ones_tables(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, purged: str
    ) -> None:
        with open_with(written, tmp_path, monkeypatch) as memory:
            saved = memory.add_memory("the password is xyzzyqq")
        with open_with(purged, tmp_path, monkeypatch) as memory:
            assert memory.purge(saved.id) == 1
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert files
        assert [path.name for path in files if b"xyzzyqq" in path.read_bytes()] == []

    def test_what_can_only_be_read_is_read_by_the_index_that_was_filled_last(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for sqlite in ("fts5", "fts4"):
            with open_with(sqlite, tmp_path, monkeypatch) as memory:
                memory.add_memory(f"oak {sqlite}")
        monkeypatch.undo()
        monkeypatch.setattr(Database, "_migrated", _refuse)
        with AgentMemory.open(tmp_path, embedding="none") as memory:
            assert memory.status().keyword_index == "fts4"
            assert sorted(contents(memory, "oak")) == ["oak fts4", "oak fts5"]

    @pytest.mark.parametrize("version", ["fts5 0", "fts5 99"])
    def test_what_another_version_indexed_is_read_with_a_note(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
    ) -> None:
        with open_with("fts5", tmp_path, monkeypatch) as memory:
            memory.add_memory("oak")
            with memory._database.write() as connection:
                connection.execute(
                    "UPDATE meta SET value = ? WHERE key = 'keyword_index'", (version,)
                )
        monkeypatch.setattr(Database, "_migrated", _refuse)
        with AgentMemory.open(tmp_path, embedding="none") as memory:
            found = memory.search_memories("oak")
            assert found.total == 1
            (note,) = found.notes
            assert note.startswith("keywords may miss records")
            assert note in memory.status().problems
            assert note in [finding.detail for finding in memory.check() if not finding.ok]

    def test_what_was_emptied_is_not_asked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with open_with("fts5", tmp_path, monkeypatch) as memory:
            memory.add_memory("oak")
        open_with("none", tmp_path, monkeypatch).close()
        monkeypatch.undo()
        monkeypatch.setattr(Database, "_migrated", _refuse)
        with AgentMemory.open(tmp_path, embedding="none") as memory:
            assert memory.status().keyword_index is None
            assert "its index was emptied" in memory.search_memories("oak").notes[0]

    def test_or_by_none_where_its_module_is_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with open_with("fts5", tmp_path, monkeypatch) as memory:
            memory.add_memory("oak")
        remove_fts5(monkeypatch)
        monkeypatch.setattr(Database, "_migrated", _refuse)
        with AgentMemory.open(tmp_path, embedding="none") as memory:
            assert memory.status().keyword_index is None
            assert "no such module: fts5" in memory.search_memories("oak").notes[0]


def _refuse(*arguments: object) -> int:
    raise PermissionError(13, "Permission denied")
