"""`agentmem stats`: what is in a memory, as tables."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.cli import app

LONG = "the house in the \x1b[31mvalley[/bold] " + "behind the hills " * 9 + "far away"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        memory.add_memories(
            [
                Memory(content="a", type="persona", scene_name="会" * 100, scope_id="ann"),
                Memory(content="b", scene_name=LONG, created_at="2026-01-02"),
                *(Memory(content=f"c {n}", scene_name=f"scene {n}") for n in range(12)),
            ]
        )
        said = [
            Message(role="user", content=str(n), recorded_at=f"2025-{n + 1:02}-15")
            for n in range(12)
        ]
        memory.add_messages("s/" + "x" * 200, said)
    return tmp_path / "m"


def run(folder: Path, *arguments: str, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(
        app, ["stats", "-m", str(folder), "--embedding", "none", *arguments]
    )


def cells(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line.strip()]


def test_both_kinds_are_counted(folder: Path) -> None:
    result = run(folder)

    assert result.exit_code == 0, result.output
    rows = cells(result.output)
    assert ["records", "14", "12"] in rows
    assert ["type", "(2)", "episodic", "13", "93%"] in rows
    assert ["persona", "1", "7%"] in rows
    assert ["role", "(1)", "user", "12", "100%"] in rows
    assert ["user", "ann", "1", "7%"] in rows
    assert ["...", "4", "others", "4", "29%"] in rows
    assert ["month", "(12)", "...", "2", "earlier", "2", "17%"] in rows
    assert ["2025-12", "1", "8%"] in rows
    assert any(row[:3] == ["database", "on", "disk"] for row in rows)


@pytest.mark.parametrize("columns", [80, 120])
def test_it_is_legible_in_a_narrow_terminal(folder: Path, columns: int) -> None:
    from rich.cells import cell_len

    lines = run(folder, "--most", "20", columns=columns).output.splitlines()

    assert max(map(cell_len, lines)) <= columns
    assert "\x1b" not in "".join(lines)
    shown = [line for line in lines if "the house in the" in line]
    assert len(shown) == 1
    assert "…" in shown[0]
    assert "far away" in shown[0]


def test_how_many_are_shown_can_be_chosen(folder: Path) -> None:
    output = run(folder, "--most", "1").output

    assert ["...", "11", "earlier", "11", "92%"] in [row[-5:] for row in cells(output)]


def test_json_holds_everything(folder: Path) -> None:
    counted = json.loads(run(folder, "--json").output)

    assert counted["memories"]["by"]["scene"]["distinct"] == 14
    assert counted["messages"]["last"] == "2025-12-15T00:00:00Z"
    assert counted["sizes"]["database"] > 0


def test_an_empty_memory_has_no_further_tables(tmp_path: Path) -> None:
    AgentMemory.open(tmp_path / "m", embedding="none").close()

    output = run(tmp_path / "m").output

    assert ["records", "0", "0"] in cells(output)
    assert "memories by" not in output


def test_counting_makes_no_memory(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "no memory in" in result.output
