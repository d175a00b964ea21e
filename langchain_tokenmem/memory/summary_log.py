"""Entries of the running summary: written, condensed, and traced to messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.covered import (
    digest_of_words,
    entry_place,
    is_whole,
    newest_entry,
    original_of,
    spans_of,
    sum_of_digests,
)
from langchain_tokenmem.core.explained_request import lines_of
from langchain_tokenmem.core.message_times import time_of
from langchain_tokenmem.core.messages import is_pinned, reference, spoken_messages, text_digest
from langchain_tokenmem.core.planning import Plan
from langchain_tokenmem.core.repair import RepairedGroup, source_messages
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import Cut, MemoryState, RunningSummary, SummaryEntry
from langchain_tokenmem.summarize.base import Summary, SummaryRequest
from langchain_tokenmem.summarize.prompts import NOTES_NAME

if TYPE_CHECKING:
    from langchain_tokenmem.memory.engine import Engine
    from langchain_tokenmem.memory.prepared_call import PreparedCall


def messages_to_fold(
    context: ContextParts, planned: Plan, cuts_before: Mapping[str, Cut]
) -> list[BaseMessage]:
    """Return the messages that the next entry is about, in their original form.

    One that other middleware has cleared in the request is as it was said.

    These are the ones that leave the tail, and kept ones that are cut and in no entry. The first
    request and pinned messages stay visible: if shown whole, no entry needs them. A turn
    memory that a message shows is included.

    Args:
        context: The conversation before the plan is carried out.
        planned: The plan.
        cuts_before: The cuts of the state before it.
    """
    unsummarized = _unsummarized(context, planned.cuts, cuts_before) if planned.fold else set()
    kept = [m for m in source_messages(context.kept) if m.id in unsummarized]
    folded = [*source_messages(context.tail[: planned.fold])]
    leaving = [
        message
        for message in folded
        if message.id in planned.cuts
        or not (message.id == context.first_request or is_pinned(message))
    ]
    shown = (kept + leaving) or folded
    return [context.turns.with_text(original_of(message)) for message in shown]


def cuts_after(
    context: ContextParts, planned: Plan, cuts_before: Mapping[str, Cut]
) -> dict[str, Cut]:
    """Return the cuts of the state after a plan.

    A kept message that is cut while no entry with a text is written is marked, so that the next
    entry includes its words.
    """
    unsummarized = _unsummarized(context, planned.cuts, cuts_before)
    if not unsummarized:
        return dict(planned.cuts)
    if not (planned.fold and planned.log.entry_tokens):
        return {
            key: {**cut, "unsummarized": True} if key in unsummarized else cut
            for key, cut in planned.cuts.items()
        }
    cuts = {key: cut.copy() for key, cut in planned.cuts.items()}
    for cut in cuts.values():
        cut.pop("unsummarized", None)
    return cuts


def _unsummarized(
    context: ContextParts, cuts: Mapping[str, Cut], cuts_before: Mapping[str, Cut]
) -> set[str]:
    """Return the ids of kept messages that are cut and whose words are in no entry."""
    kept = {message.id or "" for message in source_messages(context.kept)}
    return {
        key
        for key in kept & cuts.keys()
        if key not in cuts_before or cuts_before[key].get("unsummarized")
    }


CONDENSED = "condensed"
"""Reason of an entry that was made from older ones."""

NO_SUMMARY = Summary("", "none", "none")
"""Used if there is no room for a summary: the entry only records what it covers."""

_DIGESTS: tuple[Literal["digest"], Literal["words"]] = ("digest", "words")
"""Fields of entries that are sums, and can be added for several entries."""


@dataclass(frozen=True)
class LogWriter:
    """Writes entries for one compaction.

    Attributes:
        context: The parts of the request before it.
        engine: The memory's settings.
        call: The main request.
    """

    context: ContextParts
    engine: Engine
    call: PreparedCall

    @property
    def _sections(self) -> Sequence[str]:
        """Headings of an entry in the session's mode; empty to use the summarizer's."""
        return self.call.mode.summary_sections if self.call.mode else ()

    def request(
        self,
        folded: Sequence[RepairedGroup],
        batch: Sequence[BaseMessage],
        max_tokens: int,
        instruction: str | None,
    ) -> SummaryRequest:
        """Return the request for the entry about `batch`, the folded messages to summarize."""
        log, called = self.context.summary, self.engine.called
        prior = "\n\n".join(filter(None, (e["text"] for e in log["entries"]))) if log else None
        sent, counter = self._sent_up_to(folded), self.context.counter
        return SummaryRequest(
            messages=batch,
            max_tokens=max_tokens,
            count_text=self.call.counter.text,
            prior=prior or None,
            instruction=instruction,
            sent=sent,
            sent_tokens=sum(map(counter.message, sent)) + counter.tools + counter.overhead,
            called=called.model if called else None,
            tools=self.call.options.get("tools") or (),
            settings=self.call.options.get("settings") or {},
            sections=self._sections,
        )

    def _sent_up_to(self, folded: Sequence[RepairedGroup]) -> list[BaseMessage]:
        """Return the main request up to the last folded message; all of it if there is none.

        This beginning is also in a provider's cache; new messages after it are not yet.
        """
        sent = self.context.request_messages()
        last = {message.id for group in folded[-1:] for message in group.messages}
        ends = [place for place, message in enumerate(sent, 1) if message.id in last]
        return sent[: ends[-1]] if ends else sent

    def appended(
        self, folded: Sequence[RepairedGroup], summary: Summary, reason: str
    ) -> RunningSummary:
        """Return the running summary with an entry about the groups that are folded.

        Two consecutive entries without a text are merged, as there is no text that could
        change.

        Args:
            folded: The groups that it covers.
            summary: The text about them, and who wrote it.
            reason: Why they are folded.
        """
        log = self.context.summary
        messages = [*source_messages(folded)]
        entry: SummaryEntry = {
            **self._entry(summary, reason, newest_entry(log)),
            **entry_place([message.id or "" for message in messages]),
            "since": _time_of(messages, self.context.seen),
            "until": _time_of(reversed(messages), self.context.seen),
        }
        if words := digest_of_words(messages):
            entry["words"] = words
        todos = self.context.todos_after_fold(len(folded))
        if todos is not None and todos != self.context.todos:
            entry["todos"] = todos
        entries = [*(log["entries"] if log else ())]
        if entries and not entries[-1]["text"] and not entry["text"]:
            entry = _covering_all(entry, [entries.pop(), entry])
        return {
            "entries": [*entries, entry],
            "covers_to": folded[-1].source.last_id,
            "covered": (log["covered"] if log else 0) + len(messages),
        }

    def condensing_request(
        self, log: RunningSummary, count: int, max_tokens: int, instruction: str | None = None
    ) -> SummaryRequest:
        """Return the request for one entry in place of the oldest `count` ones."""
        texts = [entry["text"] for entry in log["entries"][:count] if entry["text"]]
        return SummaryRequest(
            messages=[HumanMessage(text, name=NOTES_NAME) for text in texts],
            max_tokens=max_tokens,
            count_text=self.call.counter.text,
            instruction=instruction,
            condenses=True,
            sections=self._sections,
        )

    def condensed(self, log: RunningSummary, count: int, summary: Summary) -> RunningSummary:
        """Return the running summary with one entry in place of the oldest `count` ones.

        A text is never replaced by an empty one: then the log stays unchanged.
        """
        old = log["entries"][:count]
        if not summary.text.strip() and any(one["text"] for one in old):
            return log
        entry = self._entry(summary, CONDENSED, old[-1]["id"])
        entry = _covering_all(entry, old)
        entry["condensed"] = [one["id"] for one in old]
        return {**log, "entries": [entry, *log["entries"][count:]]}

    def _entry(self, summary: Summary, reason: str, before: str) -> SummaryEntry:
        """Return an entry with a summary's text, but without its place in the conversation."""
        created = self.engine.now().isoformat()
        name = f"{before}\n{created}\n{summary.text}"
        return {
            "id": text_digest(name, 8),
            "text": summary.text,
            "first": "",
            "covered": 0,
            "since": None,
            "until": None,
            "last_ids": [],
            "tokens": self.call.counter.text(summary.text),
            "model": summary.model,
            "prompt_version": summary.prompt_version,
            "reason": reason,
            "created_at": created,
            "failures": list(summary.failures),
        }


