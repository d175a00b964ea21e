"""Explanation of one request: its parts, what it hides and why, as values and as a report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from textwrap import TextWrapper, shorten
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict

_WIDTH = 80
_BAR = 30
_MOST_LISTED = 5

_REASONS = {
    "compact_at": "the request had passed compact_at",
    "summarize_at": "the request had passed summarize_at, or a trigger was due",
    "cold": "after a long pause no provider's cache had the prefix any more",
    "limit": "the request was over the limit",
    "tail": "there were more than max_tail_messages",
    "manual": "a compaction was asked for",
    "cut": "a message was too long to be sent whole",
    "condensed": "the running summary had passed its share",
    "imported": "the summary was imported",
    "edited": "messages that the summary covers were edited",
    "removed": "messages that the summary covers were removed",
}


@dataclass(frozen=True)
class Part:
    """A part of a request; the tokens of its children add up to its own.

    Attributes:
        name: Its name: as in `TokenUsage.parts`, or plain words below that level.
        tokens: Its tokens.
        children: What it is made of; empty if unknown.
    """

    name: str
    tokens: int
    children: tuple[Part, ...] = ()


@dataclass(frozen=True)
class SummarizedMessages:
    """Messages that an entry of the running summary represents.

    Attributes:
        entry: Id of the entry.
        messages: How many messages it covers.
        tokens: Tokens of the entry.
        model: Name of the summarizer that wrote it.
        reason: Why it was made; see `SummaryEntry`.
        created_at: When, as UTC in ISO 8601.
        lines: Each line of its text with the references of the messages that it describes; no
            references if the summarizer does not know them.
        shown: Whether the request contains the entry; the oldest may not fit.
    """

    entry: str
    messages: int
    tokens: int
    model: str
    reason: str
    created_at: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    shown: bool


@dataclass(frozen=True)
class ShortenedMessage:
    """A message of which the request shows only a part.

    Attributes:
        id: Its id.
        reference: Its reference, by which `read_message` opens it.
        name: The tool whose result it is, else its speaker.
        before: Tokens of the whole message.
        after: Tokens of the shown part.
    """

    id: str
    reference: str
    name: str
    before: int
    after: int


@dataclass(frozen=True)
class Hidden:
    """Parts of the conversation that the request does not show in full.

    Attributes:
        summarized: Messages in the running summary, by entry, oldest first.
        shortened: Messages that are shown in part, oldest first.
        left_out: How many messages are replaced by a marker.
    """

    summarized: tuple[SummarizedMessages, ...] = ()
    shortened: tuple[ShortenedMessage, ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class Change:
    """A change in what the model sees.

    Attributes:
        reason: `compact_at`, `summarize_at`, `cold`, `limit`, `tail`, `manual`, `cut` (a message
            that is too long), or that of a `SummaryEntry`.
        summarized: How many messages went into the running summary.
        shortened: How many messages have been shown in part since.
        at: When, as UTC in ISO 8601; None if the state does not record it.
        before: Tokens of the request before it; None if they are not known.
        after: Tokens after it, at most; None if they are not known.
    """

    reason: str
    summarized: int
    shortened: int
    at: str | None = None
    before: int | None = None
    after: int | None = None

    def __str__(self) -> str:
        done = [f"{self.shortened:,} shortened"] if self.shortened else []
        done += [f"{self.summarized:,} summarized"] if self.summarized else []
        when = f", {self.at[:16].replace('T', ' ')} UTC" if self.at else ""
        tokens = "" if self.before is None else f", {self.before:,} -> {self.after:,} tokens"
        return f"{', '.join(done) or 'nothing'} ({self.reason}{when}{tokens})"


@dataclass(frozen=True)
class RecalledBlock:
    """What recall and notes added to a message.

    Attributes:
        beside: Reference of the message.
        tokens: Tokens of the block.
        messages: Ids of the recalled messages.
        notes: Levels of the kept notes, by their ids.
        scores: Scores of the recalled messages in their search, by their ids.
        named: What the newest messages named, for which lines of earlier ones were recalled; only
            beside a tool result.
    """

    beside: str
    tokens: int
    messages: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    named: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """One request, explained; printed, it is a short report of at most 80 columns.

    Attributes:
        messages: The request, exactly as it is sent.
        tokens: Its tokens.
        limit: Maximum tokens allowed.
        window: The model's window, in tokens.
        due: When a summary is due, such as `at 102,400 tokens`.
        parts: Its tokens, as a tree that adds up.
        hidden: What it does not show in full.
        change: The newest change in what the model sees; None if nothing is hidden.
        planned: What `compact` would do first; None if nothing, or if the request was sent already.
        recalled: What recall and notes added.
        counted_by: How the tokens are counted, and with which vocabulary.
        profile: Name of the legality profile that the list conforms to.
        warnings: Repairs and omissions.
        session: Session or thread; empty if unknown.
        call: Number of the model call in it, from 1; None if unknown.
    """

    messages: list[BaseMessage]
    tokens: int
    limit: int
    window: int
    due: str
    parts: Part
    hidden: Hidden
    change: Change | None
    planned: Change | None
    recalled: tuple[RecalledBlock, ...]
    counted_by: str
    profile: str
    warnings: tuple[str, ...] = ()
    session: str = ""
    call: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as plain JSON, with messages in the form of `message_to_dict`."""
        whole = {
            **asdict(replace(self, messages=[])),
            "messages": [message_to_dict(message) for message in self.messages],
        }
        plain: dict[str, Any] = json.loads(json.dumps(whole, default=str))
        return plain

    def __str__(self) -> str:
        fit = TextWrapper(_WIDTH, subsequent_indent="    ", break_on_hyphens=False).wrap
        return "\n".join(chain.from_iterable(fit(line) or [""] for line in _report(self)))


