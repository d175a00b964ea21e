"""Literals of a recorded answer, and search for them in requests as whole words.

A literal is what cannot be guessed: a path, an identifier, a number of three digits and more, an
address, or a quoted string with a capital or a digit in it. Dates and small counts are left out.
It shares no code with `core.facts`, which chooses what a summary keeps: what measures a summary
must not be what wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.cli.reference_counter import text_of

_WORD = re.compile(
    r"""
    https?://[^\s"'<>()\[\]{},]+                                # addresses
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                              # of mail
    | [~.]{0,2}/?[\w.@+-]*\w(?:/[\w.@+-]*\w)+                   # paths
    | (?<![\w/])/[\w.@+-]*\w
    | \d{1,3}(?:,\d{3})+(?:\.\d+)?                               # numbers
    | [A-Za-z0-9]\w*(?:[.-]\w+)*                                # and identifiers
    """,
    re.VERBOSE,
)
_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T ]?\d\d?(?::\d\d)*.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}/\d\d/\d\d"
)
_NUMBER = re.compile(r"\d[\d.,-]*")
_IDENTIFIER = re.compile(r"\w*(?:_\w|[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z])\w*|[A-Z]{3,}\w*")
_DOTTED = re.compile(
    r"[A-Za-z_]\w+(?:[.-]\w+)*\.[A-Za-z_]\w+|\w*\d\w*(?:[.-]\w+)+|\w+(?:-\w+)*-\w*\d\w*"
)
_ESCAPED_SPACE = re.compile(r"\\+[nrt]")
_ESCAPED_MARK = re.compile(r"\\+([\"'/])")
_SHORTEST = 3
_LONGEST = 60


def plain(text: str) -> str:
    """Return a text with the escapes of JSON undone, however deep: a line end ends a word."""
    if "\\" not in text:
        return text
    return _ESCAPED_MARK.sub(r"\1", _ESCAPED_SPACE.sub("\n", text))


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield what stands inside of arguments: key and text."""
    if isinstance(value, Mapping):
        for inner, one in value.items():
            yield from leaves(one, str(inner))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            yield from leaves(one, key)
    elif value is not None:
        yield key, str(value)


def said(message: BaseMessage) -> str:
    """Return the words of a message, those of its tool calls included, as plain lines."""
    lines = [text_of(message)]
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            lines += [call["name"], *(f"{key}: {text}" for key, text in leaves(call["args"]))]
        lines += [f"{call['name']}\n{call['args']}" for call in message.invalid_tool_calls]
    return plain("\n".join(line for line in lines if line))


def is_literal(word: str) -> bool:
    """Return whether a word can only be copied, not guessed."""
    if len(word) < _SHORTEST or _DATE.fullmatch(word):
        return False
    if _NUMBER.fullmatch(word):
        return sum(map(str.isdigit, word)) >= _SHORTEST
    marks = "/" in word or "@" in word
    return marks or bool(_IDENTIFIER.fullmatch(word) or _DOTTED.fullmatch(word))


def find_literals(text: str) -> list[str]:
    """Return the literals of a text, in their order, each once.

    Example:
        >>> find_literals("Book EHGLP3 for 1,250 by 2024-05-20: edit src/app.py in 2 places")
        ['EHGLP3', '1,250', 'src/app.py']
    """
    words = (word.rstrip(".-") for word in _WORD.findall(text))
    return list(dict.fromkeys(word for word in words if is_literal(word)))


def literals_of_action(action: BaseMessage) -> list[str]:
    """Return the literals of the arguments of an action's tool calls, else of its words.

    Args:
        action: What the model has said in the recording.
    """
    calls = action.tool_calls if isinstance(action, AIMessage) else []
    if not calls:
        return find_literals(plain(text_of(action)))
    found: dict[str, None] = {}
    for call in calls:
        for _, text in leaves(call["args"]):
            value = text.strip()
            if _SHORTEST < len(value) <= _LONGEST and "\n" not in value and _is_quotable(value):
                found[value] = None
            found |= dict.fromkeys(find_literals(plain(text)))
    return list(found)


def _is_quotable(value: str) -> bool:
    return not _DATE.fullmatch(value) and any(c.isupper() or c.isdigit() for c in value)


def places(text: str, literal: str) -> Iterator[int]:
    """Yield where a text holds a literal as whole words."""
    start = text.find(literal)
    while start >= 0:
        end = start + len(literal)
        before = text[start - 1] if start else " "
        after = text[end] if end < len(text) else " "
        if not (_joins(before) and _joins(literal[0])) and not (
            _joins(after) and _joins(literal[-1])
        ):
            yield start
        start = text.find(literal, start + 1)


def _joins(character: str) -> bool:
    return character.isalnum() or character == "_"


def holds(text: str, literal: str) -> bool:
    """Return whether a text holds a literal as whole words.

    Example:
        >>> holds("see app.py:12", "app.py"), holds("see myapp.py", "app.py")
        (True, False)
    """
    return next(places(text, literal), None) is not None
