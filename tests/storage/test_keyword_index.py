"""The keyword index: real FTS5, in the transactions of the database."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import Stemmer
from sqlite_without_fts5 import remove_full_text
from storage_parts import StorageParts

from langchain_agentmem import Memory, Message
from langchain_agentmem.errors import StorageError
from langchain_agentmem.storage import text as analysis
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import KINDS, LIVE, MEMORIES, MESSAGES, Condition
from langchain_agentmem.storage.query import MAX_QUERY_TERMS, parse


class Keywords(StorageParts):
    """A database with its keyword index and the store that fills it."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(Database(path))
        self.index = self.keywords

    def save(self, *texts: str) -> None:
        self.store.save(MEMORIES, [Memory(id=text[:512], content=text) for text in texts])

    def search(self, query: str, limit: int = 10, condition: Condition = LIVE) -> list[str]:
        return [id_ for id_, _ in self.index.search(MEMORIES, query, condition, limit).ranking]

    def check(self) -> None:
        with self.database.write() as connection:
            self.index.check(connection)

    def close(self) -> None:
        self.database.close()


@pytest.fixture
def keywords() -> Iterator[Keywords]:
    with closing(Keywords()) as opened:
        yield opened


def test_a_new_index_is_ready_and_empty(keywords: Keywords) -> None:
    assert keywords.index.problem is None
    assert keywords.index.engine == "fts5"
    assert keywords.search("anything") == []
    keywords.check()


def test_terms_are_alternatives_and_more_of_them_rank_higher(keywords: Keywords) -> None:
    keywords.save("red apple", "red pear", "blue plum", "green grape")

    assert keywords.search("red apple tart") == ["red apple", "red pear"]


def test_a_rare_term_weighs_more_than_a_frequent_one(keywords: Keywords) -> None:
    keywords.save(*(f"meeting number{i}" for i in range(20)), "zeppelin tour")

    assert keywords.search("meeting zeppelin")[0] == "zeppelin tour"


def test_scores_fall_and_lie_between_0_and_1(keywords: Keywords) -> None:
    keywords.save("red apple", "red pear", "a long text about something red and much else", "plum")

    scores = [score for _, score in keywords.index.search(MEMORIES, "red apple", LIVE, 10).ranking]

    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score < 1 for score in scores)


def test_the_condition_narrows_before_the_limit(keywords: Keywords) -> None:
    keywords.save(*(f"red {i}" for i in range(50)), "red needle in much hay, said at great length")

    condition = Condition("r.deleted_at IS NULL AND r.id LIKE ?", ("%needle%",), selective=True)

    assert len(keywords.search("red", limit=5)) == 5
    assert keywords.search("red", 1, condition) == ["red needle in much hay, said at great length"]


def test_both_kinds_have_an_index_of_their_own(keywords: Keywords) -> None:
    keywords.save("red memory")
    keywords.store.save(MESSAGES, [Message(id="m", session_key="s", role="user", content="red")])

    assert keywords.search("red") == ["red memory"]
    assert [id_ for id_, _ in keywords.index.search(MESSAGES, "red", LIVE, 10).ranking] == ["m"]


@pytest.mark.parametrize("field", ["content", "scene_name", "tags"])
def test_a_memory_is_found_by_its_text_its_scene_and_its_tags(
    keywords: Keywords, field: str
) -> None:
    memory = Memory.model_validate({"id": "m", "content": "text", field: "needle"})
    keywords.store.save(MEMORIES, [memory])

    assert keywords.search("needle") == ["m"]


def test_a_message_is_found_by_its_text_and_its_speaker(keywords: Keywords) -> None:
    message = Message(id="m", session_key="s", role="user", name="Anna", content="hello")
    keywords.store.save(MESSAGES, [message])

    for query in ("anna", "hello"):
        assert [id_ for id_, _ in keywords.index.search(MESSAGES, query, LIVE, 10).ranking] == ["m"]


def test_a_changed_text_is_found_by_its_new_words_alone(keywords: Keywords) -> None:
    keywords.save("red")
    keywords.store.update(MEMORIES, "red", {"content": "blue"})

    assert keywords.search("red") == []
    assert keywords.search("blue") == ["red"]
    keywords.check()


def test_the_index_stays_sound_over_deletion_and_insertion(keywords: Keywords) -> None:
    keywords.save("red one", "red two")
    keywords.store.delete(["red one"])
    keywords.store.purge(["red two"])
    keywords.save("blue three", "blue four")

    assert keywords.search("red") == []
    keywords.check()
    keywords.store.restore(["red one"])
    assert keywords.search("red") == ["red one"]
    keywords.check()


def test_a_rolled_back_transaction_leaves_the_index_as_it_was(keywords: Keywords) -> None:
    keywords.save("red")

    def fail() -> None:
        with keywords.database.write() as connection:
            keywords.index.put(connection, MEMORIES, [(1, "blue")])
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert keywords.search("red") == ["red"]
    assert keywords.search("blue") == []


@pytest.mark.parametrize(
    "query",
    [
        'say "hi',
        "foo AND",
        "NOT",
        "a NEAR/3 b",
        "NEAR(a b, 3)",
        "tags:ui",
        "terms : red",
        "-red",
        "^red",
        "red*",
        "(red",
        "red)",
        "{red}",
        "red + blue",
        "'; DROP TABLE memories; --",
        "\x00",
        "red\x00blue",
        "a" * 10_000,
        "word " * 10_000,
        " ".join(f"word{i}" for i in range(10_000)),
        "\ufffd\ue000\uf8ff",
    ],
)
def test_no_query_is_fts5_syntax(keywords: Keywords, query: str) -> None:
    keywords.save("red", query.strip("\x00") or "nul")

    assert isinstance(keywords.search(query), list)
    keywords.check()


