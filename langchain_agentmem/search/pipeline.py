"""The search pipeline: ask both indexes at once, fuse their lists, read the records back once.

The sync and the async search differ only in how they wait; what is decided is decided in shared
methods. A branch that fails or is too slow counts as empty and leaves a note.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, TypeVar

from langchain_agentmem.errors import EmbeddingError, describe
from langchain_agentmem.quoting import as_json, quote
from langchain_agentmem.results import Hit, SearchResult, Strategy
from langchain_agentmem.search.fusion import Fused, fuse
from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.search.vector_search import VectorSearch
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import Condition
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.vector_index import Vectors
from langchain_agentmem.storage.vectors import VectorHalf

logger = logging.getLogger(__name__)

CONFIGURE_EMBEDDING = (
    "Memory search is not available: there is neither an embedding nor a keyword index. Configure "
    "an embedding provider (e.g. openai_compatible) in the embedding.provider setting."
)
_WORKERS = 16
_VALUES_NAMED = 12
T = TypeVar("T")
HitT = TypeVar("HitT", bound=Hit)


@dataclass(frozen=True, slots=True)
class Branch:
    """What one index answered: ids with scores, best first, or a note why it did not."""

    ranking: list[tuple[str, float]] = field(default_factory=list)
    note: str | None = None
    vector: Vectors | None = None
    """The query's vector, from the vector branch."""


