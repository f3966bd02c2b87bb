"""Daemon threads that do work in line, and end by themselves."""

import os
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

import pytest
from python_process import run_python

from langchain_agentmem import workers
from langchain_agentmem.workers import Workers


def test_results_and_errors_come_back() -> None:
    pool = Workers(2, "test")
    assert [pool.submit(pow, 2, n).result(60) for n in range(20)] == [2**n for n in range(20)]
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(60)


def test_no_more_threads_than_allowed_and_none_that_is_needed_less() -> None:
    pool = Workers(3, "test-most")
    release, at_once = threading.Event(), threading.Semaphore(0)

    def work() -> str:
        at_once.release()
        release.wait(60)
        return threading.current_thread().name

    futures = [pool.submit(work) for _ in range(10)]
    for _ in range(3):
        assert at_once.acquire(timeout=60)
    assert not at_once.acquire(blocking=False)
    assert [thread.name for thread in threading.enumerate()].count("test-most") == 3
    release.set()
    assert [future.result(60) for future in futures] == ["test-most"] * 10


def test_what_is_called_off_in_time_is_not_done() -> None:
    pool = Workers(1, "test-cancel")
    release = threading.Event()
    done: list[str] = []
    first = pool.submit(release.wait, 60)
    second = pool.submit(done.append, "second")
    third = pool.submit(done.append, "third")
    assert second.cancel()
    release.set()
    third.result(60)
    assert first.result(60)
    assert done == ["third"]


def test_a_closed_pool_does_what_waits_and_takes_no_more() -> None:
    pool = Workers(1, "test-close")
    release = threading.Event()
    futures: list[Future[bool]] = [pool.submit(release.wait, 60) for _ in range(3)]
    pool.close()
    with pytest.raises(RuntimeError, match="test-close"):
        pool.submit(print)
    release.set()
    assert [future.result(60) for future in futures] == [True] * 3


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_SECONDS", 0.05)
    pool = Workers(4, "test-idle")
    for _ in range(3):
        pool.submit(int).result(60)
    give_up = time.monotonic() + 60
    while "test-idle" in [thread.name for thread in threading.enumerate()]:
        assert time.monotonic() < give_up
        time.sleep(0.02)
    assert pool.submit(int).result(60) == 0


def test_many_threads_submit_and_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while idle threads are about to end."""
    monkeypatch.setattr(workers, "IDLE_SECONDS", 0.001)
    pool = Workers(4, "test-many")
    results: list[int] = []

    def submit() -> None:
        for number in range(200):
            results.append(pool.submit(int, number).result(60))
            if number % 20 == 0:
                time.sleep(0.002)

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert len(results) == 800


def test_work_under_way_at_exit_may_end_but_holds_nothing_up() -> None:
    script = """
import threading, time
from langchain_agentmem.workers import Workers
pool = Workers(2, "exit")
pool.submit(threading.Event().wait)
pool.submit(lambda: (time.sleep(0.2), print("done", flush=True)))
"""
    done = run_python(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_future_that_hangs_can_be_left() -> None:
    pool = Workers(1, "test-hang")
    release = threading.Event()
    future = pool.submit(release.wait, 60)
    with pytest.raises(FutureTimeoutError):
        future.result(0.01)
    release.set()
    assert future.result(60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_child_has_threads_of_its_own_and_keeps_a_closed_pool_closed() -> None:
    """From the first moment on, however many of its threads come at once."""
    done = run_python("""
import os, threading
from langchain_agentmem.workers import Workers
pool, closed = Workers(2, "fork"), Workers(2, "closed")
entered = [threading.Event() for _ in range(2)]
for event in entered:
    pool.submit(lambda event=event: (event.set(), threading.Event().wait()))
for event in entered:
    event.wait()
pool.submit(print, "in line")  # both of the parent's threads are taken
closed.close()
child = os.fork()
if child == 0:
    together, results = threading.Barrier(20), []
    def submit(number):
        together.wait()
        results.append(pool.submit(int, number).result(60))
    threads = [threading.Thread(target=submit, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    print(sorted(results) == list(range(20)), flush=True)
    try:
        closed.submit(int)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
""")

    assert done.stdout == "True\nthe workers closed have been let go\n", done.stderr
