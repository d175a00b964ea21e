"""Sources of settings: keywords, environment and a file, and the errors that name them.

pydantic-settings reads the environment and merges the sources. Every group of every source is first
written as a dict, so that they merge field by field. Names of no setting are kept: pydantic refuses
them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tomllib
import types
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from langchain_tokenmem.errors import ConfigurationError

PREFIX = "TOKENMEM_"
DELIMITER = "__"
CONFIG = "TOKENMEM_CONFIG"
"""Variable that names the file."""

FILES = ("tokenmem.yaml", "tokenmem.toml")
"""Files of the working directory that are read without being named."""

_SHORT = {"budget": "context_window", "store": "url", "mode": "name", "turn_memory": "shown"}
"""Groups for which one value may be given, with the field that it sets."""

_ON = frozenset({"true", "yes", "on"})
_OFF = frozenset({"none", "null", "false", "no", "off"})

Sources = Mapping[str, Mapping[str, Any]]
"""Values of each source, by its name, in order of precedence."""


def sources_of(model: type[BaseSettings], keywords: Mapping[str, Any]) -> Sources:
    """Return what keywords, the environment and the file give, every group as a dict.

    If a source names a mode, modes of lower sources are left out.

    Raises:
        ConfigurationError: When the file cannot be read, or a variable would be ignored.
    """
    given = {"keyword": keywords, "variable": _variables(model)}
    if (file := _settings_file()) is not None:
        given[str(file)] = _content(file)
    found: dict[str, dict[str, Any]] = {}
    has_mode = False
    for source, values in given.items():
        own = {key: _as_group(key, fields_of(model).get(key), one) for key, one in values.items()}
        if has_mode:
            own.pop("mode", None)
        has_mode = has_mode or "name" in (own.get("mode") or ())
        found[source] = own
    return found


def _as_group(name: str, field: FieldInfo | None, value: Any) -> Any:
    """Return the value of a group as a dict, or None if it is switched off."""
    group = None if field is None else group_in(field.annotation)
    if field is None or group is None:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, dict):
        fields = fields_of(group)
        return {key: _as_group(key, fields.get(key), one) for key, one in value.items()}
    word = str(value).strip().lower()
    if type(None) in get_args(field.annotation) and word in _ON | _OFF:
        return {} if word in _ON else None
    return {_SHORT[name]: value} if name in _SHORT else value


# --- environment


class _Environment(EnvSettingsSource):
    """The variables; texts need no quotes."""

    def decode_complex_value(self, field_name: str, field: FieldInfo | None, value: Any) -> Any:
        """Return the JSON in a variable, else its text; one value of a group as a dict."""
        try:
            decoded = json.loads(value)
        except ValueError:
            decoded = value
        name = field.alias if field is not None and field.alias else field_name
        group = _as_group(name, field, decoded)
        return value if group is None else group  # None would mean no value at all


def _variables(model: type[BaseSettings]) -> dict[str, Any]:
    """Return the values of the variables; including those that name no setting."""
    found = _Environment(model)()
    for name, value in os.environ.items():
        if not name.upper().startswith(PREFIX) or name.upper() == CONFIG or not value:
            continue
        path = name[len(PREFIX) :].lower().split(DELIMITER)
        if path[0] not in fields_of(model):
            found[DELIMITER.join(path)] = value
            continue
        here: Any = found
        for key in path:
            if not isinstance(here, dict) or key not in here:
                raise ConfigurationError(
                    f"The variable {name} is covered by a shorter one: set only one."
                )
            here = here[key]
    return found


# --- file


def _settings_file() -> Path | None:
    """Return the file of `TOKENMEM_CONFIG`, or the one in the working directory.

    Raises:
        ConfigurationError: When it does not exist, or there are two.
    """
    named = os.environ.get(CONFIG, "").strip()
    if named:
        file = Path(named).expanduser()
        if file.is_file() and file.suffix in {".yaml", ".yml", ".toml"}:
            return file
        raise ConfigurationError(
            f"There is no .yaml or .toml file {file}, which the variable {CONFIG} names."
        )
    found = [Path(one) for one in FILES if Path(one).is_file()]
    if len(found) > 1:
        raise ConfigurationError(
            f"There are {' and '.join(FILES)} in the working directory; remove one of them, or "
            f"name one in the variable {CONFIG}."
        )
    return found[0] if found else None


def _content(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8-sig")
        if file.suffix == ".toml":
            content: Any = tomllib.loads(text)
        else:
            _check_unique(yaml.compose(text, yaml.SafeLoader))
            content = yaml.safe_load(text)
            json.dumps(content, default=str)  # refuses values that contain themselves
    except (OSError, ValueError, TypeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ConfigurationError(f"{file} contains no names with values.")
    return content


def _check_unique(node: Any) -> None:
    """Refuse a key that is given twice, as TOML does; YAML's reader would take the last one."""
    if isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, value in node.value:
            if key.value in names:
                line = key.start_mark.line + 1
                raise ConfigurationError(f"line {line}: {key.value} is given twice; give it once.")
            names.add(str(key.value))
            _check_unique(value)


