"""Working notes that a summarizing model may correct: what it sees of them, and the check.

An operation is taken only where a message of the batch says it: the model quotes that message, and
everything that it writes of ids, paths, names and numbers has to stand there, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.facts.literals import find_literals
from langchain_tokenmem.core.facts.sentences import one_line
from langchain_tokenmem.core.messages import result_ids, role_of, text_of
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.core.working_notes.operations import MODEL_SECTIONS
from langchain_tokenmem.core.working_notes.word_rules import MAX_ITEM
from langchain_tokenmem.notes_state import ModesState, NoteOperation
from langchain_tokenmem.summarize.base import NotesToCorrect, ProposedOperation, SummaryRequest
from langchain_tokenmem.summarize.known_text import KnownText
from langchain_tokenmem.summarize.literal_check import unknown_literals
from langchain_tokenmem.summarize.note_operations import as_operations

SHORTEST_QUOTE = 8
"""Characters of a quote, where the message itself is not shorter."""

_OF_THE_USER = frozenset({"constraints", "facts"})
"""Sections that only a user's words can change, as it is with the rules."""

_OF_RESULTS = frozenset({"errors", "progress"})
"""Sections that a tool's result can change."""

_DIGITS = re.compile(r"\w*\d\w*")


def notes_to_correct(
    modes: ModesState, mode: ModeProfile, numbers: Sequence[int]
) -> NotesToCorrect | None:
    """Return the notes that a model may correct; None where the mode has none of these sections.

    Items of newer messages than those of the batch are left out: it cannot know of them.

    Args:
        modes: The sections.
        mode: The mode that is on.
        numbers: Numbers of the messages of the batch, 0 where one is not known.
    """
    last = max(numbers, default=0)
    sections = {
        name: [item for item in modes["sections"].get(name, ()) if item["source"] <= last]
        for name in mode.sections
        if name in MODEL_SECTIONS
    }
    return NotesToCorrect(sections, numbers) if sections and last else None


def checked_operations(
    proposed: Iterable[ProposedOperation], request: SummaryRequest
) -> tuple[list[NoteOperation], tuple[str, ...]]:
    """Return the operations that hold, and why the others do not.

    Args:
        proposed: What the summarizer asks for.
        request: The request that it has answered.
    """
    notes = request.notes
    if notes is None:
        return [], ()
    held: list[NoteOperation] = []
    refused: list[str] = []
    for one in as_operations(proposed):
        checked = _checked(one, request, notes)
        if isinstance(checked, str):
            refused.append(checked)
        else:
            held.append(checked)
    return held, tuple(refused)


def _checked(
    one: ProposedOperation, request: SummaryRequest, notes: NotesToCorrect
) -> NoteOperation | str:
    """Return an operation as it can be applied, or why it cannot."""
    section = one["section"]
    if section not in notes.sections:
        return f"no section {_line(section)!r} to write"
    items = dict(notes.numbered(section)) if one["op"] != "add" else {}
    before = items.get(one.get("item", 0))
    text = _line(one.get("text", ""))
    if one["op"] != "add" and before is None:
        return f"{one['op']} of {section} names no item"
    if one["op"] != "resolve" and not text:
        return f"{one['op']} of {section} has no text"
    checked: NoteOperation = {"op": one["op"], "section": section, "source": 0}
    if before is not None:
        checked["before"] = before["text"]
    if one["op"] != "resolve":
        checked["text"] = text
        if rationale := _line(one.get("rationale", "")):
            checked["rationale"] = rationale
        if rejected := [line for line in map(_line, one.get("rejected", ())) if line]:
            checked["rejected"] = rejected
    source, lacking = _source_of(checked, one["quote"], request, notes)
    if source:
        return {**checked, "source": source}
    what = f"literals that its source lacks: {', '.join(lacking)}" if lacking else "no source"
    return f"{one['op']} of {section} has {what}"


def _source_of(
    checked: NoteOperation, quote: str, request: SummaryRequest, notes: NotesToCorrect
) -> tuple[int, list[str]]:
    """Return the number of the newest message that says it, or 0, and what the quoted one lacks."""
    shown = [
        *(checked.get("text", ""), checked.get("rationale", "")),
        *checked.get("rejected", ()),
    ]
    lacking: list[str] = []
    for message, number in reversed(list(zip(request.messages, notes.numbers, strict=False))):
        if not number or not _may_say(message, checked["section"]):
            continue
        said = _said_by(message)
        if _is_quote(quote, said):
            found = [literal for text in shown for literal in _lacking(text, said)]
            if not found:
                return number, []
            lacking = lacking or found
    return 0, list(dict.fromkeys(lacking))


def _may_say(message: BaseMessage, section: str) -> bool:
    """Return whether a message of this role can change the section."""
    role = role_of(message)
    if role == "human" and not result_ids(message):
        return True
    if role == "ai":
        return section not in _OF_THE_USER
    return section in _OF_RESULTS


def _said_by(message: BaseMessage) -> str:
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    args = [json.dumps(call["args"], ensure_ascii=False, default=str) for call in calls]
    return "\n".join([text_of(message), *args])


def _is_quote(quote: str, said: str) -> bool:
    quote, said = _plain(quote).strip(" \"'.…"), _plain(said)
    return len(quote) >= min(SHORTEST_QUOTE, len(said)) and bool(quote) and _stands_in(quote, said)


def _stands_in(words: str, said: str) -> bool:
    """Return whether words stand in a text, and not inside of a longer word or number."""
    border = r"(?<!\w)(?<!\d[.,])" if words[:1].isalnum() else ""
    end = r"(?!\w)(?![.,]\d)" if words[-1:].isalnum() else ""
    # ASCII: no space ends a word of Chinese or Japanese.
    return re.search(f"{border}{re.escape(words)}{end}", said, re.ASCII) is not None


def _lacking(text: str, said: str) -> Iterator[str]:
    """Yield the literals of a text that a message lacks."""
    plain = _plain(said)
    for literal in [*(one.text for one in find_literals(text)), *_DIGITS.findall(text)]:
        first, _, rest = literal.partition(" ")
        if rest and first.isalpha() and text.startswith(literal):
            literal = rest.rstrip(".")  # noqa: PLW2901  # "Use SQLite": the verb has a capital, too
        if not _stands_in(_plain(literal), plain):
            yield literal
    yield from unknown_literals(text, KnownText([said]))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _line(text: str) -> str:
    """Return a text on one line, without what no reader sees and no database takes."""
    return one_line("".join(sign if sign.isprintable() else " " for sign in text), MAX_ITEM)
