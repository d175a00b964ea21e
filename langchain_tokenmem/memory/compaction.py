"""Compaction: the generator that carries out a plan, from a memory state to the next one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts, RequestCounter
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
class Order:
    """How a compaction is to be done.

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
    scene: ContextParts,
    budget: TokenBudget,
    meter: RequestCounter,
    state: MemoryState,
    order: Order,
) -> Work[MemoryState]:
    """Do what the plan asks for, and return the new state; as it is where nothing was due."""
    for _ in range(_MOST_SUMMARIES):
        scene, planned = decided(scene, budget, meter, order)
        for warning in planned.warnings:
            order.warn(warning)
        if not planned.fold:
            return _shortened(scene, state, planned, order)
        state = yield from _summarized(scene, meter, state, planned, order)
        scene = replace(scene.folded(planned.fold), summary=state["summary"], cuts=state["cuts"])
        if request_tokens(scene, meter) <= budget.limit:
            return state
        order = replace(order, force=False)
    return state


def decided(
    scene: ContextParts, budget: TokenBudget, meter: RequestCounter, order: Order
) -> tuple[ContextParts, Plan]:
    """Return the scene with nothing in it over its share, and the plan for it."""
    scene = cap_messages(scene, budget, meter)
    planned = plan(scene, budget, meter, force=order.force, policy=order.policy, steps=order.steps)
    return scene, _gated(scene, planned, order.summarizer)


def _gated(scene: ContextParts, planned: Plan, summarizer: Summarizer) -> Plan:
    """Return the plan, without its summary where the summarizer waits for more to say."""
    if planned.reason != "summarize_at" or summarizer.wants(_batch(scene, planned)):
        return planned
    return replace(planned, reason=None, fold=0, cuts=scene.cuts, after=planned.before)


def _kept(scene: ContextParts, planned: Plan) -> list[str]:
    """Return the covered messages that stay visible; a store reads nothing else of them."""
    groups = scene.kept
    same = [message.id or "" for group in groups for message in group.source.messages]
    return [*scene.system_ids, *(same if planned.kept is None else planned.kept)]


def _shortened(scene: ContextParts, state: MemoryState, planned: Plan, order: Order) -> MemoryState:
    """Return the state with the plan's cuts; only a change of what was sent is an event."""
    if planned.reason is None:
        return _with_cuts(state, planned.cuts)
    ids = tuple(key for key in planned.cuts if key not in state["cuts"])
    event = CompactEvent("compaction", planned.reason, planned.before, planned.after, ids)
    notify(order.callbacks, "start", event)
    notify(order.callbacks, "end", event)
    totals: Totals = {**state["totals"], "compactions": state["totals"]["compactions"] + 1}
    return {**state, "cuts": dict(planned.cuts), "kept": _kept(scene, planned), "totals": totals}


def _with_cuts(state: MemoryState, cuts: object) -> MemoryState:
    if not isinstance(cuts, dict) or cuts == state["cuts"]:
        return state
    return {**state, "cuts": dict(cuts)}


def _batch(scene: ContextParts, planned: Plan) -> list[BaseMessage]:
    """Return what leaves the tail as the view has shown it; what no view shows, as it was said."""
    return [
        message
        for group in scene.tail[: planned.fold]
        for message in scene.shown(group) or group.source.messages
    ]


def _summarized(
    scene: ContextParts, meter: RequestCounter, state: MemoryState, planned: Plan, order: Order
) -> Work[MemoryState]:
    reason = planned.reason or "manual"
    batch = _batch(scene, planned)
    ids = tuple(message.id or "" for message in batch)
    event = CompactEvent("summary", reason, planned.before, planned.after, ids)
    notify(order.callbacks, "start", event)
    started = time.perf_counter()
    summary = Summary("", "none", "none")
    if planned.summary_tokens:
        try:
            summary = (yield _summary_request(scene, meter, batch, planned, order)) or summary
        except SummaryError as error:
            took = time.perf_counter() - started
            notify(order.callbacks, "error", replace(event, duration_s=took, error=str(error)))
            raise
    event = replace(event, duration_s=time.perf_counter() - started)
    event = _finished(event, planned, summary, order)
    if event.error:
        notify(order.callbacks, "error", event)
    notify(order.callbacks, "end", event)
    live = scene.folded(planned.fold).blocks
    return {
        **state,
        "summary": _running(scene, planned, summary, order),
        "kept": _kept(scene, planned),
        "cuts": dict(planned.cuts),
        "blocks": {key: block for key, block in state["blocks"].items() if key in live},
        "totals": _added(state["totals"], summary),
    }


def _summary_request(
    scene: ContextParts,
    meter: RequestCounter,
    batch: list[BaseMessage],
    planned: Plan,
    order: Order,
) -> SummaryRequest:
    front = scene.front()
    return SummaryRequest(
        messages=batch,
        max_tokens=planned.summary_tokens,
        count_text=order.count_text,
        prior=scene.summary["text"] if scene.summary else None,
        instruction=order.instruction,
        sent=[*([front] if front is not None else []), *scene.body(meter)],
    )


def _finished(event: CompactEvent, planned: Plan, summary: Summary, order: Order) -> CompactEvent:
    unused = planned.summary_tokens - order.count_text(summary.text)
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


def _running(scene: ContextParts, planned: Plan, summary: Summary, order: Order) -> RunningSummary:
    folded = scene.tail[: planned.fold]
    covered = sum(len(group.source.messages) for group in folded)
    return {
        "text": summary.text,
        "covers_to": folded[-1].source.last_id,
        "covered": covered + (scene.summary["covered"] if scene.summary else 0),
        "tokens": order.count_text(summary.text),
        "model": summary.model,
        "prompt_version": summary.prompt_version,
        "reason": planned.reason or "manual",
        "created_at": order.now().isoformat(),
        "failures": list(summary.failures),
    }


def _added(totals: Totals, summary: Summary) -> Totals:
    return {
        **totals,
        "summaries": totals["summaries"] + 1,
        "calls": totals["calls"] + summary.calls,
        "input_tokens": totals["input_tokens"] + summary.input_tokens,
        "output_tokens": totals["output_tokens"] + summary.output_tokens,
        "cost": totals["cost"] + (summary.cost or 0.0),
    }
