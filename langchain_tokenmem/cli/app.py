"""The command `tokenmem`. Each command imports what it needs, so that `--help` starts at once."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track
from rich.table import Table
from typer.core import TyperGroup

from langchain_tokenmem.cli import options
from langchain_tokenmem.cli.looking import explain, search, serve, sessions, show, stats, view
from langchain_tokenmem.cli.removing import erase, redact
from langchain_tokenmem.cli.terminal import (
    check_output,
    error_output,
    many,
    many_rows,
    output,
    printable,
    progress_bar,
    replace_unencodable,
    some,
    write_json,
)
from langchain_tokenmem.cli.transfer import export_sessions, import_sessions, migrate
from langchain_tokenmem.errors import ConfigurationError, TokenMemoryError

_FEW = 12
"""Up to so many conversations are listed without `--verbose`: they fit on a screen."""


class _Commands(TyperGroup):
    """Ends a command that was used wrongly with one line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        replace_unencodable()
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # as in `tokenmem export ... | head`: click ends without a word
        except (TokenMemoryError, OSError) as error:
            about = str(error)
            if isinstance(error, OSError) and error.filename:
                about = f"{error.filename}: {error.strerror}"
            error_output().print(f"tokenmem {ctx.invoked_subcommand}: {about}", style="red")
            raise typer.Exit(2) from None


app = typer.Typer(
    name="tokenmem",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="markdown",
)


def _version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"tokenmem {version('langchain-tokenmem')}\n")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Conversation memory by token budget: look at sessions, move them, check them.

    Exits with 0 if all is well; with 1 if a check found something wrong, or a search found
    nothing; with 2 if the command was used wrongly or something cannot be read.
    """


for looking in (sessions, show, view, explain, search, stats, serve):
    app.command()(looking)
app.command("export")(export_sessions)
app.command("import")(import_sessions)
app.command("migrate-checkpoints")(migrate)
app.command("redact")(redact)
app.command("erase")(erase)


@app.command()
def config(
    *,
    example: Annotated[
        bool, typer.Option("--example", help="Print a commented file of all settings, in YAML.")
    ] = False,
    given: Annotated[bool, typer.Option("--given", help="Leave out default values.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Print the settings in force and where each comes from; passwords and keys are hidden.

    They come from the environment (`TOKENMEM_*`) and a file (`tokenmem.yaml`, `tokenmem.toml`, or
    the one that `TOKENMEM_CONFIG` names).
    """
    from langchain_tokenmem import TokenMemorySettings
    from langchain_tokenmem.settings.token_memory_settings import example_file, in_force

    if example:
        sys.stdout.write(example_file())
        return
    rows = [row for row in in_force(TokenMemorySettings()) if not given or row[2] != "default"]
    if as_json:
        write_json([dict(zip(("setting", "value", "from"), row, strict=True)) for row in rows])
        return
    table = Table("setting", "value", "from")
    for row in rows:
        table.add_row(*row)
    output().print(table)


@app.command()
def schema(
    database: Annotated[
        str, typer.Argument(help="`postgresql` or `sqlite`.", metavar="DATABASE")
    ] = "postgresql",
) -> None:
    """Print the SQL that creates the tables, for databases where no program may create any."""
    from langchain_tokenmem.storage.tables import schema_sql

    sys.stdout.write(schema_sql(database))


@app.command()
def doctor(store: options.Store, *, as_json: options.AsJson = False) -> None:
    """Read every checkpoint and every transcript, and list what is damaged.

    Exits with 1 if something is wrong: restore a backup, or delete the thread.
    """
    from langchain_tokenmem.cli.stored_sessions import looking_saver, opened_store

    with opened_store(store) as opened, progress_bar() as show:
        found = looking_saver(opened).examine(partial(show, "doctor"))
    if as_json:
        write_json(found)
        raise typer.Exit(int(bool(found.findings)))
    examined = f"{many(found.sessions, 'session')}, {many(found.checkpoints, 'checkpoint')}"
    if not found.findings:
        output().print(f"{examined}: nothing is wrong.")
        return
    table = Table("session", "checkpoint", "what is wrong")
    for finding in found.findings:
        table.add_row(*map(printable, (finding.thread, finding.checkpoint, finding.what)))
    output().print(f"{examined}: {many(len(found.findings), 'finding')}.", table, sep="\n")
    raise typer.Exit(1)


