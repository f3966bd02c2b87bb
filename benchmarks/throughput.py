"""How fast is a memory filled and opened, and what does it take?

    python benchmarks/throughput.py --data ../shared/data/locomo --records 20000

Vectors are given: what is timed is storing, not embedding. Beside it, in the same run, the same
vectors go into raw Chroma, and the same texts into raw FTS5. As the speed of a machine wanders,
the import and raw Chroma take turns with some 20,000 records each. Processor time, which a busy
machine changes less, stands beside the time.
"""

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import chromadb
from chromadb.config import Settings
from corpus import Corpus, GivenEmbeddings, Vectors
from datasets import read_datasets
from latency import Stopwatch, embed
from rich.console import Console
from rich.table import Table

from langchain_agentmem import AgentMemory
from langchain_agentmem.embeddings.local import WordLlamaEmbeddings
from langchain_agentmem.integrations.imports import import_lines
from langchain_agentmem.interchange import Line
from langchain_agentmem.storage.text import index_text

BATCH = 500
SINGLE = 1000  # Chroma writes its index to disk after every 1,000 records: all pay for it once
TURN = 20_000
SETTINGS = Settings(anonymized_telemetry=False)
COSINE: Any = {"hnsw": {"space": "cosine"}}

_OPEN_RAW = """
import sys, time
import chromadb
from chromadb.config import Settings

started = time.perf_counter()
settings = Settings(anonymized_telemetry=False)
client = chromadb.PersistentClient(f"{sys.argv[1]}/chroma", settings=settings)
for collection in client.list_collections():
    if "-messages-" in collection.name:
        collection.query(query_embeddings=[[1.0] * 256], n_results=1)
print(time.perf_counter() - started)
"""
_OPEN_OWN = """
import sys, time
sys.path.insert(0, sys.argv[2])
import chromadb, numpy
from corpus import GivenEmbeddings
from langchain_agentmem import AgentMemory

given = GivenEmbeddings()
given.give(["question"], numpy.ones((1, 256), dtype=numpy.float32))
started = time.perf_counter()
memory = AgentMemory.open(sys.argv[1], embedding=given)
assert memory.search_conversations("question").strategy in ("hybrid", "embedding")
print(time.perf_counter() - started)
"""