def _covering_all(entry: SummaryEntry, old: Sequence[SummaryEntry]) -> SummaryEntry:
    """Return an entry that covers what some consecutive entries cover."""
    new: SummaryEntry = {
        **entry,
        "first": old[0]["first"],
        "covered": sum(one["covered"] for one in old),
        "since": next(filter(None, (one["since"] for one in old)), None),
        "until": next(filter(None, (one["until"] for one in reversed(old))), None),
        "last_ids": old[-1]["last_ids"],
    }
    for name in _DIGESTS:
        if digest := sum_of_digests([one.get(name) for one in old]):
            new[name] = digest
        else:
            new.pop(name, None)
    if todos := [one["todos"] for one in old if "todos" in one]:
        new["todos"] = todos[-1]
    return new


def entry_ids(log: RunningSummary | None) -> tuple[str, ...]:
    """Return the ids of a log's entries, oldest first; empty without a log."""
    return tuple(entry["id"] for entry in log["entries"]) if log else ()


def _time_of(messages: Iterable[BaseMessage], seen: Mapping[str, str]) -> str | None:
    """Return the first known time among messages, as UTC in ISO 8601."""
    times = (time_of(message, seen) for message in messages)
    return next((time.isoformat() for time in times if time), None)


@dataclass(frozen=True)
class EntrySources:
    """The messages that an entry of the running summary is about.

    Attributes:
        entry: Id of the entry.
        first: Reference of the first message.
        last: Reference of the last one.
        lines: Each line of the entry's text with the references that it begins with, one for each
            part of it; none in what a model wrote.
        messages: The messages by reference, as far as available and unambiguous; empty if no
            messages were given.
    """

    entry: str
    first: str
    last: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    messages: Mapping[str, BaseMessage] = field(default_factory=dict)


