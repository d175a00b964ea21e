"""The text of a tool result: without the JSON around it, by its two ends, line by line.

Only the two ends of a result are read, so a huge log costs no more than a short one.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.facts.sentences import one_line, prose
from langchain_tokenmem.core.messages import text_of

MAX_JSON = 200_000
"""Maximum characters of a result that is read as JSON."""
_LONGEST_DICT = 2_000
_HEAD, _TAIL = 6_000, 2_000
"""Characters at either end of a result that are read for values."""
_BEGINNING = re.compile(r"\n|[.!?] (?=[^\W_])")
MAX_OUTCOME = 120
_WRAPPED = re.compile(r"\"(?:text|content)\"\s*:")
_WRAPPERS = frozenset(
    {"type", "text", "annotations", "meta", "_meta", "content", "structuredContent"}
    | {"isError", "error"}
)
_WRAPPED_IN = 600
"""Characters at the beginning of a result in which the JSON around its text shows."""
_MAX_WRAPPERS = 3
# A run is tried from its first backslash only: thousands of them would cost the square of that.
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\+(?:[nrt]|u000[bBcC])")
_BEFORE_MARK = re.compile(r"(?<!\\)\\+(?=[\"'/])")
_FRAME = re.compile(
    r"(?:\([\w.-]{1,40}\) ?)?[\w.@~:/-]{0,80}(?:[$#]|>{1,3})"
    r"|\((?:Open file|Current directory): [^\n]{0,300}\)|\(\d{1,9} more lines? below\)"
    r"|\[(?:The )?[Cc]ommand (?:succeeded|completed|finished) with exit code 0\.?\]"
    r"|\[(?:Current working directory|Python interpreter): [^\n]{0,300}\]"
)
"""A line that a shell puts after any output: its prompt, file and folder, or that it succeeded."""
_STREAM = re.compile(r"\A={2,} (?:STDOUT|OUTPUT) ={2,}\n")
_INFO = re.compile(
    r"(?:\A|\n)={2,} [A-Z ]{0,20}INFO ={2,}\n(?:Return|Exit) code: 0"
    r"(?:\n[\w ]{0,20}(?:[Tt]ime|[Dd]uration|[Ll]imit): .{0,40})*\Z"
)
"""What an interpreter puts before its output, and after it if it succeeded."""


def plain_result(message: BaseMessage) -> str:
    """Return the text of a result without the JSON that MCP servers send it in."""
    return unwrapped(text_of(message).strip())


def unwrapped(text: str) -> str:
    """Return the text inside the JSON of MCP servers, which may be wrapped several times.

    Example:
        >>> unwrapped('{"content": [{"type": "text", "text": "3 rows"}]}')
        '3 rows'
    """
    for _ in range(_MAX_WRAPPERS):
        text = _unquoted(text)
        found = json_in(text) if _WRAPPED.search(text[:_WRAPPED_IN]) else None
        if isinstance(found, Mapping):
            if not found.keys() <= _WRAPPERS or found.get("error"):
                return text
            found = found.get("content", [found])
        blocks = found if isinstance(found, list) else [{"text": found}]
        if not all(isinstance(block, Mapping) for block in blocks):
            return text
        texts = [block.get("text") for block in blocks]
        strings = [one for one in texts if isinstance(one, str)]
        if not strings:
            return text
        text = "\n".join(strings).strip()
    return text


def _unquoted(text: str) -> str:
    """Return a text that is a string of JSON without its quotes and escapes."""
    if text[:1] == text[-1:] == '"' and len(text) <= MAX_JSON:
        with suppress(ValueError):
            return str(json.loads(text)).strip()
    return text


def json_in(text: str) -> Any:
    """Return the JSON object or list, or the short dict of Python, that a text is; else None."""
    if text[:1] in {"{", "["} and len(text) <= MAX_JSON:
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    if text.startswith("{'") and len(text) <= _LONGEST_DICT:
        with suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return literal_eval(text)
    return None


def unescaped(text: str) -> str:
    """Return a text with the escapes of JSON inside JSON undone, at any depth."""
    if "\\" not in text:
        return text
    return _BEFORE_MARK.sub("", _ESCAPED_SPACE.sub("\n", text))


def ends_of(text: str) -> str:
    """Return the two ends of a result that are read, without wrapper, escapes, encoded data."""
    text = unwrapped(text.strip())
    text = prose(unescaped(_ends(text, 2 * _HEAD, 2 * _TAIL)))
    return _ends(text, _HEAD, _TAIL)


def _ends(text: str, head: int, tail: int) -> str:
    """Return both ends of a long text, the tail from the beginning of a line or a sentence."""
    if len(text) <= head + tail:
        return text
    start = len(text) - tail
    begins = _BEGINNING.search(text, start, start + tail // 2)
    return f"{text[:head]}\n{text[begins.end() if begins else start :]}"


def without_frame(text: str) -> str:
    r"""Return the output of a shell or an interpreter without what it adds to any output.

    Example:
        >>> without_frame("== STDOUT ==\nSaved.\n== INFO ==\nReturn code: 0\nExecution time: 1 s")
        'Saved.'
    """
    lines = _INFO.sub("", _STREAM.sub("", text)).splitlines()
    while lines and _FRAME.fullmatch(lines[-1].strip()):
        lines.pop()
    return "\n".join(lines).rstrip()


def clean_line(text: str) -> str:
    """Return the first line of a text as it can be in a list."""
    line = one_line(text.strip().partition("\n")[0], MAX_OUTCOME)
    return line.replace("; ", ", ").strip('"{}[] ')
