"""Draws all systems of a run side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets import RecordsName
from outcomes import Grouped

if TYPE_CHECKING:
    from latency import Row

_DRAWN = (
    "floor",
    "AgentMemory",
    "AgentMemory, keywords alone",
    "langchain-chroma",
    "EnsembleRetriever",
    "InMemoryStore",
    "mem0",
)
BAR_WIDTH = 0.8
COLORS = ("#1b6ca8", "#e07b39", "#5a9e6f", "#8c6bb1", "#b0b0b0", "#c44e52", "#937860", "#da8bc3")


def plot(figures: Grouped, ks: Sequence[int], *, title: str, file: Path) -> None:
    """Draw the recalls with their confidence intervals as grouped bars, a color for each system.

    Raises:
        ImportError: matplotlib is missing.
        OSError: The file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # draws without a screen
    from matplotlib.figure import Figure

    systems = list(dict.fromkeys(system for system, _ in figures))
    kinds = list(dict.fromkeys(records for _, records in figures))
    groups: list[tuple[RecordsName, int]] = [(records, k) for records in kinds for k in ks]
    figure = Figure(figsize=(max(7.0, 2.6 * len(groups)), 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    width = BAR_WIDTH / len(systems)
    for number, system in enumerate(systems):
        places: list[float] = []
        heights: list[float] = []
        below: list[float] = []
        above: list[float] = []
        for place, (records, k) in enumerate(groups):
            row = figures.get((system, records))
            if row is None:
                continue
            mean, (low, high) = row.recall[f"R@{k}"], row.interval[f"R@{k}"]
            places.append(place + (number - (len(systems) - 1) / 2) * width)
            heights.append(mean)
            below.append(mean - low)
            above.append(high - mean)
        bars = axes.bar(
            places,
            heights,
            0.92 * width,
            yerr=[below, above],
            label=system,
            color=COLORS[number % len(COLORS)],
            error_kw={"elinewidth": 1, "capsize": 2, "ecolor": "#333333"},
        )
        labels = [f"{height:.2f}" for height in heights]
        axes.bar_label(bars, labels, label_type="center", color="white", fontsize=8)
    counts = {records: row.questions for (_, records), row in figures.items()}
    axes.set_xticks(
        range(len(groups)),
        [f"{records}, R@{k}\n({counts[records]} questions)" for records, k in groups],
    )
    axes.set_ylim(0, 1)
    axes.set_ylabel("recall (bars: 95 % confidence interval)")
    axes.set_xlabel("kind of record, and how many results count")
    axes.set_title(title)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(ncols=min(4, len(systems)), loc="upper center", frameon=False)
    figure.savefig(file, dpi=150)


def plot_latency(rows: Sequence["Row"], *, file: Path) -> None:
    """Draw the median processor time of an unfiltered search against size, on log axes.

    Raises:
        ImportError: matplotlib is missing.
        OSError: The file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(row.kind for row in rows))
    figure = Figure(figsize=(5.2 * len(kinds), 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    systems = list(dict.fromkeys(row.system for row in rows if row.system in _DRAWN))
    for axis, kind in zip(axes, kinds, strict=True):
        for number, system in enumerate(systems):
            own = sorted(
                (row.records, row.cpu)
                for row in rows
                if (row.kind, row.system, row.selection) == (kind, system, "none")
            )
            axis.plot(
                [size for size, _ in own],
                [ms for _, ms in own],
                linestyle="--" if system == "floor" else "-",
                marker="o",
                color="black" if system == "floor" else COLORS[number % len(COLORS)],
                label=system,
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(kind)
        axis.set_xlabel("records")
        axis.grid(which="both", alpha=0.25)
    axes[0].set_ylabel("processor time of a search, median ms")
    axes[-1].legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)
