"""Memory block: old messages, verbatim, inside the newest question, fenced as history."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC
from itertools import groupby

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.inserted_text import RECALL_FENCE, fenced
from langchain_tokenmem.core.messages import as_one_message, speaker_of
from langchain_tokenmem.core.search_units import Hit
from langchain_tokenmem.state import Block, MemoryState

ABOUT = (
    "Earlier messages that match the newest one, in the order in which they were said; indented "
    "lines belong to the message above them."
)


def block_of(hits: Iterable[Hit], most: int, count_text: Callable[[str], int]) -> Block:
    """Return the memory block with what fits, taken in rank order and shown in time order.

    Args:
        hits: The best first.
        most: Tokens that the block may have.
        count_text: Counts the tokens of a text.
    """
    chosen: list[Hit] = []
    days: set[str] = set()
    left = most - count_text(fenced("", RECALL_FENCE, ABOUT))
    for hit in hits:
        # A line's own end, and what a tokenizer makes of two lines that meet.
        needed = count_text(_line(hit)) + 2
        if _day(hit) not in days:
            needed += count_text(_day(hit)) + 2
        if needed <= left:
            chosen.append(hit)
            days.add(_day(hit))
            left -= needed
    while chosen:
        text = _text(chosen)
        if count_text(text) <= most:
            return {"text": text, "ids": list(dict.fromkeys(hit.message_id for hit in chosen))}
        chosen.pop()
    return {"text": "", "ids": []}


def text_of_block(block: Block) -> str:
    """Return what stands in the message: working notes, then recalled messages."""
    return "\n\n".join(filter(None, (block.get("notes"), block["text"])))


def holds_block(messages: Iterable[BaseMessage], blocks: Mapping[str, str]) -> bool:
    """Return whether one of the messages holds a memory block.

    It is asked of every group several times a call: a loop, as `any` takes four times as long.
    """
    for message in messages:  # noqa: SIM110
        if message.id in blocks:
            return True
    return False


def without_notes(blocks: Mapping[str, str], notes: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of memory blocks without the working notes in front of them.

    Args:
        blocks: Texts by the id of the message that holds them.
        notes: The working notes in some of them, by the same id.
    """
    texts = {
        key: text.removeprefix(notes[key]).removeprefix("\n\n") if key in notes else text
        for key, text in blocks.items()
    }
    return {key: text for key, text in texts.items() if text}


def recalled_ids(state: MemoryState, shown: Collection[str]) -> set[str]:
    """Return the ids that stand in the blocks of messages that are shown."""
    blocks = (block for key, block in state["blocks"].items() if key in shown)
    return {name for block in blocks for name in block["ids"]}


def _text(chosen: Sequence[Hit]) -> str:
    lines: list[str] = []
    ordered = sorted(chosen, key=lambda hit: (hit.created_at, hit.seq, hit.part))
    for day, same_day in groupby(ordered, key=_day):
        lines += [day, *map(_line, same_day)]
    return fenced("\n".join(lines), RECALL_FENCE, ABOUT)


def _day(hit: Hit) -> str:
    return f"{hit.created_at.astimezone(UTC):%Y-%m-%d} (UTC)"


def _line(hit: Hit) -> str:
    time = hit.created_at.astimezone(UTC).strftime("%H:%M")
    speaker = speaker_of(hit.role, hit.name)
    part = (
        f" (part {hit.part + 1} of {hit.parts} of {hit.document_id or hit.message_id})"
        if hit.parts > 1
        else ""
    )
    return as_one_message(f"{time} {speaker}{part}: {hit.text}")
