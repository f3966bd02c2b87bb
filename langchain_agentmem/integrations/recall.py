"""`Recall`: what a memory holds about the user's last message, as a block for the model's input.

Nothing that was remembered can close the block, open another or begin a line of it: each note is
one line, its text a JSON string in which whatever looks like an angle bracket is escaped.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, get_args

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_agentmem.arguments import instance, listed, whole_number
from langchain_agentmem.integrations.time_limit import DEFAULT_TIMEOUT_SECONDS, Job, TimeLimit
from langchain_agentmem.integrations.triviality import is_trivial
from langchain_agentmem.integrations.turns import (
    BLOCK_END,
    BLOCK_START,
    INTRODUCTION,
    session_of,
    spoken,
)
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.quoting import as_json
from langchain_agentmem.results import MemoryHit, MessageHit
from langchain_agentmem.scopes import Turn, Visibility
from langchain_agentmem.search.request import MAX_LIMIT, make_request
from langchain_agentmem.storage.kinds import MEMORIES

Source = Literal["memories", "conversations"]
SOURCES: tuple[Source, ...] = get_args(Source)

DEFAULT_MAX_ITEMS = 6
DEFAULT_MAX_CHARS = 2400
LEAST_MAX_CHARS = 600
_LONGEST_NOTE = 600
_SHORTEST_NOTE = 60
_LONGEST_LABEL = 30
_QUERY_CHARS = 2000
_TURNS_KEPT = 256
KEPT_SECONDS = 60.0
"""How long a block stands for a new search within its turn."""
# Angle brackets, what normalizes to them and what looks like them; not the quotation marks of
# French and of Chinese titles.
_ANGLES = (
    "<>\uff1c\uff1e\ufe64\ufe65\u226e\u226f\u2039\u203a\u3008\u3009\u27e8\u27e9\u2329\u232a"
    "\u276c\u276d\u276e\u276f\u2770\u2771\u02c2\u02c3\u1438\u1433\u29fc\u29fd"
)
_ESCAPED = str.maketrans({each: f"\\u{ord(each):04x}" for each in _ANGLES})

_Key = tuple[Turn, str, str]
Hit = MemoryHit | MessageHit


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A recall to be made."""

    asked: str
    """All that the user said."""
    session: str
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Block:
    """A block that was composed, and when, on the monotonic clock in seconds."""

    text: str
    made_at: float


