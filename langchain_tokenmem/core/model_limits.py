"""Limits of models by their names: those that an application gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

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
