"""Selection of pieces within a token limit: what adds most worth for a token comes first.

A greedy knapsack: a piece can be taken in one of its forms, and later in a longer one. A literal is
worth something once, so repeated pieces go first and unique literals last.
"""

from __future__ import annotations

import heapq

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import groupby
from typing import NamedTuple

NOTHING = "Nothing to note yet."
STEP_JOINT = "; "


class Mark(Enum):
    """Beginning of a line, by who stands behind it; no text of another can begin so."""

    USER = "User: "
    CORRECTION = "User (correction): "
    ASSISTANT = "Assistant: "
    NOTE = "- "
    STEP = ""


@dataclass(frozen=True, slots=True)
class Form:
    """One length of a piece.

    Attributes:
        text: Its text, on one line.
        worth: Worth of its words; its literals are valued apart.
    """

    text: str
    worth: float


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line that is taken or left out as a whole, in one of its forms.

    Attributes:
        forms: Its forms, the shortest first; none is empty.
        literals: Worth of the literals that it may hold, by their text.
        places: Numbers of the messages that it is taken from.
        topic: What it is about, for prose that may be said twice.
        is_bare: Whether it holds nothing but one literal.
    """

    forms: tuple[Form, ...]
    literals: Mapping[str, float]
    places: tuple[int, ...]
    topic: frozenset[str] = frozenset()
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an entry: sentences of one speaker, or a step with what it brought.

    Attributes:
        mark: How it begins.
        pieces: Its parts in their order; of a step the first is the call, the others its values.
    """

    mark: Mark
    pieces: tuple[Piece, ...]

    @property
    def is_step(self) -> bool:
        """True for a tool call: its first piece stands wherever another one does."""
        return self.mark is Mark.STEP


Chosen = Mapping[int, int]
"""Chosen pieces of a line: index of the form by index of the piece."""

Written = tuple[str, tuple[int, ...]]
"""A line as it is written, with the numbers of the messages that it is taken from."""


def write_lines(lines: Sequence[Line], chosen: Mapping[int, Chosen]) -> list[Written]:
    """Return the lines of an entry; neighbouring steps that brought nothing stand on one line.

    Args:
        lines: All lines, in their order.
        chosen: Which pieces stand, by the index of their line.
    """
    standing = [(lines[at], chosen[at]) for at in sorted(chosen) if chosen[at]]
    written: list[Written] = []
    for is_plain, run in groupby(standing, key=lambda one: one[0].is_step and len(one[1]) == 1):
        if is_plain:
            written.append(_merged_steps(list(run)))
        else:
            written += [_written(line, forms) for line, forms in run]
    return written


def _texts(line: Line, forms: Chosen) -> list[str]:
    return [line.pieces[at].forms[forms[at]].text for at in sorted(forms)]


def _places(line: Line, forms: Chosen) -> Iterator[int]:
    return (place for at in forms for place in line.pieces[at].places)


def _written(line: Line, forms: Chosen) -> Written:
    texts = _texts(line, forms)
    if line.is_step:
        text = f"{texts[0]}: {STEP_JOINT.join(_with_keys_once(texts[1:], _KEYED, _NEAR))}"
    else:
        *before, last = texts
        ended = [one if one.endswith(_ENDINGS) else f"{one};" for one in before]
        text = line.mark.value + " ".join([*ended, last])
    return text, tuple(sorted(set(_places(line, forms))))


_ENDINGS = tuple(".!?…:;,。！？”\"'")
_KEYED = re.compile(r"([A-Za-z_][\w-]*=)(.+)")
_NEAR = 80
"""Characters within which a key stands for the values behind it."""
_VERB = re.compile(r"(read|edited) ([^:;]+)")


def _merged_steps(run: Sequence[tuple[Line, Chosen]]) -> Written:
    """Write steps on one line: `read a.py, b.py; edited c.py`."""
    texts = list(dict.fromkeys(text for one in run for text in _texts(*one)))
    places = {place for one in run for place in _places(*one)}
    return STEP_JOINT.join(_with_keys_once(texts, _VERB)), tuple(sorted(places))


def _with_keys_once(
    texts: Sequence[str], keyed: re.Pattern[str], most: float = math.inf
) -> list[str]:
    """Return texts with neighbours of one key joined: `id=4711, 4712`.

    Args:
        texts: The texts.
        keyed: What has a key: its first group, with the value in its second one.
        most: Characters within which a key stands for the values behind it.
    """
    joined: list[str] = []
    last = ""
    for text in texts:
        found = keyed.fullmatch(text)
        key = found[1] if found else ""
        if found and key == last and len(joined[-1]) + len(found[2]) < most:
            joined[-1] += f", {found[2]}"
        else:
            joined.append(text)
        last = key
    return joined


