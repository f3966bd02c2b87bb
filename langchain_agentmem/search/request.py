"""What a search asks for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from langchain_agentmem.arguments import text_argument, whole_number
from langchain_agentmem.records import clean_text, parse_time_range
from langchain_agentmem.results import Hit
from langchain_agentmem.scopes import Visibility
from langchain_agentmem.search.fusion import FUSION_DEPTH, OVER_RETRIEVAL
from langchain_agentmem.storage.kinds import Condition, RecordKind

MAX_LIMIT = 100
MAX_CONTEXT = 5
OVER_RETRIEVAL_IN_SESSION = 4
AGED_CANDIDATES = 400

HitT = TypeVar("HitT", bound=Hit)

# The options of a search as fields of tools and retrievers, which refuse what a search would.
MinSimilarity = Annotated[float, Field(ge=-1, le=1)] | None
HalfLifeDays = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
Diversity = Annotated[float, Field(ge=0, le=1)] | None


@dataclass(frozen=True)
class SearchRequest(Generic[HitT]):
    """One search: over which records, for what, seen by whom.

    Attributes:
        kind: The kind of records.
        query: Any text.
        limit: How many results at the most.
        filters: Values by the names of `kind.filters`; those that are not used are absent.
        visibility: What the turn may see.
        min_similarity: Cosine below which a record is no answer; None: no such bound.
        half_life_days: Age in days at which a score is halved; None: age does not count.
        diversity: 0 to 1, how much results must differ; None: not at all.
        context: How many messages before and after each result come with it.
        explain: Whether the answer tells how it was found.
    """

    kind: RecordKind[Any, HitT]
    query: str
    limit: int
    filters: Mapping[str, Any] = field(default_factory=dict)
    visibility: Visibility = field(default_factory=Visibility)
    min_similarity: float | None = None
    half_life_days: float | None = None
    diversity: float | None = None
    context: int = 0
    explain: bool = False

    @cached_property
    def condition(self) -> Condition:
        """The condition that every result meets."""
        return self.kind.where(self.filters, self.visibility)

    @cached_property
    def source_condition(self) -> Condition | None:
        """The condition on what records were distilled from, where the kind has such sources."""
        sources = self.kind.sources
        return None if sources is None else sources.where({}, self.visibility)

    @property
    def candidates(self) -> int:
        """How many candidates each index is asked for."""
        in_session = "session_key" in self.filters
        factor = OVER_RETRIEVAL_IN_SESSION if in_session else OVER_RETRIEVAL
        candidates = max(FUSION_DEPTH, self.limit) * factor
        # What is new may lie deep in the lists before age counts.
        return candidates if self.half_life_days is None else max(AGED_CANDIDATES, candidates)


def make_request(
    kind: RecordKind[Any, HitT],
    query: str,
    limit: int,
    *,
    filters: Mapping[str, str | None],
    bounds: Mapping[str, Any],
    visibility: Visibility,
    min_similarity: float | None,
    half_life_days: float | None = None,
    diversity: float | None = None,
    context: int = 0,
    explain: bool = False,
) -> SearchRequest[HitT]:
    """Check the arguments of a search.

    Args:
        kind: The kind of records.
        query: Any text.
        limit: 1 to 100.
        filters: Text filters by name; None or blank: not used.
        bounds: `after` and `before`, as a user gives them.
        visibility: What the turn may see.
        min_similarity: -1 to 1, or None.
        half_life_days: Above 0, or None.
        diversity: 0 to 1, or None.
        context: 0 to 5.
        explain: Whether the answer tells how it was found.

    Raises:
        TypeError: The query is no text.
        ValueError: Another argument is unusable; it is named.
    """
    text_argument("query", query)
    whole_number("limit", limit, 1, MAX_LIMIT)
    used: dict[str, Any] = {}
    for name, value in filters.items():
        if value is None:
            continue
        if not isinstance(value, str):
            msg = f"{name} must be text, not {value!r}"
            raise ValueError(msg)  # noqa: TRY004  (one kind of error for unusable arguments)
        if value.strip():
            used[name] = clean_text(value)
    after, before = parse_time_range(bounds.get("after"), bounds.get("before"))
    used |= {name: at for name, at in (("after", after), ("before", before)) if at is not None}
    _check_number("min_similarity", min_similarity, -1, 1)
    _check_number("half_life_days", half_life_days, 0, math.inf)
    if half_life_days == 0:
        msg = "half_life_days must be above 0"
        raise ValueError(msg)
    _check_number("diversity", diversity, 0, 1)
    whole_number("context", context, 0, MAX_CONTEXT)
    return SearchRequest(
        kind,
        clean_text(query),
        limit,
        used,
        visibility,
        min_similarity=min_similarity,
        half_life_days=half_life_days,
        diversity=diversity,
        context=context,
        explain=bool(explain),
    )


def _check_number(name: str, value: Any, least: float, most: float) -> None:
    if value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and least <= value <= most):
        within = f"from {least} to {most}" if math.isfinite(most) else f"above {least}"
        msg = f"{name} must be a number {within}, not {value!r}"
        raise ValueError(msg)
