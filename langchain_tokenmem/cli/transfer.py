"""Commands that move sessions and threads in and out, and how every command opens a store."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from langchain_tokenmem import TokenMemorySaver, TranscriptStore
    from langchain_tokenmem.adapters.importing import FileSession
    from langchain_tokenmem.storage.importing import ImportReport

_SQLITE_MAGIC = b"SQLite format 3\x00"

Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", help="Type that the state may hold, as module:Class."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]
Store = Annotated[str, typer.Argument(metavar="STORE", help="URL of the store, or its file.")]


class SourceKind(StrEnum):
    """Kinds of sources of an import."""

    auto = "auto"
    messages = "messages"
    sql = "sql"
    checkpoints = "checkpoints"


class SourceTables(StrEnum):
    """Layouts of the tables of a checkpointer."""

    auto = "auto"
    langgraph = "langgraph"
    tokenmem = "tokenmem"


class TargetTables(StrEnum):
    """Layouts of the tables that a migration writes."""

    tokenmem = "tokenmem"
    langgraph = "langgraph"


class ExportFormat(StrEnum):
    """Forms of an export."""

    jsonl = "jsonl"
    json = "json"


def export_sessions(
    store: Store,
    session: Annotated[
        list[str] | None, typer.Option(help="Only this session; may be given again.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only sessions of this user.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write; default: the output.")] = None,
    form: Annotated[
        ExportFormat, typer.Option("--format", help="One message a line, or indented JSON.")
    ] = ExportFormat.jsonl,
    *,
    force: Force = False,
) -> None:
    """Export whole sessions: messages with ids, times and edits, memory state and budget.

    `tokenmem import` makes the same sessions of it.
    """
    from langchain_tokenmem import TranscriptStore

    check_file(store)
    if out is not None:
        check_output(out, force=force, store=sqlite_file(store))
    with TranscriptStore(as_url(store), shared=True) as opened:
        names = session or opened.sessions(user_id=user)
        written = _lines if form is ExportFormat.jsonl else _readable
        lines = (f"{line}\n" for line in written(opened, names, user))
        if out is None:
            sys.stdout.writelines(lines)
            return
        unfinished = out.with_name(f".{out.name}.{os.getpid()}.part")
        try:
            with unfinished.open("x", encoding="utf-8", newline="\n") as file:
                file.writelines(lines)
            unfinished.replace(out)
        finally:
            unfinished.unlink(missing_ok=True)
    Console().print(f"{many(len(names), 'session')} written: {out}", markup=False)


def _lines(store: TranscriptStore, names: Sequence[str], user: str | None) -> Iterator[str]:
    for name in names:
        yield from store.export_session(name, user_id=user)


def _readable(store: TranscriptStore, names: Sequence[str], user: str | None) -> Iterator[str]:
    """Yield a list of sessions as indented JSON, each with its messages inside."""
    yield "["
    for number, name in enumerate(names, 1):
        head, *rows = map(json.loads, store.export_session(name, user_id=user))
        whole = {**head, "messages": rows}
        text = json.dumps(whole, indent=2, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            text = json.dumps(whole, indent=2)
        yield text + ("," if number < len(names) else "")
    yield "]"


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
    owner_pattern: Annotated[
        str | None,
        typer.Option(
            help="Regular expression that finds the owner in a session's name as its group `user`, "
            "such as '(?P<user>.+?)--.+'; a group `session` is the session's new name."
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
    as_json: AsJson = False,
) -> None:
    """Import messages into sessions of a store.

    It can be run again at any time: existing messages stay, and only new ones in FROM are added.
    """
    from langchain_tokenmem import TranscriptStore
    from langchain_tokenmem.adapters.importing import by_pattern, session_and_owner
    from langchain_tokenmem.errors import ConfigurationError

    if user is not None and owner_pattern is not None:
        raise ConfigurationError("Give --user or --owner-pattern: each session has one owner.")
    session_of = by_pattern(owner_pattern) if owner_pattern else None
    kind = kind_of(source, table) if kind is SourceKind.auto else kind
    if kind is SourceKind.checkpoints and (user or owner_pattern or summary is not None):
        raise ConfigurationError(
            "--user, --owner-pattern and --summary are for messages, not for checkpoints."
        )
    if kind is SourceKind.sql and summary is not None and session is None:
        raise ConfigurationError("--summary is about one session; name it with --session.")
    if kind is SourceKind.checkpoints:
        migrate(source, target, thread=None if session is None else [session], as_json=as_json)
        return
    reports: list[ImportReport] = []
    with TranscriptStore(as_url(target), shared=True) as store, progress_bar() as show:
        for called, history, lines in sessions_of(kind, source, table, session):
            if summary is not None and (lines is not None or reports):
                raise ConfigurationError(
                    "--summary is about one session; FROM has several, or is an export."
                )

            name, owner = session_and_owner(called or "", session_of)

            def progress(done: int, name: str = name) -> None:
                show(name, done, done)

            if lines is None:
                done = store.import_history(
                    history,
                    name,
                    user_id=owner or user,
                    summary=summary,
                    summary_covers=summary_covers,
                    progress=progress,
                )
            else:
                done = store.import_session(lines, name, user_id=owner or user, progress=progress)
            reports.append(done)
    if as_json:
        write_json(list(map(asdict, reports)))
    else:
        _print_imported(reports)


def _print_imported(reports: Sequence[ImportReport]) -> None:
    console = Console()
    for one in reports:
        text = f"{one.session_id}: {many(one.added, 'message')} imported, {one.known:,} were there."
        if one.renamed:
            text += f" {one.renamed:,} under a new id, theirs was taken."
        if one.has_summary:
            text += " Summary and state came along."
        console.print(text, markup=False, highlight=False)
    added = sum(one.added for one in reports)
    console.print(f"{many(len(reports), 'session')}: {many(added, 'message')}.")


def kind_of(source: str, table: str | None) -> SourceKind:
    """Return what a source is, by its first bytes or its tables; without `table` by the bytes."""
    from langchain_tokenmem.errors import ConfigurationError
    from langchain_tokenmem.storage.database_url import parsed
    from langchain_tokenmem.storage.import_sources import history_engine, tables_in

    if "://" not in source:
        with Path(source).open("rb") as file:
            if file.read(len(_SQLITE_MAGIC)) != _SQLITE_MAGIC:
                return SourceKind.messages
    if table is None:
        return SourceKind.auto
    check_file(source)
    with history_engine(parsed(as_url(source))) as engine:
        tables = tables_in(engine)
    if table in tables:
        return SourceKind.sql
    if {"checkpoints", "tokenmem_checkpoints"} & {*tables}:
        return SourceKind.checkpoints
    raise ConfigurationError(
        f"The database has neither a table {table!r} of histories (--table names another one) nor "
        f"checkpoints. There are: {', '.join(sorted(tables)) or 'none'}."
    )


def sessions_of(
    kind: SourceKind, source: str, table: str, session: str | None
) -> Iterator[tuple[str | None, Any, Iterator[tuple[str, str]] | None]]:
    """Yield the name of each session with its history, or with the lines of an export."""
    if kind is SourceKind.sql:
        from langchain_tokenmem.adapters.importing import sql_histories
        from langchain_tokenmem.storage.database_url import parsed
        from langchain_tokenmem.storage.import_sources import history_engine

        with history_engine(parsed(as_url(source))) as engine:
            for name, history in sql_histories(engine, table, session):
                yield name, history, None
    else:
        for one, called in named_sessions(Path(source), session):
            yield called, one.messages, one.lines


def named_sessions(file: Path, session: str | None) -> Iterator[tuple[FileSession, str | None]]:
    """Yield the sessions of a file with their names; those of an export keep theirs.

    One that has no name is called like the file; several of them are numbered.
    """
    from langchain_tokenmem.adapters.importing import sessions_in_file

    base = session or file.name.partition(".")[0]
    number = 0
    for place, one in enumerate(sessions_in_file(file)):
        if one.name is None:
            number += 1
            yield one, base if number == 1 else f"{base}-{number}"
        else:
            yield one, session if session and not place else one.name


def migrate(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="SQLite file, sqlite:/// or postgresql:// URL.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="URL of the store or database to copy into.")
    ],
    tables: Annotated[
        SourceTables, typer.Option("--from", help="Whose tables FROM has; `auto` looks into it.")
    ] = SourceTables.auto,
    new_tables: Annotated[
        TargetTables,
        typer.Option("--to", help="Whose tables TO gets; `langgraph` is the way back."),
    ] = TargetTables.tokenmem,
    thread: Annotated[
        list[str] | None, typer.Option(help="Only this thread; may be given again.")
    ] = None,
    allow: Allow = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Copy checkpointed threads into a store of this package, and prove it by reading back.

    History, pending writes and metadata come along; FROM is only read. Run it again after an
    interruption: it goes on where it stopped. With --to langgraph, TO gets the tables of a
    SqliteSaver (file) or a PostgresSaver (URL).
    """
    from langchain_tokenmem.adapters.migration import migrate_checkpoints

    types = allow or ()
    if new_tables is TargetTables.langgraph and tables is SourceTables.auto:
        tables = _tables_to_leave(source)
    with (
        _target_saver(target, new_tables, allow=types) as copies,
        _source_saver(source, tables, serde=copies.serde, allow=types) as originals,
        progress_bar() as show,
    ):
        report = migrate_checkpoints(originals, copies, threads=thread, progress=show)
    if as_json:
        write_json(asdict(report))
        return
    console = Console()
    console.print(
        f"{many(report.threads, 'thread')}: {many(report.copied, 'checkpoint')} with "
        f"{many(report.writes, 'pending write')} copied and read back, {report.known:,} were there "
        f"already."
    )
    if report.skipped:
        names = ", ".join(map(repr, report.skipped))
        text = f"{len(report.skipped):,} left out, no thread can be named so here: {names}."
        console.print(text, markup=False)


