"""Text of tool results: out of wrappers and escapes, and of a long one its two ends.

A result is looked at by its two ends only, so a giant log costs no more than a short one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress

from langchain_tokenmem.core.facts.sentences import one_line, prose

_HEAD, _TAIL = 6_000, 2_000
"""Characters at either end of a result that are read for values."""
MAX_OUTCOME = 120
# A run is tried from its first backslash only: thousands of them would cost the square of that.
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\+[nrt]")
_ESCAPED_MARK = re.compile(r"(?<!\\)\\+([\"'/])")
_WRAPPERS = frozenset(
    {"type", "text", "annotations", "meta", "_meta", "content", "structuredContent", "isError"}
)
_MAX_WRAPPERS, _MAX_JSON = 3, 200_000


def unescaped(text: str) -> str:
    """Return a text with the escapes of JSON inside of JSON undone, however deep."""
    if "\\" not in text:
        return text
    return _ESCAPED_MARK.sub(r"\1", _ESCAPED_SPACE.sub("\n", text))


def unwrapped(text: str) -> str:
    """Return the text inside of the JSON that MCP servers send: `{"type": "text", "text": ...}`."""
    for _ in range(_MAX_WRAPPERS):
        if not text.startswith("{") or len(text) > _MAX_JSON:
            return text
        inner: object = None
        with suppress(ValueError, RecursionError):
            inner = json.loads(text)
        if not isinstance(inner, Mapping):
            return text
        content = inner.get("content")
        if isinstance(content, str) and inner.keys() <= _WRAPPERS:
            text = content.strip()
            continue
        blocks = [inner] if "text" in inner else content if isinstance(content, list) else []
        texts = [block.get("text") for block in blocks if isinstance(block, Mapping)]
        found = [one for one in texts if isinstance(one, str)]
        if not found or not inner.keys() <= _WRAPPERS:
            return text
        text = "\n".join(found).strip()
    return text


def ends_of(text: str) -> str:
    """Return the two ends of a result that are read, without wrapper, escapes, encoded data."""
    text = unwrapped(text.strip())
    text = prose(unescaped(_ends(text, 2 * _HEAD, 2 * _TAIL)))
    return _ends(text, _HEAD, _TAIL)


def _ends(text: str, head: int, tail: int) -> str:
    """Return both ends of a long text, the tail from the beginning of a line."""
    if len(text) <= head + tail:
        return text
    start = len(text) - tail
    newline = text.find("\n", start, start + tail // 2)
    return f"{text[:head]}\n{text[newline + 1 if newline >= 0 else start :]}"


def clean_line(text: str) -> str:
    """Return the first line of a text as it can stand in a list."""
    line = one_line(text.strip().partition("\n")[0], MAX_OUTCOME)
    return line.replace("; ", ", ").strip('"{}[] ')
