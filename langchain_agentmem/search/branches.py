"""The two branches of a search: the keyword index and the vector index, each asked by itself.

A branch that fails or is too slow counts as empty and leaves a note. The vector branch asks others:
an embedding model and Chroma, which may hang. It does so in threads of its own, waits for no call
longer than the time limit, and says which of the two it was.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.errors import EmbeddingError, describe, trace
from langchain_agentmem.search.fusion import Fused, Ranking
from langchain_agentmem.search.plan import Plan
from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.search.rerank import DIVERSIFIED, diversify
from langchain_agentmem.search.vector_search import VectorSearch
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import Condition
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.vectors import VectorHalf
from langchain_agentmem.workers import Patience, Workers

logger = logging.getLogger(__name__)

WORKERS = 16
T = TypeVar("T")


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
    too_slow: bool = False
    """Whether it was given up, so that its index is asked nothing more in this search."""


def ask_keywords(
    keywords: KeywordIndex, request: SearchRequest, plan: Plan, seconds: float
) -> Branch:
    """Ask the keyword index, for so many seconds at the most."""
    if keywords.problem:
        return Branch(note=keywords.problem)
    try:
        found = keywords.search(
            request.kind,
            request.query,
            request.condition,
            request.candidates,
            deadline=time.monotonic() + seconds,
            source_condition=request.source_condition,
            selection=plan.selection,
        )
    except Exception as error:  # noqa: BLE001  (the other branch answers)
        return _failed(f"keyword search failed: {describe(error)}")
    plan.steps.append(f"keywords: {found.method}")
    return Branch(found.ranking, note=keywords.note, excluded=found.excluded, sources=found.sources)


@dataclass(eq=False)
class Asked:
    """A question to the vector index that is under way.

    Attributes:
        answer: Its answer, some time.
        started: When it was asked, in seconds of the monotonic clock.
        stage: Whom it waits for, once it has a thread: the model or the index.
    """

    answer: "Future[Branch]" = field(default_factory=Future)
    started: float = field(default_factory=time.monotonic)
    stage: Literal["embedding", "searching"] = "embedding"


class VectorBranch:
    """Asks the embedding model and the vector index, and waits for neither too long.

    Args:
        store: The records.
        vectors: Embedding model and vector index, or why there are none.
        timeout: Seconds that one answer may take.
    """

    def __init__(self, store: RecordStore, vectors: VectorHalf, timeout: float) -> None:
        """Start with idle workers."""
        self._store = store
        self._vectors = vectors
        self._embedder = vectors.embedder
        self._timeout = timeout
        # Of their own, so that what hangs holds up nothing else.
        self._workers = Workers(WORKERS, "agentmem-vectors")
        self._patience = Patience("the vector index")

    @property
    def available(self) -> bool:
        """Whether there are an embedding model and a vector index."""
        return self._nearest is not None

    @property
    def _nearest(self) -> VectorSearch | None:
        index = self._vectors.index
        copies = self._vectors.copies
        if index is None or copies is None:
            return None
        return VectorSearch(self._store, index, copies)

    def close(self) -> None:
        """Let the workers go; running ones end by themselves."""
        self._workers.close()

    def set_work_going(self) -> None:
        """Have waiting vectors written, or a missing index opened, in the background.

        Raises:
            StorageError: The database cannot be read, or is closed.
        """
        if self._vectors.have_work:
            self._submit(self._vectors.level_a_little)

    # --- one question ---

    def ask(self, request: SearchRequest, plan: Plan) -> Asked:
        """Ask for the records nearest to the query. Nothing is waited for.

        Raises:
            StorageError: The memory is closed.
        """
        asked = Asked()
        nearest, embedder = self._nearest, self._embedder
        if nearest is None or embedder is None:
            asked.answer.set_result(Branch(note=self._vectors.problem))
            return asked
        try:
            embedder.check_query(request.query)
        except EmbeddingError as error:
            asked.answer.set_result(_failed(f"answered by keywords alone: {error}"))
            return asked
        if problem := self._patience.problem:
            note = f"vector search was left out: {problem}"
            asked.answer.set_result(_failed(note, too_slow=True))
            return asked

        def answer() -> Branch:
            self._store.check_usable()
            try:
                vector = embedder.embed_query(request.query)
            except EmbeddingError as error:
                return _failed(f"answered by keywords alone: {error}")
            except Exception as error:  # noqa: BLE001  (the other branch answers)
                # Whatever it says, it may say what it was sent.
                logger.debug("embedding a query failed:\n%s", trace(error))
                name = type(error).__name__
                return _failed(f"answered by keywords alone: the query was not embedded ({name})")
            asked.stage = "searching"
            try:
                found = nearest.search(request, vector, plan.selection)
            except Exception as error:  # noqa: BLE001  (the other branch answers)
                # Perhaps it was the vector that is wrong: it is not to be used again.
                embedder.forget(request.query)
                return _failed(f"vector search failed: {describe(error)}")
            plan.steps.append(f"vectors: {found.method}")
            return Branch(found.ranking, vector=vector, similarity=found.similarity)

        asked.answer = self._submit(answer)
        return asked

    def wait(self, asked: Asked) -> Branch:
        """Wait for an answer in this thread, until its time is over."""
        try:
            return asked.answer.result(max(0.0, asked.started + self._timeout - time.monotonic()))
        except TimeoutError:
            return self._give_up(asked)

    async def await_answer(self, asked: Asked) -> Branch:
        """Wait for an answer without blocking the event loop, until its time is over."""
        # The model is asked in a thread: an async client of one event loop fails in the next.
        try:
            return await asyncio.wait_for(asyncio.wrap_future(asked.answer), self._timeout)
        except TimeoutError:
            return self._give_up(asked)

    def _give_up(self, asked: Asked) -> Branch:
        note = f"vector search took longer than {self._timeout:g} s and was left out"
        if asked.answer.cancel():
            note += ": too many were under way"
        elif asked.stage == "searching":
            self._patience.give_up(asked.answer)
            note += ": the vector index did not answer"
        elif self._embedder is not None:
            self._embedder.give_up_query(self._timeout)
        return _failed(note, too_slow=True)

    # --- what an answer needs beside ---

    def without(
        self, request: SearchRequest, vector: Branch, excluded: Condition, plan: Plan
    ) -> Branch:
        """Return the answer of the vectors without what the query excludes.

        Only the keyword index knows what that is, and only once it has found something: among the
        nearest there may be nothing else, so that the vectors are asked again.
        """
        nearest = self._nearest
        if vector.vector is None or nearest is None:
            return vector
        try:
            found = self._limited(nearest.search, request, vector.vector, plan.selection, excluded)
        except Exception as error:  # noqa: BLE001  (what was found remains)
            note = f"vector search left out what is excluded alone: {describe(error)}"
            return replace(vector, note=note)
        plan.steps.append(f"vectors, less what the query excludes: {found.method}")
        return replace(vector, ranking=found.ranking, similarity=found.similarity)

    def drop_dissimilar(
        self, request: SearchRequest, keyword: Branch, vector: Branch
    ) -> tuple[Branch, Branch, str | None]:
        """Drop candidates of both lists whose cosine is below the request's minimum.

        A keyword hit without a vector is kept: nothing speaks against it.

        Returns:
            Both branches, that of the vectors with the cosines of all that were compared, and a
            note where they could not be.
        """
        minimum = request.min_similarity
        if minimum is None:
            return keyword, vector, None
        nearest = self._nearest
        if vector.vector is None or nearest is None:
            return keyword, vector, "min_similarity could not be applied without vectors"
        similarity, note = dict(vector.similarity), None
        unknown = [id_ for id_, _ in keyword.ranking if id_ not in similarity]
        try:
            if unknown:
                similarity |= self._limited(nearest.similarities, request, vector.vector, unknown)
        except Exception as error:  # noqa: BLE001  (the keyword hits remain)
            note = f"min_similarity could not be applied to all results: {describe(error)}"

        def kept(branch: Branch) -> Ranking:
            return [item for item in branch.ranking if similarity.get(item[0], 1.0) >= minimum]

        return (
            replace(keyword, ranking=kept(keyword)),
            replace(vector, ranking=kept(vector), similarity=similarity),
            note,
        )

    def diversify(
        self, request: SearchRequest, vector: Branch, places: list[Fused]
    ) -> tuple[list[Fused], str | None]:
        """Put results that differ first, as the request asks; a note tells why it is not done."""
        if not request.diversity:
            return places, None
        nearest = self._nearest
        if nearest is None:
            return places, "diversity could not be applied without vectors"
        if vector.too_slow:
            return places, "diversity could not be applied: vector search was too slow"
        try:
            ids = [place.id for place in places[:DIVERSIFIED]]
            vectors = self._limited(nearest.vectors, request, ids)
        except Exception as error:  # noqa: BLE001  (the results remain)
            return places, f"diversity could not be applied: {describe(error)}"
        return diversify(places, vectors, request.diversity, request.limit), None

    def _limited(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call the vector index, for no longer than the time limit.

        Raises:
            NoAnswerError: It did not answer in time.
            Exception: Whatever `function` raises.
        """
        return self._patience.wait(self._submit(function, *arguments), self._timeout)

    def _submit(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        return submit(self._workers, self._store, function, *arguments)


def submit(
    workers: Workers, store: RecordStore, function: Callable[..., T], *arguments: Any
) -> "Future[T]":
    """Have a worker call `function`.

    Raises:
        StorageError: The memory was closed since the search began.
        RuntimeError: The process can have no more threads.
    """
    try:
        return workers.submit(function, *arguments)
    except RuntimeError:
        store.check_usable()  # which says more clearly that it was closed
        raise


def _failed(note: str, *, too_slow: bool = False) -> Branch:
    logger.warning("%s", note)
    return Branch(note=note, too_slow=too_slow)
