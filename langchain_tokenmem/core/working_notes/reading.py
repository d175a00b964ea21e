"""Reading of messages into the sections of working notes: deterministic, each message once.

Decisions and goals that an agent notes by tools are read from the calls themselves: the tools only
answer. So they follow forks and edits like anything else that is read from messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

from langchain_tokenmem.core.facts.sentences import message_text
from langchain_tokenmem.core.messages import result_ids, role_of
from langchain_tokenmem.core.working_notes.code_sections import (
    read_call,
    read_named_files,
    read_pasted_errors,
    read_task,
)
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
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
from langchain_tokenmem.core.working_notes.tool_kinds import ToolKinds, effects_of
from langchain_tokenmem.core.working_notes.word_rules import may_choose, note_sentences
from langchain_tokenmem.notes_state import ModesState

NumberedGroup = Sequence[tuple[BaseMessage, int]]
"""One group of `core.messages.groups`, each message with its number; 0 where it is not known."""

MAX_READ_TO = 8
"""Ids of read messages that are kept: edits and removals rarely take all of them."""

RECORD_DECISION = "record_decision"
SET_GOAL = "set_goal"

_MOST_CHARACTERS = 400


def read_groups(
    state: ModesState,
    groups: Iterable[NumberedGroup],
    *,
    tools: ToolKinds,
    project_root: str | None,
    limits: ModeProfile,
) -> ModesState:
    """Return the state after the messages that it has not read yet.

    The sections of all modes are read, whichever mode is on. Reading the same messages again
    changes nothing. Of a group that was read in part, the results that came since are read.

    Args:
        state: The state so far; it is not changed.
        groups: Groups of the conversation, in their order; a message without an id is not read.
        tools: Which tools write files, run commands or only read.
        project_root: Folder that paths are relative to; None where none is known.
        limits: The profile whose limits hold.

    Returns:
        The state; the same object where no message was new.
    """
    unread = _unread(state["read_to"], list(groups))
    if not unread:
        return state
    draft = NotesDraft(state, limits)
    new: list[str] = []
    for group, first_new in unread:
        for message, number in group[first_new:]:
            if message.id:
                new.append(message.id)
                _read_message(draft, message, number, project_root)
        if len(group) > 1:
            _read_calls(draft, group, first_new, tools, project_root)
    read_to = [*reversed(new), *state["read_to"]][:MAX_READ_TO]
    return {**draft.modes, "read_to": read_to} if new else state


def _unread(
    read_to: Sequence[str], groups: Sequence[NumberedGroup]
) -> list[tuple[NumberedGroup, int]]:
    """Return the groups with new messages, each with the place of its first one.

    They are looked for from the end, so that the work does not grow with the conversation.
    """
    read = set(read_to)
    unread: list[tuple[NumberedGroup, int]] = []
    for group in reversed(groups):
        place = next((at for at in reversed(range(len(group))) if group[at][0].id in read), None)
        first_new = 0 if place is None else place + 1
        if first_new < len(group):
            unread.append((group, first_new))
        if place is not None:
            break
    return unread[::-1]


def _read_message(draft: NotesDraft, message: BaseMessage, number: int, root: str | None) -> None:
    role = role_of(message)
    if role == "human" and not result_ids(message):
        draft.modes["turn"] += 1
        text = message_text(message)
        _read_user(draft, text, number)
    elif role == "ai":
        text = message_text(message)
        if may_choose(text):
            read_choices(draft, [*note_sentences(text)], number, by_user=False)
        read_names_again(draft, text, number)
    else:
        return
    read_plan(draft, text, number)
    read_named_files(draft, text, number, root)


def _read_user(draft: NotesDraft, text: str, number: int) -> None:
    sentences = list(note_sentences(text))
    task = read_task(draft, sentences, number)
    if task and not draft.items("objective"):
        set_objective(draft, task.rstrip(" ."), number)
    read_user_words(draft, sentences, number)
    read_choices(draft, sentences, number, by_user=True)
    read_facts(draft, sentences, number)
    read_names(draft, sentences, number)
    read_pasted_errors(draft, text, number)


def _read_calls(
    draft: NotesDraft, group: NumberedGroup, first_new: int, tools: ToolKinds, root: str | None
) -> None:
    """Read the calls of a group whose results are new."""
    old = {message.id for message, _ in group[:first_new]}
    numbers = {message.id or "": number for message, number in group}
    for effect in effects_of([message for message, _ in group], tools, root):
        own = effect.result.id
        if own and own not in old:
            source = numbers.get(own, numbers.get(own.partition("~")[0], 0))
            read_call(draft, effect, (numbers.get(effect.call, 0), source), root)


def with_agent_notes(
    modes: ModesState, groups: Iterable[NumberedGroup], limits: ModeProfile
) -> ModesState:
    """Return the sections with what an agent has noted by its tools; each call counts once.

    Args:
        modes: The sections, in which everything else of these messages is read.
        groups: Groups of the conversation, each message with its number.
        limits: The profile whose limits hold.
    """
    calls = [one for group in groups for one in _answered_calls(group)]
    if not calls:
        return modes
    draft = NotesDraft(modes, limits)
    for call, number in calls:
        if call["name"] == RECORD_DECISION:
            _note_decision(draft, call, number)
        else:
            _note_goal(draft, call, number)
    return draft.modes


def _answered_calls(group: NumberedGroup) -> Iterator[tuple[ToolCall, int]]:
    """Yield the calls of these tools that were carried out."""
    results = [message for message, _ in group if isinstance(message, ToolMessage)]
    done = {result.tool_call_id for result in results if result.status != "error"}
    for message, number in group:
        if role_of(message) == "ai" and isinstance(message, AIMessage):
            for call in message.tool_calls:
                if call["name"] in {RECORD_DECISION, SET_GOAL} and call["id"] in done:
                    yield call, number


def _note_decision(draft: NotesDraft, call: ToolCall, number: int) -> None:
    args, key = call["args"], f"call {call['id']}"
    text, rationale = _line(args.get("decision")), _line(args.get("rationale"))
    if not text or any(item.get("key") == key for item in draft.items("decisions")):
        return
    rejected = args.get("rejected") or []
    texts = map(_line, [rejected] if isinstance(rejected, str) else rejected)
    item = draft.decided(draft.item(text, number, "model"), rationale, [*filter(None, texts)])
    draft.add_decision({**item, "key": key})


def _note_goal(draft: NotesDraft, call: ToolCall, number: int) -> None:
    text, key = _line(call["args"].get("goal")), f"call {call['id']}"
    known = draft.items("objective")
    is_older = bool(known) and known[-1]["source"] > number
    if text and not is_older and all(item.get("key") != key for item in known):
        draft.set_items("objective", [{**draft.item(text, number, "model"), "key": key}])


def _line(value: object) -> str:
    """Return a text on one line, of at most 400 characters; empty for anything else."""
    return " ".join(value.split())[:_MOST_CHARACTERS] if isinstance(value, str) else ""
