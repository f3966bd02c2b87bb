"""`agentmem demo`: both tools on a small history, then the same without an embedding."""

import json
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from langchain_agentmem.cli.options import Embedding, open_memory

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from rich.console import Console

    from langchain_agentmem.memory import AgentMemory

_SEARCHED = 20

Questions = dict[str, list[dict[str, Any]]]
Ranks = dict[str, int | None]


def demo(embedding: Embedding = None) -> None:
    """Show both tools at work. Needs no key and no network, and leaves nothing behind."""
    from rich.console import Console

    from langchain_agentmem.embeddings.settings import EmbeddingSettings
    from langchain_agentmem.memory import AgentMemory

    console = Console(highlight=False, soft_wrap=True)
    with (
        as_file(files("langchain_agentmem.cli") / "demo_data") as data,
        TemporaryDirectory(prefix="agentmem-demo-") as folder,
    ):
        questions: Questions = json.loads((data / "questions.json").read_text(encoding="utf-8"))
        with open_memory(Path(folder), embedding) as memory:
            _fill(memory, data)
            status = memory.status()
            sessions = memory.stats().messages.by["session"].distinct
            console.rule("[bold]agentmem demo")
            console.print(
                f"{status.memories} memories and {status.messages} messages of "
                f"{sessions} conversations; embedding: {status.embedding or 'none'}.\n"
                "This is what an agent reads when it calls its two tools:\n"
            )
            with_embedding = _ask(console, memory, questions, shown=2)
        console.rule("[bold]The same memory, with the embedding taken away")
        console.print()
        nobody = EmbeddingSettings(provider=None)
        with AgentMemory.open(folder, embedding=nobody) as memory:
            without = _ask(console, memory, questions, shown=1)
    console.rule("[bold]Where the expected record stood")
    _compare(console, questions, with_embedding, without)


def _fill(memory: "AgentMemory", data: Path) -> None:
    from langchain_agentmem.interchange import read_records

    for name in ("memories", "messages"):
        lines = list(read_records(data / f"{name}.jsonl"))
        records: list[Any] = [line.record for line in lines]
        if name == "memories":
            memory.add_memories(records)
        else:
            memory.add_messages(None, records)


def _ask(console: "Console", memory: "AgentMemory", questions: Questions, shown: int) -> Ranks:
    """Ask every question, print what the agent reads, return the rank of the expected record.

    A note that every answer ends with is printed with the first.
    """
    ranks: Ranks = {}
    comment = "shows" if memory.status().embedding else "shows_without_embedding"
    told = ""
    for tool, asked in zip(_tools(memory), questions.values(), strict=True):
        for question in asked:
            query = question["query"]
            console.print(f"[dim]# {question[comment]}")
            console.print(f'[bold cyan]{tool.name}(query="{query}", limit={shown})')
            answer = _call(tool, query, shown)
            notes = "\n".join(f"Note: {note}" for note in answer.artifact["notes"])
            again = bool(notes) and notes == told
            text = answer.text.removesuffix(f"\n\n{notes}") if again else answer.text
            console.print(text, markup=False, end="\n\n")
            if notes and not again:
                console.print("[dim]# the answers below end with this note too\n")
            told = notes
            ranks[query] = _rank(tool, query, question["gold"])
    return ranks


def _tools(memory: "AgentMemory") -> "Sequence[BaseTool]":
    from langchain_agentmem.tools.toolkit import AgentMemoryToolkit

    return AgentMemoryToolkit(memory=memory).get_tools()


def _call(tool: "BaseTool", query: str, limit: int) -> "ToolMessage":
    call = {"name": tool.name, "args": {"query": query, "limit": limit}, "id": "demo"}
    answer: ToolMessage = tool.invoke({"type": "tool_call", **call})
    return answer


def _rank(tool: "BaseTool", query: str, gold: list[str]) -> int | None:
    found = _call(tool, query, _SEARCHED).artifact["results"]
    return next((rank for rank, hit in enumerate(found, start=1) if hit["id"] in gold), None)


def _compare(
    console: "Console", questions: Questions, with_embedding: Ranks, without: Ranks
) -> None:
    from rich.table import Table

    table = Table("query", "with embedding", "by keywords alone", box=None)
    for asked in questions.values():
        for question in asked:
            query = question["query"]
            ranks = (with_embedding[query], without[query])
            table.add_row(
                query, *("not found" if rank is None else f"rank {rank}" for rank in ranks)
            )
    console.print(table)
