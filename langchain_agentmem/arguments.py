"""Checks of what callers hand over; what is unusable is named in the error."""

from collections.abc import Iterable
from threading import TIMEOUT_MAX
from typing import Any, TypeVar

from pydantic import BaseModel

T = TypeVar("T")


def listed(name: str, values: Any, what: str) -> list[Any]:
    """Return the values of an argument that takes several.

    Raises:
        TypeError: It holds none, or a single one; it is named.
    """
    if isinstance(values, str | bytes | dict | BaseModel) or not isinstance(values, Iterable):
        msg = f"{name} must be a list of {what}, not {type(values).__name__}"
        raise TypeError(msg)
    return list(values)


def instance(name: str, value: T, kind: type[T]) -> T:
    """Return the value of an argument that takes an object of one type.

    Raises:
        TypeError: It is of another; the argument is named.
    """
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        msg = f"{name} must be {article} {kind.__name__}, not {type(value).__name__}"
        raise TypeError(msg)
    return value


def text_argument(name: str, value: Any) -> str:
    """Return the value of an argument that takes text.

    Raises:
        TypeError: It is none; the argument is named.
    """
    if not isinstance(value, str):
        msg = f"{name} must be text, not {type(value).__name__}"
        raise TypeError(msg)
    return value


def ids_argument(ids: Any) -> list[str]:
    """Return one id or several as a list.

    Raises:
        TypeError: They are none.
    """
    if isinstance(ids, str):
        return [ids]
    return [text_argument(f"ids[{n}]", id_) for n, id_ in enumerate(listed("ids", ids, "ids"))]


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return the value of an argument that takes a whole number within bounds.

    Raises:
        ValueError: It is none; the argument is named.
    """
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number or value < least or (most is not None and value > most):
        within = f"of at least {least}" if most is None else f"from {least} to {most}"
        msg = f"{name} must be a whole number {within}, not {value!r}"
        raise ValueError(msg)
    return int(value)


def seconds(name: str, value: Any) -> float:
    """Return the value of an argument that takes a number of seconds above 0.

    Raises:
        ValueError: It is none, or more than a thread can wait; the argument is named.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 < value <= TIMEOUT_MAX):
        msg = f"{name} must be a number of seconds above 0, not {value!r}"
        raise ValueError(msg)
    return float(value)