def _tables_to_leave(url: str) -> SourceTables:
    """Return which tables to copy back to LangGraph: ours, if the database has both kinds."""
    from langchain_tokenmem.storage.database_url import parsed
    from langchain_tokenmem.storage.import_sources import history_engine, tables_in

    check_file(url)
    with history_engine(parsed(as_url(url))) as engine:
        is_ours = "tokenmem_checkpoints" in tables_in(engine)
    return SourceTables.tokenmem if is_ours else SourceTables.langgraph


@contextmanager
def _target_saver(url: str, tables: TargetTables, *, allow: Sequence[str]) -> Iterator[Any]:
    """Open the saver to copy into; its file and its tables are created if they do not exist."""
    from langchain_tokenmem.adapters.migration import new_langgraph_saver
    from langchain_tokenmem.storage.database_url import parsed
    from langchain_tokenmem.storage.serializer import StateSerializer

    if tables is TargetTables.tokenmem:
        with our_saver(url, allow=allow, is_new=True) as saver:
            yield saver
        return
    with new_langgraph_saver(parsed(as_url(url)), StateSerializer(_types(allow))) as saver:
        yield saver


@contextmanager
def _source_saver(
    url: str, tables: SourceTables, *, serde: Any, allow: Sequence[str]
) -> Iterator[Any]:
    """Open the saver to copy from; where both are in a database, LangGraph's own is meant."""
    from langchain_tokenmem.adapters.migration import langgraph_saver
    from langchain_tokenmem.errors import ConfigurationError
    from langchain_tokenmem.storage.database_url import parsed

    if tables is not SourceTables.tokenmem:
        check_file(url)
        # Values are read as strictly as the target reads them.
        with langgraph_saver(parsed(as_url(url)), serde) as found:
            if found is not None:
                yield found
                return
        if tables is SourceTables.langgraph:
            raise ConfigurationError(
                "There are no tables of a LangGraph checkpointer in the source."
            )
    with our_saver(url, allow=allow) as saver:
        yield saver


