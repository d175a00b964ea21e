"""Reading of LangChain chat models: name, provider and profile, also inside other runnables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def unwrap_model(model: Any) -> Any:
    """Return the chat model inside bindings, retries, fallbacks and sequences."""
    for _ in range(16):
        inner = getattr(model, "bound", None) or getattr(model, "runnable", None)
        steps = getattr(model, "steps", None)
        if inner is None and isinstance(steps, list) and steps:
            # A parser may follow the model, a prompt comes before it.
            named = [step for step in steps if profile_of(step) or model_name(step)]
            inner = named[-1] if named else steps[-1]
        if inner is None or getattr(model, "profile", None):
            return model
        model = inner
    return model


def profile_of(model: Any) -> Mapping[str, Any]:
    """Return the profile of a chat model (`max_input_tokens`, ...); empty where it has none."""
    profile = getattr(unwrap_model(model), "profile", None)
    return profile if isinstance(profile, Mapping) else {}


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
