"""`agentmem import`: JSON Lines, a ChatGPT export or LangChain messages into a memory."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from langchain_agentmem.cli.sync import progress_bar
from langchain_agentmem.cli.wording import counted, in_commands
from langchain_agentmem.errors import AgentMemoryError

if TYPE_CHECKING:
    from langchain_agentmem.reports import ImportReport

_PROBLEMS_SHOWN = 20


class FileFormat(StrEnum):
    """How a file is read."""

    AUTO = "auto"
    JSONL = "jsonl"
    CHATGPT = "chatgpt"
    LANGCHAIN = "langchain"


def import_records(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="JSON Lines, ChatGPT's conversations.json or its zip file, JSON of LangChain "
            "messages; or folders that hold messages.jsonl, memories.jsonl or conversations.json."
        ),
    ],
    prefix: Annotated[
        str | None,
        typer.Option(
            help="Put before ids and session keys. Default: the folder's name and a slash where "
            "several folders are given (more of the path where names are equal), so that equal "
            "ids of theirs stay apart; else nothing.",
            show_default=False,
        ),
    ] = None,
    *,
    file_format: Annotated[
        FileFormat, typer.Option("--format", help="The format; auto looks into the files.")
    ] = FileFormat.AUTO,
    session: Annotated[
        str | None,
        typer.Option(
            help="LangChain messages: the session key of a list that names none. Default: the "
            "file's name without its ending.",
            show_default=False,
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace records that are there in another version."),
    ] = False,
    user: User = None,
    memory: Folder = DEFAULT_FOLDER,
    embedding: Embedding = None,
) -> None:
    """Import memories and messages. Exits with 1 if some are bad: they are named, the rest kept."""
    from langchain_agentmem.integrations.formats import Format, read, sources_of
    from langchain_agentmem.integrations.imports import save_lines, write_waiting_vectors
    from langchain_agentmem.interchange import count_lines
    from langchain_agentmem.reports import ImportReport

    config = config_of(user)
    chosen = None if file_format is FileFormat.AUTO else Format(file_format.value)
    try:
        sources = [(path, *source) for path in paths for source in sources_of(path, chosen)]
        lines_alone = all(source is Format.JSONL for _, _, source in sources)
        total = sum(count_lines(file) for _, file, _ in sources) if lines_alone else None
    except (OSError, ValueError) as error:
        fail(str(error))
    if session is not None and all(source is not Format.LANGCHAIN for _, _, source in sources):
        fail("--session is for LangChain messages, and there are none")
    own_prefix = _own_prefixes({path.resolve() for path in paths if path.is_dir()})
    report = ImportReport()
    with open_memory(memory, embedding) as opened:
        with progress_bar() as progress:
            task = progress.add_task("importing", total=total)
            for path, file, source in sources:
                used = own_prefix.get(path.resolve(), "") if prefix is None else prefix
                try:
                    report += save_lines(
                        opened,
                        read(file, source, used, session),
                        replace=replace,
                        config=config,
                        progress=lambda count: progress.advance(task, count),
                    )
                except ValueError as error:  # of this file; the others are read all the same
                    report += ImportReport(skipped=1, problems=[str(error)])
                except AgentMemoryError as error:
                    fail(str(error))
            task = progress.add_task("writing vectors", total=None, visible=False)
            report = write_waiting_vectors(
                opened,
                report,
                lambda done, left: progress.update(
                    task, completed=done, total=done + left, visible=True
                ),
            )
        try:
            degraded = opened.status().problems
        except AgentMemoryError as error:  # of what was saved there is more to tell
            degraded = [str(error)]
    tell(
        memory,
        report,
        degraded,
        noun="line" if lines_alone else "part",
        on_conflict="--replace takes the new content, --prefix keeps both",
    )
    if report.problems:
        raise typer.Exit(1)


def _own_prefixes(folders: set[Path]) -> dict[Path, str]:
    """Return what tells the records of each of several folders from those of the others.

    That is its name, and as much of the path before it as folders of one name take.
    """
    if len(folders) < 2:  # noqa: PLR2004
        return {}
    prefixes: dict[Path, str] = {}
    for folder in folders:
        namesakes = [other for other in folders if other.name == folder.name]
        length = 1
        while len({other.parts[-length:] for other in namesakes}) < len(namesakes):
            length += 1
        prefixes[folder] = f"{'/'.join(folder.parts[-length:])}/"
    return prefixes


def tell(
    memory: Path, report: "ImportReport", degraded: list[str], *, noun: str, on_conflict: str
) -> None:
    """Print what an import did, and on stderr what it left out.

    Args:
        memory: The memory's folder.
        report: What the import did.
        degraded: What is amiss with the memory, a sentence each.
        noun: What is counted, in the singular.
        on_conflict: What to do where a record is there with other content.
    """
    saved = f"{counted(report.memories, 'memories')} and {counted(report.messages, 'messages')}"
    known = f"{report.duplicates} {'was' if report.duplicates == 1 else 'were'} there already"
    typer.echo(f"{memory}: saved {saved}, {known}; wrote {counted(report.indexed, 'vectors')}")
    told = " ".join(degraded)
    reasons = [report.problem] if report.problem and report.problem not in told else []
    for problem in [*degraded, *reasons]:
        typer.echo(f"Note: {in_commands(problem)}")
    for problem in report.problems[:_PROBLEMS_SHOWN]:
        # It may repeat what a file holds, and a terminal obeys control characters.
        shown = "".join(c if c.isprintable() else "\ufffd" for c in problem)
        typer.echo(shown, err=True)
    left_out = report.skipped + report.conflicts
    if left_out:
        hidden = len(report.problems) - _PROBLEMS_SHOWN
        more = f" ({hidden} not shown)" if hidden > 0 else ""
        were = f"{noun} was" if left_out == 1 else f"{noun}s were"
        typer.echo(f"{left_out} {were} not imported{more}", err=True)
    if report.conflicts:
        typer.echo(on_conflict, err=True)
