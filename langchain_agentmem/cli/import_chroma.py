"""`agentmem import-chroma`: a Chroma collection into a memory, with its vectors."""

from enum import StrEnum
from typing import Annotated

import typer

from langchain_agentmem.cli.import_records import tell
from langchain_agentmem.cli.options import DEFAULT_FOLDER, Folder, fail, open_memory
from langchain_agentmem.cli.sync import progress_bar
from langchain_agentmem.errors import AgentMemoryError


class Into(StrEnum):
    """What documents become."""

    MEMORIES = "memories"
    CONVERSATIONS = "conversations"


def import_chroma(
    source: Annotated[
        str, typer.Argument(help="Chroma's folder, or the address of a Chroma server.")
    ],
    collection: Annotated[
        str | None,
        typer.Option(help="The collection's name; not needed where there is one alone."),
    ] = None,
    *,
    into: Annotated[Into, typer.Option(help="What documents become.")] = Into.MEMORIES,
    embed_anew: Annotated[
        bool,
        typer.Option(
            "--embed-anew", help="Copy no vectors: `agentmem sync` embeds the documents anew."
        ),
    ] = False,
    memory: Folder = DEFAULT_FOLDER,
    embedding: Annotated[
        str | None,
        typer.Option(
            help="The provider of the embedding that made the vectors, which are copied then. "
            "Default: the AGENTMEM_EMBEDDING_* settings, else none: keywords alone, until it is "
            "imported once more with its embedding.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Import a Chroma collection: ids, texts, metadata and vectors. It is only read."""
    from langchain_agentmem.embeddings.provider import embedding_of_store
    from langchain_agentmem.storage.foreign_collection import collection_in

    try:
        found = collection_in(source, collection)
        chosen = embedding_of_store(embedding, found)
    except ValueError as error:
        fail(str(error))
    with open_memory(memory, chosen) as opened:
        try:
            with progress_bar() as progress:
                task = progress.add_task("importing", total=None)
                report = opened.import_chroma(
                    found,
                    into=into.value,
                    copy_vectors=not embed_anew,
                    progress=lambda done, left: progress.update(
                        task, completed=done, total=done + left
                    ),
                )
        except (AgentMemoryError, ValueError) as error:
            fail(str(error).replace("copy_vectors=False", "--embed-anew"))
        status = opened.status()
    tell(
        memory,
        report,
        status.problems,
        noun="document",
        on_conflict="--memory with another folder takes them as the collection has them",
    )
    if status.embedding is None:
        typer.echo("Note: without an embedding no vectors were copied; keywords find everything")
    if report.skipped or report.conflicts:
        raise typer.Exit(1)
