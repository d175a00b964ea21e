"""Compaction: carries out a plan, which leads from one memory state to the next."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from langchain_core.messages import BaseMessage, SystemMessage

from langchain_tokenmem.background import TimedCalls, is_given_up, seconds_left, with_calls_on_loop
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.message_times import time_of
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.planning import Plan, plan
from langchain_tokenmem.core.repair import source_messages
from langchain_tokenmem.core.request_options import Steps
from langchain_tokenmem.core.size_caps import cap_messages, request_tokens
from langchain_tokenmem.core.turns import NO_TURNS
from langchain_tokenmem.errors import SummaryError
from langchain_tokenmem.events import MemoryEvent
from langchain_tokenmem.memory.summary_log import (
    NO_SUMMARY,
    LogWriter,
    cuts_after,
    messages_to_fold,
)
from langchain_tokenmem.state import ChangeMade, MemoryState, RunningSummary, Totals
from langchain_tokenmem.summarize.base import Summarizer, Summary, SummaryRequest
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer
from langchain_tokenmem.summarize.model_call import without_streaming

if TYPE_CHECKING:
    from langchain_tokenmem.memory.engine import Engine
    from langchain_tokenmem.memory.prepared_call import PreparedCall

Summarize = Callable[[SummaryRequest], Summary]
"""Calls a summarizer and waits for its answer; raises only `SummaryError`."""

T = TypeVar("T")

_MAX_SUMMARIES = 3
"""Maximum summaries of one compaction; the second and third only if the request still exceeds the
limit after the previous one, which planning prevents as far as counts add up."""


def summaries_by(summarizer: Summarizer, calls: TimedCalls | None = None) -> Summarize:
    """Return the function with which a compaction calls a summarizer in its own thread.

    Args:
        summarizer: Writes the entries.
        calls: Limits the wait for a slow summarizer.
    """

    def summarize(request: SummaryRequest) -> Summary:
        is_main = threading.current_thread() is threading.main_thread()
        # Only the main thread can be interrupted, or asked to exit.
        kinds = (Exception, asyncio.CancelledError) if is_main else (BaseException,)
        with _as_summary_errors(*kinds), without_streaming():
            if calls is None or summarizer.is_quick:
                return summarizer.summarize(request)
            return calls.run(partial(summarizer.summarize, request))

    return summarize


async def with_async_summaries(summarizer: Summarizer, work: Callable[[Summarize], T]) -> T:
    """Return the result of `work`, which runs in a thread, the summarizer on this event loop.

    If the caller is cancelled, so is the summarizer's call.
    """

    async def asummarize(request: SummaryRequest) -> Summary:
        left = seconds_left()
        with _as_summary_errors(Exception), without_streaming():
            answer = summarizer.asummarize(request)
            return await asyncio.wait_for(answer, None if left == math.inf else left)

    return await with_calls_on_loop(asummarize, work)


@contextmanager
def _as_summary_errors(*kinds: type[BaseException]) -> Iterator[None]:
    """Convert exceptions of an application's summarizer to a `SummaryError`."""
    try:
        yield
    except SummaryError:
        raise
    except kinds as error:
        # A timeout of asyncio has no text.
        fault = str(error) or ("it took too long" if isinstance(error, TimeoutError) else "no text")
        raise SummaryError(f"The summarizer failed: {type(error).__name__}: {fault}") from error


