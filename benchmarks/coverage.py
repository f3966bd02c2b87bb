"""Do the memories that were found lead to the messages that answer a question?

A second measure of memory search, the stricter one: the share of a question's gold messages that
are among the sources of the first k memories. It counts every question, also those whose messages
no memory was distilled from, and so it compares with the recall of messages.
"""

from collections.abc import Sequence

import numpy as np
from datasets import Dataset
from outcomes import Outcome, interval
from rich.table import Table


def coverage_table(
    outcomes: Sequence[Outcome], datasets: Sequence[Dataset], ks: Sequence[int]
) -> Table | None:
    """Lay out the coverage of each system; None where there are no memories."""
    gold = {
        (dataset.name, question.number): question.gold
        for dataset in datasets
        for task in dataset.tasks
        if task.records == "messages"
        for question in task.questions
    }
    sources: dict[tuple[str, str], frozenset[str]] = {
        (dataset.name, memory.id): frozenset(memory.metadata.get("source_message_ids", ()))
        for dataset in datasets
        for memory in dataset.memories
    }
    if not sources:
        return None
    drawn = Table(
        title="Gold messages among the sources of the memories found", title_justify="left"
    )
    drawn.add_column("system")
    drawn.add_column("questions", justify="right")
    for k in ks:
        drawn.add_column(f"first {k}", justify="right")
        drawn.add_column("95 %")
    about_memories = [outcome for outcome in outcomes if outcome.records == "memories"]
    for system in dict.fromkeys(outcome.system for outcome in about_memories):
        own = [outcome for outcome in about_memories if outcome.system == system]
        cells: list[str] = []
        for k in ks:
            shares = dict.fromkeys(gold, 0.0)
            for outcome in own:
                wanted = gold[outcome.dataset, outcome.question]
                covered = {
                    source for id_ in outcome.found[:k] for source in sources[outcome.dataset, id_]
                }
                shares[outcome.dataset, outcome.question] = len(wanted & covered) / len(wanted)
            values = np.array(list(shares.values()))
            low, high = interval(values)
            cells += [f"{values.mean():.3f}", f"{low:.3f} to {high:.3f}"]
        drawn.add_row(system, str(len(gold)), *cells)
    return drawn
