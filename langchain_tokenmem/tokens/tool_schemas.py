"""Token counts of tool schemas and response formats.

The formula is that of the OpenAI cookbook ("How to count tokens with tiktoken", part 7, for
GPT-4o): a constant per function, per property and per enum value, plus the tokens of names, types
and descriptions. It stops at the first level; here nested objects, arrays and alternatives are
counted by the same rule, and keywords that the formula leaves out count as text, so that no
description is ever free.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from langchain_tokenmem.tokens.content import as_list, as_mapping, compact_json

if TYPE_CHECKING:
    from langchain_tokenmem.tokens.counters import TokenCounter


FUNCTION_START = 7
PROPERTIES_START = 3
PROPERTY = 3
ENUM_START = -3
ENUM_ITEM = 3
FUNCTIONS_END = 12
"""Added once per request that has tools."""

_DEEPEST_SCHEMA = 40
# Keywords that contain named schemas, one schema, or a list of them.
_MAPS = ("properties", "$defs", "definitions")
_NESTED = ("items", "additionalProperties")
_ALTERNATIVES = ("anyOf", "oneOf", "allOf", "prefixItems")
# Counted elsewhere by the formula, or not shown to the model.
_OTHERS = ("type", "description", "enum", "required", "strict", "$schema")
_STRUCTURE = frozenset([*_MAPS, *_NESTED, *_ALTERNATIVES, *_OTHERS])


def tool_tokens(tool: Any, text: Callable[[str], int]) -> int:
    """Return the tokens of one tool's schema, without the constant per request.

    Args:
        tool: Whatever `bind_tools` takes: a tool, a function, a Pydantic class or a dict. A dict
            that no rule covers (a provider's built-in tool) counts as compact JSON.
        text: Counts the tokens of a text.

    Returns:
        Tokens.
    """
    converted = openai_tool(tool)
    function = as_mapping(converted).get("function")
    if not isinstance(function, Mapping):
        return FUNCTION_START + text(compact_json(converted))
    head = f"{function.get('name', '')}:{_sentence(function.get('description'))}"
    return FUNCTION_START + text(head) + _inside(as_mapping(function.get("parameters")), text, 0)


def openai_tool(tool: Any) -> Any:
    """Return a tool in OpenAI's form; unchanged if LangChain cannot convert it."""
    # Imported here: it pulls in Pydantic's v1 and v2 machinery, and most callers have no tools.
    from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415

    try:
        return convert_to_openai_tool(tool)
    except (ValueError, TypeError, KeyError, AttributeError):
        return tool


def _sentence(description: Any) -> str:
    return str(description or "").rstrip(".")


def _inside(schema: Mapping[str, Any], text: Callable[[str], int], depth: int) -> int:
    """Return the tokens of a schema beyond its own type and description."""
    if depth > _DEEPEST_SCHEMA:
        return text(compact_json(schema))
    nested: list[tuple[str, Any]] = [
        *((str(name), v) for key in _MAPS for name, v in as_mapping(schema.get(key)).items()),
        *((key, schema[key]) for key in _NESTED if isinstance(schema.get(key), Mapping)),
        *(("", option) for key in _ALTERNATIVES for option in as_list(schema.get(key))),
    ]
    tokens = sum(_property(name, inner, text, depth) for name, inner in nested)
    if as_mapping(schema.get("properties")):
        tokens += PROPERTIES_START
    if choices := as_list(schema.get("enum")):
        tokens += max(0, ENUM_START + sum(ENUM_ITEM + text(str(choice)) for choice in choices))
    rest = {key: value for key, value in schema.items() if key not in _STRUCTURE}
    return tokens + (text(compact_json(rest)) if rest else 0)


def _property(name: str, schema: Any, text: Callable[[str], int], depth: int) -> int:
    if not isinstance(schema, Mapping):
        return PROPERTY + text(f"{name}:{compact_json(schema)}")
    line = f"{name}:{schema.get('type', '')}:{_sentence(schema.get('description'))}"
    return PROPERTY + text(line) + _inside(schema, text, depth + 1)


_WIRE_TYPES = frozenset({"text", "json_object", "json_schema"})
"""Values of `type` by which OpenAI's `response_format` is distinguished from a JSON schema."""


def format_tokens(response_format: Any, counter: TokenCounter) -> int:
    """Return the tokens of a response format, of `create_agent` or bound to a model; 0 for none.

    A format in OpenAI's own form is counted as the JSON that is sent, and a schema that is offered
    as a tool is counted like one. If it is not known yet which it will be, it is counted as a tool,
    which is more.
    """
    if response_format is None:
        return 0
    if isinstance(response_format, dict) and response_format.get("type") in _WIRE_TYPES:
        return counter.text(_json(response_format))
    spec = getattr(response_format, "schema_spec", None)
    if spec is not None:
        return counter.text(_json(response_format.to_model_kwargs()))
    specs = getattr(response_format, "schema_specs", None)
    if specs is not None:
        return counter.tools([_as_tool(s.name, s.description, s.json_schema) for s in specs])
    schema = getattr(response_format, "schema", response_format)
    plain = schema if isinstance(schema, dict) else _schema_of(schema)
    return counter.tools([_as_tool(str(plain.get("title", "response")), "", plain)])


def _as_tool(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def _json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


@lru_cache(maxsize=64)
def _schema_of(schema: Any) -> dict[str, Any]:
    return TypeAdapter(schema).json_schema()
