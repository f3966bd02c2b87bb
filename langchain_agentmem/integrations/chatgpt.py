"""ChatGPT's data export: `conversations.json`, alone, in its folder or in its zip file.

A conversation is a tree; what counts is the branch that was open last. What user and assistant
said becomes messages, tools' output too; hidden texts, thoughts and calls of tools are left out.
"""

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from langchain_agentmem.capture import unstated
from langchain_agentmem.errors import describe
from langchain_agentmem.integrations.imports import import_lines, later
from langchain_agentmem.interchange import Line
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.records import Message, is_blank, parse_time
from langchain_agentmem.reports import ImportReport
from langchain_agentmem.scopes import Config

UNIT = "conversation"
_FILE = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_NOT_SAID = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")


def import_chatgpt(
    memory: AgentMemory, path: str | Path, *, config: Config | None = None
) -> ImportReport:
    """Take the conversations of a ChatGPT export in. Doing it again adds what is new.

    Args:
        memory: Where they are kept. The session key is the conversation's id; its title is in the
            messages' metadata.
        path: `conversations.json`, its folder, or the zip file that ChatGPT sends.
        config: The `RunnableConfig` of a turn: the messages become its user's.

    Raises:
        ValueError: It is no such export. What is wrong with a single conversation, or with a later
            one of several files, is among the report's problems.
        StorageError: The database cannot be written.
    """
    files = files_of_export(Path(path).expanduser())
    return import_lines(memory, _read_all(files), config=config)


def files_of_export(path: Path) -> list[Path]:
    """Return the files to read: those of a folder (one, or numbered parts), else the path.

    Raises:
        ValueError: There are none.
    """
    found = [path] if path.is_file() else files_in(path)
    if not found:
        msg = f"{path}: no conversations.json there"
        raise ValueError(msg)
    return found


def files_in(folder: Path) -> list[Path]:
    """Return the files of an export that a folder holds, in order."""
    if not folder.is_dir():
        return []
    return sorted(file for file in folder.iterdir() if _FILE.fullmatch(file.name))


def read_chatgpt(path: Path, prefix: str = "") -> Iterator[Line]:
    """Read the messages of all conversations, each conversation's in order.

    Args:
        path: A JSON or zip file.
        prefix: Put before ids and session keys.

    Raises:
        ValueError: The file cannot be read, or the first of those in a zip file. A later one is
            named in a line, and the rest is read.
    """
    number = 0
    for part, load in enumerate(_parts(path), start=1):
        try:
            conversations = _conversations(load)
        except ValueError as error:
            if part == 1:
                msg = f"{path}: {error}"
                raise ValueError(msg) from error
            yield Line(path, part, None, str(error), "file")
            continue
        for conversation in conversations:
            number += 1
            try:
                yield from _read(path, number, conversation, prefix)
            except (ValueError, TypeError, AttributeError) as error:
                title = conversation.get("title") if isinstance(conversation, dict) else None
                named = f' ("{title}")' if title else ""
                yield Line(path, number, None, f"cannot be read{named}: {describe(error)}", UNIT)


def _read_all(files: Sequence[Path]) -> Iterator[Line]:
    """Read the files of one export. The first must be readable; of others that are not, it tells.

    Raises:
        ValueError: The first cannot be read.
    """
    for part, file in enumerate(files, start=1):
        try:
            yield from read_chatgpt(file)
        except ValueError as error:
            if part == 1:
                raise
            yield Line(file, 1, None, str(error).removeprefix(f"{file}: "), "file")


def _parts(path: Path) -> Iterator[Callable[[], bytes]]:
    """Return what reads each of the JSON files that a file is or holds.

    Raises:
        ValueError: It is a zip file that holds none, or is none.
    """
    if not zipfile.is_zipfile(path):
        yield path.read_bytes
        return
    try:
        archive = zipfile.ZipFile(path)
    except Exception as error:
        msg = f"{path}: cannot be read ({describe(error)})"
        raise ValueError(msg) from error
    with archive:
        names = sorted(name for name in archive.namelist() if _FILE.fullmatch(name))
        if not names:
            msg = f"{path}: holds no conversations.json"
            raise ValueError(msg)
        for name in names:
            yield partial(archive.read, name)


