"""Command `tokenmem migrate-checkpoints`: copies threads of another checkpointer."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from langchain_tokenmem.adapters.migration.checkpoints import migrate_checkpoints
from langchain_tokenmem.cli.console import AllowedTypes, exit_on_error, progress_bar
from langchain_tokenmem.cli.savers import our_saver, source_saver
from langchain_tokenmem.errors import TokenMemoryError


class SourceTables(StrEnum):
    """Layouts of the source's tables."""

    auto = "auto"
    langgraph = "langgraph"
    tokenmem = "tokenmem"


@exit_on_error("migrate-checkpoints", TokenMemoryError)
def migrate(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="SQLite file, sqlite:/// or postgresql:// URL.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="URL of the store to copy into.")],
    tables: Annotated[
        SourceTables, typer.Option("--from", help="Whose tables FROM has; `auto` looks into it.")
    ] = SourceTables.auto,
    thread: Annotated[
        list[str] | None, typer.Option(help="Only this thread; may be given again.")
    ] = None,
    allow: AllowedTypes = None,
) -> None:
    """Copy checkpointed threads into a store of this package, and prove it by reading back.

    History, pending writes and metadata come along; FROM is only read. Run it again after an
    interruption: it goes on where it stopped.
    """
    is_ours = None if tables is SourceTables.auto else tables is SourceTables.tokenmem
    types = allow or ()
    with (
        our_saver(target, allow=types, is_new=True) as ours,
        source_saver(source, is_ours=is_ours, target=ours, allow=types) as theirs,
        progress_bar() as show,
    ):
        report = migrate_checkpoints(theirs, ours, threads=thread, progress=show)
    console = Console()
    console.print(
        f"{report.threads:,} threads: {report.copied:,} checkpoints with {report.writes:,} pending "
        f"writes copied and read back, {report.known:,} were there already."
    )
    if report.skipped:
        names = ", ".join(map(repr, report.skipped))
        text = f"{len(report.skipped):,} left out, no thread can be named so here: {names}."
        console.print(text, markup=False)
