"""Reads what an agent reads, strictly: any output of either tool back into its entries.

Nothing is guessed. A line that has no place in the output's grammar, or a line of a record's
content that could be taken for structure and is not escaped, is a `ParseError`. Contents come back
as they were before they were escaped, with a line feed between their lines.
"""

import json
from dataclasses import dataclass, field
from typing import Literal

import regex

Kind = Literal["memories", "messages"]

# What is invisible at the start of a line does not make the line another one.
# Nor do accents and the like, wherever they are.
INVISIBLE = r"\p{Cf}\p{Default_Ignorable_Code_Point}\u2800\p{M}"
BLANK = rf"\s\p{{Z}}{INVISIBLE}"
STRUCTURE = (
    rf"(?:[-*+][{BLANK}]+)?(?:\*\*|__)\[|Note:|Found \d|No matching "
    r"|No (?:memory|message) has |There are no (?:memories|messages) "
    rf"|(?:[-*_][{BLANK}]*){{3,}}$"
)
_ESCAPABLE = regex.compile(rf"[{BLANK}]*\\*(?:{STRUCTURE})", regex.IGNORECASE)
_UNESCAPED = regex.compile(rf"[{BLANK}]*(?:{STRUCTURE})", regex.IGNORECASE)
_START = regex.compile(rf"([{BLANK}]*\\*)(.*)", regex.DOTALL)
_TAG = regex.compile(rf"<[{BLANK}]*/")
_ESCAPED_TAG = regex.compile(rf"<([{BLANK}]*\\*)\\/")

_HEADING = regex.compile(
    r"Found (?P<count>\d+) matching (?P<noun>memory|memories|message|messages)"
    r" \(strategy: (?P<strategy>hybrid|embedding|fts)\):"
)
_LABEL = r'(?:"(?:[^"\\]|\\.)*"|[^"\[\]()<>*`\\]+)'
_MEMORY = regex.compile(
    rf"- \*\*\[(?P<type>{_LABEL})\]\*\*"
    r" (?:\(global instruction\)|\(priority: (?P<priority>\d+)\))"
    rf"(?: \[scene: (?P<scene>{_LABEL})\])?"
    r" \(score: (?P<score>\d+\.\d{3})\)"
    rf"(?: \[id: (?P<id>{_LABEL})\])?"
)
_MESSAGE = regex.compile(
    r"\*\*\[(?P<role>user|assistant|system|tool)\]\*\*"
    rf" Session: (?P<session_key>{_LABEL})"
    r" \[(?P<recorded_at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\]"
    r" \(score: (?P<score>\d+\.\d{3})\)"
)
# A speaker's name that holds a colon must be quoted: the first one ends the plain name.
_CONTEXT = regex.compile(
    r"> \((?P<where>before|after)\) (?P<role>user|assistant)"
    r'(?: (?P<name>"(?:[^"\\]|\\.)*"|[^":\[\]()<>*`\\]+))?: (?P<text>.*)'
)
_QUOTED = regex.compile(rf"[{BLANK}]*>")
_CONTEXT_LOOKALIKE = regex.compile(rf"[{BLANK}]*>[{BLANK}]*\((?:before|after)\)", regex.IGNORECASE)
_ESCAPABLE_LOOKALIKE = regex.compile(
    rf"[{BLANK}]*\\*>[{BLANK}]*\((?:before|after)\)", regex.IGNORECASE
)
_ESCAPABLE_QUOTE = regex.compile(rf"[{BLANK}]*\\*>")
_NOTHING = {
    "memories": "No matching memories found.",
    "messages": "No matching conversation messages found.",
}
_NOUNS = {"memories": ("memory", "memories"), "messages": ("message", "messages")}


class ParseError(ValueError):
    """The output breaks its own grammar."""


@dataclass(frozen=True)
class MemoryEntry:
    """A memory as an agent reads it; `priority` is None for a global instruction."""

    type: str
    priority: int | None
    scene: str | None
    score: str
    content: str
    id: str | None = None
    """Shown where the agent may edit."""


@dataclass(frozen=True)
class ContextEntry:
    """A message beside a result as an agent reads it."""

    role: str
    name: str | None
    text: str


@dataclass(frozen=True)
class MessageEntry:
    """A message as an agent reads it."""

    role: str
    session_key: str
    recorded_at: str
    score: str
    content: str
    before: list[ContextEntry] = field(default_factory=list)
    after: list[ContextEntry] = field(default_factory=list)