_CANDIDATES_PER_TOKEN = 3
_MIN_CANDIDATES = 300
# Parts count for more than the whole with most counters; what that leaves is filled again.
_ROUNDS = 3
_BARE_PART = 4
"""Bare literals have at most one of so many parts of an entry."""
_DUPLICATE_SHARE = 0.75
# A piece whose words repeat a chosen one is worth this much of them.
_REPEATED = 0.05
_STRONG = 1.2
"""Worth from which a literal makes a repeated sentence a new one; plain numbers do not."""

Key = tuple[int, int]
"""Place of a piece: index of its line, and its own index in it."""


class _Step(NamedTuple):
    """One form that a piece can take next.

    Attributes:
        density: Worth that it adds for each token.
        tokens: Tokens that it adds.
        form: Index of the form.
    """

    density: float
    tokens: int
    form: int


def best_lines(
    lines: Sequence[Line], max_tokens: int, count_text: Callable[[str], int]
) -> list[Written]:
    """Return the lines of the best entry that keeps to the limit.

    Args:
        lines: All that it could say, in their order.
        max_tokens: Most tokens of the text.
        count_text: Counts them.

    Returns:
        Lines that joined have at most `max_tokens` by `count_text`; none only where not even one
        character fits.
    """
    count = cache(count_text)
    candidates = _most_promising(lines, max_tokens)
    most_bare = max_tokens // _BARE_PART
    selection = _filled(lines, candidates, max_tokens, most_bare, count)
    others = count(_joined(selection.written())) - selection.bare_tokens
    if selection.bare_tokens > others // (_BARE_PART - 1):
        most_bare = others // (_BARE_PART - 1)
        selection = _filled(lines, candidates, max_tokens, most_bare, count)
    return selection.written() or _smallest(lines, max_tokens, count)


def _filled(
    lines: Sequence[Line],
    candidates: Sequence[Key],
    max_tokens: int,
    most_bare: int,
    count: Callable[[str], int],
) -> Selection:
    """Return a selection that keeps to the limit as a whole."""
    selection = Selection(lines, candidates, count, most_bare)
    room = max_tokens
    written: list[Written] = []
    for _ in range(_ROUNDS):
        selection.fill(room)
        written = selection.written()
        # Counts of parts need not add up to the count of the whole: only this one decides.
        while selection.steps and count(_joined(written)) > max_tokens:
            selection.undo()
            written = selection.written()
        room = max_tokens - count(_joined(written))
    return selection


def _joined(written: Sequence[Written]) -> str:
    return "\n".join(text for text, _ in written)


def _worth(piece: Piece, form: int) -> float:
    text = piece.forms[form].text
    inside = sum(worth for literal, worth in piece.literals.items() if literal in text)
    return piece.forms[form].worth + inside


def _most_promising(lines: Sequence[Line], max_tokens: int) -> list[Key]:
    """Return the pieces that could make it, so that only those are counted."""
    keys = [(at, number) for at, line in enumerate(lines) for number in range(len(line.pieces))]
    limit = max(_MIN_CANDIDATES, _CANDIDATES_PER_TOKEN * max_tokens)
    if len(keys) <= limit:
        return keys

    def promise(key: Key) -> float:
        piece = lines[key[0]].pieces[key[1]]
        return _worth(piece, 0) / (4 + len(piece.forms[0].text))

    return sorted(heapq.nlargest(limit, keys, key=promise))


def _smallest(
    lines: Sequence[Line], max_tokens: int, count_text: Callable[[str], int]
) -> list[Written]:
    """Return the best line or literal that fits alone, else a part of the best line."""
    ranked = sorted(
        ((line, piece) for line in lines for piece in line.pieces[:20]),
        key=lambda pair: -_worth(pair[1], 0),
    )[:20]
    pairs = [(literal, worth, p) for _, p in ranked for literal, worth in p.literals.items()]
    pairs.sort(key=lambda pair: -pair[1])
    texts = [(line.mark.value + p.forms[0].text, p.places) for line, p in ranked[:1]]
    texts = texts or [(NOTHING, ())]
    texts += [(literal, piece.places) for literal, _, piece in pairs[:40]]
    for text, places in texts:
        if count_text(text) <= max_tokens:
            return [(text, places)]
    best, places = texts[0]
    sizes = range(len(best))
    too_long = bisect_right(sizes, max_tokens, key=lambda size: count_text(best[:size]))
    cut = best[: max(0, too_long - 1)].rstrip()
    return [(cut, places)] if cut else []


