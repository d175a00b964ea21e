"""The settings as a tree of names: paths, types and defaults, read from the pydantic models."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Path = tuple[str, ...]
"""Keys from the top of the settings down to one: `("budget", "target")`."""

PREFIX = "TOKENMEM_"
DELIMITER = "__"


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        path: Its keys.
        field: Type, default and description.
        parents: Fields of the groups that it is in.
    """

    path: Path
    field: FieldInfo
    parents: tuple[FieldInfo, ...] = ()

    @property
    def name(self) -> str:
        """Name in a file, with dots between its keys."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """Name of its environment variable."""
        return variable_of(self.path)

    @property
    def default(self) -> Any:
        """The value where nothing gives one, in a group that is on."""
        return self.field.get_default(call_default_factory=True)

    @property
    def example(self) -> Any:
        """A value that works."""
        return self.field.examples[0] if self.field.examples else self.default


def variable_of(path: Path) -> str:
    """Return the name of the environment variable of a path."""
    return PREFIX + DELIMITER.join(path).upper()


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a group by their names in a file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def group_in(annotation: Any) -> type[BaseModel] | None:
    """Return the group that a field holds; None where it holds a value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {Union, types.UnionType}:
        return next(filter(None, map(group_in, get_args(annotation))), None)
    return None


def groups_by_name(annotation: Any) -> type[BaseModel] | None:
    """Return the group that stands under every name of a field's mapping; None for other fields."""
    if get_origin(annotation) in {dict, Mapping}:
        return group_in(get_args(annotation)[1])
    return None


def may_be_none(annotation: Any) -> bool:
    """Return whether a field takes None."""
    return type(None) in get_args(annotation)


def settings_in(
    model: type[BaseModel], path: Path = (), parents: tuple[FieldInfo, ...] = ()
) -> Iterator[Setting]:
    """Yield every setting, those of groups behind their group."""
    for name, field in fields_of(model).items():
        group = group_in(field.annotation)
        if group is None:
            yield Setting((*path, name), field, parents)
        else:
            yield from settings_in(group, (*path, name), (*parents, field))


def field_at(model: type[BaseModel], path: Path) -> tuple[FieldInfo | None, Path]:
    """Return the field of a path, and as much of the path as names settings."""
    field: FieldInfo | None = None
    here: type[BaseModel] | None = model
    for depth, key in enumerate(path):
        if here is None or key not in fields_of(here):
            return None, path[:depth]
        field = fields_of(here)[key]
        here = group_in(field.annotation)
        named = groups_by_name(field.annotation)
        if named is not None and depth + 1 < len(path):
            if depth + 2 == len(path):
                return field, path
            inner, _ = field_at(named, path[depth + 2 :])
            return inner, path if inner else path[: depth + 2]
    return field, path
