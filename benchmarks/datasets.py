"""Reads the data sets of the retrieval benchmark: records, and questions whose answers are known.

A data set is a folder that holds `messages.jsonl` and `questions.jsonl`, and perhaps
`memories.jsonl`, in the interchange format. A question is
`{question, gold_message_ids, category?}`; further fields are not read.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from langchain_agentmem import Memory, Message
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES

RecordsName = Literal["messages", "memories"]


@dataclass(frozen=True)
class Question:
    """A question, and the ids of the records that answer it."""

    number: int
    """Its line in `questions.jsonl`, from 1."""
    text: str
    gold: frozenset[str]
    category: str | None = None
    """What kind of question it is, where the data set says so."""


@dataclass(frozen=True)
class Task:
    """What is measured: searches among records of one kind."""

    records: RecordsName
    texts: dict[str, str]
    """What is indexed of each record, by id."""
    questions: list[Question]
    """Those that at least one of the records answers."""
    left_out: int
    """How many questions none of the records answers."""


@dataclass(frozen=True)
class Dataset:
    """One folder of data."""

    name: str
    messages: list[Message]
    memories: list[Memory]
    tasks: list[Task]
    """Of the messages, and of the memories where there are any."""

    @property
    def questions(self) -> int:
        """How many questions there are, left out or not."""
        return len(self.tasks[0].questions) + self.tasks[0].left_out


def read_datasets(folder: Path) -> list[Dataset]:
    """Read every data set in a folder, sorted by name.

    Raises:
        FileNotFoundError: There is none.
    """
    found = sorted(path.parent for path in folder.glob("*/questions.jsonl"))
    datasets = [_read(path) for path in found if (path / "messages.jsonl").is_file()]
    if not datasets:
        msg = f"{folder}: no folder in it holds messages.jsonl and questions.jsonl"
        raise FileNotFoundError(msg)
    return datasets


def _read(folder: Path) -> Dataset:
    messages = [Message(**fields) for fields in _lines(folder / "messages.jsonl")]
    memories_file = folder / "memories.jsonl"
    memories = (
        [Memory(**fields) for fields in _lines(memories_file)] if memories_file.is_file() else []
    )
    asked = [
        Question(
            number,
            fields["question"],
            frozenset(fields["gold_message_ids"]),
            fields.get("category"),
        )
        for number, fields in enumerate(_lines(folder / "questions.jsonl"), start=1)
    ]
    spoken = {message.id: MESSAGES.embedded_text(message) for message in messages}
    tasks = [_task("messages", spoken, asked)]
    if memories:
        tasks.append(
            _task(
                "memories",
                {memory.id: MEMORIES.embedded_text(memory) for memory in memories},
                [_about_memories(question, memories) for question in asked],
            )
        )
    return Dataset(folder.name, messages, memories, tasks)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _task(records: RecordsName, texts: dict[str, str], questions: list[Question]) -> Task:
    answered = [question for question in questions if question.gold]
    return Task(records, texts, answered, len(questions) - len(answered))


def _about_memories(question: Question, memories: list[Memory]) -> Question:
    """Ask for the memories that were distilled from the messages which answer a question."""
    gold = frozenset(
        memory.id
        for memory in memories
        if question.gold.intersection(memory.metadata.get("source_message_ids", ()))
    )
    return replace(question, gold=gold)
