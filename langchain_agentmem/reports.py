"""What comes back from work on many records at once: `ImportReport` and `MemoryStats`."""

import logging
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from langchain_agentmem.records import format_time

logger = logging.getLogger(__name__)

_LOGGED = 20


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did. Everything counted as saved or duplicate is on disk."""

    memories: int = 0
    """Memories that were new, or replaced an older version of themselves."""
    messages: int = 0
    """Messages that were new, or replaced an older version of themselves."""
    duplicates: int = 0
    """Records that were there already."""
    conflicts: int = 0
    """Records whose id is there with other content; what was there stands."""
    indexed: int = 0
    """Vectors that were copied or made."""
    pending: int = 0
    """Vectors that are still to be made; `sync()` does it."""
    skipped: int = 0
    """What has no text, or cannot be read."""
    problems: list[str] = field(default_factory=list)
    """What was skipped or kept as it was, by id or number, and what else is to be known."""
    problem: str | None = None
    """Why vectors are pending, or None. What is wrong with records is among the `problems`."""

    @property
    def saved(self) -> int:
        """Records that were new or replaced."""
        return self.memories + self.messages

    def log_problems(self) -> None:
        """Log all problems as one warning."""
        problems = [*([self.problem] if self.problem else []), *self.problems]
        if problems:
            more = len(problems) - _LOGGED
            rest = f"; and {more} more" if more > 0 else ""
            logger.warning("%s%s", "; ".join(problems[:_LOGGED]), rest)

    def __add__(self, other: "ImportReport") -> "ImportReport":
        """Return what two parts of an import did; `pending` is that of the later one.

        The `problem` is the latest there was.
        """
        return ImportReport(
            memories=self.memories + other.memories,
            messages=self.messages + other.messages,
            duplicates=self.duplicates + other.duplicates,
            conflicts=self.conflicts + other.conflicts,
            indexed=self.indexed + other.indexed,
            pending=other.pending,
            problem=other.problem or self.problem,
            skipped=self.skipped + other.skipped,
            problems=self.problems + other.problems,
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """How many records there are of each value of something."""

    distinct: int
    """How many values there are."""
    most: dict[str, int]
    """The most frequent values (months: the latest, in order) with their numbers of records."""


@dataclass(frozen=True, slots=True)
class KindStats:
    """Counts of the memories, or of the messages."""

    total: int
    """Live records."""
    deleted: int
    """Deleted ones that can be restored."""
    pending: int
    """Live ones that wait for their vectors."""
    first: datetime | None
    """The time of the oldest."""
    last: datetime | None
    """The time of the newest."""
    by: dict[str, Counts]
    """Counts by `type` and `scene` (memories) or `role` (messages), `session`, `scope`, `month`."""


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """What is in a memory, as `AgentMemory.stats()` counts it."""

    location: str
    memories: KindStats
    messages: KindStats
    sizes: dict[str, int]
    """Bytes on disk by part (`database`, `vectors`), empty where nothing is on disk."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data, times as ISO 8601."""
        data = asdict(self)
        for kind in (data["memories"], data["messages"]):
            for end in ("first", "last"):
                kind[end] = kind[end] and format_time(kind[end])
        return data
