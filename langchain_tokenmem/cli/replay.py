"""Replay of a recorded conversation through the memory, with a measurement of every call.

Before every recorded answer of the model there was one model call, with everything before it;
replay asks the memory for the request of that call and looks at it from outside.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from langchain_tokenmem.cli.audit import audit
from langchain_tokenmem.cli.prefix import is_prefix, shared_tokens
from langchain_tokenmem.cli.reference_counter import ReferenceCounter, reference_counter, wire_text
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.shortening import apply_cut
from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState, new_state


@dataclass(frozen=True)
class CallReport:
    """One model call.

    Attributes:
        place: Place in the recording of the answer that the call gave.
        tokens: Tokens of the request, counted outside.
        limit: Most tokens that the memory promised.
        whole: Tokens of the request if everything had been sent.
        cached: Tokens at the request's beginning that the former request began with, too.
        cacheable: The same, if everything had been sent every time.
        keeps_prefix: Whether the request begins with all of the former one.
        declared: Whether the memory said, by its state, that earlier bytes would change.
        compacted: Whether messages were shortened before this call.
        summarized: Whether the running summary was written before this call.
        fill: Tokens, as a share of the window, that the summary of this call started from.
        seconds: The memory's own time, compacting and viewing.
        faults: What the audit found.
        warnings: What the memory itself warned of.
    """

    place: int
    tokens: int
    limit: int
    whole: int
    cached: int
    cacheable: int
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
        name: Which one.
        messages: How many messages the recording has.
        window: Tokens that a request may have, answer included.
        calls: Every model call, in order.
        verbatim: Messages of the recording that the last request holds unchanged.
        shown: Messages of the recording that were said before the last request.
        new_tokens: Tokens of everything that was said, counted once.
        allowance: Changes of the prefix that the promise allows.
        fixed_tokens: Tokens of system messages and tools, which no memory can shrink.
        budget_exceeded: What the memory said when the fixed parts exceeded its limit.
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
        """Number of requests that did not begin with all of the former one."""
        return sum(not call.keeps_prefix for call in self.calls)


def _faults_of(call: CallReport) -> list[str]:
    over = f"{call.tokens} tokens, limit {call.limit}"
    return [*call.faults, *([over] if call.tokens > call.limit else [])]


@dataclass(frozen=True)
class _ReplaySetup:
    """Parts that stay the same through one conversation."""

    memory: TokenMemory
    counter: ReferenceCounter
    tools: Sequence[Mapping[str, Any]]


@dataclass
class _ReplayState:
    """Values that are carried from one call to the next."""

    state: MemoryState = field(default_factory=new_state)
    request: Sequence[BaseMessage] = ()
    history: Sequence[BaseMessage] = ()
    calls: list[CallReport] = field(default_factory=list)


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
        counter: Counts the requests outside of the memory; give the same one again to spare it
            texts that it knows. Default: an exact one for the budget's model.
        tools: Tool schemas in every request.
        name: Name of the conversation in the report.

    Returns:
        Every call, measured. Of a conversation whose fixed parts exceed the limit, the calls
        before that and what the memory said.
    """
    counter = counter or reference_counter(memory.budget.model)
    measured = _ReplaySetup(memory, counter, tuple(tools or ()))
    played = _ReplayState()
    refused: str | None = None
    try:
        for place, message in enumerate(messages):
            if isinstance(message, AIMessage) and _has_conversation(messages[:place]):
                _play_call(played, messages[:place], measured)
    except BudgetExceededError as error:
        refused = str(error)
    budget = memory.budget
    new = counter.messages(played.history)
    verbatim = {wire_text(message) for message in played.request}
    system = (message for message in messages if isinstance(message, SystemMessage))
    return ConversationReport(
        name=name,
        messages=len(messages),
        window=budget.context_window,
        calls=tuple(played.calls),
        verbatim=sum(wire_text(message) in verbatim for message in played.history),
        shown=len(played.history),
        new_tokens=new,
        allowance=allowance(new, budget),
        fixed_tokens=counter.request(system, tools or ()),
        budget_exceeded=refused,
    )


def allowance(new_tokens: int, budget: TokenBudget) -> float:
    """Return how many changes of the prefix the promise allows for so many new tokens.

    One, and one more for every half of the room between `target` and `summarize_at` that was
    filled: each change has to buy at least half of what it could.
    """
    room = (budget.summarize_at - budget.target) * budget.context_window
    return 1 + new_tokens / (0.5 * room)


def _has_conversation(history: Sequence[BaseMessage]) -> bool:
    return any(not isinstance(message, SystemMessage) for message in history)


def _play_call(
    played: _ReplayState, history: Sequence[BaseMessage], measured: _ReplaySetup
) -> None:
    memory, counter, tools = measured.memory, measured.counter, measured.tools
    former = played.state
    given: RequestOptions = {"tools": list(tools)} if tools else {}
    started = time.perf_counter()
    state = memory.compact(history, former, **given)
    view = memory.view(history, state, **given)
    seconds = time.perf_counter() - started
    request = view.messages
    outside = counter.tools(tools)
    summarized = state["summary"] != former["summary"]
    call = CallReport(
        place=len(history),
        tokens=counter.request(request, tools),
        limit=view.usage.max_tokens,
        whole=counter.request(history, tools),
        cached=_with_tools(shared_tokens(played.request, request, counter), outside),
        cacheable=_with_tools(counter.messages(played.history), outside),
        keeps_prefix=is_prefix(played.request, request),
        declared=state is not former and _changes_sent_bytes(former, state, played.history),
        compacted=any(former["cuts"].get(key) != cut for key, cut in state["cuts"].items()),
        summarized=summarized,
        fill=_fill(history, former, state, measured) if summarized else None,
        seconds=seconds,
        faults=tuple(audit(history, request)),
        warnings=tuple(view.warnings),
    )
    played.calls.append(call)
    played.state, played.request, played.history = state, request, history


def _with_tools(tokens: int, tools: int) -> int:
    """Tool schemas stand before everything else: cached as soon as anything is."""
    return tokens + tools if tokens else 0


def _changes_sent_bytes(
    former: MemoryState, state: MemoryState, shown: Sequence[BaseMessage]
) -> bool:
    """Return whether a change of the state changes bytes that were already sent."""
    if former["summary"] != state["summary"]:
        return True
    old, new = former["cuts"], state["cuts"]
    return any(old.get(message.id or "") != new.get(message.id or "") for message in shown)


def _fill(
    history: Sequence[BaseMessage],
    former: MemoryState,
    state: MemoryState,
    measured: _ReplaySetup,
) -> float | None:
    """Return how full the window would have been without the conversation's first summary.

    The request as it stood after the cheap step: everything said, with the cuts that were made
    by then; a later summary starts from an earlier one, and that is not asked here.
    """
    if former["summary"] is not None:
        return None
    cuts = {**former["cuts"], **state["cuts"]}
    shown = [apply_cut(one, cuts[one.id]) if one.id in cuts else one for one in history]
    tokens = measured.counter.request(shown, measured.tools)
    return tokens / measured.memory.budget.context_window
