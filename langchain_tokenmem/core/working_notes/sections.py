"""The items of the sections of working notes, while messages are read and in a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_tokenmem.core.inserted_text import NOTES_FENCE, fenced
from langchain_tokenmem.core.working_notes.decision_rules import Decision, is_about
from langchain_tokenmem.core.working_notes.mode_profiles import SECTIONS, ModeProfile
from langchain_tokenmem.core.working_notes.sentence_rules import (
    has_value,
    has_word,
    unit_of,
)
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings
from langchain_tokenmem.state import ModesState, NoteItem, NoteSource


class NotesDraft:
    """A copy of a state that readers of sections change; the state itself stays.

    Args:
        state: The state so far.
        settings: How calls and paths are read.
        limits: Maximum items of a section, by its name.
    """

    def __init__(
        self, state: ModesState, settings: TurnMemorySettings, limits: Mapping[str, int]
    ) -> None:
        self.settings = settings
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

    def texts(self, section: str) -> list[str]:
        """Return the texts of a section."""
        return [one["text"] for one in self.items(section)]

    def set_items(self, section: str, items: Iterable[NoteItem]) -> None:
        """Give a section its items; it counts as changed if a reader sees a difference."""
        before, after = self.items(section), list(items)
        if [*map(_shown, before)] != [*map(_shown, after)]:
            self.modes["changed"][section] = max(1, self.modes["turn"])
        if after or section in self.modes["sections"]:
            self.modes["sections"][section] = after

    def item(self, text: str, source: str, by: NoteSource = "rule", key: str = "") -> NoteItem:
        """Return a new item of this turn."""
        item: NoteItem = {
            "text": text,
            "turn": max(1, self.modes["turn"]),
            "source": source,
            "by": by,
        }
        return {**item, "key": key} if key else item

    def replace(
        self, section: str, texts: Sequence[str], source: str, by: NoteSource = "rule"
    ) -> bool:
        """Give a section new texts; return whether they differ from those that it has."""
        is_new = [*texts] != self.texts(section)
        if is_new:
            self.set_items(section, [self.item(text, source, by) for text in texts])
        return is_new

    def add(self, section: str, item: NoteItem) -> None:
        """Add an item; one with its key is replaced, its very text is not said twice.

        If a section has too many items, the oldest is dropped.
        """
        items = list(self.items(section))
        same = _place_of(item, items)
        if same is None:
            items.append(item)
        elif _shown(items[same]) == _shown(item):
            return
        else:
            items[same] = item
        self.set_items(section, newest(items, self.limits[section]))

    def put_last(self, section: str, item: NoteItem) -> None:
        """Put an item at the end, in place of the one with its key, or with its very text."""
        rest = [one for one in self.items(section) if key_of(one) != key_of(item)]
        self.set_items(section, newest([*rest, item], self.limits[section]))

    def add_decision(
        self, decision: Decision, source: str, by: NoteSource = "rule", key: str = ""
    ) -> None:
        """Add a decision under the next number, in place of those that it rejects or drops.

        An existing one keeps its number.
        """
        item = self.item(decision.text, source, by, key)
        if decision.rationale:
            item["rationale"] = decision.rationale
        if rejected := list(decision.rejected[: self.limits["alternatives"]]):
            item["rejected"] = rejected
        rejects = {text.casefold() for text in decision.rejected}
        items = [
            one
            for one in self.items("decisions")
            if one["text"].casefold().removeprefix("use ") not in rejects
            and not (decision.dropped and is_about(one["text"], decision.dropped))
        ]
        self.set_items("decisions", items)
        same = _place_of(item, items)
        if same is None:
            item["number"] = self.modes["next_number"]
            self.modes["next_number"] += 1
        else:
            item = {**items[same], **item, "number": items[same]["number"]}
        self.add("decisions", item)

    def correct(self, value: str, old: str) -> None:
        """Put a value behind the newest statement with the old one, or with its unit.

        A mere number corrects the only value of the turn before.
        """
        unit = unit_of(value)
        found = [
            (one["turn"], section, place)
            for section in ("constraints", "facts", "decisions", "assumptions")
            for place, one in enumerate(self.items(section))
            if has_value(one["text"], unit) and (not old or has_word(one["text"], old))
        ]
        turn, section, place = max(found, default=(0, "", 0))
        is_clear = old or unit or sum(one[0] == turn for one in found) == 1
        oldest = self.modes["turn"] - (_CORRECTED_TURNS if old or unit else 1)
        if found and is_clear and turn >= oldest:
            items = list(self.items(section))
            text = items[place]["text"].partition(_CORRECTED)[0]
            items[place] = {**items[place], "text": f"{text}{_CORRECTED}{value})"}
            self.set_items(section, items)


_CORRECTED_TURNS = 5
"""Turns within which a correction refers to a statement; later it is about something else."""
_CORRECTED = " (corrected: "
_SHOWN = ("text", "verb", "number", "rationale", "rejected")
"""Keys of an item that a reader sees; a section has changed if one of them has."""


def _shown(item: NoteItem) -> list[object]:
    return [item.get(key) for key in _SHOWN]


def key_of(item: NoteItem) -> str:
    """Return what identifies an item: its key, or its words."""
    return item.get("key") or item["text"]


def _place_of(item: NoteItem, items: Sequence[NoteItem]) -> int | None:
    """Return the index of the item with the same key, or else with the same words."""
    key, text = item.get("key"), item["text"].casefold()
    if key:
        return find(items, lambda one: one.get("key") == key)
    return find(items, lambda one: one["text"].casefold() == text)


def find(items: Sequence[NoteItem], matches: Callable[[NoteItem], bool]) -> int | None:
    """Return the index of the first item that matches, or None."""
    return next((place for place, one in enumerate(items) if matches(one)), None)


def newest(items: Sequence[NoteItem], limit: int) -> list[NoteItem]:
    """Return the last items, as many as are kept."""
    return list(items[-limit:]) if limit else []


# --- what a request shows

ABOUT = "Kept from this conversation."

_VERBS = ("changed", "ran", "read", "named")
"""Actions on files, in the order in which they are shown."""

_MOST_NAMED = 5
"""Maximum files shown that were only named, the latest ones."""


@dataclass(frozen=True)
class RenderedNotes:
    """Working notes in the form shown by a request.

    Attributes:
        text: The notes with their fences; empty if there are none.
        sections: The items of each section in it, by name, with those that an earlier one shows.
    """

    text: str = ""
    sections: Mapping[str, list[str]] = field(default_factory=dict)


def render_notes(
    modes: ModesState,
    profile: ModeProfile,
    most: int,
    count_text: Callable[[str], int],
    live: Mapping[str, Sequence[str]] | None = None,
) -> RenderedNotes:
    """Return the notes of a mode within their share; empty sections are left out.

    A section is shown if it changed within `prefix_max_stale_turns`, except for those always
    shown. Of one that the request already shows, only new items are, unless an item there no longer
    holds. If all together are too long, the oldest items of the longest section go first, and the
    newest item of each section last; a later turn shows what was left out.

    Args:
        modes: What was read.
        profile: The current mode.
        most: Maximum tokens of the notes.
        count_text: Counts the tokens of a text.
        live: Items that the request already shows, by section.
    """
    kept = {
        name: {_item_text(name, item): item for item in modes["sections"].get(name, ())}
        for name in profile.sections
        if _is_fresh(modes, profile, name)
    }
    seen = live or {}
    shown: dict[str, list[NoteItem]] = {}
    for name, items in kept.items():
        limit = profile.limits.get(name, 0)
        if unseen := _unseen(items, seen.get(name, ()), is_full=len(items) >= limit > 0):
            shown[name] = unseen
    while shown:
        texts = {name: section_text(name, items) for name, items in shown.items()}
        whole = _fenced(texts, profile.name)
        excess = count_text(whole) - most
        if excess <= 0:
            sections = {
                name: [
                    text
                    for text, item in kept[name].items()
                    if item in items or text in seen.get(name, ())
                ]
                for name, items in shown.items()
            }
            return RenderedNotes(whole, sections)
        _leave_out(shown, texts, excess)
    return RenderedNotes()


def _unseen(items: Mapping[str, NoteItem], seen: Sequence[str], *, is_full: bool) -> list[NoteItem]:
    """Return the items that are not seen yet; all if one that was seen no longer holds.

    A full section has dropped what was older than its oldest item; that may still hold.
    """
    oldest = next(iter(items), "")
    since = seen.index(oldest) if is_full and oldest in seen else 0
    if not items.keys() >= set(seen[since:]):
        return [*items.values()]
    return [item for text, item in items.items() if text not in seen]


def section_text(name: str, items: Sequence[NoteItem]) -> str:
    """Return the text of a section, with its title.

    Args:
        name: Name of the section.
        items: Its items, oldest first.
    """
    section = SECTIONS[name]
    title = section.title or name.capitalize()
    if name == "files":
        return f"{title}: {_files(items)}"
    texts = [_item_text(name, item) for item in items]
    if section.is_list:
        return "\n".join([f"{title}:", *texts])
    return f"{title}: {'; '.join(texts)}"


def _is_fresh(modes: ModesState, profile: ModeProfile, name: str) -> bool:
    age = modes["turn"] - modes["changed"].get(name, 0)
    return SECTIONS[name].is_lasting or age <= profile.prefix_max_stale_turns


def _fenced(texts: Mapping[str, str], mode: str) -> str:
    return fenced("\n".join(texts.values()), NOTES_FENCE, ABOUT, f' mode="{mode}"')


def _leave_out(shown: dict[str, list[NoteItem]], texts: Mapping[str, str], excess: int) -> None:
    """Remove old items from the longest section: a character for each excess token.

    The newest item of a section goes only if no section has more: those that always are shown
    last of all.
    """
    several = [name for name in texts if len(shown[name]) > 1]
    fleeting = [name for name in texts if not SECTIONS[name].is_lasting]
    names = several or fleeting or list(texts)
    longest = max(names, key=lambda name: len(texts[name]))
    items, size = shown[longest], len(texts[longest])
    fewest = 1 if several else 0
    while len(items) > fewest and size - len(section_text(longest, items)) < excess:
        items.pop(0)
    if not items:
        del shown[longest]


def _files(items: Sequence[NoteItem]) -> str:
    """Return files by what was done with them, the one touched last at the end."""
    by_verb: dict[str, list[str]] = {}
    for item in items:
        by_verb.setdefault(item.get("verb", "named"), []).append(item["text"])
    by_verb["named"] = by_verb.get("named", [])[-_MOST_NAMED:]
    known = [verb for verb in _VERBS if by_verb.get(verb)]
    return "; ".join(f"{verb} {', '.join(by_verb[verb])}" for verb in known)


def _item_text(section: str, item: NoteItem) -> str:
    """Return an item on one line; a decision with its number, reason, and what was rejected."""
    if section == "files":
        return f"{item.get('verb', 'named')} {item['text']}"
    if section != "decisions":
        return item["text"]
    parts = [f"#{item.get('number', 0)} {item['text'].rstrip('.')}."]
    if rationale := item.get("rationale"):
        parts.append(f"Rationale: {rationale}.")
    if rejected := item.get("rejected"):
        parts.append(f"Rejected: {', '.join(rejected)}.")
    return " ".join(parts).removesuffix(".")