@dataclass(frozen=True)
class Output:
    """One output. With a `message` there is nothing else."""

    count: int = 0
    strategy: str | None = None
    entries: list[MemoryEntry] | list[MessageEntry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    message: str | None = None


def parse(kind: Kind, text: str) -> Output:
    """Read an output of `memory_search` (memories) or `conversation_search` (messages)."""
    lines = text.split("\n")
    if len(f"{text}|".splitlines()) != len(lines):  # the mark is for a last line that is empty
        msg = f"a line separator other than \\n: {text!r}"
        raise ParseError(msg)
    if lines[0] == _NOTHING[kind]:
        return Output(notes=_notes(lines[1:]))
    heading = _HEADING.fullmatch(lines[0])
    if heading is None:
        return Output(message=text)
    count = int(heading["count"])
    if count < 1 or heading["noun"] != _NOUNS[kind][count > 1]:
        msg = f"heading {lines[0]!r}"
        raise ParseError(msg)
    rest = lines[1:]
    entries: list[MemoryEntry] | list[MessageEntry]
    entries, rest = _memories(rest) if kind == "memories" else _messages(rest)
    if len(entries) != count:
        msg = f"{count} announced, {len(entries)} there"
        raise ParseError(msg)
    return Output(count, heading["strategy"], entries, _notes(rest))


def _notes(lines: list[str]) -> list[str]:
    if not lines:
        return []
    if lines[0] or not lines[1:] or not all(line.startswith("Note: ") for line in lines[1:]):
        msg = f"neither entries nor notes: {lines!r}"
        raise ParseError(msg)
    return [_without_tag_escapes(line.removeprefix("Note: ")) for line in lines[1:]]


def _memories(lines: list[str]) -> tuple[list[MemoryEntry], list[str]]:
    entries: list[MemoryEntry] = []
    while len(lines) > 1 and not lines[0] and lines[1].startswith("- "):
        header = _header(_MEMORY, lines[1])
        end = next((i for i, line in enumerate(lines) if i > 1 and not line), len(lines))
        if not all(line.startswith("  ") for line in lines[2:end]):
            msg = f"a line of the content is not indented: {lines[2:end]!r}"
            raise ParseError(msg)
        content = _content([line[2:] for line in lines[2:end]])
        priority = header["priority"]
        entries.append(
            MemoryEntry(
                _label(header["type"]),
                None if priority is None else int(priority),
                None if header["scene"] is None else _label(header["scene"]),
                header["score"],
                content,
                None if header["id"] is None else _label(header["id"]),
            )
        )
        lines = lines[end:]
    return entries, lines


def _messages(lines: list[str]) -> tuple[list[MessageEntry], list[str]]:
    entries: list[MessageEntry] = []
    while len(lines) > 3 and lines[:2] == ["", "---"]:
        header = _header(_MESSAGE, lines[2])
        if lines[3]:
            msg = f"no blank line after {lines[2]!r}"
            raise ParseError(msg)
        end = next(
            (
                i
                for i in range(4, len(lines) - 1)
                if not lines[i] and (lines[i + 1] == "---" or lines[i + 1].startswith("Note: "))
            ),
            len(lines),
        )
        before, content, after = _apart(lines[4:end])
        entries.append(
            MessageEntry(
                header["role"],
                _label(header["session_key"]),
                header["recorded_at"],
                header["score"],
                _beside(content) if before or after else _alone(content),
                before,
                after,
            )
        )
        lines = lines[end:]
    return entries, lines


def _apart(
    lines: list[str],
) -> tuple[list[ContextEntry], list[str], list[ContextEntry]]:
    """Part what was said before, the content, and what was said after; blank lines are between."""
    first = next((i for i, line in enumerate(lines) if not line.startswith("> (before) ")), 0)
    last = len(lines)
    while last > first and lines[last - 1].startswith("> (after) "):
        last -= 1
    before = [_context(line) for line in lines[:first]]
    after = [_context(line) for line in lines[last:]]
    start, end = first + bool(before), last - bool(after)
    if any((before and lines[first], after and lines[end])):
        msg = f"no blank line between context and content: {lines!r}"
        raise ParseError(msg)
    return before, lines[start:end], after


def _context(line: str) -> ContextEntry:
    found = _header(_CONTEXT, line)
    if _TAG.search(found["text"]):
        msg = f"context that closes a tag: {line!r}"
        raise ParseError(msg)
    name = found["name"]
    return ContextEntry(
        found["role"],
        None if name is None else _label(name),
        _without_tag_escapes(found["text"]),
    )


def _alone(lines: list[str]) -> str:
    for line in lines:
        if _CONTEXT_LOOKALIKE.match(_bare(line)):
            msg = f"content that reads as context: {line!r}"
            raise ParseError(msg)
    return _content([_without_escape(_ESCAPABLE_LOOKALIKE, line) for line in lines])


def _beside(lines: list[str]) -> str:
    for line in lines:
        if _QUOTED.match(_bare(line)):
            msg = f"content that reads as context: {line!r}"
            raise ParseError(msg)
    return _content([_without_escape(_ESCAPABLE_QUOTE, line) for line in lines])


def _header(pattern: regex.Pattern[str], line: str) -> regex.Match[str]:
    found = pattern.fullmatch(line)
    if found is None:
        msg = f"header {line!r}"
        raise ParseError(msg)
    return found


def _label(shown: str) -> str:
    return str(json.loads(shown)) if shown.startswith('"') else shown


def _content(lines: list[str]) -> str:
    for line in lines:
        if _UNESCAPED.match(_bare(line)):
            msg = f"content that reads as structure: {line!r}"
            raise ParseError(msg)
    content = "\n".join(lines)
    if _TAG.search(content):
        msg = f"content that closes a tag: {content!r}"
        raise ParseError(msg)
    return _without_tag_escapes("\n".join(_without_escape(_ESCAPABLE, line) for line in lines))


def _bare(line: str) -> str:
    return regex.sub(f"[{INVISIBLE}]", "", line)


def _without_escape(escapable: regex.Pattern[str], line: str) -> str:
    """Take the backslash away that keeps a line from reading as structure."""
    start, rest = _header(_START, line).groups()
    before = f"{start[:-1]}{rest}"
    return before if start.endswith("\\") and escapable.match(_bare(before)) else line


def _without_tag_escapes(line: str) -> str:
    return _ESCAPED_TAG.sub(r"<\1/", line)
