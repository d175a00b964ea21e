"""Text format of an extractive summary: written in sections, parsed back without loss.

A section is a line `## ` with its title and one `- ` line per item. `User: ` marks what the user
said; nothing else can start so. What lost its sentence to the limit is kept as a bare literal in
the last section, in a line `- Also mentioned: ` (`- User also mentioned: `), parted by `; `.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain_tokenmem.summarize.extractive.classification import Section

NOTHING = "Nothing to note yet."
_USER = "User: "
_BARE = {False: "Also mentioned: ", True: "User also mentioned: "}
_TITLES = {f"## {section.value}": section for section in Section}
_LOOKS_MARKED = re.compile(r"(?:AI|User|Also mentioned|User also mentioned) ?:", re.IGNORECASE)
# Headings of summaries that a chat model wrote, by the words they are usually made of.
_HEADING_WORDS = (
    (re.compile(r"file|function|code|path", re.IGNORECASE), Section.FILES),
    (re.compile(r"error|fix|bug|problem", re.IGNORECASE), Section.ERRORS),
    (re.compile(r"dependenc|package|librar", re.IGNORECASE), Section.DEPENDENCIES),
    (re.compile(r"config|setting|environment", re.IGNORECASE), Section.CONFIGURATION),
    (
        re.compile(r"decision|constraint|rule|preference|goal|reject", re.IGNORECASE),
        Section.DECISIONS,
    ),
    (re.compile(r"\b(?:done|complete|finished|progress)", re.IGNORECASE), Section.DONE),
    (re.compile(r"pending|next|open|todo|to-do|remaining", re.IGNORECASE), Section.OPEN),
)
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
    if by_user:
        return f"- {_USER}{text}"
    return f"- AI: {text}" if _LOOKS_MARKED.match(text) else f"- {text}"


def bare_line(literals: Iterable[str], *, by_user: bool) -> str:
    """Return the line that lists literals without their sentences."""
    return f"- {_BARE[by_user]}{'; '.join(literals)}"


def title_line(section: Section) -> str:
    """Return the heading of a section."""
    return f"## {section.value}"


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
        if not inside:
            continue
        written.append(title_line(section))
        written += [item_line(line.text, by_user=line.by_user) for line in inside if not line.bare]
        for by_user in (True, False):
            bare = [line.text for line in inside if line.bare and line.by_user is by_user]
            if bare:
                written.append(bare_line(bare, by_user=by_user))
    return "\n".join(written)


def parse_summary(text: str) -> list[Line]:
    """Read a summary back; one that something else wrote gives its lines, sorted by its headings.

    Args:
        text: The running summary.

    Returns:
        The items in the order of the text.
    """
    section: Section | None = None
    own = any(line in _TITLES for line in text.splitlines())
    found: list[Line] = []
    for line in text.splitlines():
        if line in _TITLES:
            section = _TITLES[line]
        elif own and line.startswith("- "):
            found += _own_items(line[2:], section)
        elif line.strip() and line.strip() != NOTHING:
            heading = _HEADING.fullmatch(line.strip())
            if heading:
                section = _section_of_heading(next(filter(None, heading.groups())))
            else:
                found.append(Line(line.strip(), section))
    return found


def _own_items(text: str, section: Section | None) -> list[Line]:
    for by_user, mark in _BARE.items():
        if text.startswith(mark):
            literals = text[len(mark) :].split("; ")
            return [Line(lit, Section.FACTS, by_user=by_user, bare=True) for lit in literals if lit]
    if text.startswith(_USER):
        return [Line(text[len(_USER) :], section, by_user=True)]
    if text.startswith("AI: ") and _LOOKS_MARKED.match(text, 4):
        text = text[4:]
    return [Line(text, section)]


def _section_of_heading(title: str) -> Section | None:
    return next((section for pattern, section in _HEADING_WORDS if pattern.search(title)), None)
