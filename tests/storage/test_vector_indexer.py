"""The vector index is brought level with the database, through every failure."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import httpx
import numpy as np
import pytest
from filelock import Timeout
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from storage_parts import StorageParts, VectorParts

from langchain_agentmem import Memory, Message
from langchain_agentmem.embeddings.embedder import Embedder, Vectors
from langchain_agentmem.errors import StorageError
from langchain_agentmem.records import Record
from langchain_agentmem.storage import vector_indexer
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import KINDS, LIVE, MEMORIES, MESSAGES, RecordKind
from langchain_agentmem.storage.vector_index import VectorIndex
from langchain_agentmem.storage.vector_indexer import Indexed, VectorIndexer
from langchain_agentmem.storage.vector_queue import VectorQueue


def httpx_error(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1/v1/embeddings")
    response = httpx.Response(status, request=request)
    return httpx.HTTPStatusError("no", request=request, response=response)


class Service(Embeddings):
    """An embedding service that can be made to fail; vectors are deterministic."""

    def __init__(self, size: int = 3) -> None:
        self._vectors = DeterministicFakeEmbedding(size=size)
        self.calls: list[list[str]] = []
        self.fails: Callable[[list[str]], bool] = lambda _: False
        self.error: Exception = ConnectionError("service unavailable")
        self.before: Callable[[], None] = lambda: None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(texts)
        self.before()
        if self.fails(texts):
            raise self.error
        return self._vectors.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self._vectors.embed_query(text)


class Parts(VectorParts):
    """An indexer with all that it works on, over a database that stays open."""

    def __init__(self, database: Database, size: int = 3) -> None:
        self.service = Service(size)
        self.embedder = Embedder(self.service, name="model", identity=f"model {size}")
        super().__init__(database, self.embedder.fingerprint)
        self.busy = False
        self.indexer = VectorIndexer(
            database, self.store, self.queue, self.embedder, self.index, turn=self.turn
        )

    def turn(self) -> AbstractContextManager[object]:
        if self.busy:
            msg = "queue.lock"
            raise Timeout(msg)
        return nullcontext()

    def save(self, *ids: str) -> None:
        records: list[Record] = [Memory(id=id_, content=f"text of {id_}") for id_ in ids]
        self.store.save(MEMORIES, records)

    def stored(self, *ids: str) -> set[str]:
        """Those of the ids that have the vector of their present text."""
        found = set()
        for id_ in ids:
            record = self.store.get(id_)
            vector = self.index._collection(MEMORIES).get(ids=[id_], include=["embeddings"])
            if record is None:
                found |= set(vector["ids"])
                continue
            expected = self.service.embed_query(record.content)
            embeddings: Any = vector["embeddings"]
            if vector["ids"] and embeddings[0].tolist() == pytest.approx(expected, abs=1e-5):
                found.add(id_)
        return found


@pytest.fixture
def database() -> Iterator[Database]:
    with closing(Database(None)) as opened:
        yield opened


@pytest.fixture
def parts(database: Database) -> Iterator[Parts]:
    made = Parts(database)
    yield made
    made.index.drop()


def test_a_write_is_followed_by_its_vectors(parts: Parts) -> None:
    parts.save("a", "b")
    assert parts.queue.pending() == 2

    done = parts.indexer.index(MEMORIES, ["a", "b"])

    assert (done.written, done.problem) == (2, None)
    assert parts.stored("a", "b") == {"a", "b"}
    assert parts.queue.pending() == 0
    assert parts.service.calls == [["text of a", "text of b"]]


def test_a_record_that_changed_meanwhile_gives_none_of_the_others_its_copy(parts: Parts) -> None:
    parts.save("a", "b", "c")

    def change() -> None:
        parts.store.save(MEMORIES, [Memory(id="b", content="news")])

    parts.service.before = change

    assert parts.indexer.index(MEMORIES, ["a", "b", "c"]).written == 3

    assert [entry.id for entry in parts.queue.take_after(10, 0)] == ["b"]
    for id_ in ("a", "c"):
        vector = np.asarray(parts.service.embed_query(f"text of {id_}"), dtype=np.float32)
        found, are_all = parts.indexer.copies.nearest(MEMORIES, vector, LIVE, 10)
        assert are_all
        assert [known for known, _ in found] == [id_, "c" if id_ == "a" else "a"]
        assert found[0][1] == pytest.approx(1.0, abs=1e-5)


def test_messages_have_vectors_with_their_speakers_name(parts: Parts) -> None:
    said = [
        Message(id="m", session_key="s", role="user", name="Anna", content="hello"),
        Message(id="n", session_key="s", role="user", content="bye"),
    ]
    parts.store.save(MESSAGES, said)

    assert parts.indexer.sync().written == 2
    assert parts.index.count(MESSAGES) == 2
    assert parts.service.calls == [["Anna: hello", "bye"]]


def test_sync_works_through_the_whole_queue_and_tells_of_it(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_indexer, "_CHUNK", 4)
    parts.save(*(f"m{i}" for i in range(10)))
    told: list[tuple[int, int]] = []

    done = parts.indexer.sync(lambda processed, left: told.append((processed, left)))

    assert done.written == 10
    assert told == [(4, 6), (8, 2), (10, 0)]
    assert parts.index.count(MEMORIES) == 10
    assert parts.indexer.sync().written == 0  # level is level


@pytest.mark.parametrize(("seconds", "sizes"), [(1e9, [4, 26]), (0.0, [4, 4, 4, 4, 4, 4, 4, 2])])
def test_a_write_takes_as_many_at_once_as_its_time_allows(
    database: Database, monkeypatch: pytest.MonkeyPatch, seconds: float, sizes: list[int]
) -> None:
    monkeypatch.setattr(vector_indexer, "_CHUNK", 4)
    monkeypatch.setattr(vector_indexer, "_CHUNK_SECONDS", seconds)
    parts = Parts(database)
    ids = [f"m{i}" for i in range(30)]
    parts.save(*ids)
    written: list[int] = []
    upsert = parts.index.upsert

    def counted(kind: RecordKind, ids: Sequence[str], vectors: Sequence[Vectors]) -> None:
        written.append(len(ids))
        upsert(kind, ids, vectors)

    monkeypatch.setattr(parts.index, "upsert", counted)
    parts.indexer.index(MEMORIES, ids)

    assert written == sizes
    assert parts.stored(*ids) == set(ids)
    parts.index.drop()


def test_a_changed_record_gets_a_new_vector(parts: Parts) -> None:
    parts.save("a")
    parts.indexer.sync()
    parts.store.update(MEMORIES, "a", {"content": "another text"})
    assert parts.stored("a") == set()

    parts.indexer.index(MEMORIES, ["a"])

    assert parts.stored("a") == {"a"}
    assert parts.index.count(MEMORIES) == 1


@pytest.mark.parametrize("remove", ["delete", "purge"])
def test_the_vector_of_a_removed_record_goes(parts: Parts, remove: str) -> None:
    parts.save("a", "b")
    parts.indexer.sync()
    getattr(parts.store, remove)(["a"])

    done = parts.indexer.index(MEMORIES, ["a"])

    assert (done.written, done.problem) == (0, None)
    assert parts.stored("a", "b") == {"b"}


def test_the_vector_of_a_restored_record_comes_back(parts: Parts) -> None:
    parts.save("a")
    parts.store.delete(["a"])
    parts.indexer.sync()
    parts.store.restore(["a"])

    assert parts.indexer.index(MEMORIES, ["a"]).written == 1
    assert parts.stored("a") == {"a"}


def test_a_record_that_was_never_indexed_can_be_removed(parts: Parts) -> None:
    parts.save("a")
    parts.store.purge(["a"])

    assert parts.indexer.sync().problem is None
    assert parts.queue.pending() == 0
    assert parts.service.calls == []


def test_a_failure_keeps_the_work_and_says_why(parts: Parts, pauses: list[float]) -> None:
    parts.save("a")
    parts.service.fails = lambda _: True

    done = parts.indexer.index(MEMORIES, ["a"])

    assert done.written == 0
    assert done.problem == parts.indexer.last_problem
    assert "service unavailable" in (done.problem or "")
    assert parts.queue.pending() == 1


def test_the_next_write_does_the_work_that_was_left(parts: Parts, pauses: list[float]) -> None:
    parts.save("a")
    parts.service.fails = lambda _: True
    parts.indexer.index(MEMORIES, ["a"])
    parts.service.fails = lambda _: False
    parts.save("b")

    done = parts.indexer.index(MEMORIES, ["b"])

    assert (done.written, done.problem) == (2, None)
    assert parts.stored("a", "b") == {"a", "b"}
    assert parts.indexer.last_problem is None


def test_a_write_does_a_bounded_part_of_what_was_left(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_indexer, "BACKLOG_PER_WRITE", 5)
    parts.save(*(f"old{i}" for i in range(20)))
    parts.save("new")

    done = parts.indexer.index(MEMORIES, ["new"])

    assert done.written == 6
    assert parts.stored("new") == {"new"}
    assert parts.queue.pending() == 15


def test_a_write_leaves_what_came_later_to_its_own_writer(parts: Parts) -> None:
    parts.save("old")
    parts.save("new")
    parts.service.before = lambda: parts.save("later")

    done = parts.indexer.index(MEMORIES, ["new"])

    assert done.written == 2
    assert parts.stored("old", "new", "later") == {"old", "new"}
    assert [entry.id for entry in parts.queue.take_after(10, 0)] == ["later"]


DISK_ERROR = StorageError("disk I/O error")


def test_a_queue_that_cannot_be_read_is_told_and_fails_no_write(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_queue: VectorQueue) -> int:
        raise DISK_ERROR

    parts.save("new")
    with monkeypatch.context() as broken:
        broken.setattr(VectorQueue, "last_position", fail)
        done = parts.indexer.index(MEMORIES, ["new"])

    assert done.written == 0
    assert "disk I/O error" in (done.problem or "")
    assert parts.indexer.last_problem == done.problem
    assert parts.indexer.index(MEMORIES, ["new"]).written == 1


UNUSABLE = ValueError("the text is unusable")
"""What a model raises over a text that it does not take."""


def is_poisoned(texts: list[str]) -> bool:
    return any("poison" in text for text in texts)


@pytest.mark.parametrize("error", [UNUSABLE, KeyError("the text is unusable"), httpx_error(400)])
def test_a_text_that_cannot_be_embedded_does_not_keep_others_from_it(
    parts: Parts, error: Exception
) -> None:
    parts.save("a", "poison", "b")
    parts.service.fails, parts.service.error = is_poisoned, error

    done = parts.indexer.sync()

    assert parts.stored("a", "poison", "b") == {"a", "b"}
    assert parts.queue.pending() == 1
    assert re.search("1 memory could not be embedded, such as poison: ", done.problem or "")
    assert re.search("ValueError|KeyError|HTTP status 400", done.problem or "")
    assert done.problem == parts.indexer.last_problem
    parts.service.fails = lambda _: False
    assert parts.indexer.sync().problem is None
    assert parts.stored("poison") == {"poison"}


def test_texts_that_cannot_be_embedded_wait_behind_all_others(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_indexer, "BACKLOG_PER_WRITE", 4)
    poison = [f"poison {i}" for i in range(6)]
    parts.service.fails, parts.service.error = is_poisoned, UNUSABLE
    parts.save(*poison, *(f"m{i}" for i in range(6)))

    for i in range(8):
        parts.save(f"new {i}")
        assert parts.indexer.index(MEMORIES, [f"new {i}"]).written >= 1

    assert parts.queue.pending() == 6
    assert parts.stored(*(f"m{i}" for i in range(6))) == {f"m{i}" for i in range(6)}


@pytest.mark.parametrize("error", [UNUSABLE, ConnectionError("no"), httpx_error(401)])
def test_a_model_that_fails_on_everything_ends_the_work_and_loses_none(
    parts: Parts, pauses: list[float], error: Exception
) -> None:
    ids = [f"m{i}" for i in range(300)]
    parts.save(*ids)
    parts.service.fails, parts.service.error = lambda _: True, error

    done = parts.indexer.sync()

    assert done.written == 0
    assert done.problem is not None
    assert parts.queue.pending() == 300
    assert len(parts.service.calls) < 15
    parts.service.fails = lambda _: False
    assert parts.indexer.sync() == Indexed(300)
    assert parts.stored(*ids) == set(ids)


def test_a_model_that_hangs_does_not_hold_up_writes(parts: Parts) -> None:
    parts.save("a", "b")
    parts.service.fails, parts.service.error = lambda _: True, TimeoutError()
    first = parts.indexer.index(MEMORIES, ["a"])

    second = parts.indexer.index(MEMORIES, ["b"])

    assert len(parts.service.calls) == 1
    assert "did not answer in time" in (first.problem or "")
    assert second == first
    parts.service.fails = lambda _: False
    assert parts.indexer.sync() == Indexed(2)  # which was asked for, and so is tried


def test_a_search_works_on_a_few_in_the_background(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_indexer, "BACKLOG_PER_SEARCH", 3)
    parts.save(*(f"m{i}" for i in range(5)))

    parts.indexer.index_a_little()
    assert parts.queue.pending() == 2
    parts.indexer.index_a_little()

    assert parts.queue.pending() == 0


def test_a_search_leaves_a_failing_model_and_a_busy_indexer_alone(parts: Parts) -> None:
    parts.save("a")
    with parts.indexer._lock:
        parts.indexer.index_a_little()
    parts.embedder.give_up_query(1)
    parts.indexer.index_a_little()

    assert parts.service.calls == []
    assert parts.queue.pending() == 1


def test_what_cannot_be_taken_off_the_queue_is_not_embedded_again_and_again(
    parts: Parts,
) -> None:
    parts.save("a")
    parts.database.read_only = "attempt to write a readonly database"
    indexer = VectorIndexer(
        parts.database, parts.store, parts.queue, parts.embedder, parts.index, turn=parts.turn
    )

    for _ in range(2):
        indexer.index_a_little()
        assert indexer.sync().problem == (
            "the database cannot be written: attempt to write a readonly database"
        )

    assert parts.service.calls == []
    assert parts.queue.pending() == 1
    assert indexer.last_problem is not None


def test_while_another_process_writes_vectors_the_work_is_kept(parts: Parts) -> None:
    parts.save("a")
    parts.busy = True

    done = parts.indexer.index(MEMORIES, ["a"])

    assert done == Indexed(0, "others are writing vectors at present")
    assert (parts.queue.pending(), parts.service.calls) == (1, [])
    parts.busy = False
    assert parts.indexer.sync() == Indexed(1)


def test_a_failing_vector_index_keeps_the_work_and_says_why(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        msg = "disk I/O error of Chroma"
        raise RuntimeError(msg)

    parts.save("a")
    with monkeypatch.context() as broken:
        broken.setattr(VectorIndex, "upsert", fail)
        done = parts.indexer.sync()

    assert done == Indexed(0, "vectors could not be written: disk I/O error of Chroma")
    assert parts.queue.pending() == 1
    assert parts.indexer.sync() == Indexed(1)


def test_work_that_closing_cuts_off_is_no_trouble_to_warn_of(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    parts.save("a")
    parts.service.before = parts.database.close

    done = parts.indexer.sync()

    assert done.problem is not None
    assert done.problem.endswith("is closed")
    assert caplog.records == []


def test_a_record_that_changes_while_it_is_embedded_is_worked_on_again(parts: Parts) -> None:
    parts.save("a")

    def change() -> None:
        parts.service.before = lambda: None
        parts.store.update(MEMORIES, "a", {"content": "another text"})

    parts.service.before = change
    parts.indexer.sync()

    assert parts.queue.pending() == 0
    assert parts.stored("a") == {"a"}


def test_every_step_can_be_repeated_without_harm(parts: Parts) -> None:
    parts.save("a", "b")
    parts.store.delete(["b"])
    for _ in range(3):
        with parts.database.write() as connection:
            parts.queue.put(connection, MEMORIES, ["a", "b", "unknown"])
        assert parts.indexer.sync().problem is None

    assert parts.index.count(MEMORIES) == 1
    assert parts.stored("a") == {"a"}


def test_records_from_before_there_was_an_embedding_are_queued(database: Database) -> None:
    before = StorageParts(database)
    before.store.save(MEMORIES, [Memory(id="a", content="text of a"), Memory(id="b", content="b")])
    before.store.delete(["b"])
    before.queue.done(before.queue.take_after(10, 0))

    parts = Parts(database)
    parts.indexer.sync()

    assert parts.stored("a", "b") == {"a"}
    parts.index.drop()


def test_the_same_model_finds_its_vectors_again(database: Database) -> None:
    first = Parts(database)
    first.save("a")
    first.indexer.sync()

    second = Parts(database)

    assert second.queue.pending() == 0
    assert second.stored("a") == {"a"}
    second.index.drop()


def test_another_model_fills_a_collection_of_its_own_and_the_old_one_goes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_indexer, "_CHUNK", 2)
    old = Parts(database, size=3)
    old.save("a", "b", "c")
    old.indexer.sync()

    new = Parts(database, size=4)
    assert new.queue.pending() == 3
    new.service.fails = lambda texts: "text of c" in texts
    new.indexer.sync()
    assert new.index.has_other_models()  # as long as the new one is not complete

    new.service.fails = lambda _: False
    assert new.indexer.sync().problem is None
    assert new.stored("a", "b", "c") == {"a", "b", "c"}
    assert not new.index.has_other_models()
    new.index.drop()


def test_going_back_to_a_former_model_works(database: Database) -> None:
    for size in (3, 4, 3):
        parts = Parts(database, size=size)
        parts.save(f"added with {size}", "a")
        parts.indexer.sync()
        assert parts.stored("a", f"added with {size}") == {"a", f"added with {size}"}
    assert not parts.index.has_other_models()
    parts.index.drop()


def test_vectors_that_were_lost_are_rebuilt_from_the_database(database: Database) -> None:
    first = Parts(database)
    first.save("a", "b")
    first.indexer.sync()
    first.index.drop()

    second = Parts(database)
    second.indexer.sync()

    assert second.stored("a", "b") == {"a", "b"}
    second.index.drop()


@pytest.mark.parametrize("lost", ["some", "all"])
def test_vectors_that_were_lost_behind_our_back_are_queued_when_it_is_opened(
    database: Database, lost: str
) -> None:
    first = Parts(database)
    first.save("a", "b", "c")
    first.indexer.sync()
    first.index.delete(MEMORIES, ["a", "b"] if lost == "some" else ["a", "b", "c"])

    second = Parts(database)

    assert second.queue.pending() == (2 if lost == "some" else 3)
    second.indexer.sync()
    assert second.stored("a", "b", "c") == {"a", "b", "c"}
    second.index.drop()


def test_vectors_without_a_record_are_removed_when_it_is_opened(database: Database) -> None:
    first = Parts(database)
    first.save("a")
    first.indexer.sync()
    first.index.upsert(MEMORIES, ["ghost"], [np.ones(3, dtype=np.float32)])

    second = Parts(database)
    second.indexer.sync()

    assert second.index.ids(MEMORIES) == {"a"}
    second.index.drop()


def test_threads_index_each_record(parts: Parts) -> None:
    def work(worker: int) -> None:
        for i in range(10):
            parts.save(f"{worker}-{i}")
            parts.indexer.index(MEMORIES, [f"{worker}-{i}"])

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert parts.queue.pending() == 0
    assert parts.index.count(MEMORIES) == 60
    assert sum(parts.index.count(kind) for kind in KINDS) == 60
