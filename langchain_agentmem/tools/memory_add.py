"""The tool `memory_add`: save a memory."""

from typing import Any

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field

from langchain_agentmem.quoting import quote
from langchain_agentmem.records import Memory
from langchain_agentmem.tools.memory_tool import (
    Answer,
    MemoryTool,
    OptionalText,
    RequiredText,
    Texts,
)

DESCRIPTION = """\
Save one fact, preference, event or standing instruction to long-term memory, so that later \
conversations find it.

Use it when the user tells you something lasting about themselves or asks you to remember it. Save \
one thing at a time, as a sentence that can be understood on its own. Do not save passwords, or \
what only matters now. Search first: change what is there with memory_update."""


class MemoryAddInput(BaseModel):
    """What a model fills in."""

    content: RequiredText = Field(description="What to remember, one self-contained sentence.")
    type: OptionalText = Field(
        default=None,
        description=(
            "persona (who the user is), episodic (what happened; the default) or instruction "
            "(what the user wants you to do)."
        ),
    )
    scene: OptionalText = Field(
        default=None, description="Where it belongs, such as a project or a place."
    )
    tags: Texts = Field(default_factory=list, description="Words to find it by.")


class MemoryAddTool(MemoryTool):
    """Saves a memory under the turn's scope."""

    name: str = "memory_add"
    description: str = DESCRIPTION
    args_schema: type[BaseModel] = MemoryAddInput

    def _run(
        self,
        content: str,
        type: str | None = None,
        scene: str | None = None,
        tags: list[str] | None = None,
        *,
        config: RunnableConfig,
    ) -> Answer:
        with self._failures_told():
            fields: dict[str, Any] = {"content": content, "tags": tags or []}
            fields |= {"type": type} if type else {}
            fields |= {"scene_name": scene} if scene else {}
            report = self.memory.add_memories([Memory(**fields)], config=config)
            memory = report.records[0]
            verb = "Saved as" if report.saved else "Already there as"
            return Answer(f"{verb} {quote(memory.id)}.", memory.model_dump(mode="json"))
