"""Command `tokenmem import`: messages from files, SQL histories and checkpointers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.adapters.migration.community import MESSAGE_STORE, sql_histories
from langchain_tokenmem.adapters.migration.message_files import FileSession, sessions_in_file
from langchain_tokenmem.cli.console import exit_on_error, progress_bar
from langchain_tokenmem.cli.migrate import migrate
from langchain_tokenmem.cli.savers import as_url, check_file
from langchain_tokenmem.errors import ConfigurationError, TokenMemoryError
from langchain_tokenmem.storage.imports.history_tables import history_engine, tables_in
from langchain_tokenmem.storage.imports.page_writer import ImportReport
from langchain_tokenmem.storage.urls import parsed

_SQLITE_MAGIC = b"SQLite format 3\x00"
_CHECKPOINTS = "checkpoints"


class SourceKind(StrEnum):
    """Kinds of sources."""

    auto = "auto"
    messages = "messages"
    sql = "sql"
    checkpoints = "checkpoints"


_From = Annotated[
    str,
    typer.Argument(
        metavar="FROM",
        help="File of messages (OpenAI chat format, LangChain JSON, `tokenmem export`; JSON or "
        "JSON Lines; .gz too), or a database: SQLite file, sqlite:/// or postgresql:// URL.",
    ),
]
_To = Annotated[str, typer.Argument(metavar="TO", help="URL of the store to import into.")]
_Kind = Annotated[SourceKind, typer.Option("--from", help="What FROM is; `auto` looks into it.")]
_Session = Annotated[
    str | None,
    typer.Option(help="Name of the session; of a database: only this session or thread."),
]
_User = Annotated[str | None, typer.Option(help="Owner of the sessions.")]
_Table = Annotated[str, typer.Option(help="Table of SQLChatMessageHistory in a database.")]
_Summary = Annotated[
    str | None, typer.Option(help="Text of the summary that the old memory has of a session.")
]
_Covers = Annotated[int, typer.Option(help="How many messages of FROM the summary is about.")]


@exit_on_error("import", TokenMemoryError, OSError)
def import_sessions(
    source: _From,
    target: _To,
    kind: _Kind = SourceKind.auto,
    session: _Session = None,
    user: _User = None,
    table: _Table = MESSAGE_STORE,
    summary: _Summary = None,
    summary_covers: _Covers = 0,
) -> None:
    """Import messages into sessions of a store.

    Run it again at any time: what is there stays, and only what is new in FROM is added.
    """
    kind = _kind_of(source, table) if kind is SourceKind.auto else kind
    _check_options(kind, session=session, user=user, summary=summary)
    if kind is SourceKind.checkpoints:
        migrate(source, target, thread=None if session is None else [session])
        return
    sessions = _sessions_of(kind, source, table, session)
    reports: list[ImportReport] = []
    with TranscriptStore(as_url(target)) as store, progress_bar() as show:
        for name, history, lines in sessions:
            if summary is not None and (lines is not None or reports):
                raise ConfigurationError(
                    "--summary is about one session; FROM has several, or is an export."
                )
            progress = partial(_shown, show, name or "")
            if lines is None:
                done = store.import_history(
                    history,
                    name or "",
                    user_id=user,
                    summary=summary,
                    summary_covers=summary_covers,
                    progress=progress,
                )
            else:
                done = store.import_session(lines, name, user_id=user, progress=progress)
            reports.append(done)
    _print(reports)


def _shown(show: Callable[[str, int, int], None], name: str, done: int) -> None:
    show(name, done, done)


def _sessions_of(
    kind: SourceKind, source: str, table: str, session: str | None
) -> Iterator[tuple[str | None, Any, Iterator[tuple[str, str]] | None]]:
    """Yield the name of each session with its history, or with the lines of an export."""
    if kind is SourceKind.sql:
        with history_engine(parsed(as_url(source))) as engine:
            for name, history in sql_histories(engine, table, session):
                yield name, history, None
    else:
        for one, called in _named(Path(source), session):
            yield called, one.messages, one.lines


def _check_options(
    kind: SourceKind, *, session: str | None, user: str | None, summary: str | None
) -> None:
    """Refuse options that would not be followed."""
    if kind is SourceKind.checkpoints and (user is not None or summary is not None):
        raise ConfigurationError("--user and --summary are for messages, not for checkpoints.")
    if kind is SourceKind.sql and summary is not None and session is None:
        raise ConfigurationError("--summary is about one session; name it with --session.")


def _kind_of(source: str, table: str) -> SourceKind:
    """Return what a source is, by its first bytes or its tables."""
    if "://" not in source:
        with Path(source).open("rb") as file:
            if file.read(len(_SQLITE_MAGIC)) != _SQLITE_MAGIC:
                return SourceKind.messages
    check_file(source)
    with history_engine(parsed(as_url(source))) as engine:
        tables = tables_in(engine)
    if table in tables:
        return SourceKind.sql
    if _CHECKPOINTS in tables or "tokenmem_checkpoints" in tables:
        return SourceKind.checkpoints
    raise ConfigurationError(
        f"The database has neither a table {table!r} of histories (--table names another one) nor "
        f"checkpoints. There are: {', '.join(sorted(tables)) or 'none'}."
    )


def _named(file: Path, session: str | None) -> Iterator[tuple[FileSession, str | None]]:
    """Yield the sessions of a file with their names; those of an export keep theirs.

    One that has no name is called like the file; several of them are numbered.
    """
    base = session or file.name.partition(".")[0]
    number = 0
    for place, one in enumerate(sessions_in_file(file)):
        if one.name is None:
            number += 1
            yield one, base if number == 1 else f"{base}-{number}"
        else:
            yield one, session if session and not place else one.name


def _print(reports: list[ImportReport]) -> None:
    console = Console()
    for one in reports:
        text = f"{one.session_id}: {one.added:,} messages imported, {one.known:,} were there."
        if one.renamed:
            text += f" {one.renamed:,} under a new id, theirs was taken."
        if one.has_summary:
            text += " Summary and state came along."
        console.print(text, markup=False, highlight=False)
    console.print(f"{len(reports):,} sessions: {sum(one.added for one in reports):,} messages.")
