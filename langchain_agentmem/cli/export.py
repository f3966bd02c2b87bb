"""`agentmem export`: a memory as JSON Lines."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from langchain_agentmem.cli.options import DEFAULT_FOLDER, Folder, fail, open_memory
from langchain_agentmem.errors import AgentMemoryError


class Only(StrEnum):
    """What is written to standard output."""

    MEMORIES = "memories"
    CONVERSATIONS = "conversations"


def export(
    path: Annotated[
        Path,
        typer.Argument(
            help="A folder for memories.jsonl and messages.jsonl, a .jsonl file for both, or - "
            "for standard output.",
            allow_dash=True,
        ),
    ],
    *,
    only: Annotated[
        Only | None, typer.Option("--only", help="Standard output: memories or conversations.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Write over files that are there.")
    ] = False,
    memory: Folder = DEFAULT_FOLDER,
) -> None:
    """Export everything but deleted records; `agentmem import` reads it back unchanged."""
    to_stdout = str(path) == "-"
    if only and not to_stdout:
        fail("--only is for standard output: agentmem export - --only memories")
    with open_memory(memory, "none", must_exist=True) as opened:
        try:
            if to_stdout:
                for line in opened.export_lines(only.value if only else None):
                    sys.stdout.buffer.write(line.encode("utf-8"))
                sys.stdout.flush()
                return
            counts = opened.export(path, replace=replace)
        except (AgentMemoryError, ValueError) as error:
            fail(str(error).replace("replace=True", "--replace"))
    typer.echo(f"{path}: wrote {counts['memories']} memories and {counts['messages']} messages")
