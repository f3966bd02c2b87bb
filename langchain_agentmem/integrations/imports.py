"""Saves what the readers of files read, in batches; what is wrong is named and the rest is kept."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from langchain_agentmem.batches import take
from langchain_agentmem.errors import ScopeError, StorageError, describe
from langchain_agentmem.interchange import Line
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.records import Memory, Message
from langchain_agentmem.reports import ImportReport
from langchain_agentmem.results import WriteReport
from langchain_agentmem.scopes import Config
from langchain_agentmem.storage.vector_indexer import Progress
from langchain_agentmem.storage.write_behind import WriteBehind

_BATCH = 500
_LARGEST_BATCH = 2000
_QUICK_SECONDS = 1.0
"""A batch that took less may be followed by a larger one: each costs a write to disk. One that took
longer is followed by a smaller one, down to the first size."""
_STALLED_SECONDS = 300.0
"""How long the end of an import waits where no vectors come, though some wait to be written."""


def import_lines(
    memory: AgentMemory, lines: Iterable[Line], *, config: Config | None = None
) -> ImportReport:
    """Save records, and have all vectors written. Arguments and errors as in `save_lines`."""
    return write_waiting_vectors(memory, save_lines(memory, lines, config=config))


def save_lines(
    memory: AgentMemory,
    lines: Iterable[Line],
    *,
    replace: bool = False,
    config: Config | None = None,
    progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Save records in batches. A batch's vectors are written while the next one is saved.

    Args:
        memory: Where they are kept.
        lines: What was read.
        replace: Whether a record replaces another version of itself; if not, that is a problem.
        config: The `RunnableConfig` of the turn whose records they are, unless they say so.
        progress: Called after each batch with the number of lines in it.

    Returns:
        What was saved. How many vectors are pending, `write_waiting_vectors` tells.

    Raises:
        ScopeError: The turn may save nothing.
        StorageError: The database cannot be written. Earlier batches are kept.
    """
    report = ImportReport()
    remaining = iter(lines)
    size = _BATCH
    with WriteBehind() as behind:
        while batch := take(remaining, size, _length):
            started = time.monotonic()
            unread = [str(line) for line in batch if line.record is None]
            report += ImportReport(skipped=len(unread), problems=unread)
            memories = [line for line in batch if isinstance(line.record, Memory)]
            messages = [line for line in batch if isinstance(line.record, Message)]
            save = partial(memory.add_memories, replace=replace, config=config)
            report += _save(save, memories, "memories")
            save = partial(memory.add_messages, None, replace=replace, config=config)
            report += _save(save, messages, "messages")
            quick = time.monotonic() - started < _QUICK_SECONDS
            size = min(2 * size, _LARGEST_BATCH) if quick else max(size // 2, _BATCH)
            if progress is not None:
                progress(len(batch))
    return report + ImportReport(indexed=behind.last.written, problem=behind.last.problem)


def write_waiting_vectors(
    memory: AgentMemory, report: ImportReport, progress: Progress | None = None
) -> ImportReport:
    """Have the vectors written that wait, and report how many do still, and why.

    They wait where the embedding model failed for a while, and where an earlier import broke off:
    repeated, it saves nothing, so that no write would care for them.

    Args:
        memory: Where the records were saved.
        report: What was saved.
        progress: Called with the number of records done and of those that remain.
    """
    try:
        pending, problem = memory.status().pending, None
        if pending:
            done = memory.sync(progress, timeout=_STALLED_SECONDS)
            report = dataclasses.replace(report, indexed=report.indexed + done.indexed)
            pending, problem = done.pending, done.problem
    except StorageError as error:  # what is saved is saved
        return dataclasses.replace(report, problem=str(error))
    return dataclasses.replace(report, pending=pending, problem=problem if pending else None)


def later(moment: datetime, last: datetime) -> datetime:
    """Return a moment, moved behind `last` where it is not later: times keep the order."""
    return max(moment, last + timedelta(microseconds=1))


def _save(save: Callable[..., WriteReport], lines: Sequence[Line], kind: str) -> ImportReport:
    """Save what can be saved; one record that cannot is named, and found by halves.

    Raises:
        ScopeError: The turn may save nothing at all.
    """
    if not lines:
        return ImportReport()
    try:
        done = save([line.record for line in lines])
    except ScopeError:
        raise
    except ValueError as error:
        if len(lines) == 1:
            return ImportReport(skipped=1, problems=[_named(lines[0], describe(error))])
        half = len(lines) // 2
        return _save(save, lines[:half], kind) + _save(save, lines[half:], kind)
    return ImportReport(
        **{kind: done.saved},
        duplicates=done.duplicates,
        conflicts=len(done.conflicts),
        indexed=done.indexed,
        problem=done.problem,
        problems=[_conflict(lines[position]) for position in done.conflicts],
    )


def _length(line: Line) -> int:
    return line.length or (len(line.record.content) if line.record else 0)


def _conflict(line: Line) -> str:
    known = line.record.id if line.record else ""
    problem = f'id: "{known}" is there with other content; kept as it was'
    return _named(line, problem)


def _named(line: Line, problem: str) -> str:
    return str(Line(line.path, line.number, None, problem, line.unit))
