"""Replay of recorded conversations through the memory: every call measured, and reported.

Before every recorded answer of the model there was one model call, with everything before it;
replay asks the memory for the request of that call and looks at it from outside.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from rich.table import Column, Table

from langchain_tokenmem.adapters.importing import sessions_in_file
from langchain_tokenmem.cli.audit import audit, is_system
from langchain_tokenmem.cli.measures import (
    MessageTexts,
    ReferenceCounter,
    are_whole,
    far_literals,
    held_literals,
    needed_literals,
    price,
    reference_counter,
    sent_again,
)
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.shortening import apply_cut
from langchain_tokenmem.errors import BudgetExceededError, ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import Cut, MemoryState, new_state


@dataclass(frozen=True)
class RecordedConversation:
    """One recorded conversation.

    Attributes:
        name: The recording's own id, or its place in the file.
        messages: The messages, oldest first; ids `m0`, `m1`, ... by place.
        tools: Tool schemas of every request, in OpenAI's format.
    """

    name: str
    messages: tuple[BaseMessage, ...]
    tools: tuple[dict[str, Any], ...] = ()


def load_conversations(path: Path) -> list[RecordedConversation]:
    """Read every conversation of a file that `tokenmem import` reads, except an export.

    Args:
        path: JSON Lines, or one JSON value.

    Raises:
        HistoryImportError: When it contains something else; the error names the place.
        OSError: When it cannot be read.

    Example:
        >>> load_conversations(Path("examples/recorded_agent.jsonl"))[0].name  # doctest: +SKIP
        'recorded-agent'
    """
    found = []
    for number, session in enumerate(sessions_in_file(path), 1):
        if session.lines is not None:
            raise ConfigurationError(f"{path} is an export; replay plays messages.")
        name = session.name or f"conversation {number}"
        messages = numbered(one.message for one in session.messages)
        if not messages:
            raise ConfigurationError(f"{path}: {name} has no messages.")
        found.append(RecordedConversation(name, messages, session.tools))
    return found


def numbered(messages: Iterable[BaseMessage]) -> tuple[BaseMessage, ...]:
    """Return messages with ids `m0`, `m1`, ... by place, without what only their source needs."""
    return tuple(
        message.model_copy(update={"id": f"m{place}", "additional_kwargs": {}})
        for place, message in enumerate(messages)
    )


@dataclass(frozen=True)
class CallReport:
    """One model call.

    Attributes:
        place: Place in the recording of the answer that the call gave.
        tokens: Tokens of the request, counted outside.
        limit: Maximum tokens that the memory promised.
        whole: Tokens of the request if everything had been sent.
        cached: Tokens at the request's beginning that the previous request also began with.
        cacheable: The same, if everything had been sent every time.
        price: Price under prompt caching, in tokens at full price; see `cli.measures`.
        whole_price: The same, if everything had been sent every time.
        new: Tokens of the messages since the previous request.
        sent_again: Tokens at full price that are not new.
        coverage: Share of the recorded answer's literals that the request holds; None without any.
            See `cli.measures`.
        far: The same for those outside the newest part of the window.
        fresh_whole: Whether all new tool results are uncut; None without any.
        keeps_prefix: Whether the request begins with all of the previous one.
        declared: Whether the memory's state says that bytes sent before have changed.
        compacted: Whether messages were shortened before this call.
        summarized: Whether the running summary was written before this call.
        fill: Tokens, as a share of the window, that the summary of this call started from.
        seconds: The memory's own time, compacting and viewing.
        faults: Faults that the audit found.
        warnings: Warnings of the memory itself.
    """

    place: int
    tokens: int
    limit: int
    whole: int
    cached: int
    cacheable: int
    price: float
    whole_price: float
    new: int
    sent_again: int
    coverage: float | None
    far: float | None
    fresh_whole: bool | None
    keeps_prefix: bool
    declared: bool
    compacted: bool
    summarized: bool
    fill: float | None
    seconds: float
    faults: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ConversationReport:
    """One conversation, played from its beginning to its end.

    Attributes:
        name: Name of the conversation.
        messages: How many messages the recording has.
        window: Tokens that a request may have, answer included.
        calls: Every model call, in order.
        verbatim: Messages of the recording that are unchanged in the last request.
        shown: Messages of the recording before the last request.
        new_tokens: Tokens of all messages before the last request, counted once.
        allowance: Changes of the prefix that the promise allows.
        fixed_tokens: Tokens of system messages and tools, which no memory can shrink.
        budget_exceeded: The memory's error if the fixed parts exceeded its limit.
    """

    name: str
    messages: int
    window: int
    calls: tuple[CallReport, ...]
    verbatim: int
    shown: int
    new_tokens: int
    allowance: float
    fixed_tokens: int
    budget_exceeded: str | None = None

    @property
    def faults(self) -> list[str]:
        """Faults of all calls, each with its place in the recording."""
        return [
            f"before m{call.place}: {fault}" for call in self.calls for fault in _faults_of(call)
        ]

    @property
    def prefix_changes(self) -> int:
        """Number of requests that did not begin with all of the previous one."""
        return sum(not call.keeps_prefix for call in self.calls)


def _faults_of(call: CallReport) -> list[str]:
    over = f"{call.tokens} tokens, limit {call.limit}"
    return [*call.faults, *([over] if call.tokens > call.limit else [])]


def replay_conversation(
    messages: Sequence[BaseMessage],
    *,
    memory: TokenMemory,
    counter: ReferenceCounter | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    name: str = "conversation",
) -> ConversationReport:
    """Play one conversation through a memory.

    Args:
        messages: The recording, with ids, oldest first.
        memory: The memory under test.
        counter: Counts the requests outside of the memory; give the same one again so that no text
            is counted twice. Default: an exact one for the budget's model.
        tools: Tool schemas in every request.
        name: Name of the conversation in the report.

    Returns:
        Every call, measured. For a conversation whose fixed parts exceed the limit, the calls
        before that and the memory's error.
    """
    budget = memory.budget
    counted = counter or reference_counter(budget.model)
    replay = _Replay(memory, counted, tuple(tools or ()), MessageTexts(counted))
    budget_exceeded: str | None = None
    try:
        for place in lengths_at_calls(messages):
            replay.call(messages[:place], messages[place])
    except BudgetExceededError as error:
        budget_exceeded = str(error)
    new = replay.counter.messages(replay.history)
    sent = {replay.texts.sent(message) for message in replay.request}
    return ConversationReport(
        name=name,
        messages=len(messages),
        window=budget.context_window,
        calls=tuple(replay.calls),
        verbatim=sum(replay.texts.sent(message) in sent for message in replay.history),
        shown=len(replay.history),
        new_tokens=new,
        allowance=allowance(new, budget),
        fixed_tokens=replay.counter.request(filter(is_system, messages), replay.tools),
        budget_exceeded=budget_exceeded,
    )


def lengths_at_calls(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the lengths of the history at each recorded model call."""
    first = next((n for n, m in enumerate(messages) if not is_system(m)), 0)
    return [n for n, m in enumerate(messages) if n > first and isinstance(m, AIMessage)]


