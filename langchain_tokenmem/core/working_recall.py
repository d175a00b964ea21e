"""Working recall: lines of hidden messages about what the agent's newest message names.

Recall searches once per question; the agent may then work on it for a hundred calls. Before each
of them, lines of messages that the request no longer shows whole are added to the newest tool
result, if they mention a path, an identifier or another literal that the newest AI message names,
and contain one that the request does not show. The lines that follow also count, because lists are
worked off item by item; they come with the line that they follow, which says what they are about.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.covered import digest_of_words
from langchain_tokenmem.core.facts.sentences import identifiers_in
from langchain_tokenmem.core.facts.tool_results import unescaped
from langchain_tokenmem.core.inserted_text import LINES_FENCE, in_fence
from langchain_tokenmem.core.messages import (
    as_one_message,
    calls_of,
    reference,
    role_of,
    text_of,
)
from langchain_tokenmem.core.repair import source_messages
from langchain_tokenmem.state import Block

_ABOUT = "History, not instructions:\n"
_OMITTED = "…"

# Chosen with benchmarks/price.py at 4,000, 8,000 and 16,000 tokens. Showing the line that says what
# a following one is about costs 0.6 points of far coverage.
_MOST_MESSAGES = 100
"""Maximum hidden messages that are searched, the newest ones."""

_LONGEST = 200
"""Maximum characters of a line; a longer one is split into pieces."""

_BEHIND, _FADING = 0.5, 0.6
"""Share of the previous line's score that a line gets, and that the previous one gets in turn."""

_AGE = 0.03
"""A line loses this share of its score with every message after it."""

_OWN_WORDS = 5.0
"""Factor of the score of an AI message's line, such as a command, compared to a result's."""

_LEAST_SCORE = 0.1
"""Minimum score of a line."""

_MOST_TRIED = 60
"""Maximum lines that are tried for one block, the best ones."""

_SHORTEST_NAME = 3
_NO_VALUE = re.compile(
    r"</?[\w:-]+>|[\"']?[\w.-]+[\"']?\s*[:=]\s*"
    r"(?:null|none|undefined|\"\"|''|\[\]|\{\}|\(\))[,;]?",
    re.IGNORECASE,
)
"""A line that is only a tag, or a name without a value, such as `"a": null,`."""
_NO_LITERAL = re.compile(r"^\d+[:|\t](?!\d)|</[\w:.-]+>")
"""The number of a listed line, such as `12:` before code, and a closing tag: no literals."""
_RECORD = re.compile(r"\{\s*\"(?:[^{}]++|\{[^{}]*+\})*+\}")
"""A JSON object with at most one level of objects in it."""
_BETWEEN = re.compile(r"(?<=\},)\s*(?=\{)|(?<=</li>|</tr>)")
"""The place between two records of a list."""
_BETWEEN_CELLS = re.compile(r"\s*\|\s*|\t|\s{2,}|,(?! )")
_HEADER = re.compile(r"(?:\| ?)?[^\W\d][^\d=<>{}\"':;]*")
"""The first line of a table: names of columns, without a digit."""
_LEAST_CELLS = 3
"""Minimum columns of a table; two cells may be a name and its value."""
_ENDS = ("},", "], ", ". ", "; ", ", ", ",", " ")


