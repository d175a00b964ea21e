"""Token budget of a request: the window, its shares and thresholds."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_tokenmem.core.chat_models import (
    MIN_CONTEXT_WINDOW,
    ModelLimits,
    checked_limits,
    checked_model,
    limits_of_model,
    model_name,
    window_of,
)
from langchain_tokenmem.errors import ConfigurationError

logger = logging.getLogger(__name__)

DEFAULT_CONTEXT_WINDOW = 16_384
"""Window, in tokens, of a model without a profile: small enough for every current one."""

MAX_CONTEXT_WINDOW = 1_000_000_000
"""No model accepts more tokens: a larger number is a mistake."""

REPLY_TOKENS = 3
"""Tokens that every request adds for the start of the reply: `<|start|>assistant<|message|>` in the
OpenAI cookbook, "How to count tokens with tiktoken"."""

_MOST_WORKING_RECALL = 200
"""Maximum tokens of the lines recalled beside one tool result: a call itself adds about 500."""

EXACT_MARGIN = 0.02
ESTIMATE_MARGIN = 0.10


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Largest share of each part of a request, and the length of shortened tool results.

    Args:
        recent: Share of the limit at the end of the conversation in which no tool result is
            shortened, and that `compact` by hand leaves verbatim.
        summary: Share of the limit that the running summary never exceeds.
        message: Share of the room beside the fixed parts that a single message, and all messages
            that must be present together, may take.
        pinned: Minimum share of the limit that the first request keeps if it is cut, which happens
            only if the budget's `target` cannot be reached with the whole of it.
        recall: Maximum share of the limit for recalled messages.
        notes: Maximum share of the limit for notes.
        working_recall: Maximum share of the limit for the lines recalled beside one tool result, at
            most 200 tokens; 0 for none.
        result_tokens: Tokens that an old tool result is shortened to. Default: a fortieth of the
            window, at most 1,000; no limit in tokens if `result_chars` is given.
        result_chars: Characters that it is shortened to; None for no limit in characters. If
            both are given, the smaller one applies.
        error_chars: Characters kept of an old tool result that reports an error.

    Raises:
        ConfigurationError: When a share is not a fraction, or a length is not a whole number.

    Example:
        >>> TokenBudget(8_000, shares=Shares(recall=0.1)).recall_tokens
        704
    """

    recent: float = 0.30
    summary: float = 0.20
    message: float = 0.80
    pinned: float = 0.15
    recall: float = 0.15
    notes: float = 0.05
    working_recall: float = 0.02
    result_tokens: int | None = None
    result_chars: int | None = None
    error_chars: int = 10_000

    def __post_init__(self) -> None:
        for name in ("recent", "summary", "message", "pinned", "recall", "notes"):
            _check_fraction(f"shares.{name}", getattr(self, name))
        if self.working_recall != 0:
            _check_fraction("shares.working_recall", self.working_recall)
        for name in ("result_tokens", "result_chars"):
            value = getattr(self, name)
            if value is not None and not _is_count(value):
                raise ConfigurationError(
                    f"shares.{name} is {value!r}; it must be 1 or more, or None."
                )
        if self.error_chars != 0 and not _is_count(self.error_chars):
            raise ConfigurationError(
                f"shares.error_chars is {self.error_chars!r}; it must be 0 or more."
            )


