"""Encodes any value as plain JSON; what has no JSON form is kept as text, never refused."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping
from datetime import date, datetime, time
from enum import Enum
from typing import Any
from uuid import UUID

import orjson
from pydantic import BaseModel

_DEEPEST = 100
"""Levels of nesting that are walked; a value that contains itself ends here, as text."""

_ODD = " "
"""Begins what the standard library wrote and has to read.

orjson takes integers over 64 bits for floats, and refuses lone surrogates, NaN and infinity.
"""

_LONGEST_INTEGER = 10_000
"""Bits; Python refuses to write integers of more than 4,300 digits."""

# orjson would write these in its own way, and no warning could name their types.
_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def to_json(value: Any) -> tuple[str, set[str]]:
    """Return `value` as JSON text, ASCII wherever a database could stumble.

    Pydantic models and dataclasses become objects, bytes an object with their base64 form, tuples
    and sets lists, dates and UUIDs strings, keys strings; anything else its `repr`.

    Returns:
        The text, and the names of the types for which only their `repr` stands.
    """
    try:
        text = orjson.dumps(value, option=_STRICT).decode()
        # NaN and infinity are `null` to orjson, an enum is its value: look before it is stored.
        if json.loads(text) == value:
            return text, set()
    except (TypeError, RecursionError):
        # Lone surrogates, integers over 64 bits, and whatever JSON does not know.
        pass
    described: set[str] = set()
    return _ODD + json.dumps(_plain(value, described, 0)), described


def from_json(text: str) -> Any:
    """Return what `to_json` was given."""
    return json.loads(text) if text.startswith(_ODD) else orjson.loads(text)


def _plain(value: Any, described: set[str], depth: int) -> Any:
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return {
                _key(key, described): _plain(item, described, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_plain(item, described, depth + 1) for item in value]
        if isinstance(value, BaseModel):
            # What a model checks or warns about when it dumps itself is not asked here.
            return _plain({**value.__dict__, **(value.model_extra or {})}, described, depth + 1)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
            return _plain(fields, described, depth + 1)
    return _leaf(value, described)


def _leaf(value: Any, described: set[str]) -> Any:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and value.bit_length() <= _LONGEST_INTEGER:
        return int(value)
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, (datetime, date, time, UUID)):
        return str(value) if isinstance(value, UUID) else value.isoformat()
    described.add(type(value).__name__)
    return hex(value) if isinstance(value, int) else _repr(value)


def _key(key: Any, described: set[str]) -> str:
    plain = _leaf(key, described)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return object.__repr__(value)
