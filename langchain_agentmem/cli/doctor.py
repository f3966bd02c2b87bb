"""`agentmem doctor`: verify a memory, and repair it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_agentmem.cli.options import DEFAULT_FOLDER, Embedding, Folder, fail, open_memory
from langchain_agentmem.cli.wording import in_commands
from langchain_agentmem.errors import AgentMemoryError

if TYPE_CHECKING:
    from langchain_agentmem.results import Finding

_BEYOND_REPAIR = {"database", "embedding"}
"""Parts that are not made from the records: a repair leaves them as they are."""


def doctor(
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be made anew from the records.")
    ] = False,
    memory: Folder = DEFAULT_FOLDER,
    embedding: Embedding = None,
) -> None:
    """Verify database, keyword index, embedding and vectors. Exits with 1 if something is wrong."""
    with open_memory(memory, embedding, must_exist=True) as opened:
        try:
            findings = opened.check(repair=repair)
        except AgentMemoryError as error:
            fail(str(error))
    for finding in findings:
        mark = "ok   " if finding.ok else "WRONG"
        typer.echo(f"{mark} {finding.part}: {in_commands(finding.detail)}")
    if not all(finding.ok for finding in findings):
        if not repair and _can_be_mended(findings):
            typer.echo("`agentmem doctor --repair` mends what can be made anew from the records.")
        raise typer.Exit(1)


def _can_be_mended(findings: "Sequence[Finding]") -> bool:
    wrong = {finding.part for finding in findings if not finding.ok}
    # Without the model nothing can be written that waits for its vector.
    waits_in_vain = {"vector queue"} if "embedding" in wrong else set()
    return bool(wrong - _BEYOND_REPAIR - waits_in_vain)
