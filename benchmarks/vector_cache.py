"""A provider's embedding model that computes each vector once, and keeps it in a file if wanted.

A benchmark then has the same vectors in every run and for every system that it compares, and
waits for the model in the first run alone.
"""

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from langchain_core.embeddings import Embeddings

from langchain_agentmem import EmbeddingSettings
from langchain_agentmem.embeddings.embedder import Embedder
from langchain_agentmem.embeddings.provider import make_embedder
from langchain_agentmem.errors import EmbeddingError

Provider = Literal["local", "chroma", "none"]
Vectors = npt.NDArray[np.float32]

CHROMA_MODEL_COPY = Path(__file__).parents[2] / "shared" / "models" / "all-MiniLM-L6-v2" / "onnx"
"""Where this machine may have the model that chromadb would download."""


class CachingEmbeddings(Embeddings):
    """An `Embedder` behind LangChain's interface, with a memory for all that it embedded.

    It goes through the `Embedder`, and so keeps the provider's batch size and limit of length; its
    weight in the fusion is at hand as `weight`. Queries and documents share their vectors, which
    is right for the models used here.

    Attributes:
        model: Name of the model; `AgentMemory` reads it here.
        weight: Weight of the model's ranks in the fusion.
        computed: How many texts the model was asked to embed so far.
    """

    def __init__(self, embedder: Embedder, file: Path | None = None) -> None:
        """Take over the vectors of this model that are in the file.

        Args:
            embedder: The model.
            file: An `.npz` file, which `save` makes if missing; None: nothing is kept.

        Raises:
            ValueError: The file is no vector cache.
        """
        self.model = embedder.name
        self.weight = embedder.weight
        self.fusion = embedder.fusion
        self.computed = 0
        self._embedder = embedder
        self._file = file
        self._saved = 0
        self._vectors = _vectors_of(self.model, _read(file)) if file else {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts; those that are new are computed."""
        self.prepare(texts)
        return [self._vectors[text].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self.embed_documents([text])[0]

    def vector(self, text: str) -> Vectors:
        """Return the vector of a text as (dim,) float32."""
        self.prepare([text])
        return self._vectors[text]

    def prepare(self, texts: Iterable[str]) -> None:
        """Compute the vectors that are missing.

        Raises:
            EmbeddingError: The model failed.
        """
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if missing:
            done = self._embedder.embed_documents(missing)
            if len(done.vectors) < len(missing):
                raise EmbeddingError(done.problem or next(iter(done.rejected.values())))
            self._vectors |= {
                missing[position]: vector for position, vector in done.vectors.items()
            }
            self.computed += len(missing)

    def save(self) -> None:
        """Write new vectors to the file, if there is one; other models' vectors in it are kept."""
        if self._file is None or self.computed == self._saved:
            return
        arrays = _read(self._file)
        texts = json.dumps(list(self._vectors)).encode()
        arrays[f"{self.model}.texts"] = np.frombuffer(texts, dtype=np.uint8)
        arrays[f"{self.model}.vectors"] = np.stack(list(self._vectors.values()))
        unfinished = self._file.with_name(f"{self._file.name}.unfinished")
        with unfinished.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        unfinished.replace(self._file)
        self._saved = self.computed


def open_model(provider: Provider, file: Path | None = None) -> CachingEmbeddings | None:
    """Open a provider's model, with the settings of the environment; None for `none`.

    Raises:
        EmbeddingError: The model cannot be had; the message names what is missing.
        FileNotFoundError: The model of `chroma` is not where chromadb looks for it, and could be.
        ValueError: The file is no vector cache.
    """
    if provider == "chroma":
        _check_chroma_model()
    embedder = make_embedder(EmbeddingSettings(provider=provider))
    return CachingEmbeddings(embedder, file) if embedder else None


def _check_chroma_model() -> None:
    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

    if not CHROMA_MODEL_COPY.is_dir():
        return  # chromadb downloads it
    place = ONNXMiniLM_L6_V2.DOWNLOAD_PATH / ONNXMiniLM_L6_V2.EXTRACTED_FOLDER_NAME
    if all((place / file.name).is_file() for file in CHROMA_MODEL_COPY.iterdir()):
        return
    msg = (
        f"the embedding model is not in {place}, and chromadb would download it. Copy it there:\n"
        f"    mkdir -p '{place}' && cp '{CHROMA_MODEL_COPY}'/* '{place}'"
    )
    raise FileNotFoundError(msg)


def _read(file: Path) -> dict[str, npt.NDArray[np.generic]]:
    if not file.exists():
        return {}
    try:
        with np.load(file) as arrays:
            return dict(arrays)
    except (EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        msg = f"{file} is no vector cache: {error}"
        raise ValueError(msg) from error


def _vectors_of(model: str, arrays: dict[str, npt.NDArray[np.generic]]) -> dict[str, Vectors]:
    if f"{model}.texts" not in arrays:
        return {}
    texts = json.loads(arrays[f"{model}.texts"].tobytes())
    return dict(zip(texts, arrays[f"{model}.vectors"].astype(np.float32), strict=True))
