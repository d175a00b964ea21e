"""Tokens of a response format, which travels with a request beside its messages and tools."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from langchain_tokenmem.tokens.base import TokenCounter


def format_tokens(response_format: Any, counter: TokenCounter) -> int:
    """Return the tokens of a response format of `create_agent`; 0 for none.

    A schema that is offered as a tool is counted like one, any other as the JSON that is sent.
    Where it is not known yet which it will be, it is counted as a tool: that is more.
    """
    if response_format is None:
        return 0
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
