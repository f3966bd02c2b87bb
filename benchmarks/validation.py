"""Are the shipped parameters fitted to the data? Parameters chosen on other conversations tell.

For each data set, the parameters that do best on all the others are chosen, and measured on it:
every question is then answered with parameters that were chosen without it. Figures near those of
the shipped parameters say that these will do on conversations that nobody has seen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from ablation import message_context
from datasets import Task
from outcomes import Recalls, interval, recall
from rich.table import Table
from world import World

from langchain_agentmem.scopes import Visibility
from langchain_agentmem.search.fusion import FUSIONS, Ranking
from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.search.vector_search import VectorSearch
from langchain_agentmem.storage.kinds import MESSAGES
from langchain_agentmem.storage.selection import EVERY_RECORD

NEIGHBOUR_WEIGHTS = ((0.4, 0.2), (0.6, 0.3), (0.8, 0.4))
SPEAKER_BONUSES = (0.0, 0.25, 0.5, 0.75)
VECTOR_WEIGHTS = (0.05, 0.1, 0.2, 0.33, 0.5)


@dataclass(frozen=True)
class Parameters:
    """One choice of what is searched for."""

    neighbours: tuple[float, ...]
    speaker: float
    vector: float | None
    """None without vectors."""

    def __str__(self) -> str:
        """Name the values."""
        near = "/".join(f"{weight:g}" for weight in self.neighbours)
        vector = "" if self.vector is None else f", vectors {self.vector:g}"
        return f"neighbours {near}, speaker {self.speaker:g}{vector}"


Measured = dict[Parameters, Recalls]
"""Of each choice, the recalls on a data set: a row for each question, a column for each k."""


def shipped_parameters(vector_weight: float | None) -> Parameters:
    """Return the parameters that the package has."""
    context = MESSAGES.context
    assert context is not None  # noqa: S101  (messages have one)
    return Parameters(context.weights, context.speaker_bonus, vector_weight)


def measure(world: World, ks: Sequence[int]) -> Measured:
    """Measure every choice of parameters on the messages of a data set.

    The vector list depends on none of them, so it is made once; the public search is passed by, as
    it would make it anew for each.
    """
    task = next(task for task in world.dataset.tasks if task.records == "messages")
    requests = [
        SearchRequest(MESSAGES, question.text, max(ks), visibility=Visibility())
        for question in task.questions
    ]
    shipped = shipped_parameters(world.embedder.weight if world.embedder else None)
    near = _vector_rankings(world, requests)
    vector_weights = dict.fromkeys((shipped.vector, *VECTOR_WEIGHTS))
    if world.embedder is None:
        vector_weights = {None: None}
    measured: Measured = {}
    for neighbours, bonus in product(
        dict.fromkeys((shipped.neighbours, *NEIGHBOUR_WEIGHTS)),
        dict.fromkeys((shipped.speaker, *SPEAKER_BONUSES)),
    ):
        with message_context(weights=neighbours, speaker_bonus=bonus):
            matching = [
                world.memory._keywords.search(  # noqa: SLF001  (one half of a search)
                    MESSAGES, request.query, request.condition, request.candidates
                ).ranking
                for request in requests
            ]
        for weight in vector_weights:
            found = [
                _fuse(world, keyword, vector, weight)
                for keyword, vector in zip(matching, near, strict=True)
            ]
            measured[Parameters(neighbours, bonus, weight)] = _recalls(task, found, ks)
    return measured


def _vector_rankings(world: World, requests: Iterable[SearchRequest]) -> list[Ranking]:
    vectors = world.memory._vectors  # noqa: SLF001  (the other half of a search)
    if world.embedder is None or vectors.index is None or vectors.copies is None:
        return [[] for _ in requests]
    search = VectorSearch(world.memory._store, vectors.index, vectors.copies)  # noqa: SLF001
    return [
        search.search(request, world.embedder.embed_query(request.query), EVERY_RECORD).ranking
        for request in requests
    ]


def _fuse(world: World, keyword: Ranking, vector: Ranking, weight: float | None) -> list[str]:
    if keyword and vector and world.embedder:
        fuse = FUSIONS[world.embedder.fusion]
        return [place.id for place in fuse(keyword, vector, vector_weight=weight)]
    return [id_ for id_, _ in keyword or vector]


def _recalls(task: Task, found: Sequence[Sequence[str]], ks: Sequence[int]) -> Recalls:
    return np.array(
        [
            [recall(sorted(question.gold), ids, k) for k in ks]
            for question, ids in zip(task.questions, found, strict=True)
        ]
    )


def choose(measured: Iterable[Measured], shipped: Parameters) -> Parameters:
    """Return what has the best mean of all recalls; of equals the shipped one, or the first."""
    together = list(measured)
    scores = {
        parameters: float(np.concatenate([each[parameters] for each in together]).mean())
        for parameters in together[0]
    }
    best = max(scores.values())
    equals = [parameters for parameters, score in scores.items() if np.isclose(score, best)]
    return shipped if shipped in equals else equals[0]


def validation_table(
    measured: Mapping[str, Measured], shipped: Parameters, ks: Sequence[int]
) -> Table:
    """Lay out what is chosen without each data set, and how that does on it."""
    drawn = Table(
        title=f"Parameters chosen on the other data sets; shipped: {shipped}", title_justify="left"
    )
    drawn.add_column("held out")
    drawn.add_column("chosen on the others")
    for name in [f"R@{k}" for k in ks]:
        drawn.add_column(name, justify="right")
        drawn.add_column(f"{name} shipped", justify="right")
    held_out: list[Recalls] = []
    for name, own in measured.items():
        chosen = choose((other for other in measured.values() if other is not own), shipped)
        held_out.append(own[chosen])
        drawn.add_row(name, str(chosen), *_pairs(own[chosen], own[shipped]))
    fitted = choose(measured.values(), shipped)
    all_shipped = np.concatenate([own[shipped] for own in measured.values()])
    all_fitted = np.concatenate([own[fitted] for own in measured.values()])
    drawn.add_section()
    drawn.add_row(
        "all questions", "each held out once", *_pairs(np.concatenate(held_out), all_shipped)
    )
    difference = np.concatenate(held_out) - all_shipped
    cells: list[str] = []
    for column in range(len(ks)):
        low, high = interval(difference[:, column])
        cells += [f"{difference[:, column].mean():+.3f}", f"{low:+.3f} to {high:+.3f}"]
    drawn.add_row("", "held out less shipped, 95 %", *cells)
    drawn.add_row("nothing", str(fitted), *_pairs(all_fitted, all_shipped))
    return drawn


def _pairs(chosen: Recalls, shipped: Recalls) -> list[str]:
    means = zip(chosen.mean(axis=0), shipped.mean(axis=0), strict=True)
    return [f"{value:.3f}" for pair in means for value in pair]