def allowance(new_tokens: int, budget: TokenBudget) -> float:
    """Return how many changes of the prefix the promise allows for so many new tokens.

    One, and one more for every half of the room between `target` and `summarize_at` that was
    filled: each change must gain at least half of what it could.
    """
    room = (budget.summarize_at - budget.target) * budget.context_window
    return 1 + new_tokens / (0.5 * room)


@dataclass
class _Replay:
    """A conversation that is being played, with the values carried from one call to the next."""

    memory: TokenMemory
    counter: ReferenceCounter
    tools: Sequence[Mapping[str, Any]]
    texts: MessageTexts
    state: MemoryState = field(default_factory=new_state)
    request: Sequence[BaseMessage] = ()
    history: Sequence[BaseMessage] = ()
    calls: list[CallReport] = field(default_factory=list)

    def call(self, history: Sequence[BaseMessage], action: BaseMessage) -> None:
        """Ask the memory for the request of one model call, and measure it.

        Args:
            history: The messages so far.
            action: What the model answered in the recording.
        """
        counter, tools, former = self.counter, self.tools, self.state
        options: RequestOptions = {"tools": list(tools)} if tools else {}
        started = time.perf_counter()
        state = self.memory.compact(history, former, **options)
        view = self.memory.view(history, state, **options)
        seconds = time.perf_counter() - started
        summarized = state["summary"] != former["summary"]
        old, new = former["cuts"], state["cuts"]
        changed_cuts = {key for key in old | new if old.get(key) != new.get(key)}
        call = CallReport(
            place=len(history),
            tokens=counter.request(view.messages, tools),
            limit=view.usage.max_tokens,
            whole=counter.request(history, tools),
            **self._priced(history, view.messages),
            **self._known(history, view.messages, action),
            keeps_prefix=self.texts.shared(self.request, view.messages)[2],
            declared=summarized or any(message.id in changed_cuts for message in self.history),
            compacted=not changed_cuts.isdisjoint(new),
            summarized=summarized,
            fill=self._fill(history, old) if summarized and not former["summary"] else None,
            seconds=seconds,
            faults=tuple(audit(history, view.messages)),
            warnings=tuple(view.warnings),
        )
        self.calls.append(call)
        self.state, self.request, self.history = state, view.messages, history

    def _with_tools(self, tokens: int) -> int:
        """Add the tool schemas, which come first: cached as soon as anything is."""
        return tokens + self.counter.tools(self.tools) if tokens else 0

    def _priced(
        self, history: Sequence[BaseMessage], request: Sequence[BaseMessage]
    ) -> dict[str, Any]:
        """Return what the request costs, as fields of the report."""
        texts, tools = self.texts, self.counter.tools(self.tools)
        tokens, whole = texts.tokens(request) + tools, texts.tokens(history) + tools
        cached = self._with_tools(texts.shared(self.request, request)[0])
        cacheable = self._with_tools(texts.tokens(self.history))
        new = whole - cacheable
        return {
            "cached": cached,
            "cacheable": cacheable,
            "price": price(tokens, cached),
            "whole_price": price(whole, cacheable),
            "new": new,
            "sent_again": sent_again(tokens, cached, new),
        }

    def _known(
        self,
        history: Sequence[BaseMessage],
        request: Sequence[BaseMessage],
        action: BaseMessage,
    ) -> dict[str, Any]:
        """Return what the request contains for its answer, as fields of the report."""
        texts, window = self.texts, self.memory.budget.context_window
        needed = needed_literals(texts, history, action)
        is_over = self.counter.request(request, self.tools) > window
        held = set(() if is_over else held_literals(texts, request, needed))
        far = far_literals(texts, history, needed, window)
        fresh = [m for m in history[len(self.history) :] if isinstance(m, ToolMessage)]
        return {
            "coverage": len(held) / len(needed) if needed else None,
            "far": sum(one in held for one in far) / len(far) if far else None,
            "fresh_whole": are_whole(fresh, request) if fresh else None,
        }

    def _fill(self, history: Sequence[BaseMessage], cuts: Mapping[Any, Cut]) -> float:
        """Return how full the window would have been without the conversation's first summary.

        All messages, with the cuts that were made before. A later summary starts from an earlier
        one, which is not measured here.
        """
        shown = [apply_cut(one, cuts[one.id]) if one.id in cuts else one for one in history]
        return self.counter.request(shown, self.tools) / self.memory.budget.context_window


