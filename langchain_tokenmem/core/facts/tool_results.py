"""Reading of tool results: how the call came out, which values it brought.

A result is looked at by its two ends only, so a giant log costs no more than a short one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from langchain_tokenmem.core.facts.literals import Identifier, find_identifiers
from langchain_tokenmem.core.facts.sentences import LOG_LINE, any_of, one_line, prose

_HEAD, _TAIL = 6_000, 2_000
"""Characters at either end of a result that are read for values."""
_MAX_VALUES = 120
_MAX_LINE = 100
_MAX_QUOTED = 60
MAX_OUTCOME = 120
_SHORT_LINES = 3
_BEFORE, _AFTER = 40, 30
_FAR = 400
_OUTCOME = re.compile(rf"\b{any_of('outcome')}\b", re.IGNORECASE)
_EMPTY = re.compile(r"\W*(?:none|null|ok|true|success|done|\[\]|\{\})?\W*", re.IGNORECASE)
# A run is tried from its first backslash only: thousands of them would cost the square of that.
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\+[nrt]")
_ESCAPED_MARK = re.compile(r"(?<!\\)\\+([\"'/])")
_LIST_MARK = re.compile(r"^[\s\-*•>|,{\[\]}(\"']+(?=[\w#/~.@])")
_TAG = re.compile(r"</?[\w-]{1,40}>?")
_ROW_NUMBER = re.compile(r"\d+:\W*")
_IS_KEY = re.compile(r"[\"']\s?:")
_ENDS_LINE = re.compile(r":[ \t]*(?:\n|\Z)")
_JSON_BETWEEN = re.compile(r"\":|\",\"|': ['\d\[{]")
_JSON_SIGNS = re.compile(r"[\"'] ?: ?[\"'\[{]*|[\"'{}\[\]]+")
_WRAPPERS = frozenset(
    {"type", "text", "annotations", "meta", "_meta", "content", "structuredContent", "isError"}
)
_SKIPPED_KEYS = frozenset({"type", "object", "annotations", "meta", "isError", "isFile"})
_MAX_WRAPPERS, _MAX_JSON = 3, 200_000


@dataclass(frozen=True, slots=True)
class ResultValue:
    """A value that a result brought, as it can stand on one line.

    Attributes:
        text: `key=value`, or the words around it on its line.
        identifiers: What in it can only be copied.
        is_bare: Whether nothing but an identifier stands there.
    """

    text: str
    identifiers: tuple[Identifier, ...]
    is_bare: bool = False


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


def outcome_of(text: str) -> str:
    """Return a result that is short, else its closing line if it tells of an outcome."""
    text = text.strip("=\n ")
    if _EMPTY.fullmatch(text):
        return ""
    if text.startswith(("{", "[")):
        text = _JSON_SIGNS.sub(lambda sign: "=" if ":" in sign[0] else "", text)
    if len(text) <= MAX_OUTCOME and text.count("\n") < _SHORT_LINES:
        return one_line(text, MAX_OUTCOME).replace("; ", ", ")
    last = text.rpartition("\n")[2].strip("= ")[:MAX_OUTCOME]
    return clean_line(last) if _OUTCOME.search(last) and not last.startswith(("{", "[")) else ""


def values_of(text: str) -> list[ResultValue]:
    """Return the values of a text that are worth copying, in their order.

    Args:
        text: What `ends_of` returned, or the text of a long argument.

    Returns:
        At most 120 values.
    """
    found: dict[str, ResultValue] = {}
    for value in _spans(text):
        found.setdefault(value.text, value)
        if len(found) == _MAX_VALUES:
            break
    return list(found.values())


def _spans(text: str) -> Iterator[ResultValue]:
    """Yield the values of a text; those that overlap are one."""
    open_span: tuple[int, int, list[Identifier]] | None = None
    for one in find_identifiers(text):
        if _is_key(text, one):
            continue
        if open_span and one.start < open_span[1]:
            open_span[2].append(one)
            continue
        if open_span and (value := _value(text, *open_span)):
            yield value
        start, end = _keyed_span(text, one) if one.key else _line_span(text, one)
        open_span = (start, end, [one])
    if open_span and (value := _value(text, *open_span)):
        yield value


def _is_key(text: str, one: Identifier) -> bool:
    """Return whether an identifier is a key in JSON, or one of YAML whose values stand below."""
    end = one.start + len(one.text)
    if _IS_KEY.match(text, end):
        return True
    if not _ENDS_LINE.match(text, end):
        return False
    line = text.rfind("\n", max(0, one.start - _MAX_LINE), one.start) + 1
    return not text[line : one.start].strip(" -\t")


def _keyed_span(text: str, one: Identifier) -> tuple[int, int]:
    end = one.start + len(one.text)
    quote = text[one.start - 1 : one.start]
    if quote in {'"', "'"}:
        closing = text.find(quote, end, one.start + _MAX_QUOTED)
        if closing > 0 and "\n" not in text[end:closing]:
            end = closing
    return one.start, end


def _line_span(text: str, one: Identifier) -> tuple[int, int]:
    end = one.start + len(one.text)
    line_start = text.rfind("\n", max(0, one.start - _MAX_LINE), one.start) + 1
    line_end = text.find("\n", end, one.start + _MAX_LINE)
    if (line_start or one.start <= _MAX_LINE) and 0 < line_end <= line_start + _MAX_LINE:
        return line_start, line_end
    left = max(line_start, one.start - _BEFORE)
    space = text.find(" ", left, one.start)
    if left > line_start and space >= 0:
        left = space + 1
    right = min(len(text), end + _AFTER)
    newline, space = text.find("\n", end, right), text.rfind(" ", end, right)
    return left, newline if newline >= 0 else space if space >= 0 else end


def _value(text: str, start: int, end: int, found: list[Identifier]) -> ResultValue | None:
    first = found[0]
    if first.key in _SKIPPED_KEYS:
        return None
    said = " ".join(text[start:end].split())
    if not first.key:
        line = text.rfind("\n", max(0, start - _FAR), start) + 1
        if LOG_LINE.match(text, line):
            return None
        said = _without_list_mark(said)
        if _JSON_BETWEEN.search(said):
            said = _JSON_SIGNS.sub(lambda sign: "=" if ":" in sign[0] else "", said)
    if _ROW_NUMBER.fullmatch(said):
        return None
    said = _closed(said.replace("; ", ", "))
    inside = tuple(one for one in found if one.text in said)
    if not inside or _TAG.fullmatch(said):
        return None
    if first.key:
        return ResultValue(f"{first.key}={said}", inside)
    return ResultValue(said, inside, is_bare=said == inside[0].text)


def _without_list_mark(said: str) -> str:
    """Return a line without what stands in front of its words; a bracket that is closed stays."""
    words = _LIST_MARK.sub("", said)
    is_opened = said[: len(said) - len(words)].endswith("(")
    return f"({words}" if is_opened and words.count(")") > words.count("(") else words


def _closed(said: str) -> str:
    """Return a value without an open end; a quotation that ends it stays whole."""
    text = said.rstrip(" ,;:{[(\"'")
    return f'{text}"' if text.count('"') % 2 and said[len(text) :].startswith('"') else text
