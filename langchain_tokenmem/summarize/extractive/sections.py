"""Sections of an extractive summary, and its text: written in sections, parsed back without loss.

A section is a line `## ` with its title and one `- ` line per item. `User: ` marks what the user
said; nothing else can start so. What lost its sentence to the limit is kept as a bare literal in
the last section, in a line `- Also mentioned: ` (`- User also mentioned: `), parted by `; `.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Section(Enum):
    """The sections in the order in which they are written.

    Attributes:
        heading: Its line in the text.
        worth: Value of the prose of its items, in the unit of `literals.KIND_WEIGHTS`; facts
            without a cue only fill what room is left.
        words: Pattern of the headings that chat models give it.
    """

    FILES = "Files and functions", 3.0, r"file|function|code|path"
    ERRORS = "Errors and fixes", 4.0, r"error|fix|bug|problem"
    DEPENDENCIES = "Dependencies", 4.0, r"dependenc|package|librar"
    CONFIGURATION = "Configuration", 4.0, r"config|setting|environment"
    DECISIONS = "Decisions and constraints", 4.0, r"decision|constraint|rule|preference|goal|reject"
    DONE = "Done", 3.0, r"\b(?:done|complete|finished|progress)"
    OPEN = "Open items and next steps", 4.0, r"pending|next|open|todo|to-do|remaining"
    FACTS = "Names, numbers and dates", 0.6, r"(?!)"

    def __init__(self, title: str, worth: float, words: str) -> None:
        self.heading = f"## {title}"
        self.worth = worth
        self.words = re.compile(words, re.IGNORECASE)


NOTHING = "Nothing to note yet."
BARE_MARKS = {True: "- User also mentioned: ", False: "- Also mentioned: "}
_USER = "User: "
_AI = "AI: "
_SECTIONS = {section.heading: section for section in Section}
_LOOKS_MARKED = re.compile(r"(?:AI|User|Also mentioned|User also mentioned) ?:", re.IGNORECASE)
_HEADING = re.compile(r"(?:#{1,6}\s+(.{1,80})|\*\*([^*]{1,80})\*\*:?|([A-Z][^.!?\n]{1,60}):)\s*")


@dataclass(frozen=True)
class Line:
    """One item as it stands in a summary.

    Attributes:
        text: Its text, without marks.
        section: Its section; `None` where a foreign summary does not say.
        by_user: Whether the user said it.
        bare: Whether it is a literal without its sentence.
    """

    text: str
    section: Section | None
    by_user: bool = False
    bare: bool = False


def item_line(text: str, *, by_user: bool) -> str:
    """Return the line of an item, marked so that no text can pass for the user's."""
    mark = _USER if by_user else _AI if _LOOKS_MARKED.match(text) else ""
    return f"- {mark}{text}"


def format_lines(lines: Sequence[Line]) -> str:
    """Write a summary; `parse_summary` gives the same lines back, in the order of the sections.

    Args:
        lines: The items, in the order in which each section lists them; each with a section.

    Returns:
        The text, without a final newline.
    """
    written: list[str] = []
    for section in Section:
        inside = [line for line in lines if line.section is section]
        if inside:
            written.append(section.heading)
        written += [item_line(line.text, by_user=line.by_user) for line in inside if not line.bare]
        for by_user, mark in BARE_MARKS.items():
            bare = [line.text for line in inside if line.bare and line.by_user is by_user]
            if bare:
                written.append(mark + "; ".join(bare))
    return "\n".join(written)


def parse_summary(text: str) -> list[Line]:
    """Read a summary back; one that something else wrote gives its lines, sorted by its headings.

    Args:
        text: The running summary.

    Returns:
        The items in the order of the text.
    """
    section: Section | None = None
    lines = text.splitlines()
    is_own = any(line in _SECTIONS for line in lines)
    found: list[Line] = []
    for line in lines:
        if line in _SECTIONS:
            section = _SECTIONS[line]
        elif is_own and line.startswith("- "):
            found += _own_items(line, section)
        elif heading := _HEADING.fullmatch(line.strip()):
            title = heading[heading.lastindex or 0]
            section = next((section for section in Section if section.words.search(title)), None)
        elif line.strip() not in ("", NOTHING):
            found.append(Line(line.strip(), section))
    return found


def _own_items(line: str, section: Section | None) -> list[Line]:
    for by_user, mark in BARE_MARKS.items():
        if line.startswith(mark):
            literals = filter(None, line.removeprefix(mark).split("; "))
            return [Line(text, Section.FACTS, by_user=by_user, bare=True) for text in literals]
    text = line[2:]
    if text.startswith(_AI) and _LOOKS_MARKED.match(text, len(_AI)):
        text = text.removeprefix(_AI)
    elif text.startswith(_USER):
        return [Line(text.removeprefix(_USER), section, by_user=True)]
    return [Line(text, section)]