@dataclass(frozen=True)
class TokenBudget:
    """The window of a model and how a conversation may fill it.

    Thresholds are fractions of the window and act on the whole request. They keep a tenth of the
    window below the limit, so that a summary in the background has a head start of at least one
    exchange; otherwise all are lowered in proportion.

    Args:
        context_window: Tokens that the model can take, including the answer.
        reserve_output: Tokens kept free for the answer. Default: a tenth of the window, at most
            8,192.
        margin: Safety margin, as a fraction of the window. Default: 0.02 if counts are exact, 0.10
            if they are estimates (see docs/counting.md).
        compact_at: Above this, old tool results are shortened if that reaches `target`: the
            cheap and deterministic step first.
        summarize_at: Above this, the oldest groups are folded into the running summary, and
            `TokenUsage.near_limit` is true.
        target: Low watermark that both steps go down to: one change of the prefix buys many
            turns of cache hits.
        shares: The largest share of each part, and the length of shortened tool results.
        cache_ttl_s: Seconds that a provider keeps a cached prefix. After a longer pause nothing is
            cached any more, so a change of the prefix costs nothing: above `compact_at` it is made
            at once. None to ignore pauses.
        model: Name of the model whose tokens are counted; None counts with o200k_base.

    Raises:
        ConfigurationError: When the numbers cannot work together.

    Example:
        >>> TokenBudget(context_window=8_000).limit
        7040
    """

    context_window: int
    reserve_output: int = -1
    margin: float | None = field(default=None, kw_only=True)
    compact_at: float = field(default=0.75, kw_only=True)
    summarize_at: float = field(default=0.80, kw_only=True)
    target: float = field(default=0.40, kw_only=True)
    shares: Shares = field(default_factory=Shares, kw_only=True)
    cache_ttl_s: float | None = field(default=300.0, kw_only=True)
    model: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        window = self.context_window
        if not isinstance(window, int) or not MIN_CONTEXT_WINDOW <= window <= MAX_CONTEXT_WINDOW:
            raise ConfigurationError(
                f"context_window is {window!a:.40}; it needs to be a whole number of tokens, "
                f"at least {MIN_CONTEXT_WINDOW} and at most {MAX_CONTEXT_WINDOW:,}."
            )
        if self.reserve_output == -1:
            object.__setattr__(self, "reserve_output", min(8_192, window // 10))
        if not isinstance(self.shares, Shares):
            raise ConfigurationError(
                f"shares is {self.shares!r:.100}; pass a Shares, such as Shares(recall=0.1)."
            )
        self._check_numbers()
        self._check_order()

    def _check_numbers(self) -> None:
        for name in ("compact_at", "summarize_at", "target"):
            _check_fraction(name, getattr(self, name))
        if self.margin is not None and not 0 <= self.margin < 1:
            raise ConfigurationError(f"margin is {self.margin!r}; it is a fraction from 0 to 1.")
        if not isinstance(self.reserve_output, int) or self.reserve_output < 0:
            raise ConfigurationError(f"reserve_output is {self.reserve_output!r}; it is 0 or more.")
        if self.cache_ttl_s is not None and not (
            isinstance(self.cache_ttl_s, (int, float)) and self.cache_ttl_s > 0
        ):
            raise ConfigurationError(
                f"cache_ttl_s is {self.cache_ttl_s!r}; it is a number of seconds over 0, or None."
            )

    def _check_order(self) -> None:
        if self.limit < MIN_CONTEXT_WINDOW // 2:
            raise ConfigurationError(
                f"reserve_output={self.reserve_output:,} leaves {self.limit:,} of "
                f"{self.context_window:,} tokens for the request; reserve less."
            )
        if not self.target < self.compact_at <= self.summarize_at:
            raise ConfigurationError(
                f"target ({self.target}) < compact_at ({self.compact_at}) <= summarize_at "
                f"({self.summarize_at}) is needed: a step that starts below what it frees down to "
                f"would run at every call."
            )
        kept = (self.shares.recent + self.shares.summary) * self.limit
        if kept >= self.summarize_tokens:
            raise ConfigurationError(
                f"shares.recent ({self.shares.recent}) and shares.summary ({self.shares.summary}) "
                f"keep {kept:,.0f} tokens, summarize_at starts at {self.summarize_tokens:,}: "
                f"summarization would run at every call. Lower the shares or raise summarize_at. "
                f"Or leave shares and thresholds at their defaults, and pass "
                f"trigger=('tokens', {self.summarize_tokens}) to the memory."
            )

    @classmethod
    def for_model(
        cls, model: Any, *, models: ModelLimits | None = None, **fields: Any
    ) -> TokenBudget:
        """Return the budget of a chat model, read from its own `profile` (LangChain v1).

        Args:
            model: A chat model, a runnable around one (of fallbacks the smallest window counts),
                or a model's name as spelled by LangChain, LiteLLM, OpenRouter or a cloud.
            models: `max_input_tokens` and `max_output_tokens`, in tokens, of models without a
                profile, by their name or a pattern such as `glm-4.*`, case-insensitive.
            fields: Any field of `TokenBudget`; it takes precedence over the profile.

        Returns:
            A budget; for a chat model without a profile, one of `DEFAULT_CONTEXT_WINDOW` tokens,
            with one warning in the log that says how to set the real window.

        Raises:
            ConfigurationError: When the window of a named model is neither known nor given.

        Example:
            >>> TokenBudget.for_model("my-deployment", context_window=32_000).context_window
            32000
        """
        name = model_name(checked_model(model, 'TokenBudget.for_model("openai:gpt-4o")'))
        profile = limits_of_model(model, checked_limits(models))
        given = fields.pop("context_window", None)
        window = window_of(model, models) if given is None else given
        if window is None and isinstance(model, str):
            raise _unknown(model)
        if window is None:
            logger.warning(
                "The context window of %s is not known; %s tokens are assumed. Pass "
                "TokenBudget(context_window=...) or give the model a profile.",
                name or type(model).__name__,
                f"{DEFAULT_CONTEXT_WINDOW:,}",
            )
            window = DEFAULT_CONTEXT_WINDOW
        most = profile.get("max_output_tokens")
        if isinstance(most, int) and most > 0 and isinstance(window, int):
            fields.setdefault("reserve_output", min(most, 8_192, window // 10))
        return cls(window, model=fields.pop("model", name), **fields)

    @classmethod
    def loaded(cls, stored: Mapping[str, Any]) -> TokenBudget:
        """Return a budget from what `dataclasses.asdict` made of it."""
        return cls(**{**stored, "shares": Shares(**stored["shares"])})

    def in_window(self, window: int, most_output: int | None = None) -> TokenBudget:
        """Return this budget for another window; unchanged if that is below the smallest one.

        The default reserve and length of old results depend on the window; given ones are kept up
        to a quarter of it.

        Args:
            window: In tokens.
            most_output: The model's longest answer, in tokens, which a default reserve does
                not exceed; None if it is not known.
        """
        if window < MIN_CONTEXT_WINDOW:
            return self
        reserve = self.reserve_output
        if reserve == replace(self, reserve_output=-1).reserve_output:
            reserve = min(most_output or 8_192, 8_192, window // 10)
        shares, given = self.shares, self.shares.result_tokens
        if given is not None:
            shares = replace(shares, result_tokens=min(given, window // 4))
        return replace(
            self,
            context_window=window,
            reserve_output=min(reserve, window // 4),
            shares=shares,
        )

    def with_fold_at(self, tokens: float) -> TokenBudget:
        """Return this budget with thresholds and shares of a smaller window, and the same limit.

        Args:
            tokens: Size of a request at which a summary is due; from `summarize_at` on nothing
                changes.
        """
        scale = min(1.0, tokens / self.summarize_tokens)
        shares = replace(
            self.shares,
            recent=scale * self.shares.recent,
            summary=scale * self.shares.summary,
        )
        return replace(
            self,
            compact_at=scale * self.compact_at,
            summarize_at=scale * self.summarize_at,
            target=scale * self.target,
            shares=shares,
        )

    def for_counts(self, *, exact: bool) -> TokenBudget:
        """Return this budget with the margin for exact or estimated counts."""
        if self.margin is not None:
            return self
        return replace(self, margin=EXACT_MARGIN if exact else ESTIMATE_MARGIN)

    @property
    def limit(self) -> int:
        """Maximum tokens of a request. Hard: no view exceeds it."""
        margin = EXACT_MARGIN if self.margin is None else self.margin
        return self.context_window - self.reserve_output - round(margin * self.context_window)

    def _threshold(self, share: float) -> int:
        # If most of the window is reserved for the answer, a quarter of the limit is enough.
        highest = self.limit - min(self.context_window // 10, self.limit // 4)
        scale = min(1.0, highest / (self.summarize_at * self.context_window))
        return int(share * scale * self.context_window)

    @property
    def compact_tokens(self) -> int:
        """`compact_at` in tokens, below the limit."""
        return self._threshold(self.compact_at)

    @property
    def summarize_tokens(self) -> int:
        """`summarize_at` in tokens, below the limit."""
        return self._threshold(self.summarize_at)

    @property
    def target_tokens(self) -> int:
        """`target` in tokens."""
        return self._threshold(self.target)

    @property
    def recent_tokens(self) -> int:
        """`shares.recent` in tokens."""
        return int(self.shares.recent * self.limit)

    @property
    def summary_tokens(self) -> int:
        """`shares.summary` in tokens."""
        return int(self.shares.summary * self.limit)

    @property
    def pinned_tokens(self) -> int:
        """`shares.pinned` in tokens."""
        return int(self.shares.pinned * self.limit)

    @property
    def recall_tokens(self) -> int:
        """`shares.recall` in tokens."""
        return int(self.shares.recall * self.limit)

    @property
    def notes_tokens(self) -> int:
        """`shares.notes` in tokens."""
        return int(self.shares.notes * self.limit)

    @property
    def working_recall_tokens(self) -> int:
        """`shares.working_recall` in tokens, at most 200."""
        return min(_MOST_WORKING_RECALL, int(self.shares.working_recall * self.limit))

    @property
    def result_tokens(self) -> int:
        """`shares.result_tokens`, or its default."""
        if self.shares.result_tokens is not None:
            return self.shares.result_tokens
        default = max(48, min(1_000, self.context_window // 40))
        return default if self.shares.result_chars is None else self.context_window


def _check_fraction(name: str, value: Any) -> None:
    if not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise ConfigurationError(f"{name} is {value!r}; it must be above 0 and at most 1.")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _unknown(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"The context window of a model named {name!r} is not known. Give it, "
        f"TokenBudget.for_model({name!r}, context_window=...), in tokens; or pass the chat model "
        f"itself, whose profile tells it. Names are known where the LangChain package of the "
        f"provider is installed, such as langchain-openai, or litellm."
    )