class ReplayTotals:
    """The figures of many calls: of one conversation, or of all.

    Args:
        reports: The conversations that are added up.

    Attributes:
        conversations: Conversations played to their end.
        refused: Conversations whose fixed parts exceed the limit; counted separately.
        calls: Model calls.
        largest: Tokens of the largest request.
        over_window: Requests over the window.
        over_limit: Requests over the limit that the memory promised.
        illegal: Requests in which the audit found a fault.
        compactions: Calls before which messages were shortened.
        summaries: Calls before which the running summary was written.
        verbatim: Messages that were unchanged in the last requests.
        shown: Messages before the last requests.
        sent: Tokens of all requests.
        whole: Tokens of all requests if everything had been sent.
        pairs: Requests that followed another one without a declared change of the prefix.
        stable: Of those, the ones that began byte for byte with the previous request.
        changes: Requests that did not begin with the previous one.
        allowed: Changes that the promise allows, per conversation, added up.
        over_allowance: Conversations with more changes than allowed.
        cached: Tokens that a prompt cache could have given.
        cacheable: The same, if everything had been sent every time.
        price: Price of all requests under prompt caching, relative to sending everything.
        sent_again: Tokens at full price that are not new, as a share of the new ones.
        coverage: Mean share of the literals of a recorded answer that its request held.
        covering: Calls whose answers have such literals.
        far: The same for the literals outside the newest part of the window.
        having_far: Calls whose answers have those.
        fresh_whole: Calls whose new tool results were all uncut, of `with_results`.
        fill: Median share of the window in use when a conversation's first summary was written.
        microseconds: The memory's own time for a call, on average.
        warnings: Warnings that the memory itself gave.
    """

    def __init__(self, reports: Sequence[ConversationReport]) -> None:
        calls = [call for report in reports for call in report.calls]
        pairs = [call for one in reports for call in one.calls[1:] if not call.declared]
        covered = [call.coverage for call in calls if call.coverage is not None]
        far = [call.far for call in calls if call.far is not None]
        fresh = [call.fresh_whole for call in calls if call.fresh_whole is not None]
        fills = [call.fill for call in calls if call.fill is not None]
        self.conversations = sum(report.budget_exceeded is None for report in reports)
        self.refused = len(reports) - self.conversations
        self.calls = len(calls)
        self.largest = max((call.tokens for call in calls), default=0)
        self.over_window = sum(call.tokens > one.window for one in reports for call in one.calls)
        self.over_limit = sum(call.tokens > call.limit for call in calls)
        self.illegal = sum(bool(call.faults) for call in calls)
        self.compactions = sum(call.compacted for call in calls)
        self.summaries = sum(call.summarized for call in calls)
        self.verbatim = sum(report.verbatim for report in reports)
        self.shown = sum(report.shown for report in reports)
        self.sent = sum(call.tokens for call in calls)
        self.whole = sum(call.whole for call in calls)
        self.pairs = len(pairs)
        self.stable = sum(call.keeps_prefix for call in pairs)
        self.changes = sum(report.prefix_changes for report in reports)
        self.allowed = sum(report.allowance for report in reports)
        self.over_allowance = sum(one.prefix_changes > one.allowance for one in reports)
        self.cached = sum(call.cached for call in calls)
        self.cacheable = sum(call.cacheable for call in calls)
        self.price = _part(sum(one.price for one in calls), sum(one.whole_price for one in calls))
        self.sent_again = _part(sum(one.sent_again for one in calls), sum(one.new for one in calls))
        self.coverage, self.covering = _part(sum(covered), len(covered)), len(covered)
        self.far, self.having_far = _part(sum(far), len(far)), len(far)
        self.fresh_whole, self.with_results = sum(fresh), len(fresh)
        self.fill = statistics.median(fills) if fills else None
        seconds = sum(call.seconds for call in calls)
        self.microseconds = 1e6 * seconds / len(calls) if calls else 0.0
        self.warnings = sum(len(call.warnings) for call in calls)

    @property
    def failed(self) -> bool:
        """True if a promise was broken: a request was over its limit, or illegal."""
        return bool(self.over_window or self.over_limit or self.illegal)


