"""Brings the vector index level with the database, by working through the vector queue.

One worker at a time, over all threads and processes of this machine: a slow one could otherwise
write the vector of an older version of a record over that of a newer one. Every step can be
repeated: an entry leaves the queue only after its vector is written.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock

from filelock import Timeout

from langchain_agentmem.embeddings.embedder import Embedded, Embedder, Vectors
from langchain_agentmem.errors import describe, trace
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.folder import TURN_LOCK
from langchain_agentmem.storage.kinds import KINDS, RecordKind
from langchain_agentmem.storage.ownership import TURN_POLL_SECONDS, TURN_TIMEOUT_SECONDS
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.schema import EMBEDDING_MODEL, VECTORS_PLACE
from langchain_agentmem.storage.vector_copies import VectorCopies
from langchain_agentmem.storage.vector_index import VectorIndex
from langchain_agentmem.storage.vector_queue import QueueEntry, VectorQueue

logger = logging.getLogger(__name__)

_CHUNK = 512
_LARGEST_CHUNK = 4096
_CHUNK_SECONDS = 1.0
"""How long a write keeps others from theirs, about: with a fast model chunks are larger."""
_GIVE_WAY_SECONDS = 1.0
BACKLOG_PER_WRITE = 512
"""How many entries of earlier writes a write works on beside its own."""
BACKLOG_PER_SEARCH = 32
"""How many entries are worked on in the background of a search."""
OTHER_MODEL = (
    "this memory was opened with another embedding model meanwhile, and its vectors are now those "
    "of that model: open it with the same one everywhere"
)
Progress = Callable[[int, int], None]
"""Called with the entries that are done and those that remain."""


Embed = Callable[[Mapping[str, str]], Embedded]
"""Makes vectors of texts by record id; the answer goes by the position of the text."""


@dataclass(frozen=True, slots=True)
class ReadyVector:
    """A vector that was made elsewhere, with the model of the index, of exactly this text."""

    text: str
    vector: Vectors
    """(dim,) float32."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What a run of the indexer did."""

    written: int
    """Vectors written."""
    problem: str | None = None
    """Why some were not, or None."""