@app.command()
def expire(
    store: Annotated[
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
        bool, typer.Option("--dry-run", help="Only list what would be deleted.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List every session.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Delete whole sessions that are inactive, with everything that belongs to them.

    Pinned and marked ones stay. Run it again after an interruption: it resumes where it stopped.
    """
    from langchain_tokenmem.cli.stored_sessions import opened_store

    url, inactive_for = _by_settings(store, inactive_days)
    with opened_store(url) as opened, progress_bar() as show:
        report = opened.expire(inactive_for, dry_run=dry_run, progress=partial(show, "expire"))
    if as_json:
        write_json(report)
        return
    for line in some([*map(printable, report.expired)], verbose=verbose):
        output().print(line)
    done = "would expire" if dry_run else "expired"
    rows = many_rows(report.counts)
    output().print(f"{many(len(report.expired), 'session')} {done}{rows and f': {rows}'}.")
    if report.pinned or report.kept:
        output().print(f"Inactive and kept: {report.pinned:,} pinned, {report.kept:,} marked.")


def _by_settings(url: str | None, inactive_days: float | None) -> tuple[str, timedelta]:
    """Return the store and the age that were given, else those of the settings."""
    if inactive_days is not None and inactive_days <= 0:
        raise ConfigurationError(f"--inactive-days is {inactive_days:g}; give a number above 0.")
    try:
        age = None if inactive_days is None else timedelta(days=inactive_days)
    except (OverflowError, ValueError) as error:
        raise ConfigurationError(f"--inactive-days {inactive_days}: {error}.") from None
    if url is None or age is None:
        from langchain_tokenmem import TokenMemorySettings

        settings = TokenMemorySettings().store_settings
        url = settings.url if url is None else url
        age = age or settings.inactive_for
    if age is None:
        raise ConfigurationError(
            "Say when sessions are inactive: --inactive-days 30, or store.inactive_for in the "
            "settings (TOKENMEM_STORE__INACTIVE_FOR=P30D)."
        )
    return url, age


@app.command()
def replay(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A store, an export, or JSON in OpenAI's or LangChain's format; .gz.",
        ),
    ],
    window: Annotated[
        int, typer.Option("--window", "-w", help="Context window to play against, in tokens.")
    ],
    model: Annotated[
        str | None, typer.Option(help="Model to count for; o200k_base without one.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for replay.jsonl, one line per conversation.")
    ] = None,
    *,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List every conversation and every fault.")
    ] = False,
    force: options.Force = False,
    whole_json: Annotated[
        bool, typer.Option("--json", help="Print the totals and each conversation's as JSON.")
    ] = False,
) -> None:
    """Play recorded conversations through the memory and check every request from outside.

    Exits with 1 if a request was over its limit or illegal.
    """
    from langchain_tokenmem import TokenBudget, TokenMemory
    from langchain_tokenmem.cli.measures import reference_counter
    from langchain_tokenmem.cli.replay import load_conversations, replay_conversation
    from langchain_tokenmem.cli.replay_totals import (
        ReplayTotals,
        as_json,
        conversation_table,
        summary_table,
    )

    report_file = None if out is None else out / "replay.jsonl"
    if report_file is not None:
        check_output(report_file, force=force)
    conversations = load_conversations(source)
    budget = TokenBudget(context_window=window, model=model)
    memory, counter = TokenMemory(budget), reference_counter(budget.model)
    reports = [
        replay_conversation(
            one.messages, memory=memory, counter=counter, tools=one.tools, name=one.name
        )
        for one in track(conversations, "replay", console=error_output(), transient=True)
    ]
    found = ReplayTotals(reports)
    if report_file is not None:
        report_file.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(as_json(report), ensure_ascii=False) + "\n" for report in reports)
        report_file.write_text("".join(lines), encoding="utf-8")
    if whole_json:
        each = [
            {"name": one.name, "faults": one.faults, "totals": vars(ReplayTotals([one]))}
            for one in reports
        ]
        write_json({"totals": vars(found), "conversations": each})
        raise typer.Exit(int(found.failed))
    if verbose or len(reports) <= _FEW:
        output().print(conversation_table(reports), "", sep="\n")
    limit = max((call.limit for one in reports for call in one.calls), default=budget.limit)
    output().print(summary_table(found, budget, limit=limit))
    faults = [f"{report.name}: {fault}" for report in reports for fault in report.faults]
    for line in some(faults, verbose=verbose):
        output().print(line, style="red")
    for report in reports if verbose else ():
        if report.budget_exceeded:
            output().print(f"{report.name}: {report.budget_exceeded}", style="yellow")
    if report_file is not None:
        output().print(f"Written: {report_file}")
    raise typer.Exit(int(found.failed))
