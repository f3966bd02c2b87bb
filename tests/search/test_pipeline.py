"""One pipeline for both kinds of record: every strategy, every failure, sync and async."""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from servers.openai_embeddings import EmbeddingServer, Fault
from sqlite_without_fts5 import remove_full_text

from langchain_agentmem import AgentMemory, EmbeddingSettings, Memory, SearchResult
from langchain_agentmem.embeddings.local import WordLlamaEmbeddings
from langchain_agentmem.scopes import Visibility
from langchain_agentmem.search.branches import WORKERS
from langchain_agentmem.search.fusion import FUSION_DEPTH
from langchain_agentmem.search.pipeline import CONFIGURE_EMBEDDING
from langchain_agentmem.search.request import MAX_LIMIT, make_request
from langchain_agentmem.storage.kinds import MESSAGES
from langchain_agentmem.storage.vector_index import VectorIndex

Search = Callable[..., SearchResult[Any]]


class PanicException(BaseException):
    """As Rust code raises it; the real type cannot be imported."""


NOT_HANGING = 20.0  # seconds: far more than any of these searches takes, far less than a hang

CATS = [
    "The kitten naps on the couch",
    "Our cat is called Minka",
    "Feed the cat at seven",
    "Interest rates rose again",
    "The meeting about the budget is on Monday",
    "Anna plays the violin",
]


@pytest.fixture(params=["sync", "async", "sync in a running loop"])
def search(request: pytest.FixtureRequest) -> Search:
    """Searches the memories of the memory given, in each of the ways."""
    if request.param == "sync":
        return AgentMemory.search_memories

    def in_loop(memory: AgentMemory, *args: Any, **options: Any) -> SearchResult[Any]:
        async def run() -> SearchResult[Any]:
            if request.param == "async":
                return await memory.asearch_memories(*args, **options)
            return memory.search_memories(*args, **options)

        return asyncio.run(run())

    return in_loop


@pytest.fixture(scope="module")
def cats() -> Iterator[AgentMemory]:
    """A hybrid memory that no test changes."""
    with closing(AgentMemory.in_memory(embedding="local")) as memory:
        memory.add_memories([Memory(id=text, content=text) for text in CATS])
        yield memory


@pytest.fixture
def hybrid() -> Iterator[AgentMemory]:
    """A hybrid memory of the test's own."""
    with closing(AgentMemory.in_memory(embedding="local")) as memory:
        memory.add_memories([Memory(id=text, content=text) for text in CATS])
        yield memory


