"""Tool calls as lines of the running summary: the call, its outcome and values of its result."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from langchain_core.messages import ToolMessage

from langchain_tokenmem.core.facts.call_kinds import CallKind, kind_of_call, path_of, script_line
from langchain_tokenmem.core.facts.documents import outline_of
from langchain_tokenmem.core.facts.failures import failure_of
from langchain_tokenmem.core.facts.sentences import Identifier, find_identifiers, identifiers_in
from langchain_tokenmem.core.facts.tool_results import (
    MAX_JSON,
    ends_of,
    plain_result,
    without_frame,
)
from langchain_tokenmem.summarize.result_values import (
    FEW_WORDS,
    TITLES,
    as_json,
    counted,
    scalars_in,
    values_in,
)
from langchain_tokenmem.summarize.whole_pieces import (
    beginning_of,
    cut_at_words,
    is_open,
    sentences,
    without_line_breaks,
)

LENGTHS = 4
"""Number of lengths of a call."""

_ARGUMENTS = (30, 80, 80, 160)
"""Characters of an argument that a call shows in these lengths; up to half as much more is shown
whole. In the first one a longer argument is left out if another text says what the call does."""
_MOST_ARGUMENTS = 6
_LONG_PATH = re.compile(
    r"(?:\A[\w.@+-]+|(?<![^\s'\"=(])[~.]{0,2})/(?:[\w.@~+-]+/)+([\w.@~+-]+/[\w.@~+-]+)"
)
"""A path with more than one folder, and its end from the last folder on."""
_GISTS = (40, 40, 100, 240)
"""Characters of a result in these lengths."""
_DOCUMENTS = frozenset(
    {".md", ".mdx", ".markdown", ".rst", ".txt", ".html", ".htm", ".eml", ".pdf"}
)
"""Files in which `#` begins a heading, not a comment."""
_FAILURE = 200
_LINE = 80
"""Characters of a line of a text that may be shown."""
_RULERS = re.compile(r"\A(?:[=*#-]{3,}\s*|[*-] (?=[^\W\d]))+|\s*[=*-]{3,}\Z")
"""Rulers and bullets around a line of a result, which carry no information; a sign does."""
_HEADING = re.compile(r"\s*(?:[=#*-]{3,}|#+ |</?[\w-]+>\s*\Z)")
"""Beginning of a line over others, such as `=== STDOUT ===`, `## Result` and `<result>`."""
_AROUND_PAGE = re.compile(
    r"\W*(?:©|copyright (?:©|\(c\)|\d{4})|all rights reserved\b)"
    r"|(?:[^\w\[]*+\[[^]]*+\]\([^)]*+\)){2,}+\W*+\Z",
    re.IGNORECASE,
)
"""The footer of a page, and a line of several links."""
_MENU, _DIGIT = 2, re.compile(r"\d")
"""Most words of a line of a menu, which has no number."""
_NUMBERED = re.compile(r"\A(?: *(\d{1,7})(?::(?!\d\d\b)|[|→])| +(\d{1,7})\t)")
"""Beginning of a line of a file as `cat -n` prints it; not a time, or a column of a table."""
_FEWEST_NUMBERED = 5
_FILE = re.compile(r"[\w./@~+-]*/([\w@~+-][\w.@~+-]*\.\w+)")
_STRUCTURED = re.compile(r"Returning structured response: ")
"""Beginning of the result that LangChain gives to a structured answer, which repeats it."""
_IMPORTS = re.compile(r"(?:(?:import [\w., ]+|from [\w.]+ import [\w*, ]+)?\n)+")
"""Lines at the beginning of a script in Python that only import."""
_SCRIPTS = frozenset({"command", "commands", "cmd", "script", "code"})
_WHO = frozenset({"subagent_type", "agent_type", "agent", "agent_name"})
"""Arguments that say who does something, not what."""
_SCORES = frozenset({"score", "_score", "relevance_score", "similarity"})
_OF_HITS = frozenset({"url", "link", "title", "content", "_source"})
"""Keys of hits: the score of a hit only orders it."""
_NO_ARGUMENTS = frozenset({"", "{}", "[]", "null"})
MOST_READ = 4_000
"""Characters of a message, or of a call's arguments, that are read for what was used."""
_FEWEST_CHARACTERS, _LONG_NUMBER = 4, 6


