"""`Capture`: what user and assistant said in a run becomes messages of a memory."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_agentmem.capture import listed
from langchain_agentmem.integrations.time_limit import DEFAULT_TIMEOUT_SECONDS, Job, TimeLimit
from langchain_agentmem.integrations.turns import (
    fingerprint,
    ids_of,
    session_of,
    spoken,
    turn_begins,
)
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.records import Message
from langchain_agentmem.results import WriteReport
from langchain_agentmem.scopes import Turn

_CONVERSATIONS_KNOWN = 512

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
            ValueError: `timeout` is unusable.
        """
        self._memory = memory
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
        session = session_of(said, config)
        turn = Turn.from_config(config)
        ids = ids_of(said, config, session)
        known = self._saved((turn, session))
        prints = [fingerprint(each) for each in said]
        begins = turn_begins(said)
        new = [
            each.message.model_copy(update={"id": id_, "content": each.text})
            for n, (each, id_, print_) in enumerate(zip(said, ids, prints, strict=True))
            if known.get(id_) != print_
            and not (n < begins and self._is_anothers(id_, session, turn))
        ]
        report = self._memory.add_messages(session, new, config=config) if new else None
        self._note((turn, session), dict(zip(ids, prints, strict=True)))
        return report

    def _is_anothers(self, id_: str, session: str, turn: Turn) -> bool:
        """Tell whether an earlier turn of the thread has left this message to another owner."""
        there = self._memory.get(id_)
        if not isinstance(there, Message) or there.session_key != session:
            return False
        return there.scope_id != turn.user_id

    def _saved(self, key: _Key) -> dict[str, str]:
        with self._lock:
            return dict(self._known.get(key, {}))

    def _note(self, key: _Key, saved: dict[str, str]) -> None:
        with self._lock:
            self._known[key] = saved
            self._known.move_to_end(key)
            while len(self._known) > _CONVERSATIONS_KNOWN:
                self._known.popitem(last=False)
