"""Compaction: the generator that carries out a plan, from a memory state to the next one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.planning import Plan, Steps, plan
from langchain_tokenmem.core.size_caps import cap_messages, request_tokens
from langchain_tokenmem.core.trigger import SummaryPolicy
from langchain_tokenmem.errors import SummaryError
from langchain_tokenmem.events import CompactCallbacks, CompactEvent, notify
from langchain_tokenmem.memory.drivers import Work
from langchain_tokenmem.state import MemoryState, RunningSummary, Totals
from langchain_tokenmem.summarize.base import Summarizer, Summary, SummaryRequest

_MOST_SUMMARIES = 3
"""Summaries of one compaction; the second and third only where the request is still over the
limit after the one before, which planning rules out as far as counts add up."""


@dataclass(frozen=True)
class CompactionSettings:
    """Settings of one compaction.

    Attributes:
        policy: When a summary is due.
        summarizer: Writes it.
        callbacks: Are told of every change.
        now: Gives the time of a summary, in UTC.
        count_text: Counts the tokens of a text.
        warn: Takes what the log should say once.
        force: Fold everything but the recent share.
        steps: Which steps may be taken.
        instruction: What this one summary should pay attention to.
    """

    policy: SummaryPolicy
    summarizer: Summarizer
    callbacks: Sequence[CompactCallbacks]
    now: Callable[[], datetime]
    count_text: Callable[[str], int]
    warn: Callable[[str], None]
    force: bool = False
    steps: Steps = "all"
    instruction: str | None = None


def compaction(
    context: ContextParts,
    budget: TokenBudget,
    state: MemoryState,
    settings: CompactionSettings,
) -> Work[MemoryState]:
    """Do what the plan asks for, and return the new state; as it is where nothing was due."""
    for _ in range(_MOST_SUMMARIES):
        context, planned = make_plan(context, budget, settings)
        for warning in planned.warnings:
            settings.warn(warning)
        if not planned.fold:
            return _with_cuts_applied(context, state, planned, settings)
        state = yield from _with_summary(context, state, planned, settings)
        context = replace(
            context.with_folded(planned.fold), summary=state["summary"], cuts=state["cuts"]
        )
        if request_tokens(context) <= budget.limit:
            return state
        settings = replace(settings, force=False)
    return state


def make_plan(
    context: ContextParts,
    budget: TokenBudget,
    settings: CompactionSettings,
) -> tuple[ContextParts, Plan]:
    """Return the context with nothing in it over its share, and the plan for it."""
    context = cap_messages(context, budget)
    planned = plan(
        context, budget, force=settings.force, policy=settings.policy, steps=settings.steps
    )
    return context, _without_small_summary(context, planned, settings.summarizer)


def _without_small_summary(context: ContextParts, planned: Plan, summarizer: Summarizer) -> Plan:
    """Return the plan, without its summary where the summarizer waits for more to say."""
    if planned.reason != "summarize_at" or summarizer.wants(_messages_to_fold(context, planned)):
        return planned
    return replace(planned, reason=None, fold=0, cuts=context.cuts, after=planned.before)


def _kept_ids(context: ContextParts, planned: Plan) -> list[str]:
    """Return the covered messages that stay visible; a store reads nothing else of them."""
    groups = context.kept
    same = [message.id or "" for group in groups for message in group.source.messages]
    return [*context.system_ids, *(same if planned.kept is None else planned.kept)]


def _with_cuts_applied(
    context: ContextParts, state: MemoryState, planned: Plan, settings: CompactionSettings
) -> MemoryState:
    """Return the state with the plan's cuts; only a change of what was sent is an event."""
    if planned.reason is None:
        return _with_cuts(state, planned.cuts)
    ids = tuple(key for key in planned.cuts if key not in state["cuts"])
    event = CompactEvent("compaction", planned.reason, planned.before, planned.after, ids)
    notify(settings.callbacks, "start", event)
    notify(settings.callbacks, "end", event)
    totals: Totals = {**state["totals"], "compactions": state["totals"]["compactions"] + 1}
    return {
        **state,
        "cuts": dict(planned.cuts),
        "kept": _kept_ids(context, planned),
        "totals": totals,
    }


