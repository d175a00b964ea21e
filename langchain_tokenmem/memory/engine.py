"""The engine of a memory: its settings, and its decisions for one conversation."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Unpack

from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import CircuitBreaker
from langchain_tokenmem.core.argument_checks import as_budget, checked_overhead, described
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.chat_models import (
    ModelLimits,
    checked_model,
    limits_of_model,
    model_name,
    models_of,
    unwrap_model,
    window_of,
)
from langchain_tokenmem.core.context_parts import RequestCounter
from langchain_tokenmem.core.context_split import split_context
from langchain_tokenmem.core.explained_request import planned_change
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.core.inserted_text import with_text
from langchain_tokenmem.core.messages import READ_MESSAGE, role_of
from langchain_tokenmem.core.pins import with_pinned_text
from langchain_tokenmem.core.planning import Plan
from langchain_tokenmem.core.profiles import COMMON, LegalityProfile, profile_for, profile_of_model
from langchain_tokenmem.core.provider_format import (
    binds_reasoning,
    cache_marks_of,
    has_bound_reasoning,
)
from langchain_tokenmem.core.request_options import (
    RequestOptions,
    RequestRules,
    Steps,
    SummaryPolicy,
)
from langchain_tokenmem.core.session_settings import SessionSettings
from langchain_tokenmem.core.size_caps import request_tokens
from langchain_tokenmem.core.todos import todos_in, todos_text
from langchain_tokenmem.core.tool_calls import offers_tool
from langchain_tokenmem.core.view import View
from langchain_tokenmem.core.working_notes.mode_profiles import AnnotationSettings
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings
from langchain_tokenmem.core.working_recall import working_block
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.events import (
    EventSource,
    MemoryEvent,
    Moment,
    Reporter,
)
from langchain_tokenmem.memory.call_counts import with_known_counts, with_reports
from langchain_tokenmem.memory.compaction import Compaction, Summarize, redact_events
from langchain_tokenmem.memory.current_words import (
    CheckedMessages,
    checked_messages,
    with_current_words,
)
from langchain_tokenmem.memory.prepared_call import (
    PreparedCall,
    answers_in,
    is_continued,
    is_untouched,
    sent_request,
    with_sent,
)
from langchain_tokenmem.memory.working_notes import WorkingNotes, with_covered_notes
from langchain_tokenmem.notes.kept_notes import without_void_notes
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.summarize.base import Summarizer
from langchain_tokenmem.summarize.model import ATTEMPTS, COOL_DOWN_S
from langchain_tokenmem.tokens.counters import TokenCounter, counter_for


@dataclass(frozen=True)
class CalledModel:
    """What a memory needs to know about the called model.

    Attributes:
        name: Its name, or its class if it has none.
        counter: Counts its tokens.
        window: Its window, in tokens, or the smallest of all fallbacks; None if unknown.
        most_output: Its longest answer, in tokens; None if unknown.
        legality: Requirements of its provider for a list of messages.
        mixes: Whether a call may reach models of several vocabularies.
        model: The model itself: a summarizer that uses the same one can reuse its cached prefix.
        has_own_copy: Whether its provider goes on from a copy of the conversation.
    """

    name: str
    counter: TokenCounter
    window: int | None
    legality: LegalityProfile
    mixes: bool = False
    most_output: int | None = None
    model: Any = field(default=None, compare=False, repr=False)
    has_own_copy: bool = False

    @classmethod
    def of(
        cls, model: Any, *, nameless: str | None = None, models: ModelLimits | None = None
    ) -> CalledModel:
        """Return what is known about a chat model, or a runnable around one.

        Args:
            model: The chat model.
            nameless: Name of the model used to estimate counts for one without a name.
            models: Limits of models without a profile.
        """
        inner = unwrap_model(checked_model(model, "memory.for_model(model)"))
        most = limits_of_model(model, models).get("max_output_tokens")
        counters = {id(counter_for(one, nameless=nameless)) for one in models_of(model)}
        return cls(
            name=model_name(model) or type(inner).__name__,
            counter=counter_for(model, nameless=nameless),
            window=window_of(model, models),
            legality=profile_of_model(model),
            mixes=len(counters) > 1,
            most_output=most if isinstance(most, int) and most > 0 else None,
            model=model,
            has_own_copy=bool(getattr(inner, "use_previous_response_id", False)),
        )


@dataclass(frozen=True)
class Engine:
    """The settings by which a memory decides, and its decisions.

    Attributes:
        budget: Budget of every call without its own.
        summarizer: Writes running summaries.
        policy: When a summary is due.
        reporter: Reports events to callbacks and the log, and adds them up.
        warn_once: Logs a warning once.
        clock: Returns the current time, in UTC if it has no zone.
        counter: Counts tokens; None for the default of the budget's model.
        rules: Rules for the messages of every request.
        annotations: Settings of turn memory, working notes and times.
        models: Limits of models without a profile.
        follows_model: Whether the budget uses the called model's window, if known.
        called: The called model; None if unknown.
        source: The conversation that events are about; None if unknown.
        checked: Returns the messages of a conversation that were compared with its summary.
        pause: Pauses a slow summarizer that has no circuit breaker itself, after failures.
    """

    budget: TokenBudget
    summarizer: Summarizer
    policy: SummaryPolicy
    reporter: Reporter
    warn_once: Callable[[str], None]
    clock: Callable[[], datetime]
    counter: TokenCounter | None
    rules: RequestRules = field(default_factory=RequestRules)
    annotations: AnnotationSettings = field(default_factory=AnnotationSettings)
    models: ModelLimits | None = None
    follows_model: bool = False
    called: CalledModel | None = None
    source: EventSource | None = None
    checked: Callable[[Any], CheckedMessages] = field(default_factory=checked_messages)
    pause: CircuitBreaker = field(
        default_factory=lambda: CircuitBreaker(ATTEMPTS, COOL_DOWN_S, time.monotonic)
    )

    def for_model(self, model: Any) -> Engine:
        """Return the engine for calls of a chat model, with its rules, vocabulary and window."""
        called = CalledModel.of(model, nameless=self.budget.model, models=self.models)
        if not self.follows_model or called.window is None:
            return replace(self, called=called)
        budget = self.budget.in_window(called.window, called.most_output)
        return replace(self, called=called, budget=budget)

    def with_settings(
        self, settings: SessionSettings, summarizer_named: Callable[[str], Summarizer]
    ) -> Engine:
        """Return the engine with the settings of a session; warn of those that cannot be used.

        Args:
            settings: The settings of the session, over those of its user.
            summarizer_named: Returns the summarizer with a name.
        """
        engine = self
        if settings.budget is not None:
            engine = replace(engine, budget=settings.budget, follows_model=False)
        if settings.summarizer is not None:
            try:
                engine = replace(engine, summarizer=summarizer_named(settings.summarizer))
            except ConfigurationError as error:
                self.warn(f"its own summarizer is not used, {error}")
        if settings.mode is not None:
            try:
                mode = engine.annotations.mode_named(settings.mode)
                engine = replace(engine, annotations=replace(engine.annotations, mode=mode))
            except ConfigurationError as error:
                self.warn(f"its own mode is not used, {error}")
        if settings.enabled is False:
            off = AnnotationSettings(TurnMemorySettings(shown="never"), modes_on=False)
            engine = replace(engine, annotations=off, policy=SummaryPolicy(trigger=None))
        return engine

    def now(self) -> datetime:
        """Return the time of the clock, in UTC."""
        moment = self.clock()
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)

    def tell(self, moment: Moment, event: MemoryEvent) -> None:
        """Report an event of the conversation."""
        source = vars(self.source or EventSource())
        model = self.called.name if self.called else None
        self.reporter.tell(moment, replace(event, **{**source, "model": model}))

    def budget_for(self, budget: TokenBudget | None) -> TokenBudget:
        """Return the budget of a call, or the engine's own, within the called model's window."""
        asked = self.budget if budget is None else as_budget(budget) or self.budget
        window = self.called.window if self.called else None
        if window is None or window >= asked.context_window:
            return asked
        return asked.in_window(window)

    @property
    def label(self) -> str:
        """Name of the conversation in the log."""
        if self.source is None:
            return "A session"
        thread, session = self.source.thread, self.source.session
        if thread or session:
            return f"Thread {thread!r}" if thread else f"Session {session!r}"
        return "A conversation without a name"

    def warn(self, warning: str) -> None:
        """Log a warning once, under the conversation's name if that is known."""
        self.warn_once(f"{self.label}: {warning}" if self.source else warning)

    @property
    def breaker(self) -> CircuitBreaker:
        """The circuit breaker of the summarizer: its own, which it checks itself, or `pause`."""
        own = getattr(self.summarizer, "breaker", None)
        return own if isinstance(own, CircuitBreaker) else self.pause

    def counter_of(self, budget: TokenBudget) -> TokenCounter:
        """Return the counter for a budget."""
        if self.counter is not None:
            return self.counter
        return self.called.counter if self.called else counter_for(budget.model)

    def limit_of(self, options: RequestOptions) -> int:
        """Return the limit of a call, in tokens."""
        budget = self.budget_for(options.get("budget"))
        return budget.for_counts(exact=self.counter_of(budget).method == "exact").limit

    def prepare(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState,
        **options: Unpack[RequestOptions],
    ) -> PreparedCall:
        """Split a conversation into the parts of a request; keywords as in `RequestOptions`.

        Raises:
            TypeError: When a keyword is unknown.
        """
        if unknown := options.keys() - RequestOptions.__annotations__.keys():
            raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")
        rules, called, asked = self.rules, self.called, options.get("budget")
        messages = self.checked(messages).named(messages)
        budget = self.budget_for(asked)
        if asked is None and self.follows_model and not (called and called.window):
            self._warn_of_window()
        tokens = self.counter_of(budget)
        is_exact = tokens.method == "exact"
        budget = budget.for_counts(exact=is_exact)
        known = with_current_words(messages, state, tokens.text, self.checked(messages))
        on = self.annotations.mode_of(known.get("modes"), options.get("mode"))
        system, tools = options.get("system"), options.get("tools")
        if not isinstance(system, str | BaseMessage | None):
            raise ConfigurationError(f"system is {described(system)}; pass a text or a message.")
        if isinstance(tools, str) or not isinstance(tools, Collection | None):
            raise ConfigurationError(f"tools is {described(tools)}; pass a list of tools.")
        context = split_context(
            messages,
            known,
            RequestCounter(
                tokens.message,
                tools=tokens.tools(tools),
                overhead=checked_overhead(options.get("overhead_tokens", 0)),
            ),
            rules=rules,
            profile=self.profile_of(budget),
            reading=self.annotations.turns,
            system=system,
        )
        added, listed = on.system_text if on else "", options.get("todos")
        todos = None if listed is None else todos_in(listed)
        context = replace(
            context,
            system=with_text(context.system, added) if added else context.system,
            can_read=offers_tool(tools, READ_MESSAGE) if tools else False,
            overhead_messages=options.get("overhead_messages", 0),
            outer_marks=(
                cache_marks_of(tools, options.get("settings", {}))
                if context.profile.cache_marks
                else 0
            ),
            state_todos=None if todos is None else todos_text(todos),
        )
        if known.get("pins"):
            is_whole = system is not None or rules.summary_role == "system"
            context = with_pinned_text(context, known, budget, tokens.text, is_whole=is_whole)
        name = called.name if called else budget.model or ""
        call = PreparedCall(
            messages=messages,
            before=state,
            options=options,
            context=context,
            budget=budget,
            state=known,
            counter=tokens,
            model=name,
            is_called=called is not None,
            mode=on,
            trigger=self.policy.trigger if on is None or on.summarization else None,
        )
        mixes = called is not None and called.mixes and self.counter is None
        return call if is_exact or mixes else with_known_counts(call, self.counter)

    def prepare_again(self, call: PreparedCall, state: MemoryState) -> PreparedCall:
        """Return the same call under another state."""
        return self.prepare(call.messages, state, **call.options)

    def profile_of(self, budget: TokenBudget) -> LegalityProfile:
        """Return the requirements of the called model's provider."""
        if isinstance(self.rules.legality, LegalityProfile):
            return self.rules.legality
        if self.called is not None:
            return self.called.legality
        return profile_for(None, budget.model) if budget.model else COMMON

    def _warn_of_window(self) -> None:
        """Warn once that a call uses the default window because none is known."""
        self.warn_once(
            f"The context window of {self.called.name if self.called else 'the model'} is not "
            f"known; {self.budget.context_window:,} tokens are assumed. Give it, as "
            f"in TokenMemory(32_000), or name the model that is called: memory.for_model(model)."
        )

    def plan(self, call: PreparedCall) -> Plan:
        """Return what a compaction would do."""
        summarize = self.summarizer.summarize
        return Compaction(self, call, summarize).plan(call.context, force=False)[1]

    def explanation(self, call: PreparedCall) -> Explanation:
        """Return the request of a call, and what a compaction would do first."""
        call, view = self.sendable(call)
        return replace(view.explain(), planned=planned_change(call.context, self.plan(call)))

    def compaction(
        self,
        call: PreparedCall,
        summarize: Summarize,
        *,
        force: bool = False,
        instruction: str | None = None,
        steps: Steps | None = "all",
    ) -> tuple[PreparedCall, MemoryState]:
        """Do what the plan asks for; return the call before it, and the state after it.

        Args:
            call: The call.
            summarize: Calls the summarizer.
            force: As in `CompactionOptions`, and so are the others.
            instruction: Instruction for the summary.
            steps: Steps that may be taken; None for none: then only working notes are read.
        """
        prepared = call
        for event in redact_events(call.before, call.state) if call.state["summary"] else ():
            self.tell("end", event)
        notes, settings = None, self.annotations
        if call.mode or settings.mode or "modes" in call.state:  # one is on, or was
            asked, count = call.options.get("mode"), call.counter.text
            notes = WorkingNotes(settings, call.mode, asked, call.budget, count)
            if (switch := notes.event(call.context, call.state)) is not None:
                self.tell("end", switch)
            known = with_covered_notes(lambda: prepared.messages, call.state, settings, asked)
            context, known = notes.added(call.context, known)
            call = replace(call, context=context, state=known)
        if steps is None:
            return call, call.state
        new = Compaction(self, call, summarize, force, steps, instruction).run()
        if notes is not None:
            new = notes.after_fold(call.context, call.state, new)
        if new["blocks"]:
            new = without_void_notes(new, call.state)
        return call, with_reports(prepared.state, new, call)

    def request(self, call: PreparedCall, state: MemoryState) -> tuple[MemoryState, View]:
        """Return the state after a compaction, now with its request, and the view."""
        is_same = call.is_prepared_for(state)
        call = replace(call, state=state) if is_same else self.prepare_again(call, state)
        tail = call.context.tail
        if tail and role_of(tail[-1].source.messages[-1]) == "tool":
            call = self._with_lines(call)
        name, answers = call.model, answers_in(call.context)
        is_first = bool(call.context.tail) and not answers and call.state["summary"] is None
        # Whether a change of the prefix makes reasoning invalid, now or later.
        may_bind = binds_reasoning(name) if name else is_first
        if not may_bind and not any(map(has_bound_reasoning, answers)):
            return with_sent(call.state, None), call.view()
        call, view = self.sendable(call)
        before = call.state.get("sent")
        unbound_to = before["unbound_to"] if before else None
        sent = sent_request(view.messages, call.options.get("tools"), unbound_to)
        return with_sent(call.state, sent), view

    def sendable(self, call: PreparedCall) -> tuple[PreparedCall, View]:
        """Return the call and its view without reasoning bound to another prefix.

        Kept messages count in their original form: a cut hides their reasoning, but once a request
        is known they are shown without it.
        """
        view = call.view()
        kept = (message for group in call.context.kept for message in group.messages)
        if not any(map(has_bound_reasoning, [*view.messages, *kept])):
            return call, view
        is_known = binds_reasoning(call.model)
        is_new = not is_known and is_untouched(call.context, call.state)
        tools = call.options.get("tools")
        if is_new or is_continued(call.state.get("sent"), view.messages, tools):
            return call, view
        sent = sent_request((), None, call.context.last_id)
        call = self.prepare_again(call, {**call.state, "sent": sent})
        return call, call.view()

    def _with_lines(self, call: PreparedCall) -> PreparedCall:
        """Return the call with lines about what the newest messages name, if they fit.

        They are added to the newest tool result.
        """
        context, budget = call.context, call.budget
        most = min(budget.working_recall_tokens, budget.limit - request_tokens(context))
        found = working_block(context, call.messages, most, call.counter.text)
        if found is None:
            return call
        key, block = found
        longer = replace(context, blocks={**context.blocks, key: block})
        if request_tokens(longer) > budget.limit:
            return call
        state: MemoryState = {**call.state, "blocks": {**call.state["blocks"], key: block}}
        return replace(call, context=longer, state=state)
