"""Keeps what was derived from messages up to date with their current words.

One rule for edits and removals: an entry of the running summary has digests of the ids and of
the words of its messages. It is rewritten if the words have changed. If messages are missing,
it is kept (they were trimmed or moved into an archive), unless the thread hides what it removes.
Notes, turn memories and recalled blocks of such messages are dropped and read again.

An entry is rewritten without a model, immediately: removed words must not stay in requests until a
summarizer is finished.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.covered import (
    covered_end,
    digest_of_words,
    entry_place,
    is_cleared,
    is_whole,
    original_of,
    spans_of,
    without_words_of,
)
from langchain_tokenmem.core.facts.sentences import identifiers_in, message_text
from langchain_tokenmem.core.messages import (
    NamedMessages,
    is_spoken,
    same_objects,
    text_digest,
    with_ids,
)
from langchain_tokenmem.core.todos import todo_lists
from langchain_tokenmem.core.turn_memory import without_echo
from langchain_tokenmem.state import MemoryState, RunningSummary, SummaryEntry
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer

logger = logging.getLogger(__name__)

EDITED = "edited"
"""Reason of an entry that was rewritten because its messages were edited."""

REMOVED = "removed"
"""Reason of an entry that was rewritten because some of its messages were removed."""

_MOST_CONVERSATIONS = 16
"""Maximum conversations whose comparisons a memory remembers, the most recently used ones."""


class _Compared(NamedTuple):
    """A summary that is current.

    Attributes:
        summary: The summary.
        words: Copies of the words of its messages, their classes and ids.
        hides: Whether missing messages were looked for.
    """

    summary: RunningSummary
    words: list[Any]
    hides: bool


class CheckedMessages:
    """Messages of one conversation that already got ids and were compared with its summary.

    The same objects do not get ids again: with 10,000 messages in an agent's state, of which the
    window holds 12, a model call takes 3 ms instead of 33. Unchanged words are not digested again,
    even in the new objects that a checkpointer returns. A change inside an object is detected,
    because its words are stored with it.
    """

    def __init__(self) -> None:
        self._named = with_ids(())
        # One value: threads may work on conversations that begin with the same id.
        self._current: _Compared | None = None

    def named(self, messages: Any) -> NamedMessages:
        """Return the messages, each with an id, without copies of what the memory inserts.

        Args:
            messages: The conversation as passed by an application, oldest first; an earlier
                return value is returned unchanged.
        """
        if isinstance(messages, NamedMessages):
            return messages
        known, longer = self._named, None
        if known and isinstance(messages, list) and same_objects(known, messages[: len(known)]):
            rest = as_messages(messages[len(known) :])  # what is known are messages
            longer = known.extended([*map(without_echo, rest)])
        if longer is None:
            longer = with_ids([*map(without_echo, as_messages(messages))])
        # A copy made to add an id would hide changes inside its original.
        if longer is not known and isinstance(messages, list) and same_objects(longer, messages):
            self._named = longer
        return longer

    def are_current(
        self, summary: RunningSummary, covered: Sequence[BaseMessage], *, hides: bool
    ) -> bool:
        """Return whether a summary was compared with the same messages and found current."""
        known = self._current
        if known is None or known.summary != summary or (hides and not known.hides):
            return False
        try:
            return known.words == _words(covered)
        except (ValueError, RecursionError):  # content that cannot be compared
            return False

    def note(self, summary: RunningSummary, covered: Sequence[BaseMessage], *, hides: bool) -> None:
        """Remember that a summary is current."""
        self._current = None
        # What was cleared for a request, or refers to itself, is compared at each call.
        if not any(map(is_cleared, covered)):
            with suppress(RecursionError):
                self._current = _Compared(summary, _copied(_words(covered)), hides)


def _words(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return what identifies messages, and the parts of them that can be modified in place."""
    fields = [*map(vars, messages)]
    parts = ([one.get(name) for one in fields] for name in ("id", "content", "tool_calls"))
    return [[*map(type, messages)], *parts]


