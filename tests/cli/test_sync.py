"""`agentmem sync`: the vectors that are missing, and whether some are missing still."""

from pathlib import Path

import pytest
from servers.openai_embeddings import EmbeddingServer, Fault
from typer.testing import CliRunner, Result

from langchain_agentmem import AgentMemory, Memory
from langchain_agentmem.cli import app
from langchain_agentmem.storage.ownership import Ownership


def run(*arguments: object, **environment: str) -> Result:
    return CliRunner().invoke(app, ["sync", *map(str, arguments)], env=environment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A memory that was written without an embedding."""
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        memory.add_memories([Memory(content=f"text {i}") for i in range(3)])
        memory.add_messages("s", [("user", "hello")])
    return tmp_path / "m"


def served(server: EmbeddingServer) -> dict[str, str]:
    """The environment of somebody who uses an embedding service."""
    return {
        "AGENTMEM_EMBEDDING_PROVIDER": "openai_compatible",
        "AGENTMEM_EMBEDDING_BASE_URL": server.base_url,
        "AGENTMEM_EMBEDDING_MODEL": "wordllama",
    }


def test_the_vectors_that_are_missing_are_written(folder: Path) -> None:
    result = run("--memory", folder, "--embedding", "local")

    assert (result.exit_code, result.output) == (0, f"{folder}: wrote 4 vectors, 0 are missing\n")
    with AgentMemory.open(folder, embedding="local") as memory:
        assert memory.search_memories("some writing", 10).total == 3


def test_a_second_time_there_is_nothing_to_do(folder: Path) -> None:
    run("-m", folder, "--embedding", "local")

    result = run("-m", folder, "--embedding", "local")

    assert (result.exit_code, result.output) == (0, f"{folder}: wrote 0 vectors, 0 are missing\n")


def test_without_an_embedding_by_choice_nothing_is_missing(folder: Path) -> None:
    result = run("-m", folder, "--embedding", "none")

    assert (result.exit_code, result.output) == (0, f"{folder}: wrote 0 vectors, 0 are missing\n")


def test_a_missing_setting_is_named(folder: Path) -> None:
    result = run("-m", folder, "--embedding", "openai_compatible")

    assert result.exit_code == 1
    assert result.stdout == f"{folder}: wrote 0 vectors, 4 are missing\n"
    assert result.stderr.startswith("Note: embedding is off: set embedding.api_key")


def test_an_embedding_that_is_off_is_a_failure_even_where_no_vector_is_missing(
    folder: Path,
) -> None:
    run("-m", folder, "--embedding", "local")

    result = run("-m", folder, "--embedding", "openai_compatible")

    assert result.exit_code == 1
    assert result.stdout == f"{folder}: wrote 0 vectors, 0 are missing\n"
    assert result.stderr.startswith("Note: embedding is off: set embedding.api_key")


def test_a_service_that_fails_is_told_of_and_its_work_is_kept(
    folder: Path, server: EmbeddingServer
) -> None:
    server.fault = Fault(status=401)
    failed = run("-m", folder, **served(server))
    server.fault = None
    mended = run("-m", folder, **served(server))

    assert failed.exit_code == 1
    assert failed.stdout == f"{folder}: wrote 0 vectors, 4 are missing\n"
    assert "Note: the embedding model wordllama failed: HTTP status 401" in failed.stderr
    assert (mended.exit_code, mended.stdout) == (
        0,
        f"{folder}: wrote 4 vectors, 0 are missing\n",
    )


def test_a_text_that_cannot_be_embedded_is_named(folder: Path, server: EmbeddingServer) -> None:
    server.fault = Fault(poison="text 1")

    result = run("-m", folder, **served(server))

    assert result.exit_code == 1
    assert result.stdout == f"{folder}: wrote 3 vectors, 1 is missing\n"
    assert "Note: 1 memory could not be embedded, such as mem-" in result.stderr


def test_another_process_that_has_the_index_is_told_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ownership, "acquire", lambda _: False)

    result = run("-m", folder, "--embedding", "local")

    assert result.exit_code == 1
    assert "another process has the vector index of this folder" in result.stderr


def test_another_process_that_has_the_index_is_no_failure_where_nothing_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("-m", folder, "--embedding", "local")
    monkeypatch.setattr(Ownership, "acquire", lambda _: False)

    result = run("-m", folder, "--embedding", "local")

    assert result.exit_code == 0
    assert "another process has the vector index of this folder" in result.stderr


def test_where_there_is_no_memory_none_is_made(tmp_path: Path) -> None:
    result = run("-m", tmp_path / "nowhere", "--embedding", "local")

    assert result.exit_code == 2
    assert f"no memory in {tmp_path / 'nowhere'}" in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_a_database_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "agentmem.sqlite3").write_text("not a database " * 100)

    result = run("-m", tmp_path, "--embedding", "local")

    assert result.exit_code == 2
    assert "agentmem: cannot open the database" in result.stderr


def test_an_unknown_provider_is_an_error(folder: Path) -> None:
    result = run("-m", folder, "--embedding", "locale")

    assert result.exit_code == 2
    assert "provider" in result.stderr
