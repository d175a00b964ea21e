"""Sources of settings: keywords, environment and a file, each as values with their places.

The environment is read by pydantic-settings' own `EnvSettingsSource`, files by its sources of YAML
and TOML. Here they are only spelled out, value by value: so a value of one source covers that of
another one, and an error or `tokenmem config` names where it comes from.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as File
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    TomlConfigSettingsSource,
    YamlConfigSettingsSource,
)

from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.settings.locations import lines_of
from langchain_tokenmem.settings.schema import (
    DELIMITER,
    PREFIX,
    Path,
    field_at,
    group_in,
    groups_by_name,
    may_be_none,
)
from langchain_tokenmem.settings.values import GivenValue, Values
from langchain_tokenmem.settings.words import advice, meant

CONFIG = "TOKENMEM_CONFIG"
"""Variable that names the file."""

FILES = ("tokenmem.yaml", "tokenmem.toml")
"""Files of the working directory that are read without being named."""

SHORT = {"budget": "context_window", "store": "url", "mode": "name"}
"""Groups for which one value may stand, with the field that it gives."""

_NONE = frozenset({"none", "null"})


def from_keywords(model: type[BaseModel], given: Mapping[str, Any]) -> Values:
    """Return the values of keywords; a frozen dataclass counts as a group."""
    return _spelled_out(model, given, lambda path: f"keyword {'.'.join(path)}")


def from_environment(model: type[BaseSettings]) -> Values:
    """Return the values of the variables `TOKENMEM_*`; an empty one is none.

    Raises:
        ConfigurationError: When a variable names no setting, or two of them one.
    """
    source = _EnvironmentSource(model)

    def place_of(path: Path) -> str:
        lengths = range(len(path), 0, -1)
        return next(
            f"variable {source.names[path[:n]]}" for n in lengths if path[:n] in source.names
        )

    values = _spelled_out(model, source(), place_of)
    for path, name in source.names.items():
        if not any(path == one[: len(path)] for one in values):
            raise ConfigurationError(f"The variable {name} is covered by a shorter one: give one.")
    return values


class _EnvironmentSource(EnvSettingsSource):
    """Variables with our prefix, by the names that the settings have; texts need no quotes."""

    def __init__(self, model: type[BaseSettings]) -> None:
        self.names: dict[Path, str] = {}
        self.model = model
        super().__init__(
            model,
            case_sensitive=False,
            env_prefix="",
            env_nested_delimiter=DELIMITER,
            env_ignore_empty=True,
        )

    def _load_env_vars(self) -> Mapping[str, str | None]:
        found: dict[str, str | None] = {}
        for name, value in os.environ.items():
            if not name.upper().startswith(PREFIX) or name.upper() == CONFIG or not value.strip():
                continue
            path = meant(self.model, tuple(name[len(PREFIX) :].lower().split(DELIMITER)))
            if field_at(self.model, path)[0] is None:
                more = advice(self.model, path, as_variable=True)
                raise ConfigurationError(f"The variable {name} names no setting.{more}")
            if path in self.names:
                raise ConfigurationError(
                    f"The variables {self.names[path]} and {name} mean the same; give one of them."
                )
            self.names[path] = name
            found[DELIMITER.join(path)] = value
        return found

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Return the JSON in a variable of a group or a list; the text itself where it is none."""
        try:
            decoded = json.loads(value)
        except ValueError:
            decoded = value
        is_optional = group_in(field.annotation) is not None and may_be_none(field.annotation)
        if is_optional and _as_bool(decoded):
            return {}
        short = SHORT.get(field_name.removesuffix("_settings"))
        if is_optional and _as_bool(decoded) is False:
            return decoded
        if short is None or isinstance(decoded, dict) or _is_none(decoded):
            return decoded
        return {short: decoded}


def file_named() -> File | None:
    """Return the file of settings: the one of `TOKENMEM_CONFIG`, or one in the working directory.

    Raises:
        ConfigurationError: When it is not there, or there are two.
    """
    name = os.environ.get(CONFIG, "").strip()
    if name:
        file = File(name).expanduser()
        if not file.is_file():
            raise ConfigurationError(f"There is no file {file}, which the variable {CONFIG} names.")
        if file.suffix not in {".yaml", ".yml", ".toml"}:
            raise ConfigurationError(
                f"{file}, which the variable {CONFIG} names, ends with {file.suffix or 'nothing'}; "
                f"settings stand in a .yaml or .toml file."
            )
        return file
    there = [File(one) for one in FILES if File(one).is_file()]
    if len(there) > 1:
        raise ConfigurationError(
            f"There are {' and '.join(FILES)} in the working directory; remove one of them, or "
            f"name one in the variable {CONFIG}."
        )
    return there[0] if there else None


