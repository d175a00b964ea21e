"""The text of a tool result: without the JSON around it, by its two ends, line by line.

Only the two ends of a result are read, so a huge log costs no more than a short one.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections import Counter
from collections.abc import Mapping, Sequence
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
    r"|\[Command succeeded with exit code 0\]"
)
"""A line that a shell puts after any output: its prompt, file and folder, or that it succeeded."""

_FEWEST_RESULTS = 3
"""Fewer results of a tool do not show what it adds to each."""
_MOST_FRAME = 12
"""Maximum lines at either end of a result that its tool adds."""
_LONGEST_FRAME = 200
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MARK = re.compile(r"\s*[^\w\s]{2,} *\w[\w ]{,30} *[^\w\s]{2,}\s*")
"""A heading between signs, such as `=== STDOUT ===`."""


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
    """Return the output of a shell without the prompt, file and folder after it."""
    lines = text.splitlines()
    while lines and _FRAME.fullmatch(lines[-1].strip()):
        lines.pop()
    return "\n".join(lines).rstrip()


def without_same_ends(texts: Sequence[str]) -> list[str]:
    r"""Return results of one tool without the lines with which most of them begin or end.

    Such as the exit code and the duration: a number may differ between lines that are the same.

    Example:
        >>> without_same_ends([f"{n}\nCode: 0\nTime: {n} s\nLimit: 9 s" for n in (1, 2, 3)])
        ['1', '2', '3']
    """
    least = max(_FEWEST_RESULTS, len(texts) / 2)
    found = [text.splitlines() for text in texts]
    for _ in range(2):
        found = [lines[::-1] for lines in found]
        ends = [[_with_any_number(line) for line in lines[:_MOST_FRAME]] for lines in found]
        counts = Counter(line for end in ends for line in {one for pair in end for one in pair})
        sizes = [_frame_in(end, counts, least) for end in ends]
        found = [lines[size:] for lines, size in zip(found, sizes, strict=True)]
    return ["\n".join(lines).strip() or text for lines, text in zip(found, texts, strict=True)]


def _with_any_number(line: str) -> tuple[str, str]:
    """Return a line, and what it has in common with lines that differ in a number."""
    return line, _NUMBER.sub("0", line) if len(line) <= _LONGEST_FRAME else line


def _frame_in(end: Sequence[tuple[str, str]], counts: Mapping[str, int], least: float) -> int:
    """Return how many of the first lines are a frame: those that many results have.

    One alone could be an outcome, unless it is a mark; if all are the same they are the content.
    """
    same, size = 0, 0
    for place, (line, with_any_number) in enumerate(end):
        if not line.strip():
            continue
        if counts[line] >= least:
            same, size = same + (2 if _MARK.fullmatch(line) else 1), place + 1
        elif counts[with_any_number] < least:
            break
    return size if same > 1 and size < len(end) else 0


def clean_line(text: str) -> str:
    """Return the first line of a text as it can be in a list."""
    line = one_line(text.strip().partition("\n")[0], MAX_OUTCOME)
    return line.replace("; ", ", ").strip('"{}[] ')
