"""`agentmem search`: what an agent would read."""

import json
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_agentmem.cli.options import (
    DEFAULT_FOLDER,
    Embedding,
    Folder,
    User,
    config_of,
    fail,
    open_memory,
)
from langchain_agentmem.cli.wording import in_commands
from langchain_agentmem.errors import AgentMemoryError

if TYPE_CHECKING:
    from rich.console import Console

    from langchain_agentmem.results import SearchResult

_TABLE_WIDTH = 160
"""Columns of a terminal below which a table of explanations cannot be read."""
_LEFT_OUT_WHERE_EMPTY = "source message"


class Where(StrEnum):
    """What is searched."""

    MEMORIES = "memories"
    CONVERSATIONS = "conversations"


def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    *,
    where: Annotated[Where, typer.Option("--in", help="What is searched.")] = Where.MEMORIES,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Results at the most.")] = 5,
    type_: Annotated[
        str | None, typer.Option("--type", help="Memories: only of this type.")
    ] = None,
    scene: Annotated[
        str | None, typer.Option(help="Memories: only where the scene name contains this.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="Only records of this conversation, by its session key.")
    ] = None,
    role: Annotated[
        str | None, typer.Option(help="Conversations: only of this role, such as user or tool.")
    ] = None,
    user: User = None,
    after: Annotated[str | None, typer.Option(help="Only from this time on, ISO 8601.")] = None,
    before: Annotated[str | None, typer.Option(help="Only up to this time, ISO 8601.")] = None,
    min_similarity: Annotated[
        float | None, typer.Option(min=-1, max=1, help="Only from this cosine to the query on.")
    ] = None,
    half_life_days: Annotated[
        float | None, typer.Option(help="The age at which a score counts half.")
    ] = None,
    diversity: Annotated[
        float | None, typer.Option(min=0, max=1, help="How much results must differ.")
    ] = None,
    context: Annotated[
        int, typer.Option(min=0, max=5, help="Conversations: messages shown around each result.")
    ] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how each result came to its place.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all fields as JSON.")] = False,
    memory: Folder = DEFAULT_FOLDER,
    embedding: Embedding = None,
) -> None:
    """Search a memory, and print what an agent would read."""
    from langchain_agentmem.tools.formatting import format_memories, format_messages

    options: dict[str, Any] = {
        "session_key": session,
        "after": after,
        "before": before,
        "min_similarity": min_similarity,
        "half_life_days": half_life_days,
        "diversity": diversity,
        "config": config_of(user),
        "explain": explain,
    }
    if where is Where.MEMORIES:
        options |= {"type": type_, "scene": scene}
        if context or role:
            fail("--context and --role are for --in conversations")
    elif type_ or scene:
        fail("--type and --scene are for --in memories")
    else:
        options |= {"context": context, "role": role}
    with open_memory(memory, embedding, must_exist=True) as opened:
        try:
            found: SearchResult[Any] = (
                opened.search_memories(query, limit, **options)
                if where is Where.MEMORIES
                else opened.search_conversations(query, limit, **options)
            )
        except (AgentMemoryError, ValueError) as error:
            fail(str(error))
    # In the notes alone: what was found is shown as it was saved.
    result = replace(found, notes=[in_commands(note) for note in found.notes])
    text = format_memories(result) if where is Where.MEMORIES else format_messages(result)
    typer.echo(json.dumps(result.to_dict(), ensure_ascii=False, indent=2) if as_json else text)
    if explain and not as_json:
        _explain(result, where)
        for step in result.plan:
            typer.echo(f"    {step}")


def _explain(result: "SearchResult[Any]", where: Where) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from langchain_agentmem.results import EXPLAIN_HEADS, explain_row
    from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES, RecordKind
    from langchain_agentmem.storage.text import index_text, query_terms, readable_terms

    kind: RecordKind[Any, Any] = MEMORIES if where is Where.MEMORIES else MESSAGES
    asked = {term.text: term.prefix for term in query_terms(result.query)}
    rows: list[list[str]] = []
    for number, hit in enumerate(result.results, start=1):
        words = set(index_text(kind.searched_text(hit)).split())
        matched = (
            term
            for term, prefix in asked.items()
            if term in words or (prefix and any(word.startswith(term) for word in words))
        )
        rows.append([*explain_row(number, hit), readable_terms(matched)])
    heads = [*EXPLAIN_HEADS, "matched terms"]
    console = Console(highlight=False)
    if console.width < _TABLE_WIDTH:
        _explain_below_each_other(console, heads, rows, result.strategy)
        return
    # What no result has takes no room.
    rare = heads.index(_LEFT_OUT_WHERE_EMPTY)
    empty = set() if any(row[rare] for row in rows) else {rare}
    table = Table(
        *(head for n, head in enumerate(heads) if n not in empty),
        title=f"strategy: {result.strategy}",
    )
    for row in rows:
        table.add_row(*(escape(cell) for n, cell in enumerate(row) if n not in empty))
    console.print(table)


def _explain_below_each_other(
    console: "Console", heads: list[str], rows: list[list[str]], strategy: str
) -> None:
    """Print what a table would hold where it has no room: each result's text, then its numbers."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(f"\nstrategy: {strategy}"))
    for number, content, *cells in rows:
        console.print(Text(f"{number:>2}  {content}"), no_wrap=True, overflow="ellipsis")
        known = [f"{head} {cell}" for head, cell in zip(heads[2:], cells, strict=True) if cell]
        console.print(Padding(Text(" · ".join(known), style="dim"), (0, 0, 0, 4)))
