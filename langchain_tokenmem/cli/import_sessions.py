"""Command `tokenmem import`: messages from files, SQL histories and checkpointers."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.adapters.migration.community import MESSAGE_STORE, sql_histories
from langchain_tokenmem.adapters.migration.message_files import FileSession, sessions_in_file
from langchain_tokenmem.cli.console import exit_on_error, progress_bar
from langchain_tokenmem.cli.migrate import migrate
from langchain_tokenmem.cli.savers import as_url, check_file
from langchain_tokenmem.errors import ConfigurationError, TokenMemoryError
from langchain_tokenmem.storage.database.urls import parsed
from langchain_tokenmem.storage.imports.history_tables import history_engine, tables_in
from langchain_tokenmem.storage.imports.page_writer import ImportReport, Progress

_SQLITE_MAGIC = b"SQLite format 3\x00"
_CHECKPOINTS = "checkpoints"


class SourceKind(StrEnum):
    """Kinds of sources."""

    auto = "auto"
    messages = "messages"
    sql = "sql"
    checkpoints = "checkpoints"


@exit_on_error("import", TokenMemoryError, OSError)
def import_sessions(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="File of messages (OpenAI chat format, LangChain JSON, `tokenmem export`; JSON or "
            "JSON Lines; .gz too), or a database: SQLite file, sqlite:/// or postgresql:// URL.",
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="URL of the store to import into.")],
    kind: Annotated[
        SourceKind, typer.Option("--from", help="What FROM is; `auto` looks into it.")
    ] = SourceKind.auto,
    session: Annotated[
        str | None,
        typer.Option(help="Name of the session; of a database: only this session or thread."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Owner of the sessions.")] = None,
    table: Annotated[
        str, typer.Option(help="Table of SQLChatMessageHistory in a database.")
    ] = MESSAGE_STORE,
    summary: Annotated[
        str | None, typer.Option(help="Text of the summary that the old memory has of a session.")
    ] = None,
    summary_covers: Annotated[
        int, typer.Option(help="How many messages of FROM the summary is about.")
    ] = 0,
) -> None:
    """Import messages into sessions of a store.

    Run it again at any time: what is there stays, and only what is new in FROM is added.
    """
    kind = _kind_of(source, table) if kind is SourceKind.auto else kind
    if kind is SourceKind.checkpoints:
        migrate(source, target, thread=None if session is None else [session])
        return
    given = {"user_id": user, "summary": summary, "summary_covers": summary_covers}
    reports = []
    with TranscriptStore(as_url(target)) as store, progress_bar() as show:

        def shown(name: str) -> Progress:
            return lambda done: show(name, done, done)

        def from_history(history: object, name: str) -> ImportReport:
            return store.import_history(history, name, **given, progress=shown(name))  # type: ignore[arg-type]

        def from_lines(lines: Iterator[tuple[str, str]], name: str | None) -> ImportReport:
            return store.import_session(lines, name, user_id=user, progress=shown(name or ""))

        if kind is SourceKind.sql:
            with history_engine(parsed(as_url(source))) as engine:
                reports += [
                    from_history(history, name)
                    for name, history in sql_histories(engine, table, session)
                ]
        else:
            for one, name in _named(Path(source), session):
                if one.lines is not None:
                    reports.append(from_lines(one.lines, name))
                else:
                    reports.append(from_history(one.messages, name or ""))
    _print(reports)


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
