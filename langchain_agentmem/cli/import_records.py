"""`agentmem import`: JSON Lines into a memory."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_agentmem.cli.options import DEFAULT_FOLDER, Embedding, Folder, fail, open_memory
from langchain_agentmem.cli.sync import progress_bar
from langchain_agentmem.errors import AgentMemoryError

if TYPE_CHECKING:
    from langchain_agentmem.interchange import Line
    from langchain_agentmem.memory import AgentMemory

_BATCH = 500
_PROBLEMS_SHOWN = 20


def import_records(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="JSON Lines files, or folders that hold messages.jsonl or memories.jsonl."
        ),
    ],
    prefix: Annotated[
        str | None,
        typer.Option(
            help="Put before ids and session keys. Default: the folder's name and a slash where "
            "several folders are given, so that equal ids of theirs stay apart; else nothing.",
            show_default=False,
        ),
    ] = None,
    *,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace records that are there in another version."),
    ] = False,
    memory: Folder = DEFAULT_FOLDER,
    embedding: Embedding = None,
) -> None:
    """Import memories and messages. Bad lines are reported by number, the rest is kept."""
    from langchain_agentmem.interchange import count_lines, files_of, read_records

    try:
        sources = [(path, file) for path in paths for file in files_of(path)]
        total = sum(count_lines(file) for _, file in sources)
    except (OSError, ValueError) as error:
        fail(str(error))
    several_folders = len({path.resolve() for path in paths if path.is_dir()}) > 1
    counts: Counter[str] = Counter()
    problems: list[str] = []
    with open_memory(memory, embedding) as opened:
        with progress_bar() as progress:
            task = progress.add_task("importing", total=total)
            for path, file in sources:
                own = f"{path.resolve().name}/" if several_folders and path.is_dir() else ""
                used = own if prefix is None else prefix
                for lines in _batches(read_records(file, used)):
                    try:
                        problems += _save(opened, lines, counts, replace=replace)
                    except AgentMemoryError as error:
                        fail(str(error))
                    progress.advance(task, len(lines))
        status = opened.status()
    _report(memory, counts, problems, status.problems)
    if problems:
        raise typer.Exit(1)


def _batches(lines: "Iterator[Line]") -> "Iterator[list[Line]]":
    batch: list[Line] = []
    for line in lines:
        batch.append(line)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _save(
    memory: "AgentMemory", lines: "list[Line]", counts: Counter[str], *, replace: bool
) -> list[str]:
    """Save a batch; returns what is wrong with its lines."""
    from langchain_agentmem.interchange import Line
    from langchain_agentmem.records import Memory, Message

    problems = [str(line) for line in lines if line.record is None]
    for noun, record_type in (("memories", Memory), ("messages", Message)):
        chosen = [line for line in lines if isinstance(line.record, record_type)]
        if not chosen:
            continue
        records = [line.record for line in chosen]
        if record_type is Memory:
            report = memory.add_memories(records, replace=replace)  # type: ignore[arg-type]
        else:
            report = memory.add_messages(None, records, replace=replace)
        counts[noun] += report.saved
        counts["duplicates"] += report.duplicates
        counts["vectors"] += report.indexed
        for position in report.conflicts:
            line = chosen[position]
            problem = (
                f'id: "{line.record.id if line.record else ""}" is there with other content; '
                "kept as it was (--replace takes the new one, --prefix keeps both)"
            )
            problems.append(str(Line(line.path, line.number, None, problem)))
    return problems


def _report(memory: Path, counts: Counter[str], problems: list[str], degraded: list[str]) -> None:
    typer.echo(
        f"{memory}: saved {counts['memories']} memories and {counts['messages']} messages, "
        f"{counts['duplicates']} were there already; wrote {counts['vectors']} vectors"
    )
    for problem in degraded:
        typer.echo(f"Note: {problem}")
    for problem in problems[:_PROBLEMS_SHOWN]:
        typer.echo(problem, err=True)
    if problems:
        hidden = len(problems) - _PROBLEMS_SHOWN
        more = f" ({hidden} not shown)" if hidden > 0 else ""
        lines = "line was" if len(problems) == 1 else "lines were"
        typer.echo(f"{len(problems)} {lines} not imported{more}", err=True)
