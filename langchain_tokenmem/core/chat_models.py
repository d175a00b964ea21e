"""What is known about a chat model: its name, its profile, and the limits known for its name.

A chat model is also found inside other runnables. Limits by name come from the data of installed
packages: LangChain's partner packages contain the profiles of their provider's models
(`data/_profiles.py`, generated from models.dev), LiteLLM a list of the models of all providers. The
files are read without importing the packages, which takes seconds. Our own list,
`known_models.json`, is for a bare install and comes last.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable, RunnableWithFallbacks

from langchain_tokenmem.errors import ConfigurationError

ModelLimits = Mapping[str, Mapping[str, int]]
"""`max_input_tokens` and `max_output_tokens` of models, by name or a pattern of names."""

MIN_CONTEXT_WINDOW = 256
"""With fewer tokens, a question, an answer and a summary do not fit together."""

# Names come as openai:gpt-4o, azure/gpt-4o, vertex_ai/gemini-2.5-pro, anthropic/claude-opus-4.5,
# bedrock/us.anthropic.claude-..., meta-llama/llama-3.3-70b-instruct:free.
NAME_START = r"(?:^|[/:.])"

_LIMITS = ("max_input_tokens", "max_output_tokens")
_EXAMPLE = '{"glm-4.*": {"max_input_tokens": 128_000, "max_output_tokens": 8_192}}'


def checked_limits(models: ModelLimits | None) -> ModelLimits | None:
    """Return the limits of models that an application has passed.

    Raises:
        ConfigurationError: When one is missing, or is no whole number above 0.
    """
    if models is not None and not isinstance(models, Mapping):
        raise ConfigurationError(f"models is not a dict of limits; pass models={_EXAMPLE}.")
    for name, limits in (models or {}).items():
        found = [limits.get(key) for key in _LIMITS] if isinstance(limits, Mapping) else []
        given = [most for most in found if most is not None]
        if not (isinstance(name, str) and given) or any(not _is_limit(most) for most in given):
            raise ConfigurationError(
                f"models[{name!r}] has no usable limits. Give them in tokens: models={_EXAMPLE}."
            )
    return models


def _is_limit(value: Any) -> bool:
    return type(value) is int and value > 0


def limits_of(name: str | None, models: ModelLimits | None) -> Mapping[str, int]:
    """Return the limits that an application gives for a model; empty if it gives none.

    A name matches with and without its provider, case-insensitively. The name itself takes
    precedence over a pattern; of several patterns the first one applies.

    Args:
        name: Name of the model; None if it has none.
        models: Limits by name or by a shell-style pattern, such as `glm-4.*`.

    Example:
        >>> limits_of("zai:GLM-4.7", {"glm-*": {"max_input_tokens": 128_000}})
        {'max_input_tokens': 128000}
    """
    if not name or not models:
        return {}
    names = [name.lower(), re.split("[/:]", name.lower())[-1]]
    exact = (limits for key, limits in models.items() if key.lower() in names)
    alike = (
        limits
        for pattern, limits in models.items()
        if any(fnmatchcase(one, pattern.lower()) for one in names)
    )
    return next(exact, None) or next(alike, {})


_DEEPEST = 16


def checked_model(model: Any, line: str) -> Any:
    """Return a value that can be a model: a name, a runnable, or an object with name or profile.

    Args:
        model: An argument.
        line: How to write it.

    Raises:
        ConfigurationError: When it cannot be one.
    """
    may_be = isinstance(model, str | Runnable) or profile_of(model) or model_name(model)
    if not may_be or isinstance(model, type):
        raise ConfigurationError(
            f"model is of type {type(model).__name__}; pass a chat model or its name: {line}."
        )
    return model


def _inner(model: Any) -> Any:
    """Return what a binding, retry, fallback or sequence contains; None for a model itself."""
    inner = getattr(model, "bound", None) or getattr(model, "runnable", None)
    steps = getattr(model, "steps", None)
    if inner is None and isinstance(steps, list) and steps:
        # A parser may follow the model, a prompt comes before it.
        named = [step for step in steps if profile_of(step) or model_name(step)]
        inner = named[-1] if named else steps[-1]
    return inner


def unwrap_model(model: Any) -> Any:
    """Return the chat model inside bindings, retries, fallbacks and sequences."""
    for _ in range(_DEEPEST):
        inner = _inner(model)
        if inner is None or getattr(model, "profile", None):
            return model
        model = inner
    return model


def models_of(model: Any) -> list[Any]:
    """Return every chat model that a call may reach: the model and its fallbacks."""
    for _ in range(_DEEPEST):
        if isinstance(model, RunnableWithFallbacks):
            return [one for part in model.runnables for one in models_of(part)]
        inner = _inner(model)
        if inner is None:
            return [model]
        model = inner
    return [model]


def profile_of(model: Any) -> Mapping[str, Any]:
    """Return the profile of a chat model (`max_input_tokens`, ...); empty if it has none."""
    profile = getattr(unwrap_model(model), "profile", None)
    return profile if isinstance(profile, Mapping) else {}


def limits_of_model(model: Any, models: ModelLimits | None = None) -> Mapping[str, Any]:
    """Return the limits of one model: from its profile, else from `models`; empty if unknown.

    A name has no profile: if it is not in `models`, installed packages are searched. For a chat
    model without a profile, whose name may mean anything, only our own short list is read.

    Args:
        model: A chat model, or a name.
        models: Limits of models whose profile has no window, by names and patterns.
    """
    profile = profile_of(model)
    if profile.get("max_input_tokens"):
        return profile
    name = model_name(model) or ""
    given = limits_of(name, models)
    by_name = limits_of_name if isinstance(model, str) else limits_in_own_list
    return {**({} if given else by_name(name)), **profile, **given}


def window_of(model: Any, models: ModelLimits | None = None) -> int | None:
    """Return the smallest window of the models that a call may reach; None if none is known.

    Args:
        model: A chat model, a runnable around one, or a name.
        models: Limits of models without a profile, by names and patterns.
    """
    windows = (limits_of_model(one, models).get("max_input_tokens") for one in models_of(model))
    # A profile that was read from a file may have 8000.0.
    known = (one for one in windows if isinstance(one, int | float))
    return min((int(one) for one in known if MIN_CONTEXT_WINDOW <= one < math.inf), default=None)


def model_name(model: Any) -> str | None:
    """Return the name under which a chat model is known to its provider."""
    if isinstance(model, str):
        return model
    inner = unwrap_model(model)
    for attribute in ("model_name", "model", "model_id"):
        name = getattr(inner, attribute, None)
        if isinstance(name, str) and name:
            return name
    return None


_PROFILES = "langchain_*/data/_profiles.py"
_LITELLM = "litellm/model_prices_and_context_window_backup.json"
_OWN = (Path(__file__).with_name("known_models.json"),)

_MODES = {"chat", "completion", "responses"}
"""Kinds of models in LiteLLM's list that answer with text."""

