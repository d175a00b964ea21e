"""Reader of recorded conversations: JSON Lines or a JSON list, OpenAI chat format, `.gz` too."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call

from langchain_tokenmem.adapters.migration.message_files import MOST_BYTES

_GZIP_MAGIC = b"\x1f\x8b"
_NO_OBJECT = "The recorded arguments are not a JSON object."

_MESSAGE_TYPES: dict[Any, type[BaseMessage]] = {
    "system": SystemMessage,
    "developer": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
    "tool": ToolMessage,
}
"""Classes of messages by their role in OpenAI's chat format."""


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
        try:
            with gzip.open(path) as file:
                data = file.read(MOST_BYTES + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{path} is no whole .gz file: {error}") from None
        if len(data) > MOST_BYTES:
            raise ValueError(f"{path} has more than {MOST_BYTES >> 20} MB when it is unpacked.")
    rows = _rows(data.decode("utf-8-sig"))
    if not rows:
        raise ValueError(f"{path} holds no conversation.")
    return [_conversation(row, number) for number, row in enumerate(rows, 1)]


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
    return whole if isinstance(whole, list) and not _is_messages(whole) else [whole]


def _row(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Line {number} is not JSON: {error}") from None


def _is_messages(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and "role" in first


def _conversation(row: Any, number: int) -> RecordedConversation:
    fields: dict[str, Any] = row if isinstance(row, dict) else {"messages": row}
    recorded, tools = fields.get("messages", ()), fields.get("tools")
    label = str(fields.get("id") or f"conversation {number}")
    if not _is_messages(recorded):
        raise ValueError(f"{label} (number {number}) is no list of messages with roles.")
    try:
        messages = tuple(to_messages(recorded, label=label))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{label} is not in OpenAI's chat format: {error}") from None
    schemas = tools if isinstance(tools, list) else []
    return RecordedConversation(
        label, messages, tuple(schema for schema in schemas if isinstance(schema, dict))
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
    if role not in _MESSAGE_TYPES:
        raise ValueError(f"Message {key} of {label} has the role {role!r}, which is not known.")
    content = recorded.get("content")
    fields: dict[str, Any] = {
        "content": content if isinstance(content, (str, list)) else "",
        "id": key,
        "name": recorded.get("name") or None,
    }
    if role == "tool":
        fields["tool_call_id"] = str(recorded.get("tool_call_id") or "")
    if role == "assistant":
        calls = [
            _call(call, f"{key}-call-{place}")
            for place, call in enumerate(recorded.get("tool_calls") or ())
        ]
        fields["tool_calls"] = [call for call in calls if call["type"] == "tool_call"]
        fields["invalid_tool_calls"] = [call for call in calls if call["type"] != "tool_call"]
    return _MESSAGE_TYPES[role](**fields)


def _call(recorded: Any, key: str) -> Mapping[str, object]:
    """Return a tool call; an invalid one where the model wrote no JSON object."""
    function = recorded.get("function") or {}
    raw = function.get("arguments")
    name, call_id = str(function.get("name") or ""), str(recorded.get("id") or key)
    try:
        arguments = json.loads(raw) if isinstance(raw, str) and raw.strip() else raw or {}
    except (ValueError, RecursionError):
        arguments = None
    if name and isinstance(arguments, dict):
        return tool_call(name=name, args=arguments, id=call_id)
    args = raw if isinstance(raw, str) else json.dumps(raw)
    return invalid_tool_call(name=name, args=args, id=call_id, error=_NO_OBJECT)
