"""Rendering of working notes: the sections of a mode as the text that a request shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_tokenmem.core.inserted_text import NOTES_FENCE, fenced
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.notes_state import ModesState, NoteItem

ABOUT = "Kept from this conversation."

ALWAYS_SHOWN = frozenset({"objective", "constraints", "errors"})
"""Sections that are shown however long ago they changed. A resolved error is no item any more."""

_TITLES = {
    "subgoals": "Sub-goals",
    "facts": "About the user",
}
_ONE_BY_LINE = frozenset({"commands", "decisions", "errors"})
_VERBS = ("changed", "ran", "read", "named")
"""Actions on files, in the order in which they are shown."""

_MOST_NAMED = 5
"""Files that were only named and are shown: the latest."""


@dataclass(frozen=True)
class RenderedNotes:
    """Working notes as a request shows them.

    Attributes:
        text: The notes with their fences; empty for none.
        sections: The text of each section in it, by name.
    """

    text: str = ""
    sections: Mapping[str, str] = field(default_factory=dict)


def render_notes(
    modes: ModesState,
    profile: ModeProfile,
    most: int,
    count_text: Callable[[str], int],
    live: Mapping[str, str] | None = None,
) -> RenderedNotes:
    """Return the notes of a mode within their share; empty sections are left out.

    A section is shown where it changed within `prefix_max_stale_turns`, but for those that always
    are. Where all together are too long, the oldest items of the longest section go first, and
    the newest item of each section last.

    Args:
        modes: What was read.
        profile: The mode that is on.
        most: Tokens that the notes may have.
        count_text: Counts the tokens of a text.
        live: Sections that the request shows already, by name; one that reads the same is left out.
    """
    shown = {
        name: list(items)
        for name in profile.sections
        if (items := modes["sections"].get(name)) and _is_fresh(modes, profile, name)
    }
    while shown:
        texts = {name: section_text(name, items) for name, items in shown.items()}
        new = {name: text for name, text in texts.items() if text != (live or {}).get(name)}
        if not new:
            return RenderedNotes()
        whole = _fenced(new, profile.name)
        excess = count_text(whole) - most
        if excess <= 0:
            return RenderedNotes(whole, new)
        _leave_out(shown, new, excess)
    return RenderedNotes()


def section_text(name: str, items: Sequence[NoteItem]) -> str:
    """Return the text of a section, with its title.

    Args:
        name: Name of the section.
        items: Its items, oldest first.
    """
    title = _TITLES.get(name, name.capitalize())
    if name == "files":
        return f"{title}: {_files(items)}"
    texts = [_item_text(name, item) for item in items]
    if name in _ONE_BY_LINE:
        return "\n".join([f"{title}:", *texts])
    return f"{title}: {'; '.join(texts)}"


def _item_text(section: str, item: NoteItem) -> str:
    """Return the text of one item; a decision with its number, its reason and what it rejects."""
    return _decision(item) if section == "decisions" else item["text"]


def _is_fresh(modes: ModesState, profile: ModeProfile, name: str) -> bool:
    age = modes["turn"] - modes["changed"].get(name, 0)
    return name in ALWAYS_SHOWN or age <= profile.prefix_max_stale_turns


def _fenced(texts: Mapping[str, str], mode: str) -> str:
    return fenced("\n".join(texts.values()), NOTES_FENCE, ABOUT, f' mode="{mode}"')


def _leave_out(shown: dict[str, list[NoteItem]], texts: Mapping[str, str], excess: int) -> None:
    """Take old items out of the longest section: a character for each token too many.

    The newest item of a section goes only where no section has more: those that always are shown
    last of all.
    """
    several = [name for name in texts if len(shown[name]) > 1]
    names = several or [name for name in texts if name not in ALWAYS_SHOWN] or list(texts)
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


def _decision(item: NoteItem) -> str:
    """Return a decision on one line: its number, its reason, what was rejected for it."""
    parts = [f"#{item.get('number', 0)} {item['text'].rstrip('.')}."]
    if rationale := item.get("rationale"):
        parts.append(f"Rationale: {rationale}.")
    if rejected := item.get("rejected"):
        parts.append(f"Rejected: {', '.join(rejected)}.")
    return " ".join(parts).removesuffix(".")
