"""Tool calls and results in one form, and each call with its result.

Histories contain calls in several forms: valid and invalid, with or without an id, only in the
content, as a legacy `function_call`; and results as tool messages, or as blocks of a human message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
)

from langchain_tokenmem.core.block_types import text_block
from langchain_tokenmem.core.messages import (
    blank_call_ids,
    call_ids,
    calls_in_content,
    calls_of,
    derived_call_id,
    is_result_block,
    result_ids,
    role_of,
    text_of,
)
from langchain_tokenmem.core.profiles import COMMON, LegalityProfile

UNKNOWN_TOOL = "unknown_tool"
"""Name for a call without one."""

INVALID_ARGUMENTS = "invalid_arguments"
"""Name of the argument that wraps a value that is not a JSON object, if one is required."""

_MOST_NAME = 64


def offers_tool(tools: Sequence[Any], name: str) -> bool:
    """Return whether a tool with this name is among those of a request.

    Args:
        tools: Anything that `bind_tools` accepts: tools, functions, classes, schemas as mappings.
        name: The name.
    """
    return any(tool_name(tool) == name for tool in tools)


def tool_name(tool: Any) -> Any:
    """Return the name of a tool in any form that `bind_tools` accepts; None if it has none."""
    if not isinstance(tool, Mapping):
        return getattr(tool, "name", None) or getattr(tool, "__name__", None)
    inner = tool.get("function") or tool.get("toolSpec")
    schema = inner if isinstance(inner, Mapping) else tool
    return schema.get("name") or schema.get("title")


def with_calls(
    message: AIMessage, calls: Sequence[ToolCall], invalid: Sequence[InvalidToolCall] = ()
) -> AIMessage:
    """Return a copy of an AI message with exactly these calls, also in its content blocks."""
    keys = {call["id"] for call in (*calls, *invalid)}
    content: Any = message.content
    if isinstance(content, list):
        last = {call_key(block): place for place, block in enumerate(content)}
        content = [
            block
            for place, block in enumerate(content)
            if (key := call_key(block)) is None or (key in keys and last[key] == place)
        ]
    extras = {k: v for k, v in message.additional_kwargs.items() if k != "tool_calls"}
    return message.model_copy(
        update={
            "content": content,
            "additional_kwargs": extras,
            "tool_calls": list(calls),
            "invalid_tool_calls": list(invalid),
        }
    )


def call_key(block: Any) -> Any:
    """Return the call id of a content block, "" if the call has none; None for other blocks."""
    if isinstance(block, dict) and block.get("type") in {"tool_use", "tool_call", "function_call"}:
        return block.get("call_id") or block.get("id") or ""
    return None


def with_call_ids(message: AIMessage, renamed: dict[str, str]) -> AIMessage:
    """Return an AI message with renamed call ids, also in its content blocks."""

    def fresh(call: Any) -> Any:
        return {**call, "id": renamed.get(call["id"], call["id"])}

    def fresh_block(block: Any) -> Any:
        key = call_key(block)
        if key not in renamed:
            return block
        field = "call_id" if block.get("call_id") else "id"
        return {**block, field: renamed[key]}

    content: Any = message.content
    if isinstance(content, list):
        content = [*map(fresh_block, content)]
    return with_calls(
        message.model_copy(update={"content": content}),
        [*map(fresh, message.tool_calls)],
        [*map(fresh, message.invalid_tool_calls)],
    )


def legal_call_id(key: str, used: set[str], pattern: str) -> str:
    """Return an id that the provider accepts and no earlier call has; if possible, `key`."""
    if key not in used and re.fullmatch(pattern, key):
        return key
    number = 1
    while True:
        number += 1
        fresh = f"{key}_{number}"
        if not re.fullmatch(pattern, fresh):
            fresh = derived_call_id(key, number)
        if fresh not in used:
            return fresh


def uniform_calls(
    messages: Sequence[BaseMessage], profile: LegalityProfile = COMMON
) -> list[BaseMessage]:
    """Return the messages of a group with calls and results in one form.

    A valid message is returned unchanged. Each call has an id and a name, each result is a
    separate message with the id of its call. A legacy `function_call` and its result become a
    normal call with its result. Arguments that are not a JSON object are converted to one if the
    profile requires it.
    """
    found: list[BaseMessage] = []
    known = {key for message in messages for key in call_ids(message)}
    blank = [key for message in messages for key in blank_call_ids(message)]
    legacy: list[str] = []
    for message in messages:
        if isinstance(message, AIMessage):
            uniform = _uniform_call(message, profile)
            if uniform is not message and "function_call" in message.additional_kwargs:
                legacy += call_ids(uniform)
            found.append(uniform)
        elif role_of(message) == "tool" and not result_ids(message):
            found.append(_tool_result(message, legacy.pop(0)) if legacy else message)
        elif isinstance(message, ToolMessage) and not message.tool_call_id and blank:
            found.append(message.model_copy(update={"tool_call_id": blank.pop(0)}))
        elif role_of(message) == "human" and result_ids(message):
            found += _separate_results(message, known, blank)
        else:
            found.append(message)
    return found


PairedCalls = list[tuple[Any, ToolMessage | None]]
"""Valid calls of a message, then invalid ones, each with its first result, or None."""


def paired_calls(group: Sequence[BaseMessage]) -> Iterator[tuple[BaseMessage, PairedCalls]]:
    """Yield the messages of a group that are no results, in one form, each with its calls.

    Args:
        group: An AI message with its calls and their results, as `core.messages.groups` gives it.
    """
    if len(group) == 1 and not isinstance(group[0], AIMessage):  # most groups
        yield group[0], []
        return
    messages = uniform_calls(group)
    results: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.tool_call_id, message)
    for message in messages:
        if role_of(message) != "tool":
            calls = calls_of(message) if isinstance(message, AIMessage) else []
            yield message, [(call, results.get(call["id"])) for call in calls]


def _uniform_call(message: AIMessage, profile: LegalityProfile) -> AIMessage:
    """Return an AI message in which each call has an id and a name."""
    legacy = message.additional_kwargs.get("function_call")
    if legacy and not message.tool_calls:
        return _without_function_call(message, legacy, profile)
    keys = call_ids(message)
    if not keys:
        return message
    calls = calls_of(message)
    named = [_named(call, key, profile) for call, key in zip(calls, keys, strict=False)]
    valid, invalid = named[: len(message.tool_calls)], named[len(message.tool_calls) :]
    for block in calls_in_content(message, keys[: len(calls)]):
        args = block.get("input")
        args = args if isinstance(args, dict) else {}
        call = {"name": block.get("name"), "args": args, "id": block["id"], "type": "tool_call"}
        valid.append(_named(call, block["id"], profile))
    if profile.strict_calls:
        valid += [_valid_call(call) for call in invalid]
        invalid = []
    if valid == message.tool_calls and invalid == message.invalid_tool_calls:
        return message
    names = {call["id"]: call["name"] for call in (*valid, *invalid)}
    content: Any = message.content
    if isinstance(content, list):
        content = [
            {**block, "name": names[key]} if (key := call_key(block)) in names else block
            for block in content
        ]
    return with_calls(message.model_copy(update={"content": content}), valid, invalid)


def _named(call: Any, key: str, profile: LegalityProfile) -> Any:
    """Return a call with an id, and with a name that the provider accepts."""
    name = call.get("name") or UNKNOWN_TOOL
    if not re.fullmatch(profile.call_name, name):
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:_MOST_NAME]
    fixed = {**call, "id": key, "name": name}
    if fixed.get("args") is None:
        fixed["args"] = ""
    return call if fixed == call else fixed


def _valid_call(call: Any) -> ToolCall:
    written = call.get("args") or ""
    args = object_in(written)
    if args is None:
        args = {INVALID_ARGUMENTS: written}
    return ToolCall(name=call["name"], args=args, id=call["id"], type="tool_call")


def object_in(written: str) -> dict[str, Any] | None:
    """Return the JSON object that a model has written; None for any other text."""
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _without_function_call(message: AIMessage, legacy: Any, profile: LegalityProfile) -> AIMessage:
    call = {"name": legacy.get("name"), "args": legacy.get("arguments"), "id": None}
    extras = {k: v for k, v in message.additional_kwargs.items() if k != "function_call"}
    made = _valid_call(_named(call, derived_call_id(message.id, 0), profile))
    return message.model_copy(update={"tool_calls": [made], "additional_kwargs": extras})


def _tool_result(message: BaseMessage, key: str) -> ToolMessage:
    """Return a legacy function result as the result of a tool call."""
    return ToolMessage(message.content, tool_call_id=key, name=message.name, id=message.id)


def _separate_results(
    message: BaseMessage, known: set[str], blank: list[str]
) -> Iterator[BaseMessage]:
    """Return the results inside a human message, each as a tool message, and its other content.

    A result without a call stays in the message, as text.
    """
    results: dict[str, Any] = {}
    rest: list[Any] = []
    for block in message.content:
        if not isinstance(block, dict) or not is_result_block(block):
            rest.append(block)
            continue
        key = block.get("tool_use_id") or (blank.pop(0) if blank else "")
        if key in known and key not in results:
            results[key] = block
        else:
            rest.append(text_block(text_of(_as_tool_message(block, key, None))))
    for number, (key, block) in enumerate(results.items()):
        is_last = not rest and number == len(results) - 1
        yield _as_tool_message(block, key, message.id if is_last else f"{message.id}~{key}")
    if rest:
        yield message.model_copy(update={"content": rest})


def _as_tool_message(block: Any, key: str, new_id: str | None) -> ToolMessage:
    content = block.get("content") or ""
    marks = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
    if marks and isinstance(content, str):
        content = [{**text_block(content), **marks}]
    status = "error" if block.get("is_error") else "success"
    return ToolMessage(content, tool_call_id=key, id=new_id, status=status)