class VectorIndexer:
    """Works through the queue."""

    def __init__(
        self,
        database: Database,
        store: RecordStore,
        queue: VectorQueue,
        embedder: Embedder,
        index: VectorIndex,
        *,
        turn: Callable[[], AbstractContextManager[object]],
    ) -> None:
        """Queue all records anew if the vectors are those of another embedding model.

        Or of another place: collections that were not those in use have missed changes, such as
        those on a Chroma server while the vectors were in the memory's folder.

        Args:
            database: The open database.
            store: Its records.
            queue: Its vector queue.
            embedder: The embedding model.
            index: The vector index.
            turn: Makes the lock that keeps other processes out; may raise `filelock.Timeout`.
        """
        self._store = store
        self._queue = queue
        self._embedder = embedder
        self._index = index
        self.copies = VectorCopies(database, embedder.fingerprint)
        self._turn = turn
        self._lock = Lock()
        self._chunk = _CHUNK
        self._writes: list[None] = []
        """One entry for each write that waits for its vectors."""
        self._last_problem: str | None = None
        self._database = database
        self._has_other_models = index.has_other_models()
        self._place: str | None = None
        if database.read_only:
            return
        self._place = index.place(KINDS[0])
        empty = not any(map(index.count, KINDS))
        with database.write() as connection:
            former = database.meta(VECTORS_PLACE)
            moved = former not in (self._place, None) and not empty
            changed = moved or not self.is_current()
            database.set_meta(connection, VECTORS_PLACE, self._place)
            if changed:
                self.copies.clear(connection)
                queue.put_all(connection)
                database.set_meta(connection, EMBEDDING_MODEL, embedder.fingerprint)
        self._queue_what_differs(always=changed)

    def _queue_what_differs(self, *, always: bool = False) -> None:
        """Queue what the vectors lack or have too much, beyond what waits already.

        They may have been deleted from under us, set back to an older copy, or left behind by a
        former use of this model. Unless `always`, counts decide whether it is worth a look.
        """
        for kind in KINDS:
            if always or not self._queue.explains(kind, self._index.count(kind)):
                self._queue.put_what_differs(kind, partial(self._index.ids, kind))

    @property
    def last_problem(self) -> str | None:
        """Why the latest run left something in the queue, or None."""
        return self._last_problem

    def index(self, kind: RecordKind, ids: Sequence[str]) -> Indexed:
        """Write the vectors of these records, and of a bounded number that waited before them."""
        if self._embedder.hanging:
            return Indexed(0, self._last_problem)
        self._writes.append(None)  # a list, because append and pop are atomic
        try:
            # What comes later is left to its own writer. Read but once, where a failure is told.
            last = cache(self._queue.last_position)
            own = self._work(
                lambda limit, _: self._queue.take(limit, kind.name, ids), len(ids), last=last
            )
        finally:
            self._writes.pop()
        if own.problem is not None:
            return own
        backlog = self._work(self._queue.take_after, BACKLOG_PER_WRITE, last=last)
        return Indexed(own.written + backlog.written, backlog.problem)

    def take_over(self, kind: RecordKind, ready: Mapping[str, ReadyVector]) -> Indexed:
        """Write ready vectors, by record id; nothing is embedded.

        A record that does not wait for its vector, or says something else by now, is passed over.
        """

        def look_up(texts: Mapping[str, str]) -> Embedded:
            found = ((i, ready[id_], text) for i, (id_, text) in enumerate(texts.items()))
            return Embedded({i: own.vector for i, own, text in found if own.text == text})

        def take(limit: int, after: int) -> list[QueueEntry]:
            entries = self._queue.take(len(ready), kind.name, list(ready))
            return [entry for entry in entries if entry.seq > after][:limit]

        return self._work(take, len(ready), embed=look_up)

    def index_a_little(self) -> None:
        """Work on a few entries, unless somebody is at it or the model fails at present."""
        if not (self._embedder.cooling_down or self._lock.locked()):
            self._work(self._queue.take_after, BACKLOG_PER_SEARCH)

    def index_next(self, last: int) -> Indexed:
        """Work on the next part of the queue, up to a position."""
        self._give_way()
        return self._work(self._queue.take_after, _CHUNK, last=lambda: last)

    def sync(self, progress: Progress | None = None) -> Indexed:
        """Work through the whole queue, and once more through what came to it meanwhile."""
        self.compare()
        done = self._work(self._queue.take_after, None, progress)
        if done.problem is not None or not self._queue.pending():
            return done
        more = self._work(self._queue.take_after, None, progress)
        return Indexed(done.written + more.written, more.problem)

    def compare(self) -> None:
        """Queue what the vectors lack or have too much."""
        try:
            if self.is_current():
                self._queue_what_differs()
                self._follow_to_new_collections()
        except Exception as error:  # noqa: BLE001  (whoever writes vectors is told the same)
            logger.debug("the vector index cannot be counted: %s", describe(error))

    def _follow_to_new_collections(self) -> None:
        """Note that collections in use were made anew, unless others are in use by now."""
        place = self._index.place(KINDS[0])
        if place != self._place and self._database.meta(VECTORS_PLACE) == self._place:
            self._place = place
            with self._database.write() as connection:
                self._database.set_meta(connection, VECTORS_PLACE, self._place)

    def is_current(self) -> bool:
        """Whether the vectors in use are still those of this model."""
        return self._database.meta(EMBEDDING_MODEL) == self._embedder.fingerprint

    def _work(
        self,
        take: Callable[[int, int], list[QueueEntry]],
        limit: int | None,
        progress: Progress | None = None,
        embed: Embed | None = None,
        *,
        last: Callable[[], int] | None = None,
    ) -> Indexed:
        """Work on entries up to a position, the last one there is unless `last` names another."""
        if self._database.read_only is not None:  # what is done could not be taken off the queue
            self._last_problem = f"the database cannot be written: {self._database.read_only}"
            return Indexed(0, self._last_problem)
        written = processed = position = 0
        problem: str | None = None
        try:
            end = (last or self._queue.last_position)()
            while limit is None or processed < limit:
                size = _CHUNK if limit is None else min(self._chunk, limit - processed)
                if limit is None and processed:
                    self._give_way()
                # Chunk by chunk, so that a write need not wait for the end of a long sync.
                with self._locked(), self._turn():
                    if not self.is_current():
                        problem = OTHER_MODEL
                        break
                    entries = [entry for entry in take(size, position) if entry.seq <= end]
                    if not entries:
                        break
                    position = entries[-1].seq
                    started = time.monotonic()
                    levelled = self._level(entries, embed)
                    self._fit_chunk(len(entries), time.monotonic() - started)
                written += levelled.written
                problem = levelled.problem or problem
                processed += len(entries)
                if progress is not None:
                    progress(processed, self._queue.pending())
                if levelled.give_up:
                    break
            self._drop_other_models_once_level()
        except Timeout:
            problem = "others are writing vectors at present"
        except Exception as error:  # noqa: BLE001  (whatever fails, the queue keeps the work)
            logger.debug("writing vectors failed:\n%s", trace(error))
            problem = f"vectors could not be written: {describe(error)}"
        news = problem is not None and problem != self._last_problem
        if news and not self._database.is_closed:  # work cut off by `close` is no trouble
            logger.warning("%s", problem)
        self._last_problem = problem
        return Indexed(written, problem)

    def _fit_chunk(self, done: int, seconds: float) -> None:
        """Let chunks be as large as their time allows, judged by one that is large enough."""
        if done >= _CHUNK // 2:
            fitting = int(done / max(seconds, 1e-6) * _CHUNK_SECONDS)
            self._chunk = max(_CHUNK, min(_LARGEST_CHUNK, fitting))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # With a limit: a model or an index that hangs must not hold up every write behind it.
        if not self._lock.acquire(timeout=TURN_TIMEOUT_SECONDS):
            raise Timeout(TURN_LOCK)
        try:
            yield
        finally:
            self._lock.release()

    def _give_way(self) -> None:
        """Let a write have its turn: whoever gives a lock back and asks again is first again."""
        give_up = time.monotonic() + _GIVE_WAY_SECONDS
        time.sleep(TURN_POLL_SECONDS * 2)
        while self._writes and time.monotonic() < give_up:
            time.sleep(TURN_POLL_SECONDS)

    def _embed(self, texts: Mapping[str, str]) -> Embedded:
        return self._embedder.embed_documents(list(texts.values()))

    def _level(self, entries: Sequence[QueueEntry], embed: Embed | None) -> "_Levelled":
        """Bring the vectors of some records level, and take off the entries that are done.

        Args:
            entries: The records.
            embed: Makes the vectors; None: the model, which takes no more than the start of a text.
        """
        result = _Levelled()
        longest = self._embedder.max_input_chars if embed is None else None
        for kind in KINDS:
            asked = {entry.id: entry for entry in entries if entry.kind == kind.name}
            if not asked or result.give_up:
                continue
            texts = self._store.embedded_texts(kind, list(asked), longest)
            gone = [id_ for id_ in asked if id_ not in texts]
            if gone:
                self._index.delete(kind, gone)
                self._queue.done(asked[id_] for id_ in gone)
            if texts:
                self._write(kind, texts, asked, result, embed or self._embed)
        return result

    def _write(
        self,
        kind: RecordKind,
        texts: dict[str, str],
        asked: dict[str, QueueEntry],
        result: "_Levelled",
        embed: Embed,
    ) -> None:
        ids = list(texts)
        embedded = embed(texts)
        written = [ids[position] for position in embedded.vectors]
        if written:
            vectors = list(embedded.vectors.values())
            try:
                self._index.upsert(kind, written, vectors)
            except Exception:
                self._embedder.forget_dimension()  # it may be what was wrong with them
                raise
            self.copies.settle(kind, [asked[id_] for id_ in written], vectors)
            result.written += len(written)
        if embedded.rejected:
            # They go to the end of the queue, where they hold up nobody.
            self._queue.defer(asked[ids[position]] for position in embedded.rejected)
            position, why = next(iter(embedded.rejected.items()))
            count = len(embedded.rejected)
            result.problem = (
                f"{count} {kind.name if count > 1 else kind.singular} could not be embedded, "
                f"such as {ids[position]}: {why}"
            )
        if embedded.problem is not None:
            result.problem = embedded.problem
            result.give_up = True

    def _drop_other_models_once_level(self) -> None:
        if not self._has_other_models or self._queue.pending():
            return
        with self._locked(), self._turn():
            if self._has_other_models and self.is_current():
                # Level at last: the vectors of the former model have served their time.
                self._index.drop_other_models()
                self._has_other_models = False


@dataclass(slots=True)
class _Levelled:
    written: int = 0
    problem: str | None = None
    give_up: bool = False
    """Whether further entries would fail alike."""
