"""What callers hand over is checked, and named where it is unusable."""

import math
from threading import TIMEOUT_MAX
from typing import Any

import pytest

from langchain_agentmem import AgentMemory, Capture, Memory, Recall
from langchain_agentmem.arguments import (
    ids_argument,
    instance,
    listed,
    seconds,
    text_argument,
    whole_number,
)
from langchain_agentmem.middleware import AgentMemoryMiddleware


@pytest.mark.parametrize("value", [1, 2, 3])
def test_a_whole_number_within_its_bounds(value: int) -> None:
    assert whole_number("n", value, 1, 3) == value
    assert whole_number("n", value * 1000, 1) == value * 1000


@pytest.mark.parametrize("value", [0, 4, -1, 1.0, math.nan, math.inf, True, "1", None, [1]])
def test_any_other_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="n must be a whole number from 1 to 3, not "):
        whole_number("n", value, 1, 3)


@pytest.mark.parametrize("value", [0, -1, 1.5, False, "1", None])
def test_a_number_without_an_upper_bound(value: Any) -> None:
    with pytest.raises(ValueError, match="n must be a whole number of at least 1, not "):
        whole_number("n", value, 1)


@pytest.mark.parametrize("value", [1, 0.5, 1e-9, TIMEOUT_MAX])
def test_seconds(value: float) -> None:
    assert seconds("timeout", value) == value


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 1e300, True, "5", None])
def test_no_seconds_that_a_thread_could_wait(value: Any) -> None:
    with pytest.raises(ValueError, match="timeout must be a number of seconds above 0, not "):
        seconds("timeout", value)


@pytest.mark.parametrize("given", ["a", b"a", {"a": 1}, Memory(content="x"), 5, None])
def test_what_is_no_list_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="memories must be a list of things, not"):
        listed("memories", given, "things")


def test_lists_of_every_form() -> None:
    assert listed("n", iter((1, 2)), "numbers") == [1, 2]
    assert ids_argument("a") == ids_argument(("a",)) == ["a"]


def test_what_is_no_text_is_named() -> None:
    with pytest.raises(TypeError, match="query must be text, not int"):
        text_argument("query", 5)
    with pytest.raises(TypeError, match=r"ids\[1\] must be text, not NoneType"):
        ids_argument(["a", None])


@pytest.mark.parametrize("given", [None, "agent-memory", AgentMemory, 5])
@pytest.mark.parametrize("user", [Recall, Capture, AgentMemoryMiddleware])
def test_whatever_takes_a_memory_takes_nothing_else(user: Any, given: Any) -> None:
    with pytest.raises(TypeError, match="memory must be an AgentMemory, not "):
        user(given)


def test_what_has_the_type_comes_back() -> None:
    assert instance("n", 5, int) == 5
