"""The two searches of `AgentMemory`."""

from typing import Any

from langchain_agentmem.permissions import Permissions
from langchain_agentmem.results import MemoryHit, MessageHit
from langchain_agentmem.scopes import Config
from langchain_agentmem.search.pipeline import SearchPipeline
from langchain_agentmem.search.request import SearchRequest, make_request
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES
from langchain_agentmem.twins import runs_search, runs_search_async


class Searching(Permissions):
    """The part of `AgentMemory` that searches: it turns arguments into requests."""

    _pipeline: SearchPipeline

    @runs_search
    def search_memories(
        self,
        query: str,
        limit: int = 5,
        *,
        type: str | None = None,
        scene: str | None = None,
        session_key: str | None = None,
        after: Any = None,
        before: Any = None,
        scope: str | None = None,
        config: Config | None = None,
        min_similarity: float | None = None,
        half_life_days: float | None = None,
        diversity: float | None = None,
        explain: bool = False,
    ) -> SearchRequest[MemoryHit]:
        """Search distilled memories.

        Args:
            query: Any text. A blank one finds nothing.
            limit: How many results at the most, 1 to 100.
            type: Only memories of this type.
            scene: Only memories whose scene name contains this, in any case.
            session_key: Only memories that come from this conversation.
            after: Only memories created then or later (datetime, ISO 8601 or epoch).
            before: Only memories created then or earlier; a date, month or year means all of it.
            scope: Only this scope's records of the turn, and its unscoped ones.
            config: The `RunnableConfig` of the turn; its ids decide what is visible.
            min_similarity: Cosine (-1 to 1) below which a memory is no answer.
            half_life_days: Age at which a score counts half; global instructions do not age.
            diversity: 0 to 1: how much results must differ from those above them.
            explain: Tell in the answer's `plan` how it was found.

        Returns:
            A `SearchResult` of `MemoryHit`.

        Raises:
            TypeError: The query is no text.
            ValueError: Another argument is unusable; it is named.
            StorageError: The database cannot be read.
        """
        return make_request(
            MEMORIES,
            query,
            limit,
            filters={"type": type, "scene": scene, "session_key": session_key},
            bounds={"after": after, "before": before},
            visibility=self._sees(config, scope),
            min_similarity=min_similarity,
            half_life_days=half_life_days,
            diversity=diversity,
            explain=explain,
        )

    @runs_search
    def search_conversations(
        self,
        query: str,
        limit: int = 5,
        *,
        session_key: str | None = None,
        exclude_session: str | None = None,
        after: Any = None,
        before: Any = None,
        role: str | None = None,
        scope: str | None = None,
        config: Config | None = None,
        min_similarity: float | None = None,
        half_life_days: float | None = None,
        diversity: float | None = None,
        context: int = 0,
        explain: bool = False,
    ) -> SearchRequest[MessageHit]:
        """Search past messages.

        Args:
            query: Any text. A blank one finds nothing.
            limit: How many results at the most, 1 to 100.
            session_key: Only messages of this conversation.
            exclude_session: Only messages of other conversations than this.
            after: Only messages recorded then or later (datetime, ISO 8601 or epoch).
            before: Only messages recorded then or earlier; a date, month or year means all of it.
            role: Only messages of this role; None: of user and assistant. System prompts and
                tool output are found only when asked for here.
            scope: Only this scope's records of the turn, and its unscoped ones.
            config: The `RunnableConfig` of the turn; its ids decide what is visible.
            min_similarity: Cosine (-1 to 1) below which a message is no answer.
            half_life_days: Age at which a score counts half.
            diversity: 0 to 1: how much results must differ from those above them.
            context: How many messages before and after each result come with it, 0 to 5.
            explain: Tell in the answer's `plan` how it was found.

        Returns:
            A `SearchResult` of `MessageHit`.

        Raises:
            TypeError: The query is no text.
            ValueError: Another argument is unusable; it is named.
            StorageError: The database cannot be read.
        """
        return make_request(
            MESSAGES,
            query,
            limit,
            filters={
                "session_key": session_key,
                "exclude_session": exclude_session,
                "role": role,
            },
            bounds={"after": after, "before": before},
            visibility=self._sees(config, scope),
            min_similarity=min_similarity,
            half_life_days=half_life_days,
            diversity=diversity,
            context=context,
            explain=explain,
        )

    asearch_memories = runs_search_async(search_memories)
    asearch_conversations = runs_search_async(search_conversations)
