"""A process may be killed at any moment: what it had acknowledged is there, once, and level.

Four writers at a time add, say, update, delete, purge and sync in one folder until SIGKILL ends
them, one after the other; so the vector index changes its owner as well. What they told before
they died is compared with what a new process finds.
"""

import random
import time
from pathlib import Path
from typing import Any

import processes
import pytest
from workers import keyword_of, text_of

from langchain_agentmem import AgentMemory

WRITERS = 4
Expected = dict[str, int | None]
"""The number of the text that each record was acknowledged with; None: it was deleted."""


def kill_some_writers(folder: Path, round_: int, dice: random.Random) -> list[list[dict[str, Any]]]:
    writers = [
        processes.start("churn", folder=str(folder), seed=dice.random(), first=first)
        for first in ((round_ * WRITERS + writer) * 100_000 for writer in range(WRITERS))
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert "opened" in writer.stdout.readline()
    for writer in writers:
        time.sleep(dice.uniform(0.01, 0.3))
        assert writer.poll() is None, "it ended by itself, before it was killed"
        writer.kill()
    return [processes.lines(writer) for writer in writers]


def settle(told: list[dict[str, Any]], expected: Expected) -> Expected:
    """Note what was acknowledged; return what was under way when the process died."""
    doing: Expected = {}
    for line in told:
        if "doing" in line:
            doing = line["doing"]
        else:
            expected.update(line["done"])
            doing = {}
    return doing


def found_by_keyword(memory: AgentMemory, number: int) -> list[str]:
    word = keyword_of(number)
    return [
        *(hit.id for hit in memory.search_memories(word).results),
        *(hit.id for hit in memory.search_conversations(word).results),
    ]


def check_by_keyword(memory: AgentMemory, expected: Expected, former: Expected) -> None:
    for id_, number in expected.items():
        if number is not None:
            assert found_by_keyword(memory, number) == [id_]
        else:
            assert memory.get(id_) is None
        before = former.get(id_)
        if before is not None and before != number:
            assert found_by_keyword(memory, before) == []


def check_by_vector(memory: AgentMemory, expected: Expected) -> None:
    for id_, number in expected.items():
        if number is None:
            continue
        text = text_of(number)
        search = memory.search_memories if id_.startswith("m") else memory.search_conversations
        found = next(hit for hit in search(text, limit=3).results if hit.id == id_)
        assert found.vector_rank is not None
        assert found.similarity == pytest.approx(1.0, abs=1e-3)


def check_on_disk(folder: Path, expected: Expected) -> None:
    state = processes.evidence(folder)
    assert state["integrity"] == "ok"
    assert state["queue"] == []
    live = {id_ for id_, number in expected.items() if number is not None}
    assert {*state["memories"], *state["messages"]} == live
    for kind in ("memories", "messages"):
        for derived in ("keywords", "vectors", "nearest"):
            assert state.get(f"{kind}_{derived}", []) == state[kind]


def kill_and_verify(folder: Path, rounds: int, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    expected: Expected = {}
    for round_ in range(rounds):
        former = dict(expected)
        told = kill_some_writers(folder, round_, dice)
        under_way = [settle(lines, expected) for lines in told]
        changed = {id_: n for id_, n in expected.items() if former.get(id_, -1) != n}
        with AgentMemory.open(folder, embedding="none") as memory:
            for doing in under_way:
                # Whole or not at all, and which of them the database says.
                present = {id_: memory.get(id_) for id_ in doing}
                done = {
                    record.content == text_of(n) if record and n is not None else n is None
                    for n, record in zip(doing.values(), present.values(), strict=True)
                }
                if done == {True} and None not in doing.values():
                    changed |= doing
                    expected |= doing
                elif doing and None in doing.values():
                    expected |= {id_: None for id_ in doing if present[id_] is None}
                    changed = {id_: expected.get(id_) for id_ in changed}
                else:
                    assert len(done) < 2, "a transaction was kept in part"
            check_by_keyword(memory, changed, former)
        with AgentMemory.open(folder, embedding="local") as memory:
            report = memory.sync()
            assert (report.pending, report.problem) == (0, None)
            some = dice.sample(sorted(changed), min(60, len(changed)))  # the rest: check_on_disk
            check_by_vector(memory, {id_: changed[id_] for id_ in some})
            assert [finding for finding in memory.check() if not finding.ok] == []
        check_on_disk(folder, expected)


def test_eight_killed_writers_lose_and_leave_nothing(tmp_path: Path) -> None:
    kill_and_verify(tmp_path / "m", rounds=2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_killed_writers_lose_and_leave_nothing(tmp_path: Path) -> None:
    kill_and_verify(tmp_path / "m", rounds=13, seed=2)


@pytest.mark.slow
def test_a_sync_killed_in_the_middle_goes_on_where_it_was(tmp_path: Path) -> None:
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        pass
    with processes.RemoteMemory(tmp_path / "m", embedding="none") as writer:
        writer("add", first=0, count=3000)
    syncing = processes.RemoteMemory(tmp_path / "m")
    syncing.send("sync")
    assert syncing.process.stdout is not None
    assert "progress" in syncing.process.stdout.readline()
    syncing.kill()
    with AgentMemory.open(tmp_path / "m", embedding="local") as memory:
        assert 0 < memory.status().pending < 3000
        assert memory.sync().pending == 0
        assert [finding for finding in memory.check() if not finding.ok] == []
    check_on_disk(tmp_path / "m", {f"m{number}": number for number in range(3000)})
