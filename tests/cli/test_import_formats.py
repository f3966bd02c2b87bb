"""`agentmem import` of a ChatGPT export and of LangChain messages."""

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, messages_to_dict
from typer.testing import CliRunner, Result

from langchain_agentmem import AgentMemory
from langchain_agentmem.cli import app

TALK = messages_to_dict([HumanMessage("The roof leaks"), AIMessage("Since when?")])
CHATGPT = {
    "title": "The roof",
    "conversation_id": "c-1",
    "create_time": 1_700_000_000,
    "current_node": "n",
    "mapping": {
        "n": {
            "parent": None,
            "message": {
                "id": "m",
                "author": {"role": "user"},
                "content": {"content_type": "text", "parts": ["The roof leaks"]},
            },
        }
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "m"


def run(folder: Path, *arguments: object) -> Result:
    return CliRunner().invoke(
        app, ["import", "-m", str(folder), "--embedding", "none", *map(str, arguments)]
    )


def sessions(folder: Path) -> set[str]:
    with AgentMemory.open(folder, embedding="none") as memory:
        return {hit.session_key for hit in memory.search_conversations("roof").results}


@pytest.mark.parametrize("options", [[], ["--format", "auto"], ["--format", "chatgpt"]])
def test_a_chatgpt_export_is_recognized(tmp_path: Path, folder: Path, options: list[str]) -> None:
    (tmp_path / "conversations.json").write_text(json.dumps([CHATGPT]))

    for path in (tmp_path / "conversations.json", tmp_path):
        result = run(folder, path, *options)
        assert result.exit_code == 0, result.output
    assert "saved 0 memories and 0 messages, 1 was there already" in result.output
    assert sessions(folder) == {"c-1"}


def test_langchain_messages_are_a_conversation_with_the_files_name(
    tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "talk.json").write_text(json.dumps(TALK))

    result = run(folder, tmp_path / "talk.json")

    assert result.exit_code == 0, result.output
    assert "saved 0 memories and 2 messages" in result.output
    assert sessions(folder) == {"talk"}


@pytest.mark.parametrize(
    ("options", "session"), [(["--session", "s"], "s"), (["--prefix", "x/"], "x/talk")]
)
def test_the_conversation_can_be_named(
    tmp_path: Path, folder: Path, options: list[str], session: str
) -> None:
    (tmp_path / "talk.json").write_text(json.dumps(TALK))

    run(folder, tmp_path / "talk.json", *options)

    assert sessions(folder) == {session}


def test_a_bad_part_and_a_bad_file_are_named_and_the_rest_is_kept(
    tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "a.json").write_text("[")
    (tmp_path / "b.json").write_text(json.dumps([{}, *TALK]))
    titled = {"title": "\x1b[31mred", "id": "c"}
    (tmp_path / "c.json").write_text(json.dumps([{"mapping": {}}, titled]))

    result = run(folder, *(tmp_path / f"{name}.json" for name in "abc"))

    assert result.exit_code == 1
    assert "a.json: cannot be read" in result.output
    assert "b.json: message 1: cannot be read" in result.output
    assert "c.json: conversation 1: cannot be read: it has no id" in result.output
    assert 'c.json: conversation 2: cannot be read ("\ufffd[31mred")' in result.output
    assert "4 parts were not imported" in result.output
    assert "saved 0 memories and 2 messages" in result.output


def test_an_option_that_has_no_effect_is_named(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"content": "owns a ladder"}))

    result = run(folder, tmp_path / "a.jsonl", "--session", "s")

    assert result.exit_code == 2
    assert "--session is for LangChain messages" in result.output
    assert not folder.exists()


def test_a_format_that_a_file_is_not_in_is_an_error(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"content": "owns a ladder"}))

    result = run(folder, tmp_path / "a.jsonl", "--format", "chatgpt")

    assert result.exit_code == 1
    assert "a.jsonl: conversation 1: cannot be read" in result.output
