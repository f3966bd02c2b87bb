"""The vector index on a real Chroma: in memory, in a folder, and with a client that is given."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.errors import InternalError
from python_process import run_python

from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES
from langchain_agentmem.storage.vector_index import (
    VectorIndex,
    check_client,
    embedded_client,
    in_memory_client,
)

Open = Callable[..., VectorIndex]


@pytest.fixture(params=["in memory", "folder", "given client"])
def open_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens indexes on one client; the namespace is the test's own."""
    client: Any
    if request.param == "in memory":
        client = in_memory_client()
    elif request.param == "folder":
        client = embedded_client(tmp_path / "chroma")
    else:
        client = chromadb.EphemeralClient()
    own = uuid.uuid4().hex

    def open_(namespace: str = own, fingerprint: str = "model1") -> VectorIndex:
        return VectorIndex(client, namespace, fingerprint)

    yield open_
    for fingerprint in ("model1", "model2"):
        open_(fingerprint=fingerprint).drop()
    if request.param == "folder":
        client.close()


@pytest.fixture
def index(open_index: Open) -> VectorIndex:
    return open_index()


def vectors(*rows: list[float]) -> list[Vectors]:
    return [np.array(row, dtype=np.float32) for row in rows]


NORTH, EAST, SOUTH, NORTH_EAST = [0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [1.0, 1.0]
QUERY = np.array(NORTH, dtype=np.float32)


def fill(index: VectorIndex) -> None:
    index.upsert(
        MEMORIES, ["north", "east", "south", "north_east"], vectors(NORTH, EAST, SOUTH, NORTH_EAST)
    )


def test_the_nearest_come_first_with_their_cosine(index: VectorIndex) -> None:
    fill(index)

    answer = index.query(MEMORIES, QUERY, 4)

    assert [id_ for id_, _ in answer] == ["north", "north_east", "east", "south"]
    assert [similarity for _, similarity in answer] == pytest.approx([1, 0.5**0.5, 0, -1], abs=1e-5)
    assert index.query(MEMORIES, QUERY, 2) == answer[:2]


def test_the_length_of_a_vector_does_not_matter(index: VectorIndex) -> None:
    index.upsert(MEMORIES, ["short", "long"], vectors([0.0, 0.001], [0.0, 1000.0]))

    assert dict(index.query(MEMORIES, QUERY * 50, 2)) == pytest.approx(
        {"short": 1.0, "long": 1.0}, abs=1e-5
    )


def test_similarities_are_exact_and_of_the_known_ids_alone(index: VectorIndex) -> None:
    fill(index)

    found = index.similarities(MEMORIES, QUERY * 3, ["south", "north_east", "missing"])

    assert found == pytest.approx({"south": -1, "north_east": 0.5**0.5}, abs=1e-6)
    assert index.similarities(MEMORIES, QUERY, []) == {}


def test_a_vector_of_zeros_is_similar_to_nothing(index: VectorIndex) -> None:
    index.upsert(MEMORIES, ["zero", "north"], vectors([0.0, 0.0], NORTH))

    similarities = index.similarities(MEMORIES, QUERY, ["zero"])
    answer = dict(index.query(MEMORIES, QUERY, 2))
    nowhere = index.query(MEMORIES, np.zeros(2, dtype=np.float32), 2)

    assert similarities == {"zero": 0.0}
    assert answer == pytest.approx({"zero": 0.0, "north": 1.0}, abs=1e-5)
    assert [similarity for _, similarity in nowhere] == pytest.approx([0, 0], abs=1e-5)


def test_a_vector_is_replaced(index: VectorIndex) -> None:
    index.upsert(MEMORIES, ["a"], vectors(NORTH))
    index.upsert(MEMORIES, ["a"], vectors(SOUTH))

    assert index.count(MEMORIES) == 1
    assert index.similarities(MEMORIES, QUERY, ["a"]) == pytest.approx({"a": -1}, abs=1e-6)


def test_vectors_are_deleted_and_unknown_ids_passed_over(index: VectorIndex) -> None:
    fill(index)
    index.delete(MEMORIES, ["north", "missing"])
    index.delete(MEMORIES, ["missing"])

    assert index.count(MEMORIES) == 3
    assert "north" not in dict(index.query(MEMORIES, QUERY, 3))


def test_a_new_index_is_empty(index: VectorIndex) -> None:
    assert index.count(MEMORIES) == 0
    assert index.similarities(MEMORIES, QUERY, ["a"]) == {}


def test_both_kinds_have_vectors_of_their_own(index: VectorIndex) -> None:
    index.upsert(MEMORIES, ["a"], vectors(NORTH))
    index.upsert(MESSAGES, ["b"], vectors([1.0, 0.0, 0.0]))

    assert index.query(MEMORIES, QUERY, 1)[0][0] == "a"
    assert index.count(MESSAGES) == 1


def test_memories_on_one_server_do_not_meet(open_index: Open) -> None:
    mine, theirs = open_index(), open_index(namespace="another")
    mine.upsert(MEMORIES, ["a"], vectors(NORTH))

    assert theirs.count(MEMORIES) == 0
    theirs.drop()
    assert mine.count(MEMORIES) == 1


def test_models_have_collections_of_their_own_and_the_old_ones_can_go(open_index: Open) -> None:
    old, new = open_index(), open_index(fingerprint="model2")
    old.upsert(MEMORIES, ["a"], vectors(NORTH))
    assert new.has_other_models()
    new.upsert(MEMORIES, ["a"], vectors([1.0, 0.0, 0.0]))

    assert old.count(MEMORIES) == 1
    new.drop_other_models()

    assert not new.has_other_models()
    assert new.count(MEMORIES) == 1
    assert open_index().count(MEMORIES) == 0


def test_dropping_leaves_nothing(open_index: Open) -> None:
    index = open_index()
    fill(index)
    index.drop()

    assert open_index().count(MEMORIES) == 0


def test_more_vectors_than_chroma_takes_at_once(index: VectorIndex) -> None:
    ids = [f"m{i}" for i in range(6000)]
    angles = np.linspace(0, np.pi, len(ids), dtype=np.float32)
    index.upsert(MEMORIES, ids, list(np.stack([np.sin(angles), np.cos(angles)], axis=1)))

    assert index.count(MEMORIES) == 6000
    assert len(index.similarities(MEMORIES, QUERY, ids)) == 6000
    assert index.query(MEMORIES, QUERY, 1)[0][0] == "m0"
    index.delete(MEMORIES, ids)
    assert index.count(MEMORIES) == 0


def test_vectors_in_a_folder_outlive_the_process(tmp_path: Path) -> None:
    first = VectorIndex(embedded_client(tmp_path), "n", "m")
    first.upsert(MEMORIES, ["a"], vectors(NORTH))
    first.close()

    second = VectorIndex(embedded_client(tmp_path), "n", "m")
    assert second.query(MEMORIES, QUERY, 1)[0][0] == "a"
    second.close()


def test_no_text_is_given_to_chroma(index: VectorIndex) -> None:
    index.upsert(MEMORIES, ["a"], vectors(NORTH))

    stored = index._collection(MEMORIES).get()

    assert not any(stored["documents"] or [])
    assert not any(stored["metadatas"] or [])


@pytest.mark.parametrize("given", [None, "path", 5, object(), Path(), dict])
def test_what_is_no_chroma_client_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"chroma_client: .* is not a Chroma client"):
        check_client(given)


