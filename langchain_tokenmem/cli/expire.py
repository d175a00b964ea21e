"""Command `tokenmem expire`: deletes sessions that nobody has used for some time."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console

from langchain_tokenmem.cli.console import AllowedTypes, KeyEnv, exit_on_error, printable
from langchain_tokenmem.cli.savers import our_saver
from langchain_tokenmem.errors import ConfigurationError, TokenMemoryError

_SHOWN = 20
"""Sessions that are listed without `--verbose`."""


@exit_on_error("expire", TokenMemoryError)
def expire(
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="[STORE]", help="URL of the store, or its file; default: that of the settings."
        ),
    ] = None,
    inactive_days: Annotated[
        float | None,
        typer.Option(
            help="Days without a message, checkpoint, document or note; default: "
            "store.inactive_for of the settings."
        ),
    ] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say which sessions would go.")
    ] = False,
    allow: AllowedTypes = None,
    key_env: KeyEnv = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List every session.")] = False,
) -> None:
    """Delete whole sessions that are inactive, with everything that belongs to them.

    Pinned and marked ones stay. Run it again after an interruption: it goes on where it stopped.
    """
    url, inactive_for = _by_settings(url, inactive_days)
    console = Console()
    with (
        our_saver(url, key_env=key_env, allow=allow or ()) as saver,
        console.status("expire") as status,
    ):
        report = saver.store.expire(
            inactive_for,
            dry_run=dry_run,
            progress=lambda done: status.update(f"expire: {done:,} sessions"),
        )
    for name in report.expired if verbose else report.expired[:_SHOWN]:
        console.print(printable(name), markup=False, highlight=False)
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


def _by_settings(url: str | None, inactive_days: float | None) -> tuple[str, timedelta]:
    """Return the store and the age that were given, else those of the settings."""
    try:
        days = None if inactive_days is None else timedelta(days=inactive_days)
    except (OverflowError, ValueError) as error:
        raise ConfigurationError(f"--inactive-days {inactive_days}: {error}.") from None
    if url is not None and days is not None:
        return url, days
    from langchain_tokenmem.settings.token_memory_settings import (  # noqa: PLC0415  # 0.2 seconds
        TokenMemorySettings,
    )

    settings = TokenMemorySettings().store_settings
    age = settings.inactive_for if days is None else days
    if age is None:
        raise ConfigurationError(
            "It is not said which sessions are inactive: --inactive-days 30, or store.inactive_for "
            "in the settings (TOKENMEM_STORE__INACTIVE_FOR=P30D)."
        )
    return url or settings.url, age
