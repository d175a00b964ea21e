"""Token counter for audits, and comparison of requests: nothing of the package's counters.

A check that asks the checked counter proves nothing, so replay counts once more. Only the
vocabulary (o200k_base, or the one that `--model` names) is shared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from tiktoken.model import encoding_name_for_model

from langchain_tokenmem.tokens.encodings import PATTERNS, find_encoding

PER_MESSAGE = 4
"""Tokens of a message's frame: `<|im_start|>`, role, `<|im_sep|>`, `<|im_end|>`."""
PER_REQUEST = 3
"""Tokens that prime the answer."""

_DEFAULT = "o200k_base"

# OpenAI's cookbook, "How to count tokens with tiktoken", for gpt-4o.
_FUNCTION, _PROPERTIES, _PROPERTY, _ENUM, _ENUM_ITEM, _FUNCTIONS_END = 7, 3, 3, -3, 3, 12


class ReferenceCounter:
    """Counts what a request holds, text by text.

    Args:
        text_tokens: Counts the tokens of one text, exactly.
    """

    def __init__(self, text_tokens: Callable[[str], int]) -> None:
        self.text = cache(text_tokens)

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of a message: its frame, its text, its tool calls.

        Media have no count here; a vocabulary says nothing about them.
        """
        calls = sum(self.text(name) + self.text(args) for _, name, args in calls_of(message))
        return PER_MESSAGE + self.text(text_of(message)) + calls

    def messages(self, messages: Iterable[BaseMessage]) -> int:
        """Return the tokens of messages, without the request around them."""
        return sum(map(self.message, messages))

    def request(
        self, messages: Iterable[BaseMessage], tools: Sequence[Mapping[str, Any]] = ()
    ) -> int:
        """Return the tokens of a whole request."""
        return PER_REQUEST + self.messages(messages) + self.tools(tools)

    def tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """Return the tokens of tool schemas, by the formula that OpenAI has published."""
        return sum(map(self._tool, tools)) + _FUNCTIONS_END if tools else 0

    def _tool(self, tool: Mapping[str, Any]) -> int:
        function = tool.get("function", tool)
        total = _FUNCTION + self.text(f"{function.get('name')}:{_description(function)}")
        properties = (function.get("parameters") or {}).get("properties") or {}
        if properties:
            total += _PROPERTIES
        for name, schema in properties.items():
            total += _PROPERTY + self.text(f"{name}:{schema.get('type')}:{_description(schema)}")
            if options := schema.get("enum"):
                total += _ENUM + sum(_ENUM_ITEM + self.text(str(option)) for option in options)
        return total


def _description(schema: Mapping[str, Any]) -> str:
    return str(schema.get("description") or "").removesuffix(".")


def text_of(message: BaseMessage) -> str:
    """Return every text that a message holds, reasoning included."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(filter(None, map(_text_of_block, message.content)))


def _text_of_block(block: str | dict[Any, Any]) -> str:
    texts = [block] if isinstance(block, str) else map(block.get, ("text", "thinking", "reasoning"))
    return next((text for text in texts if isinstance(text, str)), "")


def calls_of(message: BaseMessage) -> list[tuple[str, str, str]]:
    """Return the tool calls of a message, invalid ones too, as (id, name, arguments)."""
    if not isinstance(message, AIMessage):
        return []
    valid = [
        (call["id"] or "", call["name"], json.dumps(call["args"], ensure_ascii=False))
        for call in message.tool_calls
    ]
    invalid = [
        (call["id"] or "", call["name"] or "", call["args"] or "")
        for call in message.invalid_tool_calls
    ]
    return valid + invalid


def wire_text(message: BaseMessage) -> str:
    """Return all of a message that a provider is sent, as one text that can be compared."""
    answers = message.tool_call_id if isinstance(message, ToolMessage) else None
    content = message.content if isinstance(message.content, str) else json.dumps(message.content)
    frame = json.dumps([message.type, message.name, answers])
    return f"{frame}\n{content}\n{json.dumps(calls_of(message))}"


def is_prefix(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> bool:
    """Return whether `after` begins, byte for byte, with all of `before`."""
    return [*map(wire_text, before)] == [*map(wire_text, after[: len(before)])]


def reference_counter(model: str | None = None) -> ReferenceCounter:
    """Return an exact counter for a model, or for o200k_base where its name is not known."""
    name = _DEFAULT
    with suppress(KeyError):
        name = encoding_name_for_model(model or "")
    encoding = find_encoding(name if name in PATTERNS else _DEFAULT)
    return ReferenceCounter(lambda text: len(encoding.encode_ordinary(text)))
