"""Notes that an agent writes by tools: decisions and its goal, read from the calls themselves.

The tools only answer. What they note stands in the calls, so it follows forks and edits like
anything else that is read from messages, and needs no channel of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from langchain_core.messages import AIMessage, ToolCall, ToolMessage

from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.core.working_notes.reading import NumberedGroup
from langchain_tokenmem.notes_state import ModesState, NoteItem

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
    for group in groups:
        for call, number in _answered_calls(group):
            if call["name"] == RECORD_DECISION:
                modes = _with_decision(modes, call, number, limits)
            elif call["name"] == SET_GOAL:
                modes = _with_goal(modes, call, number)
    return modes


def _answered_calls(group: NumberedGroup) -> Iterator[tuple[ToolCall, int]]:
    """Yield the calls of these tools that were carried out."""
    results = [message for message, _ in group if isinstance(message, ToolMessage)]
    done = {result.tool_call_id for result in results if result.status != "error"}
    for message, number in group:
        if role_of(message) == "ai" and isinstance(message, AIMessage):
            for call in message.tool_calls:
                if call["name"] in {RECORD_DECISION, SET_GOAL} and call["id"] in done:
                    yield call, number


def _with_decision(
    modes: ModesState, call: ToolCall, number: int, limits: ModeProfile
) -> ModesState:
    decisions, text = modes["sections"].get("decisions", []), _line(call["args"].get("decision"))
    key = f"call {call['id']}"
    if not text or any(item.get("key") == key for item in decisions):
        return modes
    item = _item(modes, text, number)
    item |= {"key": key, "number": modes["next_number"]}
    if rationale := _line(call["args"].get("rationale")):
        item["rationale"] = rationale
    rejected = call["args"].get("rejected") or []
    texts = [_line(one) for one in ([rejected] if isinstance(rejected, str) else rejected)]
    if texts := [one for one in texts if one]:
        item["rejected"] = texts[: limits.max_alternatives]
    kept = [*decisions, item][-limits.max_decisions :] if limits.max_decisions else []
    modes = {**modes, "next_number": modes["next_number"] + 1}
    return _with_section(modes, "decisions", kept)


def _with_goal(modes: ModesState, call: ToolCall, number: int) -> ModesState:
    text, key = _line(call["args"].get("goal")), f"call {call['id']}"
    known = modes["sections"].get("objective", [])
    is_older = bool(known) and known[-1]["source"] > number
    if not text or is_older or any(item.get("key") == key for item in known):
        return modes
    return _with_section(modes, "objective", [{**_item(modes, text, number), "key": key}])


def _item(modes: ModesState, text: str, number: int) -> NoteItem:
    return {"text": text, "turn": modes["turn"], "source": number, "by": "model"}


def _with_section(modes: ModesState, name: str, items: list[NoteItem]) -> ModesState:
    sections = {**modes["sections"], name: items}
    return {**modes, "sections": sections, "changed": {**modes["changed"], name: modes["turn"]}}


def _line(value: object) -> str:
    """Return a text on one line, of at most 400 characters; empty for anything else."""
    return " ".join(value.split())[:_MOST_CHARACTERS] if isinstance(value, str) else ""
