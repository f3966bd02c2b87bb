"""The picture of the architecture, drawn from the imports of the real modules.

    python docs/architecture.py            # writes docs/architecture.svg

Each band is a layer; a module imports from bands below its own. Arrows are imports, without those
that follow from others. The last line of a box names the libraries that it uses.
"""

import ast
import sys
from collections import defaultdict
from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
PICTURE = FOLDER / "architecture.svg"
PACKAGE = FOLDER.parent / "langchain_agentmem"

# From the ground up. A module imports from lower layers, and from its own.
LAYERS = (
    ("arguments", "batches", "errors", "quoting", "workers", "messages"),
    ("records",),
    ("results", "scopes", "permissions", "capture", "documents", "interchange", "reports"),
    ("embeddings",),
    ("storage",),
    ("search",),
    ("twins",),
    ("searching", "transfer", "upkeep"),
    ("memory",),
    ("tools", "integrations"),
    ("middleware",),
    ("cli",),
)
MODULES = sorted(PACKAGE.rglob("*.py"))
_OUTSIDE = ("chromadb", "sqlite3", "regex", "Stemmer", "filelock", "tenacity", "wordllama")
_LANGCHAIN = ("langchain", "langchain_core", "langchain_openai", "langgraph")
_SHOWN = (*_OUTSIDE, *_LANGCHAIN, "typer", "rich")

Names = dict[str, set[str]]


def dotted(path: Path) -> str:
    """Return the name of a module within the package, such as `storage.text`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def layer(module: str) -> str:
    """Return the module or folder of the package that a module stands in."""
    return module.partition(".")[0]


def statements(path: Path) -> set[str]:
    """Return what a module imports, wherever it does so: names of modules, from the root.

    Raises:
        ValueError: It has a relative import.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                msg = f"{path} has a relative import in line {node.lineno}"
                raise ValueError(msg)
            module = node.module or ""
            for alias in node.names:
                below = PACKAGE.parent / module.replace(".", "/") / alias.name
                is_module = below.is_dir() or below.with_suffix(".py").is_file()
                names.add(f"{module}.{alias.name}" if is_module else module)
    return names


def imported(path: Path) -> set[str]:
    """Return the modules of the package that a module imports, as `dotted` names them."""
    return {
        name.removeprefix(PACKAGE.name).lstrip(".")
        for name in statements(path)
        if layer(name) == PACKAGE.name
    }


def libraries(path: Path) -> set[str]:
    """Return the libraries that a module imports, of those that the picture names."""
    return {layer(name) for name in statements(path)} & set(_SHOWN)


@dataclass(frozen=True)
class Box:
    """A module of the package, or a folder of them, at its place in the picture; pixels."""

    name: str
    lines: list[str]
    uses: list[str]
    x: int
    y: int
    width: int
    height: int

    @property
    def middle(self) -> float:
        """The horizontal middle."""
        return self.x + self.width / 2


WIDTH = 1180
_LINE = 17
_GAP = 46
_MARGIN = 28
_CHARACTER = 6.7
_COLUMN_LINES = 6


def _boxes() -> list[Box]:
    inside: defaultdict[str, list[str]] = defaultdict(list)
    used: Names = defaultdict(set)
    for path in MODULES:
        name = dotted(path)
        if name:
            inside[layer(name)] += [name.partition(".")[2]] if "." in name else []
            used[layer(name)] |= libraries(path)
    boxes: list[Box] = []
    y = _MARGIN
    for band in reversed(LAYERS):
        texts = {name: _lines(sorted(inside[name])) for name in band}
        uses = {name: _uses(used[name]) for name in band}
        sizes = {
            name: int(
                26 + _CHARACTER * max(map(len, [name * 2, *texts[name], *uses[name]]), default=0)
            )
            for name in band
        }
        heights = {name: 32 + _LINE * (len(texts[name]) + len(uses[name])) for name in band}
        height = max(heights.values())
        free = (WIDTH - sum(sizes.values())) / (len(band) + 1)
        x = free
        for name in band:
            boxes.append(Box(name, texts[name], uses[name], int(x), y, sizes[name], heights[name]))
            x += sizes[name] + free
        y += height + _GAP
    return boxes


def _lines(modules: list[str]) -> list[str]:
    """Lay modules out in lines, several in each where there are many."""
    per_line = -(-len(modules) // _COLUMN_LINES) or 1
    rows = [modules[i : i + per_line] for i in range(0, len(modules), per_line)]
    return [" · ".join(row) for row in rows]


def _uses(names: set[str]) -> list[str]:
    return [f"uses {', '.join(sorted(names))}"] if names else []


def arrows() -> Names:
    """Return the imports between boxes, without those that follow from others."""
    direct: Names = defaultdict(set)
    for path in MODULES:
        source = layer(dotted(path))
        if source:
            direct[source] |= {layer(name) for name in imported(path)} - {source, ""}

    def reaches(start: str) -> set[str]:
        return direct[start].union(*map(reaches, direct[start]))

    return {
        source: targets - set().union(*map(reaches, targets))
        for source, targets in sorted(direct.items())
        if targets
    }


def draw() -> str:
    """Return the picture as SVG text; the same modules give the same text."""
    boxes = {box.name: box for box in _boxes()}
    height = max(box.y + box.height for box in boxes.values()) + _MARGIN
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            'font-family="DejaVu Sans, Verdana, sans-serif" font-size="12">'
        ),
        "<title>The modules of langchain_agentmem, and what they import of each other</title>",
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#607d8b"/></marker>'
            "</defs>"
        ),
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    parts += [
        _arrow(boxes[source], boxes[target], number)
        for source, targets in arrows().items()
        for number, target in enumerate(sorted(targets))
    ]
    parts += [text for box in boxes.values() for text in _box(box)]
    return "\n".join([*parts, "</svg>", ""])


def _arrow(source: Box, target: Box, number: int) -> str:
    x1, y1 = source.middle + 10 * number, source.y + source.height
    x2, y2 = target.middle, target.y - 2
    if y2 < y1:  # both in one band
        left = source.x > target.x
        x1, y1 = (source.x if left else source.x + source.width), source.y + 16
        x2, y2 = (target.x + target.width + 2 if left else target.x - 2), target.y + 16
        return _curve(f"M{x1:.0f} {y1:.0f}L{x2:.0f} {y2:.0f}")
    bend = (y2 - y1) / 2
    return _curve(
        f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    )


def _curve(path: str) -> str:
    return (
        f'<path d="{path}" fill="none" stroke="#90a4ae" stroke-width="1.3" marker-end="url(#tip)"/>'
    )


def _box(box: Box) -> list[str]:
    folder = bool(box.lines)
    texts = [
        (
            f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6" '
            f'fill="{"#e3f2fd" if folder else "#f5f5f5"}" stroke="#78909c"/>'
        ),
        (
            f'<text x="{box.middle:.0f}" y="{box.y + 20}" text-anchor="middle" font-size="14" '
            f'font-weight="bold">{escape(box.name)}{"/" if folder else ""}</text>'
        ),
    ]
    y = box.y + 20
    for line, style in [
        *((x, 'fill="#37474f"') for x in box.lines),
        *((x, 'fill="#00695c" font-style="italic"') for x in box.uses),
    ]:
        y += _LINE
        texts.append(
            f'<text x="{box.middle:.0f}" y="{y}" text-anchor="middle" {style}>{escape(line)}</text>'
        )
    return texts


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    sys.stdout.write(f"{PICTURE.relative_to(FOLDER.parent)}\n")
