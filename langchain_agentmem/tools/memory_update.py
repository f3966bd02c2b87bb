"""The tool `memory_update`: correct a memory."""

from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, BeforeValidator, Field

from langchain_agentmem.quoting import quote
from langchain_agentmem.tools.memory_tool import (
    Answer,
    MemoryTool,
    OptionalContent,
    OptionalText,
    RecordId,
    texts,
)

DESCRIPTION = """\
Correct a memory that is outdated or wrong. Give its id as memory_search shows it, and only the \
fields that change; the others stay as they are."""


def _optional_texts(value: Any) -> Any:
    return None if value is None else texts(value)


class MemoryUpdateInput(BaseModel):
    """What a model fills in."""

    id: RecordId = Field(description="The memory's id, as shown by memory_search.")
    content: OptionalContent = Field(default=None, description="The new text.")
    type: OptionalText = Field(default=None, description="The new type.")
    scene: OptionalText = Field(default=None, description="The new scene name.")
    tags: Annotated[list[str] | None, BeforeValidator(_optional_texts)] = Field(
        default=None, description="All its tags, in place of those it has."
    )


class MemoryUpdateTool(MemoryTool):
    """Changes a memory that the turn can see."""

    name: str = "memory_update"
    description: str = DESCRIPTION
    args_schema: type[BaseModel] = MemoryUpdateInput

    def _run(
        self,
        id: str,
        content: str | None = None,
        type: str | None = None,
        scene: str | None = None,
        tags: list[str] | None = None,
        *,
        config: RunnableConfig,
    ) -> Answer:
        with self._failures_told():
            fields = {"content": content, "type": type, "scene_name": scene, "tags": tags}
            changes: dict[str, Any] = {
                name: value for name, value in fields.items() if value is not None
            }
            if not changes:
                msg = "name at least one field to change: content, type, scene or tags"
                raise ValueError(msg)
            memory = self.memory.update_memory(id, config=config, **changes)
            return Answer(f"Updated {quote(memory.id)}.", memory.model_dump(mode="json"))
