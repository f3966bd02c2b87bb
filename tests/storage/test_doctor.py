"""The doctor finds what is wrong with a memory, and mends what can be made anew."""

import itertools
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage
from servers.openai_embeddings import KEY, EmbeddingServer, Fault
from sqlite_without_fts5 import remove_full_text

from langchain_agentmem import AgentMemory, EmbeddingSettings, Memory, StorageError
from langchain_agentmem.results import Finding
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES, RecordKind
from langchain_agentmem.storage.vector_index import VectorIndex, embedded_client

TEXTS = ["The kitten naps on the couch", "Interest rates rose again", "Anna plays the violin"]


def fill(memory: AgentMemory) -> None:
    memory.add_memories([Memory(id=text.split()[1], content=text) for text in TEXTS])
    memory.add_messages("s", [HumanMessage("hello kitten", id="m1")])


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[AgentMemory]:
    with closing(AgentMemory.open(tmp_path, embedding="local")) as memory:
        fill(memory)
        yield memory


def wrong(findings: list[Finding]) -> list[str]:
    return [f"{finding.part}: {finding.detail}" for finding in findings if not finding.ok]


def index_of(memory: AgentMemory) -> VectorIndex:
    assert memory._vectors.index is not None
    return memory._vectors.index


def level(memory: AgentMemory) -> bool:
    """Whether everything is found in both ways again, and nothing else."""
    found = memory.search_memories("a sleeping cat", 100)
    heard = memory.search_conversations("kitten")
    return (
        found.strategy == "embedding"
        and {hit.content for hit in found.results} == set(TEXTS)
        and {hit.content for hit in memory.search_memories("violin", 1).results} == {TEXTS[2]}
        and (heard.strategy, heard.total, heard.notes) == ("hybrid", 1, [])
    )


def test_of_a_sound_memory_every_part_is_examined(filled: AgentMemory) -> None:
    findings = filled.check()

    assert wrong(findings) == []
    assert [finding.part for finding in findings] == [
        "database",
        "keyword index",
        "keyword index",
        "embedding",
        "vector queue",
        "vector index",
        "vector index",
    ]
    assert findings[0].detail == f"{filled.status().location}: sound"
    assert [finding.detail for finding in findings[1:]] == [
        "memories: level",
        "messages: level",
        f"{filled.status().embedding} answers",
        "empty",
        "memories: level",
        "messages: level",
    ]


@pytest.mark.parametrize("repair", [True, False])
def test_a_sound_memory_is_left_as_it_is(filled: AgentMemory, repair: bool) -> None:
    assert wrong(filled.check(repair=repair)) == []
    assert level(filled)
    assert filled.status().problems == []


def lose_a_vector(memory: AgentMemory) -> None:
    index_of(memory).delete(MEMORIES, ["kitten"])


def lose_all_vectors(memory: AgentMemory) -> None:
    index_of(memory).delete(MEMORIES, ["kitten", "rates", "plays"])


def make_ghosts(memory: AgentMemory) -> None:
    for ids in (["ghost 1", "ghost 2"], ["ghost 3", "ghost 4"]):
        index_of(memory).upsert(MEMORIES, ids, [np.ones(256, dtype=np.float32)] * 2)
    index_of(memory).upsert(MESSAGES, ["ghost"], [np.ones(256, dtype=np.float32)])


def lose_keywords(memory: AgentMemory) -> None:
    with memory._database.write() as connection:
        connection.execute("DELETE FROM memories_fts WHERE rowid = 1")


def keep_keywords_of_a_deleted_record(memory: AgentMemory) -> None:
    with memory._database.write() as connection:
        connection.execute("INSERT INTO messages_fts (rowid, terms) VALUES (99, 'stray')")


def damage_keywords(memory: AgentMemory) -> None:
    with memory._database.write() as connection:
        connection.execute("UPDATE memories_fts_data SET block = zeroblob(8) WHERE id > 10")


def vector_problem(kind: str, *, missing: str = "0", ghosts: str = "0") -> str:
    return (
        f"vector index: {kind}: {missing} lack a vector and wait for none, "
        f"{ghosts} have one and no record"
    )


