"""Commands that remove data for good: words, and everything of a session or a user."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from langchain_tokenmem.cli.transfer import Allow, AsJson, Store, many, printable, write_json
from langchain_tokenmem.errors import ConfigurationError

if TYPE_CHECKING:
    from langchain_tokenmem.storage.redaction import RemovalReceipt

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count; nothing is changed.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Session = Annotated[
    str | None, typer.Option("--session", "--thread", help="The session or thread.")
]
User = Annotated[str | None, typer.Option("--user", help="All sessions and notes of this user.")]

_ELSEWHERE = "Chroma and notes in other stores: TokenMemory.redact and TokenMemory.erase reach them"


def redact(
    store: Store,
    words: Annotated[
        str, typer.Argument(help="The words exactly as they are written; - reads them from stdin.")
    ],
    session: Session = None,
    user: User = None,
    replacement: Annotated[str, typer.Option(help="Text in place of the words.")] = "[redacted]",
    *,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="All sessions and notes of the store.")
    ] = False,
    pattern: Annotated[
        bool, typer.Option("--pattern", help="The words are a regular expression.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    allow: Allow = None,
) -> None:
    """Remove words for good: from messages in all wordings, states, checkpoints and notes.

    Asks for confirmation first. An argument stays in the history of the shell: `-` reads the words
    from stdin. Run it again after an interruption.
    """
    from langchain_tokenmem.cli.stored_sessions import our_saver

    if everywhere == (session is not None or user is not None):
        raise ConfigurationError(
            "Name --session, --user or --everywhere, and only one; --session also with its --user."
        )
    text = sys.stdin.read().rstrip("\r\n") if words == "-" else words
    try:
        what = re.compile(text) if pattern else text
    except re.error as error:
        raise ConfigurationError(f"The pattern is invalid: {error}.") from None
    with our_saver(store, allow=allow or ()) as saver:
        work = partial(
            saver.store.redact,
            *(what, replacement),
            session_id=session,
            user_id=user,
            everywhere=everywhere,
            serde=saver.serde,
        )
        _remove(work, "redacted", dry_run=dry_run, yes=yes, as_json=as_json)


def erase(
    store: Store,
    session: Session = None,
    user: User = None,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase everything of a session, a thread with its sub-graphs, or a user.

    Asks for confirmation first.
    """
    from langchain_tokenmem.cli.stored_sessions import our_saver
    from langchain_tokenmem.storage.redaction import RemovalReceipt

    if session is None and user is None:
        raise ConfigurationError("Name --session or --user; nothing was erased.")
    with our_saver(store) as saver:
        opened = saver.store
        names = (session,) if session is not None else tuple(opened.sessions(user_id=user))

        def work(*, dry_run: bool) -> RemovalReceipt:
            counts = opened.erase(session, user, dry_run=dry_run)
            left = None if dry_run else opened.database.rewrite()
            found = {name: count for name, count in counts.items() if count}
            return RemovalReceipt(found, names, (left,) if left else (), dry_run)

        _remove(work, "erased", dry_run=dry_run, yes=yes, as_json=as_json)


def _remove(
    work: Callable[..., RemovalReceipt], done: str, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Count what would be removed, ask for confirmation, remove it, and print the receipt."""
    found = work(dry_run=True)
    if found.counts and not dry_run:
        if not yes:
            what = f"Found: {_counts(found)}; in {many(len(found.sessions), 'session')}. Continue?"
            typer.confirm(what, abort=True)
        found = work(dry_run=False)
    found = replace(found, unreached=(*found.unreached, _ELSEWHERE))
    if as_json:
        write_json(asdict(found))
        return
    console = Console()
    done = f"would be {done}" if found.is_dry_run and found.counts else done
    console.print(f"{done.capitalize()}: {_counts(found)}.", markup=False, highlight=False)
    for what in found.unreached:
        console.print(printable(f"Not reached: {what}."), markup=False, highlight=False)


def _counts(found: RemovalReceipt) -> str:
    rows = [f"{name.replace('_', ' ')} {count:,}" for name, count in found.counts.items()]
    return ", ".join(rows) or "nothing"