@dataclass(frozen=True)
class Rate:
    """What one way of storing took."""

    name: str
    records: int
    seconds: float
    cpu: float
    """Processor seconds."""

    @property
    def per_second(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    def __add__(self, other: "Rate") -> "Rate":
        """Take two turns together."""
        return Rate(
            self.name,
            self.records + other.records,
            self.seconds + other.seconds,
            self.cpu + other.cpu,
        )


def measured(name: str, records: int, work: Callable[[], object]) -> Rate:
    """Time some work."""
    with Stopwatch() as whole:
        work()
    return Rate(name, records, whole.wall / 1000, whole.cpu / 1000)


def batches(total: int) -> Iterator[slice]:
    """Return the slices of the batches."""
    return (slice(start, min(total, start + BATCH)) for start in range(0, total, BATCH))


def raw_chroma(folder: Path, ids: list[str], vectors: Vectors, *, single: bool) -> None:
    """Add vectors to a collection."""
    client = chromadb.PersistentClient(str(folder), settings=SETTINGS)
    collection = client.get_or_create_collection(
        "vectors", configuration=COSINE, embedding_function=None
    )
    steps = (slice(i, i + 1) for i in range(len(ids))) if single else batches(len(ids))
    for part in steps:
        embeddings: Any = list(vectors[part])
        collection.add(ids=ids[part], embeddings=embeddings)


def raw_fts5(folder: Path, texts: list[str], *, single: bool) -> None:
    """Insert terms into a full-text table, each batch in a transaction that is on disk."""
    connection = sqlite3.connect(folder / "raw.sqlite3", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS f USING fts5(t, tokenize = 'ascii')")
    steps = (slice(i, i + 1) for i in range(len(texts))) if single else batches(len(texts))
    for part in steps:
        connection.execute("BEGIN")
        rows = [(index_text(text),) for text in texts[part]]
        connection.executemany("INSERT INTO f (t) VALUES (?)", rows)
        connection.execute("COMMIT")
    connection.close()


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def seconds_to_open(script: str, folder: Path) -> float:
    """Open what is in a folder, in a process of its own, and ask it once."""
    here = str(Path(__file__).parent)
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script, str(folder), here],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def run(corpus: Corpus, folder: Path) -> dict[str, Any]:
    """Measure everything once."""
    texts = list(corpus.texts())
    vectors = embed(WordLlamaEmbeddings(), texts)
    ids = [corpus.id(i) for i in range(corpus.total)]
    given = GivenEmbeddings()
    given.give(texts, vectors)
    records = corpus.records(texts, 0)
    bulk, rest = slice(0, corpus.total - SINGLE), slice(corpus.total - SINGLE, corpus.total)
    count = corpus.total - SINGLE
    source = Path("corpus")
    own, raw = folder / "memory", folder / "raw-chroma"
    imported, added = Rate("AgentMemory, import", 0, 0, 0), Rate("raw Chroma, batches", 0, 0, 0)
    with AgentMemory.open(own, embedding=given) as memory:
        turns = max(1, round(count / TURN))
        for turn in range(turns):
            part = slice(count * turn // turns, count * (turn + 1) // turns)
            n = part.stop - part.start
            lines = (Line(source, i, record) for i, record in enumerate(records[part]))
            add = partial(raw_chroma, raw, ids[part], vectors[part], single=False)
            if turn % 2:
                added += measured("", n, add)
            imported += measured("", n, partial(import_lines, memory, lines))
            if not turn % 2:
                added += measured("", n, add)
        pending = memory.sync().pending
        bytes_each = size_of(own) / count
        one_saved = measured(
            "AgentMemory, one by one",
            SINGLE,
            lambda: [memory.add_messages(None, [record]) for record in records[rest]],
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    fts5 = partial(raw_fts5, folder, texts[bulk], single=False)
    inserted = measured("raw FTS5, batches", count, fts5)
    chroma = partial(raw_chroma, raw, ids[rest], vectors[rest], single=True)
    one_added = measured("raw Chroma, one by one", SINGLE, chroma)
    fts5 = partial(raw_fts5, folder, texts[rest], single=True)
    one_inserted = measured("raw FTS5, one by one", SINGLE, fts5)
    raw_singles = one_added.seconds + one_inserted.seconds
    return {
        "records": corpus.total,
        "pending": pending,
        "rates": [imported, added, one_saved, inserted, one_added, one_inserted],
        "import, x raw Chroma": added.seconds / imported.seconds,
        "the same by processor time": added.cpu / imported.cpu,
        "one by one, x raw Chroma and raw FTS5 together": raw_singles / one_saved.seconds,
        "bytes on disk per record": bytes_each,
        "of these raw Chroma": size_of(raw) / corpus.total,
        "peak memory, MB, texts and vectors of the corpus included": peak,
        "seconds until a memory answers": seconds_to_open(_OPEN_OWN, own),
        "seconds until raw Chroma answers": seconds_to_open(_OPEN_RAW, own),
    }


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description="Measure how fast a memory is filled.")
    parser.add_argument("--data", type=Path, required=True, help="a folder of data sets")
    parser.add_argument("--records", type=int, default=20_000, help="how many messages")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    arguments = parser.parse_args()
    if arguments.records <= SINGLE:
        parser.error(f"--records must be above {SINGLE}")
    try:
        corpus = Corpus("messages", read_datasets(arguments.data), arguments.records)
    except OSError as error:
        sys.exit(f"throughput.py: {error}")
    with TemporaryDirectory(prefix="agentmem-bench-") as folder:
        facts = run(corpus, Path(folder))
    rates: list[Rate] = facts.pop("rates")
    drawn = Table(title="Throughput", title_justify="left")
    drawn.add_column("what")
    for head in ("records", "records/s", "CPU ms a record"):
        drawn.add_column(head, justify="right")
    for rate in rates:
        cells = (f"{rate.records:,}", f"{rate.per_second:,.0f}")
        drawn.add_row(rate.name, *cells, f"{1000 * rate.cpu / rate.records:.3f}")
    console = Console()
    console.print(drawn)
    for name, fact in facts.items():
        shown = f"{fact:,.2f}" if isinstance(fact, float) else f"{fact:,}"
        console.print(f"{name}: {shown}", highlight=False)
    if arguments.json:
        written = {**facts, "rates": [asdict(rate) for rate in rates]}
        arguments.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