@dataclass
class ToolCall:
    """A tool call and its result.

    Attributes:
        name: The tool.
        args: Its arguments.
        reference: Reference of the message that makes it; empty for one without an id.
        result: Text of the result; None while there is none.
        failure: The error line; empty if the call did not fail.
        repeats: How often the same call has ended in the same way before.
        failed_before: How often the same call has failed before.
        pairs: Keys and values of a result that is data; None for a plain text.
        outline: Title and headings of a document.
        part: Numbers of the lines, of a result that shows lines of a file with their numbers.
        size: Size of the result as a text; of one line of words its beginning; of an argument
            that the tool returns as it was, such as a checked query, only that.
    """

    name: str
    args: Mapping[str, Any]
    reference: str
    result: str | None = None
    failure: str = ""
    repeats: int = 0
    failed_before: int = 0
    pairs: list[tuple[str, str]] | None = None
    outline: tuple[str, list[str]] = ("", [])
    part: str = ""
    size: str = field(default="no result", repr=False)

    @cached_property
    def kind(self) -> CallKind:
        """What the call does."""
        return kind_of_call(self.name, self.args)

    @property
    def edits(self) -> str | None:
        """The file that the call changes; None if it changes none."""
        return path_of(self.args) if self.kind is CallKind.EDIT else None

    @property
    def is_page(self) -> bool:
        """Whether the call reads a page of the web."""
        return self.kind is CallKind.READ and str(self.args.get("url")).startswith("http")

    @property
    def answers(self) -> bool:
        """Whether the call is a structured answer."""
        return _STRUCTURED.match(self.result or "") is not None

    @property
    def key(self) -> str:
        """Two calls with the same key are one call made twice, or two changes of one file."""
        return f"{self.name} {self.edits or as_json(self.args)}"

    def ended(self, message: ToolMessage) -> None:
        """Take the result of the call."""
        self.failure = failure_of(message, self.kind) or ""
        text = without_frame(plain_result(message))
        if self.failure:
            self.failure = _whole_line(self.failure, without_line_breaks(text))
        if len(text) > _GISTS[0] and any(text == value for value in self.args.values()):
            self.result, self.size = "", "the same text"
            return
        self.result = ends_of(text)
        self.pairs, self.size = values_in(text) or (None, _size_of(text))
        self.part = _part_of_file(self.result) if self.pairs is None else ""
        path = path_of(self.args)
        if self.pairs is None and (not path or PurePath(path).suffix.lower() in _DOCUMENTS):
            self.outline = outline_of(self.result, is_read=self.kind is CallKind.READ)

    def follows(self, before: ToolCall) -> None:
        """Count an earlier call with the same key, which then has no text of its own."""
        self.failed_before = before.failed_before + bool(before.failure)
        same = before.failure == self.failure and before.result == self.result
        self.repeats = before.repeats + 1 if same and not self.failure else 0

    def text(self, length: int) -> str:
        """Return the call in one of its lengths, from 0 on; with its outcome, if that is text."""
        times = f" (\u00d7{self.repeats + 1})" if self.repeats else ""
        return f"{self.head(length)}{times}{self._ending(length)}"

    def _ending(self, length: int) -> str:
        if self.failure:
            times = f" {self.failed_before + 1} times" if self.failed_before else ""
            return f" → failed{times}: {self.failure}"
        before = f"failed {_times(self.failed_before)}, then " if self.failed_before else ""
        if self.answers:
            return ""
        if self.pairs is not None:
            return f" → {before}succeeded" if before else ""
        gist = self._gist(_GISTS[length]) or self.size
        return f" → {before}{gist}"

    def _gist(self, most: int) -> str:
        """Return a result within so many characters; of a document its title and headings.

        Of numbered lines of a file: their numbers, and the file if the call does not name it.
        """
        (title, headings), text = self.outline, self.result or ""
        if title and len(_line(text)) > most:
            return _listed(title, headings, most)
        if self.part and len(_line(text)) > most:
            first = text[: _GISTS[-1]].partition("\n")[0]
            file = None if _NUMBERED.match(f" {first}") else _FILE.search(first)
            is_new = file is not None and file[1] not in as_json(self.args)
            return f"{file[1]}, {self.part}" if file and is_new else self.part
        return gist_of(_without_surroundings(text) if self.is_page else text, most)

    def head(self, length: int) -> str:
        """Return the call in one of its lengths, without its outcome.

        Args:
            length: The length, from 0 on; in this one long arguments are left out.
        """
        most = int(1.5 * _ARGUMENTS[length])
        texts = {
            str(key): value if isinstance(value, str) else as_json(value)
            for key, value in list(self.args.items())[:_MOST_ARGUMENTS]
        }
        texts = {key: text for key, text in texts.items() if text.strip() not in _NO_ARGUMENTS}
        near = {key: _near(text, most) for key, text in texts.items()}
        if len({*near.values()}) < len({*texts.values()}):  # their ends alone are the same
            near = texts
        if length == 0:
            long = [key for key, text in near.items() if len(text) > most]
            short = near.keys() - {*long}
            says_what = any(
                isinstance(self.args.get(key), str) and key not in _WHO for key in short
            )
            near = {key: near[key] for key in near if key not in (long if says_what else long[1:])}
        shown = {
            key: (script_line if key in _SCRIPTS else without_line_breaks)(text)
            if len(text) <= most
            else _shortened(text, _ARGUMENTS[length], len(texts[key]), is_script=key in _SCRIPTS)
            for key, text in near.items()
        }
        if len(self.args) == 1 and shown:
            return f"{self.name} {next(iter(shown.values()))}"
        return f"{self.name}({', '.join(f'{key}={text}' for key, text in shown.items())})"

    def values(self, used: Collection[str]) -> Iterator[tuple[str, bool]]:
        """Yield values of the result, each with whether it was used later.

        For JSON and records these are `key=value`; for a text the lines with something used.
        """
        if self.failure or not (self.pairs or self.result):
            return
        passed = {*scalars_in(self.args)}  # what a result repeats says nothing
        keys = [key for key, _ in self.pairs or ()]
        are_hits = any(keys.count(key) > 1 for key in _OF_HITS)
        for key, text in self.pairs or ():
            if (key, text) in passed:
                continue
            is_used = not (identifiers_in(text) or {text}).isdisjoint(used)
            if are_hits and key in _SCORES and text.startswith("0.") and not is_used:
                continue
            # Prose is shown only if it was used later.
            if is_used or key.lower() in TITLES or len(text.split()) <= FEW_WORDS:
                yield (f"{key}={text}" if key else text), is_used
        shown: set[str] = set()
        for line in (self.result or "").splitlines() if self.pairs is None else ():
            found = [
                one for one in find_identifiers(line) if one.text in used and one.text not in shown
            ]
            text = _NUMBERED.sub(r"\1\2: ", f" {line}", count=1) if self.part else line
            whole = without_line_breaks(text.lstrip("# ") if self.outline[0] else text)
            most = _LINE * min(2, len({one.text for one in found}))
            if found and len(whole) <= most and not _is_part(whole):
                yield whole, True
            else:
                found = [one for one in found if _says_enough(one)]
                for one in found:
                    yield (f"{one.key}={one.text}" if one.key else one.text), True
            shown.update(one.text for one in found)


