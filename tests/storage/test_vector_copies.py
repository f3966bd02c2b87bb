"""Copies of vectors are as old as their records, and of the model in use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from langchain_agentmem import AgentMemory, Memory
from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.storage import selection, vector_copies
from langchain_agentmem.storage.kinds import RecordKind
from langchain_agentmem.storage.vector_copies import VectorCopies
from langchain_agentmem.storage.vector_index import VectorIndex


class Counted(DeterministicFakeEmbedding):
    """A model, known by its name."""

    model: str = "first"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[AgentMemory]:
    with AgentMemory.open(tmp_path, embedding=Counted(size=8)) as opened:
        opened.add_memories([Memory(id=f"m{i}", content=f"text {i}", type="t") for i in range(20)])
        opened.add_messages("s", [("user", "hello there"), ("assistant", "general")])
        yield opened


def copies(memory: AgentMemory, kind: str = "memories") -> dict[str, np.ndarray]:
    sql = f"SELECT r.id, v.vector FROM {kind}_vectors v JOIN {kind} r ON r.seq = v.seq"  # noqa: S608
    with memory._database.read() as connection:
        return {id_: np.frombuffer(blob, dtype=np.float32) for id_, blob in connection.execute(sql)}


def orphans(memory: AgentMemory) -> int:
    sql = "SELECT count(*) FROM memories_vectors WHERE seq NOT IN (SELECT seq FROM memories)"
    with memory._database.read() as connection:
        return int(connection.execute(sql).fetchone()[0])


def test_each_record_has_a_copy_of_its_vector_with_length_1(memory: AgentMemory) -> None:
    found = copies(memory)

    assert len(found) == 20
    assert len(copies(memory, "messages")) == 2
    for id_, copy in found.items():
        own = np.asarray(Counted(size=8).embed_documents([f"text {id_[1:]}"])[0], dtype=np.float32)
        assert copy == pytest.approx(own / np.linalg.norm(own), abs=1e-6)


def test_a_changed_text_changes_the_copy(memory: AgentMemory) -> None:
    before = copies(memory)
    memory.update_memory("m1", content="another text")
    after = copies(memory)

    assert not np.allclose(before["m1"], after["m1"])
    assert np.array_equal(before["m2"], after["m2"])


def test_what_is_deleted_leaves_no_copy_and_gets_one_when_it_comes_back(
    memory: AgentMemory,
) -> None:
    memory.delete(["m1", "m2"])
    assert not {"m1", "m2"} & copies(memory).keys()

    memory.restore("m2")
    assert "m2" in copies(memory)

    memory.purge(["m1", "m2", "m3"])
    assert len(copies(memory)) == 17
    assert orphans(memory) == 0


def test_an_outdated_copy_is_gone_before_the_new_vector_is_there(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        msg = "out of order"
        raise RuntimeError(msg)

    monkeypatch.setattr(VectorIndex, "upsert", refuse)
    memory.update_memory("m1", content="another text")

    assert "m1" not in copies(memory)


@pytest.mark.parametrize("most", [1000, 0], ids=["few", "many"])
def test_a_changed_record_is_not_found_by_what_it_said_before(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(selection, "few_at_most", lambda _: most)
    for old in ("text 1", "text 2"):
        assert memory.search_memories(old, type="t", min_similarity=0.99).total == 1

    def refuse(*_: Any) -> None:
        msg = "out of order"
        raise RuntimeError(msg)

    monkeypatch.setattr(VectorIndex, "upsert", refuse)
    memory.update_memory("m1", content="wholly other")
    memory.update_memory("m2", priority=90)  # its text, and so its vector, is the same

    assert memory.search_memories("text 1", type="t", min_similarity=0.99).results == []
    assert [hit.id for hit in memory.search_memories("text 2", min_similarity=0.99).results] == [
        "m2"
    ]
    # Nothing is known of how near the new text is, which speaks against no match of its words.
    found = memory.search_memories("wholly", type="t", min_similarity=0.99)
    assert [(hit.id, hit.similarity) for hit in found.results] == [("m1", None)]


def test_few_records_are_compared_without_asking_the_vector_index(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = memory.search_memories("text 7", type="t")

    def never(*_: Any) -> None:
        pytest.fail("the vector index was asked")

    monkeypatch.setattr(VectorIndex, "query", never)
    monkeypatch.setattr(VectorIndex, "vectors", never)
    found = memory.search_memories("text 7", type="t")

    assert found == expected
    assert (found.strategy, found.total, found.notes) == ("hybrid", 5, [])


def test_what_has_no_copy_is_asked_of_the_vector_index(memory: AgentMemory) -> None:
    expected = memory.search_memories("text 7", 20, type="t")
    with memory._database.write() as connection:
        connection.execute("DELETE FROM memories_vectors WHERE seq % 2")

    found = memory.search_memories("text 7", 20, type="t")

    assert [hit.id for hit in found.results] == [hit.id for hit in expected.results]
    assert [hit.similarity for hit in found.results] == pytest.approx(
        [hit.similarity for hit in expected.results], abs=1e-5
    )


def ends_early(monkeypatch: pytest.MonkeyPatch, leads_to: set[str]) -> None:
    """Make Chroma's graph end where it leads to no other records than these."""
    query = VectorIndex.query

    def ending(
        self: VectorIndex, kind: RecordKind, vector: Vectors, k: int
    ) -> list[tuple[str, float]]:
        return [each for each in query(self, kind, vector, 1000) if each[0] in leads_to][:k]

    monkeypatch.setattr(VectorIndex, "query", ending)


