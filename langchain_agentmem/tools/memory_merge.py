"""The tool `memory_merge`: make one memory of several."""

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field

from langchain_agentmem.tools.memory_tool import Answer, MemoryTool, OptionalText, RecordIds

DESCRIPTION = """\
Make one memory of several that say the same or belong together. Give their ids as memory_search \
shows them, the one to keep first, and the text that says it all."""


class MemoryMergeInput(BaseModel):
    """What a model fills in."""

    ids: RecordIds = Field(
        description="At least two ids, as shown by memory_search; the first is kept."
    )
    content: OptionalText = Field(
        default=None, description="The merged text; left out, that of the first stays."
    )


class MemoryMergeTool(MemoryTool):
    """Merges memories that the turn can see."""

    name: str = "memory_merge"
    description: str = DESCRIPTION
    args_schema: type[BaseModel] = MemoryMergeInput

    def _run(self, ids: list[str], content: str | None = None, *, config: RunnableConfig) -> Answer:
        def merge() -> Answer:
            memory = self.memory.merge_memories(ids, content, config=config)
            merged = len(set(ids))
            return f"Merged {merged} memories into {memory.id}.", memory.model_dump(mode="json")

        return self._guarded(merge)