@pytest.mark.parametrize(
    ("spoil", "problems"),
    [
        (lose_a_vector, [vector_problem("memories", missing="1 (kitten)")]),
        (lose_all_vectors, [vector_problem("memories", missing="3 (kitten, plays, rates)")]),
        (
            make_ghosts,
            [
                vector_problem("memories", ghosts="4 (ghost 1, ghost 2, ghost 3, ...)"),
                vector_problem("messages", ghosts="1 (ghost)"),
            ],
        ),
        (lose_keywords, ["keyword index: memories: 1 are missing, 0 should not be there"]),
        (
            keep_keywords_of_a_deleted_record,
            ["keyword index: messages: 0 are missing, 1 should not be there"],
        ),
        (damage_keywords, ["keyword index: damaged: database disk image is malformed"]),
    ],
)
def test_what_is_wrong_is_told_and_mended(
    filled: AgentMemory, spoil: Callable[[AgentMemory], None], problems: list[str]
) -> None:
    spoil(filled)

    assert wrong(filled.check()) == problems
    assert wrong(filled.check()) == problems  # examining changes nothing
    assert wrong(filled.check(repair=True)) == []
    assert level(filled)


def test_vectors_that_wait_are_told_and_written(
    tmp_path: Path, server: EmbeddingServer, service_settings: EmbeddingSettings
) -> None:
    with closing(AgentMemory.open(tmp_path, embedding=service_settings)) as memory:
        server.fault = Fault(status=401)
        fill(memory)

        (cause, problem) = wrong(memory.check())
        assert cause.startswith("embedding: the embedding model wordllama failed: HTTP status 401")
        assert problem.startswith("vector queue: 4 records wait to be found by meaning")
        assert "HTTP status 401" in problem
        assert len(wrong(memory.check(repair=True))) == 2  # the service is not for us to mend

        server.fault = None
        assert wrong(memory.check(repair=True)) == []
        assert level(memory)


@pytest.mark.parametrize("repair", [False, True])
def test_a_service_that_no_longer_answers_is_told_though_no_vector_is_missing(
    tmp_path: Path, server: EmbeddingServer, service_settings: EmbeddingSettings, repair: bool
) -> None:
    with closing(AgentMemory.open(tmp_path, embedding=service_settings)) as memory:
        fill(memory)
        assert wrong(memory.check(repair=repair)) == []

        server.stop()

        (problem,) = wrong(memory.check(repair=repair))
        assert problem.startswith("embedding: the embedding model wordllama failed")
        assert KEY not in problem


def test_a_check_asks_the_model_once_and_not_while_it_rests(
    tmp_path: Path, server: EmbeddingServer, service_settings: EmbeddingSettings
) -> None:
    settings = service_settings.model_copy(update={"cool_down": 600})
    with closing(AgentMemory.open(tmp_path, embedding=settings)) as memory:
        fill(memory)
        for repair in (False, True):
            before = len(server.requests)
            assert wrong(memory.check(repair=repair)) == []
            assert len(server.requests) == before + 1
        before = len(server.requests)
        memory.status()
        assert memory._doctor.vectors_are_sound()
        assert len(server.requests) == before

        server.fault = Fault(status=401)
        told = wrong(memory.check())
        assert len(server.requests) == before + 1
        assert wrong(memory.check()) == told
        assert len(server.requests) == before + 1


class Hanging(Embeddings):
    """Embeds documents; a query waits until the test is over."""

    def __init__(self) -> None:
        self.released = Event()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.released.wait()
        return [1.0, float(len(text))]


def test_a_model_that_hangs_does_not_hold_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langchain_agentmem.storage.doctor.ANSWER_SECONDS", 0.1)
    hanging = Hanging()
    with closing(AgentMemory.open(tmp_path, embedding=hanging)) as memory:
        fill(memory)
        try:
            (problem,) = wrong(memory.check())
        finally:
            hanging.released.set()

    assert problem.startswith("embedding: ")
    assert "no answer within 0.1 s" in problem


