"""Extractive summarizer: an index into the conversation, without a model, exact to the token.

It writes whole entries, and the tool calls after the notes of a model.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import in_thread
from langchain_tokenmem.core.facts.sentences import terms
from langchain_tokenmem.summarize.base import Summary, SummaryRequest
from langchain_tokenmem.summarize.log_lines import (
    LINES,
    SPEECH_LENGTHS,
    Kind,
    Line,
    Piece,
    Weight,
    earlier_lines,
    lines_of,
    without_same,
)
from langchain_tokenmem.summarize.whole_pieces import cut_at_words

HEADING = "## Tool calls"
"""Line before the calls, after a model's notes."""

_NOTHING = "Nothing to note."
_FEWEST = 16
"""Fewer tokens are not worth a heading."""

_MOST_USED, _MOST_OTHERS = 20, 12
"""Maximum values of one result that a call shows: those that were used later, and others."""

_LONG_VALUE = 8
"""Characters from which a value is recognisable, so that one result that shows it is enough."""

_USER_SHARE = 0.6
"""Share of an entry that lines of the user get before those of answers."""

_FEW_WORDS = 5
"""Words of a user's line, speaker included, up to which it is hardly more than a reply."""

_KEY = re.compile(r"[\w /.-]{1,40}=")
_LINE_NUMBER = re.compile(r"\A\d{1,7}: ")
_TIMES = re.compile(r" \(\u00d7(\d+)\)(?=: )")


class ExtractiveSummarizer:
    """Writes an entry as an index into the conversation, without a model and without I/O.

    Each message of the user, each answer and each run of tool calls has a line, which begins with
    the reference that `read_message` opens. A line is the whole message if there is room, else its
    first sentences and its last one; the newest messages get the longer forms first. The values in
    a result follow its call, those that were used later first.

    Entries are condensed into one (`SummaryRequest.condenses`) by shorter forms of their lines, the
    oldest first; removing a line is the last resort.

    What the user states (rules, limits, decisions, facts, corrections) is cut last, after answers
    with an identifier, such as an order number. Lines that share words with the instruction of a
    request get room first.

    Example:
        ```python
        request = SummaryRequest(messages, max_tokens=400, count_text=len)
        ExtractiveSummarizer().summarize(request)
        ```
    """

    is_quick = True
    name = "extractive"
    prompt_version = "extractive-4"

    def __repr__(self) -> str:
        return "ExtractiveSummarizer()"

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        """Return True: it costs nothing."""
        return bool(messages)

    def summarize(self, request: SummaryRequest) -> Summary:
        """Return one entry.

        Args:
            request: What to note, and the limit in tokens.

        Returns:
            The entry; its text is never over `request.max_tokens` by `request.count_text`, and
            empty only if not even one character fits.
        """
        lines = earlier_lines(request.messages) if request.condenses else lines_of(request.messages)
        text = written(lines, request, request.max_tokens)
        return Summary(text, self.name, self.prompt_version)

    asummarize = in_thread(summarize)


def written(lines: Sequence[Line], request: SummaryRequest, most: int) -> str:
    """Return the text of the lines that fit, in their order.

    Args:
        lines: The lines.
        request: The request for the entry.
        most: Maximum tokens.
    """
    entry = _Entry(lines, most, request.count_text, request.prior or "")
    pieces = [piece for line in lines for piece in line]
    if request.condenses:
        entry.shorten(pieces)
        return entry.text_within()
    wanted = terms(request.instruction or "")
    for piece in pieces if wanted else ():
        if not terms(piece.forms[-1]).isdisjoint(wanted):
            piece.weight = Weight.ASKED_FOR
    asked_first = pieces[::-1]
    asked_first.sort(key=lambda piece: piece.weight is not Weight.ASKED_FOR)
    entry.fill(asked_first)
    return entry.text_within()


