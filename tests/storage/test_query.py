"""The query language: what is typed, and what the keyword index is asked."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.query import MAX_QUERY_TERMS, Dialect, parse
from langchain_agentmem.storage.text import index_text

TABLES: dict[Dialect, str] = {
    "fts5": "CREATE VIRTUAL TABLE f USING fts5(terms, tokenize = 'ascii')",
    "fts4": "CREATE VIRTUAL TABLE f USING fts4(terms, tokenize=simple)",
}
WORDS = ("oak", "elm", "fir", "yew")
TEXTS = [
    " ".join(word for bit, word in enumerate(WORDS) if number >> bit & 1) or "none"
    for number in range(16)
] + ["fir oak", "yew elm oak", "oaken firth"]


@pytest.fixture(scope="module", params=["fts5", "fts4"])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    chosen: Dialect = request.param
    return chosen


@pytest.fixture(scope="module")
def table(dialect: Dialect) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLES[dialect])
        connection.executemany("INSERT INTO f VALUES (?)", [(index_text(t),) for t in TEXTS])
        yield connection


@pytest.fixture(scope="module")
def plain_fts5() -> Iterator[sqlite3.Connection]:
    """FTS5 as it comes, which reads queries itself: what "as in FTS5" means."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE f USING fts5(terms)")
        connection.executemany("INSERT INTO f VALUES (?)", [(text,) for text in TEXTS])
        yield connection


def match(connection: sqlite3.Connection, expression: str) -> set[int]:
    rows = connection.execute("SELECT rowid FROM f WHERE f MATCH ?", (expression,))
    return {row[0] for row in rows}


class TestParsing:
    @pytest.mark.parametrize(
        ("text", "strict"),
        [
            ("oak elm", None),
            ("oak and elm or fir not yew", None),
            ('"oak elm"', '"oak elm"'),
            ('"oak elm" fir', '("oak elm" AND "fir")'),
            ("oa*", '("oa" * OR "oa")'),
            ("oak AND elm", '("oak" AND "elm")'),
            ("oak OR elm", '("oak" OR "elm")'),
            ("oak NOT elm", '("oak" NOT "elm")'),
            ("oak NOT elm NOT fir", '("oak" NOT ("elm" OR "fir"))'),
            ("oak OR elm AND fir", '("oak" OR ("elm" AND "fir"))'),
            ("oak AND elm NOT fir", '("oak" AND ("elm" NOT "fir"))'),
            ("oak elm NOT fir yew", '(("oak" AND "elm") NOT ("fir" AND "yew"))'),
            ("(oak OR elm) AND fir", '(("oak" OR "elm") AND "fir")'),
            ("(oak OR elm) fir", '(("oak" OR "elm") AND "fir")'),
            ("ADR-016 OR oak", '("adr 016" OR "oak")'),
            ("retrieved AND boats", '("retriev" AND "boat")'),
            ("部署 AND oak", '("部署" AND "oak")'),
            # What is no expression is natural text.
            ("oak AND", None),
            ("AND", None),
            ("NOT oak", None),
            ("oak OR OR elm", None),
            ("(oak AND elm", None),
            ("oak) AND elm", None),
            ('say "oak', None),
            ('oak AND "', None),
            ('""', None),
            ("*", None),
            ("oak AND *", None),
            ("oak AND -", None),
            ("() AND oak", None),
        ],
    )
    def test_operators_are_read_and_nothing_else_is(self, text: str, strict: str | None) -> None:
        assert parse(text).strict == strict

    @pytest.mark.parametrize(
        ("text", "natural"),
        [
            ("oak elm", '"oak" OR "elm"'),
            ("oak AND elm", '"oak" OR "elm"'),
            ("what is the oak", '"oak"'),
            ("the not of", '"the" OR "not" OR "of"'),
            ("user_id", '"user" OR "user\ue02did"'),
            ("", ""),
        ],
    )
    def test_terms_are_alternatives(self, text: str, natural: str) -> None:
        assert parse(text).natural == natural

    @pytest.mark.parametrize(
        ("text", "excluded"),
        [
            ("oak NOT elm", '"elm"'),
            ("oak NOT elm NOT fir", '("elm" OR "fir")'),
            ("(oak OR yew) NOT elm", '"elm"'),
            ("oak NOT elm AND yew NOT fir", '"elm" OR "fir"'),
            ("oak AND elm", None),
            ("oak NOT elm OR fir", None),
            ("fir OR oak NOT elm", None),
            ("(oak NOT elm) AND fir", None),
            ("oak NOT elm AND (fir OR yew)", '"elm"'),
            ("(fir OR yew) AND oak NOT elm", '"elm"'),
            ("oak NOT elm AND (fir OR (yew OR ash))", '"elm"'),
            ("oak NOT (fir OR ash)", '("fir" OR "ash")'),
            ("oak NOT elm AND yew NOT (fir OR ash)", '"elm" OR ("fir" OR "ash")'),
            ("oak NOT elm AND (fir OR yew) OR ash", None),
            ("ash OR oak NOT elm AND (fir OR yew)", None),
        ],
    )
    def test_what_a_not_excludes_from_the_whole(self, text: str, excluded: str | None) -> None:
        """The vectors know no NOT: what it excludes is taken from their list as well."""
        assert parse(text).excluded == excluded

    def test_a_beginning_is_written_as_each_engine_reads_it(self) -> None:
        assert parse("oa* elm", "fts5").strict == '(("oa" * OR "oa") AND "elm")'
        assert parse("oa* elm", "fts4").strict == '(("oa*" OR "oa") AND "elm")'

    def test_a_query_has_a_bounded_number_of_terms(self) -> None:
        words = " ".join(f"word{number}" for number in range(10_000))
        assert parse(words).natural.count(" OR ") == MAX_QUERY_TERMS - 1
        assert parse(f"{words} AND oak").strict is None


