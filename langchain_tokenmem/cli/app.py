"""Command-line application: options, progress bar, printed tables, written files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.conversations import RecordedConversation, load_conversations
from langchain_tokenmem.cli.doctor import doctor
from langchain_tokenmem.cli.migrate import migrate
from langchain_tokenmem.cli.reference_counter import ReferenceCounter, reference_counter
from langchain_tokenmem.cli.replay import ConversationReport, replay_conversation
from langchain_tokenmem.cli.report import (
    as_json,
    conversation_table,
    summary_table,
    totals,
)

app = typer.Typer(
    name="tokenmem",
    help="Conversation memory by token budget: recorded conversations, checkpointed threads.",
    no_args_is_help=True,
    add_completion=False,
)

_FEW = 12
"""Up to so many conversations are listed without `--verbose`: they fit on a screen."""
_FAULTS_SHOWN = 20


app.command("migrate-checkpoints")(migrate)
app.command("doctor")(doctor)


@app.command()
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
) -> None:
    """Play recorded conversations through the memory and check every request from outside.

    Leaves with 1 when a request was over its limit or illegal.
    """
    console = Console()
    try:
        conversations = load_conversations(file)
        budget = TokenBudget(context_window=window, model=model)
        counter = reference_counter(budget.model)
        reports = _play(conversations, TokenMemory(budget), counter, console)
    except (OSError, ValueError) as error:
        Console(stderr=True).print(f"tokenmem replay: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    if verbose or len(reports) <= _FEW:
        console.print(conversation_table(reports))
        console.print()
    found = totals(reports)
    limit = max((call.limit for one in reports for call in one.calls), default=budget.limit)
    console.print(summary_table(found, budget, limit=limit))
    _print_faults(reports, console, every=verbose)
    if out is not None:
        try:
            console.print(f"Written: {_write(reports, out)}", markup=False)
        except OSError as error:
            Console(stderr=True).print(f"tokenmem replay: {error}", style="red", markup=False)
            raise typer.Exit(2) from None
    raise typer.Exit(int(found.failed))


def _play(
    conversations: Sequence[RecordedConversation],
    memory: TokenMemory,
    counter: ReferenceCounter,
    console: Console,
) -> list[ConversationReport]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    reports = []
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("replay", total=len(conversations))
        for conversation in conversations:
            report = replay_conversation(
                conversation.messages,
                memory=memory,
                counter=counter,
                tools=conversation.tools,
                name=conversation.name,
            )
            reports.append(report)
            progress.advance(task)
    return reports


def _print_faults(reports: Sequence[ConversationReport], console: Console, *, every: bool) -> None:
    faults = [f"{report.name}: {fault}" for report in reports for fault in report.faults]
    for fault in faults if every else faults[:_FAULTS_SHOWN]:
        console.print(fault, style="red", markup=False)
    if len(faults) > _FAULTS_SHOWN and not every:
        console.print(f"... and {len(faults) - _FAULTS_SHOWN:,} more: --verbose lists them")
    for report in reports if every else ():
        if report.budget_exceeded:
            console.print(f"{report.name}: {report.budget_exceeded}", style="yellow", markup=False)


def _write(reports: Sequence[ConversationReport], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "replay.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for report in reports:
            file.write(json.dumps(as_json(report), ensure_ascii=False) + "\n")
    return path
