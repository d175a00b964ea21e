"""Edits of messages: entries, notes and blocks that have words of before."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.messages import (
    NamedMessages,
    marked,
    marks_of,
    role_of,
    same_objects,
    spoken_messages,
    unmarked,
    with_ids,
)
from langchain_tokenmem.core.numbers import (
    covered_end,
    digest_of_numbers,
    messages_of_entries,
    numbered_entries,
)
from langchain_tokenmem.core.turn_memory import without_echo
from langchain_tokenmem.state import MemoryState, RunningSummary, SummaryEntry

_MOST_CONVERSATIONS = 16
"""Conversations of which a memory knows what was compared, the most recently used ones."""


class _Said(dict[str, Any]):
    """What a message said before it was cleared: of our making, so no input can bring one."""


class CheckedMessages:
    """Messages of one conversation that were named, and compared with its memory, before.

    The same objects are not looked at again, so an edit inside of such an object is seen by the
    next process, or when a checkpoint is read again. With 10,000 messages in an agent's state, of
    which the window holds 12, a model call takes 2 ms instead of 33.
    """

    __slots__ = ("_known", "_named", "_noted")

    def __init__(self) -> None:
        self._named = with_ids(())
        self._known: tuple[Sequence[BaseMessage], Sequence[str]] = ((), ())
        self._noted: dict[tuple[str, str], BaseMessage] = {}

    def named(self, messages: Any) -> NamedMessages:
        """Return the messages, each with an id, and without copies of what the memory inserts.

        Args:
            messages: The conversation as an application gives it, oldest first.
        """
        known, longer = self._named, None
        if known and isinstance(messages, list) and same_objects(known, messages[: len(known)]):
            rest = as_messages(messages[len(known) :])  # what is known are messages
            longer = known.extended([*map(without_echo, rest)])
        if longer is None:
            longer = with_ids([*map(without_echo, as_messages(messages))])
        # A copy, which has got an id, would hide what is changed inside of its original.
        if longer is not known and isinstance(messages, list) and same_objects(longer, messages):
            self._named = longer
        return longer

    def edited_ids(self, state: MemoryState, messages: Sequence[BaseMessage]) -> set[str]:
        """Return the ids of messages whose notes and blocks have other words than these.

        Args:
            state: The memory's state.
            messages: The conversation, oldest first.
        """
        noted, edited = noted_words(state), set[str]()
        keys = {key for key, _ in noted}
        there = {m.id: m for m in with_ids(messages) if m.id in keys} if keys else {}
        same: dict[tuple[str, str], BaseMessage] = {}
        for key, words in noted:
            message = there.get(key)
            if message is None:
                continue
            is_known = self._noted.get((key, words)) is message
            if is_known or words_of_message(message) in {words, None}:
                same[key, words] = message
            else:
                edited.add(key)
        self._noted = same
        return edited

    def edited_entries(
        self,
        summary: RunningSummary,
        messages: Sequence[BaseMessage],
        superseded: Collection[str] = (),
    ) -> dict[int, Mapping[int, BaseMessage]]:
        """Return the messages of the entries that tell other words than these, by entry's place.

        An entry is compared where all of its messages are there.

        Args:
            summary: The running summary.
            messages: The conversation, oldest first.
            superseded: Ids of messages that were edited at any time: an entry that does not say
                which words it tells is taken to tell those of before.

        Returns:
            For each of these entries its messages by number.
        """
        named = with_ids(messages)
        end = covered_end(named, summary)
        entries = [entry["id"] for entry in summary["entries"]]
        before, known = self._known
        if known == entries and (before is named or same_objects(before[:end], named[:end])):
            return {}
        own = messages_of_entries(summary, spoken_messages(named[:end]))
        edited: dict[int, Mapping[int, BaseMessage]] = {
            place: numbered
            for place, (entry, numbered) in enumerate(zip(summary["entries"], own, strict=True))
            if numbered and _are_edited(entry, numbered, superseded)
        }
        if not edited:
            self._known = named, entries
        return edited


def checked_messages() -> Callable[[int], CheckedMessages]:
    """Return a function from a conversation's key to its messages that were compared before."""
    return lru_cache(maxsize=_MOST_CONVERSATIONS)(lambda _key: CheckedMessages())


def _are_edited(
    entry: SummaryEntry, numbered: Mapping[int, BaseMessage], superseded: Collection[str]
) -> bool:
    if "words" not in entry:
        return any(message.id in superseded for message in numbered.values())
    return digest_of_words(numbered.items()) not in {entry["words"], None}


