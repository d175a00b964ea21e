"""Command `tokenmem export`: sessions as JSON Lines, or as readable JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.cli.console import Force, check_output, exit_on_error
from langchain_tokenmem.cli.savers import as_url, check_file, sqlite_file
from langchain_tokenmem.errors import TokenMemoryError


class ExportFormat(StrEnum):
    """Forms of an export."""

    jsonl = "jsonl"
    json = "json"


@exit_on_error("export", TokenMemoryError, OSError)
def export_sessions(
    url: Annotated[str, typer.Argument(metavar="STORE", help="URL of the store, or its file.")],
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
    check_file(url)
    if out is not None:
        check_output(out, force=force, store=sqlite_file(url))
    with TranscriptStore(as_url(url)) as store:
        names = session or store.sessions(user_id=user)
        written = _lines if form is ExportFormat.jsonl else _readable
        lines = written(store, names, user)
        if out is None:
            sys.stdout.writelines(f"{line}\n" for line in lines)
            return
        unfinished = out.with_name(f".{out.name}.{os.getpid()}.part")
        try:
            with unfinished.open("x", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{line}\n" for line in lines)
            unfinished.replace(out)
        finally:
            unfinished.unlink(missing_ok=True)
    Console().print(f"{len(names):,} sessions written: {out}", markup=False)


def _lines(store: TranscriptStore, names: Sequence[str], user: str | None) -> Iterator[str]:
    for name in names:
        yield from store.export_session(name, user_id=user)


def _readable(store: TranscriptStore, names: Sequence[str], user: str | None) -> Iterator[str]:
    """Yield a list of sessions as indented JSON, each with its messages inside."""
    yield "["
    for number, name in enumerate(names, 1):
        head, *rows = map(json.loads, store.export_session(name, user_id=user))
        text = json.dumps({**head, "messages": rows}, indent=2, ensure_ascii=not _is_text(rows))
        yield text + ("," if number < len(names) else "")
    yield "]"


def _is_text(value: object) -> bool:
    """Return whether a file in UTF-8 can hold it: lone surrogates stay escaped."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