def from_file(model: type[BaseSettings], file: File) -> Values:
    """Return the values of a YAML or TOML file.

    Raises:
        ConfigurationError: When it cannot be read, or a key names no setting.
    """
    try:
        if file.suffix == ".toml":
            content: Any = TomlConfigSettingsSource(model, toml_file=file).toml_data
        else:
            content = YamlConfigSettingsSource(model, yaml_file=file).yaml_data
        lines = lines_of(file)
    except (yaml.YAMLError, tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        if isinstance(error, UnicodeDecodeError):
            line = error.object[: error.start].count(b"\n") + 1
        where = f"{file}:{line}" if line else f"{file}"
        what = getattr(error, "problem", None) or error
        raise ConfigurationError(f"{where}: the file cannot be read: {what}.") from error
    except ConfigurationError:
        raise
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"{file}:1: the file holds no names with values ({error})."
        ) from error

    def place_of(path: Path) -> str:
        found = (lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines)
        return f"{file}:{next(found, 1)}"

    if not isinstance(content, dict):
        raise ConfigurationError(f"{file}:1: the file holds no names with values.")
    return _spelled_out(model, content, place_of)


def _spelled_out(
    model: type[BaseModel], given: Mapping[str, Any], place_of: Callable[[Path], str]
) -> Values:
    """Return single values by the settings that they are of.

    Raises:
        ConfigurationError: When a name is that of no setting, or two of them mean one.
    """
    values: Values = {}
    for spelled, value in _leaves(model, given, ()):
        place = place_of(spelled)
        path = meant(model, spelled)
        field, _ = field_at(model, path)
        if field is None:
            more = advice(model, path, as_variable=False)
            raise ConfigurationError(f"{place}: there is no setting {'.'.join(path)!r}.{more}")
        if isinstance(value, bool) and _takes_numbers_only(field):
            raise ConfigurationError(f"{place}, {'.'.join(path)} is {value}; it is a number.")
        for inner, one in _full_form(field, path, value):
            if inner in values:
                raise ConfigurationError(
                    f"{place}: {'.'.join(inner)} is given twice, there and at "
                    f"{values[inner].place}; give it once."
                )
            values[inner] = GivenValue(one, place)
    return values


def _leaves(model: type[BaseModel], given: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield what stands in a nested mapping, down to values."""
    for key, one in given.items():
        inner, value = (*path, str(key)), _as_mapping(one)
        field, _ = field_at(model, meant(model, inner))
        annotation = field.annotation if field else None
        has_keys = group_in(annotation) or groups_by_name(annotation)
        if isinstance(value, Mapping) and value and has_keys:
            yield from _leaves(model, value, meant(model, inner))
        else:
            yield inner, value


def _as_mapping(value: Any) -> Any:
    """Return the fields of a frozen dataclass, such as a `TokenBudget`; anything else as it is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return value


def _full_form(field: FieldInfo, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield a value, or the field of a group for which it stands; `none` and `false` are None."""
    is_group = group_in(field.annotation) is not None
    short = SHORT.get(path[-1]) if is_group and len(path) == 1 else None
    if may_be_none(field.annotation) and _is_none(value):
        yield path, None
    elif is_group and may_be_none(field.annotation) and _as_bool(value) is not None:
        yield path, {} if _as_bool(value) else None
    elif short is not None and not isinstance(value, dict):
        yield (*path, short), value
    else:
        yield path, value


def _takes_numbers_only(field: FieldInfo) -> bool:
    """Return whether a field is a number; pydantic would take True for 1."""
    kinds = {field.annotation, *get_args(field.annotation)}
    return bool({int, float} & kinds) and bool not in kinds


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NONE)


def _as_bool(value: Any) -> bool | None:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    return value if isinstance(value, bool) else words.get(str(value).strip().lower())
