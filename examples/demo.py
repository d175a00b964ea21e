"""Program of `make demo`: one recorded agent in a small window, three times, on one screen.

The recording is of a real agent at work on this repository (`examples/record_agent.py` made it).
Each of its model calls is asked for again: with the history as it is, with LangChain's
SummarizationMiddleware, and with this package. Requests are counted outside of all three, tools
included. No model answers here: where LangChain's middleware wants a summary, a stand-in cites the
lines with the most names and numbers, up to 300 tokens.

Run: python examples/demo.py [--verbose]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import SimpleChatModel
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage
from pydantic import Field
from rich.console import Console
from rich.table import Table

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.cli.measures import (
    MessageTexts,
    ReferenceCounter,
    find_literals,
    price,
    reference_counter,
)
from langchain_tokenmem.cli.page import session_page
from langchain_tokenmem.cli.replay import (
    RecordedConversation,
    lengths_at_calls,
    load_conversations,
)
from langchain_tokenmem.cli.stored_sessions import opened

RECORDING = Path(__file__).parent / "recorded_agent.jsonl"
REPORT = Path(__file__).parents[1] / "demo" / "report.html"
WINDOW = 4_000
"""Small on purpose: the recording is several times as large."""

QUESTIONS = {
    "Which ticket is this work for?": "TM-214",
    "Why is reserve_output 1,200?": "no answer of our support bot",
    "Which test file was not there?": "tests/test_layer.py",
}
"""Questions about the first hour, each with words by which its answer is recognised."""

Ask = Callable[[Sequence[BaseMessage]], Sequence[BaseMessage]]
"""Returns the request for the history so far."""


class CitingModel(SimpleChatModel):
    """Stands for a summarizing model: cites the lines with the most names and numbers."""

    counter: Any
    costs: list[int] = Field(default_factory=list)
    """Of each call: tokens that it read, and five times those that it wrote."""

    @property
    def _llm_type(self) -> str:
        return "citing"

    def _call(self, messages: list[BaseMessage], *_args: Any, **_options: Any) -> str:
        lines = [line[:200] for message in messages for line in message.text.splitlines()]
        cited, left = set(), 300
        for line in sorted(dict.fromkeys(lines), key=lambda one: -len(find_literals(one))):
            left -= self.counter.text(line)
            if left < 0:
                break
            cited.add(line)
        summary = "\n".join(line for line in dict.fromkeys(lines) if line in cited)
        self.costs.append(self.counter.request(messages) + 5 * self.counter.text(summary))
        return summary


@dataclass
class Outcome:
    """What became of the calls, and which questions the last request answers."""

    requests: list[int] = field(default_factory=list)
    cost: float = 0.0
    answers: dict[str, bool] = field(default_factory=dict)
    last: Sequence[BaseMessage] = ()

    @property
    def refused(self) -> list[int]:
        """The calls, from 1, that no model takes."""
        return [call for call, tokens in enumerate(self.requests, 1) if tokens > WINDOW]


def as_it_is(history: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return all of the history."""
    return history