@pytest.fixture
def served(service_settings: EmbeddingSettings) -> Iterator[AgentMemory]:
    """A hybrid memory whose embedding service can be broken; it waits for half a second."""
    with closing(AgentMemory.in_memory(embedding=service_settings, timeout=0.5)) as memory:
        memory.add_memories([Memory(id=text, content=text) for text in CATS])
        yield memory


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether a condition becomes true while one looks on."""
    give_up = time.monotonic() + NOT_HANGING
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


class TestStrategies:
    """Which index answered."""

    def test_hybrid_when_both_lists_have_something(self, cats: AgentMemory, search: Search) -> None:
        result = search(cats, "cat")

        assert result.strategy == "hybrid"
        assert result.notes == []
        assert result.message is None
        assert "Our cat is called Minka" in [hit.id for hit in result.results[:2]]

    def test_embedding_when_no_word_is_shared(self, cats: AgentMemory, search: Search) -> None:
        result = search(cats, "sleeping feline pets")

        assert (result.strategy, result.total) == ("embedding", 5)
        assert result.results[0].content == "The kitten naps on the couch"
        assert result.results[0].score == result.results[0].similarity

    def test_fts_when_there_is_no_embedding(
        self, keyword_memory: AgentMemory, search: Search
    ) -> None:
        keyword_memory.add_memory("Our cat is called Minka")

        result = search(keyword_memory, "cat")

        assert (result.strategy, result.total, result.notes) == ("fts", 1, [])
        assert 0 < result.results[0].score < 1

    def test_fts_when_the_vectors_are_not_written_yet(
        self, service_settings: EmbeddingSettings, server: EmbeddingServer, search: Search
    ) -> None:
        with closing(AgentMemory.in_memory(embedding=service_settings)) as memory:
            search(memory, "cat")  # its vector is known from here on
            server.fault = Fault(status=401)
            memory.add_memory("Our cat is called Minka")
            result = search(memory, "cat")

        assert (result.strategy, result.total) == ("fts", 1)
        assert result.notes[0].startswith("1 record waits to be found by meaning")
        assert len(result.notes) == 1

    def test_embedding_when_there_is_no_keyword_index(
        self, monkeypatch: pytest.MonkeyPatch, search: Search
    ) -> None:
        remove_full_text(monkeypatch)
        with closing(AgentMemory.in_memory(embedding="local")) as memory:
            memory.add_memory("Our cat is called Minka")
            result = search(memory, "cat")

            assert (result.strategy, result.total) == ("embedding", 1)
            assert any("no FTS" in note for note in result.notes)
            assert memory.status().strategy == "embedding"
            assert memory.status().keyword_index is None

    @pytest.mark.parametrize("query", ["cat", ""])
    def test_none_when_there_is_nothing_to_search_with(
        self, monkeypatch: pytest.MonkeyPatch, search: Search, query: str
    ) -> None:
        remove_full_text(monkeypatch)
        with closing(AgentMemory.in_memory(embedding="none")) as memory:
            memory.add_memory("Our cat is called Minka")
            result = search(memory, query)

            assert (result.strategy, result.results, result.query) == ("none", [], query)
            assert result.message == CONFIGURE_EMBEDDING
            assert "openai_compatible" in CONFIGURE_EMBEDDING
            assert "embedding.provider" in CONFIGURE_EMBEDDING
            assert memory.status().strategy == "none"

    @pytest.mark.parametrize("query", ["", " ", "\n\t", "\u3000"])
    def test_none_for_a_blank_query(self, cats: AgentMemory, search: Search, query: str) -> None:
        result = search(cats, query)

        assert (result.strategy, result.results, result.message) == ("none", [], None)
        assert result.notes == ["the query is blank"]
        assert result.query == query

    def test_none_for_a_scope_that_the_turn_lacks(self, cats: AgentMemory, search: Search) -> None:
        result = search(cats, "cat", scope="thread")

        assert (result.strategy, result.results, result.query) == ("none", [], "cat")
        assert 'config["configurable"]["thread_id"]' in result.notes[0]

    def test_when_nothing_is_found_the_best_strategy_is_named(
        self, cats: AgentMemory, keyword_memory: AgentMemory, search: Search
    ) -> None:
        assert search(cats, "cat", type="missing").strategy == "embedding"
        assert search(keyword_memory, "cat").strategy == "fts"


class TestRanking:
    """In which order, and why."""

    def test_a_hit_says_how_it_came_into_the_answer(
        self, cats: AgentMemory, search: Search
    ) -> None:
        for hit in search(cats, "cat", 6).results:
            assert hit.score == pytest.approx(hit.keyword_part + hit.vector_part)
            assert (hit.keyword_part > 0) == (hit.keyword_rank is not None)
            assert hit.vector_rank is not None
            assert -1 <= hit.similarity <= 1
            assert (hit.keyword_rank is not None) == ("cat" in hit.content)

    def test_ranks_count_from_one_without_gaps(self, cats: AgentMemory, search: Search) -> None:
        hits = search(cats, "cat", 6).results

        assert sorted(hit.vector_rank for hit in hits) == [1, 2, 3, 4, 5, 6]
        assert sorted(hit.keyword_rank for hit in hits if hit.keyword_rank) == [1, 2]
        by_vector = sorted(hits, key=lambda hit: hit.vector_rank)
        assert all(a.similarity >= b.similarity for a, b in itertools.pairwise(by_vector))

    @pytest.mark.parametrize("weight", [1.0, 0.25])
    def test_a_weak_model_weighs_less(self, search: Search, weight: float) -> None:
        settings = EmbeddingSettings(provider="local", fusion="rrf", weight=weight)
        with closing(AgentMemory.in_memory(embedding=settings)) as memory:
            memory.add_memories([Memory(content=text) for text in CATS])
            for hit in search(memory, "cat", 6).results:
                expected = weight / (60 + hit.vector_rank)
                expected += 1 / (60 + hit.keyword_rank) if hit.keyword_rank else 0
                assert hit.score == pytest.approx(expected)

    def test_one_order_in_fifty_runs(self, search: Search) -> None:
        with closing(AgentMemory.in_memory(embedding="local")) as memory:
            memory.add_memories(
                [Memory(id=f"{i:03}", content="the same text") for i in range(40)]
                + [Memory(id=f"x{i:03}", content=f"the same text {i % 3}") for i in range(40)]
            )
            orders = [
                tuple(hit.id for hit in search(memory, "same text", 20).results) for _ in range(50)
            ]

        assert len(set(orders)) == 1
        assert len(orders[0]) == 20

    @pytest.mark.parametrize("query", ["same text", "text 2 same", "something else entirely"])
    def test_a_smaller_limit_gives_the_head_of_a_larger_one(
        self, search: Search, query: str
    ) -> None:
        with closing(AgentMemory.in_memory(embedding="local")) as memory:
            memory.add_memories(
                [Memory(id=f"{i:03}", content=f"the same text {i % 9} {i}") for i in range(150)]
            )
            longest = [hit.id for hit in search(memory, query, 100).results]
            for limit in (*range(1, 21), 33, 34, 50, 99):
                assert [h.id for h in search(memory, query, limit).results] == longest[:limit]

    @pytest.mark.parametrize("query", ["tea", "tea and the roof", "something else entirely"])
    def test_so_it_does_among_messages(self, query: str) -> None:
        """Each of which is understood with those around it."""
        words = ["the roof leaks", "tea or coffee", "a violin lesson", "rates rose", "a green tea"]
        random = Random(7)  # noqa: S311  (it hides nothing)
        with closing(AgentMemory.in_memory(embedding="local")) as memory:
            for session in range(12):
                told = [f"{random.choice(words)} {random.choice(words)} {n}" for n in range(40)]
                memory.add_messages(f"s{session}", [("user", text) for text in told])
            longest = [hit.id for hit in memory.search_conversations(query, 100).results]
            for limit in (1, 5, 20, 33, 34, 50, 99):
                found = memory.search_conversations(query, limit).results
                assert [hit.id for hit in found] == longest[:limit]

    def test_total_is_what_is_returned(self, cats: AgentMemory, search: Search) -> None:
        for limit in (1, 2, 6, 100):
            result = search(cats, "cat", limit)
            assert result.total == len(result.results) == min(limit, len(CATS))


class TestOverRetrieval:
    """How many candidates each index is asked for."""

    @pytest.mark.parametrize("limit", range(1, MAX_LIMIT + 1, 3))
    def test_at_least_three_times_the_limit_and_four_times_in_a_session(self, limit: int) -> None:
        def candidates(session_key: str | None) -> int:
            return make_request(
                MESSAGES,
                "q",
                limit,
                filters={"session_key": session_key},
                bounds={},
                visibility=Visibility(),
                min_similarity=None,
            ).candidates

        assert candidates(None) >= limit * 3
        assert candidates("s") >= limit * 4
        assert candidates(None) > FUSION_DEPTH

    def test_a_hundred_results_can_be_had(self, search: Search) -> None:
        with closing(AgentMemory.in_memory(embedding="local")) as memory:
            memory.add_memories([Memory(content=f"text number{i}") for i in range(130)])

            assert search(memory, "text", 100).total == 100


class TestArguments:
    """What cannot be searched with is refused, and named."""

    @pytest.mark.parametrize("limit", [0, -1, 101, 2.0, "5", None, True])
    def test_a_limit_is_a_whole_number_from_1_to_100(
        self, cats: AgentMemory, search: Search, limit: Any
    ) -> None:
        with pytest.raises(ValueError, match="limit must be a whole number from 1 to 100"):
            search(cats, "cat", limit)

    @pytest.mark.parametrize("query", [None, 5, ["cat"], b"cat"])
    def test_a_query_is_text(self, cats: AgentMemory, search: Search, query: Any) -> None:
        with pytest.raises(TypeError, match="query must be text"):
            search(cats, query)

    @pytest.mark.parametrize("name", ["type", "scene", "session_key"])
    @pytest.mark.parametrize("value", [5, ["x"], True])
    def test_a_filter_is_text(
        self, cats: AgentMemory, search: Search, name: str, value: Any
    ) -> None:
        with pytest.raises(ValueError, match=f"{name} must be text"):
            search(cats, "cat", **{name: value})

    @pytest.mark.parametrize("name", ["type", "scene", "session_key", "after", "before"])
    @pytest.mark.parametrize("value", [None, "", "  "])
    def test_a_blank_filter_is_no_filter(
        self, cats: AgentMemory, search: Search, name: str, value: Any
    ) -> None:
        assert search(cats, "cat", **{name: value}).total == 5

    @pytest.mark.parametrize("name", ["after", "before"])
    def test_a_time_must_be_readable(self, cats: AgentMemory, search: Search, name: str) -> None:
        with pytest.raises(ValueError, match=f"^{name}: cannot read 'soon'"):
            search(cats, "cat", **{name: "soon"})

    @pytest.mark.parametrize("value", [1.01, -2, float("nan"), float("inf"), "0.5", True])
    def test_a_minimum_is_a_cosine(self, cats: AgentMemory, search: Search, value: Any) -> None:
        with pytest.raises(ValueError, match="min_similarity must be a number from -1 to 1"):
            search(cats, "cat", min_similarity=value)

    def test_a_scope_is_one_of_four(self, cats: AgentMemory, search: Search) -> None:
        with pytest.raises(ValueError, match="use one of thread, user, persona, organization"):
            search(cats, "cat", scope="team")

    @pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 1e300, "5", None, True])
    def test_a_time_limit_is_a_positive_number(self, timeout: Any) -> None:
        with pytest.raises(ValueError, match="timeout must be a number of seconds above 0"):
            AgentMemory.in_memory(embedding="none", timeout=timeout)

    @pytest.mark.parametrize("timeout", [1e-9, 1e9, threading.TIMEOUT_MAX])
    def test_any_time_limit_can_be_waited_for(self, timeout: float) -> None:
        with AgentMemory.in_memory(embedding="local", timeout=timeout) as memory:
            memory.add_memory("likes cats")
            assert "OverflowError" not in str(memory.search_memories("cats"))


class TestMinimumSimilarity:
    """The threshold is on cosine, before fusion."""

    def test_what_is_less_similar_is_no_answer(self, cats: AgentMemory, search: Search) -> None:
        everything = search(cats, "sleeping feline pets", 6)
        threshold = everything.results[2].similarity

        result = search(cats, "sleeping feline pets", 6, min_similarity=threshold)

        assert [hit.id for hit in result.results] == [hit.id for hit in everything.results[:3]]

    def test_it_holds_for_keyword_hits_too(self, cats: AgentMemory, search: Search) -> None:
        assert search(cats, "violin", min_similarity=0.99).total == 0
        assert search(cats, "Anna plays the violin", min_similarity=0.99).total == 1

    def test_a_keyword_hit_deeper_in_the_vector_list_is_compared_as_well(
        self, search: Search
    ) -> None:
        with closing(AgentMemory.in_memory(embedding="local")) as memory:
            memory.add_memories([Memory(content=f"cats and kittens number {i}") for i in range(90)])
            memory.add_memory("Interest rates rose again, says zanzibar")
            query = "kitten zanzibar"
            assert any("zanzibar" in hit.content for hit in search(memory, query).results)

            result = search(memory, query, 100, min_similarity=0.3)

        assert result.total > 0
        assert all(hit.similarity >= 0.3 for hit in result.results)

    def test_without_vectors_it_cannot_be_applied_and_the_answer_says_so(
        self, keyword_memory: AgentMemory, search: Search
    ) -> None:
        keyword_memory.add_memory("Our cat is called Minka")

        result = search(keyword_memory, "cat", min_similarity=0.99)

        assert result.total == 1
        assert result.notes == ["min_similarity could not be applied without vectors"]


class TestFailures:
    """One half fails, the other answers and says so."""

    @pytest.mark.parametrize(
        "fault",
        [Fault(status=500), Fault(garbage=True), Fault(drop=1), Fault(non_finite="nan")],
        ids=lambda fault: repr(fault)[:30],
    )
    def test_a_failing_service_leaves_the_keywords(
        self,
        served: AgentMemory,
        server: EmbeddingServer,
        search: Search,
        caplog: pytest.LogCaptureFixture,
        fault: Fault,
    ) -> None:
        server.fault = fault

        result = search(served, "cat")

        assert (result.strategy, result.total) == ("fts", 2)
        assert result.notes[0].startswith("answered by keywords alone: the embedding model")
        assert "answered by keywords alone" in caplog.text
        assert "Minka" not in caplog.text

    def test_a_service_that_is_gone_leaves_the_keywords(
        self, served: AgentMemory, server: EmbeddingServer, search: Search
    ) -> None:
        server.stop()

        result = search(served, "cat")

        assert (result.strategy, result.total) == ("fts", 2)
        assert "answered by keywords alone" in result.notes[0]

    def test_a_service_that_hangs_costs_one_time_limit_and_then_nothing(
        self, served: AgentMemory, server: EmbeddingServer, search: Search
    ) -> None:
        server.fault = Fault(delay=60)
        started = time.monotonic()

        first = search(served, "cat")
        hanging = len(server.requests)
        second = search(served, "kitten")

        assert time.monotonic() - started < NOT_HANGING
        assert (first.strategy, first.total) == ("fts", 2)
        assert "vector search took longer than 0.5 s and was left out" in first.notes
        assert second.results[0].content == "The kitten naps on the couch"
        assert "no answer within 0.5 s" in second.notes[0]
        assert len(server.requests) == hanging

    def test_searches_beyond_those_that_hang_say_that_they_had_no_turn(self) -> None:
        release = threading.Event()

        class Hanging(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [[1.0, 0.0]] * len(texts)

            def embed_query(self, text: str) -> list[float]:
                release.wait()
                return [1.0, 0.0]

        async def search_all(memory: AgentMemory) -> list[list[str]]:
            searches = [memory.asearch_memories(f"cat {n}") for n in range(WORKERS + 3)]
            return [found.notes for found in await asyncio.gather(*searches)]

        with closing(AgentMemory.in_memory(embedding=Hanging(), timeout=0.5)) as memory:
            memory.add_memory("Our cat is called Minka")
            notes = asyncio.run(search_all(memory))
            release.set()

        too_slow = "vector search took longer than 0.5 s and was left out"
        assert notes.count([too_slow]) == WORKERS
        assert notes.count([f"{too_slow}: too many were under way"]) == 3

    @pytest.mark.parametrize("error", [PanicException("'cat'"), OverflowError("'cat'")])
    def test_whatever_a_model_raises_leaves_the_keywords(
        self, search: Search, caplog: pytest.LogCaptureFixture, error: BaseException
    ) -> None:
        class Raising(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [[1.0, 0.0]] * len(texts)

            def embed_query(self, text: str) -> list[float]:
                raise error

        with closing(AgentMemory.in_memory(embedding=Raising())) as memory:
            memory.add_memory("Our cat is called Minka")
            result = search(memory, "cat")

        assert (result.strategy, result.total) == ("fts", 1)
        assert result.notes[0].startswith("answered by keywords alone: ")
        assert "'cat'" not in result.notes[0] + caplog.text

    def test_a_guard_that_fails_leaves_the_keywords(
        self, hybrid: AgentMemory, search: Search, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            msg = "'cat'"
            raise LookupError(msg)

        monkeypatch.setattr("langchain_agentmem.embeddings.embedder.read_fault", fail)
        monkeypatch.setattr(WordLlamaEmbeddings, "embed_query", fail)

        result = search(hybrid, "cat")

        assert (result.strategy, result.total) == ("fts", 2)
        assert result.notes == [
            "answered by keywords alone: the query was not embedded (LookupError)"
        ]

    def test_a_wrong_vector_is_not_remembered(
        self, served: AgentMemory, server: EmbeddingServer, search: Search
    ) -> None:
        server.fault = Fault(wrong_dimension=10)
        assert search(served, "cat").strategy == "fts"
        server.fault = None
        served.add_memory("Something new")  # a success, so the service is trusted again

        assert search(served, "cat").strategy == "hybrid"

    def test_a_failing_chroma_leaves_the_keywords(
        self, hybrid: AgentMemory, search: Search, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            msg = "Internal error: HNSW index is corrupt"
            raise RuntimeError(msg)

        monkeypatch.setattr(VectorIndex, "query", fail)

        result = search(hybrid, "cat")

        assert (result.strategy, result.total) == ("fts", 2)
        assert result.notes == ["vector search failed: Internal error: HNSW index is corrupt"]

    def test_a_failing_keyword_index_leaves_the_vectors(
        self, hybrid: AgentMemory, search: Search
    ) -> None:
        with hybrid._database.write() as connection:
            connection.execute("DROP TABLE memories_fts")

        result = search(hybrid, "cat")

        assert (result.strategy, result.total) == ("embedding", 5)
        assert "keyword search failed: " in result.notes[0]
        assert "memories_fts" in result.notes[0]

    def test_both_halves_too_slow_is_an_answer_too(self, search: Search) -> None:
        class Slow(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [[1.0, 0.0]] * len(texts)

            def embed_query(self, text: str) -> list[float]:
                time.sleep(1)
                return [1.0, 0.0]

        with closing(AgentMemory.in_memory(embedding=Slow(), timeout=1e-6)) as memory:
            memory.add_memories([Memory(content=f"cat {i}") for i in range(3000)])
            result = search(memory, "cat")

        assert result.results == []
        assert any("interrupted" in note for note in result.notes)
        assert any("took longer than 1e-06 s" in note for note in result.notes)

    def test_vectors_that_wait_are_mentioned(
        self, served: AgentMemory, server: EmbeddingServer, search: Search
    ) -> None:
        search(served, "dog")  # its vector is known from here on
        server.fault = Fault(status=401)
        report = served.add_memories([Memory(content="The dog barks"), Memory(content="A bird")])
        assert (report.saved, report.pending) == (2, 2)

        result = search(served, "dog")

        assert result.results[0].content == "The dog barks"
        assert any(
            note.startswith("2 records wait to be found by meaning") for note in result.notes
        )
        assert any("memory.sync()" in note for note in result.notes)
        assert any("HTTP status 401" in note for note in result.notes)
        server.fault = None
        assert served.sync().pending == 0
        assert search(served, "dog").notes == []

    def test_vectors_that_wait_are_written_in_the_background_of_searches(
        self, served: AgentMemory, server: EmbeddingServer, search: Search
    ) -> None:
        server.fault = Fault(status=401)
        served.add_memory("The dog barks")
        server.fault = None

        search(served, "a dog that barks")

        assert comes_true(lambda: served.status().pending == 0)
        assert search(served, "a dog that barks").results[0].content == "The dog barks"
        assert search(served, "a dog that barks").notes == []

    def test_a_write_does_not_wait_for_a_service_that_hung_a_moment_ago(
        self, service_settings: EmbeddingSettings, server: EmbeddingServer, search: Search
    ) -> None:
        impatient = service_settings.model_copy(update={"timeout": 0.2})
        with closing(AgentMemory.in_memory(embedding=impatient)) as memory:
            server.fault = Fault(delay=60)
            first = memory.add_memories([Memory(content="The dog barks")])
            asked = len(server.requests)
            second = memory.add_memories([Memory(content="A bird sings")])
            result = search(memory, "bird")

            assert "did not answer in time" in (first.problem or "")
            assert (second.saved, second.pending, second.problem) == (1, 2, first.problem)
            assert len(server.requests) == asked  # searches do not wait for it either
            assert [hit.content for hit in result.results] == ["A bird sings"]
            assert "did not answer in time" in result.notes[0]


class TestAdvice:
    """An answer without results says so where the query is not to blame."""

    def test_an_empty_store(self, keyword_memory: AgentMemory, search: Search) -> None:
        message = search(keyword_memory, "cat").message

        assert message == "There are no memories yet: nothing has been saved that could be found."

    def test_a_store_without_a_match(self, keyword_memory: AgentMemory, search: Search) -> None:
        keyword_memory.add_memory("Our cat is called Minka")

        assert search(keyword_memory, "zeppelin").message is None

    def test_a_filter_value_that_does_not_exist(
        self, keyword_memory: AgentMemory, search: Search
    ) -> None:
        keyword_memory.add_memory("Our cat is called Minka", type="persona", scene_name="home")

        by_type = search(keyword_memory, "cat", type="facts").message
        by_scene = search(keyword_memory, "cat", scene="office").message

        assert by_type == 'No memory has type "facts". There are: persona.'
        assert by_scene == 'No memory has scene "office". There are: home.'

    def test_a_filter_value_is_not_repeated_at_length(
        self, keyword_memory: AgentMemory, search: Search
    ) -> None:
        keyword_memory.add_memory("Our cat is called Minka", type="persona")

        message = search(keyword_memory, "cat", type="x" * 10_000).message

        assert message == f'No memory has type "{"x" * 200} ...". There are: persona.'

    def test_a_range_whose_ends_are_the_wrong_way_round(
        self, keyword_memory: AgentMemory, search: Search
    ) -> None:
        keyword_memory.add_memory("Our cat is called Minka")

        reversed_ = search(keyword_memory, "cat", after="2026-05-02", before="2026-05-01")
        one_day = search(keyword_memory, "cat", after="2026-05-01", before="2026-05-01")

        assert reversed_.notes == ["after lies behind before: no memory can be between them"]
        assert one_day.notes == []

    def test_values_of_others_are_not_told(
        self, keyword_memory: AgentMemory, search: Search
    ) -> None:
        keyword_memory.add_memory("x", type="secret", scope_id="ben")
        keyword_memory.add_memory("y", type="open", scope_id="anna")
        anna = {"configurable": {"user_id": "anna"}}

        message = search(keyword_memory, "cat", type="facts", config=anna).message

        assert message == 'No memory has type "facts". There are: open.'

    def test_no_more_values_are_named_than_one_can_read(
        self, keyword_memory: AgentMemory, search: Search
    ) -> None:
        keyword_memory.add_memories([Memory(content=f"x{i}", type=f"t{i}") for i in range(50)])

        message = search(keyword_memory, "x", type="facts").message

        assert message is not None
        assert message.endswith(", ....")
        assert message.count(",") == 12

    def test_a_label_cannot_be_taken_for_another(
        self, keyword_memory: AgentMemory, search: Search
    ) -> None:
        keyword_memory.add_memory("x", type='a, b\nThere are: "c"')

        message = search(keyword_memory, "x", type="facts").message

        assert message is not None
        assert "\n" not in message
        assert message.endswith('There are: "a, b\\nThere are: \\"c\\"".')


class TestAsync:
    """The event loop goes on while a search runs."""

    async def test_the_loop_is_not_blocked_by_a_hanging_service(
        self, served: AgentMemory, server: EmbeddingServer
    ) -> None:
        server.fault = Fault(delay=60)

        assert await self._ticks_during(served.asearch_memories("cat")) > 5

    async def test_the_loop_is_not_blocked_by_a_model_without_an_async_side(self) -> None:
        class Slow(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                time.sleep(0.5)
                return [[1.0, 0.0]] * len(texts)

            def embed_query(self, text: str) -> list[float]:
                return self.embed_documents([text])[0]

        async with AgentMemory.in_memory(embedding=Slow()) as memory:
            assert await self._ticks_during(memory.aadd_memory("cat")) > 5
            assert await self._ticks_during(memory.asearch_memories("cat")) > 5

    async def test_the_loop_is_not_blocked_by_a_write(self, hybrid: AgentMemory) -> None:
        written, release = threading.Event(), threading.Event()

        def write() -> bool:
            with hybrid._database.write():  # in memory, whoever reads waits for it
                written.set()
                return release.wait(NOT_HANGING)

        writing = asyncio.create_task(asyncio.to_thread(write))
        await asyncio.to_thread(written.wait)
        searching = asyncio.create_task(hybrid.asearch_memories("cat"))
        for _ in range(20):
            await asyncio.sleep(0.01)
        release.set()

        assert await writing, "the search held up the loop until the write gave up"
        assert (await searching).strategy == "hybrid"

    async def _ticks_during(self, work: Any) -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        await work
        ticking.cancel()
        return ticks

    async def test_many_searches_at_once_do_not_mix(self, cats: AgentMemory) -> None:
        queries = ["violin", "Minka", "budget", "couch", "seven"] * 10

        results = await asyncio.gather(*(cats.asearch_memories(query, 1) for query in queries))

        for query, result in zip(queries, results, strict=True):
            assert query in result.results[0].content

    def test_a_service_serves_one_event_loop_after_the_other(self, served: AgentMemory) -> None:
        strategies = [
            asyncio.run(served.asearch_memories(query)).strategy
            for query in ("cat", "couch", "rates")
        ]

        assert strategies == ["hybrid"] * 3

    async def test_a_cancelled_search_is_cancelled(
        self, served: AgentMemory, server: EmbeddingServer
    ) -> None:
        server.fault = Fault(delay=60)
        task = asyncio.create_task(served.asearch_memories("cat"))
        await asyncio.sleep(0.05)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("query", ["cat", "sleeping feline pets", "zeppelin", ""])
async def test_conversations_are_searched_the_same_way(cats: AgentMemory, query: str) -> None:
    async with AgentMemory.in_memory(embedding="local") as memory:
        for number, text in enumerate(CATS):  # without neighbours, a message is but a text
            memory.add_messages(f"s{number}", [("user", text)])
        found = memory.search_conversations(query, 3)

        assert await memory.asearch_conversations(query, 3) == found

    expected = cats.search_memories(query, 3)
    assert [hit.content for hit in found.results] == [hit.content for hit in expected.results]
    assert [hit.score for hit in found.results] == [hit.score for hit in expected.results]
    assert found.strategy == expected.strategy


@pytest.mark.parametrize("scene", [None, "home"])
def test_what_a_not_excludes_takes_nobodys_place(
    memory: AgentMemory, search: Search, scene: str | None
) -> None:
    garages = [
        Memory(id=f"g{i}", content=f"The roof of garage {i} leaks", scene_name="home")
        for i in range(150)
    ]
    others = [f"The rooftop of house {i} drips" for i in range(20)]
    memory.add_memories(garages)
    memory.add_memories(
        Memory(content=content, scene_name="home")
        for content in ["The roof of the attic is blue", *others]
    )
    memory.add_memories(Memory(content=f"Elsewhere {i}") for i in range(150))

    def contents() -> list[str]:
        found = search(memory, "roof NOT garage", limit=10, scene=scene)
        assert found.strategy == "hybrid"
        return [hit.content for hit in found.results]

    beside = contents()
    memory.delete([garage.id for garage in garages])

    assert beside[0] == "The roof of the attic is blue"
    assert len(beside) == 10
    assert beside == contents()
