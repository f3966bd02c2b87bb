"""Provider `chroma`: all-MiniLM-L6-v2 in ONNX, which chromadb brings.

384 dimensions. The model is downloaded at first use into `~/.cache/chroma`, unless it is there.
"""

from typing import Any

from langchain_core.embeddings import Embeddings

MODEL_NAME = "all-MiniLM-L6-v2"


class ChromaOnnxEmbeddings(Embeddings):
    """Chroma's default embedding function as a LangChain `Embeddings` object."""

    def __init__(self) -> None:
        """Prepare the function; the model itself is loaded at first use."""
        from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

        self._function: Any = ONNXMiniLM_L6_V2()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts: one vector of 384 numbers each."""
        return [vector.tolist() for vector in self._function(texts)] if texts else []

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""
        return self.embed_documents([text])[0]
