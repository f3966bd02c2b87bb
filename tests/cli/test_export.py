"""`agentmem export`: a memory as JSON Lines, which `agentmem import` reads back."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from langchain_agentmem import AgentMemory, Message
from langchain_agentmem.cli import app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        memory.add_memory("Likes caf\u00e9 \u2028 cr\u00e8me", id="m", created_at="2026-01-02")
        said = Message(id="1", role="user", content="The roof leaks", recorded_at="2026-01-02")
        memory.add_messages("s", [said])
    return tmp_path / "m"


def run(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(app, [command, *map(str, arguments)])


def test_what_is_exported_is_imported_unchanged(folder: Path, tmp_path: Path) -> None:
    result = run("export", tmp_path / "out", "-m", folder)
    assert result.exit_code == 0, result.output
    assert "out: wrote 1 memory and 1 message" in result.output

    run("import", tmp_path / "out", "-m", tmp_path / "again", "--embedding", "none")
    run("export", tmp_path / "out-again", "-m", tmp_path / "again")

    for name in ("memories.jsonl", "messages.jsonl"):
        exported = (tmp_path / "out" / name).read_bytes()
        assert exported
        assert (tmp_path / "out-again" / name).read_bytes() == exported


@pytest.mark.parametrize(
    ("options", "ids"),
    [([], ["m", "1"]), (["--only", "memories"], ["m"]), (["--only", "conversations"], ["1"])],
)
def test_a_dash_is_standard_output(folder: Path, options: list[str], ids: list[str]) -> None:
    result = run("export", "-", *options, "-m", folder)

    assert result.exit_code == 0
    lines = result.stdout_bytes.decode().splitlines()
    assert [line.split('"')[3] for line in lines] == ids


def test_files_that_are_there_are_kept_unless_asked(folder: Path, tmp_path: Path) -> None:
    run("export", tmp_path / "all.jsonl", "-m", folder)
    again = run("export", tmp_path / "all.jsonl", "-m", folder)
    assert again.exit_code == 2
    assert "all.jsonl is there already (--replace writes over it)" in again.output
    assert run("export", tmp_path / "all.jsonl", "-m", folder, "--replace").exit_code == 0


def test_one_kind_can_be_exported_alone(folder: Path, tmp_path: Path) -> None:
    result = run("export", tmp_path / "out", "--only", "conversations", "-m", folder)
    assert result.exit_code == 0
    assert "out: wrote 1 message\n" in result.output
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["messages.jsonl"]


def test_what_one_user_sees_can_be_exported_alone(folder: Path) -> None:
    with AgentMemory.open(folder, embedding="none") as memory:
        for user in ("ann", "ben"):
            said = Message(id=user, role="user", content=f"I am {user}")
            memory.add_messages(user, [said], config={"configurable": {"user_id": user}})

    result = run("export", "-", "-m", folder, "--user", "ann")

    assert result.exit_code == 0, result.output
    assert "I am ann" in result.stdout
    assert "I am ben" not in result.stdout


@pytest.mark.parametrize("user", ["", " "])
def test_a_user_who_is_nobody_is_refused(folder: Path, tmp_path: Path, user: str) -> None:
    """As from an unset variable: it must not write what everybody said."""
    result = run("export", tmp_path / "out", "-m", folder, "--user", user)
    assert result.exit_code == 2
    assert "--user names nobody" in result.output
    assert not (tmp_path / "out").exists()


def test_an_export_makes_no_memory(tmp_path: Path) -> None:
    result = run("export", tmp_path / "out", "-m", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "no memory in" in result.output
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_output_that_takes_no_more_is_an_error_not_a_traceback(folder: Path) -> None:
    program = "from langchain_agentmem.cli import app; app()"
    command = [sys.executable, "-c", program, "export", "-", "-m", str(folder)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode != 0
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
