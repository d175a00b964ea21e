"""Recorded requests as the messages that `importing` reads.

They are those of OpenAI's Responses and Batch API and of Anthropic's Messages API, and states of
LangGraph threads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

_ITEM = re.compile(r"message|reasoning|compaction|item_reference|mcp_\w+|\w+_(?:call|output)")
"""Types of items of the Responses API."""
_INPUTS = {"input_text", "output_text", "input_image", "input_file"}


def conversation_of(value: Any) -> Any:
    """Return a recorded request or state as an object with `messages`; any other value itself.

    Example:
        >>> request = {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi."}]}
        >>> [one["content"] for one in conversation_of(request)["messages"]]
        ['Be brief.', 'Hi.']
    """
    if not isinstance(value, dict):
        return value
    forms = (_inside, _of_response, _of_anthropic)
    return next(filter(None, (form(value) for form in forms)), value)


def _inside(value: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a line of a batch or the state of a LangGraph thread holds."""
    for key in ("body", "values"):
        inner = conversation_of(value.get(key))
        if isinstance(inner, dict) and "messages" in inner:
            return {"id": value.get("custom_id"), **inner}
    return None


def _of_response(value: dict[str, Any]) -> dict[str, Any] | None:
    if "input" not in value or {"type", "role"} & value.keys():
        return None
    said = [*_items(value["input"], "user"), *_items(value.get("output"), "assistant")]
    return {**value, "messages": [*_items(value.get("instructions"), "system"), *said]}


def _of_anthropic(value: dict[str, Any]) -> dict[str, Any] | None:
    if not isinstance(value.get("messages"), list) or not value.get("system"):
        return None
    return {**value, "messages": [*_items(value["system"], "system"), *value["messages"]]}


def _items(given: Any, role: str) -> list[Any]:
    """Return what was said as a list; a text, or the blocks of one, are of the given role."""
    if isinstance(given, list) and not (given and role == "system" and "text" in given[0]):
        return given
    return [{"role": role, "content": given}] if given else []


def is_item(value: Any) -> bool:
    """Return whether a value is an item of the Responses API, not a message of LangChain."""
    if not isinstance(value, dict) or {"data", "lc"} & value.keys():
        return False
    kind, content = value.get("type"), value.get("content")
    if kind is None and "role" in value and isinstance(content, list):
        return any(isinstance(one, dict) and one.get("type") in _INPUTS for one in content)
    return isinstance(kind, str) and bool(_ITEM.fullmatch(kind))


def is_of_model(value: Any) -> bool:
    """Return whether an item is part of an answer: text, reasoning or a call."""
    return (
        is_item(value) and value.get("role", "assistant") == "assistant" and not _is_result(value)
    )


def message_of_items(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return items in the chat format: one that is not of the model, or all of one answer.

    Example:
        >>> message_of_items([{"type": "function_call_output", "call_id": "c", "output": "42"}])
        {'role': 'tool', 'tool_call_id': 'c', 'content': '42'}
    """
    first = items[0]
    if _is_result(first):
        output = _content(first.get("output") or "")
        return {"role": "tool", "tool_call_id": first["call_id"], "content": output}
    if "role" in first and len(items) == 1:
        kept = {key: one for key, one in first.items() if key not in {"type", "status"}}
        return {**kept, "content": _content(first.get("content"))}
    content: list[Any] = []
    calls = []
    for item in items:
        if item.get("call_id"):
            calls.append(_call(item))
        elif "role" in item:
            said = item.get("content")
            content += [{"type": "text", "text": said}] if isinstance(said, str) else _blocks(said)
        else:
            content.append(item)
    made = {"tool_calls": calls} if calls else {}
    return {"role": "assistant", "content": content or "", **made}


def _is_result(item: dict[str, Any]) -> bool:
    return str(item.get("type")).endswith("_output") and bool(item.get("call_id"))


def _call(item: dict[str, Any]) -> dict[str, Any]:
    """Return a call of the application's tools; built-in ones are named by their type."""
    name = item.get("name") or item["type"].removesuffix("_call")
    arguments = item.get("arguments")
    if arguments is None:
        parts = {key: item[key] for key in ("input", "action", "operation") if key in item}
        arguments = json.dumps(parts)
    return {
        "id": item["call_id"],
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _content(content: Any) -> Any:
    """Return content in the chat format; a text if it is nothing else."""
    if not isinstance(content, list):
        return content
    blocks = _blocks(content)
    texts = [one["text"] for one in blocks if isinstance(one, dict) and one.get("type") == "text"]
    return texts[0] if len(texts) == len(blocks) == 1 else blocks


def _blocks(content: Iterable[Any] | None) -> list[Any]:
    """Return blocks in the chat format; other kinds as they are."""
    found = []
    for block in content or ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in {"input_text", "output_text"}:
            found.append({**block, "type": "text"})
        elif kind == "input_image" and block.get("image_url"):
            found.append({"type": "image_url", "image_url": {"url": block["image_url"]}})
        else:
            found.append(block)
    return found
