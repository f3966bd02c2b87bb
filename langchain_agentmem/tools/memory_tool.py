"""What every tool of a memory shares: a model's loose arguments, and failures that end no run."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

from langchain_core.tools import BaseTool, ToolException
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError

from langchain_agentmem.errors import describe
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.quoting import unquote


class Answer(NamedTuple):
    """What a tool answers."""

    content: str
    """What the model reads."""
    artifact: dict[str, Any]
    """The same as JSON data."""


def read_text(value: Any) -> Any:
    """Read a text that a model may have left out, or sent as a number."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) else value


def read_label(value: Any) -> Any:
    """Read a text, or None, that a model may have wrapped in a list or in quotes."""
    if isinstance(value, list) and len(value) <= 1:
        value = value[0] if value else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return (unquote(value).strip() or None) if isinstance(value, str) else value


def _optional_content(value: Any) -> Any:
    # Unlike a label it is kept as it was sent: quotes around it are part of what was said.
    text = read_text(value)
    return None if isinstance(text, str) and not text.strip() else text


def texts(value: Any) -> Any:
    """Read a list that a model wrote as text: as JSON, or with commas between its items."""
    if value is None:
        return []
    if not isinstance(value, str):
        return value
    stripped = value.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        try:
            return json.loads(stripped)
        except (ValueError, RecursionError):  # no JSON, or nested too deeply
            pass
    # A comma within a JSON string, as `quote` prints it, parts nothing.
    items = re.findall(r'\s*((?:"(?:[^"\\]|\\.)*"|[^,])+)', stripped)
    return [unquote(item).strip() for item in items if item.strip()]


def _shown_id(text: str) -> str:
    """Read an id as a search prints it, with or without what is printed around it."""
    around = re.fullmatch(r"\[\s*id:\s*(.+?)\s*\]", text.strip())
    return unquote(around[1] if around else text.strip())


def _ids(value: Any) -> Any:
    if isinstance(value, str) and re.search(r"\[\s*id:", value):
        # Within quotes, as `quote` prints an id that has brackets, a bracket ends nothing.
        return re.findall(r'\[\s*id:\s*(?:"(?:[^"\\]|\\.)*"\s*|[^\]]*)\]', value)
    return texts(value)


def read_filter(value: Any) -> Any:
    """Read a filter, which is left out where a model writes that there is none."""
    text = read_label(value)
    return None if isinstance(text, str) and text.lower() in ("null", "none") else text


RequiredText = Annotated[str, BeforeValidator(read_text)]
OptionalText = Annotated[str | None, BeforeValidator(read_label)]
OptionalContent = Annotated[str | None, BeforeValidator(_optional_content)]
"""What a record says, or nothing."""
Texts = Annotated[list[str], BeforeValidator(texts)]
RecordId = Annotated[str, AfterValidator(_shown_id), BeforeValidator(read_text)]
"""An id, also as a search prints it."""
RecordIds = Annotated[list[RecordId], BeforeValidator(_ids)]


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

    @contextmanager
    def _failures_told(self) -> Iterator[None]:
        """Raise whatever fails within as a `ToolException`."""
        try:
            yield
        except Exception as error:
            msg = f"{self.name} failed: {describe(error)}"
            raise ToolException(msg) from error
