"""What both search tools share: how they read a model's arguments and how they answer."""

import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

from langchain_core.tools import BaseTool, ToolException
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from langchain_agentmem.errors import describe
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.quoting import unquote
from langchain_agentmem.results import SearchResult

DEFAULT_LIMIT = 5
MAX_LIMIT = 20

Answer = tuple[str, dict[str, Any]]


def coerce_limit(value: Any) -> int:
    """Make an integer within 1 and 20 of whatever a model sends; 5 where it makes no sense."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return DEFAULT_LIMIT
    if isinstance(value, bool) or not isinstance(value, int | float):
        return DEFAULT_LIMIT
    if isinstance(value, float) and math.isnan(value):
        return DEFAULT_LIMIT
    return int(max(1, min(MAX_LIMIT, value)))


def _text(value: Any) -> Any:
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) else value


def _optional_text(value: Any) -> Any:
    if isinstance(value, list) and len(value) <= 1:
        value = value[0] if value else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return (unquote(value).strip() or None) if isinstance(value, str) else value


Query = Annotated[str, BeforeValidator(_text)]
# In this order the bounds are those of the integer, and reach the model's schema.
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT), BeforeValidator(coerce_limit)]
OptionalText = Annotated[str | None, BeforeValidator(_optional_text)]

LIMIT_DESCRIPTION = f"How many results at the most, 1 to {MAX_LIMIT}."


def _name_bad_arguments(error: ValidationError) -> str:
    problems = (
        f"{'.'.join(map(str, item['loc']))}: {item['msg']}"
        for item in error.errors(include_url=False)
    )
    return f"Unusable arguments: {'; '.join(problems)}"


class SearchTool(BaseTool):
    """A tool over one `AgentMemory`.

    Content is the string that the model reads, artifact the `SearchResult` as JSON data. A search
    that fails altogether is a `ToolException`, which the tool turns into an error message: an
    agent's run never dies of a search.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    format_result: ClassVar[Callable[[SearchResult[Any]], str]]

    memory: AgentMemory = Field(exclude=True, repr=False)
    """The memory that is searched."""
    min_similarity: float | None = Field(default=None, ge=-1, le=1)
    """Cosine below which a record is no answer; None: no such bound."""
    response_format: str = "content_and_artifact"  # type: ignore[assignment]
    handle_tool_error: Any = True
    handle_validation_error: Any = _name_bad_arguments

    def _answer(
        self, search: Callable[..., SearchResult[Any]], *args: Any, **options: Any
    ) -> Answer:
        try:
            return self._present(search(*args, **options))
        except Exception as error:
            raise self._failure(error) from error

    async def _aanswer(self, search: Callable[..., Any], *args: Any, **options: Any) -> Answer:
        try:
            return self._present(await search(*args, **options))
        except Exception as error:
            raise self._failure(error) from error

    def _present(self, result: SearchResult[Any]) -> Answer:
        return type(self).format_result(result), result.to_dict()

    def _failure(self, error: Exception) -> ToolException:
        return ToolException(f"{self.name} failed: {describe(error)}")