def _says_enough(found: Identifier) -> bool:
    """Return whether an identifier alone says something; a short number does not."""
    return bool(found.key) or found.kind != "number" or len(found.text) >= _LONG_NUMBER


def _whole_line(failure: str, text: str) -> str:
    """Return the whole error line if `failure_of` has cut it."""
    stem = failure.rstrip("…")
    start = text.find(stem) if stem != failure else -1
    return cut_at_words(text[start:] if start >= 0 else without_line_breaks(stem), _FAILURE)


def _part_of_file(text: str) -> str:
    """Return which lines of a file a text shows, such as `lines 120-180`; else nothing."""
    lines = f" {text}".splitlines()  # a result has lost its first space
    numbers = [int(found[1] or found[2]) for found in map(_NUMBERED.match, lines) if found]
    steps = [after - before for before, after in pairwise(numbers) if after - before != 1]
    is_one = not steps or (len(steps) == 1 and steps[0] > 1)  # a long text is read at its two ends
    is_part = is_one and len(numbers) >= max(_FEWEST_NUMBERED, len(lines) / 2)
    return f"lines {numbers[0]}-{numbers[-1]}" if is_part else ""


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _near(text: str, most: int) -> str:
    """Return an argument; of one over `most` characters the paths begin with their last folder."""
    if not most < len(text) <= MOST_READ:
        return text
    ends = {match[0]: match[1] for match in _LONG_PATH.finditer(text)}
    can_be_told_apart = len({*ends.values()}) == len(ends)
    return _LONG_PATH.sub(r"…/\1", text) if can_be_told_apart else text


