"""How errors are told on one line, and how panics of native code become errors."""

import pytest
from pydantic import BaseModel, ValidationError, model_validator

from langchain_agentmem import EmbeddingError, Memory
from langchain_agentmem.errors import describe, panics_raised


class Pair(BaseModel):
    least: int
    most: int

    @model_validator(mode="after")
    def _in_order(self) -> "Pair":
        if self.least > self.most:
            msg = "least must not be above most"
            raise ValueError(msg)
        return self


@pytest.mark.parametrize(
    ("least", "told"),
    [
        (3, "least must not be above most"),  # of the whole: no field to name
        ("x", "least: Input should be a valid integer"),
    ],
)
def test_what_is_wrong_is_led_by_its_field_where_it_is_about_one(least: object, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Pair.model_validate({"least": least, "most": 2})

    assert describe(caught.value).startswith(told)


def test_several_fields_are_told_one_after_the_other() -> None:
    with pytest.raises(ValidationError) as caught:
        Memory.model_validate({"content": 5, "priority": "x"})

    assert [part.partition(":")[0] for part in describe(caught.value).split("; ")] == [
        "content",
        "priority",
    ]


class PanicException(BaseException):
    """As Rust code raises it; the real type cannot be imported."""


def test_a_panic_becomes_an_error_and_nothing_else_does() -> None:
    def made(panic: BaseException) -> EmbeddingError:
        return EmbeddingError(f"broken: {panic}")

    with pytest.raises(EmbeddingError, match="broken: index out of range"), panics_raised(made):
        raise PanicException("index out of range")  # noqa: EM101, TRY003
    with pytest.raises(KeyboardInterrupt), panics_raised(made):
        raise KeyboardInterrupt
