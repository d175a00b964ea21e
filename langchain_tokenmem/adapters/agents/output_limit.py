"""Model setting that limits an answer to the tokens that its request leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from langchain_tokenmem.core.chat_models import profile_of
from langchain_tokenmem.core.profiles import provider_of

_SETTINGS = {"google": "max_output_tokens", "ollama": "num_predict"}
"""Name of the setting where it is not `max_tokens`, by the beginning of the provider."""


def output_setting(
    model: Any, settings: Mapping[str, Any], left: int, name: str | Literal[True]
) -> dict[str, Any]:
    """Return model settings in which the answer has at most `left` tokens.

    Args:
        model: The chat model; its profile's `max_output_tokens` is respected.
        settings: What the application has set; its own smaller maximum stays.
        left: Tokens of the window that the request leaves.
        name: Name of the setting, or True to choose it by the provider.
    """
    provider = provider_of(model) or ""
    by_provider = (own for begin, own in _SETTINGS.items() if provider.startswith(begin))
    key = name if isinstance(name, str) else next(by_provider, "max_tokens")
    known = (settings.get(key), profile_of(model).get("max_output_tokens"))
    most = [value for value in known if isinstance(value, int) and value > 0]
    return {**settings, key: max(1, min([left, *most]))}
