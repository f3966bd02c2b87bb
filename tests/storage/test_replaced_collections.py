"""Collections that somebody else replaces while a memory has them open."""

from pathlib import Path

from langchain_agentmem import AgentMemory


def test_what_one_memory_rebuilds_another_of_the_same_process_goes_on_with(tmp_path: Path) -> None:
    with (
        AgentMemory.open(tmp_path, embedding="local") as one,
        AgentMemory.open(tmp_path, embedding="local") as other,
    ):
        one.add_memory("The roof leaks")
        assert other.search_memories("roof").strategy == "hybrid"

        one.rebuild_vectors()

        found = other.search_memories("roof")
        assert (found.strategy, found.total, found.notes) == ("hybrid", 1, [])
        one.add_memory("The cellar is dry")
        report = other.sync()
        assert (report.pending, report.problem) == (0, None)
        assert all(finding.ok for finding in other.check())


def test_a_sync_notices_vectors_that_were_lost_while_the_memory_was_open(tmp_path: Path) -> None:
    with AgentMemory.open(tmp_path, embedding="local") as memory:
        memory.add_memory("The roof leaks")
        index = memory._vectors.index
        assert index is not None
        index.drop()

        report = memory.sync()

        assert (report.indexed, report.pending, report.problem) == (1, 0, None)
        assert memory.search_memories("roof").results[0].vector_rank == 1
