"""Provider `chroma`: all-MiniLM-L6-v2 in ONNX, which chromadb brings.

384 dimensions. The model is downloaded at first use into `~/.cache/chroma`, unless it is there.
"""

from contextlib import nullcontext
from threading import Lock
from typing import Any

from langchain_core.embeddings import Embeddings

MODEL_NAME = "all-MiniLM-L6-v2"
_first_use = Lock()


class ChromaOnnxEmbeddings(Embeddings):
    """Chroma's default embedding function as a LangChain `Embeddings` object."""

    def __init__(self) -> None:
        """Prepare the function; the model itself is loaded at first use."""
        from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

        self._function: Any = ONNXMiniLM_L6_V2()
        self._loaded = False

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts: one vector of 384 numbers each."""
        if not texts:
            return []
        # At first use each thread would download the model, into one and the same file.
        with nullcontext() if self._loaded else _first_use:
            vectors = self._function(texts)
        self._loaded = True
        return [vector.tolist() for vector in vectors]

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""
        return self.embed_documents([text])[0]
