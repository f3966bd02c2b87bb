"""What is each rule of the search worth? The same questions, with one rule switched at a time.

Parameters of the package are replaced while a rule is switched, and restored afterwards; where a
rule shapes what is indexed, the keyword index is rebuilt. A single benchmark process does so, one
search at a time: it is no way to configure the package.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal
from unittest import mock

import numpy as np
from outcomes import Outcome, interval, recalls
from rich.table import Table
from world import World, ask_memory

from langchain_agentmem.search import fusion
from langchain_agentmem.search.vector_search import Nearest, VectorSearch
from langchain_agentmem.storage import text, windows
from langchain_agentmem.storage.keyword_index import KeywordHits, KeywordIndex
from langchain_agentmem.storage.kinds import MEMORIES, MESSAGES, Context, RecordKind

ALL_ON = "all on"
DEPTH_TRIED = 60

Switch = Callable[[World], AbstractContextManager[None]]


@dataclass(frozen=True)
class Rule:
    """A rule that is switched by itself: one that is on, off, or one that is off, on."""

    name: str
    switch: Switch = lambda _: nullcontext()
    options: Mapping[str, float] = field(default_factory=dict)
    """Arguments of the searches that switch it."""
    needs: Literal["nothing", "vectors", "scores"] = "nothing"
    """Without vectors, or where lists are fused by ranks anyway, some rules mean nothing."""

    def applies(self, world: World) -> bool:
        """Return whether switching the rule can change an answer."""
        if self.needs == "scores":
            return world.embedder is not None and world.embedder.fusion == "scores"
        return self.needs == "nothing" or world.embedder is not None


@contextmanager
def _replaced(kind: RecordKind[Any, Any], name: str, value: object) -> Iterator[None]:
    shipped = getattr(kind, name)
    # Frozen, so that nobody changes it by mistake; here it is meant, and undone.
    object.__setattr__(kind, name, value)
    try:
        yield
    finally:
        object.__setattr__(kind, name, shipped)


def message_context(**changes: Any) -> AbstractContextManager[None]:
    """Replace parameters of how a message is understood with its neighbours.

    Args:
        **changes: Fields of `Context`.
    """
    shipped = MESSAGES.context
    assert isinstance(shipped, Context)  # noqa: S101  (messages have one)
    return _replaced(MESSAGES, "context", replace(shipped, **changes))


@contextmanager
def _analysis(world: World, name: str, value: object) -> Iterator[None]:
    """Replace a part of the analysis of text, with the keyword index rebuilt by it."""
    with mock.patch.object(text, name, value):
        _rebuild(world)
        yield
    _rebuild(world)


def _rebuild(world: World) -> None:
    windows._name_terms.cache_clear()  # noqa: SLF001  (its terms are of the analysis before)
    memory = world.memory
    with memory._database.write() as connection:  # noqa: SLF001  (no public way is needed otherwise)
        memory._keywords.rebuild(connection)  # noqa: SLF001


@contextmanager
def _by_ranks(world: World) -> Iterator[None]:
    with mock.patch.multiple(world.embedder, fusion="rrf", weight=1.0):
        yield


@contextmanager
def _deeper(_: World) -> Iterator[None]:
    deeper = {name: partial(fuse, depth=DEPTH_TRIED) for name, fuse in fusion.FUSIONS.items()}
    with mock.patch.dict(fusion.FUSIONS, deeper):
        yield


@contextmanager
def _by_ranks_deeper(world: World) -> Iterator[None]:
    with _by_ranks(world), _deeper(world):
        yield


@contextmanager
def _no_keywords(_: World) -> Iterator[None]:
    with mock.patch.object(KeywordIndex, "search", return_value=KeywordHits([])):
        yield


@contextmanager
def _no_vectors(_: World) -> Iterator[None]:
    with mock.patch.object(VectorSearch, "search", return_value=Nearest([], {}, "not asked")):
        yield


def _unstemmed(word: str) -> str:
    return word[: text.MAX_TERM_LENGTH]


RULES: Sequence[Rule] = (
    Rule("without neighbours", lambda _: message_context(weights=())),
    Rule("without speaker", lambda _: message_context(speaker_bonus=0.0)),
    Rule(
        "without similar neighbours",
        lambda _: message_context(similarity_weights=()),
        needs="vectors",
    ),
    Rule(
        "without all three",
        lambda _: message_context(weights=(), similarity_weights=(), speaker_bonus=0.0),
    ),
    Rule("without source messages", lambda _: _replaced(MEMORIES, "sources", None)),
    Rule("fusion by ranks (RRF, weight 1)", _by_ranks, needs="scores"),
    Rule(f"fusion depth {DEPTH_TRIED}, not {fusion.FUSION_DEPTH}", _deeper, needs="vectors"),
    Rule(f"by ranks, depth {DEPTH_TRIED}", _by_ranks_deeper, needs="scores"),
    Rule("keywords alone", _no_vectors, needs="vectors"),
    Rule("vectors alone", _no_keywords, needs="vectors"),
    Rule("without stop words", lambda world: _analysis(world, "STOP_WORDS", frozenset())),
    Rule("without stemming", lambda world: _analysis(world, "_stem", _unstemmed)),
    Rule("with half_life_days=365", options={"half_life_days": 365.0}),
    Rule("with diversity=0.3", options={"diversity": 0.3}, needs="vectors"),
)


def ablate(world: World, limit: int) -> Iterator[Outcome]:
    """Ask every question with each rule switched by itself; the system is the rule's name."""
    for rule in RULES:
        if rule.applies(world):
            with rule.switch(world):
                yield from ask_memory(world, rule.name, limit, **rule.options)


def ablation_table(
    shipped: Sequence[Outcome], switched: Sequence[Outcome], ks: Sequence[int]
) -> Table:
    """Lay out what each rule changes; a star marks a difference whose interval excludes 0."""
    kinds = list(dict.fromkeys(outcome.records for outcome in shipped))
    drawn = Table(title="One rule switched at a time", title_justify="left")
    drawn.add_column("rule")
    for records in kinds:
        for k in ks:
            drawn.add_column(f"{records} R@{k}", justify="right")
    names = [ALL_ON, *dict.fromkeys(outcome.system for outcome in switched)]
    for name in names:
        cells: list[str] = []
        for records in kinds:
            before = [each for each in shipped if each.records == records]
            after = [each for each in switched if (each.system, each.records) == (name, records)]
            for k in ks:
                if name == ALL_ON:
                    cells.append(f"{recalls(before, k).mean():.3f}        ")
                    continue
                # Both are in the order of the questions, so that differences are of pairs.
                difference = recalls(after, k) - recalls(before, k)
                low, high = interval(difference)
                star = "*" if low > 0 or high < 0 else " "
                change = f"{difference.mean():+.3f}" if np.any(difference) else "     ="
                cells.append(f"{recalls(after, k).mean():.3f} {change}{star}")
        drawn.add_row(name, *cells)
    return drawn