@dataclass(frozen=True, slots=True)
class _Shown:
    """What an entry shows of a piece: one of its forms, and values of its result."""

    piece: Piece
    form: int
    values: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text."""
        text, piece = self.piece.forms[self.form], self.piece
        new = [value for value in self.values if _bare(value, self.piece) not in text]
        if new:
            size = f"{piece.size}: " if piece.size.endswith(" records") else ""
            before = piece.between if " → " in text else f" → {size}"
            shown = _without_same_keys(new) if piece.between == ", " else new
            return f"{text}{before}{piece.between.join(shown)}"
        is_whole = " → " in text or not piece.size
        return text if is_whole else f"{text} → {piece.size}"

    def has(self, value: str) -> bool:
        """Return whether it shows a value."""
        return _bare(value, self.piece) in " ".join([self.piece.forms[self.form], *self.values])


def _without_same_keys(values: Sequence[str]) -> Iterator[str]:
    """Yield the values of some data; a key is left out if it is that of the value before."""
    before = ""
    for value in values:
        found = _KEY.match(value) if ", " not in value else None
        key = found[0] if found else ""
        yield value.removeprefix(key) if key == before else value
        before = key


def _bare(value: str, piece: Piece) -> str:
    """Return a value without its key; a line of a text without its number, which edits change."""
    bare = value.rpartition("=")[2]
    return _LINE_NUMBER.sub("", bare) if piece.between == LINES else bare


@dataclass
class _Entry:
    """An entry that grows while it has room.

    Attributes:
        lines: The lines that it could show.
        most: Maximum tokens.
        count_text: Counts the tokens of a text.
        known: Text before it: a value in it is not repeated.
        shown: What it shows of a piece.
        used: Tokens of all that.
        sharing: How many pieces share a line.
        changes: What was shown of a piece before each change.
        listed: Long values that results show: each is shown once.
    """

    lines: Sequence[Line]
    most: int
    count_text: Callable[[str], int]
    known: str
    shown: dict[Piece, _Shown] = field(default_factory=dict)
    used: int = 0
    sharing: Counter[Piece | str] = field(default_factory=Counter)
    changes: list[tuple[Piece, _Shown | None]] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)

    def fill(self, pieces: Sequence[Piece]) -> None:
        """Show pieces step by step, in each step in the order of the pieces.

        The second step adds what the first one left out.
        """
        self._show_users(pieces)
        self.show(pieces, Kind.USER, Kind.ANSWER, least=Weight.NUMBER)
        self.show(pieces, Kind.USER, Kind.ANSWER)
        self.show(pieces, Kind.FAILURE)
        self.show(pieces, Kind.USER, form=1)
        self.show(pieces, Kind.EDIT, Kind.CALL)
        self.show(pieces, Kind.ANSWER, form=1)
        self.add_values(pieces, used=True, most=_MOST_USED)
        self.show(pieces, Kind.CALL, Kind.EDIT, Kind.FAILURE, form=1)
        self.show(pieces, Kind.NOTE)
        self.show(pieces, Kind.USER, Kind.ANSWER, form=2)
        self.add_values(pieces, used=False, most=_MOST_OTHERS)
        self.show(pieces, Kind.CALL, form=2)
        self.show(pieces, Kind.NOTE, form=1)
        self.show(pieces, Kind.CALL, form=3)

    def _show_users(self, pieces: Sequence[Piece]) -> None:
        """Show what the user said within a share of the room, statements first."""
        room, self.most = self.most, int(_USER_SHARE * self.most)
        self.show(pieces, Kind.USER, least=Weight.STATEMENT)
        self.show([one for one in pieces if len(one.forms[-1].split()) > _FEW_WORDS], Kind.USER)
        self.most = room

    def show(
        self, pieces: Sequence[Piece], *kinds: Kind, form: int = 0, least: Weight = Weight.NONE
    ) -> None:
        """Show the pieces of some kinds in one of their forms, if it follows the form before.

        Args:
            pieces: The pieces; each is shown as far as it fits.
            kinds: The kinds.
            form: Number of the form.
            least: The least weight of a piece.
        """
        for piece in pieces:
            if piece.kind not in kinds or piece.weight < least:
                continue
            before = self.shown.get(piece)
            if form == (before.form + 1 if before else 0) and form < len(piece.forms):
                self._change(piece, _Shown(piece, form, before.values if before else ()))

    def add_values(self, pieces: Sequence[Piece], *, used: bool, most: int) -> None:
        """Add values of results to their calls, while they fit."""
        for piece in pieces:
            if (shown := self.shown.get(piece)) is not None:
                self._add_values(piece, shown, used=used, most=most)

    def _add_values(self, piece: Piece, now: _Shown, *, used: bool, most: int) -> None:
        added = 0
        for value, is_used in piece.values:
            bare = _bare(value, piece)
            if is_used is not used or bare in self.listed or bare in self.known or now.has(value):
                continue
            longer = replace(now, values=(*now.values, value))
            if self._change(piece, longer):
                now, added = longer, added + 1
                if len(bare) >= _LONG_VALUE:
                    self.listed.add(bare)
            if added == most:
                break

    def _change(self, piece: Piece, shown: _Shown) -> bool:
        before = self.shown.get(piece)
        cost = self._counted(before, -1) + self._counted(shown, 1)
        if self.used + cost > self.most:
            self._counted(shown, -1)
            self._counted(before, 1)
            return False
        self.changes.append((piece, before))
        self.shown[piece] = shown
        self.used += cost
        return True

    def _counted(self, shown: _Shown | None, by: int) -> int:
        """Count what is shown, or no longer is; return the tokens that this adds to the entry."""
        if shown is None:
            return 0
        key = _key_of_shown(shown)
        self.sharing[key] += by
        has_own_line = self.sharing[key] == max(0, by)
        return by * self._size(shown) if has_own_line else 0

    def shorten(self, pieces: Sequence[Piece]) -> None:
        """Show all pieces in shorter forms as far as needed; leave some out as a last resort.

        What the user has stated is the last to be cut; before it, answers with an identifier.
        """
        self.shown = {piece: _Shown(piece, len(piece.forms) - 1) for piece in pieces}
        self.used = sum(map(self._size, self.shown.values()))
        calls, changes = _of(pieces, Kind.CALL, Kind.NOTE), _of(pieces, Kind.FAILURE, Kind.EDIT)
        answers, named = _by_weight(_of(pieces, Kind.ANSWER))
        light, heavy = _by_weight(_of(pieces, Kind.USER))
        self.shorten_each(calls)
        self.shorten_each([*answers, *named])
        self.leave_out(calls)
        self.shorten_each(changes)
        self.leave_out(answers)
        self.shorten_each(light)
        self.shorten_each(heavy, least=1)
        self.leave_out(changes)
        self.leave_out([*light, *named])
        self.shorten_each(heavy)
        self.leave_out(heavy)
        self.changes = [(piece, None) for piece in reversed(self.shown)]

    def shorten_each(self, pieces: Sequence[Piece], least: int = 0) -> None:
        """Give pieces their next shorter forms until there is room, in order.

        Args:
            pieces: The pieces.
            least: Number of the shortest form that they may get.
        """
        levels = max((len(piece.forms) for piece in pieces), default=1) - 1
        for piece in [*pieces] * levels:
            now = self.shown[piece]
            if self.used > self.most and now.form > least:
                self.shown[piece] = _Shown(piece, now.form - 1)
                self.used += self._size(self.shown[piece]) - self._size(now)

    def leave_out(self, pieces: Sequence[Piece]) -> None:
        """Leave out pieces until there is room: those of least weight first, oldest first."""
        for piece in sorted(pieces, key=lambda piece: piece.weight):
            if self.used > self.most:
                self.used -= self._size(self.shown.pop(piece))

    def _size(self, shown: _Shown) -> int:
        return self.count_text(_with_reference(shown.piece, shown.text) + "\n")

    def text_within(self) -> str:
        """Return the text; undo the last changes if the counts of parts do not add up."""
        while True:
            text = "\n".join(self._lines())
            if text and self.count_text(text) <= self.most:
                return text
            if not self.changes:
                return self._smallest()
            piece, before = self.changes.pop()
            if before is None:
                del self.shown[piece]
            else:
                self.shown[piece] = before

    def _lines(self) -> list[str]:
        """Return the lines; of identical ones only the last, which counts the others."""
        found: dict[Piece | str, list[list[_Shown]]] = {}
        for line in self.lines:
            shown = [self.shown[piece] for piece in line if piece in self.shown]
            if shown:
                key = _key_of_shown(shown[0])
                found[key] = [*found.pop(key, []), shown]
        return [*map(_merged, found.values())]

    def _smallest(self) -> str:
        """Return as much of the most important piece as fits, even a single character."""
        pieces = [piece for line in self.lines for piece in line]
        if not pieces:
            return _NOTHING if self.count_text(_NOTHING) <= self.most else ""
        first = min(pieces, key=lambda piece: piece.kind)
        text = _with_reference(first, first.forms[0])
        if self.count_text(text) > self.most:  # words say more than a part of a reference
            text = first.forms[0]
        while text and self.count_text(text) > self.most:
            text = cut_at_words(text.removesuffix(" …"), len(text) * 3 // 4)
            text = f"{text} …" if self.most > _FEWEST else text
        return text


def _of(pieces: Sequence[Piece], *kinds: Kind) -> list[Piece]:
    return [piece for piece in pieces if piece.kind in kinds]


def _by_weight(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Return the pieces below `Weight.NAME` and the others, each from the least weight."""
    ordered = sorted(pieces, key=lambda piece: piece.weight)
    first = bisect_left(ordered, Weight.NAME, key=lambda piece: piece.weight)
    return ordered[:first], ordered[first:]