# --- stores and files


def as_url(given: str) -> Any:
    """Return the URL of a database; a path is a SQLite file."""
    from langchain_tokenmem.storage.database_url import of_file

    return given if "://" in given else of_file(given)


def sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite database; None for any other one."""
    from langchain_tokenmem.storage.database_url import parsed

    address = parsed(as_url(url))
    name = address.database if address.get_backend_name() == "sqlite" else None
    return None if not name or "uri" in address.query or name == ":memory:" else Path(name)


def check_file(url: str) -> None:
    """Raise if a SQLite file is not there; opening it would make one."""
    from langchain_tokenmem.errors import ConfigurationError

    file = sqlite_file(url)
    if file is not None and not file.is_file():
        raise ConfigurationError(f"There is no file {file}.")


def check_output(file: Path, *, force: bool, store: Path | None = None) -> None:
    """Raise if a file must not be written: it is there, or is the store that is read."""
    from langchain_tokenmem.errors import ConfigurationError

    if not file.exists():
        return
    if store is not None and file.samefile(store):
        raise ConfigurationError(f"{file} is the store itself; write to another file.")
    if not force:
        raise ConfigurationError(f"{file} is there already; --force writes over it.")


@contextmanager
def our_saver(
    url: str, *, allow: Sequence[str] = (), is_new: bool = False
) -> Iterator[TokenMemorySaver]:
    """Open a saver on a store.

    Args:
        url: URL of the store, or the path of a SQLite file.
        allow: Further types that the state may hold, each as `module:Class`.
        is_new: Whether to create the SQLite file if it does not exist.
    """
    from langchain_tokenmem import TokenMemorySaver, TranscriptStore

    if not is_new:
        check_file(url)
    types = _types(allow)
    with TranscriptStore(as_url(url), shared=True) as store:
        saver: Any = TokenMemorySaver(store)
        yield saver.with_allowlist(types) if types else saver


def _types(allow: Sequence[str]) -> list[tuple[str, str]]:
    """Return the module and the name of each type that is allowed."""
    from langchain_tokenmem.errors import ConfigurationError

    types = []
    for given in allow:
        module, _, name = given.partition(":")
        if not (module and name):
            raise ConfigurationError(
                f"--allow {given!r}: it is module:Class, such as my_app.state:Plan."
            )
        types.append((module, name))
    return types


def write_json(value: Any) -> None:
    """Print a value as indented JSON, times in ISO 8601."""

    def plain(one: Any) -> Any:
        return list(one) if isinstance(one, map | Sequence) else str(one.isoformat())

    sys.stdout.write(json.dumps(value, indent=2, default=plain) + "\n")


def many(count: int, what: str) -> str:
    """Return a count with its noun: `1 message`, `1,200 messages`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def printable(text: str) -> str:
    """Return stored text as a terminal can show it."""
    return "".join(one if one.isprintable() else "?" for one in text)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar; what it gives is called with a description, steps done, and steps in all."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), transient=True, console=console) as progress:
        task = progress.add_task("")

        def show(description: str, done: int, total: int) -> None:
            progress.update(task, description=description[:40], completed=done, total=total)

        yield show
