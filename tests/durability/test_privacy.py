"""What is kept is the user's alone: on disk, in logs, in errors."""

import logging
import stat
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from processes import RemoteMemory
from pydantic import ValidationError
from servers.openai_embeddings import KEY, EmbeddingServer, Fault

from langchain_agentmem import AgentMemory, EmbeddingSettings

TOLD = "the safe combination is 47-11"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_no_other_user_can_read_anything_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    with RemoteMemory(tmp_path / "m", umask=umask) as memory:
        memory("add", first=0, count=1200)
        memory("search", query="zq1x")
        open_modes = modes(tmp_path / "m")
    for found in (open_modes, modes(tmp_path / "m")):
        assert "chroma/chroma.sqlite3" in found
        assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


def widen(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)


@pytest.mark.parametrize("embedding", ["local", "none"])
def test_an_older_memory_that_others_could_read_is_taken_from_them(
    tmp_path: Path, embedding: str
) -> None:
    with AgentMemory.open(tmp_path / "m", embedding="local") as memory:
        memory.add_memory(TOLD)
    widen(tmp_path / "m")
    with AgentMemory.open(tmp_path / "m", embedding=embedding):
        found = modes(tmp_path / "m")
    outer = {name: mode for name, mode in found.items() if not name.startswith("chroma/")}
    assert {name: oct(mode) for name, mode in outer.items() if mode & 0o077} == {}
    if embedding == "local":
        assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


def test_what_is_beside_a_memory_keeps_its_rights(tmp_path: Path) -> None:
    with AgentMemory.open(tmp_path, embedding="local") as memory:
        memory.add_memory(TOLD)
    (tmp_path / "website").mkdir()
    (tmp_path / "website" / "index.html").touch()
    widen(tmp_path)
    with AgentMemory.open(tmp_path, embedding="local"):
        found = modes(tmp_path)
    wide = {name for name, mode in found.items() if mode & 0o077}
    assert wide == {".", "website", "website/index.html"}


def test_a_folder_without_a_memory_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "m" / "photos").mkdir(parents=True)
    widen(tmp_path / "m")
    with AgentMemory.open(tmp_path / "m", embedding="none"):
        assert modes(tmp_path / "m")["photos"] == 0o777
        assert modes(tmp_path / "m")["."] == 0o777


def modes(folder: Path) -> dict[str, int]:
    paths = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in paths}


class Echo(Embeddings):
    """Repeats in its errors what it was sent, as services do."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        msg = f"cannot embed {texts} with key {KEY}"
        raise ValueError(msg)

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def use_everything(folder: Path, embedding: Any) -> list[str]:
    """Write, search, sync and check; everything that was said."""
    with AgentMemory.open(folder, embedding=embedding, timeout=2) as memory:
        memory.add_memory(TOLD)
        memory.add_messages("s", [("user", TOLD)])
        found = memory.search_memories(TOLD)
        synced = memory.sync()
        status = memory.status()
        said = [*found.notes, *status.problems, str(synced.problem), repr(status), repr(memory)]
        said += [repr(memory._vectors.embedder), *(finding.detail for finding in memory.check())]
        return said


@pytest.mark.parametrize("fault", [None, "echo", "400", "401", "500", "garbage"])
def test_neither_texts_nor_keys_are_logged_or_told(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    server: EmbeddingServer,
    service_settings: EmbeddingSettings,
    fault: str | None,
) -> None:
    caplog.set_level(logging.INFO)
    embedding: Any = Echo() if fault == "echo" else service_settings
    if fault is not None and fault.isdigit():
        server.fault = Fault(status=int(fault))
    elif fault == "garbage":
        server.fault = Fault(garbage=True)
    said = use_everything(tmp_path / "m", embedding)
    for text in [*said, *(record.getMessage() for record in caplog.records), caplog.text]:
        assert KEY not in text
        assert "combination" not in text


def test_a_key_is_in_no_repr_and_no_error(service_settings: EmbeddingSettings) -> None:
    assert KEY not in repr(service_settings) + str(service_settings)
    with pytest.raises(ValidationError) as error:
        EmbeddingSettings(apikey=KEY)  # type: ignore[call-arg]
    assert KEY not in str(error.value)
