"""The names that users import, and what importing them does not do."""

import importlib.resources
import inspect

import pytest
from python_process import run_python

import langchain_agentmem

PUBLIC_NAMES = [
    "AgentMemory",
    "AgentMemoryError",
    "AgentMemoryToolkit",
    "Capture",
    "ConversationRetriever",
    "ConversationSearchTool",
    "EmbeddingError",
    "EmbeddingSettings",
    "Finding",
    "ImportReport",
    "Memory",
    "MemoryHit",
    "MemoryRetriever",
    "MemorySearchTool",
    "MemoryStats",
    "MemoryStatus",
    "Message",
    "MessageHit",
    "Recall",
    "SearchResult",
    "StorageError",
    "WriteReport",
]
HEAVY = ["chromadb", "langchain_openai", "openai", "wordllama", "onnxruntime", "tiktoken", "typer"]


def test_the_public_names_are_these() -> None:
    assert sorted(langchain_agentmem.__all__) == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_a_public_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(langchain_agentmem, name))


def test_all_errors_have_one_base() -> None:
    for error in (langchain_agentmem.EmbeddingError, langchain_agentmem.StorageError):
        assert issubclass(error, langchain_agentmem.AgentMemoryError)


def test_importing_the_package_loads_nothing_heavy() -> None:
    needless = [*HEAVY, "httpx", "rich", "tenacity"]
    script = f"""
import sys
import langchain_core.retrievers, langchain_core.tools  # some versions load one of them
already = set(sys.modules)
from langchain_agentmem import *
print(*[name for name in {needless!r} if name in sys.modules and name not in already])
"""
    done = run_python(script)

    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def test_the_command_line_explains_itself_without_loading_what_it_runs() -> None:
    script = f"""
import sys
from typer.testing import CliRunner
from langchain_agentmem.cli import app
answer = CliRunner().invoke(app, ["--help"])
assert answer.exit_code == 0 and "import" in answer.output, answer.output
needless = {sorted(set(HEAVY) - {"typer"})!r} + ["langchain_core", "numpy", "pydantic", "sqlite3"]
print(*[name for name in needless if name in sys.modules])
"""
    done = run_python(script)

    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def test_a_name_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(AttributeError, match=r"langchain_agentmem.*Nothing"):
        _ = langchain_agentmem.Nothing


@pytest.mark.parametrize("embedding", ["none", "openai_compatible"])
def test_searching_by_keyword_loads_no_vector_library(embedding: str) -> None:
    script = f"""
import sys
from langchain_agentmem import AgentMemory
with AgentMemory.in_memory(embedding={embedding!r}) as memory:
    memory.add_memory("likes cats")
    assert memory.search_memories("cats").total == 1
print(*[name for name in {HEAVY!r} if name in sys.modules])
"""
    done = run_python(script)

    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


def test_the_package_is_typed() -> None:
    package = importlib.resources.files("langchain_agentmem")

    assert (package / "py.typed").is_file()
