"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Never

import typer

from langchain_agentmem.errors import AgentMemoryError, describe

if TYPE_CHECKING:
    from langchain_agentmem.embeddings.provider import EmbeddingChoice
    from langchain_agentmem.memory import AgentMemory
    from langchain_agentmem.scopes import Config

Folder = Annotated[
    Path,
    typer.Option(
        "--memory", "-m", envvar="AGENTMEM_FOLDER", help="The memory's folder.", file_okay=False
    ),
]
Embedding = Annotated[
    str | None,
    typer.Option(
        help="Embedding provider: local, chroma, openai_compatible or none. "
        "Default: the AGENTMEM_EMBEDDING_* settings, else local where it is installed.",
        show_default=False,
    ),
]
User = Annotated[
    str | None,
    typer.Option(
        help="Only what a turn of this user sees; an import files under this user what names no "
        "owner. Default: everything, filed under nobody.",
        show_default=False,
    ),
]
DEFAULT_FOLDER = Path("agent-memory")


def open_memory(
    folder: Path, embedding: "EmbeddingChoice", *, must_exist: bool = False
) -> "AgentMemory":
    """Open a memory, or end the command with a message."""
    # Not before it is needed: `--help` is to answer at once.
    from langchain_agentmem.memory import AgentMemory
    from langchain_agentmem.storage.folder import FILE_NAME

    if must_exist and not (folder / FILE_NAME).is_file():
        fail(f"no memory in {folder}: make one with `agentmem import`, or name it with --memory")
    try:
        return AgentMemory.open(folder, embedding=embedding)
    except (AgentMemoryError, ValueError) as error:
        fail(describe(error))


def config_of(user: str | None) -> "Config | None":
    """Return the config of a turn of this user, None for nobody's; a blank name ends the command.

    A blank one would be taken for nobody's, and reach everybody's records.
    """
    if user is None:
        return None
    if not user.strip():
        fail("--user names nobody: leave it out for what everybody said")
    return {"configurable": {"user_id": user}}


def fail(message: str) -> Never:
    """End the command with a message on stderr and exit code 2."""
    typer.echo(f"agentmem: {message}", err=True)
    raise typer.Exit(2)
