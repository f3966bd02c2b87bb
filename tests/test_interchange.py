"""What is written as JSON Lines is read back as the same record, and as the same bytes."""

import json
from pathlib import Path
from typing import Any

import pytest
from any_records import MEMORIES, MESSAGES
from hypothesis import HealthCheck, given, settings

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.integrations.imports import import_lines
from langchain_agentmem.interchange import read_records, write_line
from langchain_agentmem.records import Record


def read_back(path: Path, *lines: str) -> list[Record | None]:
    path.write_text("".join(lines), encoding="utf-8", newline="")
    return [line.record for line in read_records(path)]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines") / "a.jsonl"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(record=MEMORIES | MESSAGES)
def test_any_record_comes_back_as_it_was(file: Path, record: Record) -> None:
    line = write_line(record)

    assert read_back(file, line) == [record]
    assert len(line.splitlines()) == 1


@pytest.mark.parametrize("record_type", [Memory, Message])
def test_no_field_is_forgotten(record_type: type[Record]) -> None:
    values: dict[str, Any] = {
        "id": "1",
        "given_id": "own",
        "content": "x",
        "session_key": "s",
        "scope": "thread",
        "scope_id": "t",
        "metadata": {"a": 1},
        "type": "persona",
        "priority": 0,
        "scene_name": "home",
        "strength": 0.0,
        "tags": ["t"],
        "created_at": "2026-01-01",
        "updated_at": "2026-01-02",
        "role": "tool",
        "name": "",
        "recorded_at": "2026-01-03",
    }
    known = record_type.model_fields
    record = record_type.model_validate({name: values[name] for name in known})

    assert set(json.loads(write_line(record))) == set(known)


def test_what_is_as_if_not_given_is_left_out() -> None:
    memory = Memory(id="m", content="x", created_at="2026-01-02T03:04:05.000006Z")
    message = Message(id="1", session_key="s", role="user", content="x", recorded_at="2026-01-02")

    assert write_line(memory) == (
        '{"id": "m", "content": "x", "type": "episodic", '
        '"created_at": "2026-01-02T03:04:05.000006Z"}\n'
    )
    assert write_line(message) == (
        '{"id": "1", "session_key": "s", "role": "user", "content": "x", '
        '"recorded_at": "2026-01-02T00:00:00Z"}\n'
    )


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\r", "\n"])
def test_a_line_is_one_line_to_every_reader(file: Path, end: str) -> None:
    memory = Memory(id="m", content=f"a{end}b")
    line = write_line(memory)

    assert len(line.splitlines()) == 1
    assert read_back(file, line) == [memory]


@pytest.mark.parametrize("name", ["id", "given_id", "session_key", "scope_id"])
@pytest.mark.parametrize(("given_id", "known"), [(7, "7"), (0, "0"), (2**70, str(2**70))])
def test_a_number_as_id_is_its_digits(file: Path, name: str, given_id: int, known: str) -> None:
    (record,) = read_back(file, json.dumps({"content": "x", name: given_id}))

    assert record is not None
    assert getattr(record, name) == known


@pytest.mark.parametrize("prefix", ["", "p/"])
@pytest.mark.parametrize("name", ["id", "given_id", "session_key"])
@pytest.mark.parametrize("bad", [True, 1.5, ["a"], {"a": 1}])
def test_a_prefix_makes_no_id_of_what_is_none(
    file: Path, name: str, bad: object, prefix: str
) -> None:
    file.write_text(json.dumps({name: bad, "content": "x"}), encoding="utf-8")
    (line,) = read_records(file, prefix)

    assert line.record is None
    assert str(line).startswith(f"{file}:1: {name}: ")


@pytest.mark.parametrize("blank", ["", " ", "\n", None])
def test_a_prefix_makes_no_id_of_nothing(file: Path, blank: object) -> None:
    fields = {"id": blank, "content": "x", "metadata": {"source_message_ids": [blank, " a"]}}
    file.write_text(json.dumps({k: v for k, v in fields.items() if v is not None}))
    (line,) = read_records(file, "p/")

    assert line.record is not None
    assert line.record.id == ""
    assert line.record.metadata == {"source_message_ids": [blank, "p/a"]}


@pytest.mark.parametrize("blank", ["", " ", "\t\n", None])
def test_a_message_of_no_conversation_is_named_and_the_rest_is_kept(
    file: Path, blank: object
) -> None:
    told = [{"role": "user", "content": "x", "session_key": key} for key in (blank, "s")]
    file.write_text("\n".join(map(json.dumps, told)), encoding="utf-8")
    with AgentMemory.in_memory(embedding="none") as memory:
        report = import_lines(memory, read_records(file))

    assert (report.messages, report.skipped) == (1, 1)
    assert report.problems == [f"{file}:1: session_key: a message needs one"]


@pytest.mark.parametrize("given_id", [True, 1.5, [1]])
def test_anything_else_as_id_is_refused(file: Path, given_id: object) -> None:
    file.write_text(json.dumps({"id": given_id, "content": "x"}), encoding="utf-8")
    (line,) = read_records(file)

    assert line.record is None
    assert str(line).startswith(f"{file}:1: id: ")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("[" * 100_000, "is nested too deeply"),
        ("9" * 5000, "holds a number of too many digits"),
    ],
    ids=["brackets", "digits"],
)
def test_a_line_that_goes_too_far_is_named_and_the_rest_is_kept(
    file: Path, value: str, problem: str
) -> None:
    bad_line = f'{{"content": "x", "metadata": {{"a": {value}'
    file.write_text(f'{bad_line}\n{{"content": "y"}}\n', encoding="utf-8")

    bad, good = read_records(file)

    assert (bad.record, bad.problem) == (None, problem)
    assert good.record is not None


def test_messages_without_id_and_time_are_the_same_when_read_again(
    file: Path, keyword_memory: AgentMemory
) -> None:
    said = [("s", "yes"), ("s", "Is the roof done?"), ("s", "yes"), ("t", "yes")]
    lines = [{"session_key": s, "role": "user", "content": text} for s, text in said]
    bad = {"session_key": "s", "role": "user"}
    file.write_text("\n".join(map(json.dumps, [lines[0], bad, *lines[1:]])))
    first = import_lines(keyword_memory, read_records(file))
    file.write_text("\n".join(map(json.dumps, [lines[0], {**bad, "content": "ok"}, *lines[1:]])))
    again = import_lines(keyword_memory, read_records(file))

    assert (first.messages, first.skipped) == (4, 1)
    assert (again.messages, again.duplicates, again.conflicts) == (1, 4, 0)
    assert keyword_memory.status().messages == 5


def test_a_time_or_an_id_of_its_own_stands(file: Path) -> None:
    line = {"session_key": "s", "role": "user", "content": "yes"}
    own = [{**line, "id": "m1"}, {**line, "recorded_at": "2023-05-08T12:00:00Z"}]
    file.write_text("\n".join(map(json.dumps, own)))

    records = [line.record for line in read_records(file)]

    assert [record and record.id for record in records] == ["m1", ""]
