"""Lines of earlier entries of the running summary, read back to be condensed into one entry."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.facts.tool_results import CallKind, kind_of_tool
from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.summarize.log_lines import Kind, Line, Piece
from langchain_tokenmem.summarize.whole_pieces import forms_of

_SPOKEN = re.compile(r"(User|Assistant)(?: \((?:correction|\u00d7\d+)\))*: ")
_REFERENCE = re.compile(r"(?:^|(?<=; ))\[([0-9a-f]{6,})\] ")
_TOOL = re.compile(r"[^\s(]*")
_PATH = re.compile(r"[\w@.~-]*[/.][\w@./~-]*\w")
_LENGTHS = (45, 120, 240)
"""Characters of the shorter forms of a line that is condensed."""


def earlier_lines(entries: Sequence[BaseMessage]) -> list[Line]:
    """Return the lines of earlier entries, with the shorter forms of their pieces.

    Of equal pieces, of the same call, and of changes of the same file only the last one is kept.
    """
    lines = [
        _earlier_line(line, place)
        for place, entry in enumerate(entries)
        for line in text_of(entry).splitlines()
        if line.strip()
    ]
    last = {_key_of(piece): id(piece) for line in lines for piece in line.pieces}
    stays = set(last.values())
    kept = [Line([piece for piece in line.pieces if id(piece) in stays]) for line in lines]
    return [line for line in kept if line.pieces]


def _earlier_line(line: str, place: int) -> Line:
    """Return a line of an earlier entry with its pieces."""
    pieces: list[Piece] = []
    for reference, text in _parts_of(line):
        if match := _SPOKEN.match(text):
            kind = Kind.USER if match[1] == "User" else Kind.ANSWER
            forms = [match[0] + form for form in forms_of(text[match.end() :], _LENGTHS)]
            pieces.append(Piece(kind, _growing([*forms, text]), (place,), reference))
            continue
        tool = _TOOL.match(text) if reference else None
        if tool is None:
            pieces.append(Piece(Kind.NOTE, [text], (place,), reference))
            continue
        name = pieces[0].tool if pieces else tool[0]
        whole = text if not pieces else f"{name}{text}" if text[:1] == "(" else f"{name} {text}"
        pieces.append(_earlier_call(whole, name, place, reference))
    return Line(pieces)


def _parts_of(line: str) -> list[tuple[str, str]]:
    """Return the pieces of a line with their references; a text of another kind has none."""
    if not _REFERENCE.match(line):
        return [("", line)]
    found = _REFERENCE.split(line)[1:]  # reference, text, reference, text ...
    return [
        (name, text.removesuffix("; ")) for name, text in zip(found[::2], found[1::2], strict=True)
    ]


def _earlier_call(text: str, tool: str, place: int, reference: str) -> Piece:
    head, _, result = text.partition(" → ")
    failed = result.startswith("failed")
    path = _changed_file(head, tool)
    least = f"{tool} {path}" if path else head
    ending = f" → {result.partition(':')[0]}" if failed else ""
    forms = [f"{least}{ending}", *([] if failed else [head]), text]
    kind = Kind.FAILURE if failed else Kind.EDIT if path else Kind.CALL
    return Piece(kind, _growing(forms), (place,), reference, tool=tool)


def _key_of(piece: Piece) -> str:
    """Return the key by which a later piece replaces an earlier one."""
    text = piece.forms[-1]
    call = text.partition(" → ")[0]
    if not piece.tool:
        return text
    return f"{piece.tool} {_changed_file(call, piece.tool) or call.removeprefix(piece.tool)}"


def _changed_file(call: str, tool: str) -> str | None:
    """Return the file that the line of a call changes; None if it changes none."""
    if kind_of_tool(tool) is not CallKind.EDIT:
        return None
    path = _PATH.search(call, len(tool))
    return path[0] if path else None


def _growing(forms: Sequence[str]) -> list[str]:
    """Return the forms that are longer than the one before them."""
    found: list[str] = []
    for form in forms:
        if not found or len(form) > len(found[-1]):
            found.append(form)
    return found
