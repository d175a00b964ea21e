"""Program of `make demo`: a recorded agent played through a small window, and a look inside.

The recording is of a real agent at work on this repository (`examples/record_agent.py` made it).
Nothing here calls a model: the summaries are the extractive ones, the numbers are counted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.measures import reference_counter
from langchain_tokenmem.cli.replay import (
    RecordedConversation,
    load_conversations,
    replay_conversation,
)
from langchain_tokenmem.cli.report import ReplayTotals, summary_table
from langchain_tokenmem.types import MemoryState, View

RECORDING = Path(__file__).parent / "recorded_agent.jsonl"
WINDOW = 4_000
"""Small on purpose: the recording is several times as large."""
WIDTH = 110
SUMMARY = "<conversation_summary"
CUT = 96
"""Characters of a message that one line of the demo shows."""


@dataclass(frozen=True)
class Question:
    """Something that was said early, and a literal by which its answer is recognised."""

    ask: str
    literal: str


QUESTIONS = [
    Question("Which ticket is this work for?", "TM-214"),
    Question("What did we decide about reserve_output, and why?", "no answer of our support bot"),
    Question("A window of 200 tokens was refused. Which is the smallest?", "at least 256"),
]


@dataclass(frozen=True)
class Found:
    """Where an answer stands: the part of the view, or the transcript, and the line."""

    where: str
    line: str


def main() -> int:
    """Show the demo; 1 if a promise was broken."""
    console = Console(width=WIDTH)
    conversation = load_conversations(RECORDING)[0]
    memory = TokenMemory(TokenBudget(context_window=WINDOW))
    failed = show_replay(console, conversation, memory)
    state = remembered(conversation, memory)
    show_questions(console, conversation, memory, state)
    show_view(console, conversation, memory, state)
    show_notes(console, conversation)
    return int(failed)


def show_replay(console: Console, conversation: RecordedConversation, memory: TokenMemory) -> bool:
    """Play the recording and print the numbers; true if a promise was broken."""
    counter = reference_counter()
    console.rule("[bold]1. A real agent's conversation in a small window")
    everything = counter.messages(conversation.messages)
    turns = sum(isinstance(message, HumanMessage) for message in conversation.messages)
    console.print(
        f"\nRecorded: {len(conversation.messages)} messages, {turns} requests of the user, "
        f"{everything:,} tokens of which a window of {WINDOW:,} holds a part.\n"
        f"Each of the model's calls is played again, through the memory.\n"
    )
    report = replay_conversation(
        conversation.messages, memory=memory, counter=counter, tools=conversation.tools
    )
    found = ReplayTotals([report])
    limit = max(call.limit for call in report.calls)
    console.print(summary_table(found, memory.budget, limit=limit))
    for fault in report.faults:
        console.print(fault, style="red", markup=False)
    console.print()
    return found.failed


def remembered(conversation: RecordedConversation, memory: TokenMemory) -> MemoryState | None:
    """Return what the memory holds at the end; this loop is all that an agent has to do."""
    state = None
    for place, message in enumerate(conversation.messages):
        if isinstance(message, AIMessage):
            history = conversation.messages[:place]
            state = memory.compact(history, state, tools=conversation.tools)
    return state


def show_questions(
    console: Console,
    conversation: RecordedConversation,
    memory: TokenMemory,
    state: MemoryState | None,
) -> None:
    """Ask for early facts and print where the view, or else the transcript, holds them."""
    console.rule("[bold]2. What was said early is still there")
    console.print(
        "\nNo model answers here: the literal of each answer is looked up in the very view that a"
        "\nmodel would be sent with the question, and in the transcript where the view lacks it.\n"
    )
    table = Table(box=None, padding=(0, 2, 1, 0), expand=True)
    for name, ratio in (("question", 3), ("held by", 2), ("the line", 6)):
        table.add_column(name, ratio=ratio)
    table.add_column("view", justify="right", no_wrap=True)
    for number, question in enumerate(QUESTIONS, 1):
        asked = [*conversation.messages, HumanMessage(question.ask, id=f"question-{number}")]
        now = memory.compact(asked, state, tools=conversation.tools)
        view = memory.view(asked, now, tools=conversation.tools)
        found = find(question.literal, view, conversation.messages)
        tokens = f"{view.usage.input_tokens:,} tokens"
        table.add_row(question.ask, found.where, marked(found.line, question.literal), tokens)
    console.print(table)


def find(literal: str, view: View, transcript: Sequence[BaseMessage]) -> Found:
    """Return where a literal stands: said itself, else summarized, else in the transcript."""
    places = [
        Found(part_of(message, line, transcript), line)
        for message in view.messages
        for line in lines_with(literal, message)
    ]
    places.sort(key=lambda found: found.where in {"system", "running summary"})
    places = places or [
        Found(f"transcript only ({message.id})", line)
        for message in transcript
        for line in lines_with(literal, message)
    ]
    return places[0] if places else Found("nowhere", literal)


def lines_with(literal: str, message: BaseMessage) -> list[str]:
    """Return the lines of a message that hold a literal."""
    lines = message.text.splitlines()
    return [line.strip() for line in lines if literal.casefold() in line.casefold()]


def part_of(message: BaseMessage, line: str, transcript: Sequence[BaseMessage]) -> str:
    """Name the part of the view that a line of a message stands in."""
    first = next(one for one in transcript if isinstance(one, HumanMessage))
    if message.type == "system":
        return "system"
    if message.id != first.id:
        return f"tail ({message.id})"
    return "pinned first request" if line in first.text else "running summary"


def marked(line: str, literal: str) -> Text:
    """Return the line around the literal, with the literal marked."""
    start = line.casefold().find(literal.casefold())
    begin = max(0, start - CUT // 2)
    text = Text(("... " if begin else "") + line[begin : begin + 2 * CUT])
    text.highlight_words([literal], "bold green", case_sensitive=False)
    return text


def show_view(
    console: Console,
    conversation: RecordedConversation,
    memory: TokenMemory,
    state: MemoryState | None,
) -> None:
    """Print the request of the recording's last call, part by part."""
    newest = max(
        place for place, one in enumerate(conversation.messages) if isinstance(one, AIMessage)
    )
    view = memory.view(conversation.messages[:newest], state, tools=conversation.tools)
    usage = view.usage
    console.rule("[bold]3. The request that a model gets, part by part")
    console.print(
        f"\n{len(view.messages)} messages, {usage.input_tokens:,} tokens: {usage.percent_used} % "
        f"of the window, limit {usage.max_tokens:,}; {usage.parts['reserved_output']:,} tokens are "
        f"kept free for the answer.\n"
    )
    for part, tokens in usage.parts.items():
        if tokens and part != "reserved_output":
            bar = "█" * max(1, round(50 * tokens / usage.max_tokens))
            console.print(f"  {part:<14}{tokens:>7,}  [cyan]{bar}[/cyan]")
    console.print()
    for message in view.messages:
        show_message(console, message, memory.count([message]).tokens)