def summary_table(found: ReplayTotals, budget: TokenBudget, *, limit: int) -> Table:
    """Return the totals as a table for a terminal.

    Args:
        found: The numbers.
        budget: What was played against.
        limit: The limit that the memory itself named, in tokens.
    """
    window = budget.context_window
    columns = (Column(style="dim", no_wrap=True), Column(justify="right"), Column())
    table = Table(*columns, title=f"Window {window:,} tokens, limit {limit:,}", box=None)
    refused = f"{found.refused} more: fixed parts over the limit" if found.refused else ""
    fill = f"the first ones at {100 * (found.fill or 0):.0f} % of the window (median; "
    fill += f"asked {100 * budget.summarize_at:.0f} %)"
    saved = found.whole - found.sent
    ceiling = f"ceiling without any compaction {_share(found.cacheable, found.whole)}"
    stable = f"{found.stable:,} of {found.pairs:,} pairs without a declared change"
    allowance = f"allowance {found.allowed:,.1f}; {found.over_allowance} conversations over theirs"
    outside = "counted outside of the memory"
    needed = f"literals that answers need, in {found.covering:,} calls"
    far = f"those said long before, in {found.having_far:,} calls"
    fresh = f"{found.fresh_whole:,} of {found.with_results:,} calls with new results"
    for row in (
        ("conversations", f"{found.conversations:,}", refused),
        ("model calls", f"{found.calls:,}"),
        ("largest request", f"{found.largest:,}", f"{_share(found.largest, window)} of the window"),
        ("over the window", _zero(found.over_window), outside),
        ("over the limit", _zero(found.over_limit), f"{outside}, tools included"),
        ("illegal requests", _zero(found.illegal), "pairing, order, ids, newest and first request"),
        ("compactions", f"{found.compactions:,}", "messages shortened, no model call"),
        ("summaries", f"{found.summaries:,}", "" if found.fill is None else fill),
        ("kept verbatim", f"{found.verbatim:,}", f"of {found.shown:,} messages, at the end"),
        ("tokens saved", f"{saved:,}", f"{_share(saved, found.whole)} of {found.whole:,}"),
        ("prefix kept", _share(found.stable, found.pairs), stable),
        ("prefix changes", f"{found.changes:,}", allowance),
        ("cacheable input", _share(found.cached, found.sent), ceiling),
        ("price", _ratio(found.price), "with prompt caching; sending everything: 1"),
        ("sent again", _ratio(found.sent_again), "tokens at full price, per new one"),
        ("coverage", _share(found.coverage or 0, found.covering and 1), needed),
        ("far coverage", _share(found.far or 0, found.having_far and 1), far),
        ("fresh results whole", _share(found.fresh_whole, found.with_results), fresh),
        ("time a call", f"{found.microseconds:,.0f} µs", "the memory's own, on average"),
        ("warnings", f"{found.warnings:,}", "given by the memory with its views"),
    ):
        table.add_row(*row)
    return table