def test_a_query_has_a_bounded_number_of_terms() -> None:
    expression = parse(" ".join(f"word{i}" for i in range(1000))).natural

    assert expression.count(" OR ") == MAX_QUERY_TERMS - 1


@pytest.mark.parametrize("query", ["", " ", "?!", "\x00"])
def test_a_query_without_terms_has_no_expression(query: str) -> None:
    assert parse(query).natural == ""


def test_tied_records_keep_one_order_for_every_limit(keywords: Keywords) -> None:
    keywords.save(*(f"red {i:03}" for i in range(200)))

    everything = keywords.search("red", 200)

    assert len(everything) == 200
    for limit in range(1, 200, 7):
        assert keywords.search("red", limit) == everything[:limit]


def test_a_search_past_its_deadline_is_given_up(keywords: Keywords) -> None:
    keywords.save(*(f"red {i}" for i in range(3000)))

    with pytest.raises(StorageError, match="interrupted"):
        keywords.index.search(MEMORIES, "red", LIVE, 10, deadline=time.monotonic() - 1)


def test_texts_of_any_length_are_saved_together_and_indexed_anew(keywords: Keywords) -> None:
    texts = [f"word{i} " + "= " * 1_000_000 for i in range(20)]
    most = 60_000_000  # bytes; all of them together are more
    with keywords.database.write() as connection:
        before = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
    try:
        keywords.store.save(
            MEMORIES, [Memory(id=str(i), content=text) for i, text in enumerate(texts)]
        )
        assert keywords.search("word7") == ["7"]
        with keywords.database.write() as connection:
            keywords.index.rebuild(connection)
    finally:
        with keywords.database.write() as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)

    assert keywords.search("word19") == ["19"]
    keywords.check()


@pytest.fixture
def other_stemmer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another release of the stemmer, and nothing that the first one made is kept."""
    kept = (analysis._stem, analysis._known_piece)
    monkeypatch.setattr(analysis, "_english", Stemmer.Stemmer("porter"))
    for cache in kept:
        cache.cache_clear()
    yield
    for cache in kept:
        cache.cache_clear()


@pytest.fixture
def newer_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "ANALYSIS_VERSION", analysis.ANALYSIS_VERSION + 1)


@pytest.mark.parametrize("change", ["newer_version", "other_stemmer"])
def test_the_index_is_filled_anew_when_the_analysis_of_text_changes(
    tmp_path: Path, request: pytest.FixtureRequest, change: str
) -> None:
    path = tmp_path / "db"
    with closing(Keywords(path)) as old:
        old.save("red", "gone")
        old.store.delete(["gone"])
        with old.database.write() as connection:  # as if an older analysis had made other terms
            connection.execute("UPDATE memories_fts SET terms = 'stale'")

    with closing(Keywords(path)) as same_version:
        assert same_version.search("red") == []

    request.getfixturevalue(change)
    with closing(Keywords(path)) as newer:
        assert newer.search("red") == ["red"]
        assert newer.search("stale gone") == []
        newer.check()


def test_damage_is_found_by_the_integrity_check(keywords: Keywords) -> None:
    keywords.save("red", "blue")
    with keywords.database.write() as connection:
        connection.execute("DELETE FROM memories_fts_data WHERE id > 10")

    with pytest.raises(StorageError, match="malformed"):
        keywords.check()


def test_without_fts5_there_is_no_index_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    remove_full_text(monkeypatch)

    with closing(Keywords()) as keywords:
        keywords.save("red")
        keywords.store.delete(["red"])
        keywords.store.purge(["red"])
        assert keywords.index.engine is None
        assert "no FTS" in (keywords.index.problem or "")
        assert keywords.search("red") == []


def test_a_kind_of_record_without_an_index_cannot_be_overlooked() -> None:
    with closing(Keywords()) as keywords, keywords.database.read() as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}

    assert {f"{kind.name}_fts" for kind in KINDS} <= tables


def test_any_number_of_purges_leaves_the_index_sound(keywords: Keywords) -> None:
    keywords.save("red one")
    for number in range(1500):  # after some 1,400 merges FTS5 would not open its table again
        keywords.save(f"blue {number}")
        keywords.store.purge([f"blue {number}"])

    keywords.check()
    assert keywords.search("red") == ["red one"]
    assert keywords.search("blue") == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE memories_fts_data SET block = x'000000008F5201B106' WHERE id = 10",  # 2,002 levels
        "DELETE FROM memories_fts_data WHERE id = 10",
        "DELETE FROM memories_fts_data",
    ],
)
def test_an_index_that_sqlite_cannot_open_is_made_anew(tmp_path: Path, damage: str) -> None:
    with closing(Keywords(tmp_path / "m.sqlite3")) as keywords:
        keywords.save("red one", "red two")
    with closing(sqlite3.connect(tmp_path / "m.sqlite3")) as connection:
        connection.execute(damage)
        connection.commit()
    with closing(Keywords(tmp_path / "m.sqlite3")) as keywords:
        keywords.check()
        assert keywords.search("red") == ["red one", "red two"]
        keywords.save("red three")
        assert len(keywords.search("red")) == 3
