"""Commands that remove data for good: words, and everything of a session or a user."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_tokenmem.cli import options
from langchain_tokenmem.cli.terminal import many, many_rows, output, printable, write_json
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
    store: options.Store,
    words: Annotated[
        str,
        typer.Argument(
            metavar="WORDS", help="The words exactly as they are written; - reads them from stdin."
        ),
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
    as_json: options.AsJson = False,
    allow: options.Allow = None,
) -> None:
    """Remove words for good: from messages in all wordings, states, checkpoints and notes.

    Asks for confirmation first. An argument stays in the history of the shell: `-` reads the words
    from stdin. Run it again after an interruption. Exits with 1 if something was not reached.
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
    store: options.Store,
    session: Session = None,
    user: User = None,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Erase everything of a session, a thread with its sub-graphs, or a user.

    Asks for confirmation first. Exits with 1 if something was not reached.
    """
    from langchain_tokenmem.cli.stored_sessions import opened_store
    from langchain_tokenmem.storage.redaction import RemovalReceipt

    if session is None and user is None:
        raise ConfigurationError("Name --session or --user; nothing was erased.")
    with opened_store(store) as opened:
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
            where = many(len(found.sessions), "session")
            typer.confirm(f"Found: {many_rows(found.counts)}; in {where}. Continue?", abort=True)
        found = work(dry_run=False)
    whole = replace(found, unreached=(*found.unreached, _ELSEWHERE))
    if as_json:
        write_json(whole)
    else:
        done = f"would be {done}" if found.is_dry_run and found.counts else done
        output().print(f"{done.capitalize()}: {many_rows(found.counts) or 'nothing'}.")
        for what in whole.unreached:
            output().print(printable(f"Not reached: {what}."))
    raise typer.Exit(int(bool(found.unreached)))
