"""Notes that an agent writes by tools: decisions and its goal, read from the calls themselves.

The tools only answer. What they note stands in the calls, so it follows forks and edits like
anything else that is read from messages, and needs no channel of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from langchain_core.messages import AIMessage, ToolCall, ToolMessage

from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.core.working_notes.notes_draft import NotesDraft
from langchain_tokenmem.core.working_notes.reading import NumberedGroup
from langchain_tokenmem.notes_state import ModesState

RECORD_DECISION = "record_decision"
SET_GOAL = "set_goal"

_MOST_CHARACTERS = 400


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
