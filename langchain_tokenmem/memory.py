"""The engine behind every door."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Generator, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.capping import capped
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.core.legality import Dangling
from langchain_tokenmem.core.planning import Plan, Steps, plan
from langchain_tokenmem.core.profiles import (
    COMMON,
    LegalityProfile,
    profile_for,
    profile_named,
    profile_of_model,
)
from langchain_tokenmem.core.scene import Meter, Scene, remembered, scene_of
from langchain_tokenmem.core.view import View, view_of
from langchain_tokenmem.state import MemoryState, RunningSummary, load_state, new_state
from langchain_tokenmem.summarize.base import Summarizer, SummaryRequest
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer
from langchain_tokenmem.tokens.base import TokenCount, TokenCounter
from langchain_tokenmem.tokens.resolve import counter_for

logger = logging.getLogger(__name__)

DEFAULT_BUDGET = TokenBudget(16_384)


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


class TokenMemory:
    """Decides what a model call sees of a conversation, within a token budget.

    The transcript is never changed: `compact` returns a new state (a summary, a pointer, the
    shortened forms of old tool results) and `view` applies a state to the messages. One memory
    may serve any number of conversations, threads and event loops at once.

    Args:
        budget: The window and its thresholds; default: 16,384 tokens.
        summarizer: Writes running summaries; default: `ExtractiveSummarizer`, which needs no
            model.
        counter: Counts tokens; default: the one that fits `budget.model`.
        pin_first: Keep the first human message in every view.
        dangling: What becomes of a tool call without a result: `answer` (as interrupted) or
            `drop`.
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
        summarizer: Summarizer | None = None,
        counter: TokenCounter | None = None,
        pin_first: bool = True,
        dangling: Dangling = "answer",
        legality: LegalityProfile | str = "auto",
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.budget = budget or DEFAULT_BUDGET
        self.summarizer = summarizer or ExtractiveSummarizer()
        self._counter = counter
        self._pin_first = pin_first
        self._dangling = dangling
        self._legality = None if legality == "auto" else profile_named(legality)
        self._now = now
        self.warn_once = lru_cache(maxsize=1_024)(logger.warning)
        """Log a warning; the same one is logged once."""

    def view(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        *,
        system: str | BaseMessage | None = None,
        tools: Sequence[Any] | None = None,
        overhead_tokens: int = 0,
        budget: TokenBudget | None = None,
    ) -> View:
        """Return the request for the next model call. Pure: no I/O, the same for equal inputs.

        It fits even where `compact` has not run: then the oldest groups are left out, with one
        marker in their place and a warning.

        Args:
            messages: The conversation, oldest first; system messages may stand in it.
            state: What was decided so far; None for nothing.
            system: System text of the application.
            tools: Tool schemas that the request carries.
            overhead_tokens: Tokens around the conversation that are in neither of these.
            budget: Beats the memory's own for this call.

        Raises:
            BudgetExceededError: When the fixed parts alone exceed the limit.
        """
        scene, budget, meter = self._scene(messages, state, system, tools, overhead_tokens, budget)
        return view_of(scene, budget, meter, exact=self.counter_of(budget).method == "exact")

    def compact(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        *,
        system: str | BaseMessage | None = None,
        tools: Sequence[Any] | None = None,
        overhead_tokens: int = 0,
        budget: TokenBudget | None = None,
        force: bool = False,
        instruction: str | None = None,
        steps: Steps = "all",
    ) -> MemoryState:
        """Do what the plan asks for, and return the new state; `state` itself if nothing was due.

        Args:
            messages: The conversation, oldest first.
            state: What was decided so far; None for nothing.
            system: System text of the application.
            tools: Tool schemas that the request carries.
            overhead_tokens: Tokens around the conversation that are in neither of these.
            budget: Beats the memory's own for this call.
            force: Fold everything but the recent share, also below the thresholds.
            instruction: What this one summary should pay attention to.
            steps: `shorten` shortens old tool results and folds nothing; `shorten_if_enough`
                does so only where that is enough; by default both steps are taken.

        Raises:
            BudgetExceededError: When the fixed parts alone exceed the limit.
        """
        scene = self._scene(messages, state, system, tools, overhead_tokens, budget)
        work = self._compaction(scene, state, force=force, instruction=instruction, steps=steps)
        step = _advance(work, None)
        while isinstance(step, SummaryRequest):
            step = _advance(work, self.summarizer.summarize(step))
        return step

    async def acompact(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        *,
        system: str | BaseMessage | None = None,
        tools: Sequence[Any] | None = None,
        overhead_tokens: int = 0,
        budget: TokenBudget | None = None,
        force: bool = False,
        instruction: str | None = None,
        steps: Steps = "all",
    ) -> MemoryState:
        """Do the same as `compact` without blocking the event loop.

        Counting and planning run in a thread, where the vocabulary is loaded too.
        """
        scene = await asyncio.to_thread(
            self._scene, messages, state, system, tools, overhead_tokens, budget
        )
        work = self._compaction(scene, state, force=force, instruction=instruction, steps=steps)
        step = await asyncio.to_thread(_advance, work, None)
        while isinstance(step, SummaryRequest):
            step = await asyncio.to_thread(_advance, work, await self.summarizer.asummarize(step))
        return step

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of messages and tool schemas as one request."""
        return self.counter_of(self.budget).count(messages, tools=tools)

    def counter_of(self, budget: TokenBudget) -> TokenCounter:
        """Return the counter that this memory uses under a budget."""
        return self._counter or counter_for(budget.model)

    def explain(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        *,
        system: str | BaseMessage | None = None,
        tools: Sequence[Any] | None = None,
        overhead_tokens: int = 0,
        budget: TokenBudget | None = None,
    ) -> Explanation:
        """Return the exact list of the next model call, its parts, and what `compact` would do.

        Nothing is called and nothing is changed. The list is that of `view` under this state.

        Args:
            messages: The conversation, oldest first.
            state: What was decided so far; None for nothing.
            system: System text of the application.
            tools: Tool schemas that the request carries.
            overhead_tokens: Tokens around the conversation that are in neither of these.
            budget: Beats the memory's own for this call.

        Raises:
            BudgetExceededError: When the fixed parts alone exceed the limit.
        """
        scene, used, meter = self._scene(messages, state, system, tools, overhead_tokens, budget)
        exact = self.counter_of(used).method == "exact"
        view = view_of(scene, used, meter, exact=exact)
        return Explanation(view, plan(scene, used, meter), scene.profile.name)

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

    def _scene(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None,
        system: str | BaseMessage | None,
        tools: Sequence[Any] | None,
        overhead_tokens: int,
        budget: TokenBudget | None,
    ) -> tuple[Scene, TokenBudget, Meter]:
        budget = budget or self.budget
        counter = self.counter_of(budget)
        scene = scene_of(
            messages,
            new_state() if state is None else load_state(state),
            system=system,
            pin_first=self._pin_first,
            dangling=self._dangling,
            profile=self._profile(budget),
        )
        meter = Meter(
            remembered(counter.message), tools=counter.tools(tools), overhead=overhead_tokens
        )
        return scene, budget.for_counts(exact=counter.method == "exact"), meter

    def _compaction(
        self,
        taken_apart: tuple[Scene, TokenBudget, Meter],
        state: MemoryState | None,
        *,
        force: bool,
        instruction: str | None,
        steps: Steps,
    ) -> Compaction:
        """Yield what the summarizer is asked, take its answer, return the new state."""
        scene, budget, meter = taken_apart
        scene = capped(scene, budget, meter)
        planned = plan(scene, budget, meter, force=force, steps=steps)
        old = new_state() if state is None else state
        if not planned.fold:
            cuts = dict(planned.cuts)
            return old if cuts == old["cuts"] else {**old, "cuts": cuts}
        text = ""
        if planned.summary_tokens:
            text = yield SummaryRequest(
                messages=_to_fold(scene, planned),
                max_tokens=planned.summary_tokens,
                count_text=self.counter_of(budget).text,
                prior=scene.summary["text"] if scene.summary else None,
                instruction=instruction,
            )
        return {
            **old,
            "summary": self._summary(scene, planned, text, self.counter_of(budget).text(text)),
            "kept": [
                # A store reads nothing else of what is covered.
                *scene.system_ids,
                *(
                    message.id or ""
                    for group in scene.folded(planned.fold).kept
                    for message in group.source.messages
                ),
            ],
            "cuts": dict(planned.cuts),
        }

    def _summary(self, scene: Scene, planned: Plan, text: str, tokens: int) -> RunningSummary:
        folded = scene.tail[: planned.fold]
        covered = sum(len(group.source.messages) for group in folded)
        return {
            "text": text,
            "covers_to": folded[-1].source.last_id,
            "covered": covered + (scene.summary["covered"] if scene.summary else 0),
            "tokens": tokens,
            "model": self.summarizer.name,
            "prompt_version": self.summarizer.prompt_version,
            "reason": planned.reason or "manual",
            "created_at": self._now().isoformat(),
        }


def _to_fold(scene: Scene, planned: Plan) -> list[BaseMessage]:
    """Return what leaves the tail as the view has shown it; what no view shows, as it was said."""
    return [
        message
        for group in scene.tail[: planned.fold]
        for message in scene.shown(group) or group.source.messages
    ]


Compaction = Generator[SummaryRequest, str, MemoryState]


def _advance(steps: Compaction, answer: str | None) -> SummaryRequest | MemoryState:
    """Hand an answer to a compaction; return its next request, or the state that it ends with."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration as done:
        state: MemoryState = done.value
        return state
