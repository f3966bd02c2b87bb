"""A keyword query looks at a bounded number of records, and finds what it would find among all."""

import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from storage_parts import StorageParts

from langchain_agentmem import Memory
from langchain_agentmem.scopes import Turn
from langchain_agentmem.storage import candidates, term_counts
from langchain_agentmem.storage.candidates import split
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import LIVE, MEMORIES
from langchain_agentmem.storage.term_counts import TermCounts
from langchain_agentmem.storage.text import QueryTerm

WORDS = [f"word{i}" for i in range(300)]
TOTAL = 2000


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Memories whose words are as unevenly frequent as those of a language (Zipf)."""
    chance = random.Random(5)  # noqa: S311  (a corpus, not a secret)
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    with closing(Database(None)) as opened:
        store = StorageParts(opened).store
        store.save(
            MEMORIES,
            [
                Memory(
                    id=f"m{i}",
                    content=" ".join(chance.choices(WORDS, weights, k=chance.randint(5, 15))),
                    type="even" if i % 2 == 0 else "odd",
                    scope_id=f"u{i % 40}",
                )
                for i in range(TOTAL)
            ],
        )
        yield opened


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this memory as large, compared with what is looked at, as it takes."""
    monkeypatch.setattr(candidates, "RANKED", 100)
    monkeypatch.setattr(term_counts, "COMMON", 20)


def find(database: Database, query: str, limit: int = 10, **filters: Any) -> list[str]:
    user = filters.pop("user", None)
    sees = Turn.from_config({"configurable": {"user_id": user}} if user else None).sees()
    condition = MEMORIES.where(filters, sees)
    return [
        id_ for id_, _ in KeywordIndex(database).search(MEMORIES, query, condition, limit).ranking
    ]


def terms(*texts: str) -> list[QueryTerm]:
    return [QueryTerm(text) for text in texts]


class TestSplit:
    def test_terms_are_taken_from_the_rarest_on(self) -> None:
        found = split(terms("a", "b", "c", "d"), TermCounts(10**6, [90_000, 10, 3000, 4000]))

        assert found.rare == terms("b", "c")
        assert found.common == terms("d", "a")

    def test_in_a_small_memory_all_are_rare(self) -> None:
        found = split(terms("a", "b"), TermCounts(3000, [2900, 2000]))

        assert (found.rare, found.common) == (terms("b", "a"), [])

    def test_where_all_are_common_none_is_rare(self) -> None:
        found = split(terms("a", "b"), TermCounts(10**6, [90_000, 80_000]))

        assert (found.rare, found.common) == ([], terms("b", "a"))


