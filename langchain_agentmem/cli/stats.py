"""`agentmem stats`: what is in a memory, as tables."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_agentmem.cli.options import DEFAULT_FOLDER, Embedding, Folder, fail, open_memory
from langchain_agentmem.errors import AgentMemoryError

if TYPE_CHECKING:
    from rich.table import Table

    from langchain_agentmem.reports import KindStats, MemoryStats

_UNNAMED = "(none)"
_NAME_WIDTH = 44


def stats(
    *,
    most: Annotated[int, typer.Option(min=1, help="Values of each kind that are shown.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    memory: Folder = DEFAULT_FOLDER,
    embedding: Embedding = None,
) -> None:
    """Count memories and messages by type, role, scene, session, scope and month; their sizes."""
    from rich.console import Console

    with open_memory(memory, embedding, must_exist=True) as opened:
        try:
            counted = opened.stats(most=most)
        except AgentMemoryError as error:
            fail(str(error))
    if as_json:
        typer.echo(json.dumps(counted.to_dict(), ensure_ascii=False, indent=2))
        return
    console = Console(highlight=False)
    for table in _tables(counted):
        console.print(table)


def _tables(counted: "MemoryStats") -> "Iterator[Table]":
    yield _overview(counted)
    for noun, kind in (("memories", counted.memories), ("messages", counted.messages)):
        if kind.total:
            yield _counts(noun, kind)


def _overview(counted: "MemoryStats") -> "Table":
    from rich.markup import escape

    table = _table("", "memories", "messages", title=escape(counted.location))
    pair = (counted.memories, counted.messages)
    rows = {
        "records": [f"{kind.total:,}" for kind in pair],
        "deleted, can be restored": [f"{kind.deleted:,}" for kind in pair],
        "waiting for their vectors": [f"{kind.pending:,}" for kind in pair],
        "first": [f"{kind.first:%Y-%m-%d}" if kind.first else "" for kind in pair],
        "last": [f"{kind.last:%Y-%m-%d}" if kind.last else "" for kind in pair],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    for part, size in counted.sizes.items():
        table.add_row(f"{part} on disk", f"{size / 1e6:,.1f} MB", "")
    return table


def _counts(noun: str, kind: "KindStats") -> "Table":
    from rich.markup import escape

    table = _table(f"{noun} by", "", "records", "share")
    for what, counts in kind.by.items():
        rows = [(escape(_shown(name)), count) for name, count in counts.most.items()]
        hidden = counts.distinct - len(counts.most)
        if hidden > 0:
            rest = kind.total - sum(counts.most.values())
            if what == "month":
                rows.insert(0, (f"... {hidden:,} earlier", rest))
            else:
                rows.append((f"... {hidden:,} others", rest))
        label = f"{what} ({counts.distinct:,})"
        for name, count in rows:
            table.add_row(label, name, f"{count:,}", f"{count / kind.total:.0%}")
            label = ""
        table.add_section()
    return table


def _shown(name: str) -> str:
    """Return a name as one line, its middle left out where it is long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split()) or _UNNAMED
    if len(line) <= _NAME_WIDTH:
        return line
    half = (_NAME_WIDTH - 1) // 2
    return f"{line[:half]}…{line[-half:]}"


def _table(*heads: str, title: str | None = None) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for position, head in enumerate(heads):
        numbers = head in ("memories", "messages", "records", "share")
        table.add_column(
            head,
            justify="right" if numbers else "left",
            no_wrap=numbers or position == 0,
            overflow="ellipsis" if position else "fold",
        )
    return table
