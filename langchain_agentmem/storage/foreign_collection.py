"""A Chroma collection that somebody else made: its documents, metadata and vectors, by the page."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from langchain_agentmem.embeddings.embedder import Vectors
from langchain_agentmem.errors import describe
from langchain_agentmem.storage.vector_index import embedded_client

_PAGE = 500
_UNIT_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Document:
    """One entry of a collection."""

    id: str
    text: str | None
    metadata: dict[str, Any] | None
    vector: Vectors | None
    """(dim,) float32."""


class ForeignCollection:
    """Reads a `chromadb` collection, or the one behind a LangChain `Chroma` vector store.

    Raises:
        TypeError: It is neither.
    """

    def __init__(self, collection: Any) -> None:
        """Read `collection`; it is never written."""
        # LangChain's store makes its collection known under this name alone.
        found = getattr(collection, "_collection", None) or collection
        methods = [getattr(found, name, None) for name in ("get", "count")]
        if not all(map(callable, methods)) or any(map(inspect.iscoroutinefunction, methods)):
            msg = (
                "collection must be a chromadb Collection or a langchain_chroma.Chroma vector "
                f"store, not {type(collection).__name__}"
            )
            raise TypeError(msg)
        self._collection = found
        self.name = str(getattr(found, "name", "collection"))

    def count(self) -> int:
        """Count the documents."""
        return int(self._collection.count())

    def pages(self, *, vectors: bool) -> Iterator[list[Document]]:
        """Read everything, a page in memory at a time.

        Args:
            vectors: Whether the vectors are read too.
        """
        include = ["documents", "metadatas", *(["embeddings"] if vectors else [])]
        offset = 0
        while True:
            page = self._collection.get(limit=_PAGE, offset=offset, include=include)
            ids = page["ids"]
            if not ids:
                return
            yield [
                Document(
                    id_,
                    _at(page.get("documents"), number),
                    _at(page.get("metadatas"), number),
                    _vector(_at(page.get("embeddings"), number)),
                )
                for number, id_ in enumerate(ids)
            ]
            offset += len(ids)

    def other_ranking(self, documents: list[Document]) -> str | None:
        """Tell in a sentence if these were ranked by other means than cosine, or None."""
        configuration = getattr(self._collection, "configuration_json", None) or {}
        index = configuration.get("hnsw") or configuration.get("spann") or {}
        space = index.get("space", "cosine")
        lengths = [float(np.linalg.norm(d.vector)) for d in documents if d.vector is not None]
        if space == "cosine" or all(abs(length - 1) < _UNIT_TOLERANCE for length in lengths):
            return None
        return (
            f'the collection "{self.name}" ranked by {space} and its vectors are not of length 1: '
            "they are ranked by cosine here, which looks at their direction alone"
        )


def collection_in(source: str, name: str | None) -> Any:
    """Open a collection of a Chroma folder or server.

    Args:
        source: A folder that Chroma keeps, or a server's address, such as `http://localhost:8000`.
        name: The collection; None: the only one there is.

    Raises:
        ValueError: There is no Chroma, or no such collection, or it is unclear which; the names
            that there are are told.
    """
    client = _client(source)
    found = {collection.name: collection for collection in client.list_collections()}
    names = ", ".join(sorted(found)) or "none"
    if name is None and len(found) != 1:
        msg = f"collection: name one with --collection; there are: {names}"
        raise ValueError(msg)
    chosen = next(iter(found)) if name is None else name
    if chosen not in found:
        msg = f'collection: there is no "{chosen}" in {source}; there are: {names}'
        raise ValueError(msg)
    return found[chosen]


def _client(source: str) -> Any:
    from urllib.parse import urlsplit

    address = urlsplit(source)
    if address.scheme in ("http", "https"):
        import chromadb

        try:
            secure = address.scheme == "https"
            return chromadb.HttpClient(
                address.hostname or "", address.port or (443 if secure else 8000), ssl=secure
            )
        except Exception as error:
            msg = f"{source}: no Chroma server answers ({describe(error)})"
            raise ValueError(msg) from error
    folder = Path(source)
    if not (folder / "chroma.sqlite3").is_file():
        msg = f"{source}: no Chroma folder (it would hold chroma.sqlite3)"
        raise ValueError(msg)
    try:
        return embedded_client(folder)
    except Exception as error:
        msg = f"{source}: Chroma cannot open it ({describe(error)})"
        raise ValueError(msg) from error


def _at(values: Any, number: int) -> Any:
    return None if values is None else values[number]


def _vector(value: Any) -> Vectors | None:
    return None if value is None else np.asarray(value, dtype=np.float32)
