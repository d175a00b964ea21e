"""Replay of recorded conversations through the memory: every call measured.

Before every recorded answer of the model there was one model call, with everything before it;
replay asks the memory for the request of that call and looks at it from outside.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_tokenmem.adapters.importing import is_database, sessions_in_file
from langchain_tokenmem.cli.audit import audit, is_system
from langchain_tokenmem.cli.measures import (
    MessageTexts,
    ReferenceCounter,
    are_whole,
    far_literals,
    held_literals,
    needed_literals,
    price,
    reference_counter,
    sent_again,
)
from langchain_tokenmem.cli.terminal import shown_name
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.shortening import apply_cut
from langchain_tokenmem.core.tool_calls import uniform_calls
from langchain_tokenmem.errors import BudgetExceededError, ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import Cut, MemoryState, new_state


@dataclass(frozen=True)
class RecordedConversation:
    """One recorded conversation.

    Attributes:
        name: The recording's own id, or its place in the file.
        messages: The messages, oldest first; ids `m0`, `m1`, ... by place.
        tools: Tool schemas of every request, in OpenAI's format.
    """

    name: str
    messages: tuple[BaseMessage, ...]
    tools: tuple[dict[str, Any], ...] = ()


def load_conversations(source: Path | str) -> list[RecordedConversation]:
    """Read every conversation of a store, an export, or a file that `tokenmem import` reads.

    Args:
        source: URL or SQLite file of a store, of a checkpointer or of chat histories; an export;
            JSON Lines, or one JSON value.

    Raises:
        HistoryImportError: When a file contains something else; the error names the place.
        ConfigurationError: When a database does, or a recording has no messages.
        OSError: When it cannot be read.

    Example:
        >>> load_conversations(Path("examples/recorded_agent.jsonl"))[0].name  # doctest: +SKIP
        'recorded-agent'
    """
    recorded = []
    if not is_database(str(source)):
        for number, session in enumerate(sessions_in_file(Path(source)), 1):
            if session.lines is not None:  # an export
                break
            name = session.name or f"conversation {number}"
            messages = numbered(one.message for one in session.messages)
            if not messages:
                raise ConfigurationError(f"{source}: {name} has no messages.")
            recorded.append(RecordedConversation(name, messages, session.tools))
        else:
            return recorded
    # It needs the extra `cli`, which the demo does not have.
    from langchain_tokenmem.cli.stored_sessions import opened  # noqa: PLC0415

    with opened(str(source)) as found:
        return [
            RecordedConversation(shown_name(name), numbered(row.message for row in rows))
            for name in found.store.sessions()
            if (rows := found.rows(name))
        ]


def numbered(messages: Iterable[BaseMessage]) -> tuple[BaseMessage, ...]:
    """Return messages with ids `m0`, `m1`, ... by place, without what only their source needs.

    A legacy `function_call` and its result become a tool call and its result, as in a request.
    """
    found = [
        message.model_copy(update={"id": f"m{place}"}) for place, message in enumerate(messages)
    ]
    if any("function_call" in message.additional_kwargs for message in found):
        found = uniform_calls(found)
    return tuple(message.model_copy(update={"additional_kwargs": {}}) for message in found)


@dataclass(frozen=True)
class CallReport:
    """One model call.

    Attributes:
        place: Place in the recording of the answer that the call gave.
        tokens: Tokens of the request, counted outside.
        limit: Maximum tokens that the memory promised.
        whole: Tokens of the request if everything had been sent.
        cached: Tokens at the request's beginning that the previous request also began with.
        cacheable: The same, if everything had been sent every time.
        price: Price under prompt caching, in tokens at full price; see `cli.measures`.
        whole_price: The same, if everything had been sent every time.
        new: Tokens of the messages since the previous request.
        sent_again: Tokens at full price that are not new.
        coverage: Share of the recorded answer's literals that the request holds; None without any.
            See `cli.measures`.
        far: The same for those outside the newest part of the window.
        fresh_whole: Whether all new tool results are uncut; None without any.
        keeps_prefix: Whether the request begins with all of the previous one.
        declared: Whether the memory's state says that bytes sent before have changed.
        compacted: Whether messages were shortened before this call.
        summarized: Whether the running summary was written before this call.
        fill: Tokens, as a share of the window, that the summary of this call started from.
        seconds: The memory's own time, compacting and viewing.
        faults: Faults that the audit found.
        warnings: Warnings of the memory itself.
    """

    place: int
    tokens: int
    limit: int
    whole: int
    cached: int
    cacheable: int
    price: float
    whole_price: float
    new: int
    sent_again: int
    coverage: float | None
    far: float | None
    fresh_whole: bool | None
    keeps_prefix: bool
    declared: bool
    compacted: bool
    summarized: bool
    fill: float | None
    seconds: float
    faults: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ConversationReport:
    """One conversation, played from its beginning to its end.

    Attributes:
        name: Name of the conversation.
        messages: How many messages the recording has.
        window: Tokens that a request may have, answer included.
        calls: Every model call, in order.
        verbatim: Messages of the recording that are unchanged in the last request.
        shown: Messages of the recording before the last request.
        new_tokens: Tokens of all messages before the last request, counted once.
        allowance: Changes of the prefix that the promise allows.
        fixed_tokens: Tokens of system messages and tools, which no memory can shrink.
        budget_exceeded: The memory's error if the fixed parts exceeded its limit.
    """

    name: str
    messages: int
    window: int
    calls: tuple[CallReport, ...]
    verbatim: int
    shown: int
    new_tokens: int
    allowance: float
    fixed_tokens: int
    budget_exceeded: str | None = None

    @property
    def faults(self) -> list[str]:
        """Faults of all calls, each with its place in the recording."""
        return [
            f"before m{call.place}: {fault}" for call in self.calls for fault in _faults_of(call)
        ]

    @property
    def prefix_changes(self) -> int:
        """Number of requests that did not begin with all of the previous one."""
        return sum(not call.keeps_prefix for call in self.calls)


def _faults_of(call: CallReport) -> list[str]:
    over = f"{call.tokens} tokens, limit {call.limit}"
    return [*call.faults, *([over] if call.tokens > call.limit else [])]


def replay_conversation(
    messages: Sequence[BaseMessage],
    *,
    memory: TokenMemory,
    counter: ReferenceCounter | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    name: str = "conversation",
) -> ConversationReport:
    """Play one conversation through a memory.

    Args:
        messages: The recording, with ids, oldest first.
        memory: The memory under test.
        counter: Counts the requests outside of the memory; give the same one again so that no text
            is counted twice. Default: an exact one for the budget's model.
        tools: Tool schemas in every request.
        name: Name of the conversation in the report.

    Returns:
        Every call, measured. For a conversation whose fixed parts exceed the limit, the calls
        before that and the memory's error.
    """
    budget = memory.budget
    counted = counter or reference_counter(budget.model)
    replay = _Replay(memory, counted, tuple(tools or ()), MessageTexts(counted))
    budget_exceeded: str | None = None
    try:
        for place in lengths_at_calls(messages):
            replay.call(messages[:place], messages[place])
    except BudgetExceededError as error:
        budget_exceeded = str(error)
    new = replay.counter.messages(replay.history)
    sent = {replay.texts.sent(message) for message in replay.request}
    return ConversationReport(
        name=name,
        messages=len(messages),
        window=budget.context_window,
        calls=tuple(replay.calls),
        verbatim=sum(replay.texts.sent(message) in sent for message in replay.history),
        shown=len(replay.history),
        new_tokens=new,
        allowance=allowance(new, budget),
        fixed_tokens=replay.counter.request(filter(is_system, messages), replay.tools),
        budget_exceeded=budget_exceeded,
    )


def lengths_at_calls(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the lengths of the history at each recorded model call."""
    first = next((n for n, m in enumerate(messages) if not is_system(m)), 0)
    return [n for n, m in enumerate(messages) if n > first and isinstance(m, AIMessage)]


