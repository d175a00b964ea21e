"""Reading of messages into the sections of working notes: deterministic, each message once.

Decisions and goals that an agent notes by tools are read from the calls themselves: the tools only
answer. So they follow forks and edits like anything else that is read from messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.facts.call_kinds import CallKind, kind_of_command, path_of
from langchain_tokenmem.core.facts.failures import error_lines, failure_of
from langchain_tokenmem.core.facts.own_words import own_words
from langchain_tokenmem.core.facts.sentences import any_of, message_text, one_line
from langchain_tokenmem.core.messages import reference, result_ids, role_of
from langchain_tokenmem.core.todos import DONE, todos_in
from langchain_tokenmem.core.working_notes.decision_rules import (
    Decision,
    assumption_in,
    decision_in,
)
from langchain_tokenmem.core.working_notes.name_rules import (
    ASSUMPTIONS,
    SUBGOALS,
    listed_under,
    names_in,
    phase_in,
    topics_in,
)
from langchain_tokenmem.core.working_notes.pasted_text import without_pasted_text
from langchain_tokenmem.core.working_notes.sections import NotesDraft, find, key_of
from langchain_tokenmem.core.working_notes.sentence_rules import (
    MAX_ITEM,
    as_item,
    constraints_in,
    corrected_value,
    facts_in,
    note_sentences,
    objective_in,
    reported_problem,
    request_in,
)
from langchain_tokenmem.core.working_notes.tool_kinds import (
    ToolEffect,
    TurnMemorySettings,
    plain_path,
)
from langchain_tokenmem.state import ModesState, NoteItem

MAX_READ_TO = 8
"""Number of ids of read messages that are kept: edits and removals rarely affect all of them."""

RECORD_DECISION = "record_decision"
SET_GOAL = "set_goal"

_MOST_CHARACTERS = 400


def read_groups(
    state: ModesState,
    groups: Iterable[Sequence[BaseMessage]],
    settings: TurnMemorySettings,
    limits: Mapping[str, int],
) -> ModesState:
    """Return the state after reading the messages that are new to it.

    The sections of all modes are read, regardless of the current mode. Reading the same messages
    again changes nothing. Of a group that was read in part, only the new results are read.

    Args:
        state: The state so far; it is not changed.
        groups: Groups of the conversation, in their order; a message without an id is not read.
        settings: How calls and paths are read.
        limits: Items of a section that are kept at most, by its name.

    Returns:
        The state; the same object if no message was new.
    """
    draft = NotesDraft(state, settings, limits)
    new: list[str] = []
    for group, first_new in _unread(state["read_to"], list(groups)):
        for message in group[first_new:]:
            if message.id:
                new.append(message.id)
                _read_message(draft, message)
        _read_calls(draft, group, first_new)
    read_to = [*reversed(new), *state["read_to"]][:MAX_READ_TO]
    return {**draft.modes, "read_to": read_to} if new else state


def _unread(
    read_to: Sequence[str], groups: Sequence[Sequence[BaseMessage]]
) -> list[tuple[Sequence[BaseMessage], int]]:
    """Return the groups with new messages, each with the place of its first one.

    The search begins at the end, so that the work does not grow with the conversation.
    """
    read = set(read_to)
    unread: list[tuple[Sequence[BaseMessage], int]] = []
    for group in reversed(groups):
        place = next((at for at in reversed(range(len(group))) if group[at].id in read), None)
        first_new = 0 if place is None else place + 1
        if first_new < len(group):
            unread.append((group, first_new))
        if place is not None:
            break
    return unread[::-1]


def _read_message(draft: NotesDraft, message: BaseMessage) -> None:
    role, source = role_of(message), reference(message.id)
    if role == "human" and not result_ids(message):
        draft.modes["turn"] += 1
        text = without_pasted_text(own_words(message_text(message)))
        _read_user(draft, text, source)
    elif role == "ai":
        text = message_text(message)
        _read_choices(draft, [*note_sentences(text)], source, by_user=False)
        _read_names_again(draft, text, source)
    else:
        return
    _read_plan(draft, text, source)
    _read_named_files(draft, text, source)


# --- what is said

_ADDED: Mapping[str, Callable[[str], Iterable[tuple[str, str]]]] = {
    "constraints": constraints_in,
    "facts": facts_in,
}
"""Sections to which every sentence of a user may add, with the rule that yields text and key."""


def _read_user(draft: NotesDraft, text: str, source: str) -> None:
    sentences = list(note_sentences(text))
    is_opening = draft.modes["turn"] <= _OPENING
    task = request_in(sentences)
    if task is None and not draft.items("task"):
        task = reported_problem(sentences)
    if task and draft.replace("task", [task], source):
        draft.set_items("progress", [])
        if is_opening and not draft.items("objective") and not any(constraints_in(task)):
            draft.replace("objective", [task.rstrip(" .")], source)
    for sentence in sentences:
        if goal := objective_in(sentence):
            draft.replace("objective", [goal], source)
        if any(correction := corrected_value(sentence)):
            draft.correct(*correction)
        for section, rule in _ADDED.items():
            for found, key in rule(sentence):
                draft.add(section, draft.item(found, source, key=key))
    _read_choices(draft, sentences, source, by_user=True)
    _read_names(draft, "\n".join(sentences), source)
    _read_errors(draft, text, source)


_OPENING = 2
"""Turns in which a task tells what the session is for; a later one is a step."""
_READ = 6_000
"""Maximum characters of a message that are read for files and errors."""
_PASTED_ERRORS = 3
"""Maximum errors pasted by a user that are kept, the last ones of a message."""
_PASTED_TURNS = 5
"""Turns of the user for which they are kept: no call that succeeds shows that they are resolved."""


def _read_errors(draft: NotesDraft, text: str, source: str) -> None:
    """Read the errors that a user pastes, and drop earlier ones that nothing has resolved."""
    oldest = draft.modes["turn"] - _PASTED_TURNS
    known = draft.items("errors")
    draft.set_items("errors", [one for one in known if one["by"] == "tool" or one["turn"] > oldest])
    for line in list(dict.fromkeys(error_lines(text[-_READ:])))[-_PASTED_ERRORS:]:
        draft.add("errors", draft.item(line, source))


_REASON = re.compile(rf"{any_of('reason_heading')} ?: ?(.+)", re.IGNORECASE)
_REJECTED = re.compile(rf"{any_of('rejected_heading')} ?: ?(.+)", re.IGNORECASE)


def _read_choices(
    draft: NotesDraft, sentences: Sequence[str], source: str, *, by_user: bool
) -> None:
    """Read decisions and assumptions of any speaker."""
    decision: Decision | None = None
    for sentence in sentences:
        if text := assumption_in(sentence):
            draft.add("assumptions", draft.item(text, source))
        more = decision and _with_addition(decision, sentence)
        more = more or decision_in(sentence, by_user=by_user)
        if more is not None:
            decision = more
            draft.add_decision(decision, source)


def _with_addition(decision: Decision, sentence: str) -> Decision | None:
    """Return a decision with the reason, or the alternatives, that the next line gives for it."""
    if reason := _REASON.match(sentence):
        return replace(decision, rationale=as_item(reason[1]))
    if rejected := _REJECTED.match(sentence):
        parts = map(as_item, re.split(r"[;,]", rejected[1]))
        return replace(decision, rejected=tuple(filter(None, parts)))
    return None


def _read_plan(draft: NotesDraft, text: str, source: str) -> None:
    """Read sub-goals, the phase and assumptions where they are listed under their names."""
    if phase := phase_in(text):
        draft.replace("phase", [phase], source)
    for assumed in listed_under(ASSUMPTIONS, text):
        draft.add("assumptions", draft.item(assumed, source))
    goals = list(dict.fromkeys(listed_under(SUBGOALS, text)))[: draft.limits["subgoals"]]
    if goals:
        draft.replace("subgoals", goals, source)


_READ_FOR_NAMES = 4_000
"""Maximum characters of a message that are read for names."""
_OFTEN = {"entities": 2, "topics": 3}
"""Messages that say a name or a phrase before it is one of the section."""
_MOST_NAMES = 30
"""Names and phrases of one message that are counted."""
MAX_NAMES = 50
"""Names and phrases that are counted at once."""


def _read_names(draft: NotesDraft, text: str, source: str) -> None:
    """Count the names and phrases of the user; those said often enough are topics and entities."""
    text = text[:_READ_FOR_NAMES]
    for name in list(dict.fromkeys((*names_in(text), *topics_in(text))))[:_MOST_NAMES]:
        _count(draft, name, source)
    names = draft.modes["names"]
    while len(names) > MAX_NAMES:  # drop the rarest, of those the one mentioned longest ago
        names.pop(min(names, key=names.__getitem__))


def _read_names_again(draft: NotesDraft, text: str, source: str) -> None:
    """Count the names and phrases of the user that an assistant's message says again.

    New names come from the user only: an assistant's headings are full of capitals.
    """
    text = text[:_READ_FOR_NAMES]
    known = [*draft.modes["names"], *(one for section in _OFTEN for one in draft.texts(section))]
    for name in [name for name in known if name in text]:
        _count(draft, name, source)


def _count(draft: NotesDraft, name: str, source: str) -> None:
    """Count a name; said often enough, it takes the place of one that is said less often."""
    section = "entities" if name[:1].isupper() and name[1:2].islower() else "topics"
    items = list(draft.items(section))
    place = find(items, lambda one: one["text"] == name)
    if place is not None:
        items[place] = {**items[place], "count": items[place].get("count", 0) + 1}
        draft.set_items(section, items)
        return
    names, limit = draft.modes["names"], draft.limits[section]
    count = names.pop(name, 0) + 1
    if count >= _OFTEN[section] and limit:
        if len(items) >= limit:
            rarest = min(range(len(items)), key=lambda at: items[at].get("count", 0))
            if items[rarest].get("count", 0) > count:
                names[name] = count
                return
            del items[rarest]
        draft.set_items(section, [*items, {**draft.item(name, source), "count": count}])
    else:
        names[name] = count


# --- files, and what tools did

_FILE = re.compile(
    rf"(?<![\w/.:@~-])(?:~?/|\./)?(?:[\w@+-][\w.@+-]{{0,80}}/){{0,12}}[\w+-][\w.+-]{{0,80}}"
    rf"\.{any_of('extension')}(?![\w(/-])"
)
# "Node.js" is a product, `process.env` and `self.db` are attributes.
_NO_FILE = re.compile(r"[A-Z]\w*\.js|[\w.]+\.(?:env|db|lock|c|h)", re.ASCII)
_COMMAND_PARTS = re.compile(r"&&|\|\||[;|\n]")
_WRITTEN = re.compile(r"(?<![0-9&<>])>{1,2}\s*$")
_VERBS = {CallKind.READ: "read", CallKind.SEARCH: "read", CallKind.EDIT: "changed"}
_STRENGTH = {None: 0, "read": 1, "ran": 2, "changed": 3}
_NAMED_FILES = 10
"""Maximum files named in the text of one message that are kept."""
MAX_COMMAND = 120
"""Maximum characters of a command that is kept; longer ones are scripts, rarely run again."""
_MAX_CALL, _MAX_KEY = 120, 200
"""Characters of a call, and of the key by which it is known."""


def _read_named_files(draft: NotesDraft, text: str, source: str) -> None:
    """Add the files that a message names; those that were touched stay where they are."""
    named = dict.fromkeys(match[0] for match in _FILE.finditer(text[:_READ]))
    for name in [one for one in named if not _NO_FILE.fullmatch(one)][:_NAMED_FILES]:
        path = plain_path(name, draft.settings.project_root)
        if path and path not in draft.texts("files"):
            _add_file(draft, draft.item(path, source), None)


def _read_calls(draft: NotesDraft, group: Sequence[BaseMessage], first_new: int) -> None:
    """Read the calls of a group whose results are new."""
    ids, old = {message.id for message in group}, {message.id for message in group[:first_new]}

    def source_of(name: str) -> str:  # of several results in one message each has its own name
        return reference(name if name in ids else name.partition("~")[0])

    for effect in draft.settings.effects(group):
        own, call = effect.result.id, source_of(effect.call)
        if not own or own in old:
            continue
        _read_call(draft, effect, call, source_of(own))
        if effect.result.status != "error":
            if effect.tool == RECORD_DECISION:
                _note_decision(draft, effect, call)
            elif effect.tool == SET_GOAL:
                _note_goal(draft, effect, call)


def _note_decision(draft: NotesDraft, effect: ToolEffect, source: str) -> None:
    args, key = effect.args, f"call {effect.result.tool_call_id}"
    text = _line(args.get("decision"))
    if not text or key in map(key_of, draft.items("decisions")):
        return
    rejected = args.get("rejected") or []
    texts = map(_line, [rejected] if isinstance(rejected, str) else rejected)
    decision = Decision(text, _line(args.get("rationale")), tuple(filter(None, texts)))
    draft.add_decision(decision, source, "model", key)


def _note_goal(draft: NotesDraft, effect: ToolEffect, source: str) -> None:
    text, key = _line(effect.args.get("goal")), f"call {effect.result.tool_call_id}"
    if text and key not in map(key_of, draft.items("objective")):
        draft.set_items("objective", [draft.item(text, source, "model", key)])


def _line(value: object) -> str:
    """Return a text on one line, of at most 400 characters; empty for anything else."""
    return " ".join(value.split())[:_MOST_CHARACTERS] if isinstance(value, str) else ""


def _read_call(draft: NotesDraft, effect: ToolEffect, source: str, result: str) -> None:
    """Read one call with its result: files, errors, progress.

    Args:
        draft: The sections.
        effect: The effect of the call.
        source: Reference of the message that made the call.
        result: Reference of its result.
    """
    failure = failure_of(effect.result, effect.kind)
    call_name, key = _call_name(effect)
    if failure is None or effect.command:
        _touch_files(draft, effect, source, failed=failure is not None)
    if failure is not None:
        draft.put_last("errors", draft.item(f"{call_name} → {failure}", result, "tool", key))
        return
    _add_command(draft, effect, source)
    _resolve(draft, key, call_name, result)
    _read_todos(draft, effect.args, source)


def _call_name(effect: ToolEffect) -> tuple[str, str]:
    """Return a call on one line, and the key that identifies it when it is repeated.

    A command is identified by its first part before a pipe, a call about a file by tool and file,
    any other by tool and arguments.
    """
    if effect.command:
        key = effect.command.partition(" | ")[0].replace("2>&1", "").strip()
        return one_line(effect.command, _MAX_CALL), f"{effect.tool}: {key}"[:_MAX_KEY]
    path = path_of(effect.args)
    about = path or json.dumps(effect.args, ensure_ascii=False, default=str, sort_keys=True)
    call_name = one_line(f"{effect.tool} {about}" if effect.args else effect.tool, _MAX_CALL)
    return call_name, one_line(f"{effect.tool}: {about}", _MAX_KEY)


def _add_command(draft: NotesDraft, effect: ToolEffect, source: str) -> None:
    """Put a command at the end: short ones are run again; those of several lines are scripts."""
    command = effect.command
    is_script = any(isinstance(one, str) and "\n" in one.strip() for one in effect.args.values())
    if command and not is_script and len(command) <= MAX_COMMAND:
        draft.put_last("commands", draft.item(command, source, "tool"))


def _resolve(draft: NotesDraft, key: str, call_name: str, source: str) -> None:
    """Remove the error of a call that succeeds now; that is progress."""
    rest = [one for one in draft.items("errors") if one.get("key") != key]
    if len(rest) < len(draft.items("errors")):
        draft.set_items("errors", rest)
        _add_progress(draft, f"Fixed: {call_name}", source)


def _add_progress(draft: NotesDraft, text: str, source: str) -> None:
    draft.add("progress", draft.item(one_line(text, MAX_ITEM), source, "tool"))


def _touch_files(draft: NotesDraft, effect: ToolEffect, source: str, *, failed: bool) -> None:
    touched: dict[str, str] = {}
    for path, verb in (
        *((path, "read") for path in effect.read),
        *_files_of_command(effect.command or "", draft.settings.project_root),
        *((path, "changed") for path in effect.changed),
    ):
        if path.strip("/.") and (verb == "ran" or not failed):
            touched[path] = max(verb, touched.get(path, verb), key=_STRENGTH.__getitem__)
    for path, verb in touched.items():
        _add_file(draft, draft.item(path, source, "tool"), verb)


def _files_of_command(command: str, root: str | None) -> Iterator[tuple[str, str]]:
    """Yield the files that a command names, each with what it does to it."""
    for part in _COMMAND_PARTS.split(command.partition("<<")[0]):
        verb = _VERBS.get(kind_of_command(part.strip().partition(">")[0]), "ran")
        for match in _FILE.finditer(part):
            if path := plain_path(match[0], root):
                yield path, "changed" if _WRITTEN.search(part[: match.start()]) else verb


def _add_file(draft: NotesDraft, item: NoteItem, verb: str | None) -> None:
    """Put a file at the end; if there are too many, drop the oldest that was only read."""
    items = list(draft.items("files"))
    place = find(items, lambda one: one["text"] == item["text"])
    before = items.pop(place) if place is not None else None
    strongest = max(verb, before.get("verb") if before else None, key=_STRENGTH.__getitem__)
    if strongest:
        item["verb"] = strongest
    items.append(item)
    while len(items) > draft.limits["files"]:
        only_read = find(items, lambda one: _STRENGTH[one.get("verb")] <= _STRENGTH["read"])
        del items[only_read or 0]
    draft.set_items("files", items)


def _read_todos(draft: NotesDraft, args: Mapping[str, object], source: str) -> None:
    """Read a list of to-dos: what is done is progress, the rest are sub-goals."""
    todos = next(filter(None, map(todos_in, args.values())), None)
    if todos is None:
        return
    for text, status in todos:
        if status in DONE:
            _add_progress(draft, text, source)
    pending = [one_line(text, MAX_ITEM) for text, status in todos if status not in DONE]
    draft.replace("subgoals", pending[: draft.limits["subgoals"]], source, "tool")
