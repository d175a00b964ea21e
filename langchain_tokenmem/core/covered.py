"""Messages that the running summary covers: where they end, and which ones each entry is about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import is_spoken
from langchain_tokenmem.state import MemoryState, RunningSummary, SummaryEntry

POINTER_IS_LOST = (
    "The messages that the running summary ends with are no longer here: all messages are shown."
)


def covered_end(messages: Sequence[BaseMessage], summary: RunningSummary) -> int:
    """Return the index behind the last message that a summary covers; 0 where it is not known.

    Where the pointer's message was removed, the newest one before it that is still there counts.
    """
    for key in (summary["covers_to"], *summary["entries"][-1]["last_ids"]):
        for index in range(len(messages) - 1, -1, -1):
            if messages[index].id == key:
                return index + 1
    return 0


def with_true_count(
    summary: RunningSummary, looked_at: Sequence[BaseMessage], end: int, state: MemoryState
) -> RunningSummary:
    """Return a summary that covers no more messages than there are; the same where it does not.

    A store gives of what is covered only the kept messages and the last one: there nothing is
    counted again.

    Args:
        summary: The running summary.
        looked_at: Covered messages that are kept, and system messages.
        end: How many of the messages are covered; 0 where the pointer is lost.
        state: Says what was removed from a graph's state, and is kept in an archive.
    """
    if end and end - len(looked_at) <= 1:
        return summary
    there = end - sum(not is_spoken(message) for message in looked_at)
    there += sum(last - first + 1 for first, last in state["pruned"])
    return summary if summary["covered"] <= there else {**summary, "covered": there}


def spans_of(
    summary: RunningSummary, messages: Sequence[BaseMessage]
) -> list[Sequence[BaseMessage]]:
    """Return the messages of each entry, as far as they are here.

    An entry ends behind the newest of its last messages that is here, and begins where the one
    before it ends.

    Args:
        summary: The running summary.
        messages: The conversation in order, system messages left out, each with an id.
    """
    places = {message.id or "": place for place, message in enumerate(messages)}
    spans: list[Sequence[BaseMessage]] = []
    start = 0
    for entry in summary["entries"]:
        end = next((places[key] + 1 for key in entry["last_ids"] if key in places), start)
        spans.append(messages[start : max(start, end)])
        start = max(start, end)
    return spans


def is_whole(entry: SummaryEntry, messages: Sequence[BaseMessage]) -> bool:
    """Return whether these are the messages that an entry was written about, all of them."""
    return len(messages) == entry["covered"] and entry.get("digest") == digest_of_ids(messages)


_DIGITS = 16


def digest_of_ids(messages: Iterable[BaseMessage]) -> str:
    """Return the digest by which an entry knows its messages."""
    return digest_of_texts(message.id or "" for message in messages)


def digest_of_texts(texts: Iterable[str]) -> str:
    """Return a digest of texts in any order: of two lists together it is the sum of theirs."""
    return _hex(sum(map(_digest, texts)))


def sum_of_digests(digests: Sequence[str | None]) -> str | None:
    """Return the digest of several lists together; None where one has none."""
    known = [int(digest, 16) for digest in digests if digest]
    return _hex(sum(known)) if len(known) == len(digests) else None


def _digest(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=_DIGITS // 2).digest())


def _hex(total: int) -> str:
    return f"{total % 16**_DIGITS:0{_DIGITS}x}"
