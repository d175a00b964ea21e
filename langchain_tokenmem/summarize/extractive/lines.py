"""Lines of an entry: what each can say, in forms of different length, and how they are written."""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

NOTHING = "Nothing to note yet."
STEP_JOINT = "; "


class Mark(Enum):
    """Beginning of a line, by who stands behind it; no text of another can begin so."""

    USER = "User: "
    CORRECTION = "User (correction): "
    ASSISTANT = "Assistant: "
    NOTE = "- "
    STEP = ""


@dataclass(frozen=True, slots=True)
class Form:
    """One length of a piece.

    Attributes:
        text: Its text, on one line.
        worth: Worth of its words; its literals are valued apart.
    """

    text: str
    worth: float


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line that is taken or left out as a whole, in one of its forms.

    Attributes:
        forms: Its forms, the shortest first; none is empty.
        literals: Worth of the literals that it may hold, by their text.
        places: Numbers of the messages that it is taken from.
        topic: What it is about, for prose that may be said twice.
        is_bare: Whether it holds nothing but one literal.
    """

    forms: tuple[Form, ...]
    literals: Mapping[str, float]
    places: tuple[int, ...]
    topic: frozenset[str] = frozenset()
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an entry: sentences of one speaker, or a step with what it brought.

    Attributes:
        mark: How it begins.
        pieces: Its parts in their order; of a step the first is the call, the others its values.
    """

    mark: Mark
    pieces: tuple[Piece, ...]

    @property
    def is_step(self) -> bool:
        """True for a tool call: its first piece stands wherever another one does."""
        return self.mark is Mark.STEP


Chosen = Mapping[int, int]
"""Chosen pieces of a line: index of the form by index of the piece."""

Written = tuple[str, tuple[int, ...]]
"""A line as it is written, with the numbers of the messages that it is taken from."""


def write_lines(lines: Sequence[Line], chosen: Mapping[int, Chosen]) -> list[Written]:
    """Return the lines of an entry; neighbouring steps that brought nothing stand on one line.

    Args:
        lines: All lines, in their order.
        chosen: Which pieces stand, by the index of their line.
    """
    standing = [(lines[at], chosen[at]) for at in sorted(chosen) if chosen[at]]
    written: list[Written] = []
    for is_plain, run in groupby(standing, key=lambda one: one[0].is_step and len(one[1]) == 1):
        if is_plain:
            written.append(_merged_steps(list(run)))
        else:
            written += [_written(line, forms) for line, forms in run]
    return written


def _texts(line: Line, forms: Chosen) -> list[str]:
    return [line.pieces[at].forms[forms[at]].text for at in sorted(forms)]


def _places(line: Line, forms: Chosen) -> Iterator[int]:
    return (place for at in forms for place in line.pieces[at].places)


def _written(line: Line, forms: Chosen) -> Written:
    texts = _texts(line, forms)
    if line.is_step:
        text = f"{texts[0]}: {STEP_JOINT.join(_with_keys_once(texts[1:], _KEYED, _NEAR))}"
    else:
        *before, last = texts
        ended = [one if one.endswith(_ENDINGS) else f"{one};" for one in before]
        text = line.mark.value + " ".join([*ended, last])
    return text, tuple(sorted(set(_places(line, forms))))


_ENDINGS = tuple(".!?…:;,。！？”\"'")
_KEYED = re.compile(r"([A-Za-z_][\w-]*=)(.+)")
_NEAR = 80
"""Characters within which a key stands for the values behind it."""
_VERB = re.compile(r"(read|edited) ([^:;]+)")


def _merged_steps(run: Sequence[tuple[Line, Chosen]]) -> Written:
    """Write steps on one line: `read a.py, b.py; edited c.py`."""
    texts = list(dict.fromkeys(text for one in run for text in _texts(*one)))
    places = {place for one in run for place in _places(*one)}
    return STEP_JOINT.join(_with_keys_once(texts, _VERB)), tuple(sorted(places))


def _with_keys_once(
    texts: Sequence[str], keyed: re.Pattern[str], most: float = math.inf
) -> list[str]:
    """Return texts with neighbours of one key joined: `id=4711, 4712`.

    Args:
        texts: The texts.
        keyed: What has a key: its first group, with the value in its second one.
        most: Characters within which a key stands for the values behind it.
    """
    joined: list[str] = []
    last = ""
    for text in texts:
        found = keyed.fullmatch(text)
        key = found[1] if found else ""
        if found and key == last and len(joined[-1]) + len(found[2]) < most:
            joined[-1] += f", {found[2]}"
        else:
            joined.append(text)
        last = key
    return joined
