"""Errors of settings: every value that cannot be, with the variable, or the file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.settings.schema import Path, field_at
from langchain_tokenmem.settings.values import Values

_LONGEST = 100
"""Characters of a value that an error shows."""


def configuration_error(
    model: type[BaseModel], error: ValidationError, values: Values
) -> ConfigurationError:
    """Return the error that tells of every value that cannot be.

    Args:
        model: The settings.
        error: The faults that pydantic found.
        values: The values that were given, with their places.
    """
    lines = []
    for fault in error.errors(include_url=False):
        path = _setting_of(model, fault["loc"])
        what = fault["msg"].removeprefix("Value error, ")
        found = list(_given(values, path, what))
        shown = [_shown(model, values, one) for one in found if path == one[: len(path)]]
        lines.append(f"{'; '.join(shown) or '.'.join(path)}: {what}")
    return ConfigurationError("\n".join(dict.fromkeys(lines)))


def _setting_of(model: type[BaseModel], where: tuple[Any, ...]) -> Path:
    """Return the path of a fault, without the names of types that pydantic adds."""
    path = tuple(str(key) for key in where)
    field, known = field_at(model, path)
    return path if field is not None else known


def _given(values: Values, path: Path, what: str) -> Iterator[Path]:
    """Yield the values that a fault is about: those of its path that its text names, or all."""
    inside = [one for one in values if one[: len(path)] == path or path[: len(one)] == one]
    exact = [one for one in inside if len(one) <= len(path)]
    named = [one for one in inside if re.search(rf"\b{re.escape(one[-1])}\b", what)]
    yield from exact or named or inside


def _shown(model: type[BaseModel], values: Values, path: Path) -> str:
    given = values[path]
    field, _ = field_at(model, path)
    is_open = field is not None and field.repr
    value = f" is {given.value!r:.{_LONGEST}}" if is_open else ""
    return f"{given.place}, {'.'.join(path)}{value}"
