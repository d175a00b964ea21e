"""Selection of items within a token limit: sentences, then clauses, then bare literals.

A greedy knapsack: every item can be taken in up to three forms (literals only, the clause around
them, the whole sentence), and the step with the most new value for a token is taken next. What
another chosen item already says adds nothing, so redundant items go first and unique literals
last, whatever their age.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from langchain_tokenmem.summarize.extractive.classification import Section
from langchain_tokenmem.summarize.extractive.items import (
    USER_CONSTRAINT_WORTH,
    Item,
    Speaker,
    shortened,
)
from langchain_tokenmem.summarize.extractive.literals import KIND_WEIGHTS, Literal
from langchain_tokenmem.summarize.extractive.sections import (
    Line,
    bare_line,
    item_line,
    title_line,
)

BARE, CLAUSE, WHOLE = 1, 2, 3
# A literal with its sentence is worth this much more than alone.
CONTEXT_VALUE = 0.6
# The more literals one sentence lists, the less each of them is worth.
_LIST_DISCOUNT = 6
_DUPLICATE_SHARE = 0.75
# An item whose text repeats a chosen one is worth this much of its prose.
_REPEATED = 0.05
# A bare number does not make a sentence new: "about 3 times", "about 40 times".
_REPEATED_LITERALS = 0.2
_WEAK = frozenset({"number", "measure", "acronym", "name", "word"})
_LEAST_STEP = 1
_LONGEST = 30
_MANY_OF_A_KIND = 8
_MANY_CONSTRAINTS = 12


@dataclass
class Selection:
    """One filling of a summary; holds what is chosen so far.

    Attributes:
        items: The candidates.
        count_text: Counts the tokens of a text.
        levels: Form of each chosen item, by its index in `items`.
        steps: What was taken, in order: index and the form before.
    """

    items: Sequence[Item]
    count_text: Callable[[str], int]
    levels: dict[int, int] = field(default_factory=dict)
    steps: list[tuple[int, int]] = field(default_factory=list)
    _shorts: dict[int, str | None] = field(default_factory=dict)
    _costs: dict[str, int] = field(default_factory=dict)
    _holders: dict[str, int] = field(default_factory=dict)
    _kinds: Counter[str] = field(default_factory=Counter)
    _opened: Counter[str] = field(default_factory=Counter)
    _constraints: int = 0
    _prose: list[int] = field(default_factory=list)
    _compared: dict[int, int] = field(default_factory=dict)

    def fill(self, room: int) -> None:
        """Take the best steps until nothing more fits into `room` tokens."""
        heap: list[tuple[float, int, int]] = []
        for index in range(len(self.items)):
            self._push(heap, index)
        while heap and room > _LEAST_STEP:
            key, _, index = heapq.heappop(heap)
            level, density = self._best(index)
            if density <= 0:
                continue
            if -density > key + 1e-9:  # its value sank since it was pushed
                heapq.heappush(heap, (-density, self.items[index].order, index))
                continue
            cost = self._cost(index, level)
            if cost > room:
                level, cost = self._smaller(index, level, room)
                if not level:
                    continue
            room -= cost
            self._take(index, level)
            self._push(heap, index)

    def _push(self, heap: list[tuple[float, int, int]], index: int) -> None:
        _, density = self._best(index)
        if density > 0:
            heapq.heappush(heap, (-density, self.items[index].order, index))

    def _best(self, index: int) -> tuple[int, float]:
        """Return the next form of an item that gives most for a token, and how much."""
        now = self.levels.get(index, 0)
        found = (0, 0.0)
        for level in range(now + 1, WHOLE + 1):
            if self._form(index, level) is None:
                continue
            gain = self._value(index, level) - (self._value(index, now) if now else 0.0)
            density = gain / max(1, self._cost(index, level, titled=False))
            if density > found[1]:
                found = (level, density)
        return found

    def _smaller(self, index: int, level: int, room: int) -> tuple[int, int]:
        """Return a lesser form that still fits, `(0, 0)` when there is none."""
        for lesser in range(level - 1, self.levels.get(index, 0), -1):
            if self._form(index, lesser) is not None and self._value(index, lesser) > 0:
                cost = self._cost(index, lesser)
                if cost <= room:
                    return lesser, cost
        return 0, 0

    def _take(self, index: int, level: int) -> None:
        before = self.levels.get(index)
        self.steps.append((index, before or 0))
        self._set_level(index, level)
        for literal in self.items[index].literals:
            if self._holders.setdefault(literal.text, index) == index and before is None:
                self._kinds[literal.kind] += 1

    def undo(self) -> None:
        """Take the last step back."""
        index, before = self.steps.pop()
        self._set_level(index, before)
        if before:
            return
        for literal in self.items[index].literals:
            if self._holders.get(literal.text) == index:
                del self._holders[literal.text]
                self._kinds[literal.kind] -= 1

    def lines(self) -> list[Line]:
        """Return the chosen items as lines, in the order of the conversation."""
        chosen = sorted(self.levels, key=lambda index: (self.items[index].order, index))
        lines = []
        for index in chosen:
            item, level = self.items[index], self.levels[index]
            by_user = item.source is Speaker.USER
            if level == BARE:
                lines += [
                    Line(literal.text, Section.FACTS, by_user=by_user, bare=True)
                    for literal in self._own(index)
                ]
            else:
                lines.append(Line(self._form(index, level) or "", item.section, by_user=by_user))
        return lines

    def _own(self, index: int) -> list[Literal]:
        """Return the literals that no other chosen item holds."""
        return [
            literal
            for literal in self.items[index].literals
            if self._holders.get(literal.text, index) == index
        ]

    def _form(self, index: int, level: int) -> str | None:
        item = self.items[index]
        if level == BARE:
            return "; ".join(literal.text for literal in self._own(index)) or None
        if item.bare:
            return None
        if level == WHOLE:
            return item.text
        if index not in self._shorts:
            self._shorts[index] = shortened(item)
        return self._shorts[index]

    def _value(self, index: int, level: int) -> float:
        item = self.items[index]
        own = self._own(index)
        discount = 1 + max(0, len(item.literals) - 1) / _LIST_DISCOUNT
        repeated = self._repeated(index, own)
        literals = sum(map(self._literal_value, own)) * item.source.value / discount
        literals *= item.dilution
        if repeated:
            literals *= _REPEATED_LITERALS
        if level == BARE:
            return literals
        worth = item.worth * (_REPEATED if repeated else 1.0)
        if item.worth >= USER_CONSTRAINT_WORTH:
            worth /= 1 + self._constraints / _MANY_CONSTRAINTS
        if level == CLAUSE:
            worth *= 0.9 if item.worth > item.source.value * 10 else 0.6
            literals *= 1 + CONTEXT_VALUE * 0.8
        else:
            literals *= 1 + CONTEXT_VALUE
        return literals + worth

    def _literal_value(self, literal: Literal) -> float:
        cost = min(_LONGEST, self._count(literal.text))
        # The twentieth flight number says less than the first version.
        same = self._kinds[literal.kind] / _MANY_OF_A_KIND
        return KIND_WEIGHTS.get(literal.kind, 1.0) * max(1.0, cost / 4) / (1 + same)

    def _repeated(self, index: int, own: list[Literal]) -> bool:
        """Return whether a chosen item says what this one says."""
        topic = self.items[index].topic
        if not topic or any(literal.kind not in _WEAK for literal in own):
            return False
        # Choosing only adds: each pair is compared once, until a step is taken back.
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

    def _cost(self, index: int, level: int, *, titled: bool = True) -> int:
        """Return the tokens that a form adds to what stands there now.

        Titles are paid when they are opened, but no step is judged by them: whoever comes first
        would pay for all.
        """
        now = self.levels.get(index, 0)
        cost = self._standing(index, level) - (self._standing(index, now) if now else 0)
        if titled:
            titles = self._titles(index, level)
            cost += sum(self._count(title) for title in titles if not self._opened[title])
        return cost

    def _standing(self, index: int, level: int) -> int:
        text = self._form(index, level) or ""
        if level == BARE:
            return self._count("; " + text)
        by_user = self.items[index].source is Speaker.USER
        return self._count(item_line(text, by_user=by_user) + "\n")

    def _titles(self, index: int, level: int) -> tuple[str, ...]:
        """Return the lines that must stand before an item of this form."""
        item = self.items[index]
        if level > BARE:
            return (title_line(item.section) + "\n",)
        bare = bare_line((), by_user=item.source is Speaker.USER) + "\n"
        return (title_line(Section.FACTS) + "\n", bare)

    def _set_level(self, index: int, level: int) -> None:
        before = self.levels.pop(index, 0)
        if before:
            self._opened.subtract(self._titles(index, before))
        if level > BARE and before <= BARE:
            self._prose.append(index)
        elif before > BARE and level <= BARE:
            self._prose.remove(index)
            self._compared.clear()
        if level:
            self.levels[index] = level
            self._opened.update(self._titles(index, level))
        if self.items[index].worth >= USER_CONSTRAINT_WORTH:
            self._constraints += bool(level) - bool(before)

    def _count(self, text: str) -> int:
        if text not in self._costs:
            self._costs[text] = self.count_text(text) if text else 0
        return self._costs[text]
