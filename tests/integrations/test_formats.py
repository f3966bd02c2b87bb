"""A file's format is found out by looking into it."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.integrations.formats import Format, detect, sources_of

MESSAGE = {"type": "human", "data": {"content": "x"}}
CONVERSATION = {"title": "t", "mapping": {"a": {"message": None}}}
RECORD = {"session_key": "s", "role": "user", "content": 'a "mapping" of x'}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", json.dumps(RECORD), Format.JSONL),
        ("a.json", json.dumps(RECORD), Format.JSONL),
        ("a.jsonl", f"\n{json.dumps(RECORD)}\n{json.dumps(RECORD)}", Format.JSONL),
        ("a.jsonl", "{bad\n" + json.dumps(RECORD), Format.JSONL),
        ("a.jsonl", '{"id": "1"}', Format.JSONL),
        ("a.jsonl", "", Format.JSONL),
        ("a.jsonl", "\ufeff" + json.dumps(RECORD), Format.JSONL),
        ("a.json", json.dumps([CONVERSATION]), Format.CHATGPT),
        ("a.json", json.dumps([CONVERSATION], indent=2), Format.CHATGPT),
        ("a.json", json.dumps(CONVERSATION), Format.CHATGPT),
        ("a.json", json.dumps(CONVERSATION, indent=2), Format.CHATGPT),
        ("a.txt", json.dumps([MESSAGE]), Format.LANGCHAIN),
        ("a.json", json.dumps([MESSAGE], indent=2), Format.LANGCHAIN),
        ("a.json", json.dumps({"messages": [MESSAGE]}), Format.LANGCHAIN),
        ("a.json", json.dumps({"t-1": [MESSAGE], "t-2": []}, indent=2), Format.LANGCHAIN),
        ("a.json", json.dumps({"t-1": [MESSAGE]}), Format.LANGCHAIN),
    ],
)
def test_what_it_begins_with_tells(
    tmp_path: Path, name: str, content: str, expected: Format
) -> None:
    file = tmp_path / name
    file.write_text(content, encoding="utf-8")

    assert detect(file) is expected
    assert sources_of(file) == [(file, expected)]
    assert sources_of(file, Format.LANGCHAIN) == [(file, Format.LANGCHAIN)]


def test_a_zip_file_is_an_export_of_chatgpt(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.dat", "w") as archive:
        archive.writestr("x", "")

    assert detect(tmp_path / "a.dat") is Format.CHATGPT


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (None, ["messages.jsonl", "memories.jsonl", "conversations.json"]),
        (Format.JSONL, ["messages.jsonl", "memories.jsonl"]),
        (Format.CHATGPT, ["conversations.json"]),
        (Format.LANGCHAIN, ["a.json", "conversations.json"]),
    ],
)
def test_of_a_folder_the_files_are_read_whose_names_tell(
    tmp_path: Path, chosen: Format | None, names: list[str]
) -> None:
    there = ["messages.jsonl", "memories.jsonl", "conversations.json", "a.json", "user.txt"]
    for name in there:
        (tmp_path / name).write_text("[]")

    assert [path.name for path, _ in sources_of(tmp_path, chosen)] == names


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        (None, "holds neither messages.jsonl nor memories.jsonl nor conversations.json"),
        (Format.JSONL, "holds neither messages.jsonl nor memories.jsonl"),
        (Format.CHATGPT, "holds no conversations.json"),
        (Format.LANGCHAIN, "holds no .json file"),
    ],
)
def test_a_folder_without_them_is_an_error(
    tmp_path: Path, chosen: Format | None, problem: str
) -> None:
    for path, expected in ((tmp_path, problem), (tmp_path / "no", "no such file or folder")):
        with pytest.raises(ValueError) as error:  # noqa: PT011  (its text is compared)
            sources_of(path, chosen)
        assert str(error.value) == f"{path}: {expected}"


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("", None),
        ("", Format.JSONL),
        ("agentmem.sqlite3", None),
        ("agentmem.sqlite3-wal", Format.JSONL),
        ("link", Format.JSONL),
    ],
)
def test_a_memory_is_no_file_to_read_but_can_be_exported(
    tmp_path: Path, name: str, chosen: Format | None
) -> None:
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        memory.add_memory("owns a ladder")
        (tmp_path / "m" / "link").symlink_to(tmp_path / "m" / "agentmem.sqlite3")
        path = tmp_path / "m" / name
        with pytest.raises(ValueError, match=f"{path}: is a memory; `agentmem export --memory"):
            sources_of(path, chosen)
        memory.export(tmp_path / "m")

    file = tmp_path / "m" / "memories.jsonl"
    assert (file, Format.JSONL) in sources_of(tmp_path / "m")
    named = file.rename(tmp_path / "agentmem.sqlite3.jsonl")
    assert sources_of(named) == [(named, Format.JSONL)]


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else []


@pytest.mark.parametrize(
    "content",
    [
        "7",
        "null",
        '"mapping"',
        json.dumps(nested(5)),
        json.dumps(nested(900)),
        '{"a": ' * 100_000,
        "{}",
    ],
)
def test_what_is_none_of_them_is_left_to_the_reader_of_lines(tmp_path: Path, content: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(content)

    assert detect(file) is Format.JSONL
