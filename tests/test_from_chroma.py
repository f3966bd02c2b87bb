"""A Chroma collection that is there already: searched by keyword too, its vectors reused."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from exported import lines
from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings

from langchain_agentmem import AgentMemory, EmbeddingError, Memory
from langchain_agentmem.embeddings.local import WordLlamaEmbeddings


class Counting(Embeddings):
    """WordLlama, and how many texts it embedded."""

    def __init__(self, model: str = "counting") -> None:
        self.model = model
        self.documents = self.queries = 0
        self._embeddings = WordLlamaEmbeddings()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.documents += len(texts)
        return self._embeddings.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        self.queries += 1
        return self._embeddings.embed_query(text)


class Rotated(Counting):
    """A model of as many dimensions and other vectors."""

    def embed_query(self, text: str) -> list[float]:
        return super().embed_query(text)[::-1]


class Short(Counting):
    """A model of fewer dimensions."""

    def embed_query(self, text: str) -> list[float]:
        return super().embed_query(text)[:8]


class Down(Counting):
    """A model that cannot be reached."""

    def embed_query(self, text: str) -> list[float]:
        msg = "no route to host"
        raise ConnectionError(msg)


TEXTS = [
    "The roof of the garage leaks",
    "Prefers tea without sugar",
    "Rehearses a play on Mondays",
    "ADR-016 moves the queue to the database",
]


@pytest.fixture
def embedding() -> Counting:
    return Counting()


@pytest.fixture
def store(tmp_path: Path, embedding: Counting) -> Chroma:
    """A vector store as langchain-chroma makes it, which has not counted yet."""
    made = Chroma("notes", embedding, persist_directory=str(tmp_path / "theirs"))
    metadatas: list[dict[str, Any]] = [
        {
            "type": "episodic",
            "source": f"{number}.txt",
            "user_id": "ann",
            "timestamp": 1_700_000_000,
        }
        for number in range(len(TEXTS))
    ]
    made.add_texts(TEXTS, metadatas, ids=[f"doc-{number}" for number in range(len(TEXTS))])
    embedding.documents = embedding.queries = 0
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ours"


def collection_of(store: Chroma) -> Any:
    return store._collection


class TestFromChroma:
    def test_its_documents_are_found_both_ways_and_none_is_embedded(
        self, store: Chroma, embedding: Counting, folder: Path
    ) -> None:
        with AgentMemory.from_chroma(store, folder) as memory:
            found = memory.search_memories("ADR-016", limit=1)

            assert found.strategy == "hybrid"
            (hit,) = found.results
            assert (hit.id, hit.scope_id, hit.metadata) == ("doc-3", "ann", {"source": "3.txt"})
            assert (hit.keyword_rank, hit.vector_rank) == (1, 1)
            assert all(finding.ok for finding in memory.check())
        assert embedding.documents == 0

    def test_opened_again_with_the_same_embedding_nothing_is_to_be_done(
        self, store: Chroma, embedding: Counting, folder: Path
    ) -> None:
        AgentMemory.from_chroma(collection_of(store), folder, embedding=embedding).close()

        with AgentMemory.open(folder, embedding=embedding) as memory:
            assert memory.search_memories("leaking roof").strategy == "hybrid"
            assert memory.sync().indexed == 0
        assert embedding.documents == 0

    def test_the_vectors_are_theirs(self, store: Chroma, folder: Path) -> None:
        stored = collection_of(store).get(include=["embeddings"])
        theirs = dict(zip(stored["ids"], np.asarray(stored["embeddings"]), strict=True))

        with AgentMemory.from_chroma(store, folder) as memory:
            index = memory._vectors.index
            assert index is not None
            from langchain_agentmem.storage.kinds import MEMORIES

            for id_, vector in index.vectors(MEMORIES, list(theirs)).items():
                unit = theirs[id_] / np.linalg.norm(theirs[id_])
                assert np.allclose(vector, unit, atol=1e-5)

    def test_without_an_embedding_keywords_find_them_and_no_model_is_asked(
        self, store: Chroma, embedding: Counting, folder: Path
    ) -> None:
        with AgentMemory.from_chroma(collection_of(store), folder) as memory:
            found = memory.search_memories("roof")
            assert (found.strategy, found.total, found.notes) == ("fts", 1, [])
            assert memory.status().pending == 0
        assert (embedding.documents, embedding.queries) == (0, 0)

    def test_imported_once_more_with_the_embedding_they_get_their_vectors(
        self, store: Chroma, embedding: Counting, folder: Path
    ) -> None:
        AgentMemory.from_chroma(collection_of(store), folder).close()

        with AgentMemory.from_chroma(collection_of(store), folder, embedding=embedding) as memory:
            assert memory.status().pending == 0
            assert memory.search_memories("leaking roof").strategy == "hybrid"
        assert embedding.documents == 0

    def test_the_embedding_that_the_environment_names_is_used(
        self, store: Chroma, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AGENTMEM_EMBEDDING_PROVIDER", "local")

        with AgentMemory.from_chroma(collection_of(store), folder) as memory:
            assert memory.search_memories("leaking roof").strategy == "hybrid"

    def test_documents_become_messages_where_asked(self, store: Chroma, folder: Path) -> None:
        with AgentMemory.from_chroma(store, folder, into="conversations") as memory:
            (hit,) = memory.search_conversations("ADR-016", limit=1).results

        assert (hit.id, hit.session_key, hit.role, hit.vector_rank) == ("doc-3", "notes", "user", 1)

    def test_further_options_are_those_of_open(self, store: Chroma, folder: Path) -> None:
        with AgentMemory.from_chroma(store, folder, require_scope=True, timeout=3.0) as memory:
            assert memory.search_memories("roof").total == 0

    def test_what_was_left_out_is_logged(
        self, store: Chroma, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        collection_of(store).add(ids=["empty"], embeddings=[[1.0] * 256])

        with AgentMemory.from_chroma(store, folder) as memory:
            assert memory.status().memories == len(TEXTS)
        assert "empty: has no text" in caplog.text


class TestImport:
    @pytest.fixture
    def memory(self, folder: Path, embedding: Counting) -> Iterator[AgentMemory]:
        with AgentMemory.open(folder, embedding=embedding) as opened:
            yield opened

    def test_doing_it_again_changes_nothing(self, memory: AgentMemory, store: Chroma) -> None:
        first = memory.import_chroma(store)
        before = lines(memory)
        again = memory.import_chroma(store)

        assert (first.memories, first.indexed, first.pending) == (4, 4, 0)
        assert (again.saved, again.duplicates, again.indexed) == (0, 4, 0)
        assert (first.problems, again.problems) == ([], [])
        assert lines(memory) == before

    def test_what_is_new_is_added(
        self, memory: AgentMemory, store: Chroma, embedding: Counting
    ) -> None:
        memory.import_chroma(store)
        store.add_texts(["Owns a ladder"], ids=["new"])
        embedding.documents = 0

        report = memory.import_chroma(store)

        assert (report.saved, report.duplicates, report.indexed) == (1, 4, 1)
        assert embedding.documents == 0

    def test_what_changed_here_stands_and_keeps_its_own_vector(
        self, memory: AgentMemory, store: Chroma
    ) -> None:
        memory.import_chroma(store)
        memory.update_memory("doc-1", content="Prefers coffee")

        report = memory.import_chroma(store)

        assert (report.conflicts, report.duplicates, report.indexed) == (1, 3, 0)
        assert report.problems == ["doc-1: is there with other content; kept as it was"]
        (hit,) = memory.search_memories("coffee", limit=1).results
        assert hit.content == "Prefers coffee"
        assert hit.similarity is not None
        assert hit.similarity > 0.5

    def test_a_record_that_changed_before_its_vector_came_is_embedded_anew(
        self, store: Chroma, embedding: Counting, folder: Path
    ) -> None:
        with AgentMemory.from_chroma(collection_of(store), folder) as memory:
            memory.update_memory("doc-1", content="Prefers coffee")
        with AgentMemory.from_chroma(store, folder) as memory:
            assert memory.status().pending == 1
            memory.sync()
            (hit,) = memory.search_memories("coffee", limit=1).results
        assert embedding.documents == 1
        assert hit.similarity is not None
        assert hit.similarity > 0.5

    def test_an_import_that_was_cut_off_is_completed(
        self, store: Chroma, embedding: Counting, folder: Path
    ) -> None:
        store.add_texts([f"number {n}" for n in range(1200)], ids=[str(n) for n in range(1200)])
        embedding.documents = 0

        def stop(done: int, _: int) -> None:
            if done >= 1000:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            AgentMemory.from_chroma(store, folder, progress=stop)
        steps: list[tuple[int, int]] = []
        with AgentMemory.from_chroma(
            store, folder, progress=lambda *step: steps.append(step)
        ) as memory:
            status = memory.status()
            assert (status.memories, status.pending) == (1204, 0)
        assert steps == [(500, 704), (1000, 204), (1204, 0)]
        assert embedding.documents == 0

    def test_what_has_no_text_or_no_usable_id_is_named_and_the_rest_is_kept(
        self, memory: AgentMemory, store: Chroma
    ) -> None:
        collection_of(store).add(
            ids=["none", "blank", "x" * 600],
            documents=["", " \n", "too long an id"],
            embeddings=[[1 / 16] * 256] * 3,
        )

        report = memory.import_chroma(store)

        assert (report.saved, report.skipped) == (4, 3)
        assert sorted(problem[:9] for problem in report.problems) == [
            "blank: ha",
            "none: has",
            "xxxxxxxxx",
        ]

    def test_an_id_that_is_taken_is_another_record_found_by_the_own_id(
        self, memory: AgentMemory, store: Chroma
    ) -> None:
        memory.add_memories([Memory(id="doc-0", content="Somebody else's", scope_id="ben")])

        report = memory.import_chroma(store)

        assert (report.saved, report.indexed, report.pending) == (4, 4, 0)
        assert memory.import_chroma(store).duplicates == 4
        (hit,) = memory.search_memories("garage roof", limit=1).results
        assert hit.id.startswith("doc-0-")
        assert hit.vector_rank == 1

    def test_documents_of_nobody_are_filed_for_the_turn(
        self, memory: AgentMemory, store: Chroma
    ) -> None:
        store.add_texts(["Owns a ladder"], ids=["bare"])

        memory.import_chroma(store, config={"configurable": {"user_id": "ben"}})

        owners = {id_: getattr(memory.get(id_), "scope_id", None) for id_ in ("bare", "doc-0")}
        assert owners == {"bare": "ben", "doc-0": "ann"}

    @pytest.mark.parametrize("into", ["memories", "conversations"])
    def test_what_the_turn_cannot_own_is_named_and_the_rest_is_kept(
        self, memory: AgentMemory, store: Chroma, into: Any
    ) -> None:
        for scope in ("organization", "persona", "thread"):
            store.add_texts(["Owns a ladder"], [{"scope": scope}], ids=[scope])

        report = memory.import_chroma(
            store, into=into, config={"configurable": {"user_id": "ben"}}, copy_vectors=False
        )

        assert (report.saved, report.skipped) == (4, 3)
        assert sorted(problem.split(" needs ")[0] for problem in report.problems) == [
            f'{scope}: scope "{scope}"' for scope in ("organization", "persona", "thread")
        ]

    def test_vectors_can_be_left_to_another_model(self, store: Chroma, folder: Path) -> None:
        other = Rotated("rotated")
        with AgentMemory.from_chroma(store, folder, embedding=other, copy_vectors=False) as memory:
            assert memory.status().pending == 4
            memory.sync()
            assert (memory.status().pending, other.documents) == (0, 4)

    async def test_the_async_twin_does_the_same(self, memory: AgentMemory, store: Chroma) -> None:
        assert (await memory.aimport_chroma(store)).indexed == 4

    @pytest.mark.parametrize(
        ("other", "problem"),
        [
            (Short, r"counting makes vectors of 8 dimensions, the collection has 256: give "),
            (Rotated, r"counting did not make the collection's vectors: .*copy_vectors=False"),
        ],
    )
    def test_vectors_of_another_model_are_refused(
        self, store: Chroma, folder: Path, other: Callable[[], Embeddings], problem: str
    ) -> None:
        with AgentMemory.open(folder, embedding=other()) as memory:
            with pytest.raises(ValueError, match=f"embedding: {problem}"):
                memory.import_chroma(store)
            assert memory.status().memories == 0

    def test_a_model_that_cannot_be_asked_is_an_error(self, store: Chroma, folder: Path) -> None:
        with AgentMemory.open(folder, embedding=Down()) as memory:
            with pytest.raises(EmbeddingError, match="no route to host"):
                memory.import_chroma(store)
            assert memory.status().memories == 0

    def test_what_is_no_collection_is_named(self, memory: AgentMemory) -> None:
        for wrong in ("notes", None, object()):
            with pytest.raises(TypeError, match="collection must be a chromadb Collection"):
                memory.import_chroma(wrong)

    def test_what_documents_cannot_become_is_named(
        self, memory: AgentMemory, store: Chroma
    ) -> None:
        with pytest.raises(ValueError, match="into: use one of memories, conversations"):
            memory.import_chroma(store, into="facts")  # type: ignore[arg-type]

    def test_an_empty_collection_is_nothing_to_import(
        self, memory: AgentMemory, tmp_path: Path
    ) -> None:
        client = chromadb.PersistentClient(str(tmp_path / "empty"))

        report = memory.import_chroma(client.create_collection("empty", embedding_function=None))

        assert (report.saved, report.problems) == (0, [])

    @pytest.mark.parametrize("space", ["l2", "ip", "cosine"])
    @pytest.mark.parametrize("length", [1.0, 3.0])
    def test_what_ranked_otherwise_is_told(
        self, memory: AgentMemory, tmp_path: Path, space: Any, length: float
    ) -> None:
        client = chromadb.PersistentClient(str(tmp_path / "spaces"))
        collection = client.create_collection(
            "docs", configuration={"hnsw": {"space": space}}, embedding_function=None
        )
        vectors = np.asarray(WordLlamaEmbeddings().embed_documents(TEXTS))
        vectors *= length / np.linalg.norm(vectors, axis=1, keepdims=True)
        collection.add(ids=[*"abcd"], documents=TEXTS, embeddings=vectors)

        report = memory.import_chroma(collection)

        told = [problem for problem in report.problems if f"ranked by {space}" in problem]
        assert (report.indexed, len(told)) == (4, space != "cosine" and length != 1.0)
        (hit,) = memory.search_memories(TEXTS[0], limit=1).results
        assert hit.similarity is not None
        assert math.isclose(hit.similarity, 1.0, abs_tol=1e-4)

    @pytest.mark.slow
    def test_five_thousand_documents(
        self, store: Chroma, embedding: Counting, folder: Path
    ) -> None:
        store.add_texts([f"note {n} of a roof" for n in range(4996)])
        embedding.documents = 0

        with AgentMemory.from_chroma(collection_of(store), folder / "keywords") as memory:
            assert memory.search_memories("4321").total == 1
        assert (embedding.documents, embedding.queries) == (0, 0)
        with AgentMemory.from_chroma(store, folder / "both") as memory:
            assert (memory.status().memories, memory.status().pending) == (5000, 0)
            assert memory.search_memories("4321").strategy == "hybrid"
        assert embedding.documents == 0
