"""Batches are bounded by their number and by their length, and nothing is left out."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.batches import LONGEST_BATCH, take


def batches(lengths: Iterator[int], most: int) -> Iterator[list[int]]:
    while batch := take(lengths, most, lambda length: length):
        yield batch


@given(
    lengths=st.lists(st.integers(0, LONGEST_BATCH * 2) | st.integers(0, 5)), most=st.integers(1, 9)
)
def test_whatever_comes_is_cut_into_bounded_batches(lengths: list[int], most: int) -> None:
    found = list(batches(iter(lengths), most))

    assert [length for batch in found for length in batch] == lengths
    for batch in found:
        assert len(batch) <= most
        assert sum(batch[:-1]) < LONGEST_BATCH
    for batch in found[:-1]:
        assert len(batch) == most or sum(batch) >= LONGEST_BATCH, "no smaller than it must be"
