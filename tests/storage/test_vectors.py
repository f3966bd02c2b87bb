"""The vector half of a memory: what it does where it fails, and what it leaves as it is."""

import shutil
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chromadb
import pytest

from langchain_agentmem import AgentMemory, Memory, StorageError
from langchain_agentmem.storage import ownership, vector_index
from langchain_agentmem.storage.vector_index import VectorIndex
from langchain_agentmem.storage.vector_indexer import VectorIndexer

TEXT = "The kitten naps on the couch"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a memory with a sound vector index."""
    with AgentMemory.open(tmp_path / "m", embedding="local") as memory:
        memory.add_memory(TEXT)
    return tmp_path / "m"


def is_owned(folder: Path) -> bool:
    return any(path.startswith(str(folder)) for path in ownership._held)


@pytest.mark.parametrize(
    ("embedding", "why"), [("none", "by choice"), ("openai_compatible", "embedding.api_key")]
)
def test_without_a_model_a_sound_index_is_left_as_it_is(
    folder: Path, embedding: str, why: str
) -> None:
    before = sorted(path.name for path in folder.rglob("*") if "sqlite3-" not in path.name)
    with AgentMemory.open(folder, embedding=embedding) as memory:
        report = memory.rebuild_vectors()
        assert report.indexed == 0
        assert report.problem is not None
        assert why in report.problem
    assert before == sorted(path.name for path in folder.rglob("*") if "sqlite3-" not in path.name)
    with AgentMemory.open(folder, embedding="local") as memory:
        assert memory.status().pending == 0
        assert memory.search_memories("a sleeping cat").total == 1


def test_a_folder_that_cannot_be_put_aside_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(folder / "chroma")
    (folder / "chroma").mkdir()
    (folder / "chroma" / "chroma.sqlite3").write_text("garbage " * 1000)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with AgentMemory.open(folder, embedding="local") as memory:
        monkeypatch.setattr(Path, "rename", refuse)
        with pytest.raises(StorageError, match=f"{folder / 'chroma'} anew: .*Permission denied"):
            memory.rebuild_vectors()
        monkeypatch.undo()
        assert memory.rebuild_vectors().pending == 0


def test_a_lock_that_cannot_be_taken_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ownership.Ownership, "acquire", refuse)
    with AgentMemory.open(folder, embedding="local") as memory:
        with pytest.raises(StorageError, match="Permission denied"):
            memory.rebuild_vectors()
        assert memory.search_memories("kitten").strategy == "fts"


def test_a_server_that_cannot_be_emptied_is_told_and_its_vectors_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = chromadb.EphemeralClient()
    with AgentMemory.open(tmp_path, embedding="local", chroma_client=client) as memory:
        memory.add_memory(TEXT)

        def go_away(*_: object) -> None:
            msg = "the server is gone"
            raise ConnectionError(msg)

        with monkeypatch.context() as patch:
            patch.setattr(VectorIndex, "drop", go_away)
            report = memory.rebuild_vectors()
        assert report.problem == "the vector index cannot be emptied: the server is gone"
        assert report.pending == 1
        assert memory.sync().pending == 0
        memory._vectors.index.drop()  # type: ignore[union-attr]


def test_what_is_closed_takes_nothing_when_it_is_asked_to_rebuild(folder: Path) -> None:
    memory = AgentMemory.open(folder, embedding="local")
    memory.close()

    with pytest.raises(StorageError, match="is closed"):
        memory.rebuild_vectors()
    assert not is_owned(folder)


def test_an_index_that_fails_to_close_is_owned_no_longer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = VectorIndex.close

    def close(index: VectorIndex) -> None:
        closed(index)
        raise OSError

    monkeypatch.setattr(VectorIndex, "close", close)
    memory = AgentMemory.open(folder, embedding="local")
    assert is_owned(folder)

    with pytest.raises(OSError):  # noqa: PT011
        memory.close()
    assert not is_owned(folder)


def test_what_is_saved_is_reported_though_the_index_cannot_be_had(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(error: Exception) -> None:
        def init(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(VectorIndexer, "__init__", init)

    fail(RuntimeError("no index yet"))
    with closing(AgentMemory.open(folder, embedding="local")) as memory:
        fail(StorageError("cannot write the database: database is locked"))
        memory._vectors._tried_at = float("-inf")  # so that the write tries again

        report = memory.add_memories([Memory(content="likes tea")])

        assert (report.saved, report.pending) == (1, 1)
        assert report.problem == "cannot write the database: database is locked"
        monkeypatch.undo()
        assert memory.sync().pending == 0


def test_no_client_is_closed_while_another_is_opened() -> None:
    """Chroma's table of what is open in a process is not guarded against that."""
    guarded: list[bool] = []
    client: Any = SimpleNamespace(close=lambda: guarded.append(vector_index._table_lock.locked()))

    vector_index.close_client(client)

    assert guarded == [True]