def test_without_an_embedding_by_choice_nothing_is_wrong(keyword_memory: AgentMemory) -> None:
    fill(keyword_memory)

    findings = keyword_memory.check(repair=True)

    assert wrong(findings) == []
    assert findings[-1] == Finding("embedding", ok=True, detail="none, by choice")


def test_a_missing_setting_is_told() -> None:
    with AgentMemory.in_memory(embedding="openai_compatible") as memory:
        fill(memory)
        for repair in (False, True):
            (problem,) = wrong(memory.check(repair=repair))
            assert problem.startswith("embedding: embedding is off: set embedding.api_key")


def test_an_sqlite_without_fts5_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    remove_full_text(monkeypatch)
    with AgentMemory.in_memory(embedding="local") as memory:
        fill(memory)
        for repair in (False, True):
            (problem,) = wrong(memory.check(repair=repair))
            assert problem.startswith("keyword index: keyword search is off")


def test_a_database_that_cannot_be_written_is_told_and_never_changed(tmp_path: Path) -> None:
    with closing(AgentMemory.open(tmp_path, embedding="none")) as memory:
        fill(memory)
        memory._database.read_only = "attempt to write a readonly database"

        assert wrong(memory.check()) == [
            "database: can be read alone: attempt to write a readonly database"
        ]
        with pytest.raises(StorageError, match="cannot write the database"):
            memory.check(repair=True)


def test_a_damaged_database_is_told_and_not_touched(tmp_path: Path) -> None:
    with closing(AgentMemory.open(tmp_path, embedding="none")) as memory:
        fill(memory)
    with closing(sqlite3.connect(tmp_path / "agentmem.sqlite3")) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'priority)', 'strength)') "
            "WHERE name = 'memories_type'"
        )
        connection.execute("DELETE FROM sqlite_master WHERE name = 'memories_scene'")
        connection.commit()

    with closing(AgentMemory.open(tmp_path, embedding="none")) as memory:
        (problem,) = wrong(memory.check())

    assert problem.startswith(f"database: {tmp_path / 'agentmem.sqlite3'}: ")
    assert "never used" in problem


@pytest.fixture
def spoiled(tmp_path: Path) -> Path:
    """A folder with records whose vector index cannot be opened."""
    with closing(AgentMemory.open(tmp_path, embedding="local")) as memory:
        fill(memory)
    shutil.rmtree(tmp_path / "chroma")
    (tmp_path / "chroma").mkdir()
    (tmp_path / "chroma" / "chroma.sqlite3").write_text("garbage " * 1000)
    return tmp_path


def test_a_vector_index_that_cannot_be_opened_is_put_aside_and_made_anew(spoiled: Path) -> None:
    with closing(AgentMemory.open(spoiled, embedding="local")) as memory:
        (problem,) = wrong(memory.check())
        assert problem.startswith(
            "vector index: answered by keywords alone: the vector index cannot be used"
        )
        assert not list(spoiled.glob("*.broken-*"))

        assert wrong(memory.check(repair=True)) == []
        assert level(memory)

    (aside,) = spoiled.glob("chroma.broken-*")
    assert (aside / "chroma.sqlite3").read_text().startswith("garbage")


def test_what_was_put_aside_before_is_not_overwritten(spoiled: Path) -> None:
    (spoiled / "chroma.broken-1").mkdir()
    (spoiled / "chroma.broken-1" / "kept").touch()

    with closing(AgentMemory.open(spoiled, embedding="local")) as memory:
        memory.check(repair=True)

    assert (spoiled / "chroma.broken-1" / "kept").exists()
    assert (spoiled / "chroma.broken-2" / "chroma.sqlite3").exists()


