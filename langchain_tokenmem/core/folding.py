"""How many groups are folded into the summary, and how much room its next entry has."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.inserted_text import log_texts
from langchain_tokenmem.core.messages import marks_of, role_of
from langchain_tokenmem.core.size_caps import available_tokens, request_tokens
from langchain_tokenmem.state import SummaryEntry

MIN_ENTRY = 56
"""Tokens that a new entry may always have where there is room, however little is folded: in fewer a
model cannot write notes under a heading."""

ENTRY_SHARE = 0.33
"""Share of `shares.summary` that one entry has at most."""

SPOKEN_TOKENS, CALL_TOKENS = 36, 20
"""Tokens of the shortest line about what a user says or an assistant answers, and about a call.

An entry always has room for these lines of what is folded."""

_SEAM = 2
"""Tokens that a tokenizer may make of two texts that meet."""

_EMPTY_ENTRY: SummaryEntry = {
    "id": "",
    "text": ".",
    "first": "7a0b1c",
    "covered": 0,
    "since": "2026-01-01T00:00:00+00:00",
    "until": "2026-01-02T00:00:00+00:00",
    "last_ids": ["x"],
    "tokens": 0,
    "model": "",
    "prompt_version": "",
    "reason": "",
    "created_at": "",
    "failures": [],
}
"""An entry that is nothing but its frame, the widest there is."""


@dataclass(frozen=True, slots=True)
class LogChange:
    """Change of the running summary by a fold.

    Attributes:
        entry_tokens: Most tokens of the new entry's text; 0 for an entry without one.
        condense: How many of the oldest entries are condensed into one; 0 for none.
        condensed_tokens: Most tokens of the text of that one.
        tokens: Tokens of all entries afterwards, with their frames, at most.
    """

    entry_tokens: int
    condense: int
    condensed_tokens: int
    tokens: int


@dataclass(frozen=True, slots=True)
class LogForecast:
    """Tokens of the running summary: entries grow by one with each fold, until they are condensed.

    Attributes:
        sizes: Tokens of each entry so far, with its frame; 0 for one without a text.
        frame: Tokens of an entry's frame.
        introduction: Tokens of the line before the first entry.
        most: Most tokens of all entries with their frames.
        entry: Most tokens of a new entry's text.
        goal: Tokens up to which a new entry may fill the request. That is the target. Where the
            fixed parts alone are near it, it is `target` as a share of what they leave: the entry
            is all that stays of what is folded.
        folded: Tokens of the oldest tail groups together, by their number.
        least: Tokens of the shortest lines about these groups, by their number.
        may_condense: Whether older entries may be condensed.
    """

    sizes: Sequence[int]
    frame: int
    introduction: int
    most: int
    entry: int
    goal: int
    folded: Sequence[int]
    least: Sequence[int]
    may_condense: bool

    @classmethod
    def of(cls, context: ContextParts, budget: TokenBudget, *, may_condense: bool) -> LogForecast:
        """Return the forecast for a context.

        Args:
            context: The conversation under its state.
            budget: Has the share of the summary, and the target.
            may_condense: Whether older entries may be condensed.
        """
        bare = replace(context, system=None, kept=(), tail=(), blocks={})
        ends = (*context.tail[:1], *context.tail[-1:])
        messages = [message for group in ends for message in group.source.messages]
        is_timed = any(marks_of(message).get("created_at") for message in messages)
        empty = _EMPTY_ENTRY if is_timed else {**_EMPTY_ENTRY, "since": None}
        alone = bare.added_tokens(log_texts([empty]))

        def size_of(entry: SummaryEntry) -> int:
            # Counted anew: another model, or its reports, may have changed the counts since.
            if not entry["text"]:
                return 0
            return bare.added_tokens(log_texts([empty, entry])) - alone + _SEAM

        frame = size_of(empty)
        entries = context.summary["entries"] if context.summary else ()
        introduction = max(0, context.added_tokens(log_texts([empty])) + _SEAM - frame)
        share, room = budget.summary_tokens, available_tokens(context, budget)
        most = max(0, min(share, room - int(budget.shares.message * room)) - introduction)
        sizes, least = context.sizes(context.tail), []
        for group, size in zip(context.tail, sizes, strict=True):
            results = sum(role_of(message) == "tool" for message in group.messages)
            least.append(min(size, CALL_TOKENS * results if results else SPOKEN_TOKENS))
        return cls(
            sizes=[*map(size_of, entries)],
            frame=frame,
            introduction=introduction,
            most=most,
            entry=min(most, int(ENTRY_SHARE * max(0, share - introduction))),
            goal=max(budget.target_tokens, budget.limit - room + int(budget.target * room)),
            folded=[0, *accumulate(sizes)],
            least=[0, *accumulate(least)],
            may_condense=may_condense,
        )

    def change(self, fold: int, *, room: int | None = None) -> LogChange:
        """Return what happens when so many of the oldest tail groups are folded.

        The new entry has half of them at most, and `entry`, but always room for the shortest lines
        about them. Only where all pass `most` with it, the oldest are condensed into one, which has
        between a third and four fifths of it: what the new one leaves.

        Args:
            fold: The number of groups.
            room: Tokens that the new entry should have at most with its frame; default: any.
        """
        used, folded, least = sum(self.sizes), self.folded[fold], self.least[fold]
        if not folded:
            return LogChange(0, 0, 0, used + (self.introduction if used else 0))
        share = min(folded // 2, self.entry)
        if room is not None:
            share = min(share, room - self.frame)
        share = max(share, min(least, folded))
        wanted = max(MIN_ENTRY, share) + self.frame
        condense, condensed = 0, 0
        if used + wanted > self.most and self.may_condense and self.sizes:
            lines = min(max(MIN_ENTRY, least), self.most // 2) + self.frame
            room = max(self.most // 3, min(self.most * 4 // 5, self.most - lines))
            count, tokens = self._condensed(room)
            # Where not even one text has room in that, what is written stays.
            if self._text_of(tokens):
                condense, condensed = count, tokens
                used = condensed + sum(self.sizes[count:])
        entry = self._text_of(min(wanted, self.most - used))
        after = used + (entry + self.frame if entry else 0)
        text = self._text_of(condensed)
        return LogChange(entry, condense, text, after + (self.introduction if after else 0))

    def _condensed(self, room: int) -> tuple[int, int]:
        """Return how many entries are condensed into one, and its tokens: `room` at most.

        The newest ones stay, up to half of the room, where the others are more than the room.
        """
        newest = accumulate(reversed(self.sizes))
        stay = sum(1 for total in newest if total <= room // 2)
        count = len(self.sizes) - min(stay, len(self.sizes) - 1)
        if sum(self.sizes[:count]) <= room:
            count = len(self.sizes)
        return count, min(room, sum(self.sizes[:count]))

    def _text_of(self, tokens: int) -> int:
        """Return the tokens that are left for the text of an entry."""
        return max(0, tokens - self.frame)


def fewest_folds(
    context: ContextParts, goal: int, *, within: int, log: LogForecast | None = None
) -> int | None:
    """Return the fewest of the oldest tail groups to fold so that the request is within `goal`.

    None if not even `within` of them are enough. The number is found by bisection: for each try the
    request is made and counted. Folding one more group nearly always makes the request smaller; it
    may, but seldom does, bring a turn memory into view that is longer than the group.

    Args:
        context: The conversation under its state.
        goal: Tokens of the request, at most.
        within: Most groups to fold.
        log: How the running summary grows; None where no entry is written.
    """

    def is_enough(fold: int) -> bool:
        rest = context.with_folded(fold)
        if log is None:
            return request_tokens(rest) <= goal
        tokens = request_tokens(replace(rest, summary=None))
        return tokens + log.change(fold).tokens <= goal

    fold = bisect_left(range(within + 1), True, key=is_enough)
    return fold if fold <= within else None