class SearchPipeline:
    """Runs searches over one memory.

    Args:
        store: The records.
        keywords: The keyword index.
        vectors: Embedding model and vector index, or why there are none.
        timeout: Seconds that a branch may take.
    """

    def __init__(
        self,
        store: RecordStore,
        keywords: KeywordIndex,
        vectors: VectorHalf,
        *,
        timeout: float,
    ) -> None:
        """Start with idle workers.

        Raises:
            ValueError: `timeout` is no positive number.
        """
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            msg = f"timeout must be a number of seconds above 0, not {timeout!r}"
            raise ValueError(msg)
        self._store = store
        self._keywords = keywords
        self._vectors = vectors
        self._embedder = vectors.embedder
        self._nearest = VectorSearch(store, vectors.index) if vectors.index else None
        self._timeout = timeout
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="agentmem")

    @property
    def strategy(self) -> Strategy:
        """The best strategy that a search can have."""
        if self._nearest is None:
            return "none" if self._keywords.problem else "fts"
        return "embedding" if self._keywords.problem else "hybrid"

    def search(self, request: SearchRequest[HitT]) -> SearchResult[HitT]:
        """Search, waiting in this thread."""
        early = self._answer_without_search(request)
        if early is not None:
            return early
        started = time.monotonic()
        future = self._workers.submit(self._vector_branch, request) if self._nearest else None
        keyword = self._keyword_branch(request, started)
        vector = self._wait(future, started) if future else self._no_vectors()
        return self._finish(request, keyword, vector)

    async def asearch(self, request: SearchRequest[HitT]) -> SearchResult[HitT]:
        """Search without blocking the event loop."""
        early = self._answer_without_search(request)
        if early is not None:
            return early
        keyword, vector = await asyncio.gather(
            self._in_worker(self._keyword_branch, request, time.monotonic()),
            self._await_vectors(request),
        )
        return await self._in_worker(self._finish, request, keyword, vector)

    def close(self) -> None:
        """Let the workers go; running ones end by themselves."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    # --- decisions, shared by sync and async ---

    def _answer_without_search(self, request: SearchRequest[HitT]) -> SearchResult[HitT] | None:
        self._store.check_open()
        if self.strategy == "none":
            return SearchResult([], "none", message=CONFIGURE_EMBEDDING, notes=self._problems())
        if not request.query.strip():
            return SearchResult([], "none", notes=["the query is blank"])
        if request.visibility.denied is not None:
            return SearchResult([], "none", notes=[request.visibility.denied])
        return None

    def _keyword_branch(self, request: SearchRequest[HitT], started: float) -> Branch:
        if self._keywords.problem:
            return Branch(note=self._keywords.problem)
        try:
            ranking = self._keywords.search(
                request.kind,
                request.query,
                request.condition,
                request.candidates,
                deadline=started + self._timeout,
            )
        except Exception as error:  # noqa: BLE001  (the other branch answers)
            return _failed(f"keyword search failed: {describe(error)}")
        return Branch(ranking)

    def _vector_branch(self, request: SearchRequest[HitT]) -> Branch:
        assert self._embedder is not None  # noqa: S101  (vectors come with an embedder)
        try:
            vector = self._embedder.embed_query(request.query)
        except EmbeddingError as error:
            return _failed(_by_keywords(error))
        return self._search_vectors(request, vector)

    def _search_vectors(self, request: SearchRequest[HitT], vector: Vectors) -> Branch:
        assert self._nearest is not None  # noqa: S101
        try:
            return Branch(self._nearest.search(request, vector), vector=vector)
        except Exception as error:  # noqa: BLE001  (the other branch answers)
            return _failed(f"vector search failed: {describe(error)}")

    def _too_slow(self) -> Branch:
        if self._embedder is not None:
            self._embedder.give_up_query(self._timeout)
        return _failed(f"vector search took longer than {self._timeout:g} s and was left out")

    def _no_vectors(self) -> Branch:
        return Branch(note=self._vectors.problem)

    def _finish(
        self, request: SearchRequest[HitT], keyword: Branch, vector: Branch
    ) -> SearchResult[HitT]:
        notes = [note for note in (keyword.note, vector.note, self._vectors.backlog()) if note]
        similarity = dict(vector.ranking)
        if request.min_similarity is not None:
            keyword, vector, note = self._drop_dissimilar(request, keyword, vector, similarity)
            notes += [note] if note else []
        places, strategy = self._merge(keyword, vector)
        # The one place where the condition is enforced, for whatever the branches sent.
        rows = self._store.fetch(request.kind, [place.id for place in places], request.condition)
        hits = [
            request.kind.to_hit(
                rows[place.id],
                score=place.score,
                keyword_rank=place.keyword_rank,
                vector_rank=place.vector_rank,
                similarity=similarity.get(place.id),
            )
            for place in places
            if place.id in rows
        ][: request.limit]
        message = None if hits else self._advice(request)
        return SearchResult(hits, strategy, message=message, notes=notes)

    def _merge(self, keyword: Branch, vector: Branch) -> tuple[list[Fused], Strategy]:
        if keyword.ranking and vector.ranking:
            weight = self._embedder.weight if self._embedder else 1.0
            fused = fuse(
                [id_ for id_, _ in keyword.ranking],
                [id_ for id_, _ in vector.ranking],
                vector_weight=weight,
            )
            return fused, "hybrid"
        if vector.ranking:
            alone = [
                Fused(id_, max(0.0, similarity), None, rank)
                for rank, (id_, similarity) in enumerate(vector.ranking, start=1)
            ]
            return alone, "embedding"
        alone = [
            Fused(id_, score, rank, None)
            for rank, (id_, score) in enumerate(keyword.ranking, start=1)
        ]
        if alone:
            return alone, "fts"
        return [], "embedding" if self._nearest is not None else "fts"

    def _drop_dissimilar(
        self,
        request: SearchRequest[HitT],
        keyword: Branch,
        vector: Branch,
        similarity: dict[str, float],
    ) -> tuple[Branch, Branch, str | None]:
        """Drop candidates of both lists whose cosine is below the minimum.

        A keyword hit without a vector is kept: nothing speaks against it.
        """
        minimum = request.min_similarity or 0.0
        note = None
        if vector.vector is None or self._nearest is None:
            return keyword, vector, "min_similarity could not be applied without vectors"
        unknown = [id_ for id_, _ in keyword.ranking if id_ not in similarity]
        try:
            if unknown:
                similarity.update(self._nearest.similarities(request, vector.vector, unknown))
        except Exception as error:  # noqa: BLE001  (the keyword hits remain)
            note = f"min_similarity could not be applied to all results: {describe(error)}"

        def keep(branch: Branch) -> Branch:
            kept = [item for item in branch.ranking if similarity.get(item[0], 1.0) >= minimum]
            return Branch(kept, branch.note, branch.vector)

        return keep(keyword), keep(vector), note

    def _advice(self, request: SearchRequest[HitT]) -> str | None:
        """Tell why nothing was found, where it is not the query's fault."""
        kind = request.kind
        everything = kind.where({}, request.visibility, whole=True)
        if not self._store.ids(kind, everything, limit=1):
            return f"There are no {kind.name} yet: nothing has been saved that could be found."
        for name, value in request.filters.items():
            facet = kind.filters[name].facet
            if facet is None or self._store.ids(
                kind, kind.where({name: value}, request.visibility, whole=True), limit=1
            ):
                continue
            return self._name_values(request, name, facet, everything)
        return None

    def _name_values(
        self, request: SearchRequest[HitT], name: str, facet: str, everything: Condition
    ) -> str:
        kind, asked = request.kind, request.filters[name]
        values = self._store.values(kind, facet, everything, _VALUES_NAMED + 1)
        if not values:
            return f"No {kind.singular} has any {name}; search without it."
        named = [quote(value, separator=",") for value in values[:_VALUES_NAMED]]
        listed = f"{', '.join(named)}{', ...' if len(values) > _VALUES_NAMED else ''}"
        shown = as_json(asked)
        return f"No {kind.singular} has {name} {shown}. There are: {listed}."

    def _problems(self) -> list[str]:
        return [note for note in (self._keywords.problem, self._vectors.problem) if note]

    # --- waiting, sync and async ---

    def _wait(self, future: "Future[Branch]", started: float) -> Branch:
        try:
            return future.result(max(0.0, started + self._timeout - time.monotonic()))
        except FutureTimeoutError:
            future.cancel()
            return self._too_slow()

    async def _await_vectors(self, request: SearchRequest[HitT]) -> Branch:
        if self._nearest is None or self._embedder is None:
            return self._no_vectors()

        async def branch(embed: Callable[[str], Awaitable[Vectors]]) -> Branch:
            try:
                vector = await embed(request.query)
            except EmbeddingError as error:
                return _failed(_by_keywords(error))
            return await self._in_worker(self._search_vectors, request, vector)

        try:
            return await asyncio.wait_for(branch(self._embedder.aembed_query), self._timeout)
        except TimeoutError:
            return self._too_slow()

    async def _in_worker(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, function, *arguments)


def _failed(note: str) -> Branch:
    logger.warning("%s", note)
    return Branch(note=note)


def _by_keywords(error: EmbeddingError) -> str:
    return f"answered by keywords alone: {error}"