def conversation_table(reports: Sequence[ConversationReport]) -> Table:
    """Return one row per conversation."""
    names = ("calls", "largest", "over", "illegal", "cuts", "sums", "saved", "price", "µs")
    columns = [Column(name, justify="right", no_wrap=True) for name in names]
    first = Column("conversation", overflow="fold", min_width=18)
    table = Table(first, *columns, box=None, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for report in reports:
        found = ReplayTotals([report])
        table.add_row(
            report.name,
            "refused" if report.budget_exceeded else f"{found.calls}",
            f"{found.largest:,}",
            _zero(found.over_window + found.over_limit),
            _zero(found.illegal),
            f"{found.compactions}",
            f"{found.summaries}",
            _share(found.whole - found.sent, found.whole),
            _ratio(found.price),
            f"{found.microseconds:,.0f}",
        )
    return table


def as_json(report: ConversationReport) -> dict[str, Any]:
    """Return a conversation's report as plain JSON: its totals, its calls, its faults."""
    return {
        **dataclasses.asdict(report),
        "faults": report.faults,
        "totals": vars(ReplayTotals([report])),
    }


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _part(part: float, of: float) -> float | None:
    return part / of if of else None


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _zero(count: int) -> str:
    """Return a count that must be zero, coloured by whether it is."""
    return f"[red]{count:,}[/red]" if count else "[green]0[/green]"