def _report(explanation: Explanation) -> Iterator[str]:
    name = f"call {explanation.call}" if explanation.call is not None else "the request"
    if explanation.session:
        name += f" of {shorten(explanation.session, 24, placeholder='...')!r}"
    used = f"{explanation.tokens:,} of {explanation.limit:,} tokens"
    yield f"{name[0].upper()}{name[1:]}: {used}, {_many(len(explanation.messages), 'message')}"
    yield f"Window {explanation.window:,}; summaries {explanation.due}"
    yield f"Counted by: {explanation.counted_by}"
    yield ""
    for part in filter(lambda part: part.tokens, explanation.parts.children):
        yield _bar(part, explanation.tokens)
        if len(part.children) > 1:
            yield from (_bar(child, explanation.tokens, indent=2) for child in part.children)
    yield ""
    yield from _hidden_lines(explanation.hidden)
    if explanation.change is not None:
        change = explanation.change
        yield f"Last change: {replace(change, before=None)}"
        if change.before is not None:
            yield f"  from {change.before:,} to at most {change.after:,} tokens"
        yield f"  because {_REASONS.get(explanation.change.reason, explanation.change.reason)}"
    if explanation.planned is not None:
        yield f"Next: {explanation.planned}"
    for block in explanation.recalled:
        what = "lines of {}" if block.named else "{} recalled"
        brought = [what.format(_many(len(block.messages), "message"))] if block.messages else []
        if block.scores:
            best, worst = max(block.scores.values()), min(block.scores.values())
            brought[-1] += f" (score {best})" if best == worst else f" (scores {best} to {worst})"
        brought += [_many(len(block.notes), "note")] if block.notes else []
        what = ", ".join(brought) or "working notes"
        yield f"Beside message {block.beside}: {what}, {block.tokens:,} tokens"
        if block.named:
            yield f"  because the newest messages named {', '.join(block.named)}"
    yield from (f"Warning: {warning}" for warning in explanation.warnings)


def _bar(part: Part, whole: int, *, indent: int = 0) -> str:
    share = part.tokens / max(whole, 1)
    name = f"{' ' * indent}{part.name}"
    return f"{name:<28}{part.tokens:>9,} {share:>5.0%} {'█' * round(_BAR * share)}".rstrip()


def _hidden_lines(hidden: Hidden) -> Iterator[str]:
    if hidden.summarized:
        count = sum(entry.messages for entry in hidden.summarized)
        tokens = sum(entry.tokens for entry in hidden.summarized)
        yield f"Summarized: {_many(count, 'message')} in {tokens:,} tokens"
        yield from _listed(
            f"  entry {entry.entry}: {_many(entry.messages, 'message')} in "
            f"{_many(len(entry.lines), 'line')}, "
            f"{entry.tokens:,} tokens{'' if entry.shown else ', did not fit'}"
            for entry in reversed(hidden.summarized)
        )
    if hidden.shortened:
        before = sum(message.before for message in hidden.shortened)
        after = sum(message.after for message in hidden.shortened)
        count = len(hidden.shortened)
        yield f"Shortened: {_many(count, 'message')} from {before:,} to {after:,} tokens"
        yield from _listed(
            f"  {message.reference} {message.name}: {message.before:,} -> {message.after:,}"
            for message in reversed(hidden.shortened)
        )
    if hidden.left_out:
        yield f"Left out: {_many(hidden.left_out, 'message')}"
    if hidden == Hidden():
        yield "Nothing is hidden."


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _listed(lines: Iterable[str]) -> Iterator[str]:
    """Yield the first lines, and the number of the others."""
    every = [*lines]
    yield from every[:_MOST_LISTED]
    if len(every) > _MOST_LISTED:
        yield f"  ... and {len(every) - _MOST_LISTED:,} more"
