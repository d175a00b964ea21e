"""Incremental reader of facts: statements and tool calls, in the order of the conversation."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_tokenmem.core.facts.call_kinds import (
    CallKind,
    command_of,
    kind_of_command,
    kind_of_tool,
    path_of,
)
from langchain_tokenmem.core.facts.failure_lines import failure_of
from langchain_tokenmem.core.facts.literals import capitalises_nouns, words_of
from langchain_tokenmem.core.facts.sentences import (
    cues,
    message_text,
    one_line,
    prose,
    prose_lines,
    split_sentences,
    strip_bullet,
)
from langchain_tokenmem.core.facts.tool_results import (
    ResultValue,
    ends_of,
    outcome_of,
    unescaped,
    values_of,
)
from langchain_tokenmem.core.facts.utterances import (
    Cue,
    Utterance,
    make_statement,
    split_announcement,
)
from langchain_tokenmem.core.messages import call_ids, result_id, role_of

_SHORT_ARGUMENT = 60
_MAX_ARGUMENTS = 8
_READ_ARGUMENT = 4_000
_DECIDING = frozenset({Cue.ORDER, Cue.DECISION, Cue.SETTING, Cue.REQUEST})
_MANY_DECISIONS = 50
_PASTED = 30
"""Sentences from which a message is taken for a pasted text."""
_FEWEST_WORDS = 4
_END, _FEW_BESIDE = 600, 8
"""Characters of the end of a long message, and statements from which it is long."""
_PLAIN_WORD = re.compile(r"(?<![^\s(\"'])[^\W\d_]{2,}(?![^\s),.:;!?\"'])|[\u2e80-\u9fff]{2}")


@dataclass(frozen=True, slots=True)
class ToolCallFact:
    """A tool call with what came out of it.

    Attributes:
        name: The tool.
        kind: What the call does.
        command: The command that it runs, if any.
        path: The file that it is about, if any.
        arguments: Its short arguments, key and text.
        passed: Values inside of its long arguments.
        places: Numbers of its messages: the call's, and the result's.
        has_result: Whether its result is there.
        failure: The line that tells of its failure; `None` where it did not fail.
        failed_before: The line of an earlier call's failure, where this one stands for both.
        outcome: What a short result says, or the closing line of a long one.
        values: What the result brought.
    """

    name: str
    kind: CallKind
    command: str | None
    path: str | None
    arguments: tuple[tuple[str, str], ...]
    passed: tuple[ResultValue, ...]
    places: tuple[int, ...]
    has_result: bool = False
    failure: str | None = None
    failed_before: str = ""
    outcome: str = ""
    values: tuple[ResultValue, ...] = ()

    @property
    def key(self) -> str:
        """Identity of the call: its command, else its name and short arguments."""
        if self.command:
            return self.command.partition(" | ")[0].replace("2>&1", "").strip()
        return f"{self.name}{self.arguments}{self.path}"


Fact = Utterance | ToolCallFact


@dataclass
class FactsReader:
    """Reads a conversation message by message; what was read is never read again.

    Attributes:
        facts: Statements and calls so far, in their order; a result completes its call.
        passed_at: Identifiers that calls passed on, with the numbers of these messages.
        said_at: Identifiers that people and models said, with the numbers of these messages.
    """

    facts: list[Fact] = field(default_factory=list)
    passed_at: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    said_at: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _open_calls: dict[str, int] = field(default_factory=dict)
    _decisions: list[Utterance] = field(default_factory=list)

    def add(self, message: BaseMessage, place: int) -> None:
        """Read one message; system messages are no part of a conversation.

        Args:
            message: The message.
            place: Its number, which its facts keep.
        """
        role = role_of(message)
        if role == "tool":
            self._add_result(message, place)
        elif role in ("human", "ai"):
            self._add_words(message, place, by_user=role == "human")
        if isinstance(message, AIMessage):
            invalid = [(call["name"], {"": call["args"]}) for call in message.invalid_tool_calls]
            valid = [(call["name"], call["args"]) for call in message.tool_calls]
            for (name, args), key in zip([*valid, *invalid], call_ids(message), strict=False):
                self._open_calls[key] = len(self.facts)
                fact = _call_fact(str(name), args, place)
                self.facts.append(fact)
                for word in _words_of_arguments(fact):
                    self.passed_at[word].append(place)

    def _add_words(self, message: BaseMessage, place: int, *, by_user: bool) -> None:
        text = message_text(message)
        for statement in statements_of(text, place, by_user=by_user):
            self.facts.append(self._with_correction(statement))
        for word in words_of(text[:_READ_ARGUMENT]):
            self.said_at[word].append(place)

    def _with_correction(self, statement: Utterance) -> Utterance:
        """Mark a statement of the user that corrects an earlier one, and remember decisions."""
        if statement.by_user and _says_so(statement.text):
            before = self._decisions[-_MANY_DECISIONS:]
            corrects = any(_is_corrected(one, statement) for one in before)
            statement = replace(statement, corrects=corrects)
        if statement.by_user or statement.cue in _DECIDING:
            self._decisions.append(statement)
        return statement

    def _add_result(self, message: BaseMessage, place: int) -> None:
        at = self._open_calls.pop(result_id(message) or "", None)
        if at is None or not isinstance(message, ToolMessage):
            return
        call = self.facts[at]
        assert isinstance(call, ToolCallFact)  # noqa: S101 - `_open_calls` points at calls only
        reads = call.kind in (CallKind.READ, CallKind.SEARCH)
        text = ends_of(message_text(message))
        failure = failure_of(message, reads=reads)
        self.facts[at] = replace(
            call,
            places=(*call.places, place),
            has_result=True,
            failure=failure,
            outcome="" if failure else outcome_of(text),
            values=tuple(values_of(text)),
        )


def statements_of(text: str, place: int, *, by_user: bool) -> Iterator[Utterance]:
    """Yield the statements of a text, in their order; logs and source code are left out.

    Args:
        text: What was said.
        place: Number of its message.
        by_user: Whether the user said it, or an assistant.
    """
    text = prose(text)
    single_names = not capitalises_nouns(text)
    sentences = [
        (sentence, box)
        for line in prose_lines(text)
        for bare, box in (strip_bullet(line),)
        for sentence in split_sentences(bare)
        for sentence in split_announcement(sentence)
    ]
    is_pasted = len(sentences) > _PASTED
    found: list[Utterance] = []
    for number, (sentence, box) in enumerate(sentences, 1):
        made = make_statement(
            sentence,
            place,
            by_user=by_user,
            is_last=number == len(sentences),
            single_names=single_names,
        )
        if made and not (is_pasted and _is_listing(made)):
            if box:
                made = replace(made, cue=Cue.OPEN if box == " " else Cue.REPORT)
            found.append(made)
    return _counted(found, _short_end(text))


def _short_end(text: str) -> str:
    """Return the paragraphs at the end of a long text: what somebody says behind what is pasted."""
    end = text[-_END:]
    return " ".join(end[end.find("\n\n") :].split()) if "\n\n" in end else ""


def _counted(found: Sequence[Utterance], end: str) -> Iterator[Utterance]:
    """Yield statements with the number of those beside them."""
    at_end = [len(found) > _FEW_BESIDE and one.text in end for one in found]
    for one, is_end in zip(found, at_end, strict=True):
        yield replace(one, beside=sum(at_end) if is_end else len(found))


def _is_listing(statement: Utterance) -> bool:
    """Return whether a line of a pasted text is no sentence: a path, code, a row."""
    rest = statement.text
    for literal in statement.literals:
        rest = rest.replace(literal.text, " ")
    return len(_PLAIN_WORD.findall(rest)) < _FEWEST_WORDS


def _says_so(text: str) -> bool:
    """Return whether a statement says that it corrects something; a question does not."""
    said = cues("correction").search(text) or cues("correction_at_the_beginning").match(text)
    return said is not None and not text.rstrip().endswith(("?", "\uff1f"))


def _is_corrected(before: Utterance, after: Utterance) -> bool:
    """Return whether a statement that corrects something is about the topic of an earlier one."""
    if before.place == after.place and not cues("correction").match(after.text):
        return False  # "do this instead of that" in one request
    return before.text != after.text and not before.topic.isdisjoint(after.topic)


def _call_fact(name: str, args: Mapping[str, object], place: int) -> ToolCallFact:
    action = args.get("command")
    is_editor = isinstance(action, str) and action.isidentifier() and path_of(args) is not None
    command = None if is_editor else command_of(name, args)
    kind = kind_of_tool(str(action)) if is_editor else kind_of_tool(name)
    if command:
        kind = kind_of_command(command)
    short: list[tuple[str, str]] = []
    long: list[str] = []
    for key, value in list(args.items())[:_MAX_ARGUMENTS]:
        text = value if isinstance(value, str) else _compact(value)
        if text == command:
            if len(text) > 2 * _SHORT_ARGUMENT:
                long.append(text)
        elif len(text) <= _SHORT_ARGUMENT and "\n" not in text:
            short.append((str(key), one_line(text).replace("; ", ", ")))
        else:
            long.append(text)
    passed = tuple(value for text in long for value in values_of(unescaped(text[:_READ_ARGUMENT])))
    path = path_of(args)
    return ToolCallFact(name, kind, command, path, tuple(short), passed, (place,))


def _compact(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return str(value)


def _words_of_arguments(call: ToolCallFact) -> set[str]:
    found = words_of(call.command[:_READ_ARGUMENT]) if call.command else set()
    found |= {word for _, text in call.arguments for word in (text, *words_of(text))}
    found |= {one.text for value in call.passed for one in value.identifiers}
    return found
