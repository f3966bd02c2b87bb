"""`agentmem search`: what an agent would read, or all fields as JSON."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.cli import app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        memory.add_memories(
            [
                Memory(content="Prefers dark mode", type="persona", scene_name="editor setup"),
                Memory(content="Dark roof tiles were ordered", scene_name="house"),
            ]
        )
        memory.add_messages(
            None,
            [
                Message(
                    session_key=f"day {day}",
                    role="user",
                    content="The roof leaks",
                    recorded_at=f"2026-05-0{day}",
                )
                for day in (1, 2, 3)
            ],
        )
    return tmp_path / "m"


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        app, ["search", *arguments, "--memory", str(folder), "--embedding", "none"]
    )


def test_memories_are_printed_as_an_agent_reads_them(folder: Path) -> None:
    result = run(folder, "dark mode", "--type", "persona")
    assert result.exit_code == 0
    assert result.output.startswith("Found 1 matching memory (strategy: fts):\n\n- **[persona]**")


def test_conversations_are_filtered_by_session_and_time(folder: Path) -> None:
    result = run(folder, "roof", "--in", "conversations", "--session", "day 2")
    assert "Found 1 matching message" in result.output
    result = run(folder, "roof", "--in", "conversations", "--after", "2026-05-02")
    assert "Found 2 matching messages" in result.output


def test_json_holds_all_fields(folder: Path) -> None:
    result = run(folder, "roof", "--in", "memories", "--scene", "HOUSE", "--json")
    answer = json.loads(result.output)
    assert answer["total"] == 1
    assert answer["results"][0]["scene_name"] == "house"
    assert answer["results"][0]["keyword_rank"] == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["roof", "--after", "soon"], "after: cannot read 'soon' as a time"),
        (["roof", "--in", "conversations", "--type", "persona"], "--type and --scene are for"),
        (["roof", "--limit", "0"], "--limit"),
    ],
)
def test_bad_options_are_named(folder: Path, arguments: list[str], problem: str) -> None:
    result = run(folder, *arguments)
    assert result.exit_code == 2
    assert problem in result.output


def test_a_search_makes_no_memory(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere", "roof")
    assert result.exit_code == 2
    assert "no memory in" in result.output
    assert not (tmp_path / "nowhere").exists()