Limits = Mapping[str, int]
_Limits = dict[str, Limits]

# -2024-08-06, -20250929, -0125, -001, -08-2024, -05-06: the date of a version; -latest, -v1, ...
_VERSION = re.compile(
    r"-(?:\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d|\d{3,8}|v\d+|latest|preview|exp)(?=-|$)"
)
_VENDOR = re.compile(r"(?:[a-z-]+\.)+(?=[a-z])")
_DIGITS = re.compile(r"(?<=\d)[.-](?=\d)")


def limits_of_name(name: str) -> Limits:
    """Return `max_input_tokens` and `max_output_tokens` of a model; empty if unknown.

    Names are accepted as spelled by LangChain, LiteLLM, OpenRouter and the clouds, with or without
    a provider, region, version or variant. If what is left of a name matches several models, or
    several packages list one, the smallest window applies.

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
    """Return a model's limits from our own list only: for a model without a profile."""
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
    """Return the limits by name; by name without provider; and by that without version."""
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
    """Return the contents of a package's file: models by name."""
    if file.suffix == ".json":
        return json.loads(file.read_text(encoding="utf-8"))
    spec = spec_from_file_location(f"{file.parts[-3]}.data._profiles", file)
    if spec is None or spec.loader is None:
        return {}
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "_PROFILES", {})


def _checked(listed: Any) -> Iterator[tuple[str, Limits]]:
    """Yield the models that write text and whose window a package lists."""
    for name, profile in listed.items() if isinstance(listed, dict) else ():
        if not isinstance(profile, dict) or profile.get("mode", "chat") not in _MODES:
            continue
        limits = {key: profile[key] for key in _LIMITS if _is_limit(profile.get(key))}
        if "max_input_tokens" in limits and profile.get("text_outputs", True):
            yield name.lower(), limits


def _note(found: _Limits, name: str, limits: Limits) -> None:
    known = found.get(name)
    if known is None or limits["max_input_tokens"] < known["max_input_tokens"]:
        found[name] = limits


def _spellings(name: str) -> Iterator[str]:
    """Yield a name with ever less of its provider, then the same without its variant.

    `openrouter/x/y:free` gives itself, `x/y:free`, `y:free`, `openrouter/x/y`, `x/y` and `y`.
    """
    ends = [len(name), *(one.start() for one in reversed([*re.finditer("[:@]", name)]))]
    for end in ends:
        head, colon, rest = name[:end].partition(":")
        yield from _without_provider(name[:end])
        if colon and "/" not in head:  # a provider as LangChain writes it
            yield from _without_provider(rest)


def _without_provider(name: str) -> Iterator[str]:
    """Yield a name with ever shorter prefixes: `a/us.b.c` also gives `us.b.c` and `c`."""
    parts = name.split("/")
    for number in range(len(parts)):
        spelling = "/".join(parts[number:])
        yield spelling
        bare = _VENDOR.sub("", spelling, count=1) if _VENDOR.match(spelling) else spelling
        if bare != spelling:
            yield bare


def _without_version(name: str) -> str:
    """Return a name without the date of its version; `3.5`, `3-5` and `35` are the same."""
    return _DIGITS.sub("", _VERSION.sub("", name))
