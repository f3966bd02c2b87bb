"""The house: imports point one way, and no module is long."""

import ast
from pathlib import Path

import pytest
from architecture import LAYERS, MODULES, PACKAGE, PICTURE, dotted, draw, imported, layer

LONGEST_MODULE = 410
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
IMPORTS = {dotted(path): imported(path) for path in MODULES}


def test_every_module_has_a_layer() -> None:
    assert {layer(module) for module in IMPORTS if module} == set(LEVEL)


@pytest.mark.parametrize("module", [module for module in IMPORTS if module])
def test_a_module_imports_nothing_above_it(module: str) -> None:
    above = {
        name for name in IMPORTS[module] if not name or LEVEL[layer(name)] > LEVEL[layer(module)]
    }

    assert above == set()


@pytest.mark.parametrize("module", [module for module in IMPORTS if module])
def test_folders_of_one_layer_do_not_know_each_other(module: str) -> None:
    beside = {
        name
        for name in IMPORTS[module]
        if name
        and LEVEL[layer(name)] == LEVEL[layer(module)]
        and layer(name) != layer(module)
        and (PACKAGE / layer(module)).is_dir()
    }

    assert beside == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    waiting = {module: names - {module} for module, names in IMPORTS.items()}
    while waiting:
        free = {module for module, names in waiting.items() if not names & set(waiting)}
        assert free, f"a circle among {sorted(waiting)}"
        waiting = {module: names for module, names in waiting.items() if module not in free}


def test_only_storage_knows_sqlite_and_chroma() -> None:
    knowing = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            if {name.partition(".")[0] for name in names} & {"sqlite3", "chromadb"}:
                knowing.add(dotted(path))

    # The provider `chroma` uses the model that chromadb brings, and nothing else of it.
    assert {layer(module) for module in knowing - {"embeddings.onnx"}} == {"storage"}


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_no_module_is_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_the_picture_shows_the_modules_as_they_are() -> None:
    assert PICTURE.read_text(encoding="utf-8") == draw(), "run: python docs/architecture.py"
