"""Places of messages in a conversation, by which entries of the summary find their messages.

They are internal: what a model or a person reads names a message by its reference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Literal

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import is_spoken, result_ids
from langchain_tokenmem.core.repair import RepairedGroup
from langchain_tokenmem.state import MemoryState, RunningSummary, SummaryEntry

READ_MESSAGE = "read_message"
"""Name of the tool that opens a message by its reference."""

_SHORT = 6


def reference(key: str | None, digits: int = _SHORT) -> str:
    """Return the reference of a message with an id: the first hex digits of the id's hash.

    Example:
        >>> reference("m1")
        '743116'
    """
    return hashlib.blake2b(
        (key or "").encode("utf-8", "surrogatepass"), digest_size=16
    ).hexdigest()[:digits]


def messages_named(messages: Sequence[BaseMessage], name: str) -> list[BaseMessage]:
    """Return the messages that a name opens: that of an id, else those of a reference.

    Two messages may share a short reference; a longer one, up to 32 digits, tells them apart.
    """
    found = [message for message in messages if message.id == name]
    if found or len(name) < _SHORT:
        return found
    digits = name.removeprefix("#").lower()
    return [m for m in messages if digits in {reference(key, len(digits)) for key in _ids_of(m)}]


def _ids_of(message: BaseMessage) -> list[str]:
    """Return the id of a message, and those of the results in it where they are shown apart."""
    key = message.id or ""
    return [key, *(f"{key}~{result}" for result in result_ids(message))]


_DIGITS = 16


@dataclass(frozen=True)
class MessageNumbers:
    """Places of uncovered messages in the conversation.

    Attributes:
        last: Highest number of a covered message; 0 for none.
        tail: Groups behind what is covered, oldest first.
    """

    last: int
    tail: Sequence[RepairedGroup]

    def of(self, key: str) -> int | None:
        """Return the number of a message; None for one that is covered."""
        return self._by_id.get(key)

    @cached_property
    def _by_id(self) -> dict[str, int]:
        ids = (message.id or "" for group in self.tail for message in group.source.messages)
        return dict(zip(ids, count(self.last + 1), strict=False))


def last_number(summary: RunningSummary | None) -> int:
    """Return the highest number of a covered message; 0 where nothing is covered."""
    return summary["entries"][-1]["last"] if summary else 0


def digest_of_numbers(numbers: Iterable[tuple[str, int]]) -> str:
    """Return a digest of texts, such as ids of messages, with the numbers of their messages.

    That of two entries together is the sum of both.
    """
    return _hex(sum(_digest(text, number) for text, number in numbers))


def sum_of_digests(entries: Sequence[SummaryEntry], name: Literal["digest", "words"]) -> str | None:
    """Return the digest of all messages of some entries; None where one has none."""
    known = [entry.get(name) for entry in entries]
    found = [int(digest, 16) for digest in known if digest]
    return _hex(sum(found)) if len(found) == len(known) else None


def gaps_in(numbers: Sequence[int], before: int) -> list[list[int]]:
    """Return the numbers that no message of an entry has, as ranges.

    Args:
        numbers: Those of its messages, in order.
        before: The last number of the entry before it.

    Returns:
        Ranges between `before` and the highest one; all of it where the numbers do not ascend.
    """
    if list(numbers) != sorted({*numbers}) or numbers[0] <= before:
        return [[before + 1, max(before, *numbers)]]
    bounds = zip([before, *numbers], numbers, strict=False)
    return [[one + 1, other - 1] for one, other in bounds if other - one > 1]


def numbers_in(entry: SummaryEntry, before: int) -> list[int]:
    """Return the numbers that an entry gave to messages, behind those up to `before`."""
    gaps = {n for first, last in entry.get("gaps", ()) for n in range(first, last + 1)}
    return [n for n in range(before + 1, entry["last"] + 1) if n not in gaps]


def numbered_messages(
    state: MemoryState, messages: Sequence[BaseMessage]
) -> dict[int, BaseMessage]:
    """Return the covered messages by their numbers.

    Those that are not there, or not known for certain, are missing.

    Args:
        state: The memory's state.
        messages: The conversation in order, system messages left out, each with an id.
    """
    places = _places(messages)
    found: dict[int, BaseMessage] = {}
    for entry, numbers in numbered_entries(state["summary"]):
        confirmed = _confirmed(entry, numbers, messages, places)
        found.update(confirmed or _named(entry, numbers, messages, places))
    return found


def messages_of_entries(
    summary: RunningSummary, messages: Sequence[BaseMessage]
) -> list[dict[int, BaseMessage]]:
    """Return for each entry of a summary the messages that it covers, by number.

    Empty for an entry some of whose messages are not there, or not known for certain.

    Args:
        summary: The running summary.
        messages: The conversation in order, system messages left out, each with an id.
    """
    places = _places(messages)
    entries = numbered_entries(summary)
    return [_confirmed(entry, numbers, messages, places) for entry, numbers in entries]


def _places(messages: Sequence[BaseMessage]) -> dict[str, int]:
    return {message.id or "": place for place, message in enumerate(messages)}


def numbered_entries(summary: RunningSummary | None) -> Iterator[tuple[SummaryEntry, list[int]]]:
    """Yield the entries, each with the numbers of its messages; none where these do not fit."""
    before = 0
    for entry in summary["entries"] if summary else ():
        numbers = numbers_in(entry, before)
        yield entry, numbers if len(numbers) == entry["covered"] else []
        before = max(before, entry["last"])


def _confirmed(
    entry: SummaryEntry,
    numbers: Sequence[int],
    messages: Sequence[BaseMessage],
    places: Mapping[str, int],
) -> dict[int, BaseMessage]:
    """Return what an entry covers, all of it; empty where its digest does not confirm that."""
    last = ((n, key) for n, key in enumerate(entry["last_ids"]) if key in places)
    end = next((places[key] + n for n, key in last), -1) + 1
    own = messages[max(0, end - len(numbers)) : end]
    if len(own) != len(numbers):
        return {}
    named = [(message.id or "", n) for message, n in zip(own, numbers, strict=True)]
    is_confirmed = entry.get("digest") == digest_of_numbers(named)
    return dict(zip(numbers, own, strict=True)) if is_confirmed else {}


def _named(
    entry: SummaryEntry,
    numbers: Sequence[int],
    messages: Sequence[BaseMessage],
    places: Mapping[str, int],
) -> dict[int, BaseMessage]:
    """Return what an entry names by ids of what it covers."""
    named = zip(reversed(numbers), entry["last_ids"], strict=False)
    return {number: messages[places[key]] for number, key in named if key in places}


def _digest(key: str, number: int) -> int:
    data = f"{number}\n{key}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=_DIGITS // 2).digest())


def _hex(total: int) -> str:
    return f"{total % 16**_DIGITS:0{_DIGITS}x}"


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
