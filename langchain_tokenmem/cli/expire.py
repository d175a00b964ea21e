"""Command `tokenmem expire`: deletes sessions that nobody has used for some time."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console

from langchain_tokenmem.cli.console import AllowedTypes, exit_on_error
from langchain_tokenmem.cli.savers import our_saver
from langchain_tokenmem.errors import TokenMemoryError

_SHOWN = 20
"""Sessions that are listed without `--verbose`."""


@exit_on_error("expire", TokenMemoryError, OverflowError)
def expire(
    url: Annotated[str, typer.Argument(metavar="STORE", help="URL of the store, or its file.")],
    inactive_days: Annotated[
        float, typer.Option(help="Days without a message, checkpoint, document or note.")
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say which sessions would go.")
    ] = False,
    allow: AllowedTypes = None,
    key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the key of the rows.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List every session.")] = False,
) -> None:
    """Delete whole sessions that are inactive, with everything that belongs to them.

    Pinned and marked ones stay. Run it again after an interruption: it goes on where it stopped.
    """
    console = Console()
    with (
        our_saver(url, key_env=key_env, allow=allow or ()) as saver,
        console.status("expire") as status,
    ):
        report = saver.store.expire(
            timedelta(days=inactive_days),
            dry_run=dry_run,
            progress=lambda done: status.update(f"expire: {done:,} sessions"),
        )
    for name in report.expired if verbose else report.expired[:_SHOWN]:
        console.print(_printable(name), markup=False, highlight=False)
    if len(report.expired) > _SHOWN and not verbose:
        console.print(f"... and {len(report.expired) - _SHOWN:,} more: --verbose lists them")
    done = "would expire" if dry_run else "expired"
    rows = ", ".join(f"{count:,} {kind}" for kind, count in report.counts.items() if count)
    console.print(f"{len(report.expired):,} sessions {done}{rows and f': {rows}'}.", markup=False)
    if report.pinned or report.kept:
        console.print(f"Inactive and kept: {report.pinned:,} pinned, {report.kept:,} marked.")
    if report.unreadable:
        names = ", ".join(map(repr, report.unreadable[:_SHOWN]))
        text = f"{len(report.unreadable):,} stay, because they cannot be read: {names}"
        console.print(text, style="yellow", markup=False)


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in text)
