"""The tool `memory_delete`: forget memories."""

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field

from langchain_agentmem.quoting import quote
from langchain_agentmem.records import Memory
from langchain_agentmem.tools.memory_tool import Answer, MemoryTool, RecordIds

DESCRIPTION = """\
Forget memories: when the user asks you to forget something, or when a memory is wrong and nothing \
is to replace it. Give their ids as memory_search shows them."""


class MemoryDeleteInput(BaseModel):
    """What a model fills in."""

    ids: RecordIds = Field(description="The ids of the memories, as shown by memory_search.")


def _listed(id_: str) -> str:
    return quote(id_, separator=",")


class MemoryDeleteTool(MemoryTool):
    """Deletes memories that the turn can see; code can restore them."""

    name: str = "memory_delete"
    description: str = DESCRIPTION
    args_schema: type[BaseModel] = MemoryDeleteInput

    def _run(self, ids: list[str], *, config: RunnableConfig) -> Answer:
        with self._failures_told():
            asked = list(dict.fromkeys(ids))
            # Messages have ids too, and are none of this tool's business.
            found = [
                id_ for id_ in asked if isinstance(self.memory.get(id_, config=config), Memory)
            ]
            count = self.memory.delete(found, config=config)
            text = f"Deleted {count} {'memory' if count == 1 else 'memories'}."
            unknown = [id_ for id_ in asked if id_ not in found]
            if unknown:
                text += f" There are no memories with the ids: {', '.join(map(_listed, unknown))}."
            return Answer(text, {"deleted": found, "unknown": unknown})