def _shortened(text: str, most: int, size: int, *, is_script: bool) -> str:
    """Return the beginning of a long argument, of a script after its imports, and its size."""
    imports = _IMPORTS.match(text) if is_script else None
    work = text[imports.end() :] if imports else text
    return f"{_beginning(work or text, most)} [{size:,} characters]".lstrip()


def _beginning(text: str, most: int) -> str:
    """Return the first line of a long argument; of one word, such as `#!/bin/sh`, two lines."""
    lines = [line for line in map(without_line_breaks, text.splitlines()) if line]
    first = " ".join(lines[: 1 if " " in lines[0] else 2]) if lines else ""
    if len(first) <= 1.5 * most:
        return first
    inner = first.lstrip("[{")
    head = beginning_of(inner, most)
    if inner != first:  # of JSON, its first fields
        head = head.rpartition(", ")[0] or head
        whole = "" if head.endswith('"') and inner.startswith(f"{head}:") else head
        head = whole and first[: -len(inner)] + whole
    return head


def _size_of(text: str) -> str:
    """Return the size of a text, or the beginning of its only line."""
    count = sum(bool(line.strip()) for line in text[:MAX_JSON].splitlines())
    if count > 1:
        return counted(count, "line")
    start = _line(text[: 4 * _GISTS[0]])
    head = beginning_of(start, _GISTS[0])
    if head and start[len(head) :][:1] in " ,;:(" and " " in head:
        return f"{head} …"
    return f"{len(text):,} characters" if text.strip() else "nothing"


def gist_of(text: str, most: int) -> str:
    """Return a short result whole, of a long one its first and last line.

    Args:
        text: The result.
        most: Maximum characters; what does not fit is left out whole.
    """
    line = _line(text)
    if len(line) <= most:
        return line
    found = [one for one in text.splitlines() if any(map(str.isalpha, one))]
    without_headings = [one for one in found if not _HEADING.match(one)]
    lines = [one for one in map(_line, without_headings or found) if not _is_part(one)]
    if len(lines) > 1 and len(lines[0]) + len(lines[-1]) + 3 <= most:
        return lines[0] if lines[0] == lines[-1] else f"{lines[0]} … {lines[-1]}"
    whole = [
        one
        for one in (*lines[:1], *lines[-1:], *sentences(_RULERS.sub("", text.strip()))[:1])
        if len(one) <= most
    ]
    return whole[0] if whole else ""


def _listed(title: str, parts: Sequence[str], most: int) -> str:
    """Return a title with the parts that fit, and an ellipsis for others."""
    text = beginning_of(title, most)
    if text != title:
        return f"{text} …"
    for place, part in enumerate(parts):
        longer = f"{text}{', ' if place else ': '}{part}"
        if len(longer) > most:
            return f"{text}, …" if place else text
        text = longer
    return text


def _without_surroundings(text: str) -> str:
    """Return a page without rows of links, without the footer and the menu at its end."""
    lines = [line for line in text.splitlines() if not _AROUND_PAGE.match(line)]
    while lines and len(lines[-1].split()) <= _MENU and not _DIGIT.search(lines[-1]):
        lines.pop()
    return "\n".join(lines)


def _is_part(line: str) -> bool:
    """Return whether a line is part of a quote or of brackets that other lines close."""
    return is_open(line.rstrip("[{(: "))


def _line(text: str) -> str:
    return _RULERS.sub("", without_line_breaks(text).strip())


def words_passed(args: Mapping[str, Any]) -> set[str]:
    """Return the identifiers of a call's arguments, and its short texts."""
    short = {text for _, text in scalars_in(args) if len(text) >= _FEWEST_CHARACTERS}
    named = identifiers_in(as_json(args)[:MOST_READ])
    return {text for text in short if not text.isalpha()} | named