def allowance(new_tokens: int, budget: TokenBudget) -> float:
    """Return how many changes of the prefix the promise allows for so many new tokens.

    One, and one more for every half of the room between `target` and `summarize_at` that was
    filled: each change must gain at least half of what it could.
    """
    room = (budget.summarize_at - budget.target) * budget.context_window
    return 1 + new_tokens / (0.5 * room)


@dataclass
class _Replay:
    """A conversation that is being played, with the values carried from one call to the next."""

    memory: TokenMemory
    counter: ReferenceCounter
    tools: Sequence[Mapping[str, Any]]
    texts: MessageTexts
    state: MemoryState = field(default_factory=new_state)
    request: Sequence[BaseMessage] = ()
    history: Sequence[BaseMessage] = ()
    calls: list[CallReport] = field(default_factory=list)

    def call(self, history: Sequence[BaseMessage], action: BaseMessage) -> None:
        """Ask the memory for the request of one model call, and measure it.

        Args:
            history: The messages so far.
            action: What the model answered in the recording.
        """
        counter, tools, former = self.counter, self.tools, self.state
        options: RequestOptions = {"tools": list(tools)} if tools else {}
        started = time.perf_counter()
        state = self.memory.compact(history, former, **options)
        view = self.memory.view(history, state, **options)
        seconds = time.perf_counter() - started
        summarized = state["summary"] != former["summary"]
        old, new = former["cuts"], state["cuts"]
        changed_cuts = {key for key in old | new if old.get(key) != new.get(key)}
        call = CallReport(
            place=len(history),
            tokens=counter.request(view.messages, tools),
            limit=view.usage.max_tokens,
            whole=counter.request(history, tools),
            **self._priced(history, view.messages),
            **self._known(history, view.messages, action),
            declared=summarized or any(message.id in changed_cuts for message in self.history),
            compacted=not changed_cuts.isdisjoint(new),
            summarized=summarized,
            fill=self._fill(history, old) if summarized and not former["summary"] else None,
            seconds=seconds,
            faults=tuple(audit(history, view.messages)),
            warnings=tuple(view.warnings),
        )
        self.calls.append(call)
        self.state, self.request, self.history = state, view.messages, history

    def _with_tools(self, tokens: int) -> int:
        """Add the tool schemas, which come first: cached as soon as anything is."""
        return tokens + self.counter.tools(self.tools) if tokens else 0

    def _priced(
        self, history: Sequence[BaseMessage], request: Sequence[BaseMessage]
    ) -> dict[str, Any]:
        """Return what the request costs, as fields of the report."""
        texts, tools = self.texts, self.counter.tools(self.tools)
        tokens, whole = texts.tokens(request) + tools, texts.tokens(history) + tools
        shared, _, keeps_prefix = texts.shared(self.request, request)
        cached = self._with_tools(shared)
        cacheable = self._with_tools(texts.tokens(self.history))
        new = whole - cacheable
        return {
            "cached": cached,
            "cacheable": cacheable,
            "price": price(tokens, cached),
            "whole_price": price(whole, cacheable),
            "new": new,
            "sent_again": sent_again(tokens, cached, new),
            "keeps_prefix": keeps_prefix,
        }

    def _known(
        self,
        history: Sequence[BaseMessage],
        request: Sequence[BaseMessage],
        action: BaseMessage,
    ) -> dict[str, Any]:
        """Return what the request contains for its answer, as fields of the report."""
        texts, window = self.texts, self.memory.budget.context_window
        needed = needed_literals(texts, history, action)
        is_over = self.counter.request(request, self.tools) > window
        held = set(() if is_over else held_literals(texts, request, needed))
        far = far_literals(texts, history, needed, window)
        fresh = [m for m in history[len(self.history) :] if isinstance(m, ToolMessage)]
        return {
            "coverage": len(held) / len(needed) if needed else None,
            "far": sum(one in held for one in far) / len(far) if far else None,
            "fresh_whole": are_whole(fresh, request) if fresh else None,
        }

    def _fill(self, history: Sequence[BaseMessage], cuts: Mapping[Any, Cut]) -> float:
        """Return how full the window would have been without the conversation's first summary.

        All messages, with the cuts that were made before. A later summary starts from an earlier
        one, which is not measured here.
        """
        shown = [apply_cut(one, cuts[one.id]) if one.id in cuts else one for one in history]
        return self.counter.request(shown, self.tools) / self.memory.budget.context_window
