"""`MemoryDecisions`: the calls of a memory that plan, compact and view a conversation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Unpack

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.planning import Plan
from langchain_tokenmem.core.request_options import CompactionOptions, RequestOptions
from langchain_tokenmem.core.view import Explanation, View
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.memory.drivers import Work, arun, run
from langchain_tokenmem.memory.engine import Engine
from langchain_tokenmem.memory.provider_counts import CountQuestion
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.summarize.base import Summarizer
from langchain_tokenmem.tokens.base import TokenCount, TokenCounter
from langchain_tokenmem.tokens.provider_counter import ProviderCounter

T = TypeVar("T")


class MemoryDecisions:
    """Decisions on one conversation at a time, sync and async, by the settings of an engine.

    Attributes:
        engine: The settings by which the memory decides.
    """

    engine: Engine

    @property
    def budget(self) -> TokenBudget:
        """The window and its thresholds, within the called model's own window."""
        return self.engine.budget_for(None)

    @property
    def summarizer(self) -> Summarizer:
        """Writer of running summaries."""
        return self.engine.summarizer

    def view(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[RequestOptions],
    ) -> View:
        """Return the request for the next model call. Pure: no I/O, the same for equal inputs.

        It fits even where `compact` has not run: then the oldest groups are left out, with one
        marker in their place and a warning.

        Args:
            messages: The conversation, oldest first; system messages may stand in it.
            state: What was decided so far; None for nothing.
            options: Keywords `system`, `tools`, `budget` and others: see `RequestOptions`.

        Raises:
            BudgetExceededError: When the fixed parts alone exceed the limit.
        """
        return self.engine.view(messages, state, **options)

    def plan(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[RequestOptions],
    ) -> Plan:
        """Return what `compact` would do, without doing it. Pure; arguments as for `view`."""
        return self.engine.plan(self.engine.prepare(messages, state, **options))

    def compact(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[CompactionOptions],
    ) -> MemoryState:
        """Do what the plan asks for, and return the new state; `state` itself if nothing was due.

        For a model whose reasoning is bound to its prefix the state also knows the request that is
        sent next, so it changes with every call.

        Args:
            messages: The conversation, oldest first.
            state: What was decided so far; None for nothing.
            options: Keywords `force`, `instruction`, `steps` and those of `view`: see
                `CompactionOptions`.

        Raises:
            BudgetExceededError: When the fixed parts alone exceed the limit.
            SummaryError: When the summarizer failed and has no fallback; nothing is changed then.
        """
        work = self._after_asking(self.engine.compaction_to_send, messages, state, options)
        return run(work, self.summarizer)

    def compact_behind(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState,
        **options: Unpack[CompactionOptions],
    ) -> MemoryState:
        """Do the same in the background: other requests are sent before one under the new state."""
        work = self._after_asking(self.engine.compaction, messages, state, options)
        return run(work, self.summarizer)

    async def acompact(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[CompactionOptions],
    ) -> MemoryState:
        """Do the same as `compact` without blocking the event loop."""
        work = self._after_asking(self.engine.compaction_to_send, messages, state, options)
        return await arun(work, self.summarizer)

    def compact_and_view(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[CompactionOptions],
    ) -> tuple[MemoryState, View]:
        """Do `compact` and `view` in one go, which parses the conversation only once."""
        work = self._after_asking(self.engine.compaction_and_view, messages, state, options)
        return run(work, self.summarizer)

    async def acompact_and_view(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[CompactionOptions],
    ) -> tuple[MemoryState, View]:
        """Do the same as `compact_and_view` without blocking the event loop."""
        work = self._after_asking(self.engine.compaction_and_view, messages, state, options)
        return await arun(work, self.summarizer)

    def ask_provider(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        until: float = math.inf,
        **options: Unpack[RequestOptions],
    ) -> Work[None]:
        """Ask the provider for the size of a request, where that decides something.

        What is decided next about the same request knows the answer. Only a `ProviderCounter` asks.

        Args:
            messages: The conversation, oldest first.
            state: What was decided so far; None for nothing.
            until: Time at which the call goes on without it, by `time.monotonic`, in seconds.
            options: As for `view`.
        """
        counter = self.engine.counter
        if isinstance(counter, ProviderCounter) and counter.asks:
            call = self.engine.prepare(messages, state, **options)
            question = CountQuestion.of(call, counter, options.get("tools"))
            if question is not None:
                yield from question.ask(until)

    def _after_asking(
        self,
        work: Callable[..., Work[T]],
        messages: Sequence[BaseMessage],
        state: MemoryState | None,
        options: CompactionOptions,
    ) -> Work[T]:
        around: Any = {
            key: options.get(key) for key in RequestOptions.__annotations__ if key in options
        }
        yield from self.ask_provider(messages, state, **around)
        return (yield from work(messages, state, **options))

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of messages and tool schemas as one request."""
        return self.counter_of(self.budget).count(as_messages(messages), tools=tools)

    def counter_of(self, budget: TokenBudget) -> TokenCounter:
        """Return the counter that this memory uses under a budget."""
        return self.engine.counter_of(budget)

    def limit_of(self, options: RequestOptions) -> int:
        """Return the limit of a call, in tokens, from its keywords for `view`."""
        return self.engine.limit_of(options)

    def mode_of(self, state: MemoryState | None, asked: str | None = None) -> ModeProfile | None:
        """Return the mode that is on in a conversation; None for none.

        Args:
            state: What was decided so far; None for nothing.
            asked: Name of the mode that a call asks for, empty for none; None for no change.

        Raises:
            ConfigurationError: When there is no mode of the name that is asked for.
        """
        return self.engine.annotations.mode_of(load_state(state).get("modes"), asked)

    def explain(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[RequestOptions],
    ) -> Explanation:
        """Return the exact list of the next model call, its parts, and what `compact` would do.

        Nothing is called or changed. The list is that of `view`; arguments and errors as there.
        """
        return self.engine.explanation(messages, state, **options)
