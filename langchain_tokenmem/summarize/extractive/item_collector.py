"""Collection of summary items from the earlier summary and the new messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.summarize.extractive.classification import Section, is_done
from langchain_tokenmem.summarize.extractive.items import (
    Item,
    Speaker,
    make_item,
)
from langchain_tokenmem.summarize.extractive.literals import (
    Literal,
    capitalises_nouns,
    find_literals,
)
from langchain_tokenmem.summarize.extractive.sections import parse_summary
from langchain_tokenmem.summarize.extractive.sentences import (
    is_log_line,
    message_text,
    prose,
    split_lines,
    split_sentences,
    strip_bullet,
    terms,
)
from langchain_tokenmem.summarize.extractive.tool_facts import ToolLog, error_lines
from langchain_tokenmem.summarize.extractive.vocabulary import STRONG_OPEN

_SHORT_FENCE = 3
_MAX_FENCED = 200
_DONE_OVERLAP = 0.5
_FILE_ITEM = re.compile(r"(\S{1,220}) \((changed|read|ran)((?:, (?:changed|read|ran))*)\)")
_TOOL_ITEM = re.compile(r"[\w.-]{1,60}\([^→]{0,140}\)(?: →|$)")
_FILE_WORTH = {"changed": 4.0, "ran": 1.5, "read": 0.5}
_LISTING = 8
_STALE_REQUEST = 0.4


@dataclass
class ItemCollector:
    """The items of one summary, collected in the order of the conversation.

    Attributes:
        items: What was found so far.
        tools: What the tool calls left.
    """

    items: list[Item] = field(default_factory=list)
    tools: ToolLog = field(default_factory=ToolLog)
    _carried_files: dict[str, dict[str, None]] = field(default_factory=dict)

    def add_prior(self, text: str) -> None:
        """Carry an earlier summary forward; one that a chat model wrote counts line by line."""
        for order, line in enumerate(parse_summary(text)):
            source = Speaker.USER if line.by_user else Speaker.CARRIED
            if line.bare:
                self._carry_literal(line.text, source, order)
            elif line.section is Section.FILES and (file := _FILE_ITEM.fullmatch(line.text)):
                verbs = [file[2], *file[3].split(", ")[1:]]
                self._carried_files[file[1]] = dict.fromkeys(verbs)
            else:
                self._carry_line(line.text, line.section, source, order)

    def _carry_literal(self, text: str, source: Speaker, order: int) -> None:
        found = find_literals(text, single_names=True)
        kind = found[0].kind if found and found[0].text == text else "name"
        literal = Literal(kind, text)
        self.items.append(
            Item(text, Section.FACTS, source, 0.0, (literal,), order, carried=True, bare=True)
        )

    def _carry_line(self, text: str, section: Section | None, source: Speaker, order: int) -> None:
        if source is Speaker.CARRIED and _TOOL_ITEM.match(text):
            source = Speaker.TOOL
        pieces = [text]
        if section is None:
            pieces = split_sentences(strip_bullet(text)[0])
        for piece in pieces:
            self._add(make_item(piece, order=order, source=source, section=section, carried=True))

    def add_messages(self, messages: Sequence[BaseMessage], first_order: int) -> None:
        """Collect what the messages say; system messages are not part of a conversation."""
        last = {speaker: i for i, message in enumerate(messages) if (speaker := _speaker(message))}
        for index, message in enumerate(messages):
            order = first_order + index
            self.tools.add(message, order)
            speaker = _speaker(message)
            if speaker:
                self._add_prose(message, speaker, order, is_last=last[speaker] == index)

    def _add_prose(
        self, message: BaseMessage, source: Speaker, order: int, *, is_last: bool
    ) -> None:
        text = prose(message_text(message))
        names = not capitalises_nouns(text)
        lines = list(split_lines(text))
        fences = sum(fenced for _, fenced in lines)
        logs = []
        first = len(self.items)
        for line, fenced in lines:
            if is_log_line(line) or (fenced and (fences > _SHORT_FENCE or len(line) > _MAX_FENCED)):
                logs.append(line)
                continue
            plain, box = strip_bullet(line)
            section = {"open": Section.OPEN, "done": Section.DONE}.get(box)
            for sentence in split_sentences(plain):
                self._add(
                    make_item(
                        sentence,
                        order=order,
                        source=source,
                        is_last=is_last,
                        section=section,
                        single_names=names,
                    )
                )
        for error in error_lines("\n".join(logs), strict=True, failed=False):
            self._add(make_item(error, order=order, source=source, section=Section.ERRORS))

        self._dilute(first)

    def _dilute(self, first: int) -> None:
        """Let the literals of a message that lists many of them count less each."""
        listed = sum(len(item.literals) for item in self.items[first:])
        if listed > _LISTING:
            dilution = (_LISTING / listed) ** 0.5
            self.items[first:] = [replace(item, dilution=dilution) for item in self.items[first:]]

    def _add(self, item: Item | None) -> None:
        if item:
            self.items.append(item)

    def finish(self, instruction: str | None, human_turns: int) -> list[Item]:
        """Return the items of the summary without closed ones, weighted by the instruction."""
        self._add_tool_facts()
        self._close_open_items(human_turns)
        items = _without_repeats(self.items)
        if instruction:
            wanted = terms(instruction)
            items = [replace(item, worth=_worth_for(item, wanted)) for item in items]
        return items

    def _add_tool_facts(self) -> None:
        files = self._carried_files
        for path, verbs in self.tools.files.items():
            files.setdefault(path, {}).update(verbs)
        for path, verbs in files.items():
            literal = (Literal("path", path),)
            worth = max(_FILE_WORTH.get(verb, 0.5) for verb in verbs)
            source = Speaker.ASSISTANT if worth > 1 else Speaker.TOOL
            text = f"{path} ({', '.join(sorted(verbs))})"
            self.items.append(
                Item(text, Section.FILES, source, worth, literal, -1, topic=terms(path))
            )
        for fact in [*self.tools.failures.values(), *self.tools.facts.values()]:
            item = make_item(fact.text, order=fact.order, source=Speaker.TOOL, section=fact.section)
            if item:
                worth = 0.5 if fact.section is Section.FACTS else item.worth * fact.worth
                self.items.append(replace(item, text=fact.text, worth=worth))

    def _close_open_items(self, human_turns: int) -> None:
        """Take items off the open list that a later message reports as done."""
        done = [(at, item) for at, item in enumerate(self.items) if _reports_done(item)]
        kept: list[Item] = []
        for at, item in enumerate(self.items):
            if item.section is not Section.OPEN:
                kept.append(item)
            elif any(
                _later(other, place, item, at) and _covers(other.topic, item.topic)
                for place, other in done
            ):
                continue
            elif item.carried and human_turns > 1 and not STRONG_OPEN.search(item.text):
                # The talk went on for turns: a plain question or wish of then was dealt with.
                worth = item.worth * _STALE_REQUEST
                kept.append(replace(item, section=Section.FACTS, worth=worth))
            else:
                kept.append(item)
        self.items = kept


def _speaker(message: BaseMessage) -> Speaker | None:
    return {"human": Speaker.USER, "ai": Speaker.ASSISTANT}.get(role_of(message))


def _reports_done(item: Item) -> bool:
    return item.section is Section.DONE or (not item.bare and is_done(item.text))


def _later(done: Item, place: int, item: Item, at: int) -> bool:
    """Return whether a report came after an item; a summary has no order of events of its own."""
    if done.carried:
        return False
    return item.carried or (done.order, place) > (item.order, at)


def _covers(done: frozenset[str], wanted: frozenset[str]) -> bool:
    shared = len(done & wanted)
    return bool(wanted) and shared >= min(2, len(wanted)) and shared >= _DONE_OVERLAP * len(wanted)


def _without_repeats(items: list[Item]) -> list[Item]:
    """Drop items that say the same words, the user's copy and then the earliest staying."""
    kept: dict[str, int] = {}
    result: list[Item | None] = []
    for item in items:
        key = " ".join(re.findall(r"\w+", item.text.lower()))
        at = kept.get(key)
        if at is None:
            kept[key] = len(result)
            result.append(item)
            continue
        before = result[at]
        if before and before.source is not Speaker.USER and item.source is Speaker.USER:
            result[at] = item
    return [item for item in result if item]


def _worth_for(item: Item, wanted: frozenset[str]) -> float:
    """Raise the worth of an item that shares words with the instruction."""
    return (item.worth + 2.0) * (1 + min(3, len(item.topic & wanted))) - 2.0
