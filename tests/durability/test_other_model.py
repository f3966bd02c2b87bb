"""Another embedding model: keywords answer until `sync` has filled a new collection.

Then the old one goes. It may be interrupted, and the models switched back and forth.
"""

from pathlib import Path

import processes
import pytest
from langchain_core.embeddings import Embeddings
from servers.openai_embeddings import EmbeddingServer, Fault
from workers import missing, text_of

from langchain_agentmem import AgentMemory, EmbeddingSettings, Memory
from langchain_agentmem.embeddings.local import WordLlamaEmbeddings
from langchain_agentmem.storage.vector_indexer import OTHER_MODEL


class Shortened(Embeddings):
    """WordLlama's vectors, cut: another model of other dimensions."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._whole = WordLlamaEmbeddings()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector[: self.dimensions] for vector in self._whole.embed_documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def add(memory: AgentMemory, *numbers: int) -> None:
    memory.add_memories([Memory(id=f"m{n}", content=text_of(n)) for n in numbers])


def collections(folder: Path) -> int:
    return len({name.split("-")[-1] for name in processes.evidence(folder)["collections"]})


def healthy(memory: AgentMemory) -> bool:
    return all(finding.ok for finding in memory.check())


def test_keywords_answer_until_sync_has_filled_the_new_collection(tmp_path: Path) -> None:
    with AgentMemory.open(tmp_path / "m", embedding=Shortened(3)) as memory:
        add(memory, 1, 2, 3)
        assert memory.status().pending == 0
    with AgentMemory.open(tmp_path / "m", embedding=Shortened(64)) as memory:
        status = memory.status()
        assert status.pending == 3
        assert "3 records wait to be found by meaning" in " ".join(status.problems)
        found = memory.search_memories(text_of(1))
        assert found.results[0].id == "m1"
        assert found.results[0].keyword_rank == 1
        memory.sync()
        assert missing(memory, [1, 2, 3], by="vector") == []
        assert memory.status().problems == []
        assert healthy(memory)
    assert collections(tmp_path / "m") == 1


def test_a_memory_whose_model_is_no_longer_in_use_says_so_and_harms_nothing(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "m"
    with AgentMemory.open(folder, embedding=Shortened(3)) as former:
        add(former, 1, 2)
        assert former.status().problems == []
        with AgentMemory.open(folder, embedding=Shortened(64)) as latter:
            assert latter.sync().pending == 0

            for found in (former.search_memories(text_of(1)), former.search_memories(text_of(2))):
                assert OTHER_MODEL in found.notes
            assert former.status().problems == [OTHER_MODEL]
            for repair in (False, True):
                wrong = [
                    finding.detail for finding in former.check(repair=repair) if not finding.ok
                ]
                assert wrong == [OTHER_MODEL]
            assert former.sync().problem == OTHER_MODEL
            assert former.rebuild_vectors().problem == OTHER_MODEL

            assert latter.status().problems == []
            assert latter.status().pending == 0
            assert missing(latter, [1, 2], by="vector") == []
            assert healthy(latter)


def test_switching_back_and_forth_leaves_no_ghosts(
    tmp_path: Path, server: EmbeddingServer, service_settings: EmbeddingSettings
) -> None:
    folder = tmp_path / "m"
    with AgentMemory.open(folder, embedding="local") as memory:
        add(memory, 1, 2, 3)
    server.fault = Fault(status=401)
    with AgentMemory.open(folder, embedding=service_settings) as memory:
        memory.delete("m1")
        memory.update_memory("m2", content=text_of(20))
        add(memory, 4)
    with AgentMemory.open(folder, embedding="local") as memory:
        for number in (1, 2):
            found = memory.search_memories(text_of(number)).results
            assert "m1" not in [hit.id for hit in found]
        assert memory.sync().pending == 0
        assert missing(memory, [3, 4], by="vector") == []
        assert healthy(memory)
    server.fault = None
    with AgentMemory.open(folder, embedding=service_settings) as memory:
        assert memory.sync().pending == 0
        assert missing(memory, [3, 4], by="vector") == []
        assert healthy(memory)
    assert collections(folder) == 1


def test_progress_can_be_seen_and_a_killed_sync_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with AgentMemory.open(folder, embedding=Shortened(8)) as memory:
        add(memory, *range(1200))
    syncing = processes.RemoteMemory(folder)
    syncing.send("sync")
    assert syncing.process.stdout is not None
    assert "progress" in syncing.process.stdout.readline()
    syncing.kill()
    assert collections(folder) == 2, "the old vectors stay until the new ones are complete"
    with AgentMemory.open(folder, embedding="local") as memory:
        pending = memory.status().pending
        assert 0 < pending < 1200
        seen: list[tuple[int, int]] = []
        memory.sync(lambda done, left: seen.append((done, left)))
        assert seen[-1] == (pending, 0)
        assert [left for _, left in seen] == sorted((left for _, left in seen), reverse=True)
        assert missing(memory, list(range(0, 1200, 97)), by="vector") == []
        assert healthy(memory)
    assert collections(folder) == 1


def test_a_deletion_while_the_new_model_is_filled_stays(tmp_path: Path) -> None:
    with AgentMemory.open(tmp_path / "m", embedding=Shortened(3)) as memory:
        add(memory, 1, 2)
    with AgentMemory.open(tmp_path / "m", embedding=Shortened(64)) as memory:
        memory.delete("m1")
        memory.purge("m2")
        memory.sync()
        assert memory.search_memories(text_of(1)).results == []
        assert healthy(memory)


@pytest.mark.parametrize("dimensions", [3, 64])
def test_the_same_model_again_has_nothing_to_do(tmp_path: Path, dimensions: int) -> None:
    for _ in range(2):
        with AgentMemory.open(tmp_path / "m", embedding=Shortened(dimensions)) as memory:
            add(memory, 1)
            assert memory.sync().indexed == 0
            assert memory.status().pending == 0
