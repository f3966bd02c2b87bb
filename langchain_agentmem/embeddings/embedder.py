"""The `Embedder`: a LangChain `Embeddings` object, guarded.

It checks what comes back, cuts texts that are too long, remembers the vectors of the latest
queries, and after a failed query does not ask again for a while, so that an outage costs one slow
search and not every one.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock

import numpy as np
import numpy.typing as npt
from langchain_core.embeddings import Embeddings

from langchain_agentmem.errors import EmbeddingError, describe

logger = logging.getLogger(__name__)

Vectors = npt.NDArray[np.float32]

QUERY_CACHE_SIZE = 256
COOL_DOWN_SECONDS = 30.0


class Embedder:
    """Embeds queries and documents with one model.

    Args:
        embeddings: The model.
        name: Its name, for people to read.
        identity: What distinguishes its vectors from those of other models.
        advice: What to check when it fails, a clause.
        weight: Weight of its ranks in the fusion.
        batch_size: Texts in one call of the model.
        max_input_chars: Longer texts are cut.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        *,
        name: str,
        identity: str,
        advice: str = "",
        weight: float = 1.0,
        batch_size: int = 128,
        max_input_chars: int = 8000,
    ) -> None:
        """Wrap `embeddings`; nothing is embedded yet."""
        self._embeddings = embeddings
        self.name = name
        self.fingerprint = blake2b(identity.encode(), digest_size=6).hexdigest()
        self.weight = weight
        self._advice = advice
        self._batch_size = batch_size
        self._max_input_chars = max_input_chars
        self._cache: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = Lock()
        self._failed_at: float | None = None
        self._failure = ""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, in calls of at most `batch_size`.

        Returns:
            (n, dim) float32.

        Raises:
            EmbeddingError: The model failed or answered something unusable.
        """
        batches = [
            self._embed_batch([self._cut(text) for text in texts[start : start + self._batch_size]])
            for start in range(0, len(texts), self._batch_size)
        ]
        self._failed_at = None
        return np.concatenate(batches)

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
            vector = self._embeddings.embed_query(text)
        except Exception as error:
            raise self._query_failed(error) from error
        return self._remember(text, vector)

    async def aembed_query(self, text: str) -> Vectors:
        """Embed a query without blocking the event loop. See `embed_query`."""
        text = self._cut(text)
        cached = self._cached(text)
        if cached is not None:
            return cached
        self._check_cool_down()
        try:
            vector = await self._embeddings.aembed_query(text)
        except Exception as error:
            raise self._query_failed(error) from error
        return self._remember(text, vector)

    def give_up_query(self, seconds: float) -> None:
        """Note that a query was not embedded within a search's time limit."""
        self._query_failed(TimeoutError(f"no answer within {seconds:g} s"))

    def _embed_batch(self, texts: list[str]) -> Vectors:
        try:
            vectors = self._embeddings.embed_documents(texts)
        except Exception as error:
            raise self._error(describe(error)) from error
        return self._checked(vectors, len(texts))

    def _checked(self, vectors: object, count: int) -> Vectors:
        try:
            array = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError) as error:
            reason = f"it answered no vectors ({describe(error)})"
            raise self._error(reason) from error
        if array.ndim != 2 or array.shape[0] != count or array.shape[1] == 0:  # noqa: PLR2004
            reason = f"it answered vectors of shape {array.shape} for {count} texts"
            raise self._error(reason)
        if not np.isfinite(array).all():
            reason = "it answered vectors with NaN or infinite numbers"
            raise self._error(reason)
        return array

    def _error(self, reason: str) -> EmbeddingError:
        advice = f"; {self._advice}" if self._advice else ""
        return EmbeddingError(f"the embedding model {self.name} failed: {reason}{advice}")

    def _cut(self, text: str) -> str:
        return text[: self._max_input_chars]

    def _cached(self, text: str) -> Vectors | None:
        with self._lock:
            vector = self._cache.get(text)
            if vector is not None:
                self._cache.move_to_end(text)
            return vector

    def _remember(self, text: str, vector: object) -> Vectors:
        try:
            checked: Vectors = self._checked([vector], 1)[0]
        except EmbeddingError as error:
            self._start_cool_down(str(error))
            raise
        checked.flags.writeable = False  # it is shared by all who ask the same
        with self._lock:
            self._failed_at = None
            self._cache[text] = checked
            if len(self._cache) > QUERY_CACHE_SIZE:
                self._cache.popitem(last=False)
        return checked

    def _query_failed(self, error: Exception) -> EmbeddingError:
        failure = self._error(describe(error))
        self._start_cool_down(str(failure))
        return failure

    def _start_cool_down(self, failure: str) -> None:
        self._failed_at, self._failure = time.monotonic(), failure

    def _check_cool_down(self) -> None:
        failed_at = self._failed_at
        if failed_at is not None and time.monotonic() - failed_at < COOL_DOWN_SECONDS:
            raise EmbeddingError(self._failure)
