"""The commands that look: sessions, their messages, what the model saw of them, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

from langchain_tokenmem.cli import options
from langchain_tokenmem.cli.terminal import (
    check_output,
    error_output,
    many,
    on_one_line,
    output,
    printable,
    printable_lines,
    shown_name,
    time_text,
    typed_name,
    write_json,
)

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from langchain_tokenmem.cli.calls import Call, CallFacts

_READING = "Reading the calls"
"""Shown meanwhile on a terminal; it takes seconds for thousands of calls."""
NAMES = {"human": "user", "ai": "model", "tool": "tool", "system": "system"}


def sessions(
    source: options.Source,
    *,
    user: options.User = None,
    matching: Annotated[
        str, typer.Option("--filter", help="Only ids and owners that contain this text.")
    ] = "",
    page: Annotated[int, typer.Option(min=1, help="Which page.")] = 1,
    size: Annotated[int, typer.Option(min=1, max=1_000, help="Sessions on a page.")] = 20,
    as_json: options.AsJson = False,
) -> None:
    """List the sessions, most recently active first."""
    from langchain_tokenmem.cli.stored_sessions import opened

    with opened(source) as found:
        some, is_last = found.page(
            user=user, matching=matching, limit=size, offset=(page - 1) * size
        )
    if as_json:
        write_json({"page": page, "is_last": is_last, "sessions": some})
        return
    console = output()
    for one in some:
        name = shown_name(one.session)
        line = Text(name, style="bold").append(f"  {one.title}", style="not bold")
        # The id stays whole, so that it can be copied; the title is cut.
        line.truncate(max(console.width, cell_len(name)), overflow="ellipsis")
        numbers = f"{one.messages:>7,} messages {one.tokens:>11,} tokens"
        about = f"  {time_text(one.active_at):16} {numbers}  {printable(one.user or '')}"
        console.print(line)
        console.print(about, style="dim", no_wrap=True, overflow="ellipsis")
    where = "" if is_last and page == 1 else f", page {page}"
    more = "." if is_last else f"; more: --page {page + 1}"
    console.print(f"{many(len(some), 'session')}{where}{more}")


def show(
    source: options.Source,
    session: options.SessionName,
    *,
    html: Annotated[
        Path | None, typer.Option(help="Write a page of its calls to this file instead.")
    ] = None,
    window: options.Window = None,
    force: options.Force = False,
    full: options.Full = False,
    as_json: options.AsJson = False,
) -> None:
    """Print a session: its messages with number and tokens, or write its page."""
    from langchain_tokenmem.cli.measures import reference_counter
    from langchain_tokenmem.cli.stored_sessions import opened, sqlite_file

    if html is not None:
        from langchain_tokenmem.cli.page import session_page

        check_output(html, force=force, store=sqlite_file(source))
        with error_output().status(_READING), opened(source, session) as found:
            page = session_page(found, session, window)
        html.write_text(page, encoding="utf-8", errors="replace", newline="\n")
        output().print(f"Written: {html}", soft_wrap=True)
        return

    with opened(source, session) as found:
        rows = found.rows(session)
    counter = reference_counter()
    messages: list[dict[str, Any]] = [
        {
            "seq": row.seq,
            "id": row.message.id,
            "role": row.message.type,
            "created_at": row.created_at if row.is_dated else None,
            "tokens": counter.message(row.message),
            "text": text_with_calls(row.message),
        }
        for row in rows
    ]
    if as_json:
        write_json({"session": session, "messages": messages})
        return
    print_messages(messages, full=full)
    total = sum(one["tokens"] for one in messages)
    output().print(f"{many(len(messages), 'message')}, {total:,} tokens.", style="dim")


def print_messages(messages: Iterable[dict[str, Any]], *, full: bool) -> None:
    """Print messages as a table, or one below the other if they are whole."""
    console = output()
    number = Column("#", justify="right", style="dim", no_wrap=True)
    tokens = Column("tokens", justify="right", no_wrap=True)
    text = Column("text", no_wrap=True, overflow="ellipsis", ratio=1)
    table = Table(
        number, Column("who", no_wrap=True), tokens, text, box=None, pad_edge=False, expand=True
    )
    for one in messages:
        who = NAMES.get(one["role"], one["role"])
        if full:
            when = time_text(one.get("created_at"))
            console.print(f"#{one['seq']} {who}, {one['tokens']:,} tokens, {when}", style="bold")
            console.print(printable_lines(one["text"]), end="\n\n")
        else:
            cells = (str(one["seq"]), printable(who), f"{one['tokens']:,}")
            table.add_row(*cells, on_one_line(one["text"]))
    if table.rows:
        console.print(table)


def search(
    source: options.Source,
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help="What to look for.")],
    *,
    session: Annotated[
        str | None, typer.Option(help="Only in this session.", callback=typed_name)
    ] = None,
    user: options.User = None,
    k: Annotated[int, typer.Option(min=1, max=1_000, help="Maximum number of hits.")] = 10,
    as_json: options.AsJson = False,
) -> None:
    """Find messages by their words, in one session or in all; exits with 1 if nothing is found."""
    from langchain_tokenmem.cli.stored_sessions import opened

    with opened(source, session) as found:
        best = found.search(" ".join(words), session=session, user=user, k=k)
    if as_json:
        keys = ("session_id", "seq", "message_id", "role", "created_at", "score", "why", "text")
        write_json([{key: getattr(hit, key) for key in keys} for hit in best])
    console = output()
    for hit in () if as_json else best:
        who = NAMES.get(hit.role, hit.role)
        head = f"{shown_name(hit.session_id or '')} #{hit.seq} {who}: {hit.why}"
        text = Text(on_one_line(hit.text))
        text.truncate(3 * console.width, overflow="ellipsis")
        console.print(head, style="bold")
        console.print(text)
    if not best:
        error_output().print("Nothing was found.", style="dim")
        raise typer.Exit(1)


def stats(source: options.Source, *, as_json: options.AsJson = False) -> None:
    """Count sessions, owners, messages, tokens and summaries."""
    from langchain_tokenmem.cli.stored_sessions import opened

    with opened(source) as found:
        counted = found.totals()
    if as_json:
        write_json(counted)
        return
    table = Table(Column(style="dim"), Column(justify="right"), box=None, show_header=False)
    for name, value in counted.items():
        shown = time_text(value) if isinstance(value, datetime | None) else f"{value:,}"
        table.add_row(name.replace("_", " "), shown)
    output().print(table)


def view(
    source: options.Source,
    session: options.SessionName,
    *,
    at: Annotated[int | None, typer.Option(help="Number of the call; default: the next.")] = None,
    window: options.Window = None,
    full: options.Full = False,
    as_json: options.AsJson = False,
) -> None:
    """Print the request of a model call, part by part, as the model gets it."""
    facts, _, origin = _facts(source, session, at, window)
    if as_json:
        write_json({"session": session, "origin": origin, **dataclasses.asdict(facts)})
        return
    rows = [
        {**one, "seq": one["place"] + 1 if one["place"] is not None else ""} for one in facts.items
    ]
    for row in rows:
        row["role"] = row["kind"] if row["kind"] in {"summary", "memory", "call"} else row["role"]
    print_messages(rows, full=full)
    name = f"Call {facts.number}" + (" (the next one)" if facts.is_next else "")
    text = f"{name}: {facts.tokens:,} of {facts.limit:,} tokens; {origin}."
    output().print(text, style="dim")


def explain(
    source: options.Source,
    session: options.SessionName,
    *,
    call: Annotated[int | None, typer.Option(help="Number of the call; default: the next.")] = None,
    window: options.Window = None,
    as_json: options.AsJson = False,
) -> None:
    """Print what a model call contained, what was hidden from it, and what changed before it."""
    facts, made, origin = _facts(source, session, call, window)
    explanation = dataclasses.replace(made.view.explain(), session=session, call=made.number)
    if as_json:
        write_json({"origin": origin, "is_next": made.is_next, **explanation.as_dict()})
        return
    output().print(printable_lines(str(explanation)))
    if facts.whole > facts.tokens:
        output().print(f"Sending everything would take {facts.whole:,} tokens.")
    output().print(f"Changed before this call: {facts.change or 'nothing'}.")
    which = "would come next; calls are" if made.is_next else "is"
    output().print(f"The call {which} {origin}.", style="dim")


def _facts(
    source: str, session: str, number: int | None, window: int | None
) -> tuple[CallFacts, Call, str]:
    """Return the facts of one call, the call, and where it comes from."""
    from langchain_tokenmem.cli.calls import session_calls
    from langchain_tokenmem.cli.stored_sessions import opened

    with error_output().status(_READING), opened(source, session) as found:
        known = session_calls(found, session, window)
    call = known.call(number)
    return known.facts(call), call, known.origin


def serve(
    source: options.Source,
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0: a free one.")] = 0,
    window: options.Window = None,
) -> None:
    """Serve the pages of all sessions on this machine until Ctrl+C; no session is changed."""
    from langchain_tokenmem.cli.page import PageServer
    from langchain_tokenmem.cli.stored_sessions import opened

    with opened(source) as found, PageServer(found, port, window) as server:
        output().print(server.address, soft_wrap=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def text_with_calls(message: BaseMessage) -> str:
    """Return the text of a message with its tool calls."""
    from langchain_tokenmem.cli.measures import written_calls
    from langchain_tokenmem.core.messages import text_of

    return "\n".join(filter(None, [text_of(message), *written_calls(message)]))