def langchains(model: CitingModel) -> Ask:
    """Return LangChain's middleware as an agent calls it, its system text apart.

    It keeps 30 % of the window; its default, the newest 20 messages, is refused from call 3 on.
    """
    settings: Any = {"trigger": ("tokens", 0.8 * WINDOW), "keep": ("tokens", 0.3 * WINDOW)}
    middleware: Any = SummarizationMiddleware(model, **settings)
    messages: list[BaseMessage] = []
    seen = 1

    def ask(history: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        nonlocal messages, seen
        messages, seen = [*messages, *history[seen:]], len(history)
        if update := middleware.before_model({"messages": messages}, None):
            messages = [one for one in update["messages"] if not isinstance(one, RemoveMessage)]
        return [history[0], *messages]

    return ask


def ours(memory: TokenMemory, tools: Sequence[dict[str, Any]]) -> Ask:
    """Return this package's memory; this loop is all that an agent has to do."""
    state = None

    def ask(history: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        nonlocal state
        state, view = memory.compact_and_view(history, state, tools=tools)
        return view.messages

    return ask


def played(
    conversation: RecordedConversation, ask: Ask, counter: ReferenceCounter, model: CitingModel
) -> Outcome:
    """Ask for every call of the recording, then the questions."""
    texts, outcome = MessageTexts(counter), Outcome()
    tools = counter.tools(conversation.tools)
    for place in lengths_at_calls(conversation.messages):
        before = outcome.last
        outcome.last = ask(conversation.messages[:place])
        tokens = counter.request(outcome.last) + tools
        outcome.requests.append(tokens)
        shared = texts.shared(before, outcome.last)[0] + tools * bool(before)
        outcome.cost += price(tokens, min(shared, tokens))
    outcome.cost += sum(model.costs)
    history = [*conversation.messages]
    for question, words in QUESTIONS.items():
        history.append(HumanMessage(question, id=f"question-{len(history)}"))
        request = ask(history)
        fits = counter.request(request) + tools <= WINDOW
        outcome.answers[question] = fits and any(words in one.text for one in request[:-1])
    return outcome


def screen(outcomes: dict[str, Outcome]) -> Table:
    """Return the table that the demo is about."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(f"A window of {WINDOW:,} tokens")
    for name in outcomes:
        table.add_column(name, justify="right")

    def row(name: str, value: Callable[[Outcome], str]) -> None:
        table.add_row(name, *map(value, outcomes.values()))

    row("calls that the model takes", lambda o: f"{len(o.requests) - len(o.refused)}")
    row("calls refused as too long", lambda o: f"{len(o.refused)}")
    row("the first at call", lambda o: f"{o.refused[0]}" if o.refused else "-")
    row("largest request, tokens", lambda o: f"{max(o.requests):,}")
    row("tokens sent", lambda o: f"{sum(o.requests):,}")
    row("price, of sending everything", lambda o: f"{o.cost / outcomes['as it is'].cost:.2f}")
    for question in QUESTIONS:
        answers = [outcome.answers[question] for outcome in outcomes.values()]
        table.add_row(question, *("answered" if one else "no" for one in answers))
    return table


def main(arguments: Sequence[str] = ()) -> int:
    """Show the demo; 1 if a request of this package's was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print the last request, too")
    options = parser.parse_args(arguments)
    counter, model = reference_counter(), CitingModel(counter=reference_counter())
    conversation = load_conversations(RECORDING)[0]
    idle = CitingModel(counter=counter)
    memory = ours(TokenMemory(WINDOW), conversation.tools)
    outcomes = {
        "as it is": played(conversation, as_it_is, counter, idle),
        "LangChain's, 80-30": played(conversation, langchains(model), counter, model),
        "this package": played(conversation, memory, counter, idle),
    }
    console = Console(width=100)
    calls = len(outcomes["as it is"].requests)
    console.print(
        f"A recorded agent: {len(conversation.messages)} messages, {calls} model calls.\n"
    )
    console.print(screen(outcomes))
    console.print(
        "\nPrice: a tenth for the beginning that a request shares with the one before (prompt "
        "caching),\nsummaries included. The questions are about the first hour.\nLangChain's "
        "SummarizationMiddleware is set to 80 % and 30 % of the window; its default (20 messages)\n"
        "is refused from call 3 on."
    )
    REPORT.parent.mkdir(exist_ok=True)
    with opened(str(RECORDING)) as found:
        page = session_page(found, conversation.name, WINDOW)
    REPORT.write_text(page, encoding="utf-8")
    console.print(f"Look inside:  {REPORT}\nMade from:    {RECORDING}", soft_wrap=True)
    if options.verbose:
        console.rule("The last request of this package")
        for message in outcomes["this package"].last:
            console.print(message.pretty_repr(), markup=False, highlight=False)
    else:
        console.print("The request itself: make demo ARGS=--verbose", style="dim")
    return int(bool(outcomes["this package"].refused))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
