"""Command `tokenmem doctor`: finds and repairs damaged rows."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from langchain_tokenmem.cli.savers import as_url, our_saver
from langchain_tokenmem.errors import TokenMemoryError
from langchain_tokenmem.storage.checkpoints.doctor import Examination, Finding, examine
from langchain_tokenmem.storage.checkpoints.repair import repair
from langchain_tokenmem.storage.database.urls import parsed

_LONGEST = 160
"""Characters of what is wrong that a line of the table shows."""


def doctor(
    url: Annotated[str, typer.Argument(help="URL of the store, or the path of its SQLite file.")],
    *,
    repairs: Annotated[
        bool,
        typer.Option(
            "--repair", help="Order rows, delete what cannot be read; copies the file first."
        ),
    ] = False,
    allow: Annotated[
        list[str] | None, typer.Option(help="Type that the state may hold, as module:Class.")
    ] = None,
    key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the key of the rows.")
    ] = None,
) -> None:
    """Read every checkpoint and every transcript, and list what is damaged.

    Leaves with 1 when something is wrong and was not repaired.
    """
    console = Console()
    try:
        with our_saver(url, key_env=key_env, allow=allow or ()) as saver:
            store = saver._checkpoints  # noqa: SLF001  # what the saver itself reads with
            with Progress(
                TextColumn("doctor"), BarColumn(), MofNCompleteColumn(), transient=True
            ) as progress:
                task = progress.add_task("doctor")
                found = examine(store, lambda n, of: progress.update(task, completed=n, total=of))
            _print(console, found)
            if repairs and any(finding.remedy for finding in found.findings):
                copied = _copied(as_url(url))
                console.print(f"Copied to {copied} first." if copied else "", markup=False)
                found = repair(store, found)
                console.print("After the repair:")
                _print(console, found)
    except TokenMemoryError as error:
        Console(stderr=True).print(f"tokenmem doctor: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    raise typer.Exit(int(bool(found.findings)))


def _print(console: Console, found: Examination) -> None:
    looked = f"{found.threads:,} threads, {found.checkpoints:,} checkpoints"
    if not found.findings:
        console.print(f"{looked}: nothing is wrong.")
        return
    console.print(f"{looked}: {len(found.findings)} findings.")
    console.print(_table(found.findings))


def _table(findings: Sequence[Finding]) -> Table:
    shown = Table("thread", "checkpoint", "what is wrong", "--repair")
    for finding in findings:
        place = f"{finding.namespace} {finding.checkpoint}".strip()
        shown.add_row(
            *(_safe(text) for text in (finding.thread, place, finding.what[:_LONGEST])),
            finding.remedy or "nothing",
        )
    return shown


def _safe(text: str) -> str:
    """Return stored text as a terminal and rich can show it."""
    return "".join(one if one.isprintable() else "?" for one in text).replace("[", r"\[")


def _copied(url: str) -> Path | None:
    """Copy a SQLite file with its log, so that a repair can be taken back."""
    address = parsed(url)
    path = Path(address.database or "")
    if address.get_backend_name() != "sqlite" or not path.is_file():
        return None
    names = (f"{path.name}.before-repair{number or ''}" for number in count())
    copy = next(copy for name in names if not (copy := path.with_name(name)).exists())
    for ending in ("", "-wal"):
        if Path(f"{path}{ending}").is_file():
            shutil.copy2(f"{path}{ending}", f"{copy}{ending}")
    return copy
