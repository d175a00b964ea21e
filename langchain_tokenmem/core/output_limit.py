"""Maximum of output tokens for a model call, set to what its request leaves of the window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from langchain_tokenmem.core.chat_models import told_limits, unwrap_model
from langchain_tokenmem.core.profiles import provider_of

_SETTINGS = {"google": "max_output_tokens", "ollama": "num_predict"}
"""Name of the setting where it is not `max_tokens`, by the beginning of the provider."""

_OWN_SETTINGS = ("max_tokens", "max_output_tokens", "max_completion_tokens", "num_predict")
"""Fields in which chat models hold the maximum that they were made with."""


def output_setting(
    model: Any, settings: Mapping[str, Any], left: int, name: str | Literal[True]
) -> dict[str, Any]:
    """Return model settings in which the answer has at most `left` tokens.

    Args:
        model: The chat model; the maximum that it was made with, and `max_output_tokens` of its
            profile, stay where they are smaller.
        settings: What the application has set; its own smaller maximum stays.
        left: Tokens that the request leaves for the answer.
        name: Name of the setting, or True to choose it by the provider.
    """
    provider = provider_of(model) or ""
    by_provider = (own for begin, own in _SETTINGS.items() if provider.startswith(begin))
    key = name if isinstance(name, str) else next(by_provider, "max_tokens")
    inner = unwrap_model(model)
    own = (getattr(inner, field, None) for field in dict.fromkeys((key, *_OWN_SETTINGS)))
    known = (settings.get(key), told_limits(model).get("max_output_tokens"), *own)
    most = [value for value in known if type(value) is int and value > 0]
    return {**settings, key: max(1, min([left, *most]))}
