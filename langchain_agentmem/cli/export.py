"""`agentmem export`: a memory as JSON Lines."""

import codecs
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from langchain_agentmem.cli.options import (
    DEFAULT_FOLDER,
    Folder,
    User,
    config_of,
    fail,
    open_memory,
)
from langchain_agentmem.cli.wording import counted
from langchain_agentmem.errors import AgentMemoryError


class Only(StrEnum):
    """What is exported."""

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
        Only | None, typer.Option("--only", help="Export memories or conversations alone.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Write over files that are there.")
    ] = False,
    user: User = None,
    memory: Folder = DEFAULT_FOLDER,
) -> None:
    """Export everything but deleted records; `agentmem import` reads it back unchanged."""
    config = config_of(user)
    to_stdout = str(path) == "-"
    to = codecs.getwriter("utf-8")(sys.stdout.buffer) if to_stdout else path
    with open_memory(memory, "none", must_exist=True) as opened:
        try:
            counts = opened.export(
                to, only=only.value if only else None, replace=replace, config=config
            )
            sys.stdout.flush()
        except BrokenPipeError:  # whoever reads has enough
            raise
        except (AgentMemoryError, ValueError, OSError) as error:
            fail(str(error).replace("replace=True", "--replace"))
    if not to_stdout:
        wrote = " and ".join(counted(count, kind) for kind, count in counts.items())
        typer.echo(f"{path}: wrote {wrote}")
