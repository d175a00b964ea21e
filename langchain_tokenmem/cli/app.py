"""Command-line application: options, progress bar, printed tables, written files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.config import config
from langchain_tokenmem.cli.console import Force, check_output, exit_on_error
from langchain_tokenmem.cli.conversations import load_conversations
from langchain_tokenmem.cli.doctor import doctor
from langchain_tokenmem.cli.expire import expire
from langchain_tokenmem.cli.export_sessions import export_sessions
from langchain_tokenmem.cli.import_sessions import import_sessions
from langchain_tokenmem.cli.migrate import migrate
from langchain_tokenmem.cli.reference_counter import reference_counter
from langchain_tokenmem.cli.replay import ConversationReport, replay_conversation
from langchain_tokenmem.cli.report import ReplayTotals, as_json, conversation_table, summary_table

app = typer.Typer(
    name="tokenmem",
    help="Conversation memory by token budget: recorded conversations, checkpointed threads.",
    no_args_is_help=True,
    add_completion=False,
)

_FEW = 12
"""Up to so many conversations are listed without `--verbose`: they fit on a screen."""
_FAULTS_SHOWN = 20

app.command("config")(config)
app.command("migrate-checkpoints")(migrate)
app.command("doctor")(doctor)
app.command("import")(import_sessions)
app.command("export")(export_sessions)
app.command("expire")(expire)


@app.command()
@exit_on_error("replay", OSError, ValueError)
def replay(
    file: Annotated[
        Path, typer.Argument(help="JSON Lines or JSON list, OpenAI chat format; .gz too.")
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
    force: Force = False,
) -> None:
    """Play recorded conversations through the memory and check every request from outside.

    Leaves with 1 when a request was over its limit or illegal.
    """
    console = Console()
    report_file = None if out is None else out / "replay.jsonl"
    if report_file is not None:
        check_output(report_file, force=force)
    conversations = load_conversations(file)
    budget = TokenBudget(context_window=window, model=model)
    memory, counter = TokenMemory(budget), reference_counter(budget.model)
    reports = [
        replay_conversation(
            conversation.messages,
            memory=memory,
            counter=counter,
            tools=conversation.tools,
            name=conversation.name,
        )
        for conversation in track(conversations, "replay", console=console, transient=True)
    ]
    if verbose or len(reports) <= _FEW:
        console.print(conversation_table(reports))
        console.print()
    found = ReplayTotals(reports)
    limit = max((call.limit for one in reports for call in one.calls), default=budget.limit)
    console.print(summary_table(found, budget, limit=limit))
    _print_faults(reports, console, every=verbose)
    if report_file is not None:
        report_file.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(as_json(report), ensure_ascii=False) + "\n" for report in reports)
        report_file.write_text("".join(lines), encoding="utf-8")
        console.print(f"Written: {report_file}", markup=False)
    raise typer.Exit(int(found.failed))


def _print_faults(reports: Sequence[ConversationReport], console: Console, *, every: bool) -> None:
    faults = [f"{report.name}: {fault}" for report in reports for fault in report.faults]
    for fault in faults if every else faults[:_FAULTS_SHOWN]:
        console.print(fault, style="red", markup=False)
    if len(faults) > _FAULTS_SHOWN and not every:
        console.print(f"... and {len(faults) - _FAULTS_SHOWN:,} more: --verbose lists them")
    for report in reports if every else ():
        if report.budget_exceeded:
            console.print(f"{report.name}: {report.budget_exceeded}", style="yellow", markup=False)
