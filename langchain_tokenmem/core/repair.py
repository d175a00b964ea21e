"""Repair of broken histories: unanswered calls, orphaned results, repeated ids.

The transcript stays as it is; only the view is repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
)

from langchain_tokenmem.core.messages import (
    Group,
    call_ids,
    is_blank_block,
    is_reasoning_block,
    result_id,
    role_of,
)

Dangling = Literal["answer", "drop"]
"""Treatment of a tool call without a result: it is answered as interrupted, or its whole group is
left out of the view."""

INTERRUPTED = "[interrupted: no result of this tool call was recorded]"
FIRST_HUMAN_MESSAGE = HumanMessage("[The conversation begins with the assistant.]", id="tm-opening")
"""First message where no human message comes first: Gemini, Anthropic and strict templates refuse
a list that begins with the assistant."""


@dataclass(frozen=True, slots=True)
class RepairedGroup:
    """A group as a provider accepts it.

    Attributes:
        source: The group as it stands in the transcript.
        messages: The messages that are shown; empty when none of them may be shown.
    """

    source: Group
    messages: tuple[BaseMessage, ...]


def repair_groups(
    found: Iterable[Group], *, dangling: Dangling = "answer", used: set[str] | None = None
) -> tuple[list[RepairedGroup], list[str]]:
    """Return the groups in the form that providers accept, and a note for each repair.

    A group without fault comes back with the very same messages.

    Args:
        found: Groups in order, from `groups`.
        dangling: Treatment of calls without a result.
        used: Ids of earlier tool calls; those of `found` are added to it.

    Returns:
        The repaired groups, one for each group, and the notes.
    """
    used = set() if used is None else used
    notes: list[str] = []
    repaired = [
        RepairedGroup(group, _repair_group(group, used, notes, dangling)) for group in found
    ]
    return repaired, notes


def _repair_group(
    group: Group, used: set[str], notes: list[str], dangling: Dangling
) -> tuple[BaseMessage, ...]:
    first = group.messages[0]
    if len(group.messages) == 1 and role_of(first) == "human":
        return group.messages
    shown: list[BaseMessage] = []
    others: list[BaseMessage] = []
    results = _first_results(group, notes)
    for message in group.messages:
        role = role_of(message)
        if role == "ai":
            shown += _repair_call(message, results, used, notes, dangling)
        elif role == "tool" and result_id(message) is None and shown:
            shown.append(message)  # a legacy function result; `groups` put it behind its call
        elif role == "human":
            others.append(message)
        elif role == "tool" and result_id(message) is None:
            notes.append(f"Function result {message.id} has no call; left out of the view.")
    notes += [
        f"Tool result {message.id} has no call; left out of the view."
        for message in results.values()
    ]
    return _unchanged_or(group, (*shown, *others))


def _unchanged_or(group: Group, shown: tuple[BaseMessage, ...]) -> tuple[BaseMessage, ...]:
    same = len(shown) == len(group.messages) and all(
        one is other for one, other in zip(shown, group.messages, strict=True)
    )
    return group.messages if same else shown


def _first_results(group: Group, notes: list[str]) -> dict[str, BaseMessage]:
    results: dict[str, BaseMessage] = {}
    for message in group.messages:
        key = result_id(message)
        if key is None:
            continue
        if key in results:
            notes.append(f"Tool call {key} has a second result, {message.id}; left out.")
            continue
        results[key] = message
    return results


def _repair_call(
    message: BaseMessage,
    results: dict[str, BaseMessage],
    used: set[str],
    notes: list[str],
    dangling: Dangling,
) -> list[BaseMessage]:
    """Return an AI message followed by the results of its calls, taking them from `results`."""
    if not isinstance(message, AIMessage) or not _has_calls(message):
        if has_no_content(message):
            notes.append(f"Assistant message {message.id} says nothing; left out of the view.")
            return []
        return [message]
    repaired = _without_repeated_calls(message, notes)
    if not _has_calls(repaired) and has_no_content(repaired):
        return []
    keys = call_ids(repaired)
    answers: list[BaseMessage | None] = [results.pop(key, None) for key in keys]
    if dangling == "drop" and None in answers:
        notes.append(f"Assistant message {message.id} has open tool calls; left out of the view.")
        return []
    if None in answers:
        notes.append(f"Tool calls of {message.id} have no result; answered as interrupted.")
    full = [
        answer or _interrupted_result(repaired, key)
        for key, answer in zip(keys, answers, strict=True)
    ]
    reused = {key: _unused_call_id(key, used) for key in keys if key in used}
    used.update(reused.get(key, key) for key in keys)
    if not reused:
        return [repaired, *full]
    notes.append(f"Tool call ids of {message.id} were used before; renamed in the view.")
    renamed = [
        answer.model_copy(update={"tool_call_id": reused.get(key, key)})
        for key, answer in zip(keys, full, strict=True)
    ]
    return [_with_call_ids(repaired, reused), *renamed]


def _has_calls(message: AIMessage) -> bool:
    return bool(message.tool_calls or message.invalid_tool_calls)


def has_no_content(message: BaseMessage) -> bool:
    """Return whether a message has neither text nor another visible part."""
    if message.additional_kwargs.get("function_call"):
        return False
    if isinstance(message.content, str):
        return not message.content.strip()
    return all(
        is_blank_block(block) or is_reasoning_block(block) or not isinstance(block, (str, dict))
        for block in message.content
    )


def _interrupted_result(message: AIMessage, key: str) -> ToolMessage:
    names = {call["id"]: call["name"] for call in message.tool_calls}
    return ToolMessage(
        INTERRUPTED,
        tool_call_id=key,
        name=names.get(key),
        status="error",
        id=f"{message.id}~{key}",
    )


def _without_repeated_calls(message: AIMessage, notes: list[str]) -> AIMessage:
    """Return the message with one call for each id; a call without id cannot be answered."""
    valid = list({call["id"]: call for call in message.tool_calls if call["id"]}.values())
    known = {call["id"] for call in valid}
    invalid: list[InvalidToolCall] = [
        call for call in message.invalid_tool_calls if call["id"] and call["id"] not in known
    ]
    if len(valid) == len(message.tool_calls) and len(invalid) == len(message.invalid_tool_calls):
        return message
    notes.append(f"Tool calls of {message.id} repeat an id or have none; left out of the view.")
    return with_calls(message, valid, invalid)


def with_calls(
    message: AIMessage, calls: Sequence[ToolCall], invalid: Sequence[InvalidToolCall] = ()
) -> AIMessage:
    """Return a copy of an AI message that makes just these calls, also in its content blocks."""
    keys = {call["id"] for call in (*calls, *invalid)}
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in content if _call_key(block) in {None, *keys}]
    extras = {k: v for k, v in message.additional_kwargs.items() if k != "tool_calls"}
    return message.model_copy(
        update={
            "content": content,
            "additional_kwargs": extras,
            "tool_calls": list(calls),
            "invalid_tool_calls": list(invalid),
        }
    )


def _call_key(block: Any) -> Any:
    """Return the id of the call that a content block makes; None for any other block."""
    if isinstance(block, dict) and block.get("type") in {"tool_use", "tool_call", "function_call"}:
        return block.get("call_id") or block.get("id")
    return None


def _with_call_ids(message: AIMessage, renamed: dict[str, str]) -> AIMessage:
    def fresh(call: Any) -> Any:
        return {**call, "id": renamed.get(call["id"], call["id"])}

    def fresh_block(block: Any) -> Any:
        key = _call_key(block)
        if key not in renamed:
            return block
        field = "call_id" if block.get("call_id") else "id"
        return {**block, field: renamed[key]}

    copy = with_calls(message, message.tool_calls, message.invalid_tool_calls)
    content = copy.content
    return copy.model_copy(
        update={
            "content": [fresh_block(b) for b in content] if isinstance(content, list) else content,
            "tool_calls": [fresh(call) for call in message.tool_calls],
            "invalid_tool_calls": [fresh(call) for call in message.invalid_tool_calls],
        }
    )


def _unused_call_id(key: str, used: set[str]) -> str:
    number = 2
    while f"{key}~{number}" in used:
        number += 1
    return f"{key}~{number}"
