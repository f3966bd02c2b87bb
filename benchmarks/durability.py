"""What is lost when processes die or share a folder: this package, and Chroma alone.

    python benchmarks/durability.py [--runs N]

The processes are those of the durability tests: four writers of 400 records each, or one of 30
beside a reader. `lost` are acknowledged records that a search by vector no longer finds after
`sync()`, which Chroma alone does not have; `duplicated` are ids that are stored twice, `ghosts` are
vectors or keyword rows without a record. All three are zero for this package, or it is a bug.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

WORKERS = Path(__file__).parents[1] / "tests" / "durability" / "workers.py"
WRITERS, WRITES = 4, 400
WRITES_BESIDE_A_READER = 30

# A writer that uses Chroma itself, as a program would that shares a folder without this package.
RAW_WRITER = """
import json, sys, time, chromadb, numpy
folder, first, count, start = json.loads(sys.argv[1])
vectors = numpy.random.default_rng(first).normal(size=(count, 64)).tolist()
time.sleep(max(0.0, start - time.time()))
client = chromadb.PersistentClient(folder)
collection = client.get_or_create_collection("memories", embedding_function=None)
for number, vector in enumerate(vectors, start=first):
    collection.upsert(ids=[f"m{number}"], embeddings=[vector])
    print(json.dumps({"id": f"m{number}"}), flush=True)
"""
RAW_STATE = """
import json, sys, chromadb
collection = chromadb.PersistentClient(sys.argv[1]).get_or_create_collection(
    "memories", embedding_function=None)
ids = collection.get(include=[])["ids"]
found = collection.query(query_embeddings=[[1.0] * 64], n_results=max(1, len(ids)))["ids"][0]
print(json.dumps({"ids": ids, "found": found}))
"""
RAW_READER = """
import json, sys, chromadb
collection = chromadb.PersistentClient(sys.argv[1]).get_or_create_collection(
    "memories", embedding_function=None)
