"""`Capture`: what user and assistant said in a run becomes messages of a memory."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_agentmem.arguments import instance, listed
from langchain_agentmem.integrations.time_limit import DEFAULT_TIMEOUT_SECONDS, Job, TimeLimit
from langchain_agentmem.integrations.turns import (
    Spoken,
    fingerprint,
    ids_of,
    is_kept,
    session_of,
    spoken,
    turn_begins,
    unreadable,
)
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.results import WriteReport
from langchain_agentmem.scopes import Turn
from langchain_agentmem.storage.kinds import MESSAGES

_CONVERSATIONS_KNOWN = 512
_NAMED = 5

_Key = tuple[Turn, str]


class Capture:
    """Saves a conversation's new user and assistant messages, as often as it is asked to.

    Give it the conversation so far, as a graph's state holds it: what is there already is not
    saved twice, and what changed under its id is replaced. Tool calls, tool output, system text
    and recalled blocks are left out. The conversation is the run's `thread_id`, the owner whom
    the config names. In a thread of several users each turn is kept for the user whose run it was.
    """

    def __init__(self, memory: AgentMemory, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Prepare to save to `memory`.

        Args:
            memory: Where the messages are kept.
            timeout: Seconds that a run waits for it; it is completed meanwhile or later.

        Raises:
            TypeError: `memory` is none.
            ValueError: `timeout` is unusable.
        """
        self._memory = instance("memory", memory, AgentMemory)
        self._limit = TimeLimit(timeout, what="capture")
        # What this object has saved of recent conversations: a long one is not saved anew each
        # turn. It only spares work: whatever is missing here, the memory itself knows.
        self._known: OrderedDict[_Key, dict[str, str]] = OrderedDict()
        self._lock = threading.Lock()

    def save(
        self, messages: Sequence[Any], config: RunnableConfig | None = None
    ) -> WriteReport | None:
        """Save what is new.

        Args:
            messages: The conversation so far.
            config: The run's config; None: that of the run that this is called in.

        Returns:
            The report, or None where nothing was new, or where it failed or took too long, which
            the log tells.

        Raises:
            TypeError: `messages` is no list.
        """
        return self.start(messages, config).result()

    async def asave(
        self, messages: Sequence[Any], config: RunnableConfig | None = None
    ) -> WriteReport | None:
        """Async twin of `save`: the same arguments and result."""
        return await self.start(messages, config).aresult()

    def start(
        self, messages: Sequence[Any], config: RunnableConfig | None = None
    ) -> Job[WriteReport | None]:
        """Begin to save what is new, without waiting."""
        now, so_far = ensure_config(config), listed("messages", messages, "messages")
        return self._limit.start(lambda: self._save(so_far, now), otherwise=None)

    def _save(self, messages: Sequence[Any], config: Mapping[str, Any]) -> WriteReport | None:
        said = list(spoken(messages))
        if unread := list(unreadable(messages)):
            # Not their text: it is what was said.
            named = ", ".join(
                f"messages[{n}] ({type(messages[n]).__name__})" for n in unread[:_NAMED]
            )
            self._limit.warn(f"capture leaves out what cannot be read as a message: {named}")
        session = session_of(said, config)
        turn = Turn.from_config(config)
        ids = ids_of(said, config, session)
        known = self._saved((turn, session))
        prints = [fingerprint(each) for each in said]
        new = {n for n, id_ in enumerate(ids) if known.get(id_) != prints[n]}
        if new and turn.thread_id:  # without a thread nobody else takes part
            new -= self._left_to_others(said, ids, new, config)
        records = [
            said[n].message.model_copy(update={"id": ids[n], "content": said[n].text})
            for n in sorted(new)
        ]
        report = self._memory.add_messages(session, records, config=config) if records else None
        self._note((turn, session), dict(zip(ids, prints, strict=True)))
        return report

    def _left_to_others(
        self, said: Sequence[Spoken], ids: Sequence[str], new: set[int], config: Mapping[str, Any]
    ) -> set[int]:
        """Return what is not this turn's to keep, of the new messages of a thread.

        An earlier message is its owner's; one that nobody has may be another's who has deleted it
        for good, or whose capture failed. A message of the present turn is another's where they
        have it already: who resumes a run has not said what led to it.
        """
        turn, begins = Turn.from_config(config), turn_begins(said)
        # Of a turn's own messages, only those are known whose ids are the thread's.
        own = {n for n in new if n >= begins and said[n].message.id} if is_kept(config) else set()
        asked = {n for n in new if n < begins} | own
        if not asked:
            return set()
        theirs, lost = self._memory._store.left_to_others(  # noqa: SLF001  (no use but this)
            MESSAGES, turn.thread_id, {ids[n] for n in asked}, turn.files_under()
        )
        return {n for n in asked if ids[n] in theirs or (n < begins and ids[n] in lost)}

    def _saved(self, key: _Key) -> dict[str, str]:
        with self._lock:
            return dict(self._known.get(key, {}))

    def _note(self, key: _Key, saved: dict[str, str]) -> None:
        with self._lock:
            self._known[key] = saved
            self._known.move_to_end(key)
            while len(self._known) > _CONVERSATIONS_KNOWN:
                self._known.popitem(last=False)
