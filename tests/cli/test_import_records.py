"""`agentmem import`: JSON Lines into a memory; bad lines are named, the rest is kept."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from langchain_agentmem import AgentMemory
from langchain_agentmem.cli import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["import", "--embedding", "none", *map(str, arguments)])


def message(**fields: Any) -> dict[str, Any]:
    return {
        "id": "1",
        "session_key": "s",
        "role": "user",
        "content": "the roof leaks",
        "recorded_at": "2026-01-02T03:04:05Z",
        **fields,
    }


def write(path: Path, *records: dict[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (line if isinstance(line, str) else json.dumps(line) for line in records)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_files_and_folders_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    write(folder / "messages.jsonl", message())
    write(folder / "memories.jsonl", {"content": "owns a ladder", "type": "persona"})
    write(folder / "questions.jsonl", "not for us")
    file = write(tmp_path / "more.jsonl", message(id="2", content="since March"))
    result = run(folder, file, "--memory", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "saved 1 memory and 2 messages, 0 were there already" in result.output
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        assert memory.search_memories("ladder").results[0].type == "persona"
        assert memory.search_conversations("leaks").results[0].id == "1"


def test_importing_twice_changes_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", message(), {"content": "owns a ladder"})
    assert "saved 1 memory and 1 message" in run(file, "-m", tmp_path / "m").output
    again = run(file, "-m", tmp_path / "m")
    assert again.exit_code == 0
    assert "saved 0 memories and 0 messages, 2 were there already" in again.output


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a JSON object"),
        (message(role="bot"), "role: unknown role 'bot'"),
        (message(content=" "), "content: must not be blank"),
        (message(recorded_at="yesterday"), "recorded_at: cannot read 'yesterday' as a time"),
        (message(session_key=""), "session_key: a message needs one"),
        (message(mood="good"), "mood: Extra inputs are not permitted"),
        ({"content": "x", "strength": 2}, "strength: Input should be less than or equal to 1"),
        ({"content": "x", "metadata": [1]}, "metadata: Input should be a valid dictionary"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_is_kept(
    tmp_path: Path, line: dict[str, Any] | str, problem: str
) -> None:
    file = write(tmp_path / "a.jsonl", message(id="1"), line, "", message(id="3", content="dry"))
    result = run(file, "-m", tmp_path / "m")
    assert result.exit_code == 1
    assert f"a.jsonl:2: {problem}" in result.output
    assert "1 line was not imported" in result.output
    assert "saved 0 memories and 2 messages" in result.output


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"content": "caf\xe9"}\n' + json.dumps(message()).encode())
    result = run(file, "-m", tmp_path / "m")
    assert result.exit_code == 1
    assert "a.jsonl:1: is not UTF-8" in result.output
    assert "saved 0 memories and 1 message" in result.output


def test_equal_ids_of_several_folders_stay_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name / "messages.jsonl", message(content=f"the roof of {name}"))
    result = run(tmp_path / "a", tmp_path / "b", "-m", tmp_path / "m")
    assert result.exit_code == 0, result.output
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        hits = memory.search_conversations("roof").results
    assert {(hit.id, hit.session_key, hit.content) for hit in hits} == {
        ("a/1", "a/s", "the roof of a"),
        ("b/1", "b/s", "the roof of b"),
    }


def test_folders_of_one_name_are_told_apart_by_the_path_before_it(tmp_path: Path) -> None:
    folders = ["2024/export", "2025/export", "x/2025/export", "notes"]
    for folder in folders:
        write(tmp_path / folder / "messages.jsonl", message(content=f"the roof of {folder}"))
    # One that is given twice, by another path, is one folder.
    again = tmp_path / "notes" / ".." / "notes"
    result = run(*(tmp_path / folder for folder in folders), again, "-m", tmp_path / "m")
    assert result.exit_code == 0, result.output
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        hits = memory.search_conversations("roof").results
    parent = tmp_path.name
    assert {hit.id: hit.content for hit in hits} == {
        f"{parent}/2024/export/1": "the roof of 2024/export",
        f"{parent}/2025/export/1": "the roof of 2025/export",
        "x/2025/export/1": "the roof of x/2025/export",
        "notes/1": "the roof of notes",
    }


@pytest.mark.parametrize("sources", ["1", ["1"]], ids=["one", "several"])
def test_memories_stay_linked_to_their_own_messages(
    tmp_path: Path, sources: str | list[str]
) -> None:
    for name, word in (("a", "zeppelin"), ("b", "quarry")):
        write(tmp_path / name / "messages.jsonl", message(content=f"a {word} on the roof"))
        linked = {"id": "m", "content": "news", "metadata": {"source_message_ids": sources}}
        write(tmp_path / name / "memories.jsonl", linked)
    assert run(tmp_path / "a", tmp_path / "b", "-m", tmp_path / "m").exit_code == 0
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        for query, id_ in (("zeppelin", "a/m"), ("quarry", "b/m")):
            assert [hit.id for hit in memory.search_memories(query).results] == [id_]


def test_another_version_of_a_record_does_not_overwrite_it_unless_asked(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", message(content="old"))
    second = write(tmp_path / "b.jsonl", message(content="new"), message(id="2"))
    run(first, "-m", tmp_path / "m")
    result = run(second, "-m", tmp_path / "m")
    assert result.exit_code == 1
    assert 'b.jsonl:1: id: "1" is there with other content' in result.output
    assert "saved 0 memories and 1 message" in result.output

    def content() -> str:
        with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
            record = memory.get("1")
        assert record is not None
        return record.content

    assert content() == "old"
    assert run(second, "-m", tmp_path / "m", "--prefix", "other/").exit_code == 0
    assert content() == "old"
    assert run(second, "-m", tmp_path / "m", "--replace").exit_code == 0
    assert content() == "new"


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, problem in (
        (tmp_path / "nowhere", "no such file or folder"),
        (tmp_path / "empty", "holds neither messages.jsonl nor memories.jsonl"),
    ):
        result = run(path, "-m", tmp_path / "m")
        assert result.exit_code == 2
        assert problem in result.output
    assert not (tmp_path / "m").exists()


def seen_by(folder: Path, user: str) -> set[str]:
    config = {"configurable": {"user_id": user}}
    with AgentMemory.open(folder, embedding="none") as memory:
        memories = memory.search_memories("roof", config=config).results
        messages = memory.search_conversations("roof", config=config).results
    return {hit.content for hit in memories} | {hit.content for hit in messages}


def test_records_without_an_owner_are_filed_under_the_user_that_is_named(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.jsonl",
        message(),
        {"content": "mends a roof", "type": "episodic"},
        message(id="2", content="ben's roof", scope="user", scope_id="ben"),
    )
    result = run(file, "-m", tmp_path / "m", "--user", "ann")
    assert result.exit_code == 0, result.output
    assert seen_by(tmp_path / "m", "ann") == {"the roof leaks", "mends a roof"}
    assert seen_by(tmp_path / "m", "ben") == {"ben's roof"}


@pytest.mark.parametrize("user", ["", " "])
def test_a_user_who_is_nobody_is_refused(tmp_path: Path, user: str) -> None:
    file = write(tmp_path / "a.jsonl", message())
    result = run(file, "-m", tmp_path / "m", "--user", user)
    assert result.exit_code == 2
    assert "--user names nobody" in result.output
    assert not (tmp_path / "m").exists()


def test_all_conversations_of_the_evaluation_data(tmp_path: Path, data_folder: Path) -> None:
    folders = sorted((data_folder / "locomo").glob("conv-*"))
    result = run(*folders, "-m", tmp_path / "m")
    assert result.exit_code == 0, result.output
    lines = {
        name: sum(len((folder / name).read_text("utf-8").splitlines()) for folder in folders)
        for name in ("memories.jsonl", "messages.jsonl")
    }
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        status = memory.status()
        assert memory.search_conversations("LGBTQ support group").results
    assert status.messages == lines["messages.jsonl"]
    # A fact that was noted twice in one conversation, word for word and under two ids, is two.
    assert status.memories == lines["memories.jsonl"]
