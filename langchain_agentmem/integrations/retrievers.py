"""A memory as LangChain retrievers: `MemoryRetriever` and `ConversationRetriever`.

Whose records they find, the config of the run decides that they are called in, as for the tools.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from pydantic import ConfigDict, Field

from langchain_agentmem.arguments import whole_number
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.results import Hit, SearchResult
from langchain_agentmem.search.request import (
    MAX_CONTEXT,
    MAX_LIMIT,
    Diversity,
    HalfLifeDays,
    MinSimilarity,
)

logger = logging.getLogger(__name__)
DEFAULT_K = 5


class _Retriever(BaseRetriever):
    """What both retrievers share."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: AgentMemory = Field(exclude=True, repr=False)
    """The memory that is searched."""
    k: int = Field(default=DEFAULT_K, ge=1, le=MAX_LIMIT)
    """How many documents at the most."""
    session_key: str | None = None
    """Only records of this conversation."""
    after: Any = None
    """Only records from this time on (datetime, ISO 8601 or epoch)."""
    before: Any = None
    """Only records up to this time; a date, month or year means all of it."""
    scope: str | None = None
    """Only this scope's records of the turn, and its unscoped ones."""
    min_similarity: MinSimilarity = None
    """Cosine below which a record is no answer; None: no such bound."""
    half_life_days: HalfLifeDays = None
    """Age in days at which a score counts half; None: age does not count."""
    diversity: Diversity = None
    """How much results must differ from those above them; None: not at all."""

    filters: ClassVar[tuple[str, ...]] = (
        "session_key",
        "after",
        "before",
        "scope",
        "min_similarity",
        "half_life_days",
        "diversity",
    )
    """The fields that are arguments of the search."""
    _search: ClassVar[Callable[..., SearchResult[Any]]]
    """The method of `AgentMemory` that is called, and its async twin."""
    _asearch: ClassVar[Callable[..., Awaitable[SearchResult[Any]]]]

    # BaseRetriever keeps the config to itself; it is resolved here, in the context of the call.
    def invoke(
        self,
        input: str,  # noqa: A002  (BaseRetriever's)
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Search.

        Args:
            input: Any text.
            config: The run's config; its ids decide what is visible.
            **kwargs: `k` and the filters, for this call.

        Returns:
            Documents, best first: the record's id and text, and all else of it as metadata.

        Raises:
            TypeError: An argument is unknown.
            ValueError: An argument is unusable; it is named.
            StorageError: The database cannot be read.
        """
        return super().invoke(input, config, turn=ensure_config(config), **kwargs)

    async def ainvoke(
        self,
        input: str,  # noqa: A002  (BaseRetriever's)
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Async twin of `invoke`: the same arguments, result and errors."""
        return await super().ainvoke(input, config, turn=ensure_config(config), **kwargs)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002  (BaseRetriever's)
        k: int | None = None,
        turn: RunnableConfig | None = None,
        **filters: Any,
    ) -> list[Document]:
        arguments = self._arguments(k, turn, filters)
        search = type(self)._search  # noqa: SLF001  (through the class it is bound to no instance)
        return self._documents(search(self.memory, query, **arguments))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002  (BaseRetriever's)
        k: int | None = None,
        turn: RunnableConfig | None = None,
        **filters: Any,
    ) -> list[Document]:
        arguments = self._arguments(k, turn, filters)
        search = type(self)._asearch  # noqa: SLF001  (as above)
        return self._documents(await search(self.memory, query, **arguments))

    def _arguments(
        self, k: int | None, turn: RunnableConfig | None, given: dict[str, Any]
    ) -> dict[str, Any]:
        unknown = sorted(set(given) - set(self.filters))
        if unknown:
            msg = f"unknown arguments {', '.join(unknown)}: use k, {', '.join(self.filters)}"
            raise TypeError(msg)
        if k is not None:
            whole_number("k", k, 1, MAX_LIMIT)
        return {
            **{name: getattr(self, name) for name in self.filters},
            **given,
            "limit": self.k if k is None else k,
            "config": ensure_config(turn),
        }

    @staticmethod
    def _documents(result: SearchResult[Any]) -> list[Document]:
        for note in [result.message, *result.notes]:
            if note:
                logger.info("%s", note)
        return [_document(hit, result.strategy) for hit in result.results]


def _document(hit: Hit, strategy: str) -> Document:
    data = hit.to_dict()
    id_, content = data.pop("id"), data.pop("content")
    return Document(content, id=id_, metadata={**data, "strategy": strategy})


class MemoryRetriever(_Retriever):
    """Retrieves distilled memories of an `AgentMemory`."""

    type: str | None = None
    """Only memories of this type."""
    scene: str | None = None
    """Only memories whose scene name contains this, in any case."""

    filters: ClassVar = ("type", "scene", *_Retriever.filters)

    _search: ClassVar = AgentMemory.search_memories
    _asearch: ClassVar = AgentMemory.asearch_memories


class ConversationRetriever(_Retriever):
    """Retrieves messages of past conversations of an `AgentMemory`."""

    exclude_session: str | None = None
    """Only messages of other conversations than this."""
    role: str | None = None
    """Only messages of this role; None: of user and assistant."""
    context: int = Field(default=0, ge=0, le=MAX_CONTEXT)
    """How many messages before and after each result are in its metadata."""

    filters: ClassVar = ("exclude_session", "role", "context", *_Retriever.filters)

    _search: ClassVar = AgentMemory.search_conversations
    _asearch: ClassVar = AgentMemory.asearch_conversations
