"""Tokens of a response format, which is sent with a request beside its messages and tools."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from langchain_tokenmem.tokens.base import TokenCounter

_WIRE_TYPES = frozenset({"text", "json_object", "json_schema"})
"""Values of `type` by which OpenAI's `response_format` is told from a JSON schema."""


def format_tokens(response_format: Any, counter: TokenCounter) -> int:
    """Return the tokens of a response format, of `create_agent` or bound to a model; 0 for none.

    A format in OpenAI's own form is counted as the JSON that is sent, and a schema that is offered
    as a tool like a tool. Where it is not known yet which it will be, it is counted as a tool:
    that is more.
    """
    if response_format is None:
        return 0
    if isinstance(response_format, dict) and response_format.get("type") in _WIRE_TYPES:
        return counter.text(_as_json(response_format))
    spec = getattr(response_format, "schema_spec", None)
    if spec is not None:
        return counter.text(_as_json(response_format.to_model_kwargs()))
    specs = getattr(response_format, "schema_specs", None)
    if specs is not None:
        return counter.tools([_as_tool(s.name, s.description, s.json_schema) for s in specs])
    schema = getattr(response_format, "schema", response_format)
    plain = schema if isinstance(schema, dict) else _schema_of(schema)
    return counter.tools([_as_tool(str(plain.get("title", "response")), "", plain)])


def _as_tool(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def _as_json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


@lru_cache(maxsize=64)
def _schema_of(schema: Any) -> dict[str, Any]:
    return TypeAdapter(schema).json_schema()
