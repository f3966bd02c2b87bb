"""The search pipeline: ask both indexes at once, fuse their lists, read the records back once.

The sync and the async search differ only in how they wait; what is decided is decided in shared
methods.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from langchain_agentmem.arguments import seconds
from langchain_agentmem.records import to_epoch_us, utc_now
from langchain_agentmem.results import ContextMessage, Hit, SearchResult, Strategy
from langchain_agentmem.search.advice import advise, note_of_range
from langchain_agentmem.search.branches import WORKERS, Branch, VectorBranch, ask_keywords, submit
from langchain_agentmem.search.fusion import FUSIONS, Fused
from langchain_agentmem.search.plan import Plan
from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.search.rerank import (
    DIVERSIFIED,
    age_keywords,
    age_vectors,
    recency_factor,
)
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import Condition
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.vectors import VectorHalf
from langchain_agentmem.workers import Workers

CONFIGURE_EMBEDDING = (
    "Search is not available: there is neither an embedding nor a keyword index. Configure an "
    "embedding provider (e.g. openai_compatible) in the embedding.provider setting."
)
_SPARE = 10
T = TypeVar("T")
HitT = TypeVar("HitT", bound=Hit)


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
        self._store = store
        self._keywords = keywords
        self._vectors = vectors
        self._timeout = seconds("timeout", timeout)
        self._branch = VectorBranch(store, vectors, self._timeout)
        self._workers = Workers(WORKERS, "agentmem")

    @property
    def strategy(self) -> Strategy:
        """The best strategy that a search can have."""
        if not self._branch.available:
            return "none" if self._keywords.problem else "fts"
        return "embedding" if self._keywords.problem else "hybrid"

    def search(self, request: SearchRequest[HitT]) -> SearchResult[HitT]:
        """Search, waiting in this thread."""
        early = self._early_answer(request)
        self._branch.set_work_going()
        if early is not None:
            return early
        plan = Plan(self._store, request)
        asked = self._branch.ask(request, plan)
        keyword = ask_keywords(self._keywords, request, plan, self._timeout)
        return self._finish(request, plan, keyword, self._branch.wait(asked))

    async def asearch(self, request: SearchRequest[HitT]) -> SearchResult[HitT]:
        """Search without blocking the event loop."""
        early = self._early_answer(request)
        submit(self._workers, self._store, self._branch.set_work_going)  # it reads the database
        if early is not None:
            return early
        plan = Plan(self._store, request)
        keyword, vector = await asyncio.gather(
            self._in_worker(ask_keywords, self._keywords, request, plan, self._timeout),
            self._branch.await_answer(self._branch.ask(request, plan)),
        )
        return await self._in_worker(self._finish, request, plan, keyword, vector)

    def close(self) -> None:
        """Let the workers go; running ones end by themselves.

        What still waits for a worker finds the memory closed: cancelling it would look to an
        async search like the cancellation of its own task.
        """
        self._branch.close()
        self._workers.close()

    # --- decisions, shared by sync and async ---

    def _early_answer(self, request: SearchRequest[HitT]) -> SearchResult[HitT] | None:
        """Return an answer that needs no search, or None; nothing is read for it.

        Raises:
            StorageError: The memory is closed.
        """
        self._store.check_usable()
        message, notes = None, []
        if self.strategy == "none":
            message, notes = CONFIGURE_EMBEDDING, self._problems()
        elif not request.query.strip():
            notes = ["the query is blank"]
        elif request.visibility.denied is not None:
            notes = [request.visibility.denied]
        else:
            return None
        return SearchResult([], "none", message=message, notes=notes, query=request.query)

    def _finish(
        self, request: SearchRequest[HitT], plan: Plan, keyword: Branch, vector: Branch
    ) -> SearchResult[HitT]:
        if keyword.excluded is not None:
            vector = self._branch.without(request, vector, keyword.excluded, plan)
        backlog = self._vectors.backlog(request.visibility)
        range_note = note_of_range(request)
        notes = [note for note in (keyword.note, vector.note, backlog, range_note) if note]
        keyword, vector, note = self._branch.drop_dissimilar(request, keyword, vector)
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
        places, note = self._branch.diversify(request, vector, places)
        notes += [note] if note else []
        shown = places[: request.limit]
        around = self._context(request, [place.id for place in shown])
        hits = [
            request.kind.to_hit(
                rows[place.id],
                score=place.score,
                keyword_rank=place.keyword_rank,
                vector_rank=place.vector_rank,
                similarity=vector.similarity.get(place.id),
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
            plan=list(plan.steps) if request.explain else [],
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
            embedder = self._vectors.embedder
            assert embedder is not None  # noqa: S101  (there are vectors)
            fuse, weight = FUSIONS[embedder.fusion], embedder.weight
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

    def _problems(self) -> list[str]:
        return [note for note in (self._keywords.problem, self._vectors.problem) if note]

    async def _in_worker(self, function: Callable[..., T], *arguments: Any) -> T:
        future = submit(self._workers, self._store, function, *arguments)
        return await asyncio.wrap_future(future)


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