@dataclass(frozen=True)
class Compaction:
    """The steps of one compaction.

    Attributes:
        engine: The memory's settings.
        call: The request under the previous state.
        summarize: Calls the summarizer.
        force: Fold about half of the request.
        steps: Steps that may be taken.
        instruction: Instruction for the summarizer; makes a summary due.
    """

    engine: Engine
    call: PreparedCall
    summarize: Summarize
    force: bool = False
    steps: Steps = "all"
    instruction: str | None = None

    def run(self) -> MemoryState:
        """Carry out the plan and return the new state; unchanged if nothing was due."""
        context, state = self.call.context, self.call.state
        if context.summary is not state["summary"]:  # some covered messages no longer exist
            state = {**state, "summary": context.summary}
        turns = context.turns.state(context.tail)
        # A state with a summary always has them, which distinguishes it from older states.
        if turns != state.get("turns", None if state["summary"] else NO_TURNS):
            state = {**state, "turns": turns}
        force, may_condense = self.force, True
        for _ in range(_MAX_SUMMARIES):
            context, planned = self.plan(context, force=force, may_condense=may_condense)
            for warning in planned.warnings:
                self.engine.warn(warning)
            if not planned.fold and (self.instruction is None or context.summary is None):
                is_same = planned.reason is None and planned.cuts == state["cuts"]
                return state if is_same else self._shorten(context, state, planned)
            context, state = self._summarize(context, state, planned)
            if self.instruction is not None or request_tokens(context) <= self.call.budget.limit:
                return state
            force, may_condense = False, may_condense and not planned.log.condense
        return state

    def plan(
        self, context: ContextParts, *, force: bool, may_condense: bool = True
    ) -> tuple[ContextParts, Plan]:
        """Return the context with every message within its share, and the plan for it.

        A summary is left out of the plan if the summarizer waits for more messages.

        Args:
            context: The conversation under its state.
            force: Fold about half of the request.
            may_condense: Whether older entries of the running summary may be condensed.
        """
        budget, policy, mode = self.call.budget, self.engine.policy, self.call.mode
        if mode is not None:
            trigger = policy.trigger if mode.summarization else None
            policy = replace(policy, trigger=trigger, window=mode.window)
        cuts_before, context = context.cuts, cap_messages(context, budget)
        planned = plan(
            context,
            budget,
            force=force or self.instruction is not None,
            policy=policy,
            steps=self.steps,
            may_condense=may_condense,
            is_cold=self._is_cold(context),
        )
        if planned.reason == "summarize_at" and not self.engine.summarizer.wants(
            messages_to_fold(context, planned, cuts_before)
        ):
            before = planned.before
            planned = replace(planned, reason=None, fold=0, cuts=context.cuts, after=before)
        return context, planned

    def _is_cold(self, context: ContextParts) -> bool:
        """Return whether the last reply is so old that no provider still has the prefix cached."""
        seconds = self.call.budget.cache_ttl_s
        if seconds is None or not self.engine.summarizer.is_quick:
            return False
        newest = (m for group in reversed(context.tail) for m in reversed(group.source.messages))
        reply = next((message for message in newest if role_of(message) == "ai"), None)
        moment = time_of(reply, context.seen) if reply is not None else None
        return moment is not None and (self.engine.now() - moment).total_seconds() > seconds

    def _shorten(self, context: ContextParts, state: MemoryState, planned: Plan) -> MemoryState:
        """Return the state with the plan's cuts; only a change to a sent message is an event."""
        cuts = cuts_after(context, planned, state["cuts"])
        ids = tuple(key for key in cuts if key not in state["cuts"])
        event = MemoryEvent(
            kind="cut" if planned.reason is None else "shorten",
            reason=planned.reason or "",
            tokens_before=planned.before,
            tokens_after=planned.after,
            shortened=len(ids),
            ids=ids,
        )
        if planned.reason is None:
            if ids:
                self.engine.tell("end", event)
            return state if cuts == state["cuts"] else {**state, "cuts": cuts}
        self.engine.tell("start", event)
        self.engine.tell("end", event)
        totals: Totals = {**state["totals"], "compactions": state["totals"]["compactions"] + 1}
        kept, change = _kept_ids(context, planned), self._change(event, context)
        return {**state, "cuts": cuts, "kept": kept, "totals": totals, "change": change}

    def _change(self, event: MemoryEvent, context: ContextParts) -> ChangeMade:
        """Return what the state records about a compaction."""
        given, counter = self.call.options.get("system"), context.counter
        system = SystemMessage(given) if isinstance(given, str) else given
        own = counter.message(system) if system is not None and system.content else 0
        own += self.call.options.get("overhead_tokens", 0)  # without a correction of the count
        return {
            "reason": event.reason,
            "at": self.engine.now().isoformat(),
            "summarized": event.summarized,
            "shortened": event.shortened,
            "before": event.tokens_before,
            "after": event.tokens_after,
            "around": counter.tools + own,
            "budget": asdict(self.call.budget),
        }

    def _summarize(
        self, context: ContextParts, state: MemoryState, planned: Plan
    ) -> tuple[ContextParts, MemoryState]:
        """Return context and state with an entry for the groups that are folded."""
        batch = messages_to_fold(context, planned, state["cuts"])
        folded = [m.id or "" for m in source_messages(context.tail[: planned.fold])]
        cuts = cuts_after(context, planned, state["cuts"])
        event = MemoryEvent(
            kind="fold",
            reason=planned.reason or "manual",
            tokens_before=planned.before,
            tokens_after=planned.after,
            shortened=len(cuts.keys() - state["cuts"].keys()),
            summarized=len(folded),
            # Also of messages that stay visible whole.
            ids=(*(m.id or "" for m in batch if m.id not in folded), *folded),
        )
        with self._reported(event) as started:
            log, made = self._log_after(context, planned, batch)
        count = self.call.counter.text
        unused = planned.log.entry_tokens - count(made[0].text) if planned.fold else 0
        event = replace(event, tokens_after=planned.after - max(0, unused))
        event = _with_usage(event, made, time.perf_counter() - started)
        if event.error:
            self.engine.tell("error", event)
        self.engine.tell("end", event)
        rest = replace(context.with_folded(planned.fold), summary=log, cuts=cuts)
        after: MemoryState = {
            **state,
            "summary": log,
            "kept": _kept_ids(context, planned),
            "cuts": cuts,
            "blocks": {key: block for key, block in state["blocks"].items() if key in rest.blocks},
            "totals": _with_summary(state["totals"], event),
            "change": self._change(event, context),
            "turns": rest.turns.state(rest.tail),
        }
        return rest, after

    def _log_after(
        self, context: ContextParts, planned: Plan, batch: Sequence[BaseMessage]
    ) -> tuple[RunningSummary | None, list[Summary]]:
        """Return the running summary with the new entry, and the summaries made for it.

        The new entry is written with all earlier ones in view; only then are these condensed.
        With an instruction the summarizer condenses all of them, including the new one; a single
        entry was already written with it.
        """
        writer = LogWriter(context, self.engine, self.call)
        log, made, change = context.summary, [], planned.log
        if planned.fold:
            folded, most = context.tail[: planned.fold], change.entry_tokens
            request = writer.request(folded, batch, most, self.instruction)
            summary = self._written(request) if most else NO_SUMMARY
            made.append(summary)
            log = writer.appended(folded, summary, planned.reason or "manual")
        if self.instruction is not None and log is not None and context.summary is not None:
            count, tokens = len(log["entries"]), sum(entry["tokens"] for entry in log["entries"])
            request = writer.condensing_request(log, count, tokens, self.instruction)
            made.append(self._written(request) if tokens else NO_SUMMARY)
            log = writer.condensed(log, count, made[-1])
        elif change.condense and log is not None:
            # Lines are selected, not rewritten: no fact is distorted, and no model is paid.
            request = writer.condensing_request(log, change.condense, change.condensed_tokens)
            summary = ExtractiveSummarizer().summarize(request)
            made.append(summary)
            log = writer.condensed(log, change.condense, summary)
        return log, made

    def _written(self, request: SummaryRequest) -> Summary:
        """Return the summarizer's summary; an extract if it declines the batch or is paused.

        A slow call is an event.
        """
        summarizer = self.engine.summarizer
        if self.instruction is None and not summarizer.wants(request.messages):
            return ExtractiveSummarizer().summarize(request)
        if summarizer.is_quick:
            return self.summarize(request)
        breaker = self.engine.breaker
        is_checked_here = breaker is self.engine.pause
        if is_checked_here and breaker.is_open:
            name = getattr(summarizer, "name", type(summarizer).__name__)
            why = f"{name} has failed {breaker.attempts} times and is paused"
            return replace(ExtractiveSummarizer().summarize(request), failures=(why,))
        event = MemoryEvent(kind="summary", summarized=len(request.messages))
        try:
            with self._reported(event) as started:
                made = self.summarize(request)
        except SummaryError:
            breaker.failed()
            raise
        if is_checked_here:
            breaker.succeeded()
        self.engine.tell("end", _with_usage(event, [made], time.perf_counter() - started))
        return made

    @contextmanager
    def _reported(self, event: MemoryEvent) -> Iterator[float]:
        """Report the start of a step, and its failure if any; yield the time of the start."""
        self.engine.tell("start", event)
        started = time.perf_counter()
        try:
            yield started
        except SummaryError as error:
            if not is_given_up():  # else it was reported then
                took = time.perf_counter() - started
                self.engine.tell("error", replace(event, duration_s=took, error=str(error)))
            raise


