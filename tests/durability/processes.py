"""How the durability tests start processes, talk to them and end them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, Self

import httpx

WORKERS = Path(__file__).with_name("workers.py")
PATIENCE = 90.0
"""Seconds after which a process counts as hung."""
_ENVIRONMENT = os.environ | {
    "PYTHONFAULTHANDLER": "1",  # should a worker crash, the test's output tells where
    "PYTHONPATH": os.pathsep.join([str(WORKERS.parents[2]), os.environ.get("PYTHONPATH", "")]),
}


def start(worker: str, *, prefix: Sequence[str] = (), **arguments: Any) -> subprocess.Popen[str]:
    """Start a worker with pipes to its stdin and stdout."""
    return subprocess.Popen(
        [*prefix, sys.executable, str(WORKERS), worker, json.dumps(arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_ENVIRONMENT,
    )


def lines(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Wait for the end of a worker; what it told, without a line that its end cut off."""
    assert process.stdout is not None
    watchdog = Timer(PATIENCE, process.kill)
    watchdog.start()
    output = process.stdout.read()  # communicate() would miss what a readline() has read ahead
    process.wait()
    watchdog.cancel()
    whole = output[: output.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def run(worker: str, **arguments: Any) -> list[dict[str, Any]]:
    """Run a worker to its end."""
    process = start(worker, **arguments)
    told = lines(process)
    assert process.returncode == 0, (worker, process.returncode, told)
    return told


def write_together(folder: Path, count: int, **options: Any) -> int:
    """Let four workers write `count` memories each at the same time; how many they acknowledged."""
    options |= {"folder": str(folder), "count": count, "start": time.time() + 3}
    writers = [start("write", first=number * count, **options) for number in range(4)]
    return sum(len(lines(writer)) for writer in writers)


def evidence(folder: Path, **arguments: Any) -> dict[str, Any]:
    """What SQLite and Chroma, asked directly in a fresh process, say is on disk."""
    return run("evidence", folder=str(folder), **arguments)[0]


class RemoteMemory:
    """A memory in another process."""

    def __init__(self, folder: Path, *, prefix: Sequence[str] = (), **options: Any) -> None:
        self.process = start("serve", folder=str(folder), prefix=prefix, **options)
        self.progress: list[list[int]] = []
        assert self._told() == {"opened": True}

    def send(self, method: str, **arguments: Any) -> None:
        """Have it do something, without waiting for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"method": method, "arguments": arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Wait for the answer to what was sent; an error is a RuntimeError."""
        while "progress" in (told := self._told()):
            self.progress.append(told["progress"])
        if "error" in told:
            raise RuntimeError(told["error"])
        return told["result"]

    def __call__(self, method: str, **arguments: Any) -> Any:
        self.send(method, **arguments)
        return self.answer()

    def kill(self) -> None:
        """End it with SIGKILL, whatever it is doing."""
        self.process.kill()
        self.process.communicate()

    def close(self) -> None:
        """Let it close its memory and end."""
        self.process.communicate(timeout=PATIENCE)

    def _told(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the process ended with {self.process.wait()}"
        told: dict[str, Any] = json.loads(line)
        return told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.close()


class ChromaServer:
    """A real `chroma run` on the loopback interface, to be killed and brought back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, on the same port ever again, and wait until it answers."""
        command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(self.folder)]
        self._process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder.parent,
        )
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{self.port}/api/v2/heartbeat").raise_for_status()
            except httpx.HTTPError:
                assert time.monotonic() < give_up, "the Chroma server does not answer"
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It accepts connections and answers nothing meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def in_private_mounts(script: str) -> list[str] | None:
    """A command prefix that runs a process in mounts of its own, made by a shell script.

    They end with the process. None where this machine does not allow it.
    """
    if shutil.which("unshare") is None:
        return None
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    wrapped = [*prefix, f'{script} && exec "$@"', "sh"]
    allowed = subprocess.run([*wrapped, "true"], capture_output=True, check=False)
    return wrapped if allowed.returncode == 0 else None
