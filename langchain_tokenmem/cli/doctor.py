"""Command `tokenmem doctor`: lists what of a store cannot be read."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from langchain_tokenmem.cli.console import AllowedTypes, exit_on_error, printable, progress_bar
from langchain_tokenmem.cli.savers import our_saver
from langchain_tokenmem.errors import TokenMemoryError

_LONGEST = 160
"""Characters of what is wrong that a line of the table shows."""


@exit_on_error("doctor", TokenMemoryError)
def doctor(
    url: Annotated[str, typer.Argument(help="URL of the store, or the path of its SQLite file.")],
    *,
    allow: AllowedTypes = None,
) -> None:
    """Read every checkpoint and every transcript, and list what is damaged.

    Leaves with 1 when something is wrong: restore a backup, or delete the thread.
    """
    console = Console()
    with our_saver(url, allow=allow or ()) as saver, progress_bar() as show:
        found = saver.examine(lambda done, total: show("doctor", done, total))
    examined = f"{found.sessions:,} sessions, {found.checkpoints:,} checkpoints"
    if not found.findings:
        console.print(f"{examined}: nothing is wrong.")
        return
    table = Table("session", "checkpoint", "what is wrong")
    for finding in found.findings:
        texts = (finding.thread, finding.checkpoint, finding.what[:_LONGEST])
        table.add_row(*(escape(printable(text)) for text in texts))
    console.print(f"{examined}: {len(found.findings)} findings.", table, sep="\n")
    raise typer.Exit(1)
