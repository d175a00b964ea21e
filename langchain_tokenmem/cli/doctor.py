"""Command `tokenmem doctor`: finds and repairs damaged rows."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from langchain_tokenmem.cli.console import (
    AllowedTypes,
    KeyEnv,
    exit_on_error,
    printable,
    progress_bar,
)
from langchain_tokenmem.cli.savers import our_saver, sqlite_file
from langchain_tokenmem.errors import TokenMemoryError
from langchain_tokenmem.storage.checkpoints.doctor import Examination, examine
from langchain_tokenmem.storage.checkpoints.repair import repair

_LONGEST = 160
"""Characters of what is wrong that a line of the table shows."""


@exit_on_error("doctor", TokenMemoryError)
def doctor(
    url: Annotated[str, typer.Argument(help="URL of the store, or the path of its SQLite file.")],
    *,
    repairs: Annotated[
        bool,
        typer.Option(
            "--repair", help="Order rows, delete what cannot be read; copies the file first."
        ),
    ] = False,
    allow: AllowedTypes = None,
    key_env: KeyEnv = None,
) -> None:
    """Read every checkpoint and every transcript, and list what is damaged.

    Leaves with 1 when something is wrong and was not repaired.
    """
    console = Console()
    with our_saver(url, key_env=key_env, allow=allow or ()) as saver:
        store = saver._checkpoints  # noqa: SLF001  # what the saver itself reads with
        with progress_bar() as show:
            found = examine(store, lambda done, total: show("doctor", done, total))
        _print(console, found)
        if repairs and any(finding.remedy for finding in found.findings):
            file = sqlite_file(url)
            if file is not None:
                console.print(f"Copied to {_copied(file)} first.", markup=False)
            found = repair(store, found)
            console.print("After the repair:")
            _print(console, found)
    raise typer.Exit(int(bool(found.findings)))


def _print(console: Console, found: Examination) -> None:
    examined = f"{found.threads:,} threads, {found.checkpoints:,} checkpoints"
    if not found.findings:
        console.print(f"{examined}: nothing is wrong.")
        return
    table = Table("thread", "checkpoint", "what is wrong", "--repair")
    for finding in found.findings:
        address = f"{finding.namespace} {finding.checkpoint}".strip()
        texts = (finding.thread, address, finding.what[:_LONGEST])
        table.add_row(*(escape(printable(text)) for text in texts), finding.remedy or "nothing")
    console.print(f"{examined}: {len(found.findings)} findings.", table, sep="\n")


def _copied(file: Path) -> Path:
    """Copy a SQLite file with its log, so that a repair can be taken back."""
    copies = (file.with_name(f"{file.name}.before-repair{number or ''}") for number in count())
    copy = next(copy for copy in copies if not copy.exists())
    for ending in ("", "-wal"):
        if Path(f"{file}{ending}").is_file():
            shutil.copy2(f"{file}{ending}", f"{copy}{ending}")
    return copy