class Selection:
    """One filling of an entry.

    Attributes:
        steps: The steps taken, in order: which piece, and in which form.
        bare_tokens: Tokens of the bare literals among them.
    """

    def __init__(
        self,
        lines: Sequence[Line],
        candidates: Sequence[Key],
        count_text: Callable[[str], int],
        most_bare: int,
    ) -> None:
        self.bare_tokens = 0
        self._most_bare = most_bare
        self.steps: list[tuple[Key, int]] = []
        self._lines = lines
        self._candidates = candidates
        self._count = count_text
        self._chosen: dict[int, dict[int, int]] = {}
        self._held: dict[str, Key] = {}
        self._prose: list[Key] = []
        self._compared: dict[Key, int] = {}

    def fill(self, room: int) -> None:
        """Take the best steps until nothing more fits into `room` tokens."""
        heap: list[tuple[float, Key]] = []
        for key in self._candidates:
            self._push(heap, key)
        while heap and room > 0:
            pushed, key = heapq.heappop(heap)
            steps = [step for step in self._steps(key) if step.tokens <= room]
            best = max(steps, default=None)
            if not best or best.density <= 0:
                continue
            is_bare = self._lines[key[0]].pieces[key[1]].is_bare
            if is_bare and self.bare_tokens + best.tokens > self._most_bare:
                continue
            if -best.density > pushed + 1e-9:  # its worth sank since it was pushed
                heapq.heappush(heap, (-best.density, key))
                continue
            room -= best.tokens
            is_new_line = key[0] not in self._chosen
            self._take(key, best.form)
            self._push(heap, key)
            if is_new_line:  # what else the line could say has become cheaper
                for number in range(len(self._lines[key[0]].pieces)):
                    self._push(heap, (key[0], number))

    def undo(self) -> None:
        """Take back the last step."""
        steps = self.steps[:-1]
        self.bare_tokens = 0
        self.steps, self._chosen, self._held, self._prose, self._compared = [], {}, {}, [], {}
        for key, form in steps:
            self._take(key, form)

    def written(self) -> list[Written]:
        """Return the chosen lines as they are written."""
        return write_lines(self._lines, self._chosen)

    def _push(self, heap: list[tuple[float, Key]], key: Key) -> None:
        best = max(self._steps(key), default=None)
        if best and best.density > 0:
            heapq.heappush(heap, (-best.density, key))

    def _steps(self, key: Key) -> Iterator[_Step]:
        """Yield the forms above the one that stands now."""
        at, number = key
        line = self._lines[at]
        piece = line.pieces[number]
        standing = self._chosen.get(at, {}).get(number, -1)
        value, tokens = self._value(key, standing)
        opening, opening_tokens = self._opening(at, number)
        for form in range(standing + 1, len(piece.forms)):
            new_value, new_tokens = self._value(key, form)
            added = max(1, new_tokens - tokens + opening_tokens)
            yield _Step((new_value - value + opening) / added, added, form)

    def _opening(self, at: int, number: int) -> tuple[float, int]:
        """Return worth and tokens of what a line needs before its first piece can stand."""
        if at in self._chosen:
            return 0.0, 0
        line = self._lines[at]
        if line.is_step and number:
            value, tokens = self._value((at, 0), 0)
            return value, tokens
        return 0.0, self._count(line.mark.value + "\n")

    def _value(self, key: Key, form: int) -> tuple[float, int]:
        if form < 0:
            return 0.0, 0
        piece = self._lines[key[0]].pieces[key[1]]
        text, worth = piece.forms[form].text, piece.forms[form].worth
        own = [
            value
            for literal, value in piece.literals.items()
            if self._held.get(literal, key) == key and literal in text
        ]
        if piece.topic and not any(value >= _STRONG for value in own) and self._is_repeated(key):
            worth *= _REPEATED
        return worth + sum(own), self._count(text + STEP_JOINT)

    def _take(self, key: Key, form: int) -> None:
        at, number = key
        chosen = self._chosen.setdefault(at, {})
        if self._lines[at].is_step and 0 not in chosen and number:
            chosen[0] = 0
            self._hold((at, 0), 0)
        chosen[number] = form
        self._hold(key, form)
        self.steps.append((key, form))

    def _hold(self, key: Key, form: int) -> None:
        piece = self._lines[key[0]].pieces[key[1]]
        text = piece.forms[form].text
        if piece.is_bare:
            self.bare_tokens += self._count(text + STEP_JOINT)
        for literal in piece.literals:
            if literal in text:
                self._held.setdefault(literal, key)
        if piece.topic and key not in self._prose:
            self._prose.append(key)

    def _is_repeated(self, key: Key) -> bool:
        """Return whether a chosen sentence says what this one says."""
        topic = self._lines[key[0]].pieces[key[1]].topic
        # Choosing only adds, so each pair is compared once: half the time of a large batch.
        start = self._compared.get(key, 0)
        found = start < 0 or any(
            len(topic & self._lines[other[0]].pieces[other[1]].topic)
            >= _DUPLICATE_SHARE * len(topic)
            for other in self._prose[start:]
            if other != key
        )
        self._compared[key] = -1 if found else len(self._prose)
        return found