async def test_an_asynchronous_client_is_refused_as_such() -> None:
    class Client:
        async def get_or_create_collection(self) -> None: ...

    connecting = chromadb.AsyncHttpClient()
    for given in (Client(), connecting):
        with pytest.raises(TypeError, match="asynchronous Chroma clients are not supported"):
            check_client(given)
    connecting.close()
    await asyncio.sleep(0)


ONE_PROCESS = """
from chromadb import EphemeralClient
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_agentmem import AgentMemory

embedding = DeterministicFakeEmbedding(size=8)


def remember():
    memory = AgentMemory.in_memory(embedding=embedding)
    memory.add_memory("The roof leaks")
    assert memory.search_memories("roof").strategy == "hybrid", memory.status()


def store():
    Chroma("notes", embedding).add_texts(["The gutter leaks"])


def own_client():
    EphemeralClient(settings=Settings(anonymized_telemetry=False)).create_collection("notes")


"""


@pytest.mark.parametrize("order", ["remember(); store()", "store(); remember()"])
def test_a_memory_and_a_store_in_memory_bear_each_other(order: str) -> None:
    done = run_python(ONE_PROCESS + order)
    assert done.returncode == 0, done.stderr


def test_an_application_s_own_settings_of_chroma_in_memory_are_kept_to() -> None:
    done = run_python(f"{ONE_PROCESS}own_client(); remember()")
    assert done.returncode == 0, done.stderr


def test_a_client_is_accepted() -> None:
    client = in_memory_client()

    assert check_client(client) is client


class TestWhenAVectorGoesWhileChromaLooks:
    """Chroma finds an id, and fails where it is gone when its vector is read."""

    @pytest.fixture
    def failing(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """What the next queries fail with."""
        errors: list[str] = []
        query = chromadb.Collection.query

        def query_or_fail(*args: Any, **options: Any) -> Any:
            if errors:
                raise InternalError(errors.pop(0))
            return query(*args, **options)

        monkeypatch.setattr(chromadb.Collection, "query", query_or_fail)
        return errors

    def test_it_is_asked_once_more(self, index: VectorIndex, failing: list[str]) -> None:
        index.upsert(MEMORIES, ["n", "s"], vectors(NORTH, SOUTH))
        failing.append("Error executing plan: Internal error: Error finding id")

        assert [id_ for id_, _ in index.query(MEMORIES, QUERY, 2)] == ["n", "s"]

    @pytest.mark.parametrize("errors", [["Error finding id"] * 2, ["disk full"]], ids=str)
    def test_what_lasts_is_raised(
        self, index: VectorIndex, failing: list[str], errors: list[str]
    ) -> None:
        index.upsert(MEMORIES, ["n"], vectors(NORTH))
        failing.extend(errors)

        with pytest.raises(InternalError, match=errors[0]):
            index.query(MEMORIES, QUERY, 1)
        assert failing == []