class Recall:
    """Composes the block of notes that a model reads before it answers.

    Within one turn (the model calls that follow one message of the user) the memory is searched
    once; if the turn goes on later than a minute, as after an interrupt, anew: what was deleted
    meanwhile is not shown. Failure, slowness and messages that ask for nothing give an empty block.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        sources: Iterable[Source] = SOURCES,
        max_items: int = DEFAULT_MAX_ITEMS,
        max_chars: int = DEFAULT_MAX_CHARS,
        min_similarity: float | None = None,
        half_life_days: float | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        skip: Callable[[str], bool] = is_trivial,
    ) -> None:
        """Prepare to search `memory`.

        Args:
            memory: What is searched, on behalf of whom the run's config names.
            sources: `memories`, `conversations` (what was said in others than this one), or both.
            max_items: How many notes at the most, 1 to 100.
            max_chars: How long the block may be, from 600 characters on.
            min_similarity: Cosine (-1 to 1) below which a record is not worth a note.
            half_life_days: Age at which a record counts half.
            timeout: Seconds after which the run goes on without a block.
            skip: Tells of the user's text whether it is no reason to search.

        Raises:
            TypeError: `memory` is none.
            ValueError: Another argument is unusable; it is named.
        """
        self._memory = instance("memory", memory, AgentMemory)
        self._sources = _check_sources(sources)
        if not callable(skip):
            msg = f"skip must be a function of the user's text, not {skip!r}"
            raise ValueError(msg)  # noqa: TRY004  (as for every unusable argument)
        self._max_items = whole_number("max_items", max_items, 1, MAX_LIMIT)
        self._max_chars = whole_number("max_chars", max_chars, LEAST_MAX_CHARS)
        self._options = _check_options(min_similarity, half_life_days)
        self._limit = TimeLimit(timeout, what="recall")
        self._skip = skip
        self._blocks: OrderedDict[_Key, _Block] = OrderedDict()
        self._lock = threading.Lock()

    def block(self, messages: Sequence[Any], config: RunnableConfig | None = None) -> str:
        """Return the block for the next model call, empty where there is nothing to note.

        Args:
            messages: The conversation so far.
            config: The run's config; None: that of the run that this is called in.

        Raises:
            TypeError: `messages` is no list.
        """
        return self.start(messages, config).result()

    async def ablock(self, messages: Sequence[Any], config: RunnableConfig | None = None) -> str:
        """Async twin of `block`: the same arguments and result."""
        return await self.start(messages, config).aresult()

    def start(self, messages: Sequence[Any], config: RunnableConfig | None = None) -> Job[str]:
        """Begin to compose the block, without waiting."""
        now, so_far = ensure_config(config), listed("messages", messages, "messages")
        return self._limit.start(lambda: self._recall(so_far, now), otherwise="")

    def _recall(self, messages: Sequence[Any], config: Mapping[str, Any]) -> str:
        said = list(spoken(messages))
        asked = [each for each in said if each.role == "user"]
        if not asked:
            return ""
        last = asked[-1]
        key = (Turn.from_config(config), session_of(said, config), last.message.id or last.text)
        if last.position < len(messages) - 1:  # the model was called already in this turn
            known = self._blocks.get(key)
            if known is not None and time.monotonic() - known.made_at < KEPT_SECONDS:
                return known.text
        # If this fails or hangs, the turn's later calls do not wait for it again.
        self._note(key, "")
        if self._skip(last.text):
            return ""
        block = self._compose(_Wanted(last.text, key[1], config))
        self._note(key, block)
        return block

    def _note(self, key: _Key, block: str) -> None:
        with self._lock:
            self._blocks[key] = _Block(block, time.monotonic())
            self._blocks.move_to_end(key)
            while len(self._blocks) > _TURNS_KEPT:
                self._blocks.popitem(last=False)

    def _compose(self, wanted: _Wanted) -> str:
        frame = f"{BLOCK_START}\n{INTRODUCTION}\n{BLOCK_END}"
        left = self._max_chars - len(frame)
        notes: list[str] = []
        for hit in self._chosen(wanted):
            note = _note(hit, min(_LONGEST_NOTE, left - 1))
            if note is None:
                break
            notes.append(note)
            left -= len(note) + 1
        if not notes:
            return ""
        return "\n".join([BLOCK_START, INTRODUCTION, *notes, BLOCK_END])

    def _chosen(self, wanted: _Wanted) -> list[Hit]:
        """Take the best of each source in turns, each text once, what is asked itself never."""
        found = [self._search(source, wanted) for source in self._sources]
        texts = {_folded(wanted.asked)}
        chosen: list[Hit] = []
        for hits in zip_longest(*found):
            for hit in hits:
                if hit is None or _folded(hit.content) in texts:
                    continue
                texts.add(_folded(hit.content))
                chosen.append(hit)
        return chosen[: self._max_items]

    def _search(self, source: Source, wanted: _Wanted) -> Sequence[Hit]:
        # A few more than are shown: the same thing may have been asked or said before.
        limit = min(MAX_LIMIT, self._max_items + 10)
        options: dict[str, Any] = {**self._options, "config": wanted.config}
        query = _query(wanted.asked)
        if source == "memories":
            return self._memory.search_memories(query, limit, **options).results
        return self._memory.search_conversations(
            query, limit, exclude_session=wanted.session, **options
        ).results


def _query(text: str) -> str:
    """Return what to search for: of a long text its beginning and its end."""
    if len(text) <= _QUERY_CHARS:
        return text
    half = _QUERY_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"


def _note(hit: Hit, room: int) -> str | None:
    """Return a hit as one line of at most `room` characters, or None where there is no room."""
    content = "\n".join(" ".join(line.split()) for line in hit.content.strip().splitlines())
    shown, origin = content, _origin(hit)
    if room < _SHORTEST_NOTE:
        return None
    while True:
        cut = "" if shown == content else " [cut]"
        note = f"- {origin}: {as_json(shown)}{cut}".translate(_ESCAPED)
        if len(note) <= room:
            return note
        if not shown:
            return None
        # What is escaped is longer than it was: cut by what is too much, at least a bit.
        shown = shown[: max(0, min(len(shown) - 1, room, len(shown) - (len(note) - room)))]


def _origin(hit: Hit) -> str:
    if isinstance(hit, MemoryHit):
        return f"{_label(hit.type)}, {hit.created_at:%Y-%m-%d}"
    speaker = f"{hit.role} {_label(hit.name)}" if hit.name else hit.role
    return f"{speaker} said, {hit.recorded_at:%Y-%m-%d}"


def _label(text: str) -> str:
    """Return a word as it is, and anything else in quotes: it may say whatever it likes."""
    shown = text[:_LONGEST_LABEL]
    return shown if shown.isalpha() else as_json(shown)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _check_sources(sources: Iterable[Source]) -> tuple[Source, ...]:
    several = isinstance(sources, Iterable) and not isinstance(sources, str)
    named: tuple[Any, ...] = tuple(sources) if several else (sources,)
    # One after the other: what is unusable need not have a hash.
    if not named or any(each not in SOURCES or named.count(each) > 1 for each in named):
        known = ", ".join(SOURCES)
        msg = f"sources (recall, of the middleware) must name some of {known}, not {sources!r}"
        raise ValueError(msg)
    return named


def _check_options(min_similarity: Any, half_life_days: Any) -> dict[str, Any]:
    """Refuse now what every search would refuse."""
    options = {"min_similarity": min_similarity, "half_life_days": half_life_days}
    make_request(MEMORIES, "", 1, filters={}, bounds={}, visibility=Visibility(), **options)
    return options
