"""What both search tools share: how they read a model's arguments and how they answer."""

import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

from langchain_core.runnables import RunnableConfig
from pydantic import BeforeValidator, Field

from langchain_agentmem.results import SearchResult
from langchain_agentmem.search.fusion import FUSION_DEPTH
from langchain_agentmem.search.request import Diversity, HalfLifeDays, MinSimilarity
from langchain_agentmem.tools.memory_tool import Answer, MemoryTool

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


# In this order the bounds are those of the integer, and reach the model's schema.
Limit = Annotated[int, Field(ge=1, le=MAX_SHOWN), BeforeValidator(coerce_limit)]

LIMIT_DESCRIPTION = f"How many results at the most, 1 to {MAX_SHOWN}."
AFTER_DESCRIPTION = "Only from this time on, ISO 8601: 2026-05-08T13:00:00Z, or a date."
BEFORE_DESCRIPTION = "Only up to this time, ISO 8601; a date includes its whole day."


class SearchTool(MemoryTool):
    """A tool that searches.

    Content is the string that the model reads, artifact the `SearchResult` as JSON data.
    """

    format_result: ClassVar[Callable[..., str]]

    min_similarity: MinSimilarity = None
    """Cosine below which a record is no answer; None: no such bound."""
    half_life_days: HalfLifeDays = None
    """Age in days at which a score counts half; None: age does not count."""
    diversity: Diversity = None
    """How much results must differ from those above them; None: not at all."""
    show_ids: bool = False
    """Whether the string shows the ids of records, for tools that edit them."""

    def _answer(
        self, search: Callable[..., SearchResult[Any]], *args: Any, **options: Any
    ) -> Answer:
        with self._failures_told():
            return self._present(search(*args, **options))

    async def _aanswer(self, search: Callable[..., Any], *args: Any, **options: Any) -> Answer:
        with self._failures_told():
            return self._present(await search(*args, **options))

    def _options(self, config: RunnableConfig, **filters: str | None) -> dict[str, Any]:
        return {
            **filters,
            "config": config,
            "min_similarity": self.min_similarity,
            "half_life_days": self.half_life_days,
            "diversity": self.diversity,
        }

    def _present(self, result: SearchResult[Any]) -> Answer:
        text = type(self).format_result(result, show_ids=self.show_ids)
        return text, result.to_dict()
