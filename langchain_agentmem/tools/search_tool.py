"""What both search tools share: how they read a model's arguments and how they answer."""

import inspect
import math
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import FILTERED_ARGS
from pydantic import BaseModel, Field, field_validator

from langchain_agentmem.results import SearchResult
from langchain_agentmem.search.fusion import FUSION_DEPTH
from langchain_agentmem.search.request import Diversity, HalfLifeDays, MinSimilarity
from langchain_agentmem.tools.memory_tool import Answer, MemoryTool, read_filter, read_text

Found = SearchResult[Any]
Searches = tuple[Callable[..., Found], Callable[..., Awaitable[Found]]]
"""A search, and the same without blocking."""

DEFAULT_LIMIT = 5
MAX_SHOWN = FUSION_DEPTH
"""The most that an agent can ask for: as many as fusion looks at in each list."""


def coerce_limit(value: Any) -> int:
    """Make an integer within 1 and 20 of whatever a model sends; 5 where it makes no sense."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return DEFAULT_LIMIT
    if isinstance(value, bool) or not isinstance(value, int | float):
        return DEFAULT_LIMIT
    if isinstance(value, float) and math.isnan(value):
        return DEFAULT_LIMIT
    return int(max(1, min(MAX_SHOWN, value)))


class SearchInput(BaseModel):
    """What a model fills in for any search.

    The annotations are plain, and what reads a model's loose values stands apart: LangChain walks
    through them twice in every call.
    """

    query: str = Field(description="What to look for, in a few words.")
    limit: int = Field(
        default=DEFAULT_LIMIT,
        ge=1,
        le=MAX_SHOWN,
        description=f"How many results at the most, 1 to {MAX_SHOWN}.",
    )
    after: str | None = Field(
        default=None,
        description="Only from this time on, ISO 8601: 2026-05-08T13:00:00Z, a date or a month.",
    )
    before: str | None = Field(
        default=None,
        description="Only up to this time, ISO 8601; a date or a month includes all of it.",
    )

    _read_query = field_validator("query", mode="before")(read_text)
    _coerce_limit = field_validator("limit", mode="before")(coerce_limit)
    _read_bounds = field_validator("after", "before", mode="before")(read_filter)


MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def _signed(method: MethodT) -> MethodT:
    """Keep the signature of a method with it: LangChain works it out anew in every call."""
    method.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return method


class SearchTool(MemoryTool):
    """A tool that searches.

    Content is the string that the model reads, artifact the `SearchResult` as JSON data.
    """

    format_result: ClassVar[Callable[..., str]]
    own_schema: ClassVar[type[SearchInput]]
    """Its `args_schema`, unless somebody replaces that: the model fills in all of it."""

    min_similarity: MinSimilarity = None
    """Cosine below which a record is no answer; None: no such bound."""
    half_life_days: HalfLifeDays = None
    """Age in days at which a score counts half; None: age does not count."""
    diversity: Diversity = None
    """How much results must differ from those above them; None: not at all."""
    show_ids: bool = False
    """Whether the string shows the ids of records, for tools that edit them."""

    @property
    @abstractmethod
    def _searches(self) -> Searches:
        """The search of the memory that the tool runs."""

    @_signed
    def _run(
        self,
        query: str,
        limit: int = DEFAULT_LIMIT,
        *,
        config: RunnableConfig,
        **filters: Any,
    ) -> Answer:
        with self._failures_told():
            search, _ = self._searches
            return self._present(search(query, limit, **self._options(config, filters)))

    @_signed
    async def _arun(
        self,
        query: str,
        limit: int = DEFAULT_LIMIT,
        *,
        config: RunnableConfig,
        **filters: Any,
    ) -> Answer:
        with self._failures_told():
            _, search = self._searches
            return self._present(await search(query, limit, **self._options(config, filters)))

    @property
    def _injects_nothing(self) -> bool:
        return self.args_schema is self.own_schema and not self._injected_args_keys

    # LangChain looks twice in every call for arguments that the run injects, which takes a fifth of
    # what the call adds to the search. Where there are none, both methods do the same without it.

    def _filter_injected_args(self, tool_input: dict[str, Any]) -> dict[str, Any]:
        if not self._injects_nothing:
            return super()._filter_injected_args(tool_input)
        return {name: value for name, value in tool_input.items() if name not in FILTERED_ARGS}

    def _parse_input(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> str | dict[str, Any]:
        if isinstance(tool_input, str) or not self._injects_nothing:
            return super()._parse_input(tool_input, tool_call_id)
        return dict(self.own_schema.model_validate(tool_input))

    def _options(self, config: RunnableConfig, filters: dict[str, str | None]) -> dict[str, Any]:
        return {
            **filters,
            "config": config,
            "min_similarity": self.min_similarity,
            "half_life_days": self.half_life_days,
            "diversity": self.diversity,
        }

    def _present(self, result: Found) -> Answer:
        text = type(self).format_result(result, show_ids=self.show_ids)
        return Answer(text, result.to_dict())
