"""The strings that an agent reads.

What a record contains can never be read as another entry, a header, a divider or a note, nor close
a tag around the output: such lines and tags get a backslash. `tests/tools/output_parser.py` reads
every output back into its entries.
"""

import string
from collections.abc import Callable
from functools import partial
from typing import Any

import regex

from langchain_agentmem.quoting import (
    BLANK,
    INVISIBLE,
    quote,
    without_closing_tags,
    without_controls,
)
from langchain_agentmem.records import format_time
from langchain_agentmem.results import ContextMessage, MemoryHit, MessageHit, SearchResult

MAX_CONTENT_CHARS = 2000
"""Longer contents are cut in the string; the artifact has them whole."""

MAX_CONTEXT_CHARS = 300
"""Longer messages beside a result are cut in the string."""

NO_MEMORIES = "No matching memories found."
NO_MESSAGES = "No matching conversation messages found."

# A line that could be taken for part of the output's own structure, also behind characters that
# cannot be seen; backslashes before it count, so that escaping can be undone without doubt.
_STRUCTURE = regex.compile(
    rf"[{BLANK}]*\\*(?:(?:[-*+][{BLANK}]+)?(?:\*\*|__)\[|Note:|Found \d|No matching "
    r"|No (?:memory|message) has |There are no (?:memories|messages) "
    rf"|(?:[-*_][{BLANK}]*){{3,}}$)",
    regex.IGNORECASE,
)
_QUOTED = regex.compile(rf"[{BLANK}]*\\*>")
_CONTEXT_MARK = regex.compile(rf"[{BLANK}]*\\*>[{BLANK}]*\((?:before|after)\)", regex.IGNORECASE)
# What makes a line no other one: it shows nothing, or a mark on the character before it.
_PASSED_OVER = regex.compile(rf"[{INVISIBLE}\p{{M}}]+")
_BEFORE_ESCAPE = regex.compile(rf"[{BLANK}\p{{M}}]*\\*")
# What nearly all lines begin with, and none that the patterns match: asking them takes far longer.
_HARMLESS = frozenset(string.ascii_letters + string.digits) - frozenset("FfNnTt")


def format_memories(result: SearchResult[MemoryHit], *, show_ids: bool = False) -> str:
    """Return what an agent reads of a memory search, with ids where it may edit."""
    entry = partial(_memory_entry, show_id=show_ids)
    return _format(result, ("memory", "memories"), NO_MEMORIES, entry)


def format_messages(result: SearchResult[MessageHit], *, show_ids: bool = False) -> str:
    """Return what an agent reads of a conversation search, with ids where wanted."""
    entry = partial(_message_entry, show_id=show_ids)
    return _format(result, ("message", "messages"), NO_MESSAGES, entry)


def _format(
    result: SearchResult[Any],
    nouns: tuple[str, str],
    nothing: str,
    entry: Callable[[Any], str],
) -> str:
    if result.message is not None:
        return result.message
    if result.results:
        noun = nouns[0] if result.total == 1 else nouns[1]
        heading = f"Found {result.total} matching {noun} (strategy: {result.strategy}):"
        blocks = [heading, *map(entry, result.results)]
    else:
        blocks = [nothing]
    if result.notes:
        blocks.append("\n".join(f"Note: {_one_line(note)}" for note in result.notes))
    return "\n\n".join(blocks)


def _memory_entry(hit: MemoryHit, *, show_id: bool) -> str:
    level = "(global instruction)" if hit.priority < 0 else f"(priority: {hit.priority})"
    scene = f" [scene: {quote(hit.scene_name)}]" if hit.scene_name else ""
    shown = f" [id: {quote(hit.id)}]" if show_id else ""
    header = f"- **[{quote(hit.type)}]** {level}{scene} (score: {hit.score:.3f}){shown}"
    return "\n".join([header, *(f"  {line}" for line in _content_lines(hit.content))])


def _message_entry(hit: MessageHit, *, show_id: bool) -> str:
    moment = format_time(hit.recorded_at, timespec="seconds")
    shown = f" [id: {quote(hit.id)}]" if show_id else ""
    header = (
        f"**[{hit.role}]** Session: {quote(hit.session_key)} [{moment}] "
        f"(score: {hit.score:.3f}){shown}"
    )
    lines = ["---", header, ""]
    if hit.before:
        lines += [*(_context_line(each, "before") for each in hit.before), ""]
    # Beside context, a quotation in the text must not be taken for more of it; nor elsewhere what
    # looks like context.
    mark = _QUOTED if hit.before or hit.after else _CONTEXT_MARK
    lines += [_escaped(mark, line) for line in _content_lines(hit.content)]
    if hit.after:
        lines += ["", *(_context_line(each, "after") for each in hit.after)]
    return "\n".join(lines)


def _context_line(message: ContextMessage, where: str) -> str:
    speaker = (
        f"{message.role} {quote(message.name, separator=':')}" if message.name else message.role
    )
    text = _one_line(message.content)
    if len(text) > MAX_CONTEXT_CHARS:
        text = f"{text[:MAX_CONTEXT_CHARS]} [... cut]"
    return f"> ({where}) {speaker}: {text}"


def _content_lines(content: str) -> list[str]:
    cut = content[:MAX_CONTENT_CHARS]
    if len(cut) < len(content):
        cut += f" [... cut: {len(cut)} of {len(content)} characters shown]"
    lines = map(without_controls, cut.strip("\r\n").splitlines())
    text = without_closing_tags("\n".join(lines))  # of all lines: a tag may be spread over some
    return [_escaped(_STRUCTURE, line) for line in text.split("\n")]


def _escaped(pattern: regex.Pattern[str], line: str) -> str:
    """Return `line` with one more backslash before what `pattern` matches, if it reads so."""
    if line[:1] in _HARMLESS or not pattern.match(_PASSED_OVER.sub("", line)):
        return line
    return _BEFORE_ESCAPE.sub(r"\g<0>\\", line, count=1)


def _one_line(text: str) -> str:
    return without_closing_tags(without_controls(" ".join(text.split())))
