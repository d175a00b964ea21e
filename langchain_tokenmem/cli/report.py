"""Report of a replay: totals, tables for a terminal, JSON lines for programs."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from langchain_tokenmem.cli.replay import CallReport, ConversationReport
from langchain_tokenmem.core.budget import TokenBudget


@dataclass(frozen=True)
class ReplayTotals:
    """The numbers of many calls: of one conversation, or of all.

    Attributes:
        conversations: Conversations played to their end.
        refused: Conversations whose fixed parts exceed the limit; counted apart.
        calls: Model calls.
        largest: Tokens of the largest request.
        over_window: Requests over the window.
        over_limit: Requests over the limit that the memory promised.
        illegal: Requests in which the audit found a fault.
        compactions: Calls before which messages were shortened.
        summaries: Calls before which the running summary was written.
        verbatim: Messages that stood unchanged in the last requests.
        shown: Messages said before the last requests.
        sent: Tokens of all requests.
        whole: Tokens of all requests if everything had been sent.
        pairs: Requests that followed another one without a declared change of the prefix.
        stable: Of those, the ones that began byte for byte with the former request.
        changes: Requests that did not begin with the former one.
        allowed: Changes that the promise allows, per conversation, added up.
        over_allowance: Conversations with more changes than allowed.
        cached: Tokens that a prompt cache could have given.
        cacheable: The same, if everything had been sent every time.
        fill: Median share of the window in use when a conversation's first summary was written.
        microseconds: The memory's own time for a call, on average.
        warnings: Warnings that the memory itself gave.
    """

    conversations: int
    refused: int
    calls: int
    largest: int
    over_window: int
    over_limit: int
    illegal: int
    compactions: int
    summaries: int
    verbatim: int
    shown: int
    sent: int
    whole: int
    pairs: int
    stable: int
    changes: int
    allowed: float
    over_allowance: int
    cached: int
    cacheable: int
    fill: float | None
    microseconds: float
    warnings: int

    @property
    def failed(self) -> bool:
        """True where a promise was broken: a request was over its limit, or illegal."""
        return bool(self.over_window or self.over_limit or self.illegal)


def totals(reports: Iterable[ConversationReport]) -> ReplayTotals:
    """Add up conversations."""
    every = list(reports)
    calls = [call for report in every for call in report.calls]
    followed = [call for report in every for call in report.calls[1:]]
    pairs = [call for call in followed if not call.declared]
    fills = [call.fill for call in calls if call.fill is not None]
    seconds = [call.seconds for call in calls]
    return ReplayTotals(
        conversations=sum(report.budget_exceeded is None for report in every),
        refused=sum(report.budget_exceeded is not None for report in every),
        calls=len(calls),
        largest=max((call.tokens for call in calls), default=0),
        over_window=sum(call.tokens > report.window for report in every for call in report.calls),
        over_limit=sum(call.tokens > call.limit for call in calls),
        illegal=sum(bool(call.faults) for call in calls),
        compactions=sum(call.compacted for call in calls),
        summaries=sum(call.summarized for call in calls),
        verbatim=sum(report.verbatim for report in every),
        shown=sum(report.shown for report in every),
        sent=sum(call.tokens for call in calls),
        whole=sum(call.whole for call in calls),
        pairs=len(pairs),
        stable=sum(call.keeps_prefix for call in pairs),
        changes=sum(report.prefix_changes for report in every),
        allowed=sum(report.allowance for report in every),
        over_allowance=sum(report.prefix_changes > report.allowance for report in every),
        cached=sum(call.cached for call in calls),
        cacheable=sum(call.cacheable for call in calls),
        fill=statistics.median(fills) if fills else None,
        microseconds=1e6 * statistics.mean(seconds) if seconds else 0.0,
        warnings=sum(len(call.warnings) for call in calls),
    )


def summary_table(found: ReplayTotals, budget: TokenBudget, *, limit: int) -> Table:
    """Return the totals as a table for a terminal.

    Args:
        found: The numbers.
        budget: What was played against.
        limit: The limit that the memory itself named, in tokens.
    """
    table = Table(title=f"Window {budget.context_window:,} tokens, limit {limit:,}", box=None)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right")
    table.add_column()
    for label, value, remark in _rows(found, budget):
        table.add_row(label, value, remark)
    return table


def _rows(found: ReplayTotals, budget: TokenBudget) -> list[tuple[str, str, str]]:
    window = budget.context_window
    refused = f"{found.refused} more: fixed parts over the limit" if found.refused else ""
    return [
        ("conversations", f"{found.conversations:,}", refused),
        ("model calls", f"{found.calls:,}", ""),
        ("largest request", f"{found.largest:,}", f"{_share(found.largest, window)} of the window"),
        ("over the window", _zero(found.over_window), "counted outside of the memory"),
        (
            "over the limit",
            _zero(found.over_limit),
            "counted outside of the memory, tools included",
        ),
        ("illegal requests", _zero(found.illegal), "pairing, order, ids, newest and first request"),
        ("compactions", f"{found.compactions:,}", "messages shortened, no model call"),
        ("summaries", f"{found.summaries:,}", _fill_remark(found, budget)),
        ("kept verbatim", f"{found.verbatim:,}", f"of {found.shown:,} messages, at the end"),
        (
            "tokens saved",
            f"{found.whole - found.sent:,}",
            f"{_share(found.whole - found.sent, found.whole)} of {found.whole:,}",
        ),
        (
            "prefix kept",
            _share(found.stable, found.pairs) if found.pairs else "-",
            f"{found.stable:,} of {found.pairs:,} pairs without a declared change",
        ),
        (
            "prefix changes",
            f"{found.changes:,}",
            f"allowance {found.allowed:,.1f}; {found.over_allowance} conversations over theirs",
        ),
        (
            "cacheable input",
            _share(found.cached, found.sent),
            f"ceiling without any compaction {_share(found.cacheable, found.whole)}",
        ),
        ("time a call", f"{found.microseconds:,.0f} µs", "the memory's own, on average"),
        ("warnings", f"{found.warnings:,}", "given by the memory with its views"),
    ]


def conversation_table(reports: Sequence[ConversationReport]) -> Table:
    """Return one row per conversation."""
    table = Table(box=None)
    table.add_column("conversation", overflow="fold", min_width=18)
    names = ("calls", "largest", "over", "illegal", "cuts", "sums", "saved", "µs")
    for column in names:
        table.add_column(column, justify="right", no_wrap=True)
    for report in reports:
        found = totals([report])
        table.add_row(
            report.name,
            "refused" if report.budget_exceeded else f"{found.calls}",
            f"{found.largest:,}",
            _zero(found.over_window + found.over_limit),
            _zero(found.illegal),
            f"{found.compactions}",
            f"{found.summaries}",
            _share(found.whole - found.sent, found.whole),
            f"{found.microseconds:,.0f}",
        )
    return table


def as_json(report: ConversationReport) -> dict[str, Any]:
    """Return a conversation's report as plain JSON: its totals, its calls, its faults."""
    return {
        "name": report.name,
        "messages": report.messages,
        "window": report.window,
        "allowance": round(report.allowance, 3),
        "fixed_tokens": report.fixed_tokens,
        "new_tokens": report.new_tokens,
        "budget_exceeded": report.budget_exceeded,
        "faults": report.faults,
        "totals": dataclasses.asdict(totals([report])),
        "calls": [_call_as_json(call) for call in report.calls],
    }


def _call_as_json(call: CallReport) -> dict[str, Any]:
    return {**dataclasses.asdict(call), "seconds": round(call.seconds, 6)}


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _zero(count: int) -> str:
    """Return a count that has to be zero, coloured by whether it is."""
    return f"[red]{count:,}[/red]" if count else "[green]0[/green]"


def _fill_remark(found: ReplayTotals, budget: TokenBudget) -> str:
    if found.fill is None:
        return ""
    asked = 100 * budget.summarize_at
    return f"the first ones at {100 * found.fill:.0f} % of the window (median; asked {asked:.0f} %)"
