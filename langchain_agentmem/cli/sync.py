"""`agentmem sync`: bring the vectors level with the records."""

from typing import TYPE_CHECKING

import typer

from langchain_agentmem.cli.options import DEFAULT_FOLDER, Embedding, Folder, fail, open_memory
from langchain_agentmem.cli.wording import counted, in_commands
from langchain_agentmem.errors import AgentMemoryError

if TYPE_CHECKING:
    from rich.progress import Progress


def progress_bar() -> "Progress":
    """Return a progress bar on stderr with rate and time left, which goes when it is done.

    There is none where nobody looks on.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class RateColumn(ProgressColumn):
        """How many are done in a second."""

        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f}/s")

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def sync(memory: Folder = DEFAULT_FOLDER, embedding: Embedding = None) -> None:
    """Write the vectors that are missing. Exits with 1 if that fails or some are missing still."""
    from langchain_agentmem.storage.vectors import OWNED_ELSEWHERE

    with open_memory(memory, embedding, must_exist=True) as opened:
        try:
            with progress_bar() as progress:
                task = progress.add_task("writing vectors", total=opened.status().pending)
                report = opened.sync(
                    lambda done, left: progress.update(task, completed=done, total=done + left)
                )
        except AgentMemoryError as error:
            fail(str(error))
    missing = f"{report.pending} {'is' if report.pending == 1 else 'are'} missing"
    typer.echo(f"{memory}: wrote {counted(report.indexed, 'vectors')}, {missing}")
    if report.problem:
        typer.echo(f"Note: {in_commands(report.problem)}", err=True)
    # A process that has the vector index cares for it: with nothing missing all is well. Any other
    # problem means that vectors are wanted and cannot be had, however few are known to be missing.
    if report.pending or report.problem not in (None, OWNED_ELSEWHERE):
        raise typer.Exit(1)