# --- places and errors


def places_of(sources: Sources) -> dict[tuple[str, ...], str]:
    """Return the place that each value in force comes from, by the keys of its setting."""
    places: dict[tuple[str, ...], str] = {}
    for source, values in sources.items():
        for path in list(_leaves(values)):
            if not any(path[: len(one)] == one or one[: len(path)] == path for one in places):
                places[path] = _place(source, path)
    return places


def _leaves(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key))


def _place(source: str, path: tuple[str, ...]) -> str:
    if source == "keyword":
        return f"keyword {'.'.join(path)}"
    if source != "variable":
        return source
    names = {name.upper(): name for name in os.environ}
    shorter = (variable_of(path[:length]) for length in range(len(path), 0, -1))
    return f"variable {next(names[one] for one in shorter if one in names)}"


def variable_of(path: tuple[str, ...]) -> str:
    """Return the name of the environment variable of a setting."""
    return PREFIX + DELIMITER.join(path).upper()


def configuration_error(
    model: type[BaseModel], error: ValidationError, sources: Sources
) -> ConfigurationError:
    """Return the error that names every invalid value and its place.

    Args:
        model: The settings.
        error: The errors that pydantic found.
        sources: The given values.
    """
    places = places_of(sources)
    lines = []
    for fault in error.errors(include_url=False, include_input=False):
        path = tuple(map(str, fault["loc"]))
        what = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "time_delta_parsing":
            what = "it is not a duration; write P30D for 30 days, PT12H for 12 hours."
        inside = [p for p in places if p[: len(path)] == path or path[: len(p)] == p]
        named = [one for one in inside if re.search(rf"\b{re.escape(one[-1])}\b", what)]
        from_ = sorted({places[one] for one in named or inside})
        if fault["type"] == "extra_forbidden":
            is_variable = any(one.startswith("variable") for one in from_)
            what = f"there is no such setting.{_advice(model, path, is_variable=is_variable)}"
        lines.append(f"{'.'.join(path) or 'settings'} ({', '.join(from_) or 'default'}): {what}")
    return ConfigurationError("\n".join(dict.fromkeys(lines)))


def _advice(model: type[BaseModel], path: tuple[str, ...], *, is_variable: bool) -> str:
    """Return the setting whose name is nearest to one that names none."""
    known = {one.name: one.path for one in settings_in(model)}
    groups = {".".join(one[:n]): one[:n] for one in known.values() for n in range(1, len(one))}
    last = {one[-1]: one for one in reversed(known.values())}
    names = {**last, **groups, **known}
    words = (".".join(path), path[-1])
    near = next((n[0] for w in words if (n := get_close_matches(w, names, 1, 0.7))), None)
    if near is None:
        return " `tokenmem config --example` prints all settings."
    return f" Did you mean {variable_of(names[near]) if is_variable else '.'.join(names[near])}?"


# --- the tree of groups


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        path: Its keys, from the top of the settings down.
        field: Type, default, examples and description.
    """

    path: tuple[str, ...]
    field: FieldInfo

    @property
    def name(self) -> str:
        """Name in a file, with dots between its keys."""
        return ".".join(self.path)

    @property
    def default(self) -> Any:
        """The value if no source gives one, in a group that is on."""
        return self.field.get_default(call_default_factory=True)


def settings_in(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Yield every setting, those of groups after their group."""
    for name, field in fields_of(model).items():
        group = group_in(field.annotation)
        if group is None:
            yield Setting((*path, name), field)
        else:
            yield from settings_in(group, (*path, name))


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a group by their names in a file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def group_in(annotation: Any) -> type[BaseModel] | None:
    """Return the group that a field contains; None if it contains a value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {Union, types.UnionType}:
        return next(filter(None, map(group_in, get_args(annotation))), None)
    return None
