"""Command `tokenmem migrate-checkpoints`: copies threads of another checkpointer."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from langchain_tokenmem.adapters.migration.migrate import migrate_checkpoints
from langchain_tokenmem.cli.savers import our_saver, source_saver
from langchain_tokenmem.errors import TokenMemoryError


class Kind(StrEnum):
    """Layouts of the source's tables."""

    auto = "auto"
    langgraph = "langgraph"
    tokenmem = "tokenmem"


def migrate(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="SQLite file, sqlite:/// or postgresql:// URL.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="URL of the store to copy into.")],
    kind: Annotated[
        Kind, typer.Option("--from", help="Whose tables FROM has; `auto` looks into it.")
    ] = Kind.auto,
    thread: Annotated[
        list[str] | None, typer.Option(help="Only this thread; may be given again.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="Type that the state may hold, as module:Class.")
    ] = None,
    key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the key of TO's rows.")
    ] = None,
    from_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the key of FROM's rows.")
    ] = None,
) -> None:
    """Copy checkpointed threads into a store of this package, and prove it by reading back.

    History, pending writes and metadata come along; FROM is only read. Run it again after an
    interruption: it goes on where it stopped.
    """
    ours = {Kind.auto: None, Kind.langgraph: False, Kind.tokenmem: True}[kind]
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    try:
        with (
            our_saver(target, key_env=key_env, allow=allow or (), is_new=True) as into,
            source_saver(
                source, ours=ours, target=into, key_env=from_key_env, allow=allow or ()
            ) as out_of,
            Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress,
        ):
            task = progress.add_task("migrate")

            def show(name: str, done: int, total: int) -> None:
                progress.update(task, description=name[:40], completed=done, total=total)

            report = migrate_checkpoints(out_of, into, threads=thread, progress=show)
    except TokenMemoryError as error:
        text = f"tokenmem migrate-checkpoints: {error}"
        Console(stderr=True).print(text, style="red", markup=False)
        raise typer.Exit(2) from None
    console.print(
        f"{report.threads:,} threads: {report.copied:,} checkpoints with {report.writes:,} pending "
        f"writes copied and read back, {report.known:,} were there already."
    )
    if report.skipped:
        names = ", ".join(map(repr, report.skipped))
        text = f"{len(report.skipped):,} left out, no thread can be named so here: {names}."
        console.print(text, markup=False)
