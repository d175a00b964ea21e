"""Backlog of a conversation: more messages than one call can process, such as an imported history.

A call uses the newest messages, in a time that does not depend on the others; these are summarized
in the background, a part at a time, at a constant cost per message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.covered import covered_end
from langchain_tokenmem.core.messages import is_pinned, role_of, text_of, with_ids
from langchain_tokenmem.state import MemoryState

_MANY_MESSAGES = 2_000
_PART_MESSAGES = 1_000

_MANY_CHARACTERS = 64
"""Characters per token of the limit: about 16 windows of text, the maximum of one part."""

_NEWEST_CHARACTERS = 12
"""Characters per token of the limit that certainly exceed it: text has 1 to 6 per token."""


def newest_messages(
    messages: Sequence[BaseMessage], state: MemoryState, limit: int
) -> list[BaseMessage] | None:
    """Return the messages of a conversation with a backlog that a request may show, or None.

    None means that there is no backlog. The messages exceed the limit, so that leaving out the
    others changes no request: what is covered, then system, pinned, first and newest human
    messages, then all from one message on.

    Args:
        messages: The conversation, oldest first.
        state: What was decided so far.
        limit: Maximum tokens of a request.
    """
    if not _are_many(messages[covered_end(messages, state["summary"]) :], limit):
        return None  # known without checking what is covered
    named = with_ids(messages)
    start = covered_end(named, state["summary"])
    characters, index = 0, len(named)
    # Every message has at least one token; none is counted yet.
    least = max(start, len(named) - limit)
    while index > least and characters < _NEWEST_CHARACTERS * limit:
        index -= 1
        characters += _characters(named[index])
    while index > start and role_of(named[index]) == "tool":
        index -= 1
    older, newest = named[start:index], named[index:]
    humans = [message.id for message in older if role_of(message) == "human"]
    needed = set(humans[:1] if start == 0 else ())
    if not any(role_of(message) == "human" for message in newest):
        needed.update(humans[-1:])
    shown = [m for m in older if m.id in needed or role_of(m) == "system" or is_pinned(m)]
    if len(shown) == len(older):
        return None
    return [*named[:start], *shown, *newest]


def beginnings(
    messages: Sequence[BaseMessage], state: MemoryState, limit: int
) -> Iterator[Sequence[BaseMessage]]:
    """Yield the beginnings of a conversation, each one part longer; the last is all of it.

    Summarizing each in turn covers every message once.

    Args:
        messages: The conversation, oldest first.
        state: What was decided so far: the parts begin after what it covers.
        limit: Maximum tokens of a request.
    """
    named = with_ids(messages)
    start = covered_end(named, state["summary"])
    size = characters = 0
    if _are_many(named[start:], limit):
        for index in range(start, len(named)):
            is_full = size >= _PART_MESSAGES or characters >= _MANY_CHARACTERS * limit
            if is_full and role_of(named[index]) != "tool":
                yield named[:index]
                size = characters = 0
            size += 1
            characters += _characters(named[index])
    yield messages


def _are_many(messages: Sequence[BaseMessage], limit: int) -> bool:
    if len(messages) > _MANY_MESSAGES:
        return True
    return sum(map(_characters, messages)) > _MANY_CHARACTERS * limit


def _characters(message: BaseMessage) -> int:
    content = message.content
    return len(content) if isinstance(content, str) else len(text_of(message))
