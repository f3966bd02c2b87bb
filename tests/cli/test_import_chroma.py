"""`agentmem import-chroma`: a collection of a folder or a server becomes a memory."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
import typer.main
from chromadb.api import ClientAPI
from chromadb.config import Settings
from typer.testing import CliRunner, Result

from langchain_agentmem import AgentMemory
from langchain_agentmem.cli import app
from langchain_agentmem.embeddings.local import WordLlamaEmbeddings

TEXTS = ["The roof leaks", "Prefers tea"]


def opened(folder: Path) -> ClientAPI:
    """Chroma's folder, opened as the command does in this process, too."""
    return chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))


def collect(client: ClientAPI, name: str, *texts: str) -> None:
    collection = client.create_collection(name, embedding_function=None)
    vectors: list[Any] = WordLlamaEmbeddings().embed_documents(list(texts))
    ids = [str(number) for number in range(len(texts))]
    collection.add(ids=ids, documents=list(texts), embeddings=vectors)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of Chroma's with one collection."""
    client = opened(tmp_path / "theirs")
    collect(client, "notes", *TEXTS)
    return tmp_path / "theirs"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Result]:
    def command(*arguments: object) -> Result:
        called = ["import-chroma", *map(str, arguments), "-m", str(tmp_path / "ours")]
        return CliRunner().invoke(app, called)

    return command


Run = Callable[..., Result]


def test_with_its_embedding_the_vectors_are_copied(run: Run, theirs: Path, tmp_path: Path) -> None:
    result = run(theirs, "--embedding", "local")

    assert result.exit_code == 0, result.output
    assert "saved 2 memories and 0 messages, 0 were there already; wrote 2 vectors" in result.output
    with AgentMemory.open(tmp_path / "ours", embedding="local") as memory:
        assert memory.search_memories("roof").strategy == "hybrid"
        assert memory.sync().indexed == 0
    assert "saved 0 memories" in run(theirs, "--embedding", "local").output


@pytest.mark.parametrize(
    ("given", "why"), [([], ""), (["--embedding", "openai_compatible"], "embedding.api_key")]
)
def test_without_one_keywords_find_everything(
    run: Run, theirs: Path, tmp_path: Path, given: list[str], why: str
) -> None:
    """Whether none was given, or the one that was cannot be had."""
    result = run(theirs, *given)

    assert result.exit_code == 0, result.output
    assert why in result.output
    assert "Note: without an embedding no vectors were copied" in result.output
    with AgentMemory.open(tmp_path / "ours", embedding="none") as memory:
        assert memory.search_memories("roof").total == 1


def test_documents_can_become_messages(run: Run, theirs: Path) -> None:
    result = run(theirs, "--into", "conversations")

    assert "saved 0 memories and 2 messages" in result.output


def test_another_model_is_refused_unless_the_documents_are_embedded_anew(
    run: Run, theirs: Path, tmp_path: Path
) -> None:
    client = opened(theirs)
    client.get_collection("notes", embedding_function=None).delete(ids=["0", "1"])
    client.delete_collection("notes")
    other = client.create_collection("notes", embedding_function=None)
    other.add(ids=["0"], documents=["The roof leaks"], embeddings=[np.eye(3, dtype=np.float32)[0]])

    refused = run(theirs, "--embedding", "local")
    assert refused.exit_code == 2
    assert "256 dimensions, the collection has 3" in refused.output
    assert "--embed-anew" in refused.output

    taken = run(theirs, "--embedding", "local", "--embed-anew")
    assert taken.exit_code == 0
    assert "1 record waits" in taken.output


def test_of_several_collections_one_is_named(run: Run, theirs: Path) -> None:
    collect(opened(theirs), "other", "Owns a ladder")

    unclear = run(theirs)
    assert unclear.exit_code == 2
    assert "name one with --collection; there are: notes, other" in unclear.output
    assert "saved 1 memory" in run(theirs, "--collection", "other").output
    missing = run(theirs, "--collection", "third")
    assert missing.exit_code == 2
    assert 'there is no "third"' in missing.output


def test_what_is_left_out_is_named(run: Run, theirs: Path) -> None:
    collection = opened(theirs).get_collection("notes", embedding_function=None)
    collection.add(ids=["empty"], embeddings=[np.eye(256, dtype=np.float32)[0]])

    result = run(theirs)

    assert result.exit_code == 1
    assert "empty: has no text" in result.output
    assert "1 document was not imported" in result.output


def test_on_a_conflict_it_advises_its_own_options_alone(run: Run, theirs: Path) -> None:
    run(theirs)
    collection = opened(theirs).get_collection("notes", embedding_function=None)
    vector = np.eye(256, dtype=np.float32)[0]
    collection.update(ids=["0"], documents=["The roof is mended"], embeddings=[vector])

    result = run(theirs)

    assert result.exit_code == 1
    assert "0: is there with other content; kept as it was" in result.output
    command = typer.main.get_command(app).commands["import-chroma"]  # type: ignore[attr-defined]
    has = {option for parameter in command.params for option in parameter.opts}
    advised = set(re.findall(r"--[a-z-]+", result.output))
    assert advised
    assert advised <= has


@pytest.mark.parametrize(
    ("source", "problem"),
    [("nowhere", "no Chroma folder"), ("http://127.0.0.1:9", "no Chroma server answers")],
)
def test_what_is_not_there_is_named(run: Run, tmp_path: Path, source: str, problem: str) -> None:
    result = run(source)

    assert result.exit_code == 2
    assert problem in result.output
    assert not (tmp_path / "ours").exists()
