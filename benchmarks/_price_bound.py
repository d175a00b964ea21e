"""Binding of literals: whether a text holds a literal on a line that explains it."""

from __future__ import annotations

import re

from langchain_tokenmem.cli.measures import find_literals, holds, places

_KEY = re.compile(r"([A-Za-z_][\w-]*)[\"'*` ]*[:=][\s\"'*`\[({$]*$")
_OPENING = re.compile(r"[^\w/]*([A-Za-z_][\w.-]*)")
SEGMENT = 120
"""Characters at either side of a literal that are its line, where the line is longer."""


def line_around(text: str, start: int, length: int) -> tuple[str, str]:
    """Return what stands before and behind a place on its line, `SEGMENT` characters at most."""
    end = start + length
    first = max(text.rfind("\n", 0, start) + 1, start - SEGMENT)
    found = text.find("\n", end, end + SEGMENT)
    return text[first:start], text[end : found if found >= 0 else end + SEGMENT]


def keys_in(text: str, literal: str, *, most: int = 20) -> set[str]:
    """Return what explains a literal in its source: key, command, and paths of its line."""
    keys: set[str] = set()
    for number, start in enumerate(places(text, literal)):
        if number >= most:
            break
        before, behind = line_around(text, start, len(literal))
        if key := _KEY.search(before):
            keys.add(key[1])
        if opening := _OPENING.match(before):
            keys.add(opening[1])
        keys.update(word for word in find_literals(f"{before} {behind}") if "/" in word)
    return {key for key in keys if len(key) > 1 and key not in literal}


def is_bound(text: str, literal: str, keys: set[str]) -> bool:
    """Return whether a text has a line that holds a literal and one of its keys.

    Example:
        >>> is_bound("- user_id: ada_4711", "ada_4711", {"user_id"})
        True
    """
    for start in places(text, literal):
        before, behind = line_around(text, start, len(literal))
        line = f"{before} {behind}"
        if any(holds(line, key) for key in keys):
            return True
    return False
