"""The search pipeline: ask both indexes at once, fuse their lists, read the records back once.

The sync and the async search differ only in how they wait; what is decided is decided in shared
methods. A branch that fails or is too slow counts as empty and leaves a note.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from langchain_agentmem.errors import EmbeddingError, describe
from langchain_agentmem.records import to_epoch_us, utc_now
from langchain_agentmem.results import ContextMessage, Hit, SearchResult, Strategy
from langchain_agentmem.search.advice import advise, note_of_range
from langchain_agentmem.search.fusion import FUSIONS, Fused, Ranking
from langchain_agentmem.search.plan import Plan
from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.search.rerank import (
    DIVERSIFIED,
    age_keywords,
    age_vectors,
    diversify,
    recency_factor,
)
from langchain_agentmem.search.vector_search import VectorSearch
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import Condition
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.vector_index import Vectors
from langchain_agentmem.storage.vectors import VectorHalf
from langchain_agentmem.workers import Workers

logger = logging.getLogger(__name__)

CONFIGURE_EMBEDDING = (
    "Memory search is not available: there is neither an embedding nor a keyword index. Configure "
    "an embedding provider (e.g. openai_compatible) in the embedding.provider setting."
)
_WORKERS = 16
_SPARE = 10
T = TypeVar("T")
HitT = TypeVar("HitT", bound=Hit)


@dataclass(frozen=True, slots=True)
class Branch:
    """What one index answered: ids with scores, best first, or a note why it did not."""

    ranking: Ranking = field(default_factory=list)
    note: str | None = None
    vector: Vectors | None = None
    """The query's vector, from the vector branch."""
    similarity: dict[str, float] = field(default_factory=dict)
    """The cosine of each id to the query, from the vector branch."""
    excluded: Condition | None = None
    """What the query excludes, from the keyword branch."""
    sources: dict[str, str] = field(default_factory=dict)
    """By id, the source through which a record matches too, from the keyword branch."""


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
        self._timeout = timeout
        # Of their own, so that a model that hangs holds up nothing else.
        self._vector_workers = Workers(_WORKERS, "agentmem-vectors")
        self._workers = Workers(_WORKERS, "agentmem")

    @property
    def _nearest(self) -> VectorSearch | None:
        index = self._vectors.index
        copies = self._vectors.copies
        if index is None or copies is None:
            return None
        return VectorSearch(self._store, index, copies)

    @property
    def strategy(self) -> Strategy:
        """The best strategy that a search can have."""
        if self._nearest is None:
            return "none" if self._keywords.problem else "fts"
        return "embedding" if self._keywords.problem else "hybrid"

    def search(self, request: SearchRequest[HitT]) -> SearchResult[HitT]:
        """Search, waiting in this thread."""
        early = self._begin(request)
        if early is not None:
            return early
        started = time.monotonic()
        plan = Plan(self._store, request)
        nearest = self._nearest
        future = None
        if nearest is not None:
            future = self._submit(self._vector_workers, self._vector_branch, request, plan, nearest)
        keyword = self._keyword_branch(request, plan)
        vector = self._wait(future, started) if future else self._no_vectors()
        return self._finish(request, plan, keyword, vector)

    async def asearch(self, request: SearchRequest[HitT]) -> SearchResult[HitT]:
        """Search without blocking the event loop."""
        early = self._begin(request)
        if early is not None:
            return early
        plan = Plan(self._store, request)
        keyword, vector = await asyncio.gather(
            self._in(self._workers, self._keyword_branch, request, plan),
            self._await_vectors(request, plan),
        )
        return await self._in(self._workers, self._finish, request, plan, keyword, vector)

    def close(self) -> None:
        """Let the workers go; running ones end by themselves.

        What still waits for a worker finds the memory closed: cancelling it would look to an
        async search like the cancellation of its own task.
        """
        for workers in (self._vector_workers, self._workers):
            workers.close()

    # --- decisions, shared by sync and async ---

    def _begin(self, request: SearchRequest[HitT]) -> SearchResult[HitT] | None:
        """Return an answer that needs no search, or None; set waiting work going."""
        self._store.check_usable()
        if self._vectors.have_work:
            self._submit(self._vector_workers, self._vectors.level_a_little)
        if self.strategy == "none":
            return SearchResult([], "none", message=CONFIGURE_EMBEDDING, notes=self._problems())
        if not request.query.strip():
            return SearchResult([], "none", notes=["the query is blank"])
        if request.visibility.denied is not None:
            return SearchResult([], "none", notes=[request.visibility.denied])
        return None

    def _keyword_branch(self, request: SearchRequest[HitT], plan: Plan) -> Branch:
        if self._keywords.problem:
            return Branch(note=self._keywords.problem)
        try:
            found = self._keywords.search(
                request.kind,
                request.query,
                request.condition,
                request.candidates,
                deadline=time.monotonic() + self._timeout,
                source_condition=request.source_condition,
                selection=plan.selection,
            )
        except Exception as error:  # noqa: BLE001  (the other branch answers)
            return _failed(f"keyword search failed: {describe(error)}")
        plan.steps.append(f"keywords: {found.method}")
        return Branch(found.ranking, excluded=found.excluded, sources=found.sources)

    def _vector_branch(
        self, request: SearchRequest[HitT], plan: Plan, nearest: VectorSearch
    ) -> Branch:
        assert self._embedder is not None  # noqa: S101  (vectors come with an embedder)
        self._store.check_usable()
        try:
            vector = self._embedder.embed_query(request.query)
        except EmbeddingError as error:
            return _failed(f"answered by keywords alone: {error}")
        try:
            found = nearest.search(request, vector, plan.selection)
        except Exception as error:  # noqa: BLE001  (the other branch answers)
            # Perhaps it was the vector that is wrong: it is not to be used again.
            self._embedder.forget(request.query)
            return _failed(f"vector search failed: {describe(error)}")
        plan.steps.append(f"vectors: {found.method}")
        return Branch(found.ranking, vector=vector, similarity=found.similarity)

    def _too_slow(self) -> Branch:
        if self._embedder is not None:
            self._embedder.give_up_query(self._timeout)
        return _failed(f"vector search took longer than {self._timeout:g} s and was left out")

    def _no_vectors(self) -> Branch:
        return Branch(note=self._vectors.problem)

    def _finish(
        self, request: SearchRequest[HitT], plan: Plan, keyword: Branch, vector: Branch
    ) -> SearchResult[HitT]:
        backlog = self._vectors.backlog(request.visibility)
        range_note = note_of_range(request)
        notes = [note for note in (keyword.note, vector.note, backlog, range_note) if note]
        similarity = vector.similarity
        if request.min_similarity is not None:
            keyword, vector, note = self._drop_dissimilar(request, keyword, vector, similarity)
            notes += [note] if note else []
        # The one place where the condition is enforced, for whatever the branches sent.
        condition = request.condition.and_also(keyword.excluded)
        rows: dict[str, Any] = {}
        factors: dict[str, float] = {}
        if request.half_life_days is not None:
            candidates = dict.fromkeys(id_ for id_, _ in (*keyword.ranking, *vector.ranking))
            rows = self._store.fetch(request.kind, list(candidates), condition)
            factors = _recency(request, rows)
            keyword = replace(keyword, ranking=age_keywords(keyword.ranking, factors))
            vector = replace(vector, ranking=age_vectors(vector.ranking, factors))
        places, strategy = self._merge(keyword, vector)
        if request.half_life_days is None:
            rows = self._read(request, [place.id for place in places], condition)
        places = [place for place in places if place.id in rows]
        if request.diversity:
            places, note = self._diversify(request, places)
            notes += [note] if note else []
        shown = places[: request.limit]
        around = self._context(request, [place.id for place in shown])
        hits = [
            request.kind.to_hit(
                rows[place.id],
                score=place.score,
                keyword_rank=place.keyword_rank,
                vector_rank=place.vector_rank,
                similarity=similarity.get(place.id),
                keyword_part=place.keyword_part,
                vector_part=place.vector_part,
                recency=factors.get(place.id),
                **({"source": keyword.sources[place.id]} if place.id in keyword.sources else {}),
                **around.get(place.id, {}),
            )
            for place in shown
        ]
        message = None if hits else advise(self._store, request)
        return SearchResult(
            hits,
            strategy,
            message=message,
            notes=notes,
            query=request.query,
            plan=plan.steps if request.explain else [],
        )

    def _read(
        self, request: SearchRequest[HitT], ids: list[str], condition: Condition
    ) -> dict[str, Any]:
        """Read as many of the records, best first, as an answer takes."""
        wanted = max(request.limit, DIVERSIFIED if request.diversity else 0)
        # Once, as a rule: the branches have heeded the condition already.
        head = ids[: wanted + _SPARE]
        rows = self._store.fetch(request.kind, head, condition)
        if len(rows) < wanted and len(head) < len(ids):
            rows |= self._store.fetch(request.kind, ids[len(head) :], condition)
        return rows

    def _diversify(
        self, request: SearchRequest[HitT], places: list[Fused]
    ) -> tuple[list[Fused], str | None]:
        nearest = self._nearest
        if nearest is None:
            return places, "diversity could not be applied without vectors"
        try:
            vectors = nearest.vectors(request, [place.id for place in places[:DIVERSIFIED]])
        except Exception as error:  # noqa: BLE001  (the results remain)
            return places, f"diversity could not be applied: {describe(error)}"
        return diversify(places, vectors, request.diversity or 0.0, request.limit), None

    def _context(self, request: SearchRequest[HitT], ids: list[str]) -> dict[str, dict[str, Any]]:
        """Return what stands before and after each result, where that is asked for."""
        kind = request.kind
        if not request.context or kind.context is None:
            return {}
        around = self._store.conversation(kind, ids, request.context)
        wanted = {each for sides in around.values() for side in sides for each in side}
        # Neighbours need not match the filters, but the turn must be allowed to see them.
        rows = self._store.fetch(kind, list(wanted), kind.where({}, request.visibility))

        def messages(side: list[str]) -> list[ContextMessage]:
            fields = ("id", "role", "name", "content", "recorded_at")
            hits = (kind.to_hit(rows[each], score=0.0) for each in side if each in rows)
            return [ContextMessage(**{name: getattr(hit, name) for name in fields}) for hit in hits]

        return {
            id_: {"before": messages(before), "after": messages(after)}
            for id_, (before, after) in around.items()
        }

    def _merge(self, keyword: Branch, vector: Branch) -> tuple[list[Fused], Strategy]:
        if keyword.ranking and vector.ranking:
            assert self._embedder is not None  # noqa: S101  (there are vectors)
            fuse = FUSIONS[self._embedder.fusion]
            weight = self._embedder.weight
            return fuse(keyword.ranking, vector.ranking, vector_weight=weight), "hybrid"
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
        return [], "embedding" if vector.vector is not None else "fts"

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
        nearest = self._nearest
        if vector.vector is None or nearest is None:
            return keyword, vector, "min_similarity could not be applied without vectors"
        unknown = [id_ for id_, _ in keyword.ranking if id_ not in similarity]
        try:
            if unknown:
                similarity.update(nearest.similarities(request, vector.vector, unknown))
        except Exception as error:  # noqa: BLE001  (the keyword hits remain)
            note = f"min_similarity could not be applied to all results: {describe(error)}"

        def keep(branch: Branch) -> Branch:
            kept = [item for item in branch.ranking if similarity.get(item[0], 1.0) >= minimum]
            return replace(branch, ranking=kept)

        return keep(keyword), keep(vector), note

    def _problems(self) -> list[str]:
        return [note for note in (self._keywords.problem, self._vectors.problem) if note]

    # --- waiting, sync and async ---

    def _wait(self, future: "Future[Branch]", started: float) -> Branch:
        try:
            return future.result(max(0.0, started + self._timeout - time.monotonic()))
        except FutureTimeoutError:
            future.cancel()
            return self._too_slow()

    async def _await_vectors(self, request: SearchRequest[HitT], plan: Plan) -> Branch:
        nearest = self._nearest
        if nearest is None:
            return self._no_vectors()
        # The model is asked in a thread: an async client of one event loop fails in the next.
        branch = self._in(self._vector_workers, self._vector_branch, request, plan, nearest)
        try:
            return await asyncio.wait_for(branch, self._timeout)
        except TimeoutError:
            return self._too_slow()

    async def _in(self, workers: Workers, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.wrap_future(self._submit(workers, function, *arguments))

    def _submit(self, workers: Workers, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        try:
            return workers.submit(function, *arguments)
        except RuntimeError:
            self._store.check_usable()  # closed since the search began, which is said more clearly
            raise


def _recency(request: SearchRequest[Any], rows: Mapping[str, Any]) -> dict[str, float]:
    """Return the factor of each record's age, where age counts."""
    half_life = request.half_life_days
    if half_life is None:
        return {}
    now, day = to_epoch_us(utc_now()), 86_400e6
    kind = request.kind
    return {
        id_: recency_factor((now - kind.last_changed(row)) / day, half_life)
        for id_, row in rows.items()
        if not kind.timeless(row)
    }


def _failed(note: str) -> Branch:
    logger.warning("%s", note)
    return Branch(note=note)
