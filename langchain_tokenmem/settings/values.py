"""Values of settings with their places, and what holds where several sources give one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_tokenmem.settings.schema import Path


@dataclass(frozen=True)
class GivenValue:
    """A value that a source gives.

    Attributes:
        value: The value.
        place: The place it comes from: a keyword, a variable, or file and line.
    """

    value: Any
    place: str


Values = dict[Path, GivenValue]


def merged(*sources: Values) -> Values:
    """Return the values that hold: of every setting that of the first source that gives it.

    A value covers what another source gives for its group as a whole, and the other way round. The
    name of a mode covers the whole mode.
    """
    found: Values = {}
    for values in reversed(sources):
        for path, value in values.items():
            covers = path[:-1] if path == ("mode", "name") else path
            is_on = value.value == {}  # the group is on, with whatever another source says of it
            for other in set(found) - set(values):
                is_inside = other[: len(covers)] == covers and not is_on
                if is_inside or covers[: len(other)] == other:
                    del found[other]
            found[path] = value
    return found


def nested(values: Values) -> dict[str, Any]:
    """Return the values as pydantic takes them."""
    tree: dict[str, Any] = {}
    for path in sorted(values):
        here = tree
        for key in path[:-1]:
            inner = here.get(key)
            here[key] = here = inner if isinstance(inner, dict) else {}
        here[path[-1]] = values[path].value
    return tree
