"""The settings as text: the table of docs/settings.md, an example file, and what is in force."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from langchain_tokenmem.settings.sources import (
    CONFIG,
    FILES,
    Setting,
    fields_of,
    group_in,
    settings_in,
)
from langchain_tokenmem.settings.token_memory_settings import TokenMemorySettings
from langchain_tokenmem.storage.database_url import shown_url

HIDDEN = "***"

_HEAD = (
    f"# Settings of langchain-tokenmem: {FILES[0]} in the working directory, or the file that the",
    f"# variable {CONFIG} names. What is commented out has its default; where that is none, an",
    "# example stands there. To give one, remove `# ` in front of it, and of its group.",
    "",
)


def settings_table() -> str:
    """Return the table of all settings in Markdown."""
    rows = [
        f"| `{one.name}` | {_shown_default(one)} | {one.field.description} |"
        for one in settings_in(TokenMemorySettings)
    ]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def _shown_default(setting: Setting) -> str:
    if setting.default is None:
        return "none"
    return f"`{_text(setting.default)}`"


def example_file() -> str:
    """Return a file of settings in YAML, every one commented out, with what it is for."""
    return "\n".join([*_HEAD, *_example(TokenMemorySettings, "# ")]) + "\n"


def _example(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in fields_of(model).items():
        group = group_in(field.annotation)
        if group is None:
            default = Setting((name,), field).default
            value = _text(field.examples[0] if field.examples else default)
            yield f"{indent}{name}: {value}  # {field.description}"
        else:
            yield f"{indent}{name}:  # {field.description}"
            yield from _example(group, f"{indent}  ")


def in_force(settings: TokenMemorySettings) -> list[tuple[str, str, str]]:
    """Return name, value and place of every setting; secrets are hidden.

    Settings of a group that is off are left out: it has one line.
    """
    return list(_in_force(settings, (), settings.places()))


def _in_force(
    group: BaseModel, path: tuple[str, ...], places: Mapping[tuple[str, ...], str]
) -> Iterator[tuple[str, str, str]]:
    for attribute, field in type(group).model_fields.items():
        here = (*path, field.alias or attribute)
        value = getattr(group, attribute)
        if isinstance(value, BaseModel):
            yield from _in_force(value, here, places)
        else:
            found = {place for one, place in places.items() if one[: len(here)] == here}
            shown = _shown(field, here, value)
            yield ".".join(here), shown, ", ".join(sorted(found)) or "default"


def _shown(field: FieldInfo, path: tuple[str, ...], value: Any) -> str:
    if value is None:
        return "none"
    if path == ("store", "url"):
        return shown_url(value)
    return _text(value) if field.repr else HIDDEN


def _text(value: Any) -> str:
    """Return a value as a file in YAML has it."""
    if isinstance(value, timedelta):
        return TypeAdapter(timedelta).dump_json(value).decode().strip('"')
    if isinstance(value, dict):
        value = {
            key: one.model_dump(exclude_none=True) if isinstance(one, BaseModel) else one
            for key, one in value.items()
        }
    is_plain = isinstance(value, str) and value.replace("-", "").replace("_", "").isalnum()
    return value if is_plain else json.dumps(value, ensure_ascii=False)
