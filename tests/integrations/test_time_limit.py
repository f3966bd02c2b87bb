"""Work that is waited for only so long."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from langchain_agentmem.integrations import time_limit
from langchain_agentmem.integrations.time_limit import Job, TimeLimit


def fails() -> str:
    msg = "secret"
    raise ValueError(msg)


async def result_of(job: Job[str], how: str) -> str:
    return job.result() if how == "sync" else await job.aresult()


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_result_that_is_there_counts_however_late_it_is_asked_for(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    limit = TimeLimit(60, what="work")
    job = limit.start(lambda: "done", otherwise="nothing")
    job.future.result()
    late = Job(job.future, limit, "nothing", started=job.started - 3600)
    assert await result_of(late, how) == "done"
    assert not caplog.records


def test_a_result_that_comes_while_the_waiting_is_given_up_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Late(Future[str]):
        def result(self, timeout: float | None = None) -> str:
            if not self.done():
                self.set_result("done")
                raise TimeoutError
            return super().result(timeout)

    limit = TimeLimit(60, what="work")
    assert Job(Late(), limit, "nothing", started=0.0).result() == "done"
    assert not caplog.records


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_what_takes_too_long_is_told_and_goes_on(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    limit, go = TimeLimit(0.05, what="work"), threading.Event()
    job = limit.start(lambda: str(go.wait(60)), otherwise="nothing")
    assert await result_of(job, how) == "nothing"
    assert "work took longer than 0.05 s" in caplog.text
    go.set()
    assert await asyncio.wrap_future(job.future) == "True"


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_the_same_failure_is_told_once_a_minute(
    how: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = TimeLimit(60, what="work")

    async def levels(times: int, work: Callable[[], str] = fails) -> list[int]:
        caplog.clear()
        for _ in range(times):
            assert await result_of(limit.start(work, otherwise="nothing"), how) == "nothing"
        return [record.levelno for record in caplog.records]

    with caplog.at_level(logging.DEBUG, logger=time_limit.__name__):
        assert await levels(3) == [logging.WARNING, logging.DEBUG, logging.DEBUG]
        assert await levels(1, lambda: str(1 // 0)) == [logging.WARNING]
        monkeypatch.setattr(time_limit, "SILENT_SECONDS", 0.0)
        assert await levels(1) == [logging.WARNING]
    assert "secret" not in caplog.text


@pytest.mark.parametrize("most", [3])
def test_no_more_than_so_many_jobs_are_under_way(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory that hangs does not fill the process with threads."""
    monkeypatch.setattr(time_limit, "MOST_AT_ONCE", most)
    limit, go, running = TimeLimit(60, what="work"), threading.Event(), []

    def hangs() -> str:
        running.append(threading.get_ident())
        go.wait(60)
        return "done"

    jobs = [limit.start(hangs, otherwise="nothing") for _ in range(most * 3)]
    go.set()
    assert [job.result() for job in jobs] == ["done"] * (most * 3)
    assert len(set(running)) <= most
