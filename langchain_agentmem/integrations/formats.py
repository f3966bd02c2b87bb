"""Which format a file is in, and what reads it."""

import json
import shlex
import zipfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from langchain_agentmem.integrations import chatgpt, histories
from langchain_agentmem.interchange import FILE_NAMES, Line, files_of, read_records
from langchain_agentmem.storage.folder import FILE_NAME as DATABASE_NAME

_HEAD_BYTES = 1 << 20
_DATABASE_FILES = [f"{DATABASE_NAME}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")]


class Format(StrEnum):
    """The formats that are read."""

    JSONL = "jsonl"
    CHATGPT = "chatgpt"
    LANGCHAIN = "langchain"


def sources_of(path: Path, chosen: Format | None = None) -> list[tuple[Path, Format]]:
    """Return the files to read for a file or a folder, each with its format.

    Args:
        path: A file, or a folder with files whose names tell what they are.
        chosen: The format; None: found out by looking into the files.

    Raises:
        ValueError: There is no such file, none in the folder, or it is a memory's own.
        OSError: A file cannot be read.
    """
    if path.is_file():
        # Told by its name: whoever reads a database gives up the locks that SQLite has on it in
        # the same process, as soon as he closes it.
        if path.resolve().name in _DATABASE_FILES:
            raise ValueError(_export_first(path, path.resolve().parent))
        return [(path, chosen or detect(path))]
    exported = any((path / name).is_file() for name in FILE_NAMES)
    is_memory = (path / DATABASE_NAME).is_file()
    if chosen is Format.JSONL or not path.is_dir():
        if is_memory and not exported:
            raise ValueError(_export_first(path, path))
        return [(file, Format.JSONL) for file in files_of(path)]
    found: list[tuple[Path, Format]] = []
    if chosen is None and exported:
        found = [(file, Format.JSONL) for file in files_of(path)]
    if chosen is Format.LANGCHAIN:
        found = [(file, chosen) for file in sorted(path.glob("*.json"))]
    elif conversations := chatgpt.files_in(path):
        found += [(file, Format.CHATGPT) for file in conversations]
    if not found:
        if is_memory:
            raise ValueError(_export_first(path, path))
        wanted = {None: [*FILE_NAMES, "conversations.json"], Format.LANGCHAIN: [".json file"]}
        names = wanted.get(chosen, ["conversations.json"])
        either = "neither" if len(names) > 1 else "no"
        msg = f"{path}: holds {either} {' nor '.join(names)}"
        raise ValueError(msg)
    return found


def _export_first(path: Path, folder: Path) -> str:
    way_out = (
        f"`agentmem export --memory {shlex.quote(str(folder))} FILE.jsonl` writes it to a file"
    )
    return f"{path}: is a memory; {way_out}"


def detect(path: Path) -> Format:
    """Tell the format of a file by what it begins with.

    Raises:
        OSError: The file cannot be read.
    """
    if zipfile.is_zipfile(path):
        return Format.CHATGPT
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).decode("utf-8-sig", "replace").lstrip()
    as_document = Format.CHATGPT if '"mapping"' in head else Format.LANGCHAIN
    if head.startswith("["):
        return as_document
    try:
        first = json.loads(head.partition("\n")[0])
    except RecursionError:  # nested too deeply: its reader says so
        return Format.JSONL
    except ValueError:  # an object over several lines, or a bad line
        return as_document if path.suffix.lower() == ".json" else Format.JSONL
    if not isinstance(first, dict) or "content" in first:
        return Format.JSONL
    if isinstance(first.get("mapping"), dict):
        return Format.CHATGPT
    return Format.LANGCHAIN if histories.is_history(first) else Format.JSONL


def read(
    path: Path, source: Format, prefix: str = "", session_key: str | None = None
) -> Iterator[Line]:
    """Read a file of this format.

    Args:
        path: The file.
        source: Its format.
        prefix: Put before ids and session keys.
        session_key: The conversation of LangChain messages that name none.

    Raises:
        ValueError: The file as a whole cannot be read.
    """
    if source is Format.CHATGPT:
        return chatgpt.read_chatgpt(path, prefix)
    if source is Format.LANGCHAIN:
        return histories.read_history(path, prefix, session_key)
    return read_records(path, prefix)
