"""Totals of replayed conversations, and their tables for a terminal."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from langchain_tokenmem.cli.replay import ConversationReport
from langchain_tokenmem.core.budget import TokenBudget


class ReplayTotals:
    """The figures of many calls: of one conversation, or of all.

    Args:
        reports: The conversations that are added up.

    Attributes:
        conversations: Conversations played to their end.
        refused: Conversations that were not played: their fixed parts exceed the limit.
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
        covering: Number of calls with a coverage.
        far: The same for the literals outside the newest part of the window.
        having_far: Number of calls with a far coverage.
        fresh_whole: Calls with all new tool results uncut, out of `with_results`.
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
    names = ("calls", "largest", "over", "illegal", "cuts", "sums", "saved", "price")
    columns = [Column(name, justify="right", no_wrap=True) for name in names]
    first = Column("name", overflow="fold", min_width=8)
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


def _zero(count: int) -> Text:
    """Return a count that must be zero, coloured by whether it is."""
    return Text(f"{count:,}", style="red" if count else "green")
