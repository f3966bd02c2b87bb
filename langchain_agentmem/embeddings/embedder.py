"""The `Embedder`: a LangChain `Embeddings` object, guarded.

It checks what comes back, cuts texts that are too long and remembers the vectors of the latest
queries. Documents are embedded patiently (retries, smaller batches, the good ones of a bad batch);
queries are not: after a failed query it does not ask again for a while, so that an outage costs one
slow search and not every one.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock

import numpy as np
import numpy.typing as npt
from langchain_core.embeddings import Embeddings

from langchain_agentmem.embeddings.faults import Fault, read_fault
from langchain_agentmem.embeddings.settings import Fusion
from langchain_agentmem.errors import EmbeddingError, describe, panics_raised, trace

logger = logging.getLogger(__name__)

Vectors = npt.NDArray[np.float32]

QUERY_CACHE_SIZE = 256
ATTEMPTS = 3
MAX_IN_DOUBT = 3
"""After so many texts in a row that fail one by one for an unknown reason, none is to blame."""
MAX_WAIT_SECONDS = 10.0
"""The longest pause between two attempts, whatever the service asks for."""


@dataclass(slots=True)
class Embedded:
    """What became of a list of texts, by position."""

    vectors: dict[int, Vectors] = field(default_factory=dict)
    """(dim,) float32 each."""
    rejected: dict[int, str] = field(default_factory=dict)
    """Why the model takes these texts not at all."""
    problem: str | None = None
    """Why the positions in neither were not embedded, or None."""


def _broken(_: BaseException) -> EmbeddingError:
    # What a panic says, it may say of the text.
    return EmbeddingError("its native code broke down")


class _BatchError(Exception):
    """A call that failed, with its fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.description)
        self.fault = fault


