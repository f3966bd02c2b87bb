"""How well does search find what answers a question? Recall at k, and the time of a search.

Run it as a script on a folder of data sets (see `datasets.py`):

    python benchmarks/retrieval.py --data ../shared/data/locomo --embedding local --peers

R@k is the share of the records that answer a question which are among the first k results, as a
mean over questions, with a 95 % confidence interval (bootstrap over questions). Every system gets
the same texts, and the vectors of the same model; vectors are computed before anything is timed, so
that times are those of searching alone.

`--ablate` switches one rule of the search at a time, `--cross-validate` chooses parameters on all
data sets but one and measures them on that one, `--plot` draws the systems side by side.
"""

import argparse
import json
import shlex
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ablation import ablate, ablation_table
from coverage import coverage_table
from datasets import Dataset, read_datasets
from outcomes import Grouped, Outcome, summarize_by, table
from plot import plot
from rich.console import Console
from validation import Measured, measure, shipped_parameters, validation_table
from vector_cache import CachingEmbeddings, open_model
from world import DegradedError, ask_memory, ask_peers, filled_world

from langchain_agentmem.errors import AgentMemoryError

FIRST_K = 5
MAX_LIMIT = 100
LEAST_WIDTH = 130  # where nothing is known of the reader's screen, tables are not folded
OWN_NAME = "AgentMemory"


@dataclass
class Results:
    """All that a run measures."""

    outcomes: list[Outcome] = field(default_factory=list)
    """Of `AgentMemory` as it is, and of its peers."""
    switched: list[Outcome] = field(default_factory=list)
    """Of `AgentMemory` with a rule switched, whose name stands for the system."""
    measured: dict[str, Measured] = field(default_factory=dict)
    """By data set, what other parameters give."""

    @property
    def own(self) -> list[Outcome]:
        """Outcomes of `AgentMemory` as it is."""
        return [outcome for outcome in self.outcomes if outcome.system == OWN_NAME]


def run(
    datasets: Sequence[Dataset],
    model: CachingEmbeddings | None,
    ks: Sequence[int],
    arguments: argparse.Namespace,
    console: Console,
) -> Results:
    """Ask every question of the data sets, of `AgentMemory` and of what else is wanted."""
    results = Results()
    for dataset in datasets:
        with console.status(dataset.name), filled_world(dataset, model) as world:
            results.outcomes += ask_memory(world, OWN_NAME, max(ks))
            if arguments.ablate:
                results.switched += ablate(world, max(ks))
            if arguments.cross_validate:
                results.measured[dataset.name] = measure(world, ks)
    if arguments.peers and model is not None:
        for dataset in datasets:
            with console.status(f"{dataset.name}, peers"):
                results.outcomes += ask_peers(dataset, model, max(ks))
    return results


def circumstances(datasets: Sequence[Dataset], model: CachingEmbeddings | None) -> dict[str, Any]:
    """Tell what was run, and on what."""
    left_out = sum(
        task.left_out
        for dataset in datasets
        for task in dataset.tasks
        if task.records == "memories"
    )
    return {
        "command": shlex.join(["python", *sys.argv]),
        "questions": sum(dataset.questions for dataset in datasets),
        "questions without a memory that answers": left_out,
        "embedding": _embedding(model),
        "embedded in this run": model.computed if model else 0,
        "versions": {
            "langchain-agentmem": version("langchain-agentmem"),
            "chromadb": version("chromadb"),
            "sqlite": sqlite3.sqlite_version,
        },
    }


