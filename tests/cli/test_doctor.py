"""`agentmem doctor`: what is wrong with a memory, on a line each."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from langchain_agentmem import AgentMemory
from langchain_agentmem.cli import app
from langchain_agentmem.results import Finding
from langchain_agentmem.storage.doctor import Doctor

ADVICE = "`agentmem doctor --repair` mends what can be made anew from the records."


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        app, ["doctor", "--memory", str(folder), "--embedding", "local", *arguments]
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with AgentMemory.open(tmp_path / "m", embedding="local") as memory:
        memory.add_memory("The kitten naps on the couch")
        memory.add_messages("s", [("user", "hello")])
    return tmp_path / "m"


SOUND = """\
ok    database: {file}: sound
ok    keyword index: memories: level
ok    keyword index: messages: level
ok    embedding: {embedding} answers
ok    vector queue: empty
ok    vector index: memories: level
ok    vector index: messages: level
"""


def sound(folder: Path) -> str:
    with AgentMemory.open(folder, embedding="local") as memory:
        embedding = memory.status().embedding
    return SOUND.format(file=folder / "agentmem.sqlite3", embedding=embedding)


@pytest.mark.parametrize("arguments", [[], ["--repair"]])
def test_of_a_sound_memory_all_is_well(folder: Path, arguments: list[str]) -> None:
    result = run(folder, *arguments)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == sound(folder)


def test_what_is_wrong_is_told_and_mended_when_asked_to(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "agentmem.sqlite3")) as connection:
        connection.execute("DELETE FROM memories_fts")
        connection.commit()

    for _ in range(2):  # looking changes nothing
        found = run(folder)
        assert found.exit_code == 1
        lines = found.stdout.splitlines()
        assert lines[1] == "WRONG keyword index: memories: 1 are missing, 0 should not be there"
        assert [line[:5] for line in lines[:7]] == ["ok   ", "WRONG", *["ok   "] * 5]
        assert lines[7:] == [ADVICE]
    mended = run(folder, "--repair")

    assert mended.exit_code == 0
    assert mended.stdout == sound(folder)
    assert run(folder).exit_code == 0


def test_a_vector_index_that_cannot_be_opened_is_made_anew(folder: Path) -> None:
    shutil.rmtree(folder / "chroma")
    (folder / "chroma").write_text("no folder")

    found = run(folder)
    mended = run(folder, "--repair")

    assert found.exit_code == 1
    assert "WRONG vector index: answered by keywords alone" in found.stdout
    assert mended.exit_code == 0, mended.output
    with AgentMemory.open(folder, embedding="local") as memory:
        assert memory.search_memories("a sleeping cat").strategy == "embedding"


@pytest.mark.parametrize("arguments", [[], ["--repair"]])
def test_what_cannot_be_mended_is_told_without_advice(folder: Path, arguments: list[str]) -> None:
    result = run(folder, *arguments, "--embedding", "openai_compatible")

    assert result.exit_code == 1
    assert "WRONG embedding: embedding is off: set embedding.api_key" in result.stdout
    assert ADVICE not in result.stdout


def test_advice_is_given_for_what_can_be_mended_beside_what_cannot(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "agentmem.sqlite3")) as connection:
        connection.execute("DELETE FROM memories_fts")
        connection.commit()

    result = run(folder, "--embedding", "openai_compatible")

    assert "WRONG embedding: embedding is off" in result.stdout
    assert result.stdout.splitlines()[-1] == ADVICE


def test_a_database_that_can_only_be_read_is_told_without_advice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined = Doctor.examine

    def examine(doctor: Doctor) -> list[Finding]:
        doctor._database.read_only = "attempt to write a readonly database"
        return examined(doctor)

    monkeypatch.setattr(Doctor, "examine", examine)

    result = run(folder)

    assert result.exit_code == 1
    assert "WRONG database: can be read alone" in result.stdout
    assert ADVICE not in result.stdout


def test_where_there_is_no_memory_none_is_made(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere", "--repair")

    assert result.exit_code == 2
    assert f"no memory in {tmp_path / 'nowhere'}" in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_a_database_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "agentmem.sqlite3").write_text("not a database " * 100)

    result = run(tmp_path)

    assert result.exit_code == 2
    assert "agentmem: cannot open the database" in result.stderr
