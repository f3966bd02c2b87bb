"""What comes back: hits, `SearchResult`, `WriteReport` and `MemoryStatus`.

Plain frozen dataclasses: they are made by the thousand on the hot path. `to_dict` gives JSON
data, which checkpointers can store.
"""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from html import escape
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import PlainSerializer, TypeAdapter

from langchain_agentmem.quoting import shortened, without_controls
from langchain_agentmem.records import Memory, Message, format_time

Strategy = Literal["hybrid", "embedding", "fts", "none"]
Moment = Annotated[datetime, PlainSerializer(format_time)]
"""A time, which is ISO 8601 in UTC as JSON data."""


HitT = TypeVar("HitT", bound="Hit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """How a record came into an answer."""

    score: float
    """The fused score where two lists were fused, else the score of the one list (0 to 1)."""
    keyword_rank: int | None = None
    """1-based rank in the keyword list, None if it is not there."""
    vector_rank: int | None = None
    """1-based rank in the vector list, None if it is not there."""
    similarity: float | None = None
    """Cosine similarity to the query, -1 to 1, None if it is not known."""
    keyword_part: float | None = None
    """What the keyword list contributed to a fused score, None where nothing was fused."""
    vector_part: float | None = None
    """What the vector list contributed to a fused score, None where nothing was fused."""
    recency: float | None = None
    """The factor that its age put on the score, None where age did not count."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data, times as ISO 8601."""
        (data,) = _json_data([self])
        return data


def _json_data(hits: list[HitT]) -> list[dict[str, Any]]:
    """Return hits, all of one type, as JSON data."""
    if not hits:
        return []
    own: Any = type(hits[0])  # else mypy asks whether a hit, not its class, is hashable
    # `dataclasses.asdict` copies deeply, which takes as long as the search of a small memory.
    data: list[dict[str, Any]] = _adapter(own).dump_python(hits, mode="json", warnings=False)
    return data


@cache
def _adapter(hit: type[Hit]) -> TypeAdapter[Any]:
    # Made when it is first needed: it takes longer than the import of this module.
    return TypeAdapter(list[hit])  # type: ignore[valid-type]


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
    created_at: Moment
    updated_at: Moment | None
    metadata: dict[str, Any]
    source: str | None = None
    """The id of the message it was distilled from that matches the query best, if any does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMessage:
    """A message beside one that was found."""

    id: str
    role: str
    name: str | None
    content: str
    recorded_at: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHit(Hit):
    """A message that was found."""

    id: str
    session_key: str
    role: str
    name: str | None
    content: str
    recorded_at: Moment
    scope: str
    scope_id: str
    metadata: dict[str, Any]
    before: list[ContextMessage] = field(default_factory=list)
    """What was said right before, in the order of the conversation; only if asked for."""
    after: list[ContextMessage] = field(default_factory=list)
    """What was said right after, in the order of the conversation; only if asked for."""


EXPLAIN_HEADS = (
    "",
    "content",
    "score",
    "keyword rank",
    "vector rank",
    "similarity",
    "from keywords",
    "from vectors",
    "recency",
    "source message",
)
_CONTENT_SHOWN = 120


def explain_row(number: int, hit: Any) -> list[str]:
    """Return how a hit came to its place, in the order of `EXPLAIN_HEADS`."""
    content = shortened(without_controls(" ".join(hit.content.split())), _CONTENT_SHOWN)

    def shown(value: float | None) -> str:
        return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

    parts = (hit.keyword_rank, hit.vector_rank, hit.similarity, hit.keyword_part, hit.vector_part)
    source = without_controls(getattr(hit, "source", None) or "")
    return [str(number), content, *map(shown, (hit.score, *parts, hit.recency)), source]


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
    query: str = ""
    """What was asked."""
    plan: list[str] = field(default_factory=list)
    """How it was found, a sentence for each decision; only if asked for."""

    def _repr_html_(self) -> str:
        """Return a table, which notebooks show."""
        rows = "".join(
            "<tr>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in explain_row(number, hit))
            + "</tr>"
            for number, hit in enumerate(self.results, start=1)
        )
        heads = "".join(f"<th>{head}</th>" for head in EXPLAIN_HEADS)
        notes = "".join(f"<p>{escape(note)}</p>" for note in [self.message, *self.notes] if note)
        total = f"<p>{self.total} results (strategy: {self.strategy})</p>"
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        return total + (table if self.results else "") + notes

    @property
    def total(self) -> int:
        """How many results are returned."""
        return len(self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        return {
            "results": _json_data(self.results),
            "total": self.total,
            "strategy": self.strategy,
            "message": self.message,
            "notes": list(self.notes),
            "query": self.query,
            **({"plan": list(self.plan)} if self.plan else {}),
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
class Finding:
    """What one check of `AgentMemory.check()` found."""

    part: str
    """The part that was checked."""
    ok: bool
    detail: str
    """What was found, and what to do about it."""


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