query = lambda: collection.query(query_embeddings=[[1.0] * 64], n_results=1000)["ids"][0]
query()
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(query()))
"""


@dataclass
class Outcome:
    """What became of acknowledged writes."""

    acknowledged: int = 0
    lost: int = 0
    duplicated: int = 0
    ghosts: int = 0

    def add(self, acknowledged: set[str], stored: list[str], found: list[str]) -> None:
        """Count one run: what was acknowledged, is stored, and answers."""
        self.acknowledged += len(acknowledged)
        self.lost += len(acknowledged - set(found))
        self.duplicated += sum(times - 1 for times in Counter(found).values())
        self.ghosts += len(set(found) - set(stored))


def python(*arguments: str) -> subprocess.Popen[str]:
    """Start a process with this checkout importable."""
    path = os.pathsep.join([str(WORKERS.parents[2]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(  # noqa: S603
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )


def worker(name: str, **arguments: Any) -> subprocess.Popen[str]:
    """Start a process of the durability tests."""
    return python(str(WORKERS), name, json.dumps(arguments))


def told(process: subprocess.Popen[str]) -> list[Any]:
    """Wait for the end of a process and return the whole lines that it printed."""
    assert process.stdout is not None  # noqa: S101
    output = process.stdout.read()  # communicate() would miss what a readline() has read ahead
    process.wait()
    return [json.loads(line) for line in output[: output.rfind("\n") + 1].splitlines()]


def acknowledged_by(writers: list[subprocess.Popen[str]]) -> set[str]:
    """Wait for the end of writers and return the ids that they told."""
    return {line["id"] for writer in writers for line in told(writer)}


def ours(folder: Path, acknowledged: set[str], outcome: Outcome) -> None:
    """Sync and judge a memory."""
    syncing = worker("serve", folder=str(folder))
    syncing.communicate('{"method": "sync", "arguments": {}}\n', timeout=300)
    (state,) = told(worker("evidence", folder=str(folder)))
    outcome.add(acknowledged, state["memories"], state["memories_nearest"])
    outcome.add(set(), state["memories"], state["memories_keywords"])


def raw(folder: Path, acknowledged: set[str], outcome: Outcome) -> None:
    """Judge a Chroma folder."""
    (state,) = told(python("-c", RAW_STATE, str(folder)))
    outcome.add(acknowledged, state["ids"], state["found"])


def start_writers(folder: Path, mine: bool) -> list[subprocess.Popen[str]]:  # noqa: FBT001
    """Start writers that begin at the same moment."""
    start = time.time() + 4
    if mine:
        return [
            worker("write", folder=str(folder), first=n * WRITES, count=WRITES, start=start)
            for n in range(WRITERS)
        ]
    return [
        python("-c", RAW_WRITER, json.dumps([str(folder), n * WRITES, WRITES, start]))
        for n in range(WRITERS)
    ]


def four_writers(folder: Path, outcome: Outcome, *, mine: bool) -> None:
    """Four processes write at once."""
    writers = start_writers(folder, mine)
    (ours if mine else raw)(folder, acknowledged_by(writers), outcome)


def killed(folder: Path, outcome: Outcome, *, mine: bool) -> None:
    """Four processes write at once, and each is killed at a random moment."""
    writers = start_writers(folder, mine)
    first = {json.loads(writer.stdout.readline())["id"] for writer in writers if writer.stdout}
    for writer in writers:
        time.sleep(random.uniform(0.01, 0.3))  # noqa: S311
        if writer.poll() is not None:
            sys.exit("durability.py: a writer ended by itself, before it was killed")
        writer.kill()
    (ours if mine else raw)(folder, first | acknowledged_by(writers), outcome)


def stale_reader(folder: Path, outcome: Outcome, *, mine: bool) -> None:
    """A process that had searched before another one wrote searches again."""
    if mine:
        reader = worker("serve", folder=str(folder))
        assert reader.stdout is not None  # noqa: S101
        reader.stdout.readline()
        writer = worker("write", folder=str(folder), first=0, count=WRITES_BESIDE_A_READER)
        written = {line["id"] for line in told(writer)}
        numbers = [int(id_[1:]) for id_ in written]
        sync = {"method": "sync", "arguments": {}}
        question = {"method": "missing", "arguments": {"numbers": numbers, "by": "vector"}}
        *_, answer = told_after(reader, f"{json.dumps(sync)}\n{json.dumps(question)}")
        found = [id_ for id_ in written if int(id_[1:]) not in answer["result"]]
    else:
        told(python("-c", RAW_WRITER, json.dumps([str(folder), 1000, 1, 0])))
        reader = python("-c", RAW_READER, str(folder))
        assert reader.stdout is not None  # noqa: S101
        reader.stdout.readline()
        writer = python("-c", RAW_WRITER, json.dumps([str(folder), 0, WRITES_BESIDE_A_READER, 0]))
        written = {line["id"] for line in told(writer)}
        (found,) = told_after(reader, "go")
    outcome.add(written, found, found)


def told_after(process: subprocess.Popen[str], line: str) -> list[Any]:
    """Say a line, or several, to a process, and return what it printed then until its end."""
    output, _ = process.communicate(line + "\n", timeout=300)
    return [json.loads(each) for each in output.splitlines()]


FAULTS: dict[str, Callable[..., None]] = {
    "four writers on one folder": four_writers,
    "four writers killed": killed,
    "reader opened before the writes": stale_reader,
}


def main(runs: Annotated[int, typer.Option(help="Runs of each fault.")] = 1) -> None:
    """Print the table; exit with 1 if this package lost anything."""
    table = Table(title="What became of acknowledged writes")
    for column in ("fault", "store", "runs", "acknowledged", "lost", "duplicated", "ghosts"):
        table.add_column(column, justify="left" if column in ("fault", "store") else "right")
    sound = True
    for fault, play in FAULTS.items():
        for mine in (True, False):
            outcome = Outcome()
            for _ in range(runs):
                with tempfile.TemporaryDirectory() as folder:
                    play(Path(folder) / "m", outcome, mine=mine)
            bad = (outcome.lost, outcome.duplicated, outcome.ghosts)
            sound = sound and not (mine and any(bad))
            store = "langchain-agentmem" if mine else "Chroma alone"
            table.add_row(fault, store, *map(str, (runs, outcome.acknowledged, *bad)))
    Console(width=100).print(table)
    if not sound:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
