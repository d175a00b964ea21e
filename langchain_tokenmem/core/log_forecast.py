"""Size of the running summary after a fold: what a new entry may have, and when old ones merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.inserted_text import log_texts
from langchain_tokenmem.core.messages import marks_of, role_of
from langchain_tokenmem.core.repair import source_messages
from langchain_tokenmem.core.size_caps import available_tokens
from langchain_tokenmem.state import SummaryEntry

MIN_ENTRY = 56
"""Tokens that a new entry may always have if they fit, however little is folded: with fewer, a
model cannot write notes under a heading."""

ENTRY_SHARE = 0.33
"""Maximum share of `shares.summary` for one entry."""

SPOKEN_TOKENS, CALL_TOKENS = 36, 20
"""Tokens of the shortest line about a user's or an assistant's message, and about a call.

An entry always has room for these lines about what is folded."""

_SEAM = 2
"""Tokens that a tokenizer may add where two texts meet."""

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
"""An entry that consists only of its frame, the largest possible one."""


@dataclass(frozen=True, slots=True)
class LogChange:
    """How a fold changes the running summary.

    Attributes:
        entry_tokens: Maximum tokens of the new entry's text; 0 for an entry without one.
        condense: How many of the oldest entries are condensed into one; 0 for none.
        condensed_tokens: Maximum tokens of that entry's text.
        tokens: Maximum tokens of all entries afterwards, with their frames.
    """

    entry_tokens: int = 0
    condense: int = 0
    condensed_tokens: int = 0
    tokens: int = 0


NO_CHANGE = LogChange()


@dataclass(frozen=True, slots=True)
class LogForecast:
    """Tokens of the running summary: each fold adds an entry, until they are condensed.

    Attributes:
        sizes: Tokens of each entry so far, with its frame; 0 for one without a text.
        frame: Tokens of an entry's frame.
        introduction: Tokens of the line before the first entry.
        most: Maximum tokens of all entries with their frames.
        entry: Maximum tokens of a new entry's text.
        goal: Tokens up to which a new entry may fill the request: the target. If the
            fixed parts alone are near it, it is `target` as a share of what they leave, because the
            entry is all that remains of what is folded.
        folded: Total tokens of the oldest tail groups, by the number of groups.
        least: Tokens of the shortest lines about these groups, by the number of groups.
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
            budget: The budget with the summary's share and the target.
            may_condense: Whether older entries may be condensed.
        """
        bare = replace(context, system=None, kept=(), tail=(), blocks={})
        ends = source_messages((*context.tail[:1], *context.tail[-1:]))
        is_timed = any(marks_of(message).get("created_at") for message in ends)
        empty = _EMPTY_ENTRY if is_timed else {**_EMPTY_ENTRY, "since": None}
        alone = bare.added_tokens(log_texts([empty]))

        def size_of(entry: SummaryEntry) -> int:
            # Recounted: another model, or its reports, may have changed the counts since.
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
        """Return the change of the running summary when the oldest tail groups are folded.

        The new entry has at most half of their tokens, and at most `entry`, but always room for
        the shortest lines about them. Only if all entries together would exceed `most`, the oldest
        are condensed into one, which gets what the new one leaves: between a third and four fifths
        of `most`.

        Args:
            fold: The number of groups.
            room: Maximum tokens of the new entry with its frame, if possible; default: any.
        """
        used, folded, least = sum(self.sizes), self.folded[fold], self.least[fold]
        if not folded:
            return LogChange(tokens=used + (self.introduction if used else 0))
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
            # Existing entries stay if not even one text fits in that, and a single one that fits.
            if self._text_of(tokens) and (count > 1 or tokens < self.sizes[0]):
                condense, condensed = count, tokens
                used = condensed + sum(self.sizes[count:])
        entry = self._text_of(min(wanted, self.most - used))
        after = used + (entry + self.frame if entry else 0)
        text = self._text_of(condensed)
        return LogChange(entry, condense, text, after + (self.introduction if after else 0))

    def _condensed(self, room: int) -> tuple[int, int]:
        """Return how many entries are condensed into one, and its tokens.

        With the entries that stay it has at most `room`: the newest stay, up to half of the room,
        if the others exceed it.
        """
        newest = accumulate(reversed(self.sizes))
        stay = sum(1 for total in newest if total <= room // 2)
        count = len(self.sizes) - min(stay, len(self.sizes) - 1)
        if sum(self.sizes[:count]) <= room:
            count = len(self.sizes)
        return count, min(room - sum(self.sizes[count:]), sum(self.sizes[:count]))

    def _text_of(self, tokens: int) -> int:
        """Return the tokens left for the text of an entry."""
        return max(0, tokens - self.frame)
