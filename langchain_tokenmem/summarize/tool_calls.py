"""Tool calls as the running summary tells them: what was called, how it ended, what it brought."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolMessage

from langchain_tokenmem.core.facts.call_kinds import CallKind, command_of, kind_of_command, kind_of_tool
from langchain_tokenmem.core.facts.failure_lines import failure_of, without_frame
from langchain_tokenmem.core.facts.literals import find_identifiers
from langchain_tokenmem.core.facts.sentences import message_text
from langchain_tokenmem.core.facts.tool_results import ends_of, unwrapped
from langchain_tokenmem.summarize.whole_pieces import cut_at_words, on_one_line, sentences

_ARGUMENT, _LONG_ARGUMENT = 80, 160
"""Characters of an argument that a call shows whole, in its two lengths."""
_MOST_ARGUMENTS = 6
_SHORT_GIST, _GIST, _LONG_GIST = 40, 100, 240
"""Characters of a result in its three lengths."""
_FAILURE = 160
_SCALAR = 60
_MAX_JSON = 200_000
_MAX_VALUES = 500
_USED_READ = 4_000
_FEWEST_CHARACTERS = 4


@dataclass
class ToolCall:
    """A tool call and its result.

    Attributes:
        name: The tool.
        args: Its arguments.
        places: Places of the call's message and of its result's.
        result: Text of the result; None while there is none.
        failure: The line that tells of its failure; empty where it did not fail.
        outcomes: How often the same call ended before in the same way, and how often it failed.
    """

    name: str
    args: Mapping[str, Any]
    places: tuple[int, ...]
    result: str | None = None
    failure: str = ""
    repeats: int = 0
    failed_before: int = 0
    _json: Any = field(default=None, repr=False)
    _lines: int = field(default=0, repr=False)

    @property
    def key(self) -> str:
        """Name and arguments: two calls with the same key are one call made twice."""
        return f"{self.name}{_compact(self.args)}"

    def ended(self, message: ToolMessage, place: int) -> None:
        """Take the result of the call."""
        command = command_of(self.name, self.args)
        kind = kind_of_command(command) if command else kind_of_tool(self.name)
        reads = kind in (CallKind.READ, CallKind.SEARCH)
        self.failure = failure_of(message, reads=reads) or ""
        text = without_frame(unwrapped(message_text(message).strip()))
        self.result = ends_of(text)
        self._lines = text.count("\n") + 1 if text else 0
        self.places = (*self.places, place)
        if text[:1] in {"{", "["} and len(text) <= _MAX_JSON:
            with suppress(ValueError, RecursionError):
                self._json = json.loads(text)

    def told(self, length: int) -> str:
        """Return the call with how it ended, in one of three lengths: 0, 1, 2."""
        if self.failure:
            said = cut_at_words(on_one_line(self.failure).rstrip("…"), _FAILURE)
            times = f" {self.failed_before + 1} times" if self.failed_before else ""
            ending = f" → failed{times}: {said}"
        elif self.result is None:
            ending = " → no result"
        else:
            most = (_SHORT_GIST, _GIST, _LONG_GIST)[length]
            gist = gist_of(self.result, self._json, most) or self._size()
            before = f"failed {_times(self.failed_before)}, then " if self.failed_before else ""
            ending = f" → {before}{gist}"
        times = f" (×{self.repeats + 1})" if self.repeats else ""
        return self.call(_ARGUMENT if length < 2 else _LONG_ARGUMENT) + times + ending  # noqa: PLR2004

    def _size(self) -> str:
        """Return how much a result holds: of a list its items, of a text its lines."""
        if isinstance(self._json, list):
            return f"{len(self._json)} items"
        if not self.result:
            return "nothing"
        return f"{self._lines} lines" if self._lines > 1 else f"{len(self.result):,} characters"

    def call(self, most: int) -> str:
        """Return the call: its tool, and its arguments of at most so many characters each."""
        shown = []
        for key, value in list(self.args.items())[:_MOST_ARGUMENTS]:
            text = on_one_line(value if isinstance(value, str) else _compact(value))
            if not text or text in {"{}", "[]", "null"}:
                continue
            if len(text) > most + most // 2:
                text = _beginning(value, most)
            shown.append((key, text))
        if len(self.args) == 1 and shown and isinstance(next(iter(self.args.values())), str):
            return f"{self.name} {shown[0][1]}"
        return f"{self.name}({', '.join(f'{key}={text}' for key, text in shown)})"

    def values(self, used: Collection[str]) -> Iterator[tuple[str, bool]]:
        """Yield what the result brought, as `key=value`, with whether it was used later."""
        if self.failure or not self.result:
            return
        is_text = self._json is None
        pairs = _identifiers(self.result) if is_text else scalars_in(self._json)
        for key, text in pairs:
            words = {one.text for one in find_identifiers(text)} or {text}
            is_used = not words.isdisjoint(used)
            if is_used or not is_text:
                yield (f"{key}={text}" if key else text), is_used


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _compact(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        return str(value)


def _beginning(value: object, most: int) -> str:
    """Return the first line of a long argument, with the size of the whole."""
    text = value if isinstance(value, str) else _compact(value)
    first = next(filter(None, map(on_one_line, text.splitlines())), "")
    return f"{cut_at_words(first, most)} [{len(text):,} characters]"


def gist_of(text: str, value: Any, most: int) -> str:
    """Return a short result whole, of a long one its first and last line, of JSON its scalars.

    Args:
        text: The result.
        value: What it holds where it is JSON; else None.
        most: Characters that it may have; what does not fit is left out whole.
    """
    if isinstance(value, (Mapping, list)):
        return _gist_of_json(value, most)
    line = on_one_line(text)
    if len(line) <= most:
        return line
    lines = [one for one in map(on_one_line, text.splitlines()) if any(map(str.isalnum, one))]
    if len(lines) > 1 and len(lines[0]) + len(lines[-1]) + 3 <= most:
        return lines[0] if lines[0] == lines[-1] else f"{lines[0]} … {lines[-1]}"
    whole = [one for one in (*lines[:1], *lines[-1:], *sentences(text)[:1]) if len(one) <= most]
    return whole[0] if whole else ""


def _gist_of_json(value: Any, most: int) -> str:
    head = f"{len(value)} items: " if isinstance(value, list) and len(value) > 1 else ""
    shown = ""
    for key, text in scalars_in(value):
        longer = f"{shown}, {key}={text}" if shown else f"{key}={text}" if key else text
        if len(head) + len(longer) > most:
            break
        shown = longer
    return head + shown if shown else ""


def scalars_in(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the short scalars of JSON with their keys, each text once."""
    seen: set[tuple[str, str]] = set()
    for pair in _leaves(value, key, 0):
        if pair not in seen:
            seen.add(pair)
            yield pair
        if len(seen) >= _MAX_VALUES:
            return


def _leaves(value: Any, key: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and depth < 8:  # noqa: PLR2004
        for inner, one in value.items():
            yield from _leaves(one, str(inner), depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str) and depth < 8:  # noqa: PLR2004
        for one in value:
            yield from _leaves(one, key, depth + 1)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = on_one_line(str(value))
        if text and len(text) <= _SCALAR:
            yield key, text


def _identifiers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the identifiers of a text with the keys in front of them, each once."""
    seen: set[str] = set()
    for one in find_identifiers(text):
        if one.text not in seen:
            seen.add(one.text)
            yield one.key, one.text
        if len(seen) >= _MAX_VALUES:
            return


def words_used(text: str) -> set[str]:
    """Return the identifiers of what was said or passed to a tool."""
    return {one.text for one in find_identifiers(text[:_USED_READ])}


def words_passed(args: Mapping[str, Any]) -> set[str]:
    """Return the identifiers of a call's arguments, and its short texts."""
    found: set[str] = set()
    for _, text in scalars_in(args):
        if len(text) >= _FEWEST_CHARACTERS and not text.isalpha():
            found.add(text)
    return found | words_used(_compact(args))
