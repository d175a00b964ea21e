"""Token count of tool schemas.

The formula is that of the OpenAI cookbook ("How to count tokens with tiktoken", part 7, numbers
for GPT-4o): a constant per function, per property and per enum value, plus the tokens of names,
types and descriptions. It stops at the first level; here nested objects, arrays and alternatives
are counted by the same rule, and keywords that the formula leaves out count as text, so that no
description is ever free.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

FUNCTION_START = 7
PROPERTIES_START = 3
PROPERTY = 3
ENUM_START = -3
ENUM_ITEM = 3
FUNCTIONS_END = 12
"""Added once per request that has tools."""

_DEEPEST = 40
# Counted elsewhere by the formula, or not shown to the model.
_STRUCTURE = frozenset(
    [
        "type",
        "description",
        "properties",
        "items",
        "enum",
        "required",
        "strict",
        "$schema",
        "$defs",
        "definitions",
        "additionalProperties",
        "anyOf",
        "oneOf",
        "allOf",
        "prefixItems",
    ]
)
_MAPS = ("$defs", "definitions")
_ALTERNATIVES = ("anyOf", "oneOf", "allOf", "prefixItems")


def tool_tokens(tool: Any, text: Callable[[str], int]) -> int:
    """Return the tokens of one tool's schema, without the constant per request.

    Args:
        tool: Whatever `bind_tools` takes: a tool, a function, a Pydantic class or a dict. A dict
            that no rule knows (a provider's built-in tool) counts as compact JSON.
        text: Counts the tokens of a text.

    Returns:
        Tokens.
    """
    # Imported here: it pulls in Pydantic's v1 and v2 machinery, and most callers have no tools.
    from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415

    try:
        converted: Any = convert_to_openai_tool(tool)
    except (ValueError, TypeError, KeyError, AttributeError):
        converted = tool
    function = converted.get("function") if isinstance(converted, Mapping) else None
    if not isinstance(function, Mapping):
        return FUNCTION_START + text(compact_json(converted))
    head = f"{function.get('name', '')}:{_sentence(function.get('description'))}"
    parameters = function.get("parameters")
    tokens = FUNCTION_START + text(head)
    return tokens + (_inside(parameters, text, 0) if isinstance(parameters, Mapping) else 0)


def compact_json(value: Any) -> str:
    """Return JSON without blanks; what JSON does not know is written as its `str`."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no strings, cycles, depth
        return str(value)


def _sentence(description: Any) -> str:
    return str(description or "").rstrip(".")


def _inside(schema: Mapping[str, Any], text: Callable[[str], int], depth: int) -> int:
    """Return what a schema holds beyond its own type and description."""
    if depth > _DEEPEST:
        return text(compact_json(schema))
    tokens = 0
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        tokens += PROPERTIES_START
        tokens += sum(_property(str(k), v, text, depth) for k, v in properties.items())
    choices = schema.get("enum")
    if isinstance(choices, list | tuple):
        tokens += max(0, ENUM_START + sum(ENUM_ITEM + text(str(choice)) for choice in choices))
    for key in ("items", "additionalProperties"):
        if isinstance(nested := schema.get(key), Mapping):
            tokens += _property(key, nested, text, depth)
    for key in _ALTERNATIVES:
        if isinstance(options := schema.get(key), list | tuple):
            tokens += sum(_property("", option, text, depth) for option in options)
    for key in _MAPS:
        if isinstance(named := schema.get(key), Mapping):
            tokens += sum(_property(str(k), v, text, depth) for k, v in named.items())
    rest = {key: value for key, value in schema.items() if key not in _STRUCTURE}
    return tokens + (text(compact_json(rest)) if rest else 0)


def _property(name: str, schema: Any, text: Callable[[str], int], depth: int) -> int:
    if not isinstance(schema, Mapping):
        return PROPERTY + text(f"{name}:{compact_json(schema)}")
    line = f"{name}:{schema.get('type', '')}:{_sentence(schema.get('description'))}"
    return PROPERTY + text(line) + _inside(schema, text, depth + 1)
