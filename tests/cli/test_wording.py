"""Counts and notes as the commands print them."""

from pathlib import Path

import pytest
from servers.openai_embeddings import EmbeddingServer, Fault
from typer.testing import CliRunner

from langchain_agentmem import AgentMemory, EmbeddingSettings
from langchain_agentmem.cli import app
from langchain_agentmem.cli.wording import counted


@pytest.mark.parametrize(
    ("count", "noun", "worded"),
    [
        (0, "memories", "0 memories"),
        (1, "memories", "1 memory"),
        (2, "memories", "2 memories"),
        (1, "messages", "1 message"),
        (1, "vectors", "1 vector"),
        (11, "vectors", "11 vectors"),
    ],
)
def test_a_noun_is_in_the_singular_for_one(count: int, noun: str, worded: str) -> None:
    assert counted(count, noun) == worded


@pytest.mark.parametrize("command", ["search", "import", "doctor"])
def test_what_waits_for_its_vector_is_told_with_the_command_that_writes_it(
    tmp_path: Path,
    server: EmbeddingServer,
    service_settings: EmbeddingSettings,
    command: str,
) -> None:
    server.fault = Fault(status=401)
    said = "The roof: memory.sync() writes the vectors"
    with AgentMemory.open(tmp_path, embedding=service_settings) as memory:
        memory.add_memory(said)
    (tmp_path / "more.jsonl").write_text('{"content": "owns a ladder"}')
    arguments = {"search": ["roof"], "import": [str(tmp_path / "more.jsonl")], "doctor": []}
    environment = {
        f"AGENTMEM_EMBEDDING_{name.upper()}": str(getattr(service_settings, name))
        for name in ("provider", "base_url", "model")
    }

    result = CliRunner().invoke(
        app, [command, *arguments[command], "-m", str(tmp_path)], env=environment
    )

    assert "`agentmem sync` writes the vectors" in result.output
    # What was saved is shown as it is.
    assert result.output.count("memory.sync()") == (1 if command == "search" else 0)
    assert (said in result.output) == (command == "search")