def sources_of(
    state: MemoryState, entry: SummaryEntry | str, messages: Sequence[BaseMessage] | None
) -> EntrySources:
    """Return the messages that an entry of a state's running summary is about.

    Args:
        state: The memory's state.
        entry: The entry, or its id.
        messages: The conversation, oldest first; None for references only.

    Raises:
        ConfigurationError: When the log has no such entry.
    """
    summary = state["summary"]
    entries = summary["entries"] if summary else []
    key = entry if isinstance(entry, str) else entry["id"]
    place = next((place for place, one in enumerate(entries) if one["id"] == key), None)
    if summary is None or place is None:
        known = ", ".join(one["id"] for one in entries) or "none"
        raise ConfigurationError(
            f"The running summary has no entry {key!r}; it has: {known}. One that was condensed "
            f"into another is named in the field `condensed` of that one."
        )
    found = entries[place]
    lines = lines_of(found)
    mentioned = {name for _, names in lines for name in names}
    spoken = spoken_messages(messages or ())
    own = spans_of(summary, spoken)[place][-found["covered"] :]
    covered = {message.id for message in own} if is_whole(found, own) else set()
    named = {reference(m.id): m for m in spoken if m.id in covered or reference(m.id) in mentioned}
    return EntrySources(
        entry=key,
        first=found["first"],
        last=reference(found["last_ids"][0]) if found["last_ids"] else "",
        lines=lines,
        messages=named,
    )