def _merged(same: list[list[_Shown]]) -> str:
    """Return the last of some identical lines, which counts the others."""
    text = same[-1][0].text
    if len(same) > 1:
        times = sum(_times(shown.text) for shown, *_ in same)
        text = _TIMES.sub("", text, count=1).replace(": ", f" (\u00d7{times}): ", 1)
    calls = [one.text.removeprefix(one.piece.tool).lstrip() for one in same[-1]]
    texts = [text, *map(without_same, calls[1:], calls)]
    parts = (_with_reference(one.piece, text) for one, text in zip(same[-1], texts, strict=True))
    return "; ".join(parts)


def _key_of_shown(shown: _Shown) -> Piece | str:
    """Return the key that identical pieces share; calls and short replies share none."""
    if shown.piece.tool or len(shown.text) <= SPEECH_LENGTHS[0]:
        return shown.piece
    return _TIMES.sub("", shown.text, count=1)


def _times(text: str) -> int:
    counted = _TIMES.search(text)
    return int(counted[1]) if counted else 1


def _with_reference(piece: Piece, text: str) -> str:
    return f"[{piece.reference}] {text}" if piece.reference else text


@dataclass(frozen=True)
class ToolExtracts:
    """Tool calls of a batch, which share an entry with a model's notes.

    A model's notes keep decisions and reasons, but omit most of the files, commands, ids and values
    of a long run of tools. These are read from the messages, so that none can be wrong.

    Attributes:
        request: The request for the entry.
        share: Share of the entry's tokens that is reserved for them.
    """

    request: SummaryRequest
    share: float

    def for_model(self) -> SummaryRequest:
        """Return the request to the model: without the tokens that the calls need."""
        most = int(self.share * self.request.max_tokens)
        size = self._size(self._written(self.request, most))
        return replace(self.request, max_tokens=self.request.max_tokens - size)

    def added_to(self, summary: Summary) -> Summary:
        """Return a summary with the calls after its text, as far as the limit leaves room.

        Values that are already in the text are not repeated.
        """
        prior = "\n\n".join(filter(None, [self.request.prior, summary.text]))
        request, notes = replace(self.request, prior=prior), f"{summary.text}\n{HEADING}"
        room = request.max_tokens - request.count_text(f"{notes}\n") - 1
        while room >= _FEWEST and (calls := self._written(request, room)):
            text = f"{notes}\n{calls}"
            over = request.count_text(text) - request.max_tokens
            if over <= 0:
                return replace(summary, text=text)
            room -= over  # counts of parts need not add up to the count of the whole
        return summary

    def _written(self, request: SummaryRequest, most: int) -> str:
        if self.share <= 0 or request.condenses or most < _FEWEST:
            return ""
        lines = [line for line in lines_of(request.messages) if line[0].tool]
        return written(lines, request, most) if lines else ""

    def _size(self, text: str) -> int:
        return self.request.count_text(f"\n{HEADING}\n{text}") + 1 if text else 0
