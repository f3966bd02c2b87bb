"""A memory filled with a data set, and the systems that are asked its questions."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from datasets import Dataset, RecordsName, Task
from outcomes import Outcome
from vector_cache import CachingEmbeddings

from langchain_agentmem import AgentMemory, SearchResult
from langchain_agentmem.embeddings.embedder import Embedder

SEARCH_TIMEOUT_SECONDS = 60.0  # a busy machine must not turn a hybrid search into a keyword search

Search = Callable[[str], list[str]]
"""From a query to the ids that were found, best first."""


class DegradedError(Exception):
    """`AgentMemory` did not work as it should, so that its figures would mislead."""


@dataclass(frozen=True)
class World:
    """A memory that holds a data set, all of it there to be searched."""

    dataset: Dataset
    memory: AgentMemory
    embedder: Embedder | None
    """What the memory embeds with; None where it has keywords alone."""


@contextmanager
def filled_world(dataset: Dataset, model: CachingEmbeddings | None) -> Iterator[World]:
    """Open a fresh memory in a temporary folder, and import the records of a data set.

    Raises:
        DegradedError: Not all of it is there to be searched.
    """
    embedder = None
    if model is not None:
        for task in dataset.tasks:
            model.prepare([*task.texts.values(), *(asked.text for asked in task.questions)])
        model.save()
        embedder = Embedder(
            model, name=model.model, identity=model.model, weight=model.weight, fusion=model.fusion
        )
    with (
        TemporaryDirectory(prefix="agentmem-bench-") as folder,
        AgentMemory.open(
            folder, embedding=embedder or "none", timeout=SEARCH_TIMEOUT_SECONDS
        ) as memory,
    ):
        memory.add_messages(None, dataset.messages)
        memory.add_memories(dataset.memories)
        memory.sync()
        status = memory.status()
        expected = (len(dataset.messages), len(dataset.memories), "hybrid" if model else "fts")
        if (status.messages, status.memories, status.strategy) != expected or status.problems:
            msg = f"{dataset.name} was not imported whole: {status}"
            raise DegradedError(msg)
        yield World(dataset, memory, embedder)


def ask(dataset: str, task: Task, system: str, search: Search) -> Iterator[Outcome]:
    """Time a system's answer to each question."""
    for question in task.questions:
        started = time.perf_counter()
        found = search(question.text)
        ms = (time.perf_counter() - started) * 1000
        yield Outcome(
            dataset=dataset,
            system=system,
            records=task.records,
            question=question.number,
            category=question.category,
            gold=sorted(question.gold),
            found=found,
            ms=ms,
        )


def ask_memory(world: World, system: str, limit: int, **options: float) -> Iterator[Outcome]:
    """Ask a memory every question, with further arguments of its searches."""
    for task in world.dataset.tasks:
        search = own_search(world.memory, task.records, limit, **options)
        yield from ask(world.dataset.name, task, system, search)


def ask_peers(dataset: Dataset, model: CachingEmbeddings, limit: int) -> Iterator[Outcome]:
    """Ask the peers every question."""
    for task in dataset.tasks:
        with peer_searches(task, model, limit) as searches:
            for name, search in searches.items():
                yield from ask(dataset.name, task, name, search)


def own_search(memory: AgentMemory, records: RecordsName, limit: int, **options: Any) -> Search:
    """Return the public search of a memory for this kind of record."""

    def search(query: str) -> list[str]:
        result: SearchResult[Any]
        if records == "messages":
            result = memory.search_conversations(query, limit=limit, **options)
        else:
            result = memory.search_memories(query, limit=limit, **options)
        if result.notes:
            raise DegradedError("; ".join(result.notes))
        return [hit.id for hit in result.results]

    return search


@contextmanager
def peer_searches(task: Task, model: CachingEmbeddings, limit: int) -> Iterator[dict[str, Search]]:
    """Build the peers from the texts of a task, and return their searches by name."""
    from other_peers import build_other_peers
    from peers import Item, Peer, build_peers  # needs the extra `bench`

    def search_of(peer: Peer) -> Search:
        return lambda query: peer.search(query, model.vector(query), limit)

    items = [Item(id_, text, model.vector(text)) for id_, text in task.texts.items()]
    with ExitStack() as stack:
        built = [*build_peers(items), *build_other_peers(items)]
        peers = [stack.enter_context(closing(peer)) for peer in built]
        yield {peer.name: search_of(peer) for peer in peers}
