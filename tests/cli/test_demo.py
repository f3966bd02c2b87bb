"""`agentmem demo`: real answers of both tools, with and without an embedding."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from typer.testing import CliRunner

from langchain_agentmem.cli import app
from langchain_agentmem.interchange import read_records
from langchain_agentmem.records import Memory, Message

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
DATA = Path(str(files("langchain_agentmem.cli") / "demo_data"))


@pytest.fixture(scope="module")
def output() -> str:
    result = CliRunner().invoke(app, ["demo"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_each_tool_answers_four_questions_twice(output: str) -> None:
    for tool in ("memory_search", "conversation_search"):
        assert len(re.findall(rf"^{tool}\(query=", output, re.MULTILINE)) == 8


def test_hybrid_answers_come_first_and_keyword_answers_after_the_embedding_is_gone(
    output: str,
) -> None:
    with_embedding, without = output.split("with the embedding taken away")
    assert "(strategy: hybrid)" in with_embedding
    assert "Note:" not in with_embedding
    assert "(strategy: hybrid)" not in without
    assert "(strategy: fts)" in without
    assert "embedding.provider" in without


def test_each_half_says_what_its_own_answers_show(output: str) -> None:
    """A comment tells of vectors only where there are some."""
    questions = json.loads((DATA / "questions.json").read_text(encoding="utf-8"))
    asked = [question for each in questions.values() for question in each]
    halves = output.split("with the embedding taken away")
    for half, key in zip(halves, ("shows", "shows_without_embedding"), strict=True):
        said = re.findall(r"^# (.*)\n\w+_search\(", half, re.MULTILINE)
        assert said == [question[key] for question in asked]
    comments = re.findall(r"^# (.*)\n\w+_search\(.*\n(.*)", halves[1], re.MULTILINE)
    for comment, answer in comments:
        assert ("cannot find it" in comment) == answer.startswith("No matching")
        assert not re.search("vector|indexes|meaning", comment)


def test_the_note_that_every_answer_has_is_shown_once(output: str) -> None:
    assert output.count("Note: ") == 1
    assert output.count("# the answers below end with this note too") == 1


def test_the_readme_shows_answers_of_it(output: str) -> None:
    shown = re.findall(r"^```text\n(Found .*?)^```$", README, re.DOTALL | re.MULTILINE)

    assert len(shown) == 2
    for answer in shown:
        assert answer in output


def test_the_comparison_shows_what_vectors_and_what_keywords_find(output: str) -> None:
    rows = re.findall(
        r"^ (.+?) +(rank \d+|not found) +(rank \d+|not found) *$", output, re.MULTILINE
    )
    assert len(rows) == 8
    # With an embedding everything is found near the top; a paraphrase is not found without one.
    assert all(found in ("rank 1", "rank 2") for _, found, _ in rows)
    assert {query for query, _, found in rows if found == "not found"} == {
        "food allergies",
        "dog leg injury",
    }


def test_the_history_is_well_formed() -> None:
    ids = {}
    for name, record_type in (("memories", Memory), ("messages", Message)):
        lines = list(read_records(DATA / f"{name}.jsonl"))
        records = [line.record for line in lines]
        assert all(isinstance(record, record_type) for record in records)
        ids[name] = {record.id for record in records if record}
        assert len(ids[name]) == len(lines)
    questions = json.loads((DATA / "questions.json").read_text(encoding="utf-8"))
    for name, key in (("memories", "memories"), ("messages", "conversations")):
        for question in questions[key]:
            assert set(question["gold"]) <= ids[name]