def _with_cuts(state: MemoryState, cuts: object) -> MemoryState:
    if not isinstance(cuts, dict) or cuts == state["cuts"]:
        return state
    return {**state, "cuts": dict(cuts)}


def _messages_to_fold(context: ContextParts, planned: Plan) -> list[BaseMessage]:
    """Return what leaves the tail as the view has shown it; what no view shows, as it was said."""
    return [
        message
        for group in context.tail[: planned.fold]
        for message in context.shown_messages(group) or group.source.messages
    ]


def _with_summary(
    context: ContextParts,
    state: MemoryState,
    planned: Plan,
    settings: CompactionSettings,
) -> Work[MemoryState]:
    reason = planned.reason or "manual"
    batch = _messages_to_fold(context, planned)
    ids = tuple(message.id or "" for message in batch)
    event = CompactEvent("summary", reason, planned.before, planned.after, ids)
    notify(settings.callbacks, "start", event)
    started = time.perf_counter()
    summary = Summary("", "none", "none")
    if planned.summary_tokens:
        try:
            summary = (yield _summary_request(context, batch, planned, settings)) or summary
        except SummaryError as error:
            took = time.perf_counter() - started
            notify(settings.callbacks, "error", replace(event, duration_s=took, error=str(error)))
            raise
    event = replace(event, duration_s=time.perf_counter() - started)
    event = _finished_event(event, planned, summary, settings)
    if event.error:
        notify(settings.callbacks, "error", event)
    notify(settings.callbacks, "end", event)
    live = context.with_folded(planned.fold).blocks
    return {
        **state,
        "summary": _running_summary(context, planned, summary, settings),
        "kept": _kept_ids(context, planned),
        "cuts": dict(planned.cuts),
        "blocks": {key: block for key, block in state["blocks"].items() if key in live},
        "totals": _add_usage(state["totals"], summary),
    }


def _summary_request(
    context: ContextParts,
    batch: list[BaseMessage],
    planned: Plan,
    settings: CompactionSettings,
) -> SummaryRequest:
    return SummaryRequest(
        messages=batch,
        max_tokens=planned.summary_tokens,
        count_text=settings.count_text,
        prior=context.summary["text"] if context.summary else None,
        instruction=settings.instruction,
        sent=context.request_messages(),
    )


def _finished_event(
    event: CompactEvent, planned: Plan, summary: Summary, settings: CompactionSettings
) -> CompactEvent:
    unused = planned.summary_tokens - settings.count_text(summary.text)
    return replace(
        event,
        tokens_after=planned.after - max(0, unused),
        model=summary.model,
        calls=summary.calls,
        input_tokens=summary.input_tokens,
        output_tokens=summary.output_tokens,
        cost=summary.cost,
        error="; ".join(summary.failures) or None,
    )


def _running_summary(
    context: ContextParts, planned: Plan, summary: Summary, settings: CompactionSettings
) -> RunningSummary:
    folded = context.tail[: planned.fold]
    covered = sum(len(group.source.messages) for group in folded)
    return {
        "text": summary.text,
        "covers_to": folded[-1].source.last_id,
        "covered": covered + (context.summary["covered"] if context.summary else 0),
        "tokens": settings.count_text(summary.text),
        "model": summary.model,
        "prompt_version": summary.prompt_version,
        "reason": planned.reason or "manual",
        "created_at": settings.now().isoformat(),
        "failures": list(summary.failures),
    }


def _add_usage(totals: Totals, summary: Summary) -> Totals:
    return {
        **totals,
        "summaries": totals["summaries"] + 1,
        "calls": totals["calls"] + summary.calls,
        "input_tokens": totals["input_tokens"] + summary.input_tokens,
        "output_tokens": totals["output_tokens"] + summary.output_tokens,
        "cost": totals["cost"] + (summary.cost or 0.0),
    }
