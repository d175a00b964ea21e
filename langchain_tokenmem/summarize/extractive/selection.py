"""Selection of items within a token limit: sentences, then clauses, then bare literals.

A greedy knapsack: every item can be taken in up to three forms (literals only, the clause around
them, the whole sentence), and the step with the most new value for a token is taken next. What
another chosen item already says adds nothing, so redundant items go first and unique literals
last, whatever their age.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from langchain_tokenmem.summarize.extractive.items import Item
from langchain_tokenmem.summarize.extractive.literals import Literal
from langchain_tokenmem.summarize.extractive.sections import (
    BARE_MARKS,
    NOTHING,
    Line,
    Section,
    format_lines,
    item_line,
)

_BARE, _CLAUSE, _WHOLE = 1, 2, 3
_CANDIDATES_PER_TOKEN = 2
_MIN_CANDIDATES = 200
# Parts count for more than the whole with most counters; what that leaves is filled again.
_ROUNDS = 3
_CARRIED_PROMISE = 1.5
# A literal with its sentence is worth this much more than alone.
_CONTEXT_VALUE = 0.6
# The more literals one sentence lists, the less each of them is worth.
_LIST_DISCOUNT = 6
_DUPLICATE_SHARE = 0.75
# An item whose text repeats a chosen one is worth this much of its prose.
_REPEATED = 0.05
# A bare number does not make a sentence new: "about 3 times", "about 40 times".
_REPEATED_LITERALS = 0.2
_WEAK = frozenset({"number", "measure", "acronym", "name", "word"})
_LONGEST = 30
_MANY_OF_A_KIND = 8
_MANY_CONSTRAINTS = 12


def best_text(items: Sequence[Item], max_tokens: int, count_text: Callable[[str], int]) -> str:
    """Write the best summary of the items that keeps to the limit.

    Args:
        items: All candidates, in the order of the conversation.
        max_tokens: Most tokens of the text.
        count_text: Counts them.

    Returns:
        The text, at most `max_tokens` by `count_text`; empty only when not even one character
        fits.
    """
    count = cache(count_text)
    selection = Selection(_most_promising(items, max_tokens), count)
    room = max_tokens
    text = ""
    for _ in range(_ROUNDS):
        selection.fill(room)
        text = format_lines(selection.lines())
        # Counts of parts need not add up to the count of the whole: only this one decides.
        while selection.steps and count(text) > max_tokens:
            selection.undo()
            text = format_lines(selection.lines())
        room = max_tokens - count(text)
    return text if selection.steps else _smallest(selection.items, max_tokens, count)


def _most_promising(items: Sequence[Item], max_tokens: int) -> list[Item]:
    """Keep the candidates that could make it, so that only those are counted."""

    def promise(index: int) -> float:
        item = items[index]
        literals = sum(literal.weight for literal in item.literals[:6])
        return (item.worth + literals * item.source.value) * (
            _CARRIED_PROMISE if item.carried else 1.0
        )

    limit = max(_MIN_CANDIDATES, _CANDIDATES_PER_TOKEN * max_tokens)
    if len(items) <= limit:
        return list(items)
    best = heapq.nlargest(limit, range(len(items)), key=promise)
    return [items[index] for index in sorted(best)]


def _smallest(items: Sequence[Item], max_tokens: int, count_text: Callable[[str], int]) -> str:
    """Return the best item or literal that fits without its section, else a piece of the item."""
    ranked = sorted(items, key=lambda item: (-item.worth * item.source.value, item.order))
    literals = [
        (literal.weight * item.source.value, literal.text)
        for item in ranked[:20]
        for literal in item.literals[:5]
    ]
    literals.sort(key=lambda literal: -literal[0])
    best = ranked[0].text if ranked else NOTHING
    for text in (best, *(text for _, text in literals)):
        if count_text(text) <= max_tokens:
            return text
    size = len(best)
    cut = bisect_left(
        range(size), True, key=lambda cut: count_text(best[: size - cut]) <= max_tokens
    )
    return best[: size - cut].rstrip()


class Selection:
    """One filling of a summary: the form of each chosen item.

    Attributes:
        items: The candidates.
        steps: The steps taken, in order: index of an item and its new form.
    """

    def __init__(self, items: Sequence[Item], count_text: Callable[[str], int]) -> None:
        self.items = items
        self._count = count_text
        self._clear()

    def _clear(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self._forms = [0] * len(self.items)
        self._holders: dict[str, int] = {}
        self._kinds: Counter[str] = Counter()
        self._titles: Counter[str] = Counter()
        self._constraints = 0
        self._prose: list[int] = []
        self._compared: dict[int, int] = {}

    def fill(self, room: int) -> None:
        """Take the best steps until nothing more fits into `room` tokens."""
        heap = [(-self._best(index)[1], item.order, index) for index, item in enumerate(self.items)]
        heapq.heapify(heap)
        while heap and room > 1:
            key, order, index = heapq.heappop(heap)
            form, density = self._best(index)
            if density <= 0:
                continue
            if -density <= key + 1e-9:  # else its value sank since it was pushed
                form, cost = self._fitting(index, form, room)
                if not form:
                    continue
                room -= cost
                self._take(index, form)
                density = self._best(index)[1]
            heapq.heappush(heap, (-density, order, index))

    def undo(self) -> None:
        """Take the last step back, by taking those before it again."""
        steps = self.steps[:-1]
        self._clear()
        for index, form in steps:
            self._take(index, form)

    def lines(self) -> list[Line]:
        """Return the chosen items as lines, in the order of the conversation."""
        chosen = [index for index, form in enumerate(self._forms) if form]
        lines: list[Line] = []
        for index in sorted(chosen, key=lambda index: self.items[index].order):
            item, form = self.items[index], self._forms[index]
            if form == _BARE:
                lines += [
                    Line(literal.text, Section.FACTS, by_user=item.by_user, bare=True)
                    for literal in self._own(index)
                ]
            else:
                text = self._text(index, form) or ""
                lines.append(Line(text, item.section, by_user=item.by_user))
        return lines

    def _best(self, index: int) -> tuple[int, float]:
        """Return the next form of an item that gives most for a token, and how much."""
        now = self._forms[index]
        found = (0, 0.0)
        for form in range(now + 1, _WHOLE + 1):
            if self._text(index, form) is None:
                continue
            gain = self._value(index, form) - (self._value(index, now) if now else 0.0)
            # Titles are not asked here: whoever comes first would pay for all.
            density = gain / max(1, self._added(index, form))
            if density > found[1]:
                found = (form, density)
        return found

    def _fitting(self, index: int, form: int, room: int) -> tuple[int, int]:
        """Return a form, or the next lesser one, that fits, and its tokens with its titles."""
        for lesser in range(form, self._forms[index], -1):
            if self._text(index, lesser) is None or self._value(index, lesser) <= 0:
                continue
            titles = _titles(self.items[index], lesser)
            opened = sum(self._count(title) for title in titles if not self._titles[title])
            cost = self._added(index, lesser) + opened
            if cost <= room:
                return lesser, cost
        return 0, 0

    def _take(self, index: int, form: int) -> None:
        item, before = self.items[index], self._forms[index]
        if before:
            self._titles.subtract(_titles(item, before))
        else:
            own = self._own(index)
            self._holders.update((literal.text, index) for literal in own)
            self._kinds.update(literal.kind for literal in own)
            self._constraints += item.is_constraint
        if before <= _BARE < form:
            self._prose.append(index)
        self._titles.update(_titles(item, form))
        self._forms[index] = form
        self.steps.append((index, form))

    def _own(self, index: int) -> list[Literal]:
        """Return the literals that no other chosen item holds."""
        return [
            literal
            for literal in self.items[index].literals
            if self._holders.get(literal.text, index) == index
        ]

    def _text(self, index: int, form: int) -> str | None:
        item = self.items[index]
        if form == _BARE:
            return "; ".join(literal.text for literal in self._own(index)) or None
        if item.bare:
            return None
        return item.text if form == _WHOLE else item.clause

    def _added(self, index: int, form: int) -> int:
        """Return the tokens that a form adds to what stands there now, without titles."""
        now = self._forms[index]
        return self._size(index, form) - (self._size(index, now) if now else 0)

    def _size(self, index: int, form: int) -> int:
        text = self._text(index, form) or ""
        if form == _BARE:
            return self._count("; " + text)
        return self._count(item_line(text, by_user=self.items[index].by_user) + "\n")

    def _value(self, index: int, form: int) -> float:
        item = self.items[index]
        own = self._own(index)
        is_repeated = self._is_repeated(index, own)
        discount = 1 + max(0, len(item.literals) - 1) / _LIST_DISCOUNT
        literals = sum(map(self._literal_value, own)) * item.source.value / discount
        literals *= item.dilution
        if is_repeated:
            literals *= _REPEATED_LITERALS
        if form == _BARE:
            return literals
        worth = item.worth * (_REPEATED if is_repeated else 1.0)
        if item.is_constraint:
            worth /= 1 + self._constraints / _MANY_CONSTRAINTS
        if form == _WHOLE:
            return literals * (1 + _CONTEXT_VALUE) + worth
        share = 0.9 if item.worth > item.source.value * 10 else 0.6
        return literals * (1 + _CONTEXT_VALUE * 0.8) + worth * share

    def _literal_value(self, literal: Literal) -> float:
        length = max(1.0, min(_LONGEST, self._count(literal.text)) / 4)
        # The twentieth flight number says less than the first version.
        return literal.weight * length / (1 + self._kinds[literal.kind] / _MANY_OF_A_KIND)

    def _is_repeated(self, index: int, own: list[Literal]) -> bool:
        """Return whether a chosen item says what this one says."""
        topic = self.items[index].topic
        if not topic or any(literal.kind not in _WEAK for literal in own):
            return False
        # Choosing only adds: each pair is compared once.
        start = self._compared.get(index, 0)
        if start < 0:
            return True
        found = any(
            len(topic & self.items[other].topic) >= _DUPLICATE_SHARE * len(topic)
            for other in self._prose[start:]
            if other != index
        )
        self._compared[index] = -1 if found else len(self._prose)
        return found


def _titles(item: Item, form: int) -> tuple[str, ...]:
    """Return the lines that must stand before an item of this form."""
    if form > _BARE:
        return (item.section.heading + "\n",)
    return (Section.FACTS.heading + "\n", BARE_MARKS[item.by_user] + "\n")
