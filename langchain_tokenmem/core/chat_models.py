"""Reading of LangChain chat models: name, provider and profile, also inside other runnables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from langchain_core.runnables import Runnable, RunnableWithFallbacks

from langchain_tokenmem.core.installed_profiles import limits_in_own_list, limits_of_name
from langchain_tokenmem.errors import ConfigurationError

ModelLimits = Mapping[str, Mapping[str, int]]
"""`max_input_tokens` and `max_output_tokens` of models, by their name or a pattern of names."""

MIN_CONTEXT_WINDOW = 256
"""Below this many tokens a question, an answer and a summary have no room beside each other."""

# Names come as openai:gpt-4o, azure/gpt-4o, vertex_ai/gemini-2.5-pro, anthropic/claude-opus-4.5,
# bedrock/us.anthropic.claude-..., meta-llama/llama-3.3-70b-instruct:free.
NAME_START = r"(?:^|[/:.])"


def limits_of(name: str | None, models: ModelLimits | None) -> Mapping[str, int]:
    """Return the limits that an application gives for a model; empty where it gives none.

    A name counts with and without its provider, whatever its capitals. The name itself beats a
    pattern, of several patterns the first one holds.

    Args:
        name: Name of the model; None where it has none.
        models: Limits by name or by a pattern of shells, such as `glm-4.*`.

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
    """Return a model if it may be one: a name, a runnable, or what tells its name or profile.

    Args:
        model: An argument.
        line: How to write it.

    Raises:
        ConfigurationError: When it is none.
    """
    may_be = isinstance(model, str | Runnable) or profile_of(model) or model_name(model)
    if not may_be or isinstance(model, type):
        raise ConfigurationError(
            f"model is of type {type(model).__name__}; a chat model or its name belongs there: "
            f"{line}."
        )
    return model


def _inner(model: Any) -> Any:
    """Return what a binding, a retry, a fallback or a sequence holds; None of a model itself."""
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
    """Return every chat model that a call may reach: the model, and those it falls back to."""
    for _ in range(_DEEPEST):
        if isinstance(model, RunnableWithFallbacks):
            return [one for part in model.runnables for one in models_of(part)]
        inner = _inner(model)
        if inner is None:
            return [model]
        model = inner
    return [model]


def profile_of(model: Any) -> Mapping[str, Any]:
    """Return the profile of a chat model (`max_input_tokens`, ...); empty where it has none."""
    profile = getattr(unwrap_model(model), "profile", None)
    return profile if isinstance(profile, Mapping) else {}


def told_limits(model: Any, models: ModelLimits | None = None) -> Mapping[str, Any]:
    """Return the limits of one model: those of its profile, else of `models`; empty for none.

    A name has no profile: where `models` does not know it, installed packages may. For a chat model
    without a profile, which may be anyone's whatever its name, only our own short list is read.

    Args:
        model: A chat model, or a name.
        models: Limits of models whose profile tells no window, by their names and patterns.
    """
    profile = profile_of(model)
    if profile.get("max_input_tokens"):
        return profile
    name = model_name(model) or ""
    given = limits_of(name, models)
    by_name = limits_of_name if isinstance(model, str) else limits_in_own_list
    return {**({} if given else by_name(name)), **profile, **given}


def window_of(model: Any, models: ModelLimits | None = None) -> int | None:
    """Return the smallest window of the models that a call may reach; None where none is known.

    Args:
        model: A chat model, a runnable around one, or a name.
        models: Limits of models without a profile, by their names and patterns.
    """
    told = (told_limits(one, models).get("max_input_tokens") for one in models_of(model))
    possible = (one for one in told if isinstance(one, int) and one >= MIN_CONTEXT_WINDOW)
    return min(possible, default=None)


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