def show_notes(console: Console, conversation: RecordedConversation) -> None:
    """Print what the mode "code" has kept of the session when the user comes back."""
    console.rule("[bold]4. What the session was about: files, commands, errors")
    memory = TokenMemory(TokenBudget(context_window=WINDOW), mode="code")
    asked = [*conversation.messages, HumanMessage("How far are we?", id="later")]
    _, view = memory.compact_and_view(
        asked, remembered(conversation, memory), tools=conversation.tools
    )
    tokens = view.usage.parts["notes"]
    console.print(
        f'\nWith mode="code" the files and errors survive every fold: {tokens:,} tokens of notes,'
        f"\nread from the messages by rules, in front of the newest question.\n"
    )
    notes = [message.text for message in view.messages if "<working_notes " in message.text]
    console.print(Text("\n\n".join(notes)), soft_wrap=True)


def show_message(console: Console, message: BaseMessage, tokens: int) -> None:
    """Print one message: system text and first request whole, the others on a line."""
    if message.type == "system" or SUMMARY in message.text:
        log = ", with the running summary behind it" if SUMMARY in message.text else ""
        title = f"{message.type}{log}: {tokens:,} tokens"
        whole = "\n\n".join(str(block.get("text", "")) for block in message.content_blocks)
        console.print(Panel(Text(whole), title=title, title_align="left"))
        return
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    named = ", ".join(
        f"{call['name']}({', '.join(map(repr, call['args'].values()))})" for call in calls
    )
    said = " ".join(message.text.split())
    line = " -> ".join(filter(None, [said, " ".join(named.split())]))
    shown = line if len(line) <= CUT else f"{line[:CUT]} ..."
    text = Text(f"  {message.id or '':<5}{message.type:<7}{tokens:>6,}  ", style="dim")
    console.print(text.append(shown, style="not dim"), soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
