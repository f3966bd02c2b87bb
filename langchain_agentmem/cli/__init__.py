"""The command line `agentmem`. One module per command."""

from typing import Annotated

import typer

from langchain_agentmem.cli.demo import demo
from langchain_agentmem.cli.doctor import doctor
from langchain_agentmem.cli.export import export
from langchain_agentmem.cli.import_chroma import import_chroma
from langchain_agentmem.cli.import_records import import_records
from langchain_agentmem.cli.search import search
from langchain_agentmem.cli.stats import stats
from langchain_agentmem.cli.sync import sync

app = typer.Typer(
    name="agentmem",
    help="Search what a LangChain agent remembers, by meaning and by words.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001  (typer calls it so)
    if wanted:
        from importlib.metadata import version

        typer.echo(f"langchain-agentmem {version('langchain-agentmem')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Search what a LangChain agent remembers, by meaning and by words."""


app.command()(demo)
app.command("import")(import_records)
app.command("import-chroma")(import_chroma)
app.command()(export)
app.command()(stats)
app.command()(search)
app.command()(sync)
app.command()(doctor)
