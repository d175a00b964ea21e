"""A request that the provider refused as too long: how it is recognized, and the one after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from langchain_core.exceptions import ContextOverflowError

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.chat_models import MIN_CONTEXT_WINDOW
from langchain_tokenmem.core.view import View
from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.events import MemoryEvent
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.turns.conversation import TurnRequest

_RETRY_SHARE = 0.6
"""Share of a refused request that the second one may have: the provider's count differs from ours,
and by how much is unknown."""

OVERFLOW_MESSAGES: tuple[tuple[str, str], ...] = (
    ("OpenAI, vLLM, DeepSeek, Azure", r"maximum context length"),
    ("OpenAI", r"context_length_exceeded"),
    ("OpenAI Responses", r"exceeds? the context window"),
    ("OpenAI Responses", r"input tokens exceed the configured limit"),
    ("vLLM", r"prompt .{0,40}longer than the maximum model length"),
    ("LiteLLM, Together", r"(?:prompt|input) .{0,40}longer than the model's context length"),
    ("Anthropic", r"prompt is too long"),
    ("Anthropic", r"input length and .?max_tokens.? exceed context limit"),
    ("Gemini, Vertex AI", r"input token count.{0,40}exceeds the maximum number of tokens"),
    ("Bedrock", r"input is too long for requested model"),
    ("Bedrock", r"too many (?:input )?tokens"),
    ("Bedrock", r"number of input tokens exceeds maximum length"),
    ("Mistral", r"too large for model with \d+ maximum context"),
    ("Groq", r"reduce the length of the messages"),
    ("xAI", r"maximum prompt length is"),
    ("Cohere", r"too many tokens: total number of tokens in the prompt"),
    ("llama.cpp", r"exceeds the available context size"),
    ("Ollama", r"exceeds (?:the )?(?:maximum )?context (?:length|size)"),
    ("LM Studio, OpenRouter", r"context length (?:is|of) only"),
    ("LM Studio", r"initial prompt is greater than the context length"),
    ("Cerebras", r"please reduce.{0,80}current length is \d+ while limit is"),
    ("Text Generation Inference, Together", r"inputs?`? tokens? \+ `?max_new_tokens`? must be"),
    ("Text Generation Inference", r"`inputs` must have less than \d+ tokens"),
)
"""Providers and their wordings of an overflow: case-insensitive regular expressions."""

_RATE_LIMIT = re.compile(r"rate.?limit|tokens per (?:min|day)|quota", re.IGNORECASE)
_OVERFLOW = re.compile(
    "|".join(f"(?:{words})" for _, words in OVERFLOW_MESSAGES), re.IGNORECASE | re.DOTALL
)


def is_overflow(error: BaseException) -> bool:
    """Return whether a provider refused a request because it is too long.

    A rate limit does not count, even if its message mentions too many tokens: waiting helps there,
    shortening does not.

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


@contextmanager
def raising_first(first: BaseException) -> Iterator[None]:
    """Raise the error of a refused request again if the request after it fails in the same way."""
    try:
        yield
    except Exception as second:
        # The first error is the one to act on, unless the second is of another kind.
        if is_overflow(second) or isinstance(second, BudgetExceededError):
            raise first from second
        raise


OVERFLOW_INSTRUCTION = (
    "The provider refused the request as too long: keep only what the next steps need."
)
"""Instruction of the compaction that a refusal forces."""


def tighter_request(memory: TokenMemory, request: TurnRequest, refused: View) -> TurnRequest | None:
    """Return the request for the turn after a refused one; None if it cannot be smaller.

    Args:
        memory: Its memory, which reports the retry.
        request: The request of the refused turn.
        refused: The view of the refused turn.
    """
    sent = refused.usage.input_tokens
    smaller = smaller_budget(request.options.get("budget") or memory.budget, sent)
    if smaller is None:
        return None
    event = MemoryEvent(
        kind="overflow_retry", reason="limit", tokens_before=sent, tokens_after=smaller.limit
    )
    memory.engine.tell("end", event)
    return replace(
        request,
        options={**request.options, "budget": smaller},
        instruction=request.instruction or OVERFLOW_INSTRUCTION,
    )


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
    shares = replace(budget.shares, result_tokens=None)
    return replace(budget, context_window=window, reserve_output=0, shares=shares)