class Embedder:
    """Embeds queries and documents with one model.

    Args:
        embeddings: The model.
        name: Its name, for people to read.
        identity: What distinguishes its vectors from those of other models.
        advice: What to check when it fails, a clause.
        weight: Weight of its list in the fusion.
        fusion: How its list is fused with the keyword list.
        batch_size: Texts in one call of the model.
        max_input_chars: Longer texts are cut.
        cool_down: Seconds after a failed query during which no other is tried.
        zero_is_fault: Whether a vector of zeros is refused. Some models have it for texts that
            they know no word of; a service that answers it is broken.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        *,
        name: str,
        identity: str,
        advice: str = "",
        weight: float = 1.0,
        fusion: Fusion = "rrf",
        batch_size: int = 128,
        max_input_chars: int = 8000,
        cool_down: float = 30.0,
        zero_is_fault: bool = False,
    ) -> None:
        """Wrap `embeddings`; nothing is embedded yet."""
        self._embeddings = embeddings
        self.name = name
        self.fingerprint = blake2b(identity.encode(), digest_size=6).hexdigest()
        self.weight = weight
        self.fusion: Fusion = fusion
        self._advice = advice
        self._batch_size = batch_size
        self.max_input_chars = max_input_chars
        self._cool_down = cool_down
        self._zero_is_fault = zero_is_fault
        self._cache: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = Lock()
        self._dimension: int | None = None
        self._failed_at: float | None = None
        self._hung_at: float | None = None
        self._failure = ""

    def embed_documents(self, texts: Sequence[str]) -> Embedded:
        """Embed as many of the texts as can be embedded, in calls of at most `batch_size`.

        A busy service is asked again, up to three times. A batch that it does not take is halved,
        so that a limit on inputs is found and one bad text does not take others with it. What
        fails for good ends the work, and so do several texts that fail one after the other for a
        reason that need not be theirs.
        """
        done = Embedded()
        waiting = [(i, self._cut(text)) for i, text in enumerate(texts)][::-1]
        size = self._batch_size
        attempts, in_doubt, isolated = ATTEMPTS, 0, False
        while waiting:
            batch = [waiting.pop() for _ in range(min(size, len(waiting)))]
            try:
                vectors = self._call_patiently([text for _, text in batch], attempts)
            except _BatchError as error:
                fault = error.fault
                if fault.kind in ("busy", "refused"):
                    done.problem = str(self._error(fault.description))
                    if fault.timed_out:
                        self._hung_at = time.monotonic()
                        self._start_cool_down(done.problem)
                    break
                if fault.kind != "input":
                    attempts = 1  # it was asked patiently: it is a text, or it fails for good
                if len(batch) > 1:
                    size = (len(batch) + 1) // 2
                    waiting += batch[::-1]
                    continue
                done.rejected[batch[0][0]] = reason = str(self._error(fault.description))
                isolated = True
                in_doubt += fault.kind != "input"
                if in_doubt == MAX_IN_DOUBT:
                    done.problem = reason
                    break
                continue
            if isolated:
                size = self._batch_size  # it was the text, and not how many there were
            attempts, in_doubt, isolated = ATTEMPTS, 0, False
            unusable = self._unusable(vectors)
            for row, (position, _) in enumerate(batch):
                if row in unusable:
                    done.rejected[position] = str(self._error(unusable[row]))
                else:
                    done.vectors[position] = vectors[row]
                    self._dimension = vectors.shape[1]
        if done.vectors and done.problem is None:
            self._failed_at = self._hung_at = None
        return done

    def embed_query(self, text: str) -> Vectors:
        """Embed a query.

        Returns:
            (dim,) float32, from the cache where it is there.

        Raises:
            EmbeddingError: The model failed, or failed a moment ago.
        """
        text = self._cut(text)
        cached = self._cached(text)
        if cached is not None:
            return cached
        self._check_cool_down()
        try:
            with panics_raised(_broken):
                vector = self._embeddings.embed_query(text)
        except Exception as error:
            raise self._query_failed(error) from error
        return self._remember(text, vector)

    def check_query(self, text: str) -> None:
        """Tell whether `embed_query` would embed a query at all, which takes no time to learn.

        Raises:
            EmbeddingError: The query is not in the cache, and another failed a moment ago.
        """
        if self._cached(self._cut(text)) is None:
            self._check_cool_down()

    def forget(self, text: str) -> None:
        """Drop the vector of a query from the cache."""
        with self._lock:
            self._cache.pop(self._cut(text), None)

    def forget_dimension(self) -> None:
        """Take vectors of any one dimension again: those of the latest answers were not kept."""
        self._dimension = None

    def give_up_query(self, seconds: float) -> EmbeddingError:
        """Note that a query was not embedded within its time limit, and return that failure."""
        failure = self._error(f"no answer within {seconds:g} s")
        self._start_cool_down(str(failure))
        return failure

    @property
    def cooling_down(self) -> bool:
        """Whether a query failed a moment ago, so that none is tried."""
        return self._is_recent(self._failed_at)

    @property
    def hanging(self) -> bool:
        """Whether the model did not answer in time a moment ago, so that writes do not wait."""
        return self._is_recent(self._hung_at)

    def _is_recent(self, moment: float | None) -> bool:
        return moment is not None and time.monotonic() - moment < self._cool_down

    def _call_patiently(self, texts: list[str], attempts: int) -> Vectors:
        """Call the model, up to so many times where that may help.

        Raises:
            _BatchError: It failed for good.
        """
        import tenacity

        backoff = tenacity.wait_exponential(multiplier=0.2, max=2.0)

        def may_help(error: BaseException) -> bool:
            # A service that hangs would hang again, and a write must come back.
            fault = error.fault if isinstance(error, _BatchError) else None
            return fault is not None and fault.kind in ("busy", "broken") and not fault.timed_out

        def pause(state: "tenacity.RetryCallState") -> float:
            error = state.outcome.exception() if state.outcome else None
            asked = error.fault.retry_after if isinstance(error, _BatchError) else None
            return min(MAX_WAIT_SECONDS, max(asked or 0.0, backoff(state)))

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(may_help),
            stop=tenacity.stop_after_attempt(attempts),
            wait=pause,
            reraise=True,
        )
        return retrying(self._call, texts)

    def _call(self, texts: list[str]) -> Vectors:
        try:
            with panics_raised(_broken):
                vectors = self._embeddings.embed_documents(texts)
        except Exception as error:
            logger.debug("embedding failed:\n%s", trace(error))
            raise _BatchError(read_fault(error)) from error
        try:
            array = self._checked(vectors, len(texts))
        except EmbeddingError as error:
            raise _BatchError(Fault("other", str(error))) from error
        return array

    def _checked(self, vectors: object, count: int) -> Vectors:
        """Check the shape of an answer.

        Raises:
            EmbeddingError: It is no (count, dim) array of the dimension seen before.
        """
        try:
            array = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError) as error:
            msg = f"it answered no vectors ({describe(error)})"
            raise EmbeddingError(msg) from error
        if array.ndim != 2 or array.shape[0] != count or array.shape[1] == 0:  # noqa: PLR2004
            msg = f"it answered vectors of shape {array.shape} for {count} texts"
            raise EmbeddingError(msg)
        if self._dimension is not None and array.shape[1] != self._dimension:
            msg = f"it answered {array.shape[1]} dimensions, and {self._dimension} before"
            raise EmbeddingError(msg)
        return array

    def _unusable(self, vectors: Vectors) -> dict[int, str]:
        """Return which of the vectors, (n, dim), cannot be used, and what is wrong with them."""
        zeros = ~vectors.any(axis=1) & self._zero_is_fault
        broken = ~np.isfinite(vectors).all(axis=1)
        unusable = dict.fromkeys(np.flatnonzero(zeros).tolist(), "it answered a vector of zeros")
        for row in np.flatnonzero(broken).tolist():
            unusable[row] = "it answered a vector with NaN or infinite numbers"
        return unusable

    def _error(self, reason: str) -> EmbeddingError:
        advice = f"; {self._advice}" if self._advice else ""
        return EmbeddingError(f"the embedding model {self.name} failed: {reason}{advice}")

    def _cut(self, text: str) -> str:
        return text[: self.max_input_chars]

    def _cached(self, text: str) -> Vectors | None:
        with self._lock:
            vector = self._cache.get(text)
            if vector is not None:
                self._cache.move_to_end(text)
            return vector

    def _remember(self, text: str, vector: object) -> Vectors:
        try:
            vectors = self._checked([vector], 1)
            unusable = self._unusable(vectors)
            if unusable:
                raise EmbeddingError(unusable[0])  # noqa: TRY301
        except EmbeddingError as error:
            raise self._query_failed(error) from error
        checked: Vectors = vectors[0]
        checked.flags.writeable = False  # it is shared by all who ask the same
        with self._lock:
            self._failed_at = self._hung_at = None
            self._cache[text] = checked
            if len(self._cache) > QUERY_CACHE_SIZE:
                self._cache.popitem(last=False)
        return checked

    def _query_failed(self, error: Exception) -> EmbeddingError:
        logger.debug("embedding a query failed:\n%s", trace(error))
        fault = read_fault(error)
        failure = self._error(fault.description)
        if fault.kind != "input":  # which says nothing of other queries
            self._start_cool_down(str(failure))
        return failure

    def _start_cool_down(self, failure: str) -> None:
        self._failed_at, self._failure = time.monotonic(), failure

    def _check_cool_down(self) -> None:
        if self.cooling_down:
            raise EmbeddingError(self._failure)
