"""The model calls of a session: what each request held, what it hid, and what changed before it.

The states of a graph's thread are in its checkpoints; for any other session the calls are replayed
through a memory, and the page and the commands say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.measures import ReferenceCounter, reference_counter, written_calls
from langchain_tokenmem.cli.replay import lengths_at_calls
from langchain_tokenmem.cli.stored_sessions import StoredSessions, state_in
from langchain_tokenmem.core.block_types import blocks_of
from langchain_tokenmem.core.explained_request import change_between
from langchain_tokenmem.core.inserted_text import FENCES, LOG_INTRODUCTION, SUMMARY_FENCE
from langchain_tokenmem.core.messages import (
    block_text,
    marks_of,
    reference,
    role_of,
    text_of,
)
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.view import View
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import Block, ChangeMade, MemoryState, SummaryEntry, new_state
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer
from langchain_tokenmem.turns.stored_session import with_time

PARTS = ("system", "tools", "pinned", "summary", "memory_block", "tail")
"""Parts of a request, in the order in which a chart stacks them."""
_INSERTED = re.compile(rf"<({FENCES})[ >].*?</\1>\s*", re.DOTALL)
_REFERENCE = re.compile(r"\b[0-9a-f]{6,32}\b")
_IN_CHECKPOINTS = "read from the checkpoints; system text and tools of the agent are not in them"
_PLAYED = "played again"
_PLAYED_WITHOUT = "played again, without the model that wrote its summaries"


@dataclass(frozen=True)
class Call:
    """One model call.

    Attributes:
        number: From 1.
        history: The conversation before it.
        state: The memory's state that its request was made under.
        view: Its request.
        is_next: Whether it is the call that would come next, not one that was made.
    """

    number: int
    history: Sequence[BaseMessage]
    state: MemoryState
    view: View
    is_next: bool = False


@dataclass(frozen=True)
class CallFacts:
    """What a call held and what was decided before it, as plain values.

    Attributes:
        number: From 1.
        tokens: Tokens of the request.
        limit: Maximum tokens of it.
        whole: Tokens of all messages before it, if everything were sent.
        parts: Tokens by part: system, tools, pinned, summary, memory_block, tail.
        items: The request part by part: role, kind, text, tokens, and the place of the message
            in the transcript.
        summarized: For each entry of the summary the places of its first and last message.
        change: What changed since the call before, as a text; empty if messages were only added.
        warnings: Warnings of the view.
        is_next: Whether it is the call that would come next.
    """

    number: int
    tokens: int
    limit: int
    whole: int
    parts: Mapping[str, int]
    items: Sequence[Mapping[str, Any]]
    summarized: Sequence[Mapping[str, int]]
    change: str
    warnings: Sequence[str]
    is_next: bool


@dataclass(frozen=True)
class SessionCalls:
    """The calls of one session.

    Attributes:
        messages: The transcript.
        calls: The calls in order; the last one is the one that would come next.
        budget: The budget of the requests.
        origin: Where the calls come from, as a text.
        counter: Counts texts and messages, each once.
    """

    messages: Sequence[BaseMessage]
    calls: Sequence[Call]
    budget: TokenBudget
    origin: str
    counter: ReferenceCounter = field(default_factory=reference_counter)

    def call(self, number: int | None) -> Call:
        """Return a call by its number; None for the one that would come next.

        Raises:
            ConfigurationError: When there is no such call.
        """
        if not self.calls:
            raise ConfigurationError("The session has no messages, so there is no call.")
        if number is None:
            return self.calls[-1]
        if not 1 <= number <= len(self.calls):
            last = len(self.calls)
            raise ConfigurationError(
                f"There is no call {number}; there are 1 to {last}, where {last} would come next."
            )
        return self.calls[number - 1]

    @cached_property
    def counts(self) -> list[int]:
        """Tokens of each message of the transcript."""
        return [*map(self.counter.message, self.messages)]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {reference(m.id): place for place, m in enumerate(self.messages)}

    @cached_property
    def _by_id(self) -> dict[str | None, int]:
        return {m.id: place for place, m in enumerate(self.messages)}

    def facts(self, call: Call) -> CallFacts:
        """Return what a call held and what was decided before it."""
        usage, state = call.view.usage, call.state
        before = self.calls[call.number - 2].state if call.number > 1 else new_state()
        entries = state["summary"]["entries"] if state["summary"] else []
        whole = sum(self.counts[self._by_id[m.id]] for m in call.history if m.id in self._by_id)
        return CallFacts(
            number=call.number,
            tokens=usage.input_tokens,
            limit=usage.max_tokens,
            whole=whole + usage.parts["tools"],
            parts={name: usage.parts.get(name, 0) for name in PARTS},
            items=[*self._items(call.view, state)],
            summarized=self._summarized(entries),
            change=str(change_between(before, state) or ""),
            warnings=call.view.warnings,
            is_next=call.is_next,
        )

    def _is_cut(self, message: BaseMessage, place: int) -> bool:
        """Return whether a message is shown shortened."""
        original = text_of(self.messages[place])
        return bool(marks_of(message).get("cut")) and original not in text_of(message)

    def _summarized(self, entries: Sequence[SummaryEntry]) -> list[dict[str, int]]:
        start, found = 0, []
        for entry in entries:
            ends = [self._by_id[key] + 1 for key in entry["last_ids"] if key in self._by_id]
            end = max(ends, default=start)
            found.append({"first": start, "last": end - 1})
            start = max(start, end)
        return found

    def _items(self, view: View, state: MemoryState) -> Iterator[dict[str, Any]]:
        for message in view.messages:
            place = self._by_id.get(message.id)
            is_cut = place is not None and self._is_cut(message, place)
            own = "" if place is None else text_of(self.messages[place])
            block = state["blocks"].get(message.id or "")
            texts = map(block_text, blocks_of(message.content))
            pieces = chain.from_iterable(_pieces(text, own) for text in texts)
            calls = (("call", text) for text in written_calls(message))
            for kind, text in chain(pieces, calls):
                yield {
                    "role": role_of(message),
                    "kind": kind,
                    "text": text,
                    "tokens": self.counter.text(text),
                    "place": place if kind in {"message", "call"} else None,
                    "is_cut": is_cut and kind == "message",
                    "lines": self._lines(text) if kind == "summary" else [],
                    "from": self._from(block) if kind == "memory" else [],
                }

    def _from(self, block: Block | None) -> list[tuple[int, float | None]]:
        """Return the places of the messages that a memory block shows, with their scores."""
        if block is None:
            return []
        scores = block.get("scores", {})
        own = [key for key in block["ids"] if key in self._by_id]
        return sorted((self._by_id[key], scores.get(key)) for key in own)

    def _lines(self, text: str) -> list[list[Any]]:
        """Return the lines of a summary with the places of the messages that they name."""
        found = []
        for line in text.split("\n"):
            named = [
                self._places[name] for name in _REFERENCE.findall(line) if name in self._places
            ]
            about = [at for place in dict.fromkeys(named) for at in self._with_results(place)]
            found.append([line, about])
        return found

    def _with_results(self, place: int) -> Iterator[int]:
        """Yield the place of a message, and those of the results that follow it."""
        yield place
        for after in range(place + 1, len(self.messages)):
            if role_of(self.messages[after]) != "tool":
                break
            yield after


def session_calls(found: StoredSessions, session: str, window: int | None = None) -> SessionCalls:
    """Return the calls of a session.

    Args:
        found: The sessions that it is among.
        session: Its id.
        window: Tokens of the context window; default: that of the session's budget, else that of
            the model that answered, else 16,384.

    Raises:
        ScopeError: When there is no such session.
        BudgetExceededError: When a request cannot fit the window.
    """
    messages = [with_time(row) for row in found.rows(session)]
    newest, checkpoints = found.state(session), found.checkpoints(session)
    # A fork from before the first compaction has no budget yet: another branch has the same one.
    states = (newest, *map(state_in, reversed(checkpoints)))
    change = next((one["change"] for one in states if one and "change" in one), None)
    budget, source = _budget(found, session, change, messages)
    if window:
        budget, source = budget.in_window(window), "as given"
    memory = TokenMemory(budget)
    options: RequestOptions = {"tools": list(found.tools.get(session, ()))}
    if change is not None:
        options["overhead_tokens"] = change["around"]
    made = [*_calls_in_checkpoints(checkpoints, memory, options)]
    # The transcript has the messages of all branches; the next call continues the newest one.
    origin, head = _IN_CHECKPOINTS, checkpoints[-1].get("messages", ()) if made else messages
    if not made:
        origin, state = _played(newest), new_state()
        for place in lengths_at_calls(messages):
            history = messages[:place]
            played, view = memory.compact_and_view(history, state, **options)
            state = _with_stored_entries(played, newest)
            if state != played:
                view = memory.view(history, state, **options)
            made.append(Call(len(made) + 1, history, state, view))
    state = newest or (made[-1].state if made else new_state())
    if head:
        view = memory.view(head, state, **options)
        made.append(Call(len(made) + 1, head, state, view, is_next=True))
    origin = f"{origin}; window {budget.context_window:,}, {source}"
    return SessionCalls(messages, made, budget, origin)


def _budget(
    found: StoredSessions,
    session: str,
    change: ChangeMade | None,
    messages: Sequence[BaseMessage],
) -> tuple[TokenBudget, str]:
    """Return the budget of a session's requests as far as it is known, and its source as a text."""
    if change is not None:
        return TokenBudget.loaded(change["budget"]), "that of its newest compaction"
    own = found.store.state(session).budget
    if own is not None:
        return own, "the session's own"
    named = (m.response_metadata.get("model_name") for m in reversed(messages))
    name = next((one for one in named if isinstance(one, str) and one), None)
    try:
        if name:
            return TokenBudget.for_model(name), f"that of {name}"
    except ConfigurationError:  # a model of an unknown window
        pass
    return TokenMemory().budget, "assumed: --window gives the real one"


