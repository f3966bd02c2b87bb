"""What comes back: hits, `SearchResult`, `WriteReport` and `MemoryStatus`.

Plain frozen dataclasses: they are made by the thousand on the hot path. `to_dict` gives JSON
data, which checkpointers can store.
"""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from langchain_agentmem.records import Memory, Message, format_time

Strategy = Literal["hybrid", "embedding", "fts", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """How a record came into an answer."""

    score: float
    """RRF score where two lists were fused, else the score of the one list (0 to 1)."""
    keyword_rank: int | None = None
    """1-based rank in the keyword list, None if it is not there."""
    vector_rank: int | None = None
    """1-based rank in the vector list, None if it is not there."""
    similarity: float | None = None
    """Cosine similarity to the query, -1 to 1, None if it is not known."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data, times as ISO 8601."""
        return {
            key: format_time(value) if isinstance(value, datetime) else value
            for key, value in asdict(self).items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHit(Hit):
    """A memory that was found."""

    id: str
    content: str
    type: str
    priority: int
    scene_name: str
    tags: list[str]
    scope: str
    scope_id: str
    strength: float
    session_key: str
    created_at: datetime
    updated_at: datetime | None
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHit(Hit):
    """A message that was found."""

    id: str
    session_key: str
    role: str
    name: str | None
    content: str
    recorded_at: datetime
    scope: str
    scope_id: str
    metadata: dict[str, Any]


HitT = TypeVar("HitT", bound=Hit)


@dataclass(frozen=True)  # slots would forbid SearchResult[MemoryHit](...)
class SearchResult(Generic[HitT]):
    """The answer of a search."""

    results: list[HitT]
    strategy: Strategy
    """Which index answered: both (`hybrid`), vectors (`embedding`), keywords (`fts`), `none`."""
    message: str | None = None
    """Advice that replaces the output, or None."""
    notes: list[str] = field(default_factory=list)
    """Why the answer is degraded, a sentence each."""

    @property
    def total(self) -> int:
        """How many results are returned."""
        return len(self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        return {
            "results": [hit.to_dict() for hit in self.results],
            "total": self.total,
            "strategy": self.strategy,
            "message": self.message,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What a write did. Everything counted as saved or duplicate is on disk."""

    saved: int = 0
    """Records that were new, or replaced an older version of themselves."""
    duplicates: int = 0
    """Records that were there already."""
    indexed: int = 0
    """Vectors that were written by this call, those of earlier writes included."""
    pending: int = 0
    """Vectors still to be written; a later write or `sync()` does it."""
    skipped: int = 0
    """Messages without any text, such as bare tool calls."""
    problem: str | None = None
    """Why vectors are pending, or None."""
    conflicts: list[int] = field(default_factory=list)
    """With `replace=False`: positions of the records whose id is there with other content."""
    records: list[Memory] | list[Message] = field(default_factory=list, repr=False)
    """The records as they are stored, in the order given, with their ids."""


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """The state of a memory, as `AgentMemory.status()` sees it."""

    location: str
    memories: int
    messages: int
    pending: int
    """Vectors that wait to be written."""
    strategy: Strategy
    """The best strategy that a search can have now."""
    embedding: str | None
    """The embedding model, or None."""
    keyword_index: str | None
    """The kind of keyword index, or None."""
    problems: list[str]
    """What is degraded and what to do about it, a sentence each."""