def _copied(value: Any) -> Any:
    """Return a copy of plain data that is independent of the given value."""
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return [*map(_copied, value)] if isinstance(value, list) else value


def checked_messages() -> Callable[[Any], CheckedMessages]:
    """Return a function from a conversation to its checked messages.

    A conversation is identified by its first message: if two share it, this costs only time.
    """
    of_first = lru_cache(maxsize=_MOST_CONVERSATIONS)(lambda _key: CheckedMessages())
    return lambda messages: of_first(
        next((getattr(first, "id", None) or id(first) for first in messages[:1]), None)
        if isinstance(messages, list)
        else None
    )


def with_current_words(
    messages: Sequence[BaseMessage],
    state: MemoryState,
    count_text: Callable[[str], int],
    checked: CheckedMessages | None = None,
    *,
    hides: bool = False,
    gone: Collection[str] = (),
) -> MemoryState:
    """Return the state with the current words of the messages, and no earlier ones.

    Args:
        messages: The conversation, oldest first, with its covered messages as far as available;
            with `hides` all of them.
        state: The memory's state.
        count_text: Counts the tokens of a text.
        checked: Messages of this conversation that were compared before, or None.
        hides: Whether words of missing messages are also removed.
        gone: Ids of messages that are known to have been edited or hidden.

    Returns:
        The state; the same object if it has no outdated words.
    """
    named, noted, summary = with_ids(messages), noted_words(state), state["summary"]
    there = {message.id or "": message for message in named} if noted or hides else {}
    # Ids of messages that have changed since notes or blocks quoted them.
    changed = {*gone} | {
        key
        for key, words in noted
        if key in there and digest_of_words([there[key]]) not in {words, None}
    }
    if hides:
        changed |= noted_ids(state) - there.keys()
    rewritten: set[str] = set()
    if summary is not None:
        rule = _Correction(state, count_text, hides)
        summary, rewritten = rule.of(summary, named, checked or CheckedMessages())
    if summary is not state["summary"]:
        state = {**state, "summary": summary}
    if not changed and not rewritten:
        return state
    return without_words_of(changed | rewritten, state, is_log_new=bool(rewritten))


def noted_words(state: MemoryState) -> set[tuple[str, str]]:
    """Return the ids of messages quoted in notes or blocks, each with the digest of its words."""
    modes = state.get("modes")
    known = [modes.get("words", {})] if modes else []
    known += [block["words"] for block in state["blocks"].values() if "words" in block]
    return {pair for words in known for pair in words.items()}


def noted_ids(state: MemoryState) -> set[str]:
    """Return the ids of messages quoted in notes, blocks or turn memories."""
    results = state["turns"]["calls"].values() if "turns" in state else ()
    return {key for keys in results for key in keys} | {key for key, _ in noted_words(state)}


def _carries(entry: SummaryEntry, span: Sequence[BaseMessage], gone: Collection[str]) -> bool:
    """Return whether an entry repeats what an edit removed from earlier messages.

    A model that wrote it had the earlier entries as context.

    Args:
        entry: The entry.
        span: Its messages; without all of them it stays.
        gone: Identifiers that earlier entries had and their messages no longer have.
    """
    return bool(gone) and is_whole(entry, span) and not _lacking(entry, span).isdisjoint(gone)


def _lacking(entry: SummaryEntry, span: Sequence[BaseMessage]) -> set[str]:
    """Return the identifiers of an entry that its messages do not have."""
    text = "\n".join(map(message_text, span))
    return {one for one in identifiers_in(entry["text"]) if one not in text}