def test_what_all_terms_would_rank_first_is_found(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(9)  # noqa: S311  (a choice of queries)
    queries = [
        " ".join([*chance.sample(WORDS[:10], 3), *chance.sample(WORDS[50:], 2)]) for _ in range(50)
    ]
    expected = [find(database, query) for query in queries]
    monkeypatch.setattr(candidates, "RANKED", 100)
    found = [find(database, query) for query in queries]

    pairs = zip(found, expected, strict=True)
    shares = [len(set(some) & set(all_)) / len(all_) for some, all_ in pairs]
    assert sum(shares) / len(shares) > 0.9


@pytest.mark.usefixtures("bounded")
class TestBounded:
    def test_a_rare_term_brings_all_that_hold_it_before_the_rest(self, database: Database) -> None:
        with database.read() as connection:
            sql = "SELECT id FROM memories WHERE ' ' || content || ' ' LIKE '% word250 %'"
            holders = {row[0] for row in connection.execute(sql)}

        found = find(database, "word0 word1 word250", 20)

        assert holders
        assert set(found[: len(holders)]) == holders
        assert len(found) == 20

    @pytest.mark.parametrize("query", ["word0", "word0 word1", "word2 word1 word0 word3"])
    @pytest.mark.parametrize(
        "filters", [{}, {"type": "odd"}, {"user": "u3"}, {"user": "u3", "type": "odd"}]
    )
    def test_common_terms_alone_starve_no_answer(
        self, database: Database, query: str, filters: dict[str, Any]
    ) -> None:
        first = query.split(maxsplit=1)[0]
        with database.read() as connection:
            sql = (
                "SELECT count(*) FROM memories WHERE ' ' || content || ' ' LIKE ?"
                " AND (type = ? OR ? IS NULL) AND (scope_id = ? OR ? IS NULL)"
            )
            type_, user = filters.get("type"), filters.get("user")
            given = (f"% {first} %", type_, type_, user, user)
            holders = connection.execute(sql, given).fetchone()[0]

        assert len(find(database, query, 10, **filters)) >= min(10, holders)

    def test_the_order_does_not_depend_on_the_limit(self, database: Database) -> None:
        for query in ("word0 word1 word90", "word0 word2", "word3 word200 word201"):
            short, long = find(database, query, 20), find(database, query, 300)

            assert long[: len(short)] == short
            assert len(set(long)) == len(long)

    def test_records_few_by_their_filter_are_scored_as_fts5_would(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        condition = MEMORIES.where({"type": "odd"}, Turn().sees())
        index = KeywordIndex(database)
        read = index.search(MEMORIES, "word4 word30 word31", condition, 50)
        monkeypatch.setattr(candidates, "READ_AT_MOST", 0)
        monkeypatch.setattr(candidates, "RANKED", 10**9)
        ranked = index.search(MEMORIES, "word4 word30 word31", condition, 50)

        assert ("was read" in read.method, "was ranked" in ranked.method) == (True, True)
        assert dict(read.ranking) == pytest.approx(dict(ranked.ranking), rel=1e-3)

    def test_records_that_lie_side_by_side_are_looked_for_there_alone(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        by_reading = find(database, "word0 word1 word9", 60, user="u3", type="odd")
        monkeypatch.setattr(candidates, "READ_AT_MOST", 0)

        assert by_reading
        assert find(database, "word0 word1 word9", 60, user="u3", type="odd") == by_reading

    def test_how_many_statements_run_does_not_depend_on_how_much_is_found(
        self, database: Database
    ) -> None:
        def statements(query: str, limit: int) -> int:
            ran: list[str] = []
            with database.read() as connection:
                connection.set_trace_callback(ran.append)
            try:
                KeywordIndex.search(index, MEMORIES, query, LIVE, limit)
            finally:
                with database.read() as connection:
                    connection.set_trace_callback(None)
            return sum(1 for sql in ran if sql.startswith("SELECT r."))

        index = KeywordIndex(database)
        few, many = statements("word0 word250", 5), statements("word0 word1", 300)
        assert 0 < few <= 6
        assert 0 < many <= 10


@pytest.mark.usefixtures("bounded")
def test_a_common_term_is_counted_once_and_anew_when_the_memory_has_grown() -> None:
    with closing(Database(None)) as database:
        store = StorageParts(database).store
        store.save(MEMORIES, [Memory(content=f"tea {i}") for i in range(100)])
        counter, asked = term_counts.TermCounter(), terms("tea", "rare")
        with database.read() as connection:
            assert counter.count(connection, MEMORIES, "memories_fts", asked).matching == [100, 0]
        store.save(MEMORIES, [Memory(content="tea again"), Memory(content="rare tea")])
        with database.read() as connection:
            assert counter.count(connection, MEMORIES, "memories_fts", asked).matching == [100, 1]
        store.save(MEMORIES, [Memory(content=f"tea once more {i}") for i in range(100)])
        with database.read() as connection:
            assert counter.count(connection, MEMORIES, "memories_fts", asked).matching == [202, 1]


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("remove", ["delete", "purge"])
def test_a_term_whose_records_go_is_counted_anew(remove: str) -> None:
    with closing(Database(None)) as database:
        store = StorageParts(database).store
        store.save(MEMORIES, [Memory(id=f"tea{i}", content=f"tea {i}") for i in range(200)])
        store.save(MEMORIES, [Memory(content=f"coffee {i}") for i in range(400)])
        counter, asked = term_counts.TermCounter(), terms("tea")

        def count() -> int:
            with database.read() as connection:
                return counter.count(connection, MEMORIES, "memories_fts", asked).matching[0]

        assert count() == 200
        getattr(store, remove)(f"tea{i}" for i in range(4))
        assert count() == 200  # so few are not worth it
        getattr(store, remove)(f"tea{i}" for i in range(150))
        assert count() == 50
        store.restore(f"tea{i}" for i in range(150))
        assert count() == (200 if remove == "delete" else 50)


@pytest.mark.usefixtures("bounded")
def test_a_word_that_has_become_rare_finds_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "REFINED", 30)
    with closing(Database(None)) as database:
        parts = StorageParts(database)
        index, store = parts.keywords, parts.store
        store.save(MEMORIES, [Memory(id=f"tea{i}", content=f"tea {i}") for i in range(120)])
        store.save(MEMORIES, [Memory(content=f"cup cup cup of {i}") for i in range(90)])
        store.save(MEMORIES, [Memory(content=f"rest {i}") for i in range(1000)])
        condition = MEMORIES.where({}, Turn().sees())
        index.search(MEMORIES, "tea cup", condition, 5)
        store.delete(f"tea{i}" for i in range(3, 120))

        found = index.search(MEMORIES, "tea cup", condition, 5).ranking

        assert [id_ for id_, _ in found[:3]] == ["tea0", "tea1", "tea2"]
