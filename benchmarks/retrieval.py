"""How well does search find what answers a question? Recall at k, and the time of a search.

Run it as a script on a folder of data sets (see `datasets.py`):

    python benchmarks/retrieval.py --data ../shared/data/locomo --embedding local --peers

R@k is the share of the records that answer a question which are among the first k results, as a
mean over questions. Every system gets the same texts, and the vectors of the same model; vectors
are computed before anything is timed, so that times are those of searching alone.
"""

import argparse
import json
import shlex
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datasets import Dataset, RecordsName, Task, read_datasets
from rich.console import Console
from rich.table import Table
from vector_cache import CachingEmbeddings, open_model

from langchain_agentmem import AgentMemory, SearchResult
from langchain_agentmem.embeddings.embedder import Embedder
from langchain_agentmem.errors import AgentMemoryError

FIRST_K = 5
MAX_LIMIT = 100
OWN_NAME = "AgentMemory"
SEARCH_TIMEOUT_SECONDS = 60.0  # a busy machine must not turn a hybrid search into a keyword search

Search = Callable[[str], list[str]]
"""From a query to the ids that were found, best first."""


@dataclass(frozen=True)
class Outcome:
    """What one system made of one question."""

    dataset: str
    system: str
    records: RecordsName
    question: int
    gold: list[str]
    found: list[str]
    ms: float

    def recall(self, k: int) -> float:
        """Return the share of the gold ids that are among the first `k` found."""
        return len(set(self.gold).intersection(self.found[:k])) / len(self.gold)


@dataclass(frozen=True)
class Figures:
    """Outcomes in sum."""

    questions: int
    recall: dict[str, float]
    median_ms: float


class DegradedError(Exception):
    """`AgentMemory` did not work as it should, so that its figures would mislead."""


def run(
    dataset: Dataset, model: CachingEmbeddings | None, limit: int, *, with_peers: bool
) -> list[Outcome]:
    """Ask every question of a data set, of `AgentMemory` and perhaps of its peers."""
    if model is not None:
        for task in dataset.tasks:
            model.prepare([*task.texts.values(), *(asked.text for asked in task.questions)])
        model.save()
    outcomes: list[Outcome] = []
    with filled_memory(dataset, model) as memory:
        for task in dataset.tasks:
            search = own_search(memory, task.records, limit)
            outcomes += ask(dataset.name, task, OWN_NAME, search)
    if with_peers and model is not None:
        for task in dataset.tasks:
            with peer_searches(task, model, limit) as searches:
                for name, search in searches.items():
                    outcomes += ask(dataset.name, task, name, search)
    return outcomes


def ask(dataset: str, task: Task, system: str, search: Search) -> Iterator[Outcome]:
    """Time a system's answer to each question."""
    for question in task.questions:
        started = time.perf_counter()
        found = search(question.text)
        ms = (time.perf_counter() - started) * 1000
        gold = sorted(question.gold)
        yield Outcome(dataset, system, task.records, question.number, gold, found, ms)


@contextmanager
def filled_memory(dataset: Dataset, model: CachingEmbeddings | None) -> Iterator[AgentMemory]:
    """Open a fresh memory in a temporary folder, and import the records of a data set.

    Raises:
        DegradedError: Not all of it is there to be searched.
    """
    with (
        TemporaryDirectory(prefix="agentmem-bench-") as folder,
        open_memory(folder, model) as memory,
    ):
        memory.add_messages(None, dataset.messages)
        memory.add_memories(dataset.memories)
        memory.sync()
        status = memory.status()
        expected = (len(dataset.messages), len(dataset.memories), "hybrid" if model else "fts")
        if (status.messages, status.memories, status.strategy) != expected or status.problems:
            msg = f"{dataset.name} was not imported whole: {status}"
            raise DegradedError(msg)
        yield memory


def open_memory(folder: str, model: CachingEmbeddings | None) -> AgentMemory:
    """Open a memory that uses the model with its weight."""
    if model is None:
        return AgentMemory.open(folder, embedding="none")
    embedder = Embedder(
        model, name=model.model, identity=model.model, weight=model.weight, fusion=model.fusion
    )
    return AgentMemory.open(folder, embedding=embedder, timeout=SEARCH_TIMEOUT_SECONDS)


def own_search(memory: AgentMemory, records: RecordsName, limit: int) -> Search:
    """Return the public search of a memory for this kind of record."""

    def search(query: str) -> list[str]:
        result: SearchResult[Any]
        if records == "messages":
            result = memory.search_conversations(query, limit=limit)
        else:
            result = memory.search_memories(query, limit=limit)
        if result.notes:
            raise DegradedError("; ".join(result.notes))
        return [hit.id for hit in result.results]

    return search


@contextmanager
def peer_searches(task: Task, model: CachingEmbeddings, limit: int) -> Iterator[dict[str, Search]]:
    """Build the peers from the texts of a task, and return their searches by name."""
    from peers import Item, Peer, build_peers  # needs the extra `bench`

    def search_of(peer: Peer) -> Search:
        return lambda query: peer.search(query, model.vector(query), limit)

    items = [Item(id_, text, model.vector(text)) for id_, text in task.texts.items()]
    with ExitStack() as stack:
        peers = [stack.enter_context(closing(peer)) for peer in build_peers(items)]
        yield {peer.name: search_of(peer) for peer in peers}


