"""The pages in docs/: every public name has its place in the reference."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import langchain_agentmem
from langchain_agentmem import AgentMemory, twins

DOCS = Path(__file__).parents[1] / "docs"
REFERENCE = re.findall(
    r"^::: langchain_agentmem\.([\w.]+)$",
    "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md")),
    re.MULTILINE,
)
MODULES = re.compile(r"`((?:\w+/)*\w+\.py)`")


def methods_of(public: type) -> list[str]:
    """The public methods of a class, inherited ones too."""
    return [
        name
        for name, member in inspect.getmembers(public)
        if not name.startswith("_") and callable(member)
    ]


@pytest.mark.parametrize("name", langchain_agentmem.__all__)
def test_a_public_name_is_in_the_reference_once(name: str) -> None:
    assert REFERENCE.count(name) == 1


@pytest.mark.parametrize("name", methods_of(AgentMemory))
def test_a_method_of_the_front_door_is_in_the_reference_once(name: str) -> None:
    assert REFERENCE.count(f"AgentMemory.{name}") == 1


def test_the_reference_knows_whatever_makes_twins() -> None:
    """`docs/twins.py` names what it looks for; it needs griffe, so it is read and not imported."""
    source = (DOCS / "twins.py").read_text(encoding="utf-8")
    named = re.search(r"^_MAKERS = (\(.*\))$", source, re.MULTILINE)
    makers = {
        name
        for name, _ in inspect.getmembers(twins, inspect.isfunction)
        if not name.startswith("_") and getattr(twins, name).__module__ == twins.__name__
    }

    assert named
    assert {*ast.literal_eval(named[1]), "runs_search"} == makers
    assert '"runs_search"' in source


def test_the_modules_that_the_pages_name_are_there() -> None:
    root = DOCS.parent
    for page in ("architecture.md", "contributing.md"):
        for name in set(MODULES.findall((DOCS / page).read_text(encoding="utf-8"))):
            if name != "embeddings/NAME.py":
                assert any(
                    (folder / name).is_file() for folder in (root / "langchain_agentmem", root)
                ), name
