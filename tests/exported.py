"""What a memory exports, as lines."""

import io
from typing import Any

from langchain_agentmem import AgentMemory


def lines(memory: AgentMemory, **options: Any) -> list[str]:
    """The lines of an export, each with its end."""
    written = io.StringIO(newline="")
    memory.export(written, **options)
    return written.getvalue().splitlines(keepends=True)