def redact_events(before: MemoryState, after: MemoryState) -> Iterator[MemoryEvent]:
    """Yield an event for each entry that was rewritten because its messages changed."""
    known = before["summary"]["entries"] if before["summary"] else []
    for entry in after["summary"]["entries"] if after["summary"] else ():
        if entry["reason"] in {"edited", "removed"} and entry not in known:
            yield MemoryEvent(
                kind="redact",
                reason=entry["reason"],
                tokens_before=sum(e["tokens"] for e in known if e["first"] == entry["first"]),
                tokens_after=entry["tokens"],
            )


def _with_usage(event: MemoryEvent, made: Sequence[Summary], seconds: float) -> MemoryEvent:
    """Return the event with the usage of summarizers."""
    costs = [summary.cost for summary in made if summary.cost is not None]
    return replace(
        event,
        duration_s=seconds,
        summarizer=made[0].model,
        calls=sum(summary.calls for summary in made),
        input_tokens=sum(summary.input_tokens for summary in made),
        output_tokens=sum(summary.output_tokens for summary in made),
        cost=sum(costs) if costs else None,
        error="; ".join(failure for summary in made for failure in summary.failures) or None,
    )


def _kept_ids(context: ContextParts, planned: Plan) -> list[str]:
    """Return the covered messages that stay visible; a store reads no other covered ones."""
    same = [message.id or "" for message in source_messages(context.kept)]
    return [*context.system_ids, *(same if planned.kept is None else planned.kept)]


def _with_summary(totals: Totals, event: MemoryEvent) -> Totals:
    """Return totals including the usage of a fold."""
    return {
        **totals,
        "summaries": totals["summaries"] + 1,
        "calls": totals["calls"] + event.calls,
        "input_tokens": totals["input_tokens"] + event.input_tokens,
        "output_tokens": totals["output_tokens"] + event.output_tokens,
        "cost": totals["cost"] + (event.cost or 0.0),
    }