def summarize(outcomes: Sequence[Outcome], ks: Iterable[int]) -> Figures:
    """Take the mean of the recalls and the median of the times."""
    return Figures(
        questions=len(outcomes),
        recall={f"R@{k}": statistics.fmean(each.recall(k) for each in outcomes) for k in ks},
        median_ms=statistics.median(each.ms for each in outcomes),
    )


def summarize_by(
    outcomes: Iterable[Outcome], ks: Sequence[int], key: Callable[[Outcome], str]
) -> dict[tuple[str, RecordsName], Figures]:
    """Summarize outcomes by what `key` says and by kind of record, in the order of appearance."""
    groups: dict[tuple[str, RecordsName], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((key(outcome), outcome.records), []).append(outcome)
    return {group: summarize(members, ks) for group, members in groups.items()}


def table(
    title: str, first: str, figures: dict[tuple[str, RecordsName], Figures], ks: Iterable[int]
) -> Table:
    """Lay figures out, a row for each."""
    drawn = Table(title=title, title_justify="left")
    drawn.add_column(first)
    drawn.add_column("records")
    recalls = [f"R@{k}" for k in ks]
    for column in ("questions", *recalls, "median ms"):
        drawn.add_column(column, justify="right")
    for (name, records), row in figures.items():
        shares = (f"{row.recall[column]:.3f}" for column in recalls)
        drawn.add_row(name, records, str(row.questions), *shares, f"{row.median_ms:.2f}")
    return drawn


def circumstances(datasets: Sequence[Dataset], model: CachingEmbeddings | None) -> dict[str, Any]:
    """Tell what was run, and on what."""
    left_out = sum(
        task.left_out
        for dataset in datasets
        for task in dataset.tasks
        if task.records == "memories"
    )
    return {
        "command": shlex.join(["python", *sys.argv]),
        "questions": sum(dataset.questions for dataset in datasets),
        "questions without a memory that answers": left_out,
        "embedding": f"{model.model}, fused by {model.fusion}, weight {model.weight:g}"
        if model
        else "none",
        "embedded in this run": model.computed if model else 0,
        "versions": {
            "langchain-agentmem": version("langchain-agentmem"),
            "chromadb": version("chromadb"),
            "sqlite": sqlite3.sqlite_version,
        },
    }


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure what search finds, and how fast.")
    parser.add_argument("--data", type=Path, required=True, help="a folder of data sets")
    parser.add_argument("--embedding", choices=("local", "chroma", "none"), required=True)
    parser.add_argument("--limit", type=int, default=10, help="results of a search, 1 to 100")
    parser.add_argument("--vector-cache", type=Path, help="an .npz file that keeps the vectors")
    parser.add_argument("--peers", action="store_true", help="measure other systems as well")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    arguments = parser.parse_args()
    if not 1 <= arguments.limit <= MAX_LIMIT:
        parser.error(f"--limit must be from 1 to {MAX_LIMIT}")
    for file in (arguments.vector_cache, arguments.json):
        if file and not file.parent.is_dir():
            parser.error(f"there is no folder {file.parent}")
    return arguments


def main() -> None:
    """Measure, print, and write the figures."""
    arguments = parse_arguments()
    console = Console()
    ks = sorted({FIRST_K, arguments.limit})
    outcomes: list[Outcome] = []
    try:
        datasets = read_datasets(arguments.data)
        model = open_model(arguments.embedding, arguments.vector_cache)
        for dataset in datasets:
            with console.status(dataset.name):
                outcomes += run(dataset, model, max(ks), with_peers=arguments.peers)
    except (AgentMemoryError, DegradedError, OSError, ValueError) as error:
        sys.exit(f"retrieval.py: {error}")
    except ImportError as error:
        sys.exit(f"retrieval.py: {error}: --peers needs `pip install 'langchain-agentmem[bench]'`")
    own = [outcome for outcome in outcomes if outcome.system == OWN_NAME]
    by_dataset = summarize_by(own, ks, lambda outcome: outcome.dataset)
    total = summarize_by(outcomes, ks, lambda outcome: outcome.system)
    facts = circumstances(datasets, model)
    for name, fact in facts.items():
        console.print(f"{name}: {fact}", markup=False, highlight=False, soft_wrap=True)
    if arguments.peers and model is None:
        console.print("The peers search vectors: with --embedding none they are left out.")
    console.print(table(f"{OWN_NAME} by data set", "data set", by_dataset, ks))
    console.print(table("All questions", "system", total, ks))
    console.print("Times are of searches whose query is embedded already.", highlight=False)
    if arguments.json:
        written = {
            **facts,
            "by_dataset": _rows("data_set", by_dataset),
            "total": _rows("system", total),
            "outcomes": [asdict(outcome) for outcome in outcomes],
        }
        arguments.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def _rows(first: str, figures: dict[tuple[str, RecordsName], Figures]) -> list[dict[str, Any]]:
    return [
        {first: name, "records": records, **asdict(row)} for (name, records), row in figures.items()
    ]


if __name__ == "__main__":
    main()
