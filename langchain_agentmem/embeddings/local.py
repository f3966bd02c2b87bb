"""Provider `local`: WordLlama static token vectors, from the weights inside its wheel.

256 dimensions, no network, about 50 µs a query.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

MODEL_NAME = "wordllama-l2_supercat-256"


class WordLlamaEmbeddings(Embeddings):
    """WordLlama as a LangChain `Embeddings` object. Vectors have length 1.

    Raises:
        ImportError: The package wordllama (extra `local`) is not installed.
    """

    def __init__(self) -> None:
        """Load the bundled weights and tokenizer."""
        with _root_logger_kept():
            import wordllama

        # The loader looks for its tokenizer in a cache folder alone; the wheel brings one.
        bundled = Path(wordllama.__file__).parent
        self._model: Any = wordllama.WordLlama.load(cache_dir=bundled, disable_download=True)
        self._lock = Lock()  # its tokenizer changes its own padding settings at each call

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts: one vector of 256 numbers each."""
        if not texts:
            return []
        with self._lock:
            vectors: np.ndarray = self._model.embed(texts, norm=False)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        # A text without any known token has the zero vector, which no cosine is defined for.
        unit: list[list[float]] = (vectors / np.where(lengths == 0, 1.0, lengths)).tolist()
        return unit

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""
        return self.embed_documents([text])[0]


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    # Importing wordllama configures the root logger, which belongs to the application.
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
