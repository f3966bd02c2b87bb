"""Saves what the readers of files read, in batches; what is wrong is named and the rest is kept."""

import itertools
from collections.abc import Callable, Iterable, Sequence

from langchain_agentmem.interchange import Line
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.records import Memory, Message
from langchain_agentmem.reports import ImportReport
from langchain_agentmem.results import WriteReport
from langchain_agentmem.searching import Config
from langchain_agentmem.storage.write_behind import WriteBehind

_BATCH = 500


def import_lines(
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

    Raises:
        StorageError: The database cannot be written. Earlier batches are kept.
    """
    report = ImportReport()
    remaining = iter(lines)
    with WriteBehind() as behind:
        while batch := list(itertools.islice(remaining, _BATCH)):
            unread = [str(line) for line in batch if line.record is None]
            report += ImportReport(skipped=len(unread), problems=unread)
            memories = [line for line in batch if isinstance(line.record, Memory)]
            messages = [line for line in batch if isinstance(line.record, Message)]
            if memories:
                known = [line.record for line in memories if isinstance(line.record, Memory)]
                done = memory.add_memories(known, replace=replace, config=config)
                report += _report(done, memories, memories=done.saved)
            if messages:
                said = [line.record for line in messages]
                done = memory.add_messages(None, said, replace=replace, config=config)
                report += _report(done, messages, messages=done.saved)
            if progress is not None:
                progress(len(batch))
    return report + ImportReport(indexed=behind.last.written, pending=memory.status().pending)


def _report(
    done: WriteReport, lines: Sequence[Line], *, memories: int = 0, messages: int = 0
) -> ImportReport:
    return ImportReport(
        memories=memories,
        messages=messages,
        duplicates=done.duplicates,
        conflicts=len(done.conflicts),
        indexed=done.indexed,
        problems=[_conflict(lines[position]) for position in done.conflicts],
    )


def _conflict(line: Line) -> str:
    known = line.record.id if line.record else ""
    problem = f'id: "{known}" is there with other content; kept as it was'
    return str(Line(line.path, line.number, None, problem, line.unit))
