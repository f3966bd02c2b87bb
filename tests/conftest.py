"""Fixtures that many tests use: real folders, real databases, a real embedding server."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings
from servers.openai_embeddings import KEY, EmbeddingServer

from langchain_agentmem import AgentMemory, EmbeddingSettings

# No test may pick up a key or a setting of whoever runs it, trace what it does to a service, or ask
# a proxy for what is on loopback.
KEPT = {"AGENTMEM_DATA", "AGENTMEM_MODELS"}
FOREIGN = ("AGENTMEM_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")
for name in set(os.environ) - KEPT:
    if name.upper().startswith(FOREIGN) or name.lower().endswith("_proxy"):
        del os.environ[name]

# A busy machine is no reason to fail.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[AgentMemory]:
    """A memory on disk that searches in hybrid mode, with WordLlama vectors."""
    with AgentMemory.open(tmp_path / "memory", embedding="local") as opened:
        yield opened


@pytest.fixture
def keyword_memory(tmp_path: Path) -> Iterator[AgentMemory]:
    """A memory on disk that searches by keyword alone."""
    with AgentMemory.open(tmp_path / "keyword-memory", embedding="none") as opened:
        yield opened


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts to reach an embedding model, seconds; they take no time."""
    taken: list[float] = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=taken.append))
    return taken


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """A real OpenAI-compatible embedding service on loopback."""
    with EmbeddingServer() as running:
        yield running


@pytest.fixture
def service_settings(server: EmbeddingServer) -> EmbeddingSettings:
    """Settings that point to `server`."""
    return EmbeddingSettings(
        provider="openai_compatible",
        base_url=server.base_url,
        api_key=KEY,
        model="wordllama",
    )


@pytest.fixture
def data_folder() -> Path:
    """The folder of evaluation data, which lives outside the repository."""
    folder = Path(os.environ.get("AGENTMEM_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no evaluation data at {folder}: set AGENTMEM_DATA")
    return folder
