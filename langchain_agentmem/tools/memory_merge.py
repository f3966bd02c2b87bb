"""The tool `memory_merge`: make one memory of several."""

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field

from langchain_agentmem.quoting import quote
from langchain_agentmem.tools.memory_tool import Answer, MemoryTool, OptionalContent, RecordIds

DESCRIPTION = """\
Make one memory of several that say the same or belong together. Give their ids as memory_search \
shows them, the one to keep first, and the text that says it all."""


class MemoryMergeInput(BaseModel):
    """What a model fills in."""

    ids: RecordIds = Field(
        description="At least two ids, as shown by memory_search; the first is kept."
    )
    content: OptionalContent = Field(
        default=None, description="The merged text; left out, that of the first stays."
    )


class MemoryMergeTool(MemoryTool):
    """Merges memories that the turn can see."""

    name: str = "memory_merge"
    description: str = DESCRIPTION
    args_schema: type[BaseModel] = MemoryMergeInput

    def _run(self, ids: list[str], content: str | None = None, *, config: RunnableConfig) -> Answer:
        with self._failures_told():
            found = [self.memory.get(id_, config=config) for id_ in ids]
            named = {memory.id for memory in found if memory is not None}  # one may have two ids
            memory = self.memory.merge_memories(ids, content, config=config)
            text = f"Merged {len(named)} memories into {quote(memory.id)}."
            return Answer(text, memory.model_dump(mode="json"))
