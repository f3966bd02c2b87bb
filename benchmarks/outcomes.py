"""What systems made of questions, and what that is in sum: recall at k with its uncertainty."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from datasets import RecordsName
from rich.table import Table

RESAMPLES = 1000
SEED = 20240101

Interval = tuple[float, float]
"""The bounds of a 95 % confidence interval."""
Recalls = npt.NDArray[np.float64]
"""The recall of each question."""


@dataclass(frozen=True)
class Outcome:
    """What one system made of one question."""

    dataset: str
    system: str
    records: RecordsName
    question: int
    category: str | None
    gold: list[str]
    found: list[str]
    ms: float

    def recall(self, k: int) -> float:
        """Return the share of the gold ids that are among the first `k` found."""
        return recall(self.gold, self.found, k)


@dataclass(frozen=True)
class Figures:
    """Outcomes in sum."""

    questions: int
    recall: dict[str, float]
    interval: dict[str, Interval]
    median_ms: float


Grouped = dict[tuple[str, RecordsName], Figures]
"""Figures by what outcomes have in common, and by kind of record."""


def recall(gold: Sequence[str], found: Sequence[str], k: int) -> float:
    """Return the share of the gold ids that are among the first `k` found."""
    return len(set(gold).intersection(found[:k])) / len(gold)


def recalls(outcomes: Iterable[Outcome], k: int) -> Recalls:
    """Return the recall at `k` of each outcome."""
    return np.array([outcome.recall(k) for outcome in outcomes])


def interval(values: Recalls) -> Interval:
    """Return the 95 % confidence interval of a mean, by a bootstrap over questions.

    Questions are drawn anew, with replacement, and always in the same way: figures repeat from run
    to run, and those of several systems rest on the same draws.
    """
    draws = np.random.default_rng(SEED).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(values[draws].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def summarize(outcomes: Sequence[Outcome], ks: Iterable[int]) -> Figures:
    """Take the mean of the recalls and the median of the times."""
    by_k = {f"R@{k}": recalls(outcomes, k) for k in ks}
    return Figures(
        questions=len(outcomes),
        recall={name: float(values.mean()) for name, values in by_k.items()},
        interval={name: interval(values) for name, values in by_k.items()},
        median_ms=statistics.median(each.ms for each in outcomes),
    )


def summarize_by(
    outcomes: Iterable[Outcome], ks: Sequence[int], key: Callable[[Outcome], str]
) -> Grouped:
    """Summarize outcomes by what `key` says and by kind of record, in the order of appearance."""
    groups: dict[tuple[str, RecordsName], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((key(outcome), outcome.records), []).append(outcome)
    return {group: summarize(members, ks) for group, members in groups.items()}


def table(title: str, first: str, figures: Grouped, ks: Iterable[int]) -> Table:
    """Lay figures out, a row for each."""
    drawn = Table(title=title, title_justify="left")
    drawn.add_column(first)
    drawn.add_column("records")
    drawn.add_column("questions", justify="right")
    names = [f"R@{k}" for k in ks]
    for name in names:
        drawn.add_column(name, justify="right")
        drawn.add_column("95 %")
    drawn.add_column("median ms", justify="right")
    for (group, records), row in figures.items():
        cells: list[str] = []
        for name in names:
            low, high = row.interval[name]
            cells += [f"{row.recall[name]:.3f}", f"{low:.3f} to {high:.3f}"]
        drawn.add_row(group, records, str(row.questions), *cells, f"{row.median_ms:.2f}")
    return drawn