def noted_words(state: MemoryState) -> set[tuple[str, str]]:
    """Return the ids of messages that notes or blocks have words of, each with their digest."""
    modes = state.get("modes")
    known = [modes.get("words", {})] if modes else []
    known += [block["words"] for block in state["blocks"].values() if "words" in block]
    return {pair for words in known for pair in words.items()}


def words_of_message(message: BaseMessage) -> str | None:
    """Return a digest of a message's words; None where they cannot be compared."""
    return digest_of_words([(0, message)])


def with_digests(summary: RunningSummary, messages: Sequence[BaseMessage]) -> RunningSummary:
    """Return the summary with digests for entries of before, which had none.

    They are given where every message that the summary covers is at hand, so that it is certain
    which ones an entry is about.

    Args:
        summary: The running summary.
        messages: The conversation, oldest first.

    Returns:
        The summary; the same object where nothing is added.
    """
    if all("digest" in entry for entry in summary["entries"]):
        return summary
    named = with_ids(messages)
    ids = [message.id or "" for message in spoken_messages(named[: covered_end(named, summary)])]
    entries: list[SummaryEntry] = []
    start = 0
    for entry, numbers in numbered_entries(summary):
        own = ids[start : start + len(numbers)]
        start += len(numbers)
        if not numbers or [*reversed(own)][: len(entry["last_ids"])] != entry["last_ids"]:
            return summary
        digest = digest_of_numbers(zip(own, numbers, strict=False))
        entries.append({**entry, "digest": entry.get("digest", digest)})
    return {**summary, "entries": entries} if start == len(ids) else summary


def with_words(summary: RunningSummary, messages: Sequence[BaseMessage]) -> RunningSummary:
    """Return the summary whose entries know the words of their messages, as they are now.

    An entry lacks them that was written before there were any, or while a result was cleared: from
    now on an edit is noticed.

    Args:
        summary: The running summary.
        messages: The conversation, oldest first.

    Returns:
        The summary; the same object where nothing is added.
    """
    if all("words" in entry for entry in summary["entries"]):
        return summary
    named = with_ids(messages)
    own = messages_of_entries(summary, spoken_messages(named[: covered_end(named, summary)]))
    entries = [*summary["entries"]]
    for place, (entry, numbered) in enumerate(zip(entries, own, strict=True)):
        words = digest_of_words(numbered.items()) if numbered else None
        if "words" not in entry and words is not None:
            entries[place] = {**entry, "words": words}
    return summary if entries == summary["entries"] else {**summary, "entries": entries}


def digest_of_words(numbered: Iterable[tuple[int, BaseMessage]]) -> str | None:
    """Return a digest of messages' words and numbers; None where they cannot be compared."""
    try:
        return digest_of_numbers((_words_of(message), number) for number, message in numbered)
    except (TypeError, ValueError, RecursionError):
        return None


def with_said(
    messages: Sequence[BaseMessage], originals: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return messages of a request; one that was cleared for it carries what it said.

    LangChain's ContextEditingMiddleware clears old tool results, and their calls, in the request.

    Args:
        messages: Messages of the request.
        originals: Those of the conversation, as they were said.
    """
    if same_objects(messages, originals) or not any(map(_is_cleared, messages)):
        return [*messages]
    known = {message.id: message for message in originals if message.id}
    return [
        marked(message, said=_Said(_said_by(known[message.id])))
        if _is_cleared(message) and message.id in known
        else message
        for message in messages
    ]


def as_said(message: BaseMessage) -> BaseMessage:
    """Return a message as it was said, where it carries that; the same one else."""
    said = marks_of(message).get("said")
    return without_said(message).model_copy(update=said) if isinstance(said, _Said) else message


def without_said(message: BaseMessage) -> BaseMessage:
    """Return a message without what it said before it was cleared."""
    return unmarked(message, ["said"])


def _said_by(message: BaseMessage) -> dict[str, Any]:
    said = {"content": message.content, "response_metadata": message.response_metadata}
    return said | ({"tool_calls": message.tool_calls} if isinstance(message, AIMessage) else {})


def _is_cleared(message: BaseMessage) -> bool:
    metadata = message.response_metadata  # a node may have set it to anything
    return isinstance(metadata, dict) and "context_editing" in metadata


def _words_of(message: BaseMessage) -> str:
    """Return a message's words as JSON.

    Raises:
        TypeError: When its content is no plain data, which may be stored in another form.
        ValueError: When its content refers to itself, or is cleared for one request and not known.
    """
    message = as_said(message)
    if _is_cleared(message):
        raise ValueError(message.id)
    said = [role_of(message), message.content, getattr(message, "tool_calls", None)]
    return json.dumps(said, sort_keys=True)