def test_a_vector_index_that_fails_while_it_is_read_is_told(
    filled: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        msg = "Internal error: HNSW index is corrupt"
        raise RuntimeError(msg)

    monkeypatch.setattr(VectorIndex, "ids", fail)

    assert wrong(filled.check()) == [
        f"vector index: {kind}: cannot be read: Internal error: HNSW index is corrupt"
        for kind in ("memories", "messages")
    ]


def test_a_vector_index_that_fails_while_it_is_read_is_made_anew(
    filled: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, drop = VectorIndex.ids, VectorIndex.drop
    dropped: list[VectorIndex] = []

    def ids(index: VectorIndex, kind: RecordKind) -> set[str]:
        if not dropped:
            msg = "Internal error: HNSW index is corrupt"
            raise RuntimeError(msg)
        return sound(index, kind)

    def drop_and_note(index: VectorIndex) -> None:
        drop(index)
        dropped.append(index)

    monkeypatch.setattr(VectorIndex, "ids", ids)
    monkeypatch.setattr(VectorIndex, "drop", drop_and_note)
    lose_keywords(filled)

    assert wrong(filled.check(repair=True)) == []
    assert level(filled)


def test_writes_under_way_are_no_damage_and_nothing_is_made_anew(
    filled: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, numbers = VectorIndex.reachable, itertools.count(1)
    location = Path(filled.status().location).parent
    monkeypatch.setattr(VectorIndex, "drop", lambda _: pytest.fail("the vectors were dropped"))
    with closing(AgentMemory.open(location, embedding="local")) as other:

        def reachable(index: VectorIndex, kind: RecordKind) -> set[str]:
            found = sound(index, kind)
            number = next(numbers)
            report = other.add_memories([Memory(id=f"new {number}", content=f"tea {number}")])
            assert report.pending == 0
            assert other.delete(f"new {number - 1}") == (number > 1)
            return found

        monkeypatch.setattr(VectorIndex, "reachable", reachable)
        lose_a_vector(filled)

        assert wrong(filled.check()) == [vector_problem("memories", missing="1 (kitten)")]
        assert wrong(filled.check(repair=True)) == []


class _GoneError(ConnectionError):
    """What a client raises when its server is gone."""


def test_a_server_that_goes_away_in_between_loses_no_vector(
    filled: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_away(*_: object, **__: object) -> None:
        raise _GoneError

    for kind in (MEMORIES, MESSAGES):
        monkeypatch.setattr(index_of(filled)._collection(kind), "query", go_away)

    assert wrong(filled.check()) == [
        f"vector index: {kind}: cannot be read: _GoneError" for kind in ("memories", "messages")
    ]


def test_a_database_that_somebody_else_writes_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langchain_agentmem.storage.database.BUSY_TIMEOUT_SECONDS", 0.1)
    with closing(AgentMemory.open(tmp_path, embedding="none")) as memory:
        fill(memory)
        with closing(sqlite3.connect(memory.status().location)) as other:
            other.execute("BEGIN IMMEDIATE")
            (problem,) = wrong(memory.check())
        assert problem.startswith("database: cannot read the database")
        assert "is locked" in problem
        assert wrong(memory.check()) == []


@pytest.mark.parametrize("embedding", ["local", "none"])
def test_an_empty_memory_is_sound(tmp_path: Path, embedding: str) -> None:
    with closing(AgentMemory.open(tmp_path, embedding=embedding)) as memory:
        for repair in (False, True):
            assert wrong(memory.check(repair=repair)) == []


def test_all_vectors_can_be_made_anew(filled: AgentMemory) -> None:
    make_ghosts(filled)
    told: list[tuple[int, int]] = []

    report = filled.rebuild_vectors(lambda done, left: told.append((done, left)))

    assert (report.indexed, report.pending, report.problem) == (4, 0, None)
    assert told[-1] == (4, 0)
    assert wrong(filled.check()) == []
    assert level(filled)


def test_what_was_damaged_while_the_memory_was_closed_is_mended(tmp_path: Path) -> None:
    with closing(AgentMemory.open(tmp_path, embedding="local")) as memory:
        fill(memory)
        names = index_of(memory)._names()
    client = embedded_client(tmp_path / "chroma")
    collection = next(client.get_collection(name) for name in names if "memories" in name)
    collection.delete(ids=["kitten"])
    collection.upsert(ids=["ghost"], embeddings=[1.0] * 256)
    client.close()  # type: ignore[attr-defined]

    with closing(AgentMemory.open(tmp_path, embedding="local")) as memory:
        assert len(wrong(memory.check())) == 1  # the counts agree, so opening it did not tell
        assert wrong(memory.check(repair=True)) == []
        assert level(memory)
