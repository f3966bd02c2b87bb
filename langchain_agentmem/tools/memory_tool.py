"""What every tool of a memory shares: a model's loose arguments, and failures that end no run."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from langchain_core.tools import BaseTool, ToolException
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError

from langchain_agentmem.errors import describe
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.quoting import unquote

Answer = tuple[str, dict[str, Any]]
"""What the model reads, and the same as JSON data."""
T = TypeVar("T")


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


def _texts(value: Any) -> Any:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


RequiredText = Annotated[str, BeforeValidator(_text)]
OptionalText = Annotated[str | None, BeforeValidator(_optional_text)]
Texts = Annotated[list[str], BeforeValidator(_texts)]
RecordId = Annotated[str, AfterValidator(unquote), BeforeValidator(_text)]
"""An id, also as a search prints it."""
RecordIds = Annotated[list[RecordId], BeforeValidator(_texts)]


def _name_bad_arguments(error: ValidationError) -> str:
    return f"Unusable arguments: {describe(error)}"


class MemoryTool(BaseTool):
    """A tool over one `AgentMemory`.

    Whose records it touches, the run's config decides. What fails is a `ToolException`, which the
    tool turns into an error message: an agent's run never dies of its memory.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: AgentMemory = Field(exclude=True, repr=False)
    """The memory that the tool works on."""
    response_format: str = "content_and_artifact"  # type: ignore[assignment]
    handle_tool_error: Any = True
    handle_validation_error: Any = _name_bad_arguments

    def _failure(self, error: Exception) -> ToolException:
        return ToolException(f"{self.name} failed: {describe(error)}")

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Exception as error:
            raise self._failure(error) from error