@dataclass(frozen=True)
class _Correction:
    """The rule for the entries of a running summary.

    Attributes:
        state: The memory's state.
        count_text: Counts the tokens of a text.
        hides: Whether words of missing messages are also removed.
    """

    state: MemoryState
    count_text: Callable[[str], int]
    hides: bool

    def of(
        self, summary: RunningSummary, messages: Sequence[BaseMessage], checked: CheckedMessages
    ) -> tuple[RunningSummary | None, set[str]]:
        """Return the current running summary, and the ids of messages in rewritten entries.

        Args:
            summary: The running summary; returned unchanged if it is current.
            messages: The conversation, oldest first.
            checked: Messages of this conversation that were compared before.
        """
        covered = messages[: covered_end(messages, summary) or len(messages)]
        if checked.are_current(summary, covered, hides=self.hides):
            return summary, set()
        spans = spans_of(summary, [*filter(is_spoken, covered)])
        entries: list[SummaryEntry] = []
        rewritten: set[str] = set()
        gone: set[str] = set()
        for entry, span in zip(summary["entries"], spans, strict=True):
            current = self._current(entry, span)
            if current is not None and not _carries(entry, span, gone):
                entries.append(current)
                continue
            rewritten.update(entry["last_ids"], (message.id or "" for message in span))
            gone |= _lacking(entry, span)
            if span:
                entries.append(self._written_again(entry, span, entries))
        if rewritten:
            logger.info(
                "Covered messages were edited or removed; their entries were written again."
            )
            return _log_of(entries, summary, hides=self.hides), rewritten
        if entries != summary["entries"]:
            return {**summary, "entries": entries}, set()
        checked.note(summary, covered, hides=self.hides)
        return summary, set()

    def _current(self, entry: SummaryEntry, span: Sequence[BaseMessage]) -> SummaryEntry | None:
        """Return the entry if it may stay; None if it must be rewritten.

        An entry that was written while a result was cleared has no digest of its words, and gets
        one.
        """
        own = span[len(span) - min(len(span), entry["covered"]) :]
        if "digest" not in entry or not (self.hides or is_whole(entry, own)):
            return entry
        if self.hides and not is_whole(entry, span):
            return None
        words = digest_of_words(own)
        if words is None or words == entry.get("words"):
            return entry
        return None if "words" in entry else {**entry, "words": words}

    def _written_again(
        self, entry: SummaryEntry, span: Sequence[BaseMessage], before: Sequence[SummaryEntry]
    ) -> SummaryEntry:
        """Return an entry about the remaining messages, no longer than before.

        Its id is a hash of its content, so that repeated calls return the same entry.
        """
        own = span if self.hides else span[-entry["covered"] :]
        is_edited = is_whole(entry, own)
        words = digest_of_words(own)
        new: SummaryEntry = {
            **entry,
            **entry_place([message.id or "" for message in own]),
            "words": words or "",
            "failures": [],
        }
        new.pop("todos", None)
        for todos in islice(todo_lists(own), 1):
            new["todos"] = todos
        if not entry["text"]:
            return new
        # Messages that the request shows whole are left out.
        whole = {*self.state["kept"]} - self.state["cuts"].keys()
        batch = [message for message in own if message.id not in whole] or own
        prior = "\n\n".join(filter(None, (one["text"] for one in before)))
        summary = ExtractiveSummarizer().summarize(
            SummaryRequest(
                [*map(original_of, batch)], entry["tokens"], self.count_text, prior=prior or None
            )
        )
        name = f"{entry['id']}\n{words}\n{summary.text}"
        return {
            **new,
            "id": text_digest(name, 8),
            "text": summary.text,
            "tokens": self.count_text(summary.text),
            "model": summary.model,
            "prompt_version": summary.prompt_version,
            "reason": EDITED if is_edited else REMOVED,
        }


def _log_of(
    entries: list[SummaryEntry], before: RunningSummary, *, hides: bool
) -> RunningSummary | None:
    """Return the running summary with some entries; None if there are none."""
    if not entries:
        return None
    if not hides:
        return {**before, "entries": entries}
    return {
        "entries": entries,
        "covers_to": entries[-1]["last_ids"][0],
        "covered": sum(entry["covered"] for entry in entries),
    }
