"""The memory block: old messages, verbatim, inside the newest question, fenced as history."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Protocol

from langchain_tokenmem.core.inserted_text import RECALL_FENCE, fenced
from langchain_tokenmem.state import Block, MemoryState

ABOUT = "Earlier messages that match the newest one, in the order in which they were said."

_SPEAKERS = {"human": "user", "ai": "assistant"}


class Found(Protocol):
    """What is recalled: a message, or a part of one."""

    @property
    def message_id(self) -> str:
        """Its id."""
        ...

    @property
    def text(self) -> str:
        """What it says, verbatim."""
        ...

    @property
    def role(self) -> str:
        """Who said it, as a role."""
        ...

    @property
    def name(self) -> str | None:
        """Who said it, by name."""
        ...

    @property
    def created_at(self) -> datetime:
        """When it was said, in UTC."""
        ...

    @property
    def seq(self) -> int:
        """Its number among what was said."""
        ...

    @property
    def part(self) -> int:
        """Which part of its message it is, from 0."""
        ...

    @property
    def parts(self) -> int:
        """How many parts its message has."""
        ...


def block_of(found: Iterable[Found], most: int, count_text: Callable[[str], int]) -> Block:
    """Return the memory block with what fits, taken in rank order and shown in time order.

    Args:
        found: The best first.
        most: Tokens that the block may have.
        count_text: Counts the tokens of a text.
    """
    chosen: list[Found] = []
    days: set[str] = set()
    left = most - count_text(fenced("", RECALL_FENCE, ABOUT))
    for one in found:
        # A line's own end, and what a tokenizer makes of two lines that meet.
        needed = count_text(_line(one)) + 2
        if _day(one) not in days:
            needed += count_text(_day(one)) + 2
        if needed <= left:
            chosen.append(one)
            days.add(_day(one))
            left -= needed
    while chosen:
        text = _text(chosen)
        if count_text(text) <= most:
            return {"text": text, "ids": list(dict.fromkeys(one.message_id for one in chosen))}
        chosen.pop()
    return {"text": "", "ids": []}


def recalled_ids(state: MemoryState, shown: Collection[str]) -> set[str]:
    """Return the ids that stand in the blocks of messages that are shown."""
    blocks = (block for key, block in state["blocks"].items() if key in shown)
    return {name for block in blocks for name in block["ids"]}


def _text(chosen: Sequence[Found]) -> str:
    lines: list[str] = []
    ordered = sorted(chosen, key=lambda one: (one.created_at, one.seq, one.part))
    for day, told in groupby(ordered, key=_day):
        lines += [day, *map(_line, told)]
    return fenced("\n".join(lines), RECALL_FENCE, ABOUT)


def _day(one: Found) -> str:
    return f"{one.created_at.astimezone(UTC):%Y-%m-%d} (UTC)"


def _line(one: Found) -> str:
    time = one.created_at.astimezone(UTC).strftime("%H:%M")
    speaker = one.name or _SPEAKERS.get(one.role, one.role)
    part = f" (part {one.part + 1} of {one.parts} of {one.message_id})" if one.parts > 1 else ""
    return f"{time} {speaker}{part}: {one.text}"