def _embedding(model: CachingEmbeddings | None) -> str:
    if model is None:
        return "none"
    return f"{model.model}, fused by {model.fusion}, weight {model.weight:g}"


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure what search finds, and how fast.")
    parser.add_argument("--data", type=Path, required=True, help="a folder of data sets")
    parser.add_argument("--embedding", choices=("local", "chroma", "none"), required=True)
    parser.add_argument("--limit", type=int, default=10, help="results of a search, 1 to 100")
    parser.add_argument("--vector-cache", type=Path, help="an .npz file that keeps the vectors")
    parser.add_argument("--peers", action="store_true", help="measure other systems as well")
    parser.add_argument("--ablate", action="store_true", help="switch one rule at a time")
    parser.add_argument(
        "--cross-validate",
        action="store_true",
        help="choose parameters on all data sets but one, measure them on that one",
    )
    parser.add_argument("--plot", type=Path, help="draw the systems side by side in this .png")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    arguments = parser.parse_args()
    if not 1 <= arguments.limit <= MAX_LIMIT:
        parser.error(f"--limit must be from 1 to {MAX_LIMIT}")
    for file in (arguments.vector_cache, arguments.json, arguments.plot):
        if file and not file.parent.is_dir():
            parser.error(f"there is no folder {file.parent}")
    if arguments.plot and arguments.plot.suffix.lower() != ".png":
        parser.error("--plot writes a .png file")
    if arguments.plot and find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: `pip install 'langchain-agentmem[bench]'`")
    return arguments


def main() -> None:
    """Measure, print, and write the figures."""
    arguments = parse_arguments()
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, LEAST_WIDTH))
    ks = sorted({FIRST_K, arguments.limit})
    try:
        datasets = read_datasets(arguments.data)
        if arguments.cross_validate and len(datasets) == 1:
            sys.exit("retrieval.py: --cross-validate needs more than one data set")
        model = open_model(arguments.embedding, arguments.vector_cache)
        results = run(datasets, model, ks, arguments, console)
    except (AgentMemoryError, DegradedError, OSError, ValueError) as error:
        sys.exit(f"retrieval.py: {error}")
    except ImportError as error:
        sys.exit(f"retrieval.py: {error}: --peers needs `pip install 'langchain-agentmem[bench]'`")
    facts = circumstances(datasets, model)
    for name, fact in facts.items():
        console.print(f"{name}: {fact}", markup=False, highlight=False, soft_wrap=True)
    if arguments.peers and model is None:
        console.print("The peers search vectors: with --embedding none they are left out.")
    elif arguments.peers:
        from other_peers import missing_peers

        for package in missing_peers():
            console.print(f"peer left out: {package} (`pip install` it to measure it as well)")
    by_dataset = summarize_by(results.own, ks, lambda outcome: outcome.dataset)
    with_category = [outcome for outcome in results.own if outcome.category]
    by_category = summarize_by(with_category, ks, lambda outcome: str(outcome.category))
    total = summarize_by(results.outcomes, ks, lambda outcome: outcome.system)
    console.print(table(f"{OWN_NAME} by data set", "data set", by_dataset, ks))
    if by_category:
        console.print(table(f"{OWN_NAME} by category", "category", by_category, ks))
    console.print(table("All questions", "system", total, ks))
    covered = coverage_table(results.outcomes, datasets, ks)
    if covered:
        console.print(covered)
    console.print("Times are of searches whose query is embedded already.", highlight=False)
    if arguments.ablate:
        console.print(ablation_table(results.own, results.switched, ks))
        console.print(
            "Beside each recall, the difference to all rules as shipped; a star where the 95 % "
            "confidence interval of the\ndifference, question by question, excludes 0.",
            highlight=False,
        )
    if arguments.cross_validate:
        shipped = shipped_parameters(model.weight if model else None)
        console.print(validation_table(results.measured, shipped, ks))
    if arguments.json:
        switched = summarize_by(results.switched, ks, lambda outcome: outcome.system)
        written = {
            **facts,
            "by_dataset": _rows("data_set", by_dataset),
            "by_category": _rows("category", by_category),
            "total": _rows("system", total),
            "ablation": _rows("switched", switched),
            "cross_validation": {
                name: {str(chosen): list(found.mean(axis=0)) for chosen, found in own.items()}
                for name, own in results.measured.items()
            },
            "outcomes": [asdict(outcome) for outcome in results.outcomes],
        }
        arguments.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    if arguments.plot:
        title = f"What search finds: {arguments.data.resolve().name}, embedding {_embedding(model)}"
        plot(total, ks, title=title, file=arguments.plot)
        console.print(f"plot: {arguments.plot}", highlight=False)


def _rows(first: str, figures: Grouped) -> list[dict[str, Any]]:
    return [
        {first: name, "records": records, **asdict(row)} for (name, records), row in figures.items()
    ]


if __name__ == "__main__":
    main()
