"""Selection of items within a token limit: sentences, then clauses, then bare literals.

A greedy knapsack: every item can be taken in up to three forms (literals only, the clause around
them, the whole sentence), and the step with the most new value for a token is taken next. What
another chosen item already says adds nothing, so redundant items go first and unique literals
last, whatever their age.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import inf
from operator import attrgetter
from typing import NamedTuple

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
_DENSITY = attrgetter("density")


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
            selection = Selection(selection.items, count, selection.steps[:-1])
            text = format_lines(selection.lines())
        room = max_tokens - count(text)
    return text if selection.steps else _smallest(selection.items, max_tokens, count)


def _most_promising(items: Sequence[Item], max_tokens: int) -> list[Item]:
    """Keep the candidates that could make it, so that only those are counted."""

    def promise(index: int) -> float:
        item = items[index]
        literals = sum(literal.weight for literal in item.literals[:6])
        factor = _CARRIED_PROMISE if item.carried else 1.0
        return (item.worth + literals * item.source.value) * factor

    limit = max(_MIN_CANDIDATES, _CANDIDATES_PER_TOKEN * max_tokens)
    best = heapq.nlargest(limit, range(len(items)), key=promise)
    return [items[index] for index in sorted(best)]


def _smallest(items: Sequence[Item], max_tokens: int, count_text: Callable[[str], int]) -> str:
    """Return the best item or literal that fits without its section, else a piece of the item."""
    ranked = sorted(items, key=lambda item: (-item.worth * item.source.value, item.order))
    literals = [(item, literal) for item in ranked[:20] for literal in item.literals[:5]]
    literals.sort(key=lambda pair: -pair[1].weight * pair[0].source.value)
    best = ranked[0].text if ranked else NOTHING
    for text in (best, *(literal.text for _, literal in literals)):
        if count_text(text) <= max_tokens:
            return text
    sizes = range(len(best))
    too_long = bisect_right(sizes, max_tokens, key=lambda size: count_text(best[:size]))
    return best[: max(0, too_long - 1)].rstrip()


class _Step(NamedTuple):
    """One form that an item can take next.

    Attributes:
        form: `_BARE`, `_CLAUSE` or `_WHOLE`.
        text: The item in that form.
        value: Value of the form as a whole.
        tokens: What it adds to the form that stands now, without titles.
        density: Value that it adds, for each of these tokens.
        titles: Lines that must stand before it.
    """

    form: int
    text: str
    value: float
    tokens: int
    density: float
    titles: tuple[str, ...]


class Selection:
    """One filling of a summary: the form of each chosen item.

    Attributes:
        items: The candidates.
        steps: The steps taken, in order, with the index of the item.
    """

    def __init__(
        self,
        items: Sequence[Item],
        count_text: Callable[[str], int],
        steps: Sequence[tuple[int, _Step]] = (),
    ) -> None:
        self.items = items
        self.steps: list[tuple[int, _Step]] = []
        self._count = count_text
        self._chosen: dict[int, _Step] = {}
        self._holders: dict[str, int] = {}
        self._kinds: Counter[str] = Counter()
        self._titles: Counter[str] = Counter()
        self._constraints = 0
        self._prose: list[int] = []
        self._compared: dict[int, int] = {}
        for index, step in steps:
            self._take(index, step)

    def fill(self, room: int) -> None:
        """Take the best steps until nothing more fits into `room` tokens."""
        heap = [(-inf, item.order, index) for index, item in enumerate(self.items)]
        heapq.heapify(heap)
        while heap and room > 1:
            pushed, order, index = heapq.heappop(heap)
            steps = self._next_steps(index)
            best = max(steps, key=_DENSITY, default=None)
            if not best or best.density <= 0:
                continue
            key = -best.density
            if key <= pushed + 1e-9:  # else its value sank since it was pushed
                for step in reversed(steps):
                    cost = step.tokens + self._title_tokens(step)
                    if step.form <= best.form and cost <= room:
                        break
                else:
                    continue
                room -= cost
                self._take(index, step)
                key = -inf  # its next form is looked at at once
            heapq.heappush(heap, (key, order, index))

    def lines(self) -> list[Line]:
        """Return the chosen items as lines, in the order of the conversation."""
        lines: list[Line] = []
        for index in sorted(self._chosen, key=lambda index: (self.items[index].order, index)):
            item, step = self.items[index], self._chosen[index]
            if step.form > _BARE:
                lines.append(Line(step.text, item.section, by_user=item.by_user))
            else:
                lines += [
                    Line(literal.text, Section.FACTS, by_user=item.by_user, bare=True)
                    for literal in self._own(index)
                ]
        return lines

    def _next_steps(self, index: int) -> list[_Step]:
        """Return the forms above the one that stands now, the least first."""
        standing = self._chosen[index].form if index in self._chosen else 0
        value, tokens = 0.0, 0
        steps: list[_Step] = []
        for step in self._forms(index):
            if step.form == standing:
                value, tokens = step.value, step.tokens
            elif step.form > standing:
                added = step.tokens - tokens
                # Titles are not asked here: whoever comes first would pay for all.
                density = (step.value - value) / max(1, added)
                steps.append(step._replace(tokens=added, density=density))
        return steps

    def _forms(self, index: int) -> Iterator[_Step]:
        """Yield the forms of an item as if none stood, the least first."""
        item = self.items[index]
        own = self._own(index)
        is_repeated = self._is_repeated(index, own)
        discount = 1 + max(0, len(item.literals) - 1) / _LIST_DISCOUNT
        literals = sum(map(self._literal_value, own)) * item.source.value / discount
        literals *= item.dilution
        if is_repeated:
            literals *= _REPEATED_LITERALS
        if own:
            text = "; ".join(literal.text for literal in own)
            titles = (Section.FACTS.heading + "\n", BARE_MARKS[item.by_user] + "\n")
            yield _Step(_BARE, text, literals, self._count("; " + text), 0.0, titles)
        if item.bare:
            return
        worth = item.worth * (_REPEATED if is_repeated else 1.0)
        if item.is_constraint:
            worth /= 1 + self._constraints / _MANY_CONSTRAINTS
        share = 0.9 if item.worth > item.source.value * 10 else 0.6
        clause = literals * (1 + _CONTEXT_VALUE * 0.8) + worth * share
        whole = literals * (1 + _CONTEXT_VALUE) + worth
        for form, prose, value in ((_CLAUSE, item.clause, clause), (_WHOLE, item.text, whole)):
            if prose is not None:
                tokens = self._count(item_line(prose, by_user=item.by_user) + "\n")
                yield _Step(form, prose, value, tokens, 0.0, (item.section.heading + "\n",))

    def _title_tokens(self, step: _Step) -> int:
        return sum(self._count(title) for title in step.titles if not self._titles[title])

    def _take(self, index: int, step: _Step) -> None:
        before = self._chosen.get(index)
        if before:
            self._titles.subtract(before.titles)
        else:
            own = self._own(index)
            self._holders.update((literal.text, index) for literal in own)
            self._kinds.update(literal.kind for literal in own)
            self._constraints += self.items[index].is_constraint
        if step.form > _BARE and not (before and before.form > _BARE):
            self._prose.append(index)
        self._titles.update(step.titles)
        self._chosen[index] = step
        self.steps.append((index, step))

    def _own(self, index: int) -> list[Literal]:
        """Return the literals that no other chosen item holds."""
        holders = self._holders
        literals = self.items[index].literals
        return [literal for literal in literals if holders.get(literal.text, index) == index]

    def _literal_value(self, literal: Literal) -> float:
        length = max(1.0, min(_LONGEST, self._count(literal.text)) / 4)
        # The twentieth flight number says less than the first version.
        return literal.weight * length / (1 + self._kinds[literal.kind] / _MANY_OF_A_KIND)

    def _is_repeated(self, index: int, own: list[Literal]) -> bool:
        """Return whether a chosen item says what this one says."""
        topic = self.items[index].topic
        if not topic or any(literal.kind not in _WEAK for literal in own):
            return False
        # Choosing only adds, so each pair is compared once: half the time of a large batch.
        start = self._compared.get(index, 0)
        found = start < 0 or any(
            len(topic & self.items[other].topic) >= _DUPLICATE_SHARE * len(topic)
            for other in self._prose[start:]
            if other != index
        )
        self._compared[index] = -1 if found else len(self._prose)
        return found
