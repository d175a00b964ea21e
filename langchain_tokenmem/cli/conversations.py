"""Reader of recorded conversations: JSON Lines or a JSON list, OpenAI chat format, `.gz` too."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class RecordedConversation:
    """One recorded conversation.

    Attributes:
        name: The recording's own id, or its place in the file.
        messages: The messages, oldest first; ids `m0`, `m1`, ... by place.
        tools: Tool schemas that stood in every request, in OpenAI's format.
    """

    name: str
    messages: tuple[BaseMessage, ...]
    tools: tuple[dict[str, Any], ...] = ()


def load_conversations(path: Path) -> list[RecordedConversation]:
    """Read every conversation of a file.

    Args:
        path: JSON Lines, or one JSON list. A conversation is an object with `messages` (and
            `id`, `tools` where it has them) or a bare list of messages.

    Returns:
        The conversations, in the order of the file.

    Raises:
        OSError: When the file cannot be read.
        ValueError: When it holds something else; the message names the conversation.

    Example:
        >>> load_conversations(Path("examples/recorded_agent.jsonl"))[0].name  # doctest: +SKIP
        'recorded-agent'
    """
    data = path.read_bytes()
    if data.startswith(_GZIP_MAGIC):
        data = _decompress(data, path)
    rows = _rows(data.decode("utf-8-sig"))
    if not rows:
        raise ValueError(f"{path} holds no conversation.")
    return [_conversation(row, number) for number, row in enumerate(rows, 1)]


def _decompress(data: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} is no whole .gz file: {error}") from None


def _rows(text: str) -> list[Any]:
    try:
        whole = json.loads(text)
    except RecursionError:
        raise ValueError("The file is nested too deeply for a conversation.") from None
    except json.JSONDecodeError:
        # Not splitlines: U+2028 and its like may stand unescaped inside a JSON string.
        return [
            _row(line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()
        ]
    if isinstance(whole, list) and not _is_messages(whole):
        return whole
    return [whole]


def _row(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"Line {number} is not JSON: {error}") from None


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and _has(value[0], "role")


def _has(value: Any, key: str) -> bool:
    return isinstance(value, dict) and key in value


def _conversation(row: Any, number: int) -> RecordedConversation:
    if _has(row, "messages"):
        recorded, name, tools = row["messages"], row.get("id"), row.get("tools")
    else:
        recorded, name, tools = row, None, None
    label = str(name) if name else f"conversation {number}"
    if not _is_messages(recorded):
        raise ValueError(f"{label} (number {number}) is no list of messages with roles.")
    try:
        messages = tuple(to_messages(recorded, label=label))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{label} is not in OpenAI's chat format: {error}") from None
    given = tools if isinstance(tools, list) else []
    return RecordedConversation(
        name=label,
        messages=messages,
        tools=tuple(tool for tool in given if isinstance(tool, dict)),
    )


def to_messages(recorded: Sequence[Any], *, label: str = "conversation") -> list[BaseMessage]:
    """Return messages in OpenAI's chat format as LangChain's, with ids `m0`, `m1`, ... by place.

    Args:
        recorded: The messages as plain dicts.
        label: Names the conversation in an error.

    Raises:
        ValueError: On a message without a known role.
    """
    return [_message(one, f"m{place}", label) for place, one in enumerate(recorded)]


def _message(recorded: Any, key: str, label: str) -> BaseMessage:
    role = recorded.get("role") if isinstance(recorded, dict) else None
    if role not in {"system", "developer", "user", "assistant", "tool"}:
        raise ValueError(f"Message {key} of {label} has the role {role!r}, which is not known.")
    content = recorded.get("content")
    fields: dict[str, Any] = {
        "content": content if isinstance(content, (str, list)) else "",
        "id": key,
        "name": recorded.get("name") or None,
    }
    if role in {"system", "developer"}:
        return SystemMessage(**fields)
    if role == "user":
        return HumanMessage(**fields)
    if role == "tool":
        return ToolMessage(**fields, tool_call_id=str(recorded.get("tool_call_id") or ""))
    valid, invalid = _calls(recorded.get("tool_calls"), key)
    return AIMessage(**fields, tool_calls=valid, invalid_tool_calls=invalid)


def _calls(calls: Any, key: str) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    valid: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for place, call in enumerate(calls or ()):
        function = call.get("function") or {}
        call_id = str(call.get("id") or f"{key}-call-{place}")
        name = str(function.get("name") or "")
        arguments = _arguments(function.get("arguments"))
        if arguments is None or not name:
            raw = function.get("arguments")
            invalid.append(
                InvalidToolCall(
                    name=name,
                    args=raw if isinstance(raw, str) else json.dumps(raw),
                    id=call_id,
                    error="The recorded arguments are not a JSON object.",
                    type="invalid_tool_call",
                )
            )
        else:
            valid.append(ToolCall(name=name, args=dict(arguments), id=call_id, type="tool_call"))
    return valid, invalid


def _arguments(raw: Any) -> Mapping[str, Any] | None:
    """Return a call's arguments; None where the model wrote no JSON object."""
    if isinstance(raw, str) and raw.strip():
        try:
            raw = json.loads(raw)
        except (json.JSONDecodeError, RecursionError):
            return None
    elif not raw:
        return {}
    return raw if isinstance(raw, dict) else None
