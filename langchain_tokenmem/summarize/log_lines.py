"""Lines of the running summary: an index into the conversation, made by its structure.

Each message of the user, each answer of the assistant and each run of calls of one tool has a line.
Its parts begin with the references that `read_message` opens. Lines of earlier entries are read
back to be condensed into one entry.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from os.path import commonprefix
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_tokenmem.core.facts.call_kinds import CallKind, kind_of_tool
from langchain_tokenmem.core.facts.failures import error_lines
from langchain_tokenmem.core.facts.own_words import own_words
from langchain_tokenmem.core.facts.sentences import (
    any_of,
    cues,
    find_identifiers,
    identifiers_in,
    message_text,
    prose,
)
from langchain_tokenmem.core.messages import (
    REFERENCES,
    groups,
    reference,
    role_of,
    text_of,
)
from langchain_tokenmem.core.todos import todos_in
from langchain_tokenmem.core.tool_calls import paired_calls
from langchain_tokenmem.core.working_notes.decision_rules import decision_in
from langchain_tokenmem.core.working_notes.pasted_text import without_pasted_text
from langchain_tokenmem.core.working_notes.sentence_rules import (
    WORD_END,
    constraints_in,
    facts_in,
    is_question,
    note_sentences,
    request_in,
    without_lead,
)
from langchain_tokenmem.summarize.tool_calls import LENGTHS, MOST_READ, ToolCall, words_passed
from langchain_tokenmem.summarize.whole_pieces import (
    cut_at_words,
    forms_of,
    is_open,
    sentences,
    without_code,
    without_line_breaks,
    without_offer,
)

SPEECH_LENGTHS, NOTE_LENGTHS = (45, 240, 700), (110, 260)
"""Characters of the forms of a message, and of what an assistant says with a call."""

LINES = " | "
"""Separator of values that are lines of a text."""

_STATEMENT_LENGTH = 80
"""Characters of the shortest form of a statement: its first clause may not be the point."""

_DIGIT = re.compile(r"\d")
_OWN = re.compile(
    rf"(?:^|[,;:.!?] |\b{any_of('before_own')} )(?!{any_of('not_own')}\b){any_of('own')}{WORD_END}",
    re.IGNORECASE,
)
"""A clause in which users speak of themselves."""

_ASKING = re.compile(
    rf"(?:(?!{any_of('acknowledgement')}(?!\w))(?:{any_of('greeting')}|{any_of('request_lead')})"
    rf"[,:!.]* +)*+{any_of('asking')} +(?=(?:trying to |looking to )?{any_of('task_verb')}(?!\w))",
    re.IGNORECASE,
)
"""Beginning of a request, before the work: `Can you` of `Can you add a test?`."""

_HEADING = re.compile(r"\A\s*(?:DISCUSSION|THOUGHTS?|REASONING|ANALYSIS)\n(?=\s*\S)")
"""A heading that some agents write before every answer; `APPROVED` may be the answer."""

_CODE_MARK = re.compile(r"\[code[^\]]*\]")
_SHORT_NOTE = 40
_BEGINNING = 1_000
_LIKE_REFERENCE = re.compile(r"\[(?=[0-9a-f]{6,}\] )")


class Kind(IntEnum):
    """Kinds of pieces, the most important first."""

    USER = 0
    ANSWER = 1
    FAILURE = 2
    EDIT = 3
    NOTE = 4
    CALL = 5


class Weight(IntEnum):
    """How much later answers may need the words of a piece, the least first.

    A number; an identifier, which can only be copied; what users say about themselves; a
    correction, rule, limit, decision or fact of the user; words that the instruction of a request
    names.
    """

    NONE = 0
    NUMBER = 1
    NAME = 2
    OWN = 3
    STATEMENT = 4
    ASKED_FOR = 5


@dataclass(eq=False)
class Piece:
    """Part of a line: about one message, or a call with its result; equal only to itself.

    Attributes:
        kind: What it is.
        forms: Its texts, the shortest first.
        reference: Reference of the message, or of the call's; empty for a message without an id.
        values: Values in the result, each with whether it was used later.
        between: Separator of these values.
        size: Size of the result, shown if no value fits.
        tool: The tool; empty if it is not a call.
        key: What equal pieces share, of which the last one represents all; empty for a short
            reply, which means something different each time.
        repeats: How often the same was said before.
        weight: How much later answers may need its words; NONE for a call.
    """

    kind: Kind
    forms: list[str]
    reference: str
    values: list[tuple[str, bool]] = field(default_factory=list)
    between: str = ", "
    size: str = ""
    tool: str = ""
    key: str = ""
    repeats: int = 0
    weight: Weight = Weight.NONE

    def follows(self, before: Piece) -> None:
        """Count an earlier message that says the same."""
        self.repeats = before.repeats + 1
        times = f" (\u00d7{self.repeats + 1}): "
        self.forms = [re.sub(r"(?: \(\u00d7\d+\))?: ", times, form, count=1) for form in self.forms]


Line = list[Piece]
"""One line: a piece, or consecutive calls of the same tool."""


_CORRECTION = " (correction)"
"""Mark after the speaker of a correction."""

_LONGEST_NAME = 30
_NOT_IN_NAMES = re.compile(r"[^\w.'-]+")


def lines_of(messages: Sequence[BaseMessage]) -> list[Line]:
    """Return the lines about some messages, in their order.

    Of calls with the same arguments, and of messages that say the same in more than a few words,
    only the last one has a piece, which counts those before it.
    """
    pieces: list[Piece | ToolCall] = []
    used: set[str] = set()
    for message, calls in (
        pair for group in groups(messages) for pair in paired_calls(group.messages)
    ):
        role, name = role_of(message), reference(message.id) if message.id else ""
        if role not in {"human", "ai"}:
            continue
        text = prose(message_text(message))
        used |= identifiers_in(text[:MOST_READ])
        if piece := _spoken(text, role, name, message.name, has_calls=bool(calls)):
            pieces.append(piece)
        for made, result in calls:
            call = _call_of(made, name, result)
            used |= words_passed(call.args)
            if not any(map(todos_in, call.args.values())):  # a list has its own place
                pieces.append(call)
    last = _last_of_each(pieces)
    heads = Counter(one.head(0) for one in last if isinstance(one, ToolCall))
    shown = [one if isinstance(one, Piece) else _piece_of(one, used, heads) for one in last]
    for piece in shown:
        piece.forms = [*map(_without_references, piece.forms)]
        piece.values = [(_without_references(value), is_used) for value, is_used in piece.values]
        piece.size = _without_references(piece.size)
    # Consecutive calls of the same tool share a line.
    return [[*line] for _, line in groupby(shown, key=lambda piece: piece.tool or piece)]


def _call_of(made: Any, name: str, result: ToolMessage | None) -> ToolCall:
    args = made["args"] if isinstance(made["args"], dict) else {"": made["args"]}
    call = ToolCall(without_line_breaks(made["name"])[:60] or "tool", args, name)
    if result is not None:
        call.ended(result)
    return call


def _spoken(
    text: str, role: str, name: str, speaker: str | None, *, has_calls: bool
) -> Piece | None:
    if not without_line_breaks(text):
        return None
    whole, text = text, own_words(text) if role == "human" else _HEADING.sub("", text, count=1)
    if role == "human" or not has_calls:
        kind, who = (Kind.USER, "User") if role == "human" else (Kind.ANSWER, "Assistant")
        known = _NOT_IN_NAMES.sub(" ", speaker or "")[:_LONGEST_NAME].strip()
        who = who if known.lower() == who.lower() else f"{who} {known}".strip()
        corrects = role == "human" and _corrects(text)
        if corrects:
            who += _CORRECTION
        said = forms_of(text if role == "human" else without_offer(text), SPEECH_LENGTHS)
        if kind is Kind.ANSWER:
            said = _with_first_id(said)
        weight = Weight.STATEMENT if corrects else _weight(kind, said)
        if kind is Kind.USER and len(said) > 1:
            least = _STATEMENT_LENGTH if weight >= Weight.OWN else SPEECH_LENGTHS[0]
            first = forms_of(without_lead(_ASKING, text), (least,))[0]
            point = _point_of(sentences(without_code(without_pasted_text(text))), first, said[1])
            # What a message states is never left out for its beginning; an error waits for room.
            begins = [point] if point and weight is Weight.STATEMENT else [first, point]
            said = _growing([*filter(None, begins), *said[1:]])
        forms = [f"{who}: {form}" for form in said]
        key = f"{who} {whole}" if len(whole) > SPEECH_LENGTHS[0] else ""
        return Piece(kind, forms, name, key=key, weight=weight)
    # The last sentence before a call announces it, and adds nothing to the call.
    found = " ".join(sentences(without_code(text))[:-1])
    if len(found) < _SHORT_NOTE or not any(find_identifiers(found)):
        return None
    said = forms_of(found, NOTE_LENGTHS)
    forms = [f"Assistant: {form}" for form in said]
    return Piece(Kind.NOTE, forms, name, weight=_weight(Kind.NOTE, said))


def _corrects(text: str) -> bool:
    """Return whether a user announces a correction; questions do not count."""
    first = (sentences(text[:_BEGINNING]) or [""])[0]
    says_so = cues("correction_at_the_beginning").match(first) or cues("correction").search(first)
    return says_so is not None and not first.endswith(("?", "\uff1f"))


def _with_first_id(forms: Sequence[str]) -> list[str]:
    """Return the forms of an answer; the shortest is its first short sentence with an id."""
    if not _has_id(forms[0]):
        for sentence in sentences(_CODE_MARK.sub("[code]", forms[-1])):
            shortest = forms_of(sentence, (_STATEMENT_LENGTH,))[0]
            if _has_id(shortest):
                return _growing([shortest, *forms[1:]])
    return [*forms]


def _has_id(text: str) -> bool:
    return any(one.kind == "id" for one in find_identifiers(text))


def _weight(kind: Kind, forms: Sequence[str]) -> Weight:
    """Return the weight of what was said, from its two shortest forms without the speaker."""
    asserted: list[str] = []
    if kind is Kind.USER:
        shown = _CODE_MARK.sub("", forms[:2][-1])  # a rule in the middle of a document has no line
        asserted = [one for one in note_sentences(shown) if not is_question(one)]
    if any(map(_states, asserted)):
        return Weight.STATEMENT
    if any(_OWN.search(one) and not request_in([one]) for one in asserted):
        return Weight.OWN
    kinds = {one.kind for one in find_identifiers(forms[0])}
    if kinds - {"number"}:
        return Weight.NAME
    has_number = any(_DIGIT.search(one) and not request_in([one]) for one in asserted)
    return Weight.NUMBER if kinds or has_number else Weight.NONE


def _point_of(parts: Sequence[str], form: str, longer: str) -> str:
    """Return the beginning of a text with what it states or reports later; empty without that.

    Args:
        parts: The sentences and lines of the text.
        form: Its beginning.
        longer: A longer form, which a rule in the middle of a pasted document is not in.
    """
    for place, part in enumerate(parts):
        if place and part in longer and part not in form and _has_point(part):
            point = forms_of(part, (_STATEMENT_LENGTH,))[0]
            if any(_has_point(one) for one in parts[:place] if one in form):
                return f"{form} {point}"
            before = without_lead(_ASKING, " ".join(parts[:place]))
            return f"{forms_of(before, SPEECH_LENGTHS[:1])[0]} {point}"
    return ""


def _has_point(text: str) -> bool:
    """Return whether a text states something, or is the line of an error."""
    asserted = (one for one in note_sentences(text) if not is_question(one))
    return bool(error_lines(text)) or any(map(_states, asserted))


def _states(sentence: str) -> bool:
    """Return whether a sentence of the user is a rule, a limit, a decision or a fact."""
    return (
        any(constraints_in(sentence))
        or any(facts_in(sentence))
        or decision_in(sentence, by_user=True) is not None
        or cues("reminder").search(sentence) is not None
        or (cues("stated").search(sentence) is not None and not request_in([sentence]))
    )


def _last_of_each(pieces: Sequence[Piece | ToolCall]) -> list[Piece | ToolCall]:
    """Return the pieces with the last of equal ones only; it counts those before it."""
    last: dict[tuple[type, str], Any] = {}
    for one in pieces:
        if one.key:
            own = (type(one), one.key)
            if before := last.get(own):
                one.follows(before)
            last[own] = one
    return [one for one in pieces if not one.key or last[type(one), one.key] is one]


def _piece_of(call: ToolCall, used: set[str], heads: Mapping[str, int]) -> Piece:
    # Calls that read the same without their long arguments have no such form.
    shortest = 1 if heads[call.head(0)] > 1 else 0
    forms = list(dict.fromkeys(call.text(length) for length in range(shortest, LENGTHS)))
    if call.answers:
        said = [f"Assistant: {form}" for form in forms]
        return Piece(Kind.ANSWER, said, call.reference, weight=_weight(Kind.ANSWER, forms))
    kind = Kind.EDIT if call.edits else Kind.CALL
    return Piece(
        Kind.FAILURE if call.failure or call.failed_before else kind,
        forms,
        call.reference,
        values=list(call.values(used)),
        between=LINES if call.pairs is None else ", ",
        size=call.size,
        tool=call.name,
    )


def _without_references(text: str) -> str:
    """Return a text in which nothing looks like the beginning of another piece."""
    return _LIKE_REFERENCE.sub("(", text)


_LEFT_OUT, _ARROW, _FAILED, _SAME = "(…, ", " → ", "failed: ", "the same"
_ARGUMENT = re.compile(r"[\w-]+=")


def without_same(call: str, before: str) -> str:
    """Return a call without the first arguments, and the error, that the call before it has too.

    Args:
        call: Its arguments and result; two results that are shown alike may differ, errors not.
        before: Those of the call before it.

    Example:
        >>> without_same("(repo=lights, issue=28)", "(repo=lights, issue=27)")
        '(…, issue=28)'
    """
    (given, arrow, result), (earlier, _, known) = call.partition(_ARROW), before.partition(_ARROW)
    same = commonprefix([given, earlier]).rpartition(", ")[0]  # noqa: RUF071 (no paths)
    shorter = f"{_LEFT_OUT}{given[len(same) + 2 :]}"
    is_clear = len(same) > len(_LEFT_OUT) and with_same(shorter, before) == given
    if result == known and result.startswith(_FAILED) and len(result) > len(_FAILED + _SAME):
        result = _FAILED + _SAME
    return f"{shorter if is_clear else given}{arrow}{result}"


def with_same(call: str, before: str) -> str:
    """Return a call with the arguments and the error that `without_same` has left out."""
    (given, arrow, result), (earlier, _, known) = call.partition(_ARROW), before.partition(_ARROW)
    rest = given.removeprefix(_LEFT_OUT)
    first = _ARGUMENT.match(rest)
    start = earlier.find(f", {first[0]}") if rest != given and first else -1
    whole = f"{earlier[: start + 2]}{rest}" if start >= 0 else given
    return f"{whole}{arrow}{known if result == _FAILED + _SAME else result}"


# --- lines of earlier entries

_SPOKEN = re.compile(r"(User|Assistant)(?: [^:(\n]{1,40})?(?: \((?:correction|\u00d7\d+)\))*: ")
_TOOL = re.compile(r"[^\s(]*")
_PATH = re.compile(r"[\w@.~-]*[/.][\w@./~-]*\w")
_CONDENSED_LENGTHS = (45, 120, 240)
"""Characters of the shorter forms of a line that is condensed."""
_VALUE_END = re.compile(r", | [|…] ")
_OUTCOME = 60
"""Characters of an outcome after failures that a condensed call keeps."""


def earlier_lines(entries: Sequence[BaseMessage]) -> list[Line]:
    """Return the lines of earlier entries, with the shorter forms of their pieces.

    Of equal pieces, of the same call, and of changes of the same file only the last one is kept.
    """
    lines = [
        _earlier_line(line)
        for entry in entries
        for line in text_of(entry).splitlines()
        if line.strip()
    ]
    last = {piece.key: piece for line in lines for piece in line}
    kept = ([piece for piece in line if last[piece.key] is piece] for line in lines)
    return [line for line in kept if line]


def _earlier_line(line: str) -> Line:
    """Return a line of an earlier entry with its pieces."""
    pieces: Line = []
    for name, text in _parts_of(line):
        if match := _SPOKEN.match(text):
            kind = Kind.USER if match[1] == "User" else Kind.ANSWER
            whole = text[match.end() :]
            said = [*forms_of(whole, _CONDENSED_LENGTHS), whole]
            if kind is Kind.ANSWER:
                said = _with_first_id(said)
            is_correction = _CORRECTION in match[0]
            weight = Weight.STATEMENT if is_correction else _weight(kind, [said[0], said[-1]])
            if kind is Kind.USER:
                first = forms_of(without_lead(_ASKING, whole), _CONDENSED_LENGTHS[:1])
                point = "" if _has_point(first[0]) else _point_of(sentences(whole), first[0], whole)
                said = [*first, *filter(None, [point]), *said[1:]]
            forms = _growing([match[0] + form for form in said])
            pieces.append(Piece(kind, forms, name, key=text, weight=weight))
            continue
        tool = _TOOL.match(text) if name else None
        if tool is None:
            weight = _weight(Kind.NOTE, [text])
            pieces.append(Piece(Kind.NOTE, [text], name, key=text, weight=weight))
            continue
        called = pieces[0].tool if pieces else tool[0]
        whole = text
        if pieces:
            whole = with_same(text, pieces[-1].forms[-1].removeprefix(called).lstrip())
            whole = f"{called}{whole}" if whole[:1] == "(" else f"{called} {whole}"
        pieces.append(_earlier_call(whole, called, name))
    return pieces


def _parts_of(line: str) -> list[tuple[str, str]]:
    """Return the pieces of a line with their references; other texts have none."""
    if not REFERENCES.match(line):
        return [("", line)]
    found = REFERENCES.split(line)[1:]  # reference, text, reference, text ...
    return [
        (name, text.removesuffix("; ")) for name, text in zip(found[::2], found[1::2], strict=True)
    ]


def _earlier_call(text: str, tool: str, name: str) -> Piece:
    head, _, result = text.partition(" → ")
    failed = result.startswith("failed")
    path = _changed_file(head, tool)
    least = f"{tool} {path}" if path else head
    outcome = f" → {_outcome(result)}" if result else ""
    forms = [f"{least}{outcome}"] if failed else [least, head, f"{head}{outcome}"]
    if failed and len(result) > 2 * _OUTCOME:
        forms.append(f"{least} → {cut_at_words(result, _OUTCOME)} …")
    forms = _growing([*forms, text])
    kind = Kind.FAILURE if failed else Kind.EDIT if path else Kind.CALL
    key = f"{tool} {path or head.removeprefix(tool)}"
    return Piece(kind, forms, name, tool=tool, key=key)


def _outcome(result: str) -> str:
    """Return the beginning of a result; of a failure no more than that, and what came after it."""
    if not result.startswith("failed"):
        first = _VALUE_END.split(result, maxsplit=1)[0]
        return result if is_open(first) else first
    failed, then, last = result.partition(", then ")
    if not then or ":" in failed:
        return result.partition(":")[0]
    return f"{failed}{then}{cut_at_words(last, _OUTCOME)}"


def _changed_file(call: str, tool: str) -> str | None:
    """Return the file that the line of a call changes; None if it changes none."""
    path = _PATH.search(call, len(tool)) if kind_of_tool(tool) is CallKind.EDIT else None
    return path and path[0]


def _growing(forms: Sequence[str]) -> list[str]:
    """Return the forms that are longer than the one before them."""
    found: list[str] = []
    for form in forms:
        if not found or len(form) > len(found[-1]):
            found.append(form)
    return found
