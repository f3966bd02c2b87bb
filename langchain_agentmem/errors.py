"""The exceptions of this package.

AgentMemoryError
├── StorageError            the database cannot be opened, read or written
├── VectorIndexError        Chroma broke down or does not answer
└── EmbeddingError          an embedding model is missing, failed, or answered nonsense

Bad arguments are plain `ValueError` and `TypeError`, as everywhere in Python; a `ScopeError` is a
`ValueError`.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from langchain_agentmem.quoting import shortened

_MAX_DESCRIPTION = 500


class AgentMemoryError(Exception):
    """Base of all errors that this package raises on its own account."""


class StorageError(AgentMemoryError):
    """The database cannot be opened, read or written."""


class VectorIndexError(AgentMemoryError):
    """Chroma broke down or does not answer; keyword search goes on."""


class EmbeddingError(AgentMemoryError):
    """An embedding model is missing, failed, or answered something unusable."""


class ScopeError(ValueError):
    """A turn lacks the ids that say whose records it may save or change.

    Its text names keys of the config, and nothing that was said.
    """


def _fields(error: BaseException) -> str | None:
    """Name the fields that a pydantic error is about, and what is wrong with each."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return None
    return "; ".join(
        ": ".join(
            part
            for part in (
                ".".join(map(str, item["loc"])),  # empty where it is about the whole
                item["msg"].removeprefix("Value error, "),
            )
            if part
        )
        for item in error.errors(include_url=False, include_input=False)
    )


@contextmanager
def panics_raised(make: Callable[[BaseException], Exception]) -> Iterator[None]:
    """Raise what `make` makes of a panic of Rust code: it is no `Exception`.

    Chroma and tokenizers have such code. The type of a panic cannot be imported.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise make(error) from error


def trace(error: BaseException) -> str:
    """Return where an error came from and of what type it is, without its text.

    The text may repeat what was sent: a record, a query, a key. That of a `ScopeError` does not.
    """
    if isinstance(error, ScopeError):
        return describe(error)
    lines = traceback.format_tb(error.__traceback__)
    return f"{''.join(lines)}{type(error).__name__}"


def describe(error: BaseException) -> str:
    """Return an error as one line, led by its type where the text alone says little."""
    text = shortened(" ".join((_fields(error) or str(error)).split()), _MAX_DESCRIPTION)
    name = type(error).__name__
    return text if " " in text else f"{name}: {text}" if text else name
