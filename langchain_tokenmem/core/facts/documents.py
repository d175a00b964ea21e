"""The title and the headings of a page or document that a tool returned."""

from __future__ import annotations

import re

_TITLE = re.compile(
    r"\s*<.{0,2000}?<title[^>]{0,80}>([^<]{1,300})</title>"
    r"|(?:[^\n]{0,300}\n){0,12}(?:Subject|(?:- Page )?Title): ([^\n]{1,300})\n",
    re.DOTALL,
)
"""Title of a page in HTML, or as browsers and readers for language models write it; of a mail."""
_HEADING = re.compile(r"(?:\A|\n[ \t]*\n) {0,3}#(#{0,3}) +([^\s#][^\n]{0,300})(?=\n[ \t]*\n)")
"""A heading between empty lines, and its level."""
_LINE_NUMBER = re.compile(r"^ *\d+(?:\t|→|: ?)", re.MULTILINE)
"""What tools that read files put before each line."""
_MOST_READ = 20_000


def title_of(text: str) -> str:
    """Return the title of a page, of HTML or with a line that says so; empty without one."""
    title = _TITLE.match(text)
    return " ".join((title[1] or title[2]).split()) if title else ""


def headings_of(text: str) -> list[str]:
    r"""Return the headings of the first 20,000 characters of a Markdown text.

    There are none if all are of the first level, which might be comments in a file.

    Example:
        >>> headings_of("# Grants\n\nWho pays?\n\n## Amount\n\nHalf of it.")
        ['Grants', 'Amount']
    """
    if "#" not in text:
        return []
    found = _HEADING.findall(_LINE_NUMBER.sub("", text[:_MOST_READ]))
    return [name.rstrip(" #") for _, name in found] if any(level for level, _ in found) else []
