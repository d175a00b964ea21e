"""Collection of summary items from the earlier summary and the new messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from langchain_core.messages import BaseMessage

from langchain_tokenmem.summarize.extractive.classification import is_done
from langchain_tokenmem.summarize.extractive.items import Item, Speaker, make_item
from langchain_tokenmem.summarize.extractive.literals import (
    Literal,
    capitalises_nouns,
    find_literals,
)
from langchain_tokenmem.summarize.extractive.sections import Line, Section, parse_summary
from langchain_tokenmem.summarize.extractive.sentences import (
    LOG_LINE,
    message_text,
    prose,
    split_sentences,
    strip_bullet,
    terms,
)
from langchain_tokenmem.summarize.extractive.tool_facts import ToolLog, error_lines
from langchain_tokenmem.summarize.extractive.vocabulary import STRONG_OPEN

_SHORT_FENCE = 3
_MAX_FENCED = 200
_DONE_OVERLAP = 0.5
_FILE_ITEM = re.compile(r"(\S{1,220}) \(((?:changed|read|ran)(?:, (?:changed|read|ran))*)\)")
_TOOL_ITEM = re.compile(r"[\w.-]{1,60}\([^→]{0,140}\)(?: →|$)")
_FILE_WORTH = {"changed": 4.0, "ran": 1.5, "read": 0.5}
_LISTING = 8
_STALE_REQUEST = 0.4
_SPEAKERS = {
    **dict.fromkeys(("human", "user", "humanmessagechunk"), Speaker.USER),
    **dict.fromkeys(("ai", "assistant", "aimessagechunk"), Speaker.ASSISTANT),
}


def collect_items(
    messages: Sequence[BaseMessage], prior: str | None, instruction: str | None
) -> list[Item]:
    """Return the items of a summary in the order of the conversation, without closed ones.

    Args:
        messages: The new messages; system messages are not part of a conversation.
        prior: The earlier summary; one that a chat model wrote counts line by line.
        instruction: Words that raise the worth of the items that share them.
    """
    tools = ToolLog()
    items: list[Item] = []
    for order, line in enumerate(parse_summary(prior or "")):
        if line.section is Section.FILES and (file := _FILE_ITEM.fullmatch(line.text)):
            tools.files[file[1]] = set(file[2].split(", "))
        else:
            items += _carried_items(line, order)
    speakers = [_SPEAKERS.get(getattr(one, "role", one.type).lower()) for one in messages]
    last = {speaker: at for at, speaker in enumerate(speakers)}
    first_order = len(items)
    for at, (message, speaker) in enumerate(zip(messages, speakers, strict=True)):
        tools.add(message, first_order + at)
        if speaker:
            items += _prose_items(message, speaker, first_order + at, is_last=last[speaker] == at)
    items += [_file_item(path, verbs) for path, verbs in tools.files.items()]
    items += filter(None, [*tools.failures.values(), *tools.facts.values()])
    human_turns = sum(message.type == "human" for message in messages)
    items = _without_repeats(_without_closed(items, has_gone_on=human_turns > 1))
    if not instruction:
        return items
    wanted = terms(instruction)
    return [replace(item, worth=_worth_for(item, wanted)) for item in items]


def _carried_items(line: Line, order: int) -> list[Item]:
    """Return the items of one line of an earlier summary, as they stand there."""
    source = Speaker.USER if line.by_user else Speaker.CARRIED
    if line.bare:
        found = find_literals(line.text)
        kind = found[0].kind if found and found[0].text == line.text else "name"
        literals = (Literal(kind, line.text),)
        facts = Section.FACTS
        return [Item(line.text, facts, source, 0.0, literals, order, carried=True, bare=True)]
    if not line.by_user and _TOOL_ITEM.match(line.text):
        source = Speaker.TOOL
    pieces = [line.text] if line.section else split_sentences(strip_bullet(line.text)[0])
    make = partial(make_item, order=order, source=source, section=line.section, carried=True)
    return list(filter(None, map(make, pieces)))


def _prose_items(message: BaseMessage, source: Speaker, order: int, *, is_last: bool) -> list[Item]:
    """Return the items of a message of the user or the model, those of its logs last."""
    text = prose(message_text(message))
    single_names = not capitalises_nouns(text)
    plain, logs = _split_lines(text)
    make = partial(make_item, order=order, source=source)
    made = []
    for line in plain:
        bare, box = strip_bullet(line)
        section = None if not box else Section.OPEN if box == " " else Section.DONE
        made += [
            make(sentence, is_last=is_last, section=section, single_names=single_names)
            for sentence in split_sentences(bare)
        ]
    errors = error_lines("\n".join(logs), strict=True, failed=False)
    made += [make(error, section=Section.ERRORS) for error in errors]
    items = [item for item in made if item]
    listed = sum(len(item.literals) for item in items)
    if listed <= _LISTING:
        return items
    # The literals of a message that lists many of them count less each.
    return [replace(item, dilution=(_LISTING / listed) ** 0.5) for item in items]


def _split_lines(text: str) -> tuple[list[str], list[str]]:
    """Return the lines of prose, and those of logs and of source code in fences."""
    lines: list[tuple[str, bool]] = []
    is_fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            is_fenced = not is_fenced
        elif line.strip():
            lines.append((line, is_fenced))
    is_code = sum(fenced for _, fenced in lines) > _SHORT_FENCE
    split: tuple[list[str], list[str]] = ([], [])
    for line, fenced in lines:
        is_raw = fenced and (is_code or len(line) > _MAX_FENCED)
        split[is_raw or bool(LOG_LINE.match(line))].append(line)
    return split


def _file_item(path: str, verbs: set[str]) -> Item:
    worth = max(_FILE_WORTH[verb] for verb in verbs)
    source = Speaker.ASSISTANT if worth > 1 else Speaker.TOOL
    text = f"{path} ({', '.join(sorted(verbs))})"
    literals = (Literal("path", path),)
    return Item(text, Section.FILES, source, worth, literals, -1, topic=terms(path))


def _without_closed(items: list[Item], *, has_gone_on: bool) -> list[Item]:
    """Take items off the open list that a later message reports as done.

    Args:
        items: The items.
        has_gone_on: Whether the conversation went on for turns: a plain question or wish of an
            earlier summary was dealt with and becomes a fact.
    """
    # An earlier summary has no order of events of its own: what it reports closes nothing.
    reports = [(item.order, at, item.topic) for at, item in enumerate(items) if _reports_done(item)]
    kept: list[Item] = []
    for at, item in enumerate(items):
        if item.section is Section.OPEN:
            if any(
                (item.carried or (order, place) > (item.order, at)) and _covers(topic, item.topic)
                for order, place, topic in reports
            ):
                continue
            if item.carried and has_gone_on and not STRONG_OPEN.search(item.text):
                worth = item.worth * _STALE_REQUEST
                item = replace(item, section=Section.FACTS, worth=worth)  # noqa: PLW2901
        kept.append(item)
    return kept


def _reports_done(item: Item) -> bool:
    return not item.carried and (item.section is Section.DONE or is_done(item.text))


def _covers(report: frozenset[str], wanted: frozenset[str]) -> bool:
    shared = len(report & wanted)
    return bool(wanted) and shared >= min(2, len(wanted)) and shared >= _DONE_OVERLAP * len(wanted)


def _without_repeats(items: list[Item]) -> list[Item]:
    """Drop items that say the same words, the user's copy and then the earliest staying."""
    kept: dict[str, Item] = {}
    for item in items:
        key = " ".join(re.findall(r"\w+", item.text.lower()))
        if key not in kept or (item.by_user and not kept[key].by_user):
            kept[key] = item
    return list(kept.values())


def _worth_for(item: Item, wanted: frozenset[str]) -> float:
    """Raise the worth of an item that shares words with the instruction."""
    return (item.worth + 2.0) * (1 + min(3, len(item.topic & wanted))) - 2.0
