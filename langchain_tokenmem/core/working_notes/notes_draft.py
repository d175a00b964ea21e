"""`NotesDraft`: sections while messages are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from langchain_tokenmem.notes_state import ModesState, NoteItem, NoteSource

_SHOWN = ("text", "verb", "number", "rationale", "rejected")
"""Keys of an item that a reader sees; a section has changed where one of them has."""

MAX_NAMES = 50
"""Names and phrases that are counted at once."""


class NotesDraft:
    """A copy of a state that readers of sections change; the state itself stays.

    Args:
        state: The state so far.
        limits: Items of a section that are kept at most, by its name.

    Attributes:
        limits: As given.
        modes: The state as it is now.
    """

    def __init__(self, state: ModesState, limits: Mapping[str, int]) -> None:
        self.limits = limits
        self.modes: ModesState = {
            **state,
            "sections": {**state["sections"]},
            "changed": {**state["changed"]},
            "names": {**state["names"]},
        }

    def items(self, section: str) -> Sequence[NoteItem]:
        """Return the items of a section, oldest first."""
        return self.modes["sections"].get(section, ())

    def set_items(self, section: str, items: Iterable[NoteItem]) -> None:
        """Give a section its items; it counts as changed where a reader sees a difference."""
        before, after = self.items(section), list(items)
        if [_shown(one) for one in before] != [_shown(one) for one in after]:
            self.modes["changed"][section] = max(1, self.modes["turn"])
        if after or section in self.modes["sections"]:
            self.modes["sections"][section] = after

    def item(self, text: str, source: str, by: NoteSource = "rule") -> NoteItem:
        """Return a new item of this turn."""
        return {"text": text, "turn": max(1, self.modes["turn"]), "source": source, "by": by}

    def decided(self, item: NoteItem, rationale: str, rejected: Sequence[str]) -> NoteItem:
        """Return an item with its reason, and as many rejected alternatives as are kept."""
        if rationale:
            item["rationale"] = rationale
        if kept := list(rejected[: self.limits["alternatives"]]):
            item["rejected"] = kept
        return item

    def add(self, section: str, item: NoteItem) -> None:
        """Add an item; one with its key is replaced, its very text is not said twice.

        Args:
            section: Name of the section; where it has too many items, the oldest goes.
            item: The item.
        """
        items = list(self.items(section))
        same = find(items, _is_same(item))
        if same is None:
            items = newest([*items, item], self.limits[section])
        elif _shown(items[same]) == _shown(item):
            return
        else:
            items[same] = item
        self.set_items(section, items)

    def add_decision(self, item: NoteItem) -> None:
        """Add a decision under the next number; one that stands there already keeps its own."""
        items = self.items("decisions")
        same = find(items, _is_same(item))
        if same is None:
            item["number"] = self.modes["next_number"]
            self.modes["next_number"] += 1
        else:
            before = items[same]
            item = {**before, **item, "number": before["number"]}
        self.add("decisions", item)


def find(items: Sequence[NoteItem], matches: Callable[[NoteItem], bool]) -> int | None:
    """Return the place of the first item that matches; None where none does."""
    return next((place for place, one in enumerate(items) if matches(one)), None)


def newest(items: Sequence[NoteItem], limit: int) -> list[NoteItem]:
    """Return the last items, as many as are kept."""
    return list(items[-limit:]) if limit else []


def _is_same(item: NoteItem) -> Callable[[NoteItem], bool]:
    """Return a check for items of the same key, or, where there is none, of the same words."""
    key, text = item.get("key"), item["text"].casefold()
    return lambda one: one.get("key") == key if key else one["text"].casefold() == text


def _shown(item: NoteItem) -> list[object]:
    return [item.get(key) for key in _SHOWN]