atom = st.sampled_from([*WORDS, '"oak elm"', '"elm oak"', '"fir oak"', "oa*", "fi*"])
group = st.lists(atom, min_size=1, max_size=3).map(" ".join)
expression = st.recursive(
    group,
    lambda inner: st.tuples(
        inner | inner.map("({})".format), st.sampled_from(["AND", "OR", "NOT"]), inner
    ).map(" ".join),
    max_leaves=6,
)


class TestAgainstSqlite:
    @settings(max_examples=150, deadline=None)
    @given(text=expression)
    @example(text="oak NOT elm fir")
    @example(text="oak elm NOT fir OR yew AND oak")
    def test_operators_mean_what_they_mean_in_fts5(
        self, plain_fts5: sqlite3.Connection, table: sqlite3.Connection, dialect: Dialect, text: str
    ) -> None:
        strict = parse(text, dialect).strict
        assume(strict is not None)
        assert match(table, str(strict)) == match(plain_fts5, text)

    @settings(max_examples=150, deadline=None)
    @given(
        text=st.text(max_size=40)
        | st.lists(
            st.sampled_from(
                'oak AND OR NOT ( ) " * oa* "oak - NEAR/3 t:oak { \' \x00 🌳 部 \ue000 +'.split()
            ),
            max_size=12,
        ).map(" ".join)
    )
    def test_no_text_is_an_error(
        self, table: sqlite3.Connection, dialect: Dialect, text: str
    ) -> None:
        query = parse(text, dialect)
        for asked in (query.natural, query.strict, query.excluded):
            if asked:
                match(table, asked)


@pytest.fixture(scope="module")
def trees() -> Iterator[AgentMemory]:
    with AgentMemory.in_memory(embedding="none") as memory:
        for text in TEXTS[1:]:
            memory.add_memory(text)
        memory.add_memory("the retrieval of a keepsake")
        memory.add_memory("Ask NOT what, AND say OR nothing")
        yield memory


def contents(memory: AgentMemory, query: str, **options: Any) -> list[str]:
    return [hit.content for hit in memory.search_memories(query, 100, **options).results]


