"""Context windows of models that are given by their name only.

A chat model tells its window itself (`profile`, LangChain v1); a name tells nothing. The windows
are the `max_input_tokens` of the profiles in LangChain's own packages (langchain-openai 1.7.4,
-anthropic 1.7.10, -google-genai 4.4.2, -mistralai 1.1.6, -deepseek 1.1.1, -groq 1.1.3, generated
from models.dev), the smallest where members of a family differ. Those packages need not be
installed. OpenAI's, Anthropic's and Meta's models before those lists: their model pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

ModelLimits = Mapping[str, Mapping[str, int]]
"""`max_input_tokens` and `max_output_tokens` of models, by their name or a pattern of names."""

# Names come as openai:gpt-4o, azure/gpt-4o, vertex_ai/gemini-2.5-pro, anthropic/claude-opus-4.5,
# bedrock/us.anthropic.claude-..., meta-llama/llama-3.3-70b-instruct:free.
NAME_START = r"(?:^|[/:.])"
_NAME_END = r"(?![a-z0-9])"

# First match wins.
_WINDOWS = (
    (r"(?:chat)?gpt-4o|gpt-4\.5|gpt-4-(?:turbo|1106|0125|vision)", 128_000),
    (r"gpt-4\.1", 1_047_576),
    (r"gpt-4-32k", 32_768),
    (r"gpt-4", 8_192),
    (r"gpt-3\.?5", 16_385),
    (r"gpt-5\.3-codex-spark", 128_000),
    (r"gpt-5\.4-(?:mini|nano)|gpt-5\.3-codex", 400_000),
    (r"gpt-5\.[4-6]|gpt-6(?:\.\d)?", 1_050_000),
    (r"gpt-5(?:\.[1-3])?", 272_000),
    (r"gpt-oss", 131_072),
    (r"o1-(?:mini|preview)", 128_000),
    (r"o[134]", 200_000),
    (r"claude-(?:2(?:[.-]0)?|instant(?:-[\d.-]+)?)", 100_000),
    (r"claude-(?:opus|sonnet)-4[.-][6-9]|claude-(?:opus|sonnet|haiku|fable)-5", 1_000_000),
    (r"claude-(?:2[.-]1|3|(?:opus|sonnet|haiku)-4)", 200_000),
    (r"gemini-[\d.]+-(?:flash|pro)(?:-lite)?(?:-preview)?-(?:image|tts)", 8_192),
    (r"gemini-[\d.]+-flash-live", 131_072),
    (r"gemini-[\d.]+-(?:flash|pro)|gemini-(?:flash|flash-lite|pro)-latest", 1_048_576),
    (r"gemma-4", 262_144),
    (r"gemma-?3", 131_072),
    (r"gemma-?2", 8_192),
    (r"open-mistral-7b", 8_000),
    (r"(?:open-)?mixtral-8x22b", 64_000),
    (r"(?:open-)?mixtral-8x7b", 32_000),
    (r"mistral-(?:large|medium)-(?:2508|2512|2604|latest)", 262_144),
    (r"mistral-small-(?:2603|latest)|codestral", 256_000),
    (r"(?:open-)?mistral-(?:large|medium|small|nemo)", 128_000),
    (r"(?:ministral|magistral|devstral|pixtral)", 128_000),
    (r"deepseek-(?:v4|flash)", 1_000_000),
    (r"deepseek-r1-distill-llama", 131_072),
    (r"deepseek-(?:chat|reasoner|v3|r1)(?:[.-]\d)?", 128_000),
    (r"llama-?(?:3[.-][1-3]|4)", 131_072),
    (r"llama-?3", 8_192),
    (r"llama-?2", 4_096),
)
_PATTERNS = tuple((re.compile(f"{NAME_START}(?:{p}){_NAME_END}"), size) for p, size in _WINDOWS)


def window_of_name(name: str) -> int | None:
    """Return the window, in tokens, of a model by its name; None where it is not known.

    Example:
        >>> window_of_name("azure/gpt-4o")
        128000
    """
    lower = name.lower()
    return next((size for pattern, size in _PATTERNS if pattern.search(lower)), None)


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
