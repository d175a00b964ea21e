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

_MAX_SUMMARIES = 3
"""Summaries of one compaction; the second and third only where the request is still over the
limit after the one before, which planning rules out as far as counts add up."""


@dataclass(frozen=True)
class Compaction:
    """The steps of one compaction, and its settings.

    Attributes:
        policy: Conditions under which a summary is due.
        summarizer: Writes it.
        callbacks: Are told of every change.
        now: Gives the time of a summary, in UTC.
        count_text: Counts the tokens of a text.
        warn: Takes what the log should say once.
        force: Fold everything but the recent share.
        steps: Steps that may be taken.
        instruction: Asks the summarizer to pay attention to something.
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

    def run(
        self, context: ContextParts, budget: TokenBudget, state: MemoryState
    ) -> Work[MemoryState]:
        """Do what the plan asks for, and return the new state; as it is where nothing was due."""
        compaction = self
        for _ in range(_MAX_SUMMARIES):
            context, planned = compaction.plan(context, budget)
            for warning in planned.warnings:
                self.warn(warning)
            if not planned.fold:
                return self._shorten(context, state, planned)
            state = yield from self._summarize(context, state, planned)
            summary, cuts = state["summary"], state["cuts"]
            context = replace(context.with_folded(planned.fold), summary=summary, cuts=cuts)
            if request_tokens(context) <= budget.limit:
                return state
            compaction = replace(self, force=False)
        return state

    def plan(self, context: ContextParts, budget: TokenBudget) -> tuple[ContextParts, Plan]:
        """Return the context with no message over its share, and the plan for it.

        A summary is left out of the plan where the summarizer waits for more messages.
        """
        context = cap_messages(context, budget)
        planned = plan(context, budget, force=self.force, policy=self.policy, steps=self.steps)
        batch = _messages_to_fold(context, planned)
        if planned.reason == "summarize_at" and not self.summarizer.wants(batch):
            before = planned.before
            planned = replace(planned, reason=None, fold=0, cuts=context.cuts, after=before)
        return context, planned

    def _shorten(self, context: ContextParts, state: MemoryState, planned: Plan) -> MemoryState:
        """Return the state with the plan's cuts; only a change of what was sent is an event."""
        cuts = dict(planned.cuts)
        if planned.reason is None:
            return state if cuts == state["cuts"] else {**state, "cuts": cuts}
        ids = tuple(key for key in cuts if key not in state["cuts"])
        event = CompactEvent("compaction", planned.reason, planned.before, planned.after, ids)
        notify(self.callbacks, "start", event)
        notify(self.callbacks, "end", event)
        totals: Totals = {**state["totals"], "compactions": state["totals"]["compactions"] + 1}
        return {**state, "cuts": cuts, "kept": _kept_ids(context, planned), "totals": totals}

    def _summarize(
        self, context: ContextParts, state: MemoryState, planned: Plan
    ) -> Work[MemoryState]:
        """Return the state with the running summary over the groups that are folded."""
        batch = _messages_to_fold(context, planned)
        ids = tuple(message.id or "" for message in batch)
        reason = planned.reason or "manual"
        event = CompactEvent("summary", reason, planned.before, planned.after, ids)
        notify(self.callbacks, "start", event)
        started = time.perf_counter()
        summary = Summary("", "none", "none")
        if planned.summary_tokens:
            request = self._request(context, batch, planned.summary_tokens)
            try:
                summary = (yield request) or summary
            except SummaryError as error:
                took = time.perf_counter() - started
                notify(self.callbacks, "error", replace(event, duration_s=took, error=str(error)))
                raise
        event = self._finished(event, planned, summary, time.perf_counter() - started)
        if event.error:
            notify(self.callbacks, "error", event)
        notify(self.callbacks, "end", event)
        live = context.with_folded(planned.fold).blocks
        return {
            **state,
            "summary": self._running_summary(context, planned, summary),
            "kept": _kept_ids(context, planned),
            "cuts": dict(planned.cuts),
            "blocks": {key: block for key, block in state["blocks"].items() if key in live},
            "totals": _add_usage(state["totals"], summary),
        }

    def _request(
        self, context: ContextParts, batch: list[BaseMessage], max_tokens: int
    ) -> SummaryRequest:
        return SummaryRequest(
            messages=batch,
            max_tokens=max_tokens,
            count_text=self.count_text,
            prior=context.summary["text"] if context.summary else None,
            instruction=self.instruction,
            sent=context.request_messages(),
        )

    def _finished(
        self, event: CompactEvent, planned: Plan, summary: Summary, seconds: float
    ) -> CompactEvent:
        unused = planned.summary_tokens - self.count_text(summary.text)
        return replace(
            event,
            duration_s=seconds,
            tokens_after=planned.after - max(0, unused),
            model=summary.model,
            calls=summary.calls,
            input_tokens=summary.input_tokens,
            output_tokens=summary.output_tokens,
            cost=summary.cost,
            error="; ".join(summary.failures) or None,
        )

    def _running_summary(
        self, context: ContextParts, planned: Plan, summary: Summary
    ) -> RunningSummary:
        folded = context.tail[: planned.fold]
        covered = sum(len(group.source.messages) for group in folded)
        return {
            "text": summary.text,
            "covers_to": folded[-1].source.last_id,
            "covered": covered + (context.summary["covered"] if context.summary else 0),
            "tokens": self.count_text(summary.text),
            "model": summary.model,
            "prompt_version": summary.prompt_version,
            "reason": planned.reason or "manual",
            "created_at": self.now().isoformat(),
            "failures": list(summary.failures),
        }


def _messages_to_fold(context: ContextParts, planned: Plan) -> list[BaseMessage]:
    """Return the messages that leave the tail, as the view has shown them.

    A message that no view shows is returned as it was said, and so is a kept one that is cut now.
    """
    cut_now = [
        message
        for group in (context.kept if planned.fold else ())
        for message in group.messages
        if message.id in planned.cuts and message.id not in context.cuts
    ]
    return cut_now + [
        message
        for group in context.tail[: planned.fold]
        for message in context.shown_messages(group) or group.source.messages
    ]


def _kept_ids(context: ContextParts, planned: Plan) -> list[str]:
    """Return the covered messages that stay visible; a store reads nothing else of them."""
    same = [message.id or "" for group in context.kept for message in group.source.messages]
    return [*context.system_ids, *(same if planned.kept is None else planned.kept)]


def _add_usage(totals: Totals, summary: Summary) -> Totals:
    return {
        **totals,
        "summaries": totals["summaries"] + 1,
        "calls": totals["calls"] + summary.calls,
        "input_tokens": totals["input_tokens"] + summary.input_tokens,
        "output_tokens": totals["output_tokens"] + summary.output_tokens,
        "cost": totals["cost"] + (summary.cost or 0.0),
    }