class TestSearching:
    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ('"yew elm"', {"yew elm oak"}),
            ('"elm yew"', {"elm yew", "oak elm yew"}),
            ("oaken*", {"oaken firth"}),
            ("yew NOT oak NOT elm", {"yew", "fir yew"}),
            ("oak AND elm AND fir AND yew", {"oak elm fir yew"}),
            ("(oak AND fir) NOT (elm OR yew)", {"oak fir", "fir oak"}),
        ],
    )
    def test_an_expression_finds_what_meets_it_alone(
        self, trees: AgentMemory, query: str, found: set[str]
    ) -> None:
        assert set(contents(trees, query)) == found

    @pytest.mark.parametrize(
        "word",
        """running runner generously dying organizing agreed skies boxes happiness hopefully
        relational nationality communism electrically nationalization don't Anna's l'aviation
        user-organizing naïveté 2026-05-08 ADR-016 Straße вчерашний""".split(),
    )
    def test_every_beginning_of_a_word_finds_it(
        self, keyword_memory: AgentMemory, word: str
    ) -> None:
        keyword_memory.add_memory(f"something {word}")
        for end in range(1, len(word) + 1):
            if word[end - 1].isalnum():
                assert contents(keyword_memory, f"{word[:end]}*") == [f"something {word}"]

    @pytest.mark.parametrize("query", ["don't*", "Anna's*", "yew AND don't*"])
    def test_an_apostrophe_begins_no_other_word(
        self, keyword_memory: AgentMemory, query: str
    ) -> None:
        keyword_memory.add_memory("yew: don't ask for Anna's tea")
        keyword_memory.add_memory("yew: so told")
        assert contents(keyword_memory, query) == ["yew: don't ask for Anna's tea"]

    def test_what_begins_so_comes_before_what_may(self, keyword_memory: AgentMemory) -> None:
        keyword_memory.add_memory("ten")
        keyword_memory.add_memory("she plays tennis with people whom she met at the lake")

        assert contents(keyword_memory, "tenni*")[0].startswith("she plays tennis")
        assert contents(keyword_memory, "(lake OR ten) NOT tenni*") == ["ten"]

    @pytest.mark.parametrize(("query", "other"), [("listen*", "a list"), ("Ann*", "an oak")])
    def test_a_word_is_no_beginning_of_what_is_shorter(
        self, keyword_memory: AgentMemory, query: str, other: str
    ) -> None:
        keyword_memory.add_memory(other)
        keyword_memory.add_memory("Annabel listened")
        assert contents(keyword_memory, query) == ["Annabel listened"]

    @pytest.mark.parametrize(
        ("query", "first"),
        [
            ('"keepsake retrieval"', "the retrieval of a keepsake"),
            ("retrieval AND elsewhere", "the retrieval of a keepsake"),
            ("keepsake AND", "the retrieval of a keepsake"),
            ('"keepsake', "the retrieval of a keepsake"),
            ("Ask NOT what, AND say OR nothing", "Ask NOT what, AND say OR nothing"),
        ],
    )
    def test_what_finds_nothing_or_is_no_expression_is_natural_text(
        self, trees: AgentMemory, query: str, first: str
    ) -> None:
        assert contents(trees, query)[0] == first

    @pytest.mark.parametrize("query", ["retrieve", "retrieved", "RETRIEVAL", '"retrieved"'])
    def test_words_are_stemmed(self, trees: AgentMemory, query: str) -> None:
        assert contents(trees, query) == ["the retrieval of a keepsake"]

    def test_what_is_excluded_is_not_found_by_its_meaning_either(self) -> None:
        with AgentMemory.in_memory(embedding="local") as memory:
            memory.add_memory("a red apple on the table")
            memory.add_memory("a red pear on the table")
            for query in ("table NOT pear", "table NOT pear AND (red OR green)"):
                assert contents(memory, query) == ["a red apple on the table"]

    def test_a_fallback_looks_at_what_the_turn_sees(self, trees: AgentMemory) -> None:
        """Others' matches do not keep a turn's own natural text from being found."""
        ann, bob = ({"configurable": {"user_id": user}} for user in ("ann", "bob"))
        memories = [
            trees.add_memory(text, config=config)
            for text, config in (("ivy climbs", ann), ("ivy and moss", bob))
        ]
        assert contents(trees, "ivy AND moss", config=ann) == ["ivy climbs"]
        trees.purge([memory.id for memory in memories])
