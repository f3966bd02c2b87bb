"""What do filters cost where they are hardest?

    python benchmarks/hard_filters.py --data ../shared/data/locomo --records 100000

Two memories that the corpus of `latency.py` has nothing of. In one each of ten users talks of
things of their own, so that all of a user's memories lie far from a question about another's;
beside it raw Chroma answers the same under its `where`. In the other each memory names two messages
that it was distilled from, which are searched with it. Times are milliseconds; starved counts
answers with fewer results than there could be.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import chromadb
import numpy as np
from corpus import USERS, Corpus, GivenEmbeddings, Selection, Vectors, user_of
from datasets import Dataset, read_datasets
from latency import BATCH, LIMIT, OWN, TIMEOUT_SECONDS, Bench, Contender, fill, own_search, race
from rich.console import Console
from rich.table import Table
from throughput import COSINE, SETTINGS

from langchain_agentmem import AgentMemory

DIMENSION = 256
OWN_PART = 0.6
"""The cosine of a memory to what its user talks of."""
OWNER, OTHER = 1, 2
QUESTIONS = 48
HEADS = ("system", "filter", "p50 ms", "p95 ms", "starved")


def topical(topics: Sequence[int], seed: int) -> Vectors:
    """Return vectors that lie around the centres of topics, (n, dim) float32."""
    centres = _directions(USERS, 0)[list(topics)]
    aside = _directions(len(topics), seed)
    mixed = OWN_PART * centres + np.sqrt(1 - OWN_PART**2) * aside
    return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), dtype=np.float32)


def _directions(number: int, seed: int) -> Vectors:
    drawn = np.random.default_rng(seed).normal(size=(number, DIMENSION))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


def far_away(corpus: Corpus, folder: Path) -> Bench:
    """Measure users who talk of things of their own."""
    owner: dict[str, Any] = {"config": {"configurable": {"user_id": f"user-{OWNER}"}}}
    topics = [user_of(i) for i in range(corpus.total)]
    texts, vectors = list(corpus.texts()), topical(topics, 1)
    # Of words that no memory holds, so that the vectors alone answer.
    own, others = ([f"{word}{i}" for i in range(QUESTIONS)] for word in ("qown", "qother"))
    given = GivenEmbeddings()
    given.give(texts, vectors)
    given.give(own, topical([OWNER] * QUESTIONS, 2))
    given.give(others, topical([OTHER] * QUESTIONS, 3))
    client = chromadb.PersistentClient(str(folder / "raw"), settings=SETTINGS)
    raw = client.create_collection("raw", configuration=COSINE, embedding_function=None)
    for start in range(0, corpus.total, BATCH):
        part = slice(start, min(corpus.total, start + BATCH))
        raw.add(
            ids=[corpus.id(i) for i in range(corpus.total)[part]],
            embeddings=list(vectors[part]),
            metadatas=[{"user": topic} for topic in topics[part]],
        )
    with AgentMemory.open(folder / "far", embedding=given, timeout=TIMEOUT_SECONDS) as memory:
        fill(memory, corpus, None)

        def chroma(question: str) -> int:
            answer = raw.query(
                query_embeddings=[given.embed_query(question)],
                n_results=LIMIT,
                where={"user": OWNER},
                include=[],
            )
            return len(answer["ids"][0])

        bench = Bench(corpus, own)
        search, filtered = own_search(memory, "memories", {}), own_search(memory, "memories", owner)
        for name, asked in (("own topic", own), ("another's topic", others)):
            user = Selection(f"user 10 %, {name}", 0.1, owner)
            contenders = [
                Contender(OWN, search, wanted=LIMIT),
                Contender(OWN, filtered, user, LIMIT),
            ]
            # Apart, as it leaves nothing in the processor's caches.
            peer = Contender("raw Chroma, where", chroma, user, LIMIT)
            all_times = [*race(contenders, asked), *race([peer], asked)]
            for contender, times in zip([*contenders, peer], all_times, strict=True):
                bench.keep(contender.system, times, contender.selection)
    return bench


class Distilled(Corpus):
    """Memories that name two messages each."""

    def records(self, texts: Sequence[str], start: int) -> list[Any]:
        """Make them as ever, and have them name the messages."""
        records = super().records(texts, start)
        for i, record in enumerate(records, start):
            both = [f"messages-{i}", f"messages-{(i * 7 + 3) % self.total}"]
            record.metadata["source_message_ids"] = both
        return records


def with_sources(datasets: Sequence[Dataset], total: int, folder: Path) -> Bench:
    """Measure memories that name what they were distilled from; keywords alone."""
    said, corpus = Corpus("messages", datasets, total), Distilled("memories", datasets, total)
    with AgentMemory.open(folder / "told", embedding="none", timeout=TIMEOUT_SECONDS) as memory:
        fill(memory, said, None)
        fill(memory, corpus, None)
        questions = corpus.questions[:: max(1, len(corpus.questions) // QUESTIONS)][:QUESTIONS]
        bench = Bench(corpus, questions)
        contenders = [
            Contender(f"{OWN}, keywords alone", own_search(memory, "memories", each.filters), each)
            for each in corpus.selections()
        ]
        for contender, times in zip(contenders, race(contenders, questions), strict=True):
            bench.keep(contender.system, times, contender.selection)
    return bench


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="Measure what hard filters cost.")
    parser.add_argument("--data", type=Path, required=True, help="a folder of data sets")
    parser.add_argument("--records", type=int, default=20_000, help="how many memories")
    arguments = parser.parse_args()
    try:
        datasets = read_datasets(arguments.data)
    except OSError as error:
        sys.exit(f"hard_filters.py: {error}")
    corpus = Corpus("memories", datasets, arguments.records)
    with TemporaryDirectory() as folder:
        found = {
            "Users who talk of things of their own": far_away(corpus, Path(folder)),
            "Memories that name two messages each": with_sources(
                datasets, corpus.total, Path(folder)
            ),
        }
    for title, bench in found.items():
        table = Table(*HEADS, title=f"{title}: {corpus.total:,} memories", title_justify="left")
        for row in bench.rows:
            starved = "" if row.starved is None else f"{row.starved} of {row.questions}"
            table.add_row(row.system, row.selection, f"{row.p50:,.2f}", f"{row.p95:,.2f}", starved)
        Console(width=120).print(table)


if __name__ == "__main__":
    main()
