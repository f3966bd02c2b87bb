"""How long does a search take, as a memory grows, with filters and without, beside its peers?

    python benchmarks/latency.py --data ../shared/data/locomo --records 10000,100000 --peers

Records are made of the data set's texts (see `corpus.py`), vectors are computed beforehand, and
every system answers the same questions in the same run. AgentMemory and the raw indexes are asked
each question in a drawn order; the peers come after them, one by one. The floor is what a naive
hybrid search could not go below: the slower of the two raw indexes, asked for ten results, FTS5
with the question's words less its stop words. Starved counts answers with fewer results than there
could be. Times are milliseconds; what matters are the ratios within a run. Processor time, which a
busy machine does not change, stands beside.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from unittest import mock

import chromadb
import numpy as np
from chromadb.config import Settings
from corpus import USER, Corpus, GivenEmbeddings, Selection, Vectors, user_of
from datasets import RecordsName, read_datasets
from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from rich.console import Console
from rich.table import Table

from langchain_agentmem import AgentMemory, AgentMemoryToolkit
from langchain_agentmem.embeddings.local import WordLlamaEmbeddings
from langchain_agentmem.storage.query import parse

LIMIT = 10
BATCH = 2000
AT_ONCE = 16
WARM_UP = 2
OWN = "AgentMemory"
BY_VECTORS = f"{OWN}, vectors alone"
THROUGH_TOOL = f"{OWN}, through the tool"
BEYOND_SEARCH = "of that, beyond the search"
IDLE_TOOL = "LangChain tool that does nothing"
NOT_ASKED = "keywords are not asked"
SLOW_QUESTIONS = 8
"""How many questions a slow peer is asked."""
HEADS = (
    "system",
    "filter",
    "p50 ms",
    "p95 ms",
    "x floor",
    "CPU ms",
    "CPU x floor",
    "starved",
    "note",
)
KINDS: tuple[RecordsName, ...] = ("messages", "memories")
TIMEOUT_SECONDS = 600.0

Ask = Callable[[str], int]
"""Asks a question, and returns how many results came."""


@dataclass(frozen=True)
class Times:
    """What one system took for all questions, in milliseconds."""

    wall: list[float]
    cpu: list[float]
    """Processor time of the whole process: what remains the same on a busy machine."""
    starved: int | None = None
    """How many answers had too few results; None: that was not counted."""


@dataclass(frozen=True)
class Row:
    """What was measured of one system on one size."""

    records: int
    kind: str
    system: str
    selection: str
    p50: float
    p95: float
    cpu: float
    """Median processor time."""
    ratio: float
    """p50 as a multiple of the floor's."""
    cpu_ratio: float
    """Processor time as a multiple of the floor's."""
    starved: int | None
    questions: int
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the figures in the order of `HEADS`."""
        times = (self.p50, self.p95, self.ratio, self.cpu, self.cpu_ratio)
        starved = "" if self.starved is None else f"{self.starved} of {self.questions}"
        return (
            self.system,
            self.selection,
            *(f"{time:,.2f}" for time in times),
            starved,
            self.note,
        )


@dataclass(frozen=True)
class Contender:
    """A system that is asked, and how many results there are for each question."""

    system: str
    ask: Ask
    selection: Selection | None = None
    wanted: int = 0


def embed(model: WordLlamaEmbeddings, texts: Sequence[str]) -> Vectors:
    """Return the vectors of texts, (n, 256) float32."""
    parts = [model.embed_documents(list(texts[i : i + BATCH])) for i in range(0, len(texts), BATCH)]
    return np.concatenate([np.asarray(part, dtype=np.float32) for part in parts])


def fill(memory: AgentMemory, corpus: Corpus, vectors: tuple[GivenEmbeddings, Any] | None) -> None:
    """Save a corpus in batches; with vectors, each is made right before its record is saved."""
    texts, start = [], 0
    for text in corpus.texts():
        texts.append(text)
        if len(texts) == BATCH or start + len(texts) == corpus.total:
            records = corpus.records(texts, start)
            if vectors is not None:
                given, model = vectors
                given.give(texts, embed(model, texts))
            if corpus.kind == "messages":
                memory.add_messages(None, records)
            else:
                memory.add_memories(records)
            if vectors is not None:
                vectors[0].forget(texts)
            start += len(texts)
            texts = []
    memory.sync()


def race(contenders: Sequence[Contender], questions: Sequence[str]) -> list[Times]:
    """Ask all contenders each question, so that a busy moment hits all of them.

    Their order is drawn for each question: who asks later finds the caches warm.
    """
    chance = random.Random(len(contenders))  # noqa: S311  (an order, not a secret)
    for contender in contenders:
        for question in questions[:WARM_UP]:
            contender.ask(question)
    all_times = [Times([], []) for _ in contenders]
    starved = [0] * len(contenders)
    for question in questions:
        for number in chance.sample(range(len(contenders)), len(contenders)):
            contender = contenders[number]
            with Stopwatch() as whole:
                found = contender.ask(question)
            all_times[number].cpu.append(whole.cpu)
            all_times[number].wall.append(whole.wall)
            starved[number] += found < contender.wanted
    return [
        replace(times, starved=n if contender.wanted else None)
        for times, n, contender in zip(all_times, starved, contenders, strict=True)
    ]


class Bench:
    """The measurements of one kind of record at one size."""

    def __init__(self, corpus: Corpus, questions: Sequence[str]) -> None:
        """Measure nothing yet."""
        self.corpus = corpus
        self.questions = questions
        self.rows: list[Row] = []
        self.floor: Times | None = None

    def keep(
        self, system: str, times: Times, selection: Selection | None = None, note: str = ""
    ) -> None:
        """Keep the sum of some times."""
        p50, cpu = statistics.median(times.wall), statistics.median(times.cpu)
        floor = self.floor or times
        self.rows.append(
            Row(
                records=self.corpus.total,
                kind=self.corpus.kind,
                system=system,
                selection="none" if selection is None else selection.name,
                p50=p50,
                p95=float(np.percentile(times.wall, 95)),
                cpu=cpu,
                ratio=p50 / statistics.median(floor.wall),
                cpu_ratio=cpu / statistics.median(floor.cpu),
                starved=times.starved,
                questions=len(times.wall),
                note=note,
            )
        )


def raw_indexes(folder: Path, kind: RecordsName, given: GivenEmbeddings | None) -> dict[str, Ask]:
    """Return what asks the two indexes themselves."""
    connection = sqlite3.connect(folder / "agentmem.sqlite3")
    sql = f"SELECT rowid FROM {kind}_fts WHERE {kind}_fts MATCH ? ORDER BY rank LIMIT {LIMIT}"

    def fts5(question: str) -> int:
        return len(connection.execute(sql, (parse(question).natural,)).fetchall())

    asks: dict[str, Ask] = {"raw FTS5": fts5}
    if given is not None:
        settings = Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str((folder / "chroma").resolve()), settings=settings)
        collection = next(c for c in client.list_collections() if f"-{kind}-" in c.name)

        def chroma(question: str) -> int:
            vector = [given.embed_query(question)]
            answer = collection.query(query_embeddings=vector, n_results=LIMIT, include=[])
            return len(answer["ids"][0])

        asks["raw Chroma"] = chroma
    return asks


def own_search(memory: AgentMemory, kind: RecordsName, filters: dict[str, Any]) -> Ask:
    """Return what asks a memory."""

    def ask(question: str) -> int:
        result: Any
        if kind == "messages":
            result = memory.search_conversations(question, LIMIT, **filters)
        else:
            result = memory.search_memories(question, LIMIT, **filters)
        return counted(result.total, result.notes)

    return ask


def counted(total: int, notes: Sequence[str]) -> int:
    """Return how many results an answer has.

    Raises:
        RuntimeError: Its notes tell that it is degraded: it would count as fast.
    """
    unexpected = [note for note in notes if note != NOT_ASKED]
    if unexpected:
        raise RuntimeError("; ".join(unexpected))
    return total


def by_vectors(memory: AgentMemory, ask: Ask) -> Ask:
    """Return what asks a memory as one whose SQLite has no full-text search."""

    def ask_without(question: str) -> int:
        with mock.patch.object(memory._keywords, "problem", NOT_ASKED):  # noqa: SLF001
            return ask(question)

    return ask_without


def measure_own(
    bench: Bench, folder: Path, memory: AgentMemory, given: GivenEmbeddings | None
) -> None:
    """Measure the raw indexes, and the memory over them."""
    corpus, questions = bench.corpus, bench.questions
    raw = raw_indexes(folder, corpus.kind, given)
    contenders = [Contender(name, ask) for name, ask in raw.items()]
    tool = search_tool(memory, corpus)
    with AgentMemory.open(folder, embedding="none", timeout=TIMEOUT_SECONDS) as by_keyword:
        for selection in corpus.selections():
            ask = own_search(by_keyword, corpus.kind, selection.filters)
            contenders.append(Contender(f"{OWN}, keywords alone", ask, selection))
        if given is not None:
            for selection in corpus.selections():
                ask = own_search(memory, corpus.kind, selection.filters)
                wanted = min(LIMIT, round(selection.share * corpus.total))
                alone = by_vectors(memory, ask)
                contenders.append(Contender(BY_VECTORS, alone, selection, wanted))
                contenders.append(Contender(OWN, ask, selection, wanted))
            contenders.append(Contender(THROUGH_TOOL, through(tool)))
        times = race(contenders, questions)
    both = times[: len(raw)]
    bench.floor = Times(
        [max(each) for each in zip(*(one.wall for one in both), strict=True)],
        [max(each) for each in zip(*(one.cpu for one in both), strict=True)],
    )
    bench.keep("floor", bench.floor)
    for contender, own in zip(contenders, times, strict=True):
        bench.keep(contender.system, own, contender.selection)
    if given is not None:
        bench.keep(BEYOND_SEARCH, beyond_search(memory, tool, questions))
        search = own_search(memory, corpus.kind, {})
        bench.keep(IDLE_TOOL, of_idle_tool(search, tool, questions))
        together = asyncio.run(at_once(memory, corpus.kind, questions))
        bench.keep(f"{OWN}, {AT_ONCE} at once, each", together)


def beyond_search(memory: AgentMemory, tool: BaseTool, questions: Sequence[str]) -> Times:
    """Return what a tool takes beyond the search that it calls, of each question.

    The search is timed within the call: the difference to another one would be lost in its noise.
    """
    name = "search_conversations" if tool.name == "conversation_search" else "search_memories"
    search, within, times = getattr(memory, name), Stopwatch(), Times([], [])
    ask = through(tool)

    def timed(*args: Any, **options: Any) -> Any:
        with within:
            return search(*args, **options)

    with mock.patch.object(memory, name, timed):
        for question in questions:
            with Stopwatch() as whole:
                ask(question)
            times.wall.append(whole.wall - within.wall)
            times.cpu.append(whole.cpu - within.cpu)
    return times


def of_idle_tool(search: Ask, tool: BaseTool, questions: Sequence[str]) -> Times:
    """Return what LangChain takes for a tool that does nothing, right after a search each."""
    idle = IdleTool(name="idle", description=tool.description, args_schema=tool.args_schema)
    ask, times = through(idle), Times([], [])
    for question in questions:
        search(question)  # which leaves the processor's caches as a search does
        with Stopwatch() as whole:
            ask(question)
        times.wall.append(whole.wall)
        times.cpu.append(whole.cpu)
    return times


class Stopwatch:
    """Takes wall and processor time of a block, in milliseconds."""

    wall = cpu = 0.0

    def __enter__(self) -> Self:
        """Start."""
        self._started, self._used = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.cpu = (time.process_time() - self._used) * 1000
        self.wall = (time.perf_counter() - self._started) * 1000


class IdleTool(BaseTool):
    """A tool with the arguments of a search that does not search: what LangChain itself takes."""

    response_format: str = "content_and_artifact"  # type: ignore[assignment]

    def _run(self, query: str, *, config: RunnableConfig, **filters: Any) -> tuple[str, Any]:  # noqa: ARG002
        return "", {"total": 0, "notes": []}


def search_tool(memory: AgentMemory, corpus: Corpus) -> BaseTool:
    """Return the tool that searches a memory for this kind of record."""
    tools = {tool.name: tool for tool in AgentMemoryToolkit(memory=memory).get_tools()}
    return tools["conversation_search" if corpus.kind == "messages" else "memory_search"]


def through(tool: BaseTool) -> Ask:
    """Return what calls a tool as an agent does."""

    def ask(question: str) -> int:
        arguments = {"query": question, "limit": LIMIT}
        call = ToolCall(name=tool.name, args=arguments, id="1", type="tool_call")
        artifact = tool.invoke(call).artifact
        return counted(artifact["total"], artifact["notes"])

    return ask


async def at_once(memory: AgentMemory, kind: RecordsName, questions: Sequence[str]) -> Times:
    """Ask in groups; returns the times of groups divided by their size."""
    search: Any = memory.asearch_conversations if kind == "messages" else memory.asearch_memories

    async def ask(group: Sequence[str]) -> None:
        for result in await asyncio.gather(*(search(question, LIMIT) for question in group)):
            counted(result.total, result.notes)

    await ask(questions[-AT_ONCE:])  # which opens as many connections to the database
    times = Times([], [])
    for start in range(0, len(questions), AT_ONCE):
        group = questions[start : start + AT_ONCE]
        with Stopwatch() as whole:
            await ask(group)
        times.cpu.append(whole.cpu / len(group))
        times.wall.append(whole.wall / len(group))
    return times


def measure_peers(
    bench: Bench, given: GivenEmbeddings, model: WordLlamaEmbeddings, most_for_mem0: int
) -> None:
    """Measure what else there is, unfiltered and restricted to one user where that can be done."""
    from other_peers import filtering_peers
    from peers import Item

    corpus = bench.corpus
    texts = list(corpus.texts())
    vectors = embed(model, texts)
    ids = [corpus.id(i) for i in range(corpus.total)]
    users = [f"user-{user_of(i)}" for i in range(corpus.total)]
    items = [Item(*each) for each in zip(ids, texts, vectors, users, strict=True)]
    of_user = next(s for s in corpus.selections() if s.name.startswith("user"))
    with closing(filtering_peers(items, with_mem0=corpus.total <= most_for_mem0)) as peers:
        for peer in peers:
            for selection in (None, of_user):
                user = None if selection is None else f"user-{USER}"
                foreign: list[float] = []

                def ask(
                    question: str, peer: Any = peer, user: Any = user, seen: Any = foreign
                ) -> int:
                    found = peer.search(question, given.embed_query(question), LIMIT, user)
                    if user is not None and found:
                        others = sum(users[int(id_.rpartition("-")[2])] != user for id_ in found)
                        seen.append(others / len(found))
                    return len(found)

                asked = bench.questions[:SLOW_QUESTIONS] if peer.slow else bench.questions
                (times,) = race([Contender(peer.name, ask, selection, LIMIT)], asked)
                wrong = statistics.mean(foreign) if foreign else 0.0
                note = f"{wrong:.0%} are another user's" if wrong else ""
                bench.keep(peer.name, times, selection, note)


@contextmanager
def kept_or_temporary(keep: Path | None, name: str) -> Iterator[Path]:
    """Return a folder for a memory, which is there afterwards if wanted."""
    if keep is not None:
        yield keep / name
        return
    with TemporaryDirectory(prefix="agentmem-bench-") as folder:
        yield Path(folder) / name


def measure(
    kind: RecordsName, total: int, arguments: argparse.Namespace, model: WordLlamaEmbeddings | None
) -> list[Row]:
    """Build a memory of one size, and measure."""
    corpus = Corpus(kind, arguments.datasets, total)
    chance = random.Random(total)  # noqa: S311  (a choice of questions, not a secret)
    count = min(arguments.questions, len(corpus.questions))
    bench = Bench(corpus, chance.sample(corpus.questions, count))
    given = None
    if model is not None:
        given = GivenEmbeddings()
        given.give(corpus.questions, embed(model, corpus.questions))
    name = f"{kind}-{total}{'' if model else '-keywords'}"
    with ExitStack() as stack:
        folder = stack.enter_context(kept_or_temporary(arguments.keep, name))
        there = folder.is_dir()
        memory = stack.enter_context(
            AgentMemory.open(folder, embedding=given or "none", timeout=TIMEOUT_SECONDS)
        )
        if not there:
            fill(memory, corpus, None if model is None or given is None else (given, model))
        measure_own(bench, folder, memory, given)
    if arguments.peers and given is not None and model is not None:
        measure_peers(bench, given, model, arguments.mem0_up_to)
    return bench.rows


def table(rows: Sequence[Row]) -> Table:
    """Lay the figures of one kind and size out."""
    drawn = Table(title=title(rows), title_justify="left")
    for head in HEADS:
        texts = ("system", "filter", "note")
        drawn.add_column(head, justify="left" if head in texts else "right")
    for row in rows:
        drawn.add_row(*row.cells())
    return drawn


def markdown(rows: Sequence[Row]) -> str:
    """Lay the figures of one kind and size out for a page."""
    lines = [HEADS, ["---"] * len(HEADS), *(row.cells() for row in rows)]
    return f"### {title(rows)}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def title(rows: Sequence[Row]) -> str:
    """Return what the figures of one kind and size are about."""
    return f"{rows[0].records:,} {rows[0].kind}"


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure how long a search takes.")
    parser.add_argument("--data", type=Path, required=True, help="a folder of data sets")
    parser.add_argument("--records", default="10000,100000", help="sizes, separated by commas")
    parser.add_argument("--keywords", default="", help="sizes that are measured without vectors")
    parser.add_argument("--kinds", default=",".join(KINDS), help="messages, memories or both")
    parser.add_argument("--questions", type=int, default=48, help="how many are asked")
    parser.add_argument("--peers", action="store_true", help="measure other systems as well")
    parser.add_argument("--mem0-up-to", type=int, default=10_000, help="its size at the most")
    parser.add_argument("--keep", type=Path, help="a folder to keep the memories in, and find them")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--markdown", type=Path, help="write all tables to this file")
    parser.add_argument("--plot", type=Path, help="draw latency against size in this .png")
    arguments = parser.parse_args()
    try:
        arguments.records = [int(size) for size in arguments.records.split(",") if size]
        arguments.keywords = [int(size) for size in arguments.keywords.split(",") if size]
    except ValueError:
        parser.error("--records and --keywords take whole numbers, separated by commas")
    arguments.kinds = arguments.kinds.split(",")
    if not set(arguments.kinds) <= set(KINDS):
        parser.error(f"--kinds must be of {', '.join(KINDS)}")
    return arguments


def main() -> None:
    """Measure, print, and write the figures."""
    arguments = parse_arguments()
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, 150))
    try:
        arguments.datasets = read_datasets(arguments.data)
    except OSError as error:
        sys.exit(f"latency.py: {error}")
    model = WordLlamaEmbeddings() if arguments.records else None
    rows: list[Row] = []
    tables: list[str] = []
    for sizes, used in ((arguments.records, model), (arguments.keywords, None)):
        for total in sizes:
            for kind in arguments.kinds:
                with console.status(f"{total:,} {kind}"):
                    found = measure(kind, total, arguments, used)
                console.print(table(found))
                rows += found
                tables.append(markdown(found))
                if arguments.json:
                    written = json.dumps([asdict(row) for row in rows], indent=1)
                    arguments.json.write_text(f"{written}\n", encoding="utf-8")
                if arguments.markdown:
                    arguments.markdown.write_text("\n".join(tables), encoding="utf-8")
    if arguments.plot:
        from plot import plot_latency

        plot_latency(rows, file=arguments.plot)


if __name__ == "__main__":
    main()
