"""Times of messages: where they come from, and the prefix that shows them.

A message's time is its mark `created_at`, which every stored message has. For a message without
one, as in a graph's state, it is the time when it was first seen, which the memory's state keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.block_types import blocks_of, text_block
from langchain_tokenmem.core.messages import (
    block_text,
    is_reasoning_block,
    marked,
    marks_of,
    result_ids,
    role_of,
)
from langchain_tokenmem.core.repair import RepairedGroup

ShownTimes = Literal["human", "all"]
"""Messages that show their time: those of the user, or also those of the model."""

_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\](?: |\n+|$)")
"""The prefix of a message's own time, as a model may copy it."""


@dataclass(frozen=True, slots=True)
class TimePrefixes:
    """Messages that show their time, and the times that are not in the messages.

    Attributes:
        shown: Whose messages show it.
        seen: First sights of messages without a time, as UTC in ISO 8601, by id.
        shows_answers: Whether a human message shows when the answer before it was complete; False
            if that answer may be missing from the messages.
    """

    shown: ShownTimes
    seen: Mapping[str, str] = field(default_factory=dict)
    shows_answers: bool = True

    def shown_on(self, groups: Sequence[RepairedGroup]) -> list[RepairedGroup]:
        """Return groups, in order, whose messages show their times, in the provider's form."""
        found: list[RepairedGroup] = []
        answered: datetime | None = None
        for group in groups:
            messages: list[BaseMessage] = []
            for message in group.messages:
                role = _speaker(message)
                messages.append(self._shown_on(message, role, answered))
                if role == "ai":
                    answered = time_of(message, self.seen)
                elif role == "human":
                    answered = None
            found.append(group.showing(messages))
        return found

    def _shown_on(
        self, message: BaseMessage, role: str | None, answered: datetime | None
    ) -> BaseMessage:
        if role is None or (role == "ai" and self.shown != "all"):
            return message
        moment = time_of(message, self.seen)
        if moment is None:
            return message
        if role == "ai":
            # Do not repeat one that a model has copied.
            bare = without_stamp(message)
            says_text = any(map(block_text, blocks_of(bare.content)))
            can_be_shown = says_text and not _is_signed(bare)
            return _with_prefix(bare, f"[{_written(moment)}]") if can_be_shown else message
        answer = ""
        if self.shown == "human" and self.shows_answers and answered and answered <= moment:
            same_day = answered.date() == moment.date()
            when = _written(answered)
            answer = f", previous answer {when[11:] if same_day else when}"
        return _with_prefix(message, f"[{_written(moment)}{answer}]")


def time_of(message: BaseMessage, seen: Mapping[str, str]) -> datetime | None:
    """Return the time of a message in UTC: its mark, else its first sight, else None."""
    known = (marks_of(message).get("created_at"), seen.get(message.id or ""))
    return next(filter(None, (moment_of(one) for one in known if isinstance(one, str))), None)


def moment_of(value: Any) -> datetime | None:
    """Return a time in UTC, or None if the value is not a time.

    Args:
        value: A datetime, ISO 8601 or seconds since 1970; without a zone it is UTC.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(found, datetime):
            return None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def stamped(message: BaseMessage, moment: datetime) -> BaseMessage:
    """Return a message marked with its time; a mark of the application takes precedence."""
    if marks_of(message).get("created_at") is not None:
        return message
    return marked(message, created_at=moment.isoformat())


def without_stamp(message: BaseMessage) -> BaseMessage:
    """Return an answer without a time that the model copied to its beginning.

    Any other message, and an answer with no other text, is returned unchanged.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> without_stamp(AIMessage("[2026-02-14 15:23:05 UTC] Good afternoon.")).content
        'Good afternoon.'
    """
    content: Any = message.content
    if role_of(message) != "ai" or not content:
        return message
    if isinstance(content, str):
        rest: Any = _STAMP.sub("", content, count=1) if _STAMP.match(content) else content
    else:
        rest = _without_stamp(content)
    return message if rest == content or not rest else message.model_copy(update={"content": rest})


def _without_stamp(blocks: Sequence[Any]) -> list[Any]:
    """Return content blocks without a time at the beginning of the first one with text."""
    place = next((n for n, block in enumerate(blocks) if not is_reasoning_block(block)), None)
    first = None if place is None else blocks[place]
    text = first.get("text") if isinstance(first, dict) else first
    if not isinstance(text, str) or not _STAMP.match(text) or _has_signature(first):
        return list(blocks)
    rest = _STAMP.sub("", text, count=1)
    left = {**first, "text": rest} if isinstance(first, dict) else rest
    return [*blocks[:place], *([left] if rest else []), *blocks[(place or 0) + 1 :]]


def first_sights(
    times: Iterable[Sequence[str]],
    messages: Sequence[BaseMessage],
    now: datetime,
    *,
    shown: ShownTimes,
    kept: Iterable[str] = (),
    replies: Mapping[str, str] | None = None,
) -> list[list[str]]:
    """Return the first sights of the messages that are not covered.

    A new message gets the current time. For messages before the newest question the time is
    unknown, unless their reply was seen.

    Args:
        times: First sights so far: pairs of id and time.
        messages: The messages that are not covered, each with an id.
        now: The time, in UTC.
        shown: Whose messages show their time: if only those of users, then of consecutive
            assistant messages only the last one's time is needed.
        kept: Ids of covered messages that are shown.
        replies: Times at which replies were complete, by id.
    """
    spoken = [message for message in messages if _speaker(message)]
    ids = [message.id or "" for message in spoken]
    live = {*ids, *kept}
    known = {key: time for key, time in times if key in live}
    begin = next((n + 1 for n in range(len(ids) - 1, -1, -1) if ids[n] in known), 0)
    roles = [role_of(message) for message in spoken]
    turns = (
        n for n in range(len(spoken) - 1, begin, -1) if roles[n - 1 : n + 1] == ["ai", "human"]
    )
    latest = next(turns, begin)
    moment = now.isoformat(timespec="seconds")
    for place in range(begin, len(spoken)):
        time = (replies or {}).get(ids[place]) or (moment if place >= latest else None)
        if time and marks_of(spoken[place]).get("created_at") is None:
            known[ids[place]] = time
    if shown == "human":
        for place in range(1, len(spoken)):
            if roles[place - 1 : place + 1] == ["ai", "ai"]:
                known.pop(ids[place - 1], None)
    order = [*(key for key in known if key not in ids), *(key for key in ids if key in known)]
    return [[key, known[key]] for key in order]


def _speaker(message: BaseMessage) -> str | None:
    """Return `human` or `ai`; None for messages without a time, such as tool results."""
    role = role_of(message)
    return role if role in {"human", "ai"} and not result_ids(message) else None


def _written(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _with_prefix(message: BaseMessage, prefix: str) -> BaseMessage:
    content: Any = message.content
    if isinstance(content, str):
        content = f"{prefix} {content}" if content else prefix
    else:
        content = [text_block(prefix), *content]
    return marked(message.model_copy(update={"content": content}), cut=True)  # none of its words


def _is_signed(message: BaseMessage) -> bool:
    """Return whether a message contains reasoning, or anything that its provider has signed."""
    held = blocks_of(message.content)
    if any(is_reasoning_block(block) or _has_signature(block) for block in held):
        return True
    extras = message.additional_kwargs.items()
    return any(value and ("reasoning" in key or "signature" in key) for key, value in extras)


def _has_signature(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    extras = block.get("extras")
    return "signature" in block or (isinstance(extras, dict) and "signature" in extras)
