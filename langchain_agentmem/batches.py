"""Cuts what is too much to hold at once into batches."""

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

LONGEST_BATCH = 1_000_000
"""Characters of text in a batch, about. It is in memory several times, and as JSON it is one value
of a statement, of which SQLite takes no more than a billion bytes."""


def take(items: Iterator[T], most: int, length: Callable[[T], int]) -> list[T]:
    """Take the next items: at most so many, and none after those that fill a batch.

    Args:
        items: Where they come from; what is not taken stays there.
        most: How many at the most.
        length: Tells the characters of one.

    Returns:
        One at least, unless there is none.
    """
    batch: list[T] = []
    characters = 0
    for item in items:
        batch.append(item)
        characters += length(item)
        if len(batch) == most or characters >= LONGEST_BATCH:
            break
    return batch
