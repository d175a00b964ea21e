"""Limits of models by their name, from the data of installed packages and a short list of our own.

LangChain's partner packages bring the profiles of their provider's models (`data/_profiles.py`,
generated from models.dev): what their chat models have as `profile`. LiteLLM brings a list of the
models of all providers. The files are read as they are: importing the packages takes seconds. Our
own list, `known_models.json`, is for a bare install and comes last.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

_PROFILES = "langchain_*/data/_profiles.py"
_LITELLM = "litellm/model_prices_and_context_window_backup.json"
_OWN = (Path(__file__).with_name("known_models.json"),)

_MODES = {"chat", "completion", "responses"}
"""Kinds of models in LiteLLM's list that answer with text."""

Limits = Mapping[str, int]
_Limits = dict[str, Limits]

# -2024-08-06, -20250929, -0125, -001, -08-2024, -05-06: the day of a version; -latest, -v1, ...
_VERSION = re.compile(
    r"-(?:\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d|\d{3,8}|v\d+|latest|preview|exp)(?=-|$)"
)
_VENDOR = re.compile(r"(?:[a-z-]+\.)+(?=[a-z])")
_DIGITS = re.compile(r"(?<=\d)[.-](?=\d)")


def limits_of_name(name: str) -> Limits:
    """Return `max_input_tokens` and `max_output_tokens` of a model; empty where nobody tells.

    Names count as LangChain, LiteLLM, OpenRouter and the clouds spell them, with or without a
    provider, a region, a version or a variant. Where what is left of a name fits several models, or
    several packages tell of one, the smallest window holds.

    Args:
        name: Name of the model, such as `openai:gpt-4o` or `bedrock/us.anthropic.claude-opus-4-6`.
    """
    folders = tuple(sys.path)
    found = _found(name.lower(), _files(folders))
    if not found:
        _files.cache_clear()  # a notebook may have installed a package since
        found = _found(name.lower(), _files(folders))
    return found or limits_in_own_list(name)


def limits_in_own_list(name: str) -> Limits:
    """Return the limits of a model by our own list alone: for a model that has no profile."""
    return _found(name.lower(), _OWN)


@lru_cache(maxsize=1)
def _files(folders: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files with limits of models, in folders of packages."""
    patterns = (_PROFILES, _LITELLM)
    return tuple(
        file for folder in folders for pattern in patterns for file in Path(folder).glob(pattern)
    )


def _found(name: str, files: tuple[Path, ...]) -> Limits:
    exact, by_model, by_version = _registry(files)
    spellings = [*_spellings(name)]
    levels = (
        *((exact, one) for one in spellings),
        *((by_model, one) for one in spellings),
        *((by_version, _without_version(one)) for one in spellings),
    )
    return next((known[one] for known, one in levels if one in known), {})


@lru_cache(maxsize=2)
def _registry(files: tuple[Path, ...]) -> tuple[_Limits, _Limits, _Limits]:
    """Return the limits by name; by the name without provider; and by that without version."""
    exact: _Limits = {}
    for file in files:
        for name, limits in _checked(_table_in(file)):
            _note(exact, name, limits)
    by_model: _Limits = {}
    by_version: _Limits = {}
    for name, limits in exact.items():
        for spelling in _without_provider(name):
            _note(by_model, spelling, limits)
            _note(by_version, _without_version(spelling), limits)
    return exact, by_model, by_version


def _table_in(file: Path) -> Any:
    """Return what a file of a package holds: models by their names."""
    if file.suffix == ".json":
        return json.loads(file.read_text(encoding="utf-8"))
    spec = spec_from_file_location(f"{file.parts[-3]}.data._profiles", file)
    if spec is None or spec.loader is None:
        return {}
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "_PROFILES", {})


def _checked(told: Any) -> Iterator[tuple[str, Limits]]:
    """Yield the models that write text and whose window a package tells."""
    for name, profile in told.items() if isinstance(told, dict) else ():
        if not isinstance(profile, dict) or profile.get("mode", "chat") not in _MODES:
            continue
        limits = {
            key: profile[key]
            for key in ("max_input_tokens", "max_output_tokens")
            if isinstance(profile.get(key), int) and profile[key] > 0
        }
        if "max_input_tokens" in limits and profile.get("text_outputs", True):
            yield name.lower(), limits


def _note(found: _Limits, name: str, limits: Limits) -> None:
    known = found.get(name)
    if known is None or limits["max_input_tokens"] < known["max_input_tokens"]:
        found[name] = limits


def _spellings(name: str) -> Iterator[str]:
    """Yield a name with less and less of its provider, then the same without its variant.

    `openrouter/x/y:free` gives itself, `x/y:free`, `y:free`, `openrouter/x/y`, `x/y` and `y`.
    """
    ends = [len(name), *(one.start() for one in reversed([*re.finditer("[:@]", name)]))]
    for end in ends:
        head, colon, rest = name[:end].partition(":")
        yield from _without_provider(name[:end])
        if colon and "/" not in head:  # a provider as LangChain writes it
            yield from _without_provider(rest)


def _without_provider(name: str) -> Iterator[str]:
    """Yield a name with less and less in front of it: `a/us.b.c` gives `us.b.c` and `c`, too."""
    parts = name.split("/")
    for number in range(len(parts)):
        spelling = "/".join(parts[number:])
        yield spelling
        bare = _VENDOR.sub("", spelling, count=1) if _VENDOR.match(spelling) else spelling
        if bare != spelling:
            yield bare


def _without_version(name: str) -> str:
    """Return a name without the day of its version; `3.5`, `3-5` and `35` are one."""
    return _DIGITS.sub("", _VERSION.sub("", name))