def _conversations(load: Callable[[], bytes]) -> list[Any]:
    try:
        document = json.loads(load().decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        msg = f"is not JSON ({error.msg} in line {error.lineno})"
        raise ValueError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"is not UTF-8 ({error.reason} at byte {error.start})"
        raise ValueError(msg) from error
    except Exception as error:  # each way of compressing has errors of its own
        msg = f"cannot be read ({describe(error)})"
        raise ValueError(msg) from error
    conversations = [document] if isinstance(document, dict) else document
    if not isinstance(conversations, list):
        msg = "no list of conversations"
        raise ValueError(msg)  # noqa: TRY004  (a bad file, like the others)
    return conversations


def _read(path: Path, number: int, conversation: Any, prefix: str) -> Iterator[Line]:
    if not isinstance(conversation, dict) or not isinstance(conversation.get("mapping"), dict):
        msg = "it has no mapping of messages"
        raise ValueError(msg)  # noqa: TRY004  (a bad conversation, like the others)
    session = conversation.get("conversation_id") or conversation.get("id")
    if not isinstance(session, str) or not session.strip():
        msg = "it has no id"
        raise ValueError(msg)
    metadata = {"source": "chatgpt"}
    title = conversation.get("title")
    if isinstance(title, str) and title.strip():
        metadata["title"] = title
    last = _time(conversation.get("create_time")) or datetime(1970, 1, 1, tzinfo=UTC)
    for node_id, message in _open_branch(conversation):
        text = _said(message)
        # Times of a branch do not always go up; its order is what is to be kept.
        last = later(_time(message.get("create_time")) or last, last)
        if is_blank(text):
            continue
        own = message.get("id")
        try:
            record = Message(
                id=f"{prefix}{own if own and isinstance(own, str) else node_id}",
                session_key=f"{prefix}{session}",
                role=message["author"]["role"],
                content=text,
                recorded_at=last,
                metadata=metadata,
            )
        except (ValidationError, KeyError, TypeError) as error:
            problem = f'message "{node_id}" cannot be read: {describe(error)}'
            yield Line(path, number, None, problem, UNIT)
        else:
            # A later export may have another title; what is there already stays as it is.
            record = unstated(record, "recorded_at", "metadata")
            yield Line(path, number, record, unit=UNIT)


def _open_branch(conversation: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the messages from the root to the one that was last in sight."""
    mapping: dict[str, Any] = conversation["mapping"]
    node_id = conversation.get("current_node")
    if node_id not in mapping:
        node_id = _latest_leaf(mapping)
    branch: list[tuple[str, Mapping[str, Any]]] = []
    passed: set[str] = set()
    while node_id in mapping and node_id not in passed:
        passed.add(node_id)
        node = mapping[node_id] or {}
        message = node.get("message")
        if isinstance(message, dict):
            branch.append((node_id, message))
        node_id = node.get("parent")
    return branch[::-1]


def _latest_leaf(mapping: Mapping[str, Any]) -> str | None:
    parents = {(node or {}).get("parent") for node in mapping.values()}

    def written(node_id: str) -> float:
        message = (mapping[node_id] or {}).get("message") or {}
        moment = _time(message.get("create_time"))
        return moment.timestamp() if moment else 0.0

    return max(
        (node_id for node_id in mapping if node_id not in parents), key=written, default=None
    )


def _said(message: Mapping[str, Any]) -> str:
    """Return the text of a message that was there to be read, or nothing."""
    content = message.get("content")
    hidden = (message.get("metadata") or {}).get("is_visually_hidden_from_conversation")
    to_a_tool = message.get("recipient") not in (None, "all")
    if not isinstance(content, dict) or hidden or to_a_tool or message.get("weight") == 0:
        return ""
    if content.get("content_type") in _NOT_SAID:
        return ""
    parts = content.get("parts")
    texts = map(_text_of, parts) if isinstance(parts, list) else [content.get("text")]
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def _text_of(part: Any) -> Any:
    """Return a part's text; what was spoken has its transcript, an image has none."""
    return part.get("text") if isinstance(part, dict) else part


def _time(value: Any) -> datetime | None:
    if not value or isinstance(value, bool):
        return None
    try:
        return parse_time(value)
    except ValueError:
        return None
