"""How database and vector index differ, on a real SQLite and a real Chroma."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from storage_parts import VectorParts

from langchain_agentmem import Memory, Message
from langchain_agentmem.records import Record
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.differences import Differences, find_differences
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES
from langchain_agentmem.storage.vector_index import VectorIndex


class Parts(VectorParts):
    """A store, its queue and a vector index, each changed without the others."""

    def save(self, *ids: str, waiting: bool = False) -> None:
        records: list[Record] = [Memory(id=id_, content=id_) for id_ in ids]
        self.store.save(MEMORIES, records)
        if not waiting:
            self.queue.done(self.queue.take(1000, "memories", ids))

    def write(self, *ids: str) -> None:
        vectors = np.random.default_rng(0).normal(size=(len(ids), 16)).astype(np.float32)
        self.index.upsert(MEMORIES, ids, list(vectors))

    def differences(self) -> Differences:
        return find_differences(self.database, MEMORIES, lambda: self.index.reachable(MEMORIES))

    def explained(self, stored: int) -> bool:
        return self.queue.explains(MEMORIES, stored)


@pytest.fixture
def parts() -> Iterator[Parts]:
    with closing(Database(None)) as database:
        made = Parts(database)
        yield made
        made.index.drop()


def test_nothing_differs_where_both_sides_have_the_same(parts: Parts) -> None:
    assert not parts.differences()  # nothing, that is
    parts.save("a", "b")
    parts.write("a", "b")

    assert parts.differences() == Differences([], [])
    assert parts.explained(2)


def test_records_without_a_vector_are_missing(parts: Parts) -> None:
    parts.save("c", "a", "b")
    parts.write("b")

    assert parts.differences() == Differences(["a", "c"], [])
    assert parts.differences()
    assert not parts.explained(parts.index.count(MEMORIES))


def test_vectors_without_a_record_are_ghosts(parts: Parts) -> None:
    parts.save("a")
    parts.write("c", "a", "b")

    assert parts.differences() == Differences([], ["b", "c"])
    assert parts.differences()
    assert not parts.explained(parts.index.count(MEMORIES))


def test_the_vector_of_a_deleted_record_is_a_ghost(parts: Parts) -> None:
    parts.save("a", "b")
    parts.write("a", "b")
    parts.store.delete(["a"])
    assert not parts.differences()  # it waits to be removed
    parts.queue.done(parts.queue.take(10, "memories", ["a"]))

    assert parts.differences() == Differences([], ["a"])


def test_what_waits_in_the_queue_is_no_difference(parts: Parts) -> None:
    parts.save("a")
    parts.write("a")
    parts.save("b", "c", waiting=True)

    assert not parts.differences()
    assert parts.explained(parts.index.count(MEMORIES))


def test_counting_alone_does_not_see_everything(parts: Parts) -> None:
    parts.save("a")
    parts.write("b")

    assert parts.explained(parts.index.count(MEMORIES))
    assert parts.differences() == Differences(["a"], ["b"])


def test_other_kinds_of_record_are_left_out(parts: Parts) -> None:
    parts.save("a")
    parts.write("a")
    parts.store.save(MESSAGES, [Message(id="m", session_key="s", role="user", content="m")])
    parts.queue.done(parts.queue.take_after(100, 0))

    assert not parts.differences()
    assert find_differences(parts.database, MESSAGES, set) == Differences(["m"], [])


def save_whole(parts: Parts, id_: str) -> None:
    parts.save(id_)
    parts.write(id_)


def delete_whole(parts: Parts, id_: str) -> None:
    parts.store.delete([id_])
    parts.index.delete(MEMORIES, [id_])
    parts.queue.done(parts.queue.take(10, "memories", [id_]))


@pytest.mark.parametrize("change", [save_whole, delete_whole])
def test_what_others_complete_while_both_sides_are_read_is_no_difference(
    parts: Parts, change: Callable[[Parts, str], None]
) -> None:
    if change is delete_whole:
        for number in (1, 2):
            save_whole(parts, f"m{number}")
    parts.save("lost")
    parts.write("ghost")
    numbers = iter((1, 2))

    def with_vectors() -> set[str]:
        found = parts.index.reachable(MEMORIES)
        change(parts, f"m{next(numbers)}")
        return found

    found = find_differences(parts.database, MEMORIES, with_vectors)

    assert found == Differences(["lost"], ["ghost"])


def test_what_differs_is_queued_and_read_outside_any_transaction(parts: Parts) -> None:
    parts.save("a", "lost")
    parts.write("a", "ghost")

    def with_vectors() -> set[str]:
        with ThreadPoolExecutor(1) as others:  # which can write meanwhile
            others.submit(parts.save, "b").result(30)
        parts.write("b")
        return parts.index.ids(MEMORIES)

    parts.queue.put_what_differs(MEMORIES, with_vectors)

    assert [entry.id for entry in parts.queue.take_after(10, 0)] == ["lost", "ghost"]


def test_a_vector_that_chroma_stores_and_cannot_find_is_missing(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.save("a", "b", "c")
    parts.write("a", "b", "c")
    monkeypatch.setattr(VectorIndex, "reachable", lambda *_: {"a", "c"})

    assert parts.differences() == Differences(["b"], [])


@pytest.mark.parametrize("number", [1, 2, 255, 256, 257, 600])
def test_probing_finds_all_vectors_of_a_sound_index(parts: Parts, number: int) -> None:
    ids = [f"m{place}" for place in range(number)]
    parts.write(*ids)

    assert parts.index.reachable(MEMORIES) == set(ids)
    assert parts.index.reachable(MESSAGES) == set()
