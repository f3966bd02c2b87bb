"""The README is the documentation: what it shows runs, and nothing public is missing from it."""

import inspect
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import typer.main
from langchain_core.tools import BaseTool

import langchain_agentmem
from langchain_agentmem import AgentMemory, AgentMemoryToolkit, Memory, Message, records
from langchain_agentmem.cli import app
from langchain_agentmem.search import request
from langchain_agentmem.tools import formatting
from langchain_agentmem.tools import search_tool as tool_limits

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE_OF_TOOLS = (ROOT / "docs" / "reference" / "tools.md").read_text(encoding="utf-8")
LIMITS = README.partition("| limit | |\n")[2].partition("\n\n")[0]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
# As typed: not the end of a module's name, as in `from langchain_agentmem import`.
TYPED = re.compile(r"(?<![\w-])agentmem ([a-z]+(?:-[a-z]+)*)(.*)")


class NetworkError(AssertionError):
    """Something wanted to leave the machine."""


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: socket.socket, address: Any) -> None:
        raise NetworkError(address)

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *address, **_: refuse(socket.socket(), address)
    )


def title(block: str) -> str:
    """The section that a block stands in."""
    return str(re.findall(r"^#+ (.*)$", README[: README.index(block)], re.MULTILINE)[-1])


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("block", BLOCKS, ids=title)
def test_a_block_runs_by_itself_and_prints_what_it_says(
    block: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "readme"}
    try:
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102  (it is what is tested)
        status = names["memory"].status()
    finally:
        if "memory" in names:
            names["memory"].close()

    printed = capsys.readouterr().out
    lines = printed.splitlines()
    for promised in re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE):
        beginning = promised.removesuffix("...)")
        cut = beginning != promised
        assert any(line.startswith(beginning) if cut else line == promised for line in lines), (
            promised
        )
    assert (status.pending, status.problems) == (0, [])
    assert [path.name for path in tmp_path.iterdir()] == ["agent-memory"]


def test_there_are_blocks_to_run() -> None:
    assert "Five lines" in map(title, BLOCKS)
    assert len(BLOCKS) == README.count("```python")


@pytest.mark.parametrize("mark", ["run", "test"])
def test_a_newcomer_finds_one_command(mark: str) -> None:
    marked = f"<!-- newcomer: {mark} -->\n"

    assert README.count(marked) == 1
    following = README.partition(marked)[2]
    block = re.match(r"```bash\n([^`]+\n)```\n", following)
    assert block is not None
    assert len(block[1].splitlines()) == 1


def test_there_are_no_other_marks() -> None:
    assert re.findall(r"newcomer: *(\w+)", README) == ["run", "test"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_mentioned(command: str) -> None:
    assert command in [name for name, _ in TYPED.findall(README)]


def test_every_command_and_option_that_is_mentioned_is_there() -> None:
    mentioned = TYPED.findall(README)

    assert {name for name, _ in mentioned} <= set(COMMANDS)
    for name, rest in mentioned:
        typed = rest.partition("#")[0].partition("`")[0]
        options = {option for each in COMMANDS[name].params for option in each.opts}
        assert set(re.findall(r"--[a-z-]+", typed)) <= options, name


@pytest.mark.parametrize("record", [Message, Memory])
def test_the_fields_of_a_line_are_those_of_a_record(record: type[Message] | type[Memory]) -> None:
    named = rf"a {record.__name__.lower()} (?:is )?`{{(.*?)}}`"
    listed = re.search(named, README, re.DOTALL | re.IGNORECASE)

    assert listed
    assert set(re.findall(r"\w+", listed[1])) == set(record.model_fields)


@pytest.mark.parametrize(
    ("row", "numbers"),
    [
        ("`limit` of a tool", {1, tool_limits.MAX_SHOWN, tool_limits.DEFAULT_LIMIT}),
        ("`limit` in Python", {1, request.MAX_LIMIT, tool_limits.DEFAULT_LIMIT}),
        ("`context`", {0, request.MAX_CONTEXT}),
        ("text of a result", {formatting.MAX_CONTENT_CHARS, formatting.MAX_CONTEXT_CHARS}),
        ("`id` of a record", {records.LONGEST_ID}),
    ],
)
def test_the_limits_are_those_of_the_code(row: str, numbers: set[int]) -> None:
    told = re.search(rf"^\| {row}[^|]*\|(.*)\|$", LIMITS, re.MULTILINE)

    assert told
    assert {int(each) for each in re.findall(r"\d+", told[1].replace(",", ""))} == numbers


def test_all_roles_and_what_is_read_as_one_are_named() -> None:
    told = re.search(r"^\| `role` of a message \|(.*)\|$", LIMITS, re.MULTILINE)

    assert told
    named = re.findall(r"`(\w+)`", told[1])
    assert {records.role_name(each) for each in named} == set(records.ROLES)
    assert {each for each in named if each in records.ROLES} == set(records.ROLES)


@pytest.mark.parametrize("page", [README, REFERENCE_OF_TOOLS], ids=["README", "reference"])
def test_every_argument_of_an_editing_tool_is_named_in_its_row(page: str) -> None:
    with AgentMemory.in_memory(embedding="none") as memory:
        tools = AgentMemoryToolkit(memory=memory, editing=True).get_tools()[2:]

    for tool in tools:
        rows = re.search(rf"^\| `{tool.name}` \|.*\n(?:\| \|.*\n)*", page, re.MULTILINE)
        assert rows
        assert set(tool.args) <= set(re.findall(r"`(\w+)`", rows[0])), tool.name


def documented() -> str:
    """The README, and what `help()` says of the public methods of the two front doors."""
    methods = [
        method
        for front in (AgentMemory, AgentMemoryToolkit)
        for name, method in inspect.getmembers(front)
        if not name.startswith("_")
        and callable(method)
        and getattr(method, "__module__", "").startswith("langchain_agentmem")
    ]
    texts = [f"{inspect.signature(method)}\n{inspect.getdoc(method)}" for method in methods]
    return "\n".join([README, *texts])


def names_of(public: Any) -> list[str]:
    """What a public class is called: a tool also by the name that an agent calls it by."""
    names = [public.__name__]
    if issubclass(public, BaseTool):
        names.append(public.model_fields["name"].default)
    return names


@pytest.mark.parametrize(
    "public",
    [
        public
        for public in (getattr(langchain_agentmem, name) for name in langchain_agentmem.__all__)
        if not (isinstance(public, type) and issubclass(public, Exception))
    ],
    ids=lambda public: public.__name__,
)
def test_every_public_name_is_documented(public: Any) -> None:
    """In the README, or where what takes or returns it is documented."""
    text = documented()

    assert any(re.search(rf"\b{name}\b", text) for name in names_of(public))


def test_a_name_that_is_nowhere_would_be_missed() -> None:
    assert not re.search(r"\bMemoryGraph\b", documented())
