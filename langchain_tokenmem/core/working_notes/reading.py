"""Reading of messages into the sections of working notes: deterministic, each message once.

Decisions and goals that an agent notes by tools are read from the calls themselves: the tools only
answer. So they follow forks and edits like anything else that is read from messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.facts.sentences import message_text
from langchain_tokenmem.core.messages import reference, result_ids, role_of
from langchain_tokenmem.core.working_notes.code_sections import (
    read_call,
    read_named_files,
    read_pasted_errors,
    read_task,
)
from langchain_tokenmem.core.working_notes.notes_draft import NotesDraft
from langchain_tokenmem.core.working_notes.talk_sections import (
    read_choices,
    read_facts,
    read_names,
    read_names_again,
    read_plan,
    read_user_words,
    set_objective,
)
from langchain_tokenmem.core.working_notes.tool_kinds import ToolEffect, ToolKinds, effects_of
from langchain_tokenmem.core.working_notes.word_rules import may_choose, note_sentences
from langchain_tokenmem.notes_state import ModesState

MAX_READ_TO = 8
"""Ids of read messages that are kept: edits and removals rarely take all of them."""

RECORD_DECISION = "record_decision"
SET_GOAL = "set_goal"

_MOST_CHARACTERS = 400


def read_groups(
    state: ModesState,
    groups: Iterable[Sequence[BaseMessage]],
    *,
    tools: ToolKinds,
    project_root: str | None,
    limits: Mapping[str, int],
) -> ModesState:
    """Return the state after the messages that it has not read yet.

    The sections of all modes are read, whichever mode is on. Reading the same messages again
    changes nothing. Of a group that was read in part, the results that came since are read.

    Args:
        state: The state so far; it is not changed.
        groups: Groups of the conversation, in their order; a message without an id is not read.
        tools: Which tools write files, run commands or only read.
        project_root: Folder that paths are relative to; None where none is known.
        limits: Items of a section that are kept at most, by its name.

    Returns:
        The state; the same object where no message was new.
    """
    unread = _unread(state["read_to"], list(groups))
    if not unread:
        return state
    draft = NotesDraft(state, limits)
    new: list[str] = []
    for group, first_new in unread:
        for message in group[first_new:]:
            if message.id:
                new.append(message.id)
                _read_message(draft, message, project_root)
        if len(group) > 1:
            _read_calls(draft, group, first_new, tools, project_root)
    read_to = [*reversed(new), *state["read_to"]][:MAX_READ_TO]
    return {**draft.modes, "read_to": read_to} if new else state


def _unread(
    read_to: Sequence[str], groups: Sequence[Sequence[BaseMessage]]
) -> list[tuple[Sequence[BaseMessage], int]]:
    """Return the groups with new messages, each with the place of its first one.

    They are looked for from the end, so that the work does not grow with the conversation.
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


def _read_message(draft: NotesDraft, message: BaseMessage, root: str | None) -> None:
    role, source = role_of(message), reference(message.id)
    if role == "human" and not result_ids(message):
        draft.modes["turn"] += 1
        text = message_text(message)
        _read_user(draft, text, source)
    elif role == "ai":
        text = message_text(message)
        if may_choose(text):
            read_choices(draft, [*note_sentences(text)], source, by_user=False)
        read_names_again(draft, text, source)
    else:
        return
    read_plan(draft, text, source)
    read_named_files(draft, text, source, root)


def _read_user(draft: NotesDraft, text: str, source: str) -> None:
    sentences = list(note_sentences(text))
    task = read_task(draft, sentences, source)
    if task and not draft.items("objective"):
        set_objective(draft, task.rstrip(" ."), source)
    read_user_words(draft, sentences, source)
    read_choices(draft, sentences, source, by_user=True)
    read_facts(draft, sentences, source)
    read_names(draft, sentences, source)
    read_pasted_errors(draft, text, source)


def _read_calls(
    draft: NotesDraft,
    group: Sequence[BaseMessage],
    first_new: int,
    tools: ToolKinds,
    root: str | None,
) -> None:
    """Read the calls of a group whose results are new."""
    ids, old = {message.id for message in group}, {message.id for message in group[:first_new]}

    def source_of(name: str) -> str:  # of several results in one message each has its own name
        return reference(name if name in ids else name.partition("~")[0])

    for effect in effects_of(group, tools, root):
        own, call = effect.result.id, source_of(effect.call)
        if not own or own in old:
            continue
        read_call(draft, effect, (call, source_of(own)), root)
        if effect.result.status != "error":
            if effect.tool == RECORD_DECISION:
                _note_decision(draft, effect, call)
            elif effect.tool == SET_GOAL:
                _note_goal(draft, effect, call)


def _note_decision(draft: NotesDraft, effect: ToolEffect, source: str) -> None:
    args, key = effect.args, f"call {effect.result.tool_call_id}"
    text, rationale = _line(args.get("decision")), _line(args.get("rationale"))
    if not text or any(item.get("key") == key for item in draft.items("decisions")):
        return
    rejected = args.get("rejected") or []
    texts = map(_line, [rejected] if isinstance(rejected, str) else rejected)
    item = draft.decided(draft.item(text, source, "model"), rationale, [*filter(None, texts)])
    draft.add_decision({**item, "key": key})


def _note_goal(draft: NotesDraft, effect: ToolEffect, source: str) -> None:
    text, key = _line(effect.args.get("goal")), f"call {effect.result.tool_call_id}"
    if text and all(item.get("key") != key for item in draft.items("objective")):
        draft.set_items("objective", [{**draft.item(text, source, "model"), "key": key}])


def _line(value: object) -> str:
    """Return a text on one line, of at most 400 characters; empty for anything else."""
    return " ".join(value.split())[:_MOST_CHARACTERS] if isinstance(value, str) else ""
