"""`TokenMemory`: a token budget, a summarizer and a recall, used by every integration."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import (
    Closeable,
    TimedCalls,
    in_thread,
)
from langchain_tokenmem.core.argument_checks import (
    BeforeStore,
    as_budget,
    as_kept,
    as_messages,
    checked,
    checked_before_store,
    checked_parts,
    checked_seconds,
    described,
)
from langchain_tokenmem.core.budget import DEFAULT_CONTEXT_WINDOW, TokenBudget
from langchain_tokenmem.core.chat_models import ModelLimits, checked_limits
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.core.message_times import without_stamp
from langchain_tokenmem.core.planning import Plan
from langchain_tokenmem.core.request_options import (
    AnyTrigger,
    CompactionOptions,
    RequestOptions,
    RequestRules,
    SummaryPolicy,
    Trigger,
)
from langchain_tokenmem.core.session_settings import SessionSettings
from langchain_tokenmem.core.turn_memory import TurnMemoryShown, without_echo
from langchain_tokenmem.core.view import View
from langchain_tokenmem.core.working_notes.mode_profiles import (
    AnnotationSettings,
    ModeProfile,
    mode_named,
)
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.events import (
    EventSource,
    MemoryCallbacks,
    Reporter,
    checked_callbacks,
)
from langchain_tokenmem.memory.background import BackgroundSummaries, BackgroundSummarizer
from langchain_tokenmem.memory.call_counts import request_to_count
from langchain_tokenmem.memory.compaction import Summarize, summaries_by, with_async_summaries
from langchain_tokenmem.memory.engine import Engine
from langchain_tokenmem.memory.erasing import ErasableMemory
from langchain_tokenmem.memory.finished_summaries import FinishedSummaries
from langchain_tokenmem.memory.prepared_call import PreparedCall
from langchain_tokenmem.memory.recalled_blocks import Recaller
from langchain_tokenmem.memory.summary_log import EntrySources, sources_of
from langchain_tokenmem.state import MemoryState, SummaryEntry, load_state
from langchain_tokenmem.summarize.base import Summarizer
from langchain_tokenmem.summarize.coerce import AnySummarizer, as_summarizer
from langchain_tokenmem.tokens.counters import TokenCount, TokenCounter, checked_counter
from langchain_tokenmem.tokens.provider_counter import ProviderCounter

if TYPE_CHECKING:
    from langchain_tokenmem.notes.notebook import Notebook


class TokenMemory(ErasableMemory, Closeable):
    """Decides what a model call sees of a conversation, within a token budget.

    The transcript is never changed: `compact` returns a new state (a summary, a pointer, the
    shortened forms of old tool results) and `view` applies a state to the messages. One memory
    may serve any number of conversations, threads and event loops at once.

    Args:
        budget: The window and its thresholds; a number is a window, in tokens. Default: the window
            of each called model; if unknown, 16,384 with one warning.
        summarizer: Writes running summaries: a `Summarizer`, a chat model or its name, a
            runnable, a function `(messages, prior, instruction, max_tokens) -> text`. Default:
            the extractive one, which needs no model.
        models: `max_input_tokens` and `max_output_tokens` of called models without a profile, by
            name or pattern: no budget exceeds their window.
        counter: Counts tokens; default: by the called model, else `budget.model`.
        trigger: When a summary is due, in LangChain's form: `("fraction", 0.8)`,
            `("messages", 40)`, `{"tokens": 6_000, "messages": 10}` if both must be reached, or a
            list, any item of which is enough. A summary leaves about half of such a size. Default:
            the budget's `summarize_at`; None for never.
        request: Rules for the messages of every request: `RequestRules(pin_first=False)`.
        recall: Recalls old messages that match the newest question; None to turn it off.
        notes: Notebook of kept notes.
        mode: Mode of working notes, a `ModeProfile` or its name: `conversation`, `code` or
            `reasoning`. What the session is about is read from its messages and shown beside the
            newest question. None for no mode; a session can be switched to another one.
        modes: Custom profiles to which a session can be switched.
        turn_memory: Which turns show the files that they changed and the commands that failed:
            `when_hidden`, `always`, `never`, or `TurnMemorySettings`.
        callbacks: Callbacks for what the memory does: `MemoryCallbacks`.
        background: Make summaries after the reply, and let a call wait for one only at the hard
            limit; a quick summarizer runs in the call, except for a backlog of thousands of
            messages. Needs a session, or a graph with a thread. `BackgroundSummaries` sets limits.
        max_wait_s: Maximum total seconds that a turn waits for a summary, recall, notes,
            `before_store` and a locked database. It continues without what is not ready in time;
            only messages that could not be stored are an error.
        before_store: Changes messages before they are stored in a transcript, for example redacts
            them: takes and returns a list, the same number of messages with the same ids.
        now: Returns the time of a message without one, and of a summary, in UTC.

    Raises:
        ConfigurationError: When a setting is invalid.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> memory = TokenMemory(TokenBudget(context_window=8_000))
        >>> view = memory.view([HumanMessage("hi")], system="Be brief.")
        >>> [message.type for message in view.messages]
        ['system', 'human']
    """

    def __init__(
        self,
        budget: TokenBudget | int | None = None,
        *,
        summarizer: AnySummarizer | None = None,
        models: ModelLimits | None = None,
        counter: TokenCounter | None = None,
        trigger: AnyTrigger | Literal["auto"] | None = "auto",
        request: RequestRules | None = None,
        recall: Recaller | None = None,
        notes: Notebook | None = None,
        mode: ModeProfile | str | None = None,
        modes: Sequence[ModeProfile] = (),
        turn_memory: TurnMemorySettings | TurnMemoryShown = "when_hidden",
        callbacks: Sequence[MemoryCallbacks] = (),
        background: BackgroundSummaries | bool = True,
        max_wait_s: float = 30.0,
        before_store: BeforeStore | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.warn_once = lru_cache(maxsize=1_024)(logging.getLogger(__name__).warning)
        line = "request=RequestRules(pin_first=False)"
        rules = (
            RequestRules() if request is None else checked(request, RequestRules, "request", line)
        )
        due = Trigger.of(trigger)
        if rules.max_tail_messages is not None and due is None:
            raise ConfigurationError(
                "max_tail_messages folds messages into a summary, and trigger=None turns "
                "summaries off; leave one of them out."
            )
        if not callable(now):
            raise ConfigurationError(
                f"now is {described(now)}; pass a function: now=lambda: datetime.now(UTC)."
            )
        if not isinstance(turn_memory, TurnMemorySettings):
            turn_memory = TurnMemorySettings(shown=turn_memory)
        self.engine = Engine(
            budget=as_budget(budget) or TokenBudget(DEFAULT_CONTEXT_WINDOW),
            follows_model=budget is None,
            summarizer=as_summarizer(summarizer),
            policy=SummaryPolicy(trigger=due),
            reporter=Reporter(checked_callbacks(callbacks)),
            warn_once=self.warn_once,
            clock=now,
            models=checked_limits(models),
            counter=checked_counter(counter),
            rules=rules,
            annotations=AnnotationSettings(
                turns=turn_memory,
                mode=mode if isinstance(mode, ModeProfile | None) else mode_named(mode, own=modes),
                modes=tuple(modes),
            ),
        )
        if recall is not None:
            line = "TokenMemory(recall=Recall(store))"
            checked_parts(recall, ("search", "store"), "recall", line)
        if notes is not None:
            checked_parts(notes, ("scoped", "project"), "notes", "notes=Notebook(SqlStore(store))")
        self.notes = notes.with_before_store(before_store) if before_store and notes else notes
        self.before_store = checked_before_store(before_store)
        self.recall = recall
        self.catches_up = bool(background)
        self.background = self.catches_up and not self.summarizer.is_quick
        self.max_wait_s = checked_seconds("max_wait_s", max_wait_s)
        if isinstance(background, bool):
            limits = BackgroundSummaries()
        else:
            line = "background=BackgroundSummaries(timeout_s=60)"
            limits = checked(background, BackgroundSummaries, "background", line)
        self.background_summaries = BackgroundSummarizer(limits)
        self.summarizer_named = lru_cache(maxsize=64)(as_summarizer)
        self.finished_summaries = FinishedSummaries()
        self.recall_calls = TimedCalls("tokenmem-recall")
        self.summary_calls = TimedCalls("tokenmem-summary")
        self.notes_calls = TimedCalls("tokenmem-notes")
        self._before_store_calls = TimedCalls("tokenmem-before-store")

    def __repr__(self) -> str:
        parts = {"recall": self.recall, "notes": self.notes}
        given = "".join(f", {key}={part!r}" for key, part in parts.items() if part is not None)
        window = self.budget.context_window
        return f"TokenMemory({window}, summarizer={self.summarizer!r}{given})"

    @property
    def notes_in_blocks(self) -> Notebook | None:
        """Notebook whose matching notes are shown with a question, or None."""
        return self.notes if self.notes is not None and self.notes.in_requests else None

    @property
    def budget(self) -> TokenBudget:
        """The window and its thresholds, within the called model's own window."""
        return self.engine.budget_for(None)

    @property
    def summarizer(self) -> Summarizer:
        """Writer of running summaries."""
        return self.engine.summarizer

    def close(self) -> None:
        """Wait for the summaries that are being made, each at most `summary_timeout_s`."""
        self.background_summaries.wait()

    aclose = in_thread(close)

    def stored_form(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return messages as they are stored: changed by `before_store`, if there is one.

        Raises:
            ConfigurationError: When `before_store` returns other messages.
            StoreError: When `before_store` takes longer than `max_wait_s`.
        """
        if self.before_store is None:
            return list(messages)
        try:
            work = partial(as_kept, self.before_store, messages)
            return self._before_store_calls.run(work, self.max_wait_s)
        except TimeoutError as error:
            raise StoreError(
                f"before_store did not return ({error}); {len(messages)} messages were not stored. "
                f"Make it faster, or give it more time (max_wait_s=)."
            ) from error

    def without_copies(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return messages without times and memory blocks that a model has copied."""
        shows_times = self.engine.rules.show_times == "all"
        return [*map(without_echo, map(without_stamp, messages) if shows_times else messages)]

    def view(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[RequestOptions],
    ) -> View:
        """Return the request for the next model call. Pure: no I/O, the same for equal inputs.

        It fits even if `compact` was not called: then the oldest groups are left out, with one
        marker in their place and a warning.

        Args:
            messages: The conversation, oldest first; system messages may be in it.
            state: What was decided so far; None for nothing.
            options: Keywords `system`, `tools`, `budget` and others: see `RequestOptions`.

        Raises:
            BudgetExceededError: When the fixed parts alone exceed the limit.
        """
        return self.engine.sendable(self._call(messages, state, options))[1]

    def plan(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[RequestOptions],
    ) -> Plan:
        """Return what `compact` would do, without doing it. Pure; arguments as in `view`."""
        return self.engine.plan(self._call(messages, state, options))

    def compact(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[CompactionOptions],
    ) -> MemoryState:
        """Carry out the plan and return the new state; `state` itself if nothing was due.

        Lines about what the newest messages name may be recalled: the state then has their block.
        For a model whose reasoning is bound to its prefix, the state also records the request that
        is sent next, so it changes with every call.

        Args:
            messages: The conversation, oldest first.
            state: What was decided so far; None for nothing.
            options: Keywords `force`, `instruction`, `steps` and those of `view`: see
                `CompactionOptions`.

        Raises:
            BudgetExceededError: When the fixed parts alone exceed the limit.
            SummaryError: When the summarizer failed and has no fallback; then nothing is changed.
                After three failures in a row extracts are written instead, for a while.
        """
        return self.compact_and_view(messages, state, **options)[0]

    async def acompact(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[CompactionOptions],
    ) -> MemoryState:
        """Do the same as `compact` without blocking the event loop."""
        return (await self.acompact_and_view(messages, state, **options))[0]

    def compact_and_view(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[CompactionOptions],
    ) -> tuple[MemoryState, View]:
        """Do `compact` and `view` in one step, which parses the conversation only once."""
        return self._compacted(messages, state, options, summaries_by(self.summarizer))

    async def acompact_and_view(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[CompactionOptions],
    ) -> tuple[MemoryState, View]:
        """Do the same as `compact_and_view` without blocking the event loop."""
        work = partial(self._compacted, messages, state, options)
        return await with_async_summaries(self.summarizer, work)

    def _call(
        self, messages: Sequence[BaseMessage], state: MemoryState | None, options: RequestOptions
    ) -> PreparedCall:
        """Return a call by an application, whose state may be any value."""
        named = self.engine.checked(messages).named(messages)  # first, in case the two are swapped
        return self.engine.prepare(named, load_state(state), **options)

    def _compacted(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None,
        options: CompactionOptions,
        summarize: Summarize,
    ) -> tuple[MemoryState, View]:
        order: Any = {key: given for key, given in options.items() if key in _ORDERS}
        request: Any = {key: given for key, given in options.items() if key not in _ORDERS}
        call = self.counted(self._call(messages, state, request))
        return self.engine.request(*self.engine.compaction(call, summarize, **order))

    def compact_behind(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState,
        **options: Unpack[RequestOptions],
    ) -> MemoryState:
        """Compact in the background: other requests are sent before one under the new state."""
        call = self.counted(self.engine.prepare(messages, state, **options))
        return self.engine.compaction(call, summaries_by(self.summarizer))[1]

    def counted(self, call: PreparedCall) -> PreparedCall:
        """Return a call with its provider's count, which is waited for if it matters.

        Only a `ProviderCounter` asks; if there is no answer in time, the call is unchanged.
        """
        counter = self.engine.counter
        if not isinstance(counter, ProviderCounter):
            return call
        asked = request_to_count(call, counter)
        if asked is None or not counter.ask(*asked):
            return call
        return self.engine.prepare_again(call, call.before)

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of messages and tool schemas as one request."""
        return self.engine.counter_of(self.budget).count(as_messages(messages), tools=tools)

    def limit_of(self, options: RequestOptions) -> int:
        """Return the limit of a call, in tokens, from its keywords for `view`."""
        return self.engine.limit_of(options)

    def mode_of(self, state: MemoryState | None, asked: str | None = None) -> ModeProfile | None:
        """Return the current mode of a conversation, or None.

        Args:
            state: What was decided so far; None for nothing.
            asked: Name of the mode that a call asks for, empty for no mode; None for no change.

        Raises:
            ConfigurationError: When there is no mode with that name.
        """
        return self.engine.annotations.mode_of(load_state(state).get("modes"), asked)

    def explain(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState | None = None,
        **options: Unpack[RequestOptions],
    ) -> Explanation:
        """Return the next request, its parts, what it hides and why, and what `compact` would do.

        Nothing is called or changed. The request is that of `view`; arguments and errors as there.

        Example:
            >>> from langchain_core.messages import HumanMessage
            >>> print(TokenMemory(8_000).explain([HumanMessage("hi")]).hidden.left_out)
            0
        """
        return self.engine.explanation(self._call(messages, state, options))

    def sources(
        self,
        state: MemoryState,
        entry: SummaryEntry | str,
        messages: Sequence[BaseMessage] | None = None,
    ) -> EntrySources:
        """Return the messages that an entry of the running summary is about, line by line.

        Args:
            state: The state that has the entry.
            entry: The entry, or its id.
            messages: The conversation; if given, the sources contain the messages themselves.

        Raises:
            ConfigurationError: When the state has no such entry.
        """
        return sources_of(load_state(state), entry, messages and as_messages(messages))

    def for_model(self, model: Any, *, budget: TokenBudget | None = None) -> TokenMemory:
        """Return this memory for calls of a model; jobs, finished summaries and caches are shared.

        The model, a runnable around one, or a model's name determines what was not given: the
        provider's rules and the counter of the vocabulary. No budget of a call or a session exceeds
        its window, the smallest of all fallbacks. `budget` replaces this memory's own.
        """
        own = copy.copy(self)
        engine = self.engine
        if budget is not None:
            line = "memory.for_model(model, budget=TokenBudget(8_000))"
            given = checked(budget, TokenBudget, "budget", line)
            engine = replace(engine, budget=given, follows_model=False)
        own.engine = engine.for_model(model)
        return own

    def following_model(self) -> TokenMemory:
        """Return this memory with the window of each called model instead of its own.

        If the window of a model is unknown, the memory's own is used, and a warning is logged once.
        """
        own = copy.copy(self)
        own.engine = replace(self.engine, follows_model=True)
        return own

    def stats(self) -> dict[str, dict[str, float]]:
        """Return what this memory has done since it was created, in all conversations.

        Returns:
            For each kind of `MemoryEvent`, the number of `events` and of `errors`, and the sums of
            the events' figures: tokens before and after, seconds, the summarizer's calls, tokens
            and cost.
        """
        return self.engine.reporter.totals()

    def in_conversation(self, source: EventSource) -> TokenMemory:
        """Return this memory with the conversation that its events are about."""
        own = copy.copy(self)
        own.engine = replace(self.engine, source=source)
        return own

    def with_settings(self, settings: SessionSettings) -> TokenMemory:
        """Return this memory with the settings of a session; jobs and caches are shared.

        If a mode or a summarizer is unavailable, a warning is logged once and the memory's is used.
        """
        if settings == SessionSettings():
            return self
        own = copy.copy(self)
        own.engine = self.engine.with_settings(settings, self.summarizer_named)
        if settings.enabled is False:
            own.recall = own.notes = None
            own.catches_up = False
        own.background = own.catches_up and not own.summarizer.is_quick
        return own


_ORDERS = CompactionOptions.__annotations__.keys() - RequestOptions.__annotations__.keys()
"""Options of a compaction that are not options of the request."""
