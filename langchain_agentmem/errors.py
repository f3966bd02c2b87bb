"""The exceptions of this package.

AgentMemoryError
├── StorageError            the database cannot be opened, read or written
├── VectorIndexError        Chroma's own code broke down
└── EmbeddingError          an embedding model is missing, failed, or answered nonsense

Bad arguments are plain `ValueError` and `TypeError`, as everywhere in Python.
"""

_MAX_DESCRIPTION = 500


class AgentMemoryError(Exception):
    """Base of all errors that this package raises on its own account."""


class StorageError(AgentMemoryError):
    """The database cannot be opened, read or written."""


class VectorIndexError(AgentMemoryError):
    """Chroma's own code broke down; keyword search goes on."""


class EmbeddingError(AgentMemoryError):
    """An embedding model is missing, failed, or answered something unusable."""


def describe(error: BaseException) -> str:
    """Return an error as one line, led by its type where the text alone says little."""
    text = " ".join(str(error).split())
    if len(text) > _MAX_DESCRIPTION:
        text = f"{text[:_MAX_DESCRIPTION]} ..."
    name = type(error).__name__
    return text if " " in text else f"{name}: {text}" if text else name
