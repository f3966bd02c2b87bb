"""A forked child gets a memory that works or an error that says what to do, and never hangs."""

from pathlib import Path

import processes
import pytest


@pytest.mark.parametrize(
    ("how", "closed"),
    [
        ("os", False),
        ("multiprocessing", True),
        pytest.param("os", True, marks=pytest.mark.slow),
        pytest.param("multiprocessing", False, marks=pytest.mark.slow),
    ],
)
def test_whatever_a_child_does_it_ends_and_harms_nobody(
    tmp_path: Path, how: str, closed: bool
) -> None:
    told = processes.run("fork", folder=str(tmp_path / "m"), how=how, action="all", closed=closed)
    *actions, child, parent = told
    assert child == {"child": "ended"}
    assert parent == {"parent_lost": [], "problem": []}
    by_name = {action.pop("action"): action for action in actions}
    for name in ("search", "write", "delete", "sync", "status"):
        expected = "is closed" if closed else "forked this one: open it again here"
        assert expected in by_name[name]["error"]
    assert by_name["close"] == by_name["exit"] == {"result": None}
    strategy, *found = by_name["reopen"]["result"]
    assert strategy == "fts", "Chroma does not survive a fork"
    assert found == ["m3"]


@pytest.mark.slow
def test_a_fork_while_other_threads_write_hangs_no_child(tmp_path: Path) -> None:
    told = processes.run("fork_while_busy", folder=str(tmp_path / "m"))
    assert [line["child"] for line in told if "child" in line] == ["ended"] * 10
    for line in told:
        if line.get("action") == "reopen":
            works = line.get("result", [])[:1] == ["fts"]
            assert works or "in use at the moment of the fork" in line["error"]


def test_a_fork_while_the_log_is_emptied_hangs_no_child(tmp_path: Path) -> None:
    reopened, *freed, child, parent = processes.run(
        "fork_during_checkpoint", folder=str(tmp_path / "m")
    )
    assert freed == []
    assert child == {"child": "ended"}
    assert "in use at the moment of the fork" in reopened["error"]
    assert parent == {"parent_lost": []}


def test_a_failed_opening_keeps_no_memory_from_letting_go(tmp_path: Path) -> None:
    reopened, child, parent = processes.run("fork_after_failed_open", folder=str(tmp_path / "m"))
    assert child == {"child": "ended"}
    assert "m3" in reopened["result"]
    assert "not a database" in parent["failed"]
    assert parent["ignored"] == [], "Python tells of exceptions in what runs after a fork"


def test_a_child_that_outlives_its_parent_does_not_keep_the_vector_index(tmp_path: Path) -> None:
    parent = processes.start("orphan", folder=str(tmp_path / "m"), child_seconds=6)
    assert parent.stdout is not None
    assert '"hybrid"' in parent.stdout.readline()
    parent.kill()
    parent.wait()
    with processes.RemoteMemory(tmp_path / "m") as heir:
        assert heir("search", query="zq1x")["strategy"] == "hybrid"
        assert heir("add", first=2, count=1)["pending"] == 0
    parent.communicate()