class _Read(NamedTuple):
    """A line of a message.

    Attributes:
        text: Its text.
        words: The literals in it.
        names: The names for these.
        header: The index of its table's header, if it is a row.
    """

    text: str
    words: frozenset[str]
    names: frozenset[str]
    header: int | None


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a hidden message that may be recalled.

    Attributes:
        score: How well it matches what is named.
        source: Its message.
        words: The literals in it.
        passage: Its text, and before it that of the line which mentions what is named, if it does
            not do so itself; each by the index of the message among the hidden ones and the index
            of the line in that.
        named: The names by which it was found.
    """

    score: float
    source: BaseMessage
    words: frozenset[str]
    passage: Mapping[tuple[int, int], str]
    named: frozenset[str]


def working_block(
    context: ContextParts,
    messages: Sequence[BaseMessage],
    most: int,
    count_text: Callable[[str], int],
) -> tuple[str, Block] | None:
    """Return the id of the newest tool result and a block for it; None if none is due.

    None is due if the newest message is not a tool result, or already has a block.

    Args:
        context: The request without the block.
        messages: The conversation, oldest first, including what the request hides.
        most: Maximum tokens of the block.
        count_text: Counts the tokens of a text.
    """
    newest = context.tail[-1].source.messages if context.tail else ()
    key = newest[-1].id or "" if newest and role_of(newest[-1]) == "tool" else ""
    if not key or key in context.blocks or most <= 0:
        return None
    shown_ids = {message.id for message in source_messages((*context.kept, *context.tail))}
    whole, newest_ids = shown_ids - context.cuts.keys(), {message.id for message in newest}
    earlier = [m for m in messages if m.id not in newest_ids and role_of(m) in {"ai", "tool"}]
    hidden = [m for m in earlier if m.id not in whole][-_MOST_MESSAGES:]
    names = frozenset(name for line in _lines(newest[0]) for name in line.names)
    lines = _ranked(hidden, _weights(names, earlier[-2 * _MOST_MESSAGES :]))
    if not lines:
        return None
    shown = {word for m in context.request_messages() for line in _lines(m) for word in line.words}

    def text_of_lines(chosen: Sequence[_Line]) -> str:
        return _text(chosen, hidden, with_references=context.can_read)

    chosen = _chosen(lines, shown, lambda some: count_text(text_of_lines(some)) <= most)
    if not chosen:
        return None
    sources = {line.source.id or "": line.source for line in chosen}
    digests = {key: digest_of_words([source]) for key, source in sources.items()}
    return key, {
        "text": text_of_lines(chosen),
        "ids": [*sources],
        "named": sorted({name for line in chosen for name in line.named}),
        "words": {key: digest for key, digest in digests.items() if digest},
    }


def _weights(names: frozenset[str], messages: Sequence[BaseMessage]) -> dict[str, float]:
    """Return how much each name counts: the more, the fewer messages contain it.

    One in most of them counts nothing, such as a heading that each answer repeats.
    """
    named_in = ({name for line in _lines(m) for name in line.names & names} for m in messages)
    holding = Counter(chain.from_iterable(named_in))
    return {
        name: math.log((len(messages) + 1) / count)
        for name, count in holding.items()
        if 2 * count <= len(messages) + 1
    }


def _ranked(hidden: Sequence[BaseMessage], weights: Mapping[str, float]) -> list[_Line]:
    """Return the lines of hidden messages that mention what is named, best first."""
    found: list[_Line] = []
    for place, message in enumerate(hidden if weights else ()):
        factor = math.exp(-_AGE * (len(hidden) - place))
        factor *= _OWN_WORDS if role_of(message) == "ai" else 1
        before, last_named, naming = 0.0, frozenset[str](), {}
        lines = _lines(message)
        for number, line in enumerate(lines):
            if not line.words:
                continue
            named = line.names & weights.keys()
            own = math.fsum(weights[name] for name in named)  # a set has no order to sum in
            passage = {(place, number): line.text}
            if line.header is not None:
                passage[place, line.header] = lines[line.header].text
            if named:
                last_named, naming = named, passage
            score = factor * (own + _BEHIND * before)
            if score >= _LEAST_SCORE:
                found.append(_Line(score, message, line.words, naming | passage, last_named))
            before = max(own, _FADING * before)
    return sorted(found, key=lambda line: -line.score)


def _chosen(
    lines: Iterable[_Line], shown: set[str], fits: Callable[[Sequence[_Line]], bool]
) -> list[_Line]:
    """Return the best lines with a new literal."""
    chosen: list[_Line] = []
    tried = 0
    for line in lines:
        if line.words <= shown:
            continue
        if fits([*chosen, line]):
            chosen, shown = [*chosen, line], shown | line.words
        tried += 1
        if tried == _MOST_TRIED:
            break
    return chosen


def _text(chosen: Sequence[_Line], hidden: Sequence[BaseMessage], *, with_references: bool) -> str:
    """Return the lines in their fence, in the order of the conversation.

    Each message has its reference if a tool can open it; what is left out between two lines is
    shown as an ellipsis.
    """
    lines = sorted({place: text for line in chosen for place, text in line.passage.items()}.items())
    shown = []
    for message, group in groupby(lines, key=lambda line: line[0][0]):
        own: list[str] = []
        before = -1
        for (_, number), line in group:
            is_gap = own and number > before + 1
            own.append(f"{_OMITTED} {line}" if is_gap else line)
            before = number
        text = "\n".join(own)
        name = f"[{reference(hidden[message].id)}] "
        shown.append(as_one_message(f"{name}{text}") if with_references else text)
    between = "\n" if with_references else f"\n{_OMITTED} "
    return in_fence(between.join(shown), LINES_FENCE, _ABOUT)


def _raw_text(message: BaseMessage) -> str:
    """Return the text of a message and the arguments of its calls, as lines."""
    lines = [text_of(message)]
    for call in calls_of(message) if isinstance(message, AIMessage) else ():
        args = call["args"] if isinstance(call["args"], dict) else {"": call["args"]}
        values = (
            f"{key}: {value if isinstance(value, str) else json.dumps(value, default=str)}"
            for key, value in args.items()
        )
        lines += values
    return "\n".join(lines)


def _lines(message: BaseMessage) -> tuple[_Read, ...]:
    return _read(_raw_text(message))


@lru_cache(maxsize=512)
def _read(text: str) -> tuple[_Read, ...]:
    """Return the lines of a text that have literals.

    The cache saves 13 of 15 ms per call (the 8 longest recorded agents at 8,000): most texts are
    read again.
    """
    lines = _BETWEEN.sub("\n", _RECORD.sub(_record, unescaped(text))).splitlines()
    pieces = (piece for line in lines for piece in _pieces(line.strip()))
    texts = [piece for piece in pieces if not _NO_VALUE.fullmatch(piece)]
    words = [frozenset(identifiers_in(_NO_LITERAL.sub(" ", text))) for text in texts]
    return tuple(
        _Read(text, own, _names(own), header)
        for text, own, header in zip(texts, words, _headers(texts), strict=True)
    )


def _headers(lines: Iterable[str]) -> Iterator[int | None]:
    """Yield for each line the index of its table's header, or None if it is no row."""
    header, width = None, 0
    for number, line in enumerate(lines):
        cells = len(_BETWEEN_CELLS.split(line.strip("|")))
        is_header = cells >= _LEAST_CELLS and _HEADER.fullmatch(line)
        begins = is_header and line.isupper()  # the next table, with as many columns
        if header is not None and not any(map(str.isalnum, line)):  # a rule
            yield None
        elif header is not None and cells in {width, width + 1} and not begins:
            yield header  # perhaps with a row's number
        else:
            header, width = number if is_header else None, cells
            yield None


def _record(found: re.Match[str]) -> str:
    """Return a short record in one line, whatever line its source has each of its values in."""
    one_line = " ".join(found[0].split())
    if len(one_line) <= _LONGEST:
        return one_line
    return found[0][0] + _RECORD.sub(_record, found[0][1:])


def _pieces(line: str) -> Iterable[str]:
    while len(line) > _LONGEST:
        ends = (line.rfind(end, _LONGEST // 2, _LONGEST) + len(end) for end in _ENDS)
        cut = next((end for end in ends if end > _LONGEST // 2), _LONGEST)
        yield line[:cut].strip()
        line = line[cut:]
    if line.strip():
        yield line.strip()


def _names(words: frozenset[str]) -> frozenset[str]:
    """Return literals and, for paths, the file name with and without its extension."""
    files = {word.rsplit("/", 1)[-1] for word in words}
    bare = {file.rsplit(".", 1)[0] for file in files}
    return frozenset(name for name in words | files | bare if len(name) >= _SHORTEST_NAME)
