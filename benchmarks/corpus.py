"""A corpus of any size, made of real text, for benchmarks of speed.

Each record is a text of a data set in which every fifth word was exchanged for one drawn from all
texts, as often as it occurs there: so there are as many rare and common words as people use, and
no two texts are alike. One user owns 10 % of the records, one session holds 0.1 %, one scene 1 %.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Dataset, RecordsName
from langchain_core.embeddings import Embeddings

from langchain_agentmem import Memory, Message

Vectors = npt.NDArray[np.float32]

START = datetime(2020, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=3)
EXCHANGED = 0.2
USERS, SCENES, SESSIONS = 10, 100, 1000
"""How many there are of each, all of the same size."""
USER, SCENE, SESSION = 3, 42, 500
"""Those that the benchmarks filter by."""
SEED = 20240101


@dataclass(frozen=True)
class Selection:
    """Which part of the records a search is restricted to, and how that is asked for."""

    name: str
    share: float
    filters: dict[str, Any]

    def holds(self, position: int, total: int) -> bool:
        """Tell whether a record of the corpus is in it."""
        if self.name.startswith("user"):
            return user_of(position) == USER
        if self.name.startswith("scene"):
            return scene_of(position) == SCENE
        if self.name.startswith("session"):
            return session_of(position, total) == SESSION
        if self.name.startswith("time"):
            return time_slice(total)[0] <= position < time_slice(total)[1]
        return True


class Corpus:
    """Records of one kind, and questions about them.

    Args:
        kind: Messages or memories.
        datasets: Where texts and questions come from.
        total: How many records there are.
    """

    def __init__(self, kind: RecordsName, datasets: Sequence[Dataset], total: int) -> None:
        """Collect the words; no record is made yet."""
        tasks = [task for each in datasets for task in each.tasks if task.records == kind]
        self.kind: RecordsName = kind
        self.total = total
        self.questions = list(dict.fromkeys(q.text for task in tasks for q in task.questions))
        self._texts = [text for task in tasks for text in task.texts.values()]
        self._words = [word for text in self._texts for word in text.split()]

    def texts(self, start: int = 0) -> Iterator[str]:
        """Make the texts, from a position on, the same at every call."""
        for position in range(start, self.total):
            chance = random.Random(SEED + position)  # noqa: S311  (a corpus, not a secret)
            words = self._texts[chance.randrange(len(self._texts))].split()
            for place in range(len(words)):
                if chance.random() < EXCHANGED:
                    words[place] = self._words[int(chance.random() * len(self._words))]
            yield " ".join(words)

    def records(self, texts: Sequence[str], start: int) -> list[Any]:
        """Make the records of texts that stand one after another in the corpus."""
        return [self._record(start + i, text) for i, text in enumerate(texts)]

    def selections(self) -> list[Selection]:
        """Return what the searches are restricted to."""
        first, last = time_slice(self.total)
        bounds = {"after": time_of(first), "before": time_of(last - 1)}
        session = {"session_key": f"session-{SESSION}"}
        owner = {"config": {"configurable": {"user_id": f"user-{USER}"}}}
        found = [Selection("none", 1.0, {}), Selection("user 10 %", 0.1, owner)]
        if self.kind == "memories":
            found.append(Selection("scene 1 %", 0.01, {"scene": f"scene {SCENE}."}))
        return [
            *found,
            Selection("time 1 %", 0.01, bounds),
            Selection("session 0.1 %", 0.001, session),
        ]

    def _record(self, position: int, text: str) -> Memory | Message:
        common: dict[str, Any] = {
            "id": self.id(position),
            "content": text,
            "session_key": f"session-{session_of(position, self.total)}",
            "scope": "user",
            "scope_id": f"user-{user_of(position)}",
        }
        if self.kind == "memories":
            return Memory(
                **common,
                type="episodic",
                scene_name=f"scene {scene_of(position)}.",
                created_at=time_of(position),
            )
        role: Any = "user" if position % 2 else "assistant"
        return Message(**common, role=role, recorded_at=time_of(position))

    def id(self, position: int) -> str:
        """Return the id of a record."""
        return f"{self.kind}-{position}"


def user_of(position: int) -> int:
    """Return the number of a record's user."""
    return position * 7919 % USERS


def scene_of(position: int) -> int:
    """Return the number of a record's scene."""
    return position * 104729 // USERS % SCENES


def session_of(position: int, total: int) -> int:
    """Return the number of a record's session; the records of one lie side by side."""
    return position * SESSIONS // total


def time_of(position: int) -> datetime:
    """Return the time of a record."""
    return START + position * STEP


def time_slice(total: int) -> tuple[int, int]:
    """Return the positions of the first record and past the last of the time range."""
    return total * 40 // 100, total * 41 // 100


class GivenEmbeddings(Embeddings):
    """Embeddings that know every vector beforehand, by text: what is timed is not the model."""

    model = "given"

    def __init__(self) -> None:
        """Know no vector yet."""
        self._rows: dict[str, Vectors] = {}

    def give(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Hand over the vectors of texts, a row each."""
        self._rows.update(zip(texts, vectors, strict=True))

    def forget(self, texts: Sequence[str]) -> None:
        """Let the vectors of texts go."""
        for text in texts:
            self._rows.pop(text, None)

    def embed_documents(self, texts: list[str]) -> Any:
        """Look the vectors up: (n, dim) float32."""
        return np.stack([self._rows[text] for text in texts])

    def embed_query(self, text: str) -> Any:
        """Look a vector up: (dim,) float32."""
        return self._rows[text]
