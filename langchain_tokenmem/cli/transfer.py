"""Commands that move sessions and threads in and out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from langchain_tokenmem.cli import options
from langchain_tokenmem.cli.terminal import (
    check_output,
    error_output,
    many,
    output,
    printable,
    progress_bar,
    write_json,
)
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError

if TYPE_CHECKING:
    from langchain_tokenmem import TranscriptStore
    from langchain_tokenmem.storage.importing import ImportReport

SourceKind = Literal["auto", "messages", "sql", "checkpoints"]
SourceTables = Literal["auto", "langgraph", "tokenmem"]
TargetTables = Literal["tokenmem", "langgraph"]


def export_sessions(
    store: options.Store,
    session: Annotated[
        list[str] | None, typer.Option(help="Only this session; may be given again.")
    ] = None,
    user: options.User = None,
    out: Annotated[Path | None, typer.Option(help="File to write; default: the output.")] = None,
    form: Annotated[
        Literal["jsonl", "json"],
        typer.Option("--format", help="One message per line, or indented JSON."),
    ] = "jsonl",
    *,
    force: options.Force = False,
) -> None:
    """Export whole sessions: messages with ids, times and edits, memory state and budget.

    `tokenmem import` restores the same sessions from it. A damaged session is left out and named,
    and the exit code is 1.
    """
    from langchain_tokenmem.cli.stored_sessions import opened_store, sqlite_file

    if out is not None:
        check_output(out, force=force, store=sqlite_file(store))
    with opened_store(store) as opened:
        names = session or opened.sessions(user_id=user)
        damaged: list[str] = []
        read = _readable_sessions(opened, names, user, damaged)
        written = chain.from_iterable(read) if form == "jsonl" else _indented(read)
        lines = (f"{line}\n" for line in written)
        if out is None:
            sys.stdout.writelines(lines)
            if not names:
                error_output().print("No session was found.", style="dim")
        else:
            unfinished = out.with_name(f".{out.name}.{os.getpid()}.part")
            try:
                with unfinished.open("x", encoding="utf-8", newline="\n") as file:
                    file.writelines(lines)
                unfinished.replace(out)
            finally:
                unfinished.unlink(missing_ok=True)
            count = many(len(names) - len(damaged), "session")
            output().print(f"{count} written: {out}")
    for error in damaged:
        error_output().print(f"Left out: {error}", style="red")
    if damaged:
        raise typer.Exit(1)


def _readable_sessions(
    store: TranscriptStore, names: Sequence[str], user: str | None, damaged: list[str]
) -> Iterator[list[str]]:
    """Yield the lines of each session; what is wrong with the others is added to `damaged`."""
    for name in names:
        try:
            lines = list(store.export_session(name, user_id=user))
        except CorruptStoreError as error:
            damaged.append(str(error))
        else:
            yield lines


def _indented(exported: Iterator[list[str]]) -> Iterator[str]:
    """Yield a list of sessions as indented JSON, each with its messages inside."""
    text = ""
    yield "["
    for lines in exported:
        if text:
            yield f"{text},"
        head, *rows = map(json.loads, lines)
        text = json.dumps({**head, "messages": rows}, indent=2, ensure_ascii=False)
        # UTF-8 cannot encode a lone surrogate; it becomes a JSON escape.
        text = text.encode("utf-8", "backslashreplace").decode()
    if text:
        yield text
    yield "]"


def import_sessions(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="File of messages (of OpenAI, Anthropic, LangChain or `tokenmem export`; JSON or "
            "JSON Lines; also .gz), or a database: SQLite file, sqlite:/// or postgresql:// URL.",
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="URL of the store to import into.")],
    kind: Annotated[
        SourceKind, typer.Option("--from", help="What FROM is; `auto` detects it.")
    ] = "auto",
    session: Annotated[
        str | None,
        typer.Option(help="Name of a session that has none; else only this session or thread."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Owner of the sessions.")] = None,
    owner_pattern: Annotated[
        str | None,
        typer.Option(
            help="Regular expression that finds the owner in a session's name as its group `user`, "
            "such as `(?P<user>.+?)--.+`; a group `session` is the session's new name."
        ),
    ] = None,
    table: Annotated[
        str, typer.Option(help="Table of SQLChatMessageHistory in a database.")
    ] = "message_store",
    summary: Annotated[
        str | None, typer.Option(help="Text of the summary that the old memory has of a session.")
    ] = None,
    summary_covers: Annotated[
        int, typer.Option(help="How many messages of FROM the summary is about.")
    ] = 0,
    *,
    as_json: options.AsJson = False,
) -> None:
    """Import messages into sessions of a store.

    It can be run again at any time: existing messages stay, and only new ones in FROM are added.
    """
    from langchain_tokenmem.adapters.importing import by_pattern, session_and_owner
    from langchain_tokenmem.cli.stored_sessions import kind_of, opened_store, sessions_of

    if user is not None and owner_pattern is not None:
        raise ConfigurationError("Give --user or --owner-pattern: each session has one owner.")
    session_of = by_pattern(owner_pattern) if owner_pattern else None
    kind = kind_of(source, table) if kind == "auto" else kind
    if kind == "checkpoints" and (user or owner_pattern or summary is not None):
        raise ConfigurationError(
            "--user, --owner-pattern and --summary are for messages, not for checkpoints."
        )
    if kind == "sql" and summary is not None and session is None:
        raise ConfigurationError("--summary is about one session; name it with --session.")
    if kind == "checkpoints":
        migrate(source, target, thread=None if session is None else [session], as_json=as_json)
        return
    reports: list[ImportReport] = []
    with opened_store(target, is_new=True) as store, progress_bar() as show:
        for called, one in sessions_of(kind, source, table, session):
            if summary is not None and (one.lines is not None or reports):
                raise ConfigurationError(
                    "--summary is about one session; FROM has several, or is an export."
                )
            name, owner = session_and_owner(called, session_of)
            options: dict[str, Any] = {"user_id": owner or user, "progress": partial(show, name)}
            if one.lines is None:
                options |= {"summary": summary, "summary_covers": summary_covers}
            reports.append(one.imported_into(store, name, **options))
    if as_json:
        write_json(reports)
    else:
        _print_imported(reports)


def _print_imported(reports: Sequence[ImportReport]) -> None:
    for one in reports:
        name, added = printable(one.session_id), many(one.added, "message")
        text = f"{name}: {added} imported, {one.known:,} were already there."
        if one.renamed:
            text += f" {one.renamed:,} under a new id, because theirs was taken."
        if one.has_summary:
            text += " Its summary and state were imported, too."
        output().print(text)
    total = sum(one.added for one in reports)
    output().print(f"{many(len(reports), 'session')}: {many(total, 'message')}.")


def migrate(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="SQLite file, sqlite:/// or postgresql:// URL.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="URL of the store or database to copy into.")
    ],
    tables: Annotated[
        SourceTables, typer.Option("--from", help="Whose tables FROM has; `auto` detects it.")
    ] = "auto",
    new_tables: Annotated[
        TargetTables,
        typer.Option("--to", help="Whose tables TO gets; `langgraph` is the way back."),
    ] = "tokenmem",
    thread: Annotated[
        list[str] | None, typer.Option(help="Only this thread; may be given again.")
    ] = None,
    allow: options.Allow = None,
    *,
    as_json: options.AsJson = False,
) -> None:
    """Copy checkpointed threads into a store of this package, and prove it by reading back.

    History, pending writes and metadata are copied; FROM is only read. Run it again after an
    interruption: it resumes where it stopped. With --to langgraph, TO gets the tables of a
    SqliteSaver (file) or a PostgresSaver (URL).
    """
    from langchain_tokenmem.adapters.migration import migrate_checkpoints
    from langchain_tokenmem.cli.stored_sessions import source_saver, tables_of, target_saver

    types = allow or ()
    if new_tables == "langgraph" and tables == "auto":
        is_ours = "tokenmem_checkpoints" in tables_of(source)
        tables = "tokenmem" if is_ours else "langgraph"
    with (
        target_saver(target, new_tables, allow=types) as copies,
        source_saver(source, tables, serde=copies.serde, allow=types) as originals,
        progress_bar() as show,
    ):
        report = migrate_checkpoints(originals, copies, threads=thread, progress=show)
    if as_json:
        write_json(report)
        return
    output().print(
        f"{many(report.threads, 'thread')}: {many(report.copied, 'checkpoint')} with "
        f"{many(report.writes, 'pending write')} copied and read back, {report.known:,} were there "
        f"already."
    )
    if report.skipped:
        names = ", ".join(map(repr, report.skipped))
        text = f"{len(report.skipped):,} left out, no thread can be named so here: {names}."
        output().print(text)
    if report.chats:
        output().print(
            f"{many(report.chats, 'session')} without checkpoints not copied: tokenmem export and "
            f"tokenmem import move them."
        )
