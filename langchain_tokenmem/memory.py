"""The engine behind every door."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from langchain_core.messages import BaseMessage
from typing_extensions import Unpack

from langchain_tokenmem.compaction import Compaction, Order, adriven, compaction, driven, gated
from langchain_tokenmem.core.around import Around
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.capping import capped
from langchain_tokenmem.core.closing import Closing
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.core.mending import Dangling
from langchain_tokenmem.core.planning import Plan, Steps, plan
from langchain_tokenmem.core.profiles import (
    COMMON,
    LegalityProfile,
    profile_for,
    profile_named,
    profile_of_model,
)
from langchain_tokenmem.core.recalled import block_of, recalled_ids
from langchain_tokenmem.core.scene import Meter, Scene, remembered, scene_of
from langchain_tokenmem.core.settled import Memo
from langchain_tokenmem.core.trigger import Policy, Trigger
from langchain_tokenmem.core.view import View, view_of
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.events import CompactCallbacks
from langchain_tokenmem.handover import Handover
from langchain_tokenmem.jobs import SummaryJobs
from langchain_tokenmem.recalling import (
    Recaller,
    RecallScope,
    Whose,
    question_of,
    search,
    with_recalled,
)
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.summarize.coerce import AnySummarizer, as_summarizer
from langchain_tokenmem.tokens.base import TokenCount, TokenCounter
from langchain_tokenmem.tokens.resolve import counter_for

logger = logging.getLogger(__name__)

DEFAULT_BUDGET = TokenBudget(16_384)
DEFAULT_TRIGGER = Trigger()

_MEMOS = 16
"""Conversations of which a memory keeps what is settled, while others come and go."""


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


class TokenMemory(Closing):
    """Decides what a model call sees of a conversation, within a token budget.

    The transcript is never changed: `compact` returns a new state (a summary, a pointer, the
    shortened forms of old tool results) and `view` applies a state to the messages. One memory
    may serve any number of conversations, threads and event loops at once.

    Args:
        budget: The window and its thresholds; default: 16,384 tokens.
        summarizer: Writes running summaries: a `Summarizer`, a chat model or its name, a
            runnable, a function `(messages, prior, instruction, max_tokens) -> text`. Default:
            the extractive one, which needs no model.
        counter: Counts tokens; default: the one that fits `budget.model`.
        trigger: When a summary is due; None turns automatic summaries off.
        max_tail_messages: Most messages after the summary, beside the budget; the tail then moves
            by ten at a time.
        pin_first: Keep the first human message in every view.
        dangling: What becomes of a tool call without a result: `answer` (as interrupted) or
            `drop`.
        recall: Brings old messages back that match the newest question; None for none.
        recall_scope: Where it looks: in the conversation's own `session`, or in all of its `user`.
        callbacks: Are told of every compaction and summary.
        background: Make summaries beside the model call, and let a call wait for one only at the
            hard limit. Needs a session, or a graph with a thread.
        max_wait_s: Seconds that a call waits at most.
        summary_timeout_s: Seconds after which a summary in the background is given up.
        legality: What the model's provider asks of a list of messages: a profile, its name, or
            `auto` to go by the model where it is known and by the common ground elsewhere.
        now: Gives the time of a summary, in UTC.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> memory = TokenMemory(TokenBudget(context_window=8_000))
        >>> view = memory.view([HumanMessage("hi")], system="Be brief.")
        >>> [message.type for message in view.messages]
        ['system', 'human']
    """

    def __init__(
        self,
        budget: TokenBudget | None = None,
        *,
        summarizer: AnySummarizer | None = None,
        counter: TokenCounter | None = None,
        trigger: Trigger | None = DEFAULT_TRIGGER,
        max_tail_messages: int | None = None,
        pin_first: bool = True,
        dangling: Dangling = "answer",
        recall: Recaller | None = None,
        recall_scope: RecallScope = "session",
        callbacks: Sequence[CompactCallbacks] = (),
        background: bool = True,
        max_wait_s: float = 30.0,
        summary_timeout_s: float = 120.0,
        legality: LegalityProfile | str = "auto",
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.budget = budget or DEFAULT_BUDGET
        self.summarizer = as_summarizer(summarizer)
        self.recall = recall
        self.recall_scope = recall_scope
        self.policy = Policy(trigger=trigger, max_tail_messages=max_tail_messages)
        self.background = background and not self.summarizer.is_quick
        self.max_wait_s = max_wait_s
        self.jobs = SummaryJobs(summary_timeout_s, self._timed_out)
        self.handover = Handover()
        self._counter = counter
        self._pin_first = pin_first
        self._dangling = dangling
        self._callbacks = tuple(callbacks)
        self._legality = None if legality == "auto" else profile_named(legality)
        self._now = now
        # Found by who counts, for whom, and the first message: two conversations that share one
        # cost each other time and nothing else.
        self._memo = lru_cache(maxsize=_MEMOS)(lambda *_key: Memo())
        self.warn_once = lru_cache(maxsize=1_024)(logger.warning)
        """Log a warning; the same one is logged once."""

    def close(self) -> None:
        """Wait for the summaries that are being made, each at most `summary_timeout_s`."""
        self.jobs.wait()

    async def aclose(self) -> None:
        """Do the same as `close` without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def view(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **around: Unpack[Around],
    ) -> View:
        """Return the request for the next model call. Pure: no I/O, the same for equal inputs.

        It fits even where `compact` has not run: then the oldest groups are left out, with one
        marker in their place and a warning.

        Args:
            messages: The conversation, oldest first; system messages may stand in it.
            state: What was decided so far; None for nothing.
            around: Keywords `system`, `tools`, `overhead_tokens`, `budget`: see `Around`.

        Raises:
            BudgetExceededError: When the fixed parts alone exceed the limit.
        """
        return self._taken(messages, state, **around).view()

    def plan(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **around: Unpack[Around],
    ) -> Plan:
        """Return what `compact` would do, without doing it. Pure; arguments as for `view`."""
        return self._planned(self._taken(messages, state, **around))

    def compact(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        *,
        force: bool = False,
        instruction: str | None = None,
        steps: Steps = "all",
        **around: Unpack[Around],
    ) -> MemoryState:
        """Do what the plan asks for, and return the new state; `state` itself if nothing was due.

        Args:
            messages: The conversation, oldest first.
            state: What was decided so far; None for nothing.
            force: Fold everything but the recent share, also below the thresholds.
            instruction: What this one summary should pay attention to.
            steps: `shorten` shortens old tool results and folds nothing; `shorten_if_enough`
                does so only where that is enough; by default both steps are taken.
            around: Keywords `system`, `tools`, `overhead_tokens`, `budget`: see `Around`.

        Raises:
            BudgetExceededError: When the fixed parts alone exceed the limit.
            SummaryError: When the summarizer failed and has no fallback; nothing is changed then.
        """
        taken = self._taken(messages, state, **around)
        work = self._compaction(taken, force=force, instruction=instruction, steps=steps)
        return driven(work, self.summarizer)

    async def acompact(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        *,
        force: bool = False,
        instruction: str | None = None,
        steps: Steps = "all",
        **around: Unpack[Around],
    ) -> MemoryState:
        """Do the same as `compact` without blocking the event loop.

        Counting and planning run in a thread, where the vocabulary is loaded too.
        """
        taken = await asyncio.to_thread(self._taken, messages, state, **around)
        work = self._compaction(taken, force=force, instruction=instruction, steps=steps)
        return await adriven(work, self.summarizer)

    def compact_and_view(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        *,
        force: bool = False,
        instruction: str | None = None,
        steps: Steps = "all",
        **around: Unpack[Around],
    ) -> tuple[MemoryState, View]:
        """Do `compact` and `view` in one go, which takes the conversation apart only once."""
        taken = self._taken(messages, state, **around)
        work = self._compaction(taken, force=force, instruction=instruction, steps=steps)
        new = driven(work, self.summarizer)
        same = new is taken.state
        return new, taken.view() if same else self.view(messages, new, **around)

    async def acompact_and_view(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        *,
        force: bool = False,
        instruction: str | None = None,
        steps: Steps = "all",
        **around: Unpack[Around],
    ) -> tuple[MemoryState, View]:
        """Do the same as `compact_and_view` without blocking the event loop."""
        taken = await asyncio.to_thread(self._taken, messages, state, **around)
        work = self._compaction(taken, force=force, instruction=instruction, steps=steps)
        new = await adriven(work, self.summarizer)
        if new is taken.state:
            return new, await asyncio.to_thread(taken.view)
        return new, await asyncio.to_thread(self.view, messages, new, **around)

    def recalled(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None,
        whose: Whose,
        **around: Unpack[Around],
    ) -> MemoryState | None:
        """Return the state with a memory block for the newest question; `state` if none is due.

        The block holds what `recall` finds, verbatim, up to `recall_share` of the limit, and
        nothing that the request shows already. It is made once for each human message. Where the
        index cannot answer the call goes on without, with one warning.

        Args:
            messages: The conversation, oldest first; a human message stands last.
            state: What was decided so far; None for nothing.
            whose: Whose conversation it is.
            around: Keywords `system`, `tools`, `overhead_tokens`, `budget`: see `Around`.

        Raises:
            BudgetExceededError: When the fixed parts alone exceed the limit.
            ScopeError: When other sessions are asked for and the user is not known.
        """
        known = load_state(state)
        question = question_of(messages, known)
        if self.recall is None or question is None:
            return state
        taken = self._taken(messages, known, **around)
        shown = {message.id or "" for message in taken.view().messages}
        shown |= recalled_ids(known, shown)
        try:
            found = search(self.recall, question, whose, self.recall_scope, shown)
        except ScopeError:
            raise
        except Exception as error:  # noqa: BLE001  # an application's own recall may raise
            self.warn_once(f"Session {whose.session_id!r}: nothing is recalled, {error}")
            return state
        block = block_of(found, taken.budget.recall_tokens, self.counter_of(taken.budget).text)
        return with_recalled(known, messages, question, block)

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of messages and tool schemas as one request."""
        return self.counter_of(self.budget).count(messages, tools=tools)

    def counter_of(self, budget: TokenBudget) -> TokenCounter:
        """Return the counter that this memory uses under a budget."""
        return self._counter or counter_for(budget.model)

    def limit_of(self, around: Around) -> int:
        """Return the limit of a call, in tokens, from its keywords for `view`."""
        budget = around.get("budget") or self.budget
        return budget.for_counts(exact=self.counter_of(budget).method == "exact").limit

    def explain(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **around: Unpack[Around],
    ) -> Explanation:
        """Return the exact list of the next model call, its parts, and what `compact` would do.

        Nothing is called and nothing is changed. The list is that of `view` under this state;
        arguments and errors as there.
        """
        taken = self._taken(messages, state, **around)
        return Explanation(taken.view(), self._planned(taken), taken.scene.profile.name)

    def for_model(self, model: Any) -> TokenMemory:
        """Return this memory with the provider's rules of a chat model.

        Where the rules were given by `legality` it is the memory itself.

        Args:
            model: A chat model, or a runnable around one.
        """
        if self._legality is not None:
            return self
        own = copy.copy(self)
        own._legality = profile_of_model(model)  # noqa: SLF001  # a copy of its own
        return own

    def _profile(self, budget: TokenBudget) -> LegalityProfile:
        if self._legality is not None:
            return self._legality
        return profile_for(None, budget.model) if budget.model else COMMON

    def _taken(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None,
        *,
        system: str | BaseMessage | None = None,
        tools: Sequence[Any] | None = None,
        overhead_tokens: int = 0,
        budget: TokenBudget | None = None,
    ) -> _Taken:
        """Return the conversation taken apart, with what a call needs to decide about it."""
        budget = budget or self.budget
        counter = self.counter_of(budget)
        profile = self._profile(budget)
        known = load_state(state)
        meter = Meter(
            remembered(counter.message), tools=counter.tools(tools), overhead=overhead_tokens
        )
        scene = scene_of(
            messages,
            known,
            meter,
            system=system,
            pin_first=self._pin_first,
            dangling=self._dangling,
            profile=profile,
            memo=self._memo(id(messages[0]), id(counter), profile) if messages else None,
        )
        exact = counter.method == "exact"
        return _Taken(scene, budget.for_counts(exact=exact), meter, known, exact=exact)

    def _planned(self, taken: _Taken) -> Plan:
        scene = capped(taken.scene, taken.budget, taken.meter)
        planned = plan(scene, taken.budget, taken.meter, policy=self.policy)
        return gated(scene, planned, self.summarizer)

    def _compaction(
        self, taken: _Taken, *, force: bool, instruction: str | None, steps: Steps
    ) -> Compaction:
        order = Order(
            policy=self.policy,
            summarizer=self.summarizer,
            callbacks=self._callbacks,
            now=self._now,
            count_text=self.counter_of(taken.budget).text,
            warn=self.warn_once,
            force=force,
            steps=steps,
            instruction=instruction,
        )
        return compaction(taken.scene, taken.budget, taken.meter, taken.state, order)

    def _timed_out(self) -> None:
        breaker = getattr(self.summarizer, "breaker", None)
        if breaker is not None:
            breaker.failed()


@dataclass(frozen=True)
class _Taken:
    """A conversation taken apart for one call."""

    scene: Scene
    budget: TokenBudget
    meter: Meter
    state: MemoryState
    exact: bool

    def view(self) -> View:
        return view_of(self.scene, self.budget, self.meter, exact=self.exact)