@pytest.mark.parametrize("leads_to", ["", "m1 m3", "m2 x5"])
def test_a_filter_is_not_starved_by_a_graph_that_falls_into_parts(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch, leads_to: str
) -> None:
    memory.add_memories([Memory(id=f"x{i}", content=f"text 10{i}", type="x") for i in range(10)])
    expected = memory.search_memories("nothing alike", 30, type="t")
    monkeypatch.setattr(selection, "few_at_most", lambda _: 5)
    ends_early(monkeypatch, set(leads_to.split()))
    monkeypatch.setattr(vector_copies, "_BATCH", 7)

    found = memory.search_memories("nothing alike", 30, type="t", explain=True)

    assert expected.total == 20
    assert [hit.id for hit in found.results] == [hit.id for hit in expected.results]
    assert [hit.similarity for hit in found.results] == pytest.approx(
        [hit.similarity for hit in expected.results], abs=1e-5
    )
    assert "compared with all that do" in " ".join(found.plan)


def test_vectors_without_copies_stay_found_where_the_graph_ends(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "few_at_most", lambda _: 5)
    ends_early(monkeypatch, {"m1", "m3"})
    with memory._database.write() as connection:
        connection.execute("DELETE FROM memories_vectors WHERE seq <= 10")

    found = {hit.id for hit in memory.search_memories("nothing alike", 30, type="t").results}

    assert found == {"m1", "m3", *(f"m{i}" for i in range(10, 20))}


def test_where_all_vectors_were_seen_they_are_not_compared_again(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VectorCopies, "nearest", lambda *_: pytest.fail("compared again"))

    assert memory.search_memories("nothing alike", 30).total == 20


@pytest.mark.parametrize(
    "other", [Counted(size=8, model="second"), Counted(size=4, model="second")], ids=["8", "4"]
)
def test_another_model_begins_without_copies(tmp_path: Path, other: Embeddings) -> None:
    with AgentMemory.open(tmp_path, embedding=Counted(size=8)) as memory:
        memory.add_memories([Memory(content="first"), Memory(content="second")])
    with AgentMemory.open(tmp_path, embedding=other) as memory:
        assert copies(memory) == {}
        memory.sync()
        assert len(copies(memory)) == 2