def _played(newest: MemoryState | None) -> str:
    """Return the origin of calls that are replayed, as a text."""
    log = newest["summary"] if newest else None
    written = {entry["model"] for entry in log["entries"]} if log else set()
    return _PLAYED_WITHOUT if written - {ExtractiveSummarizer.name} else _PLAYED


def _with_stored_entries(state: MemoryState, newest: MemoryState | None) -> MemoryState:
    """Return a state of a call that is replayed, with the log as it was written.

    An entry is recognized by the messages that it covers. One that was condensed since is not.
    """
    log, kept = state["summary"], newest["summary"] if newest else None
    if log is None or kept is None:
        return state
    written = {entry["digest"]: entry for entry in kept["entries"] if "digest" in entry}
    entries = [written.get(entry.get("digest", ""), entry) for entry in log["entries"]]
    return {**state, "summary": {**log, "entries": entries}}


def _calls_in_checkpoints(
    checkpoints: Sequence[Mapping[str, Any]], memory: TokenMemory, options: RequestOptions
) -> Iterator[Call]:
    """Yield a call for each answer in a thread with a memory; none for a thread without one."""
    states = [state_in(values) for values in checkpoints]
    if not any(states):
        return
    answered: set[str | None] = set()
    for values, state in zip(checkpoints, states, strict=True):
        messages = list(values.get("messages") or ())
        for place in lengths_at_calls(messages):
            if messages[place].id not in answered:
                answered.add(messages[place].id)
                # Before the first decision there is no state.
                used, history = state or new_state(), messages[:place]
                view = memory.view(history, used, **options)
                yield Call(len(answered), history, used, view)


def _pieces(text: str, own: str) -> Iterator[tuple[str, str]]:
    """Yield a text of a request in pieces: what the memory inserted, and the message's own.

    Args:
        text: The text.
        own: The message's original text: a fence in it is its own.
    """
    if text.startswith(LOG_INTRODUCTION):
        yield "summary", text
        return
    start = 0
    for found in _INSERTED.finditer(text):
        if found[0].strip() in own:
            continue
        if found.start() > start:
            yield "message", text[start : found.start()]
        yield "summary" if found[1] == SUMMARY_FENCE else "memory", found[0]
        start = found.end()
    if start < len(text):
        yield "message", text[start:]
