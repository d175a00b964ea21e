"""Errors by which providers refuse a request as longer than the model's window, and the next try.

Two integrations of LangChain raise `ContextOverflowError`; the others raise whatever their
client raises for HTTP 400, and only the words tell. The table holds those words, as they stand in
the providers' own documentation, clients and issue trackers.
"""

from __future__ import annotations

import re
from dataclasses import replace

from langchain_core.exceptions import ContextOverflowError

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.chat_models import MIN_CONTEXT_WINDOW

_RETRY_SHARE = 0.6
"""Share of a refused request that the second one may have: the provider counted otherwise than
we did, and by how much is not known."""

OVERFLOW_MESSAGES: tuple[tuple[str, str], ...] = (
    ("OpenAI, vLLM, DeepSeek, Azure", r"maximum context length"),
    ("OpenAI", r"context_length_exceeded"),
    ("OpenAI Responses", r"exceeds? the context window"),
    ("Anthropic", r"prompt is too long"),
    ("Anthropic", r"input length and .?max_tokens.? exceed context limit"),
    ("Gemini, Vertex AI", r"input token count.{0,40}exceeds the maximum number of tokens"),
    ("Bedrock", r"input is too long for requested model"),
    ("Bedrock", r"too many (?:input )?tokens"),
    ("Mistral", r"too large for model with \d+ maximum context"),
    ("Groq", r"reduce the length of the messages"),
    ("xAI", r"maximum prompt length is"),
    ("Cohere", r"too many tokens: total number of tokens in the prompt"),
    ("llama.cpp", r"exceeds the available context size"),
    ("Ollama", r"exceeds (?:the )?(?:maximum )?context (?:length|size)"),
    ("Together, Fireworks", r"inputs? tokens? \+ max_new_tokens must be"),
    ("OpenRouter", r"context length is only"),
)
"""Providers and their words for an overflow: regular expressions, in any case of letters."""

_RATE_LIMIT = re.compile(r"rate.?limit|tokens per (?:min|day)|quota", re.IGNORECASE)
_OVERFLOW = re.compile(
    "|".join(f"(?:{words})" for _, words in OVERFLOW_MESSAGES), re.IGNORECASE | re.DOTALL
)


def is_overflow(error: BaseException) -> bool:
    """Return whether a provider refused a request because it is too long.

    A rate limit is none, even where it speaks of too many tokens: waiting heals it, shortening
    does not.

    Example:
        >>> is_overflow(ValueError("This model's maximum context length is 8192 tokens."))
        True
        >>> is_overflow(ValueError("Rate limit: too many tokens per minute"))
        False
    """
    if isinstance(error, ContextOverflowError):
        return True
    words = str(error)
    return bool(_OVERFLOW.search(words)) and not _RATE_LIMIT.search(words)


def smaller_budget(budget: TokenBudget, sent: int) -> TokenBudget | None:
    """Return the budget of the request after a refused one; None if it cannot be smaller.

    Args:
        budget: The budget of the refused request.
        sent: Tokens of the refused request, as they were counted here.
    """
    goal = int(_RETRY_SHARE * sent)
    window = max(MIN_CONTEXT_WINDOW, round(goal / (1 - (budget.margin or 0))))
    if window >= sent:
        return None
    return replace(budget, context_window=window, reserve_output=0, result_tokens=-1)
