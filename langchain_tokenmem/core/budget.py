"""Token budget of a request: the window, its shares and thresholds."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields, replace
from typing import Any

from langchain_tokenmem.core.chat_models import (
    MIN_CONTEXT_WINDOW,
    ModelLimits,
    checked_model,
    model_name,
    told_limits,
    window_of,
)
from langchain_tokenmem.errors import ConfigurationError

logger = logging.getLogger(__name__)

DEFAULT_CONTEXT_WINDOW = 16_384
"""Window, in tokens, of a model without a profile: small enough for every current one."""

MAX_CONTEXT_WINDOW = 1_000_000_000
"""No model takes more tokens: a larger number is a mistake."""

REPLY_TOKENS = 3
"""Tokens that every request adds for the start of the reply: `<|start|>assistant<|message|>` in the
OpenAI cookbook, "How to count tokens with tiktoken"."""

EXACT_MARGIN = 0.02
ESTIMATE_MARGIN = 0.10


@dataclass(frozen=True)
class TokenBudget:
    """The window of a model and how a conversation may fill it.

    Shares and thresholds are fractions. Thresholds are of the window and act on the whole
    request. They keep a tenth of the window below the limit, so that a summary in the background
    has a head start of at least one exchange; where they would not, all are lowered in proportion.

    Args:
        context_window: Tokens that the model can take, answer included.
        reserve_output: Tokens kept free for the answer. Default: a tenth of the window, at most
            8,192.
        margin: Safety, as a fraction of the window. Default: 0.02 where counts are exact, 0.10
            where they are estimates (see docs/counting.md).
        warn_at: From here on `TokenUsage.near_limit` is true.
        compact_at: From here on old tool results are shortened, if that reaches `target`: the
            cheap and deterministic step first.
        summarize_at: From here on the oldest groups are folded into the running summary.
        target: Low watermark that both steps go down to: one change of the prefix buys many
            turns of cache hits.
        recent_share: Share of the limit at the end of the conversation in which no tool result is
            shortened, and that `compact` by hand leaves verbatim.
        summary_share: Share of the limit that the running summary may never grow past.
        message_share: Share of the room beside the fixed parts that a single message, and all
            messages that must be present together, may take.
        pinned_share: Share of the limit that the first request keeps at least where it is cut: only
            where `target` cannot be reached beside the whole of it.
        recall_share: Ceiling of recalled messages, of the limit.
        notes_share: Ceiling of notes, of the limit.
        result_tokens: Tokens that an old tool result is shortened to. Default: a fortieth of the
            window, at most 1,000; no limit in tokens where `result_chars` is given.
        result_chars: Characters that it is shortened to; None for no limit in characters. Where
            both are given, the smaller one wins.
        error_chars: Characters kept of an old tool result that reports an error.
        cache_ttl_s: Seconds that a provider keeps a cached prefix. After a longer pause nothing is
            cached any more, so a change of the prefix costs nothing: above `compact_at` it is made
            at once. None: pauses do not matter.
        model: Name of the model that is counted for; None counts with o200k_base.

    Raises:
        ConfigurationError: When the numbers cannot work together.

    Example:
        >>> TokenBudget(context_window=8_000).limit
        7040
    """

    context_window: int
    reserve_output: int = -1
    margin: float | None = field(default=None, kw_only=True)
    warn_at: float = field(default=0.80, kw_only=True)
    compact_at: float = field(default=0.75, kw_only=True)
    summarize_at: float = field(default=0.80, kw_only=True)
    target: float = field(default=0.40, kw_only=True)
    recent_share: float = field(default=0.30, kw_only=True)
    summary_share: float = field(default=0.20, kw_only=True)
    message_share: float = field(default=0.80, kw_only=True)
    pinned_share: float = field(default=0.15, kw_only=True)
    recall_share: float = field(default=0.15, kw_only=True)
    notes_share: float = field(default=0.05, kw_only=True)
    result_tokens: int = field(default=-1, kw_only=True)
    result_chars: int | None = field(default=None, kw_only=True)
    error_chars: int = field(default=10_000, kw_only=True)
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
        if self.result_tokens == -1:
            default = max(48, min(1_000, window // 40))
            only_chars = self.result_chars is not None
            object.__setattr__(self, "result_tokens", window if only_chars else default)
        self._check_fractions()
        self._check_order()

    def _check_fractions(self) -> None:
        for name in (
            one.name for one in fields(self) if one.name.endswith(("_at", "_share", "target"))
        ):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 < value <= 1:
                raise ConfigurationError(f"{name} is {value!r}; it is a fraction, over 0 up to 1.")
        if self.margin is not None and not 0 <= self.margin < 1:
            raise ConfigurationError(f"margin is {self.margin!r}; it is a fraction from 0 to 1.")
        for name in ("reserve_output", "error_chars"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 0:
                raise ConfigurationError(f"{name} is {getattr(self, name)!r}; it is 0 or more.")
        if self.cache_ttl_s is not None and not (
            isinstance(self.cache_ttl_s, (int, float)) and self.cache_ttl_s > 0
        ):
            raise ConfigurationError(
                f"cache_ttl_s is {self.cache_ttl_s!r}; it is a number of seconds over 0, or None."
            )
        if not isinstance(self.result_tokens, int) or self.result_tokens < 1:
            raise ConfigurationError(f"result_tokens is {self.result_tokens!r}; it is 1 or more.")
        if self.result_chars is not None and not _is_count(self.result_chars):
            raise ConfigurationError(
                f"result_chars is {self.result_chars!r}; it is 1 or more, or None for any number."
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
        kept = (self.recent_share + self.summary_share) * self.limit
        if kept >= self.summarize_tokens:
            raise ConfigurationError(
                f"recent_share ({self.recent_share}) and summary_share ({self.summary_share}) keep "
                f"{kept:,.0f} tokens, summarize_at starts at {self.summarize_tokens:,}: "
                f"summarization would run at every call. Lower the shares or raise summarize_at."
            )

    @classmethod
    def for_model(
        cls, model: Any, *, models: ModelLimits | None = None, **fields: Any
    ) -> TokenBudget:
        """Return the budget of a chat model, read from its own `profile` (LangChain v1).

        Args:
            model: A chat model, a runnable around one (of fallbacks the smallest window counts),
                or a model's name as LangChain, LiteLLM, OpenRouter and the clouds spell it.
            models: `max_input_tokens` and `max_output_tokens`, in tokens, of models without a
                profile, by their name or a pattern such as `glm-4.*`; capitals matter not.
            fields: Any field of `TokenBudget`; it beats what the profile says.

        Returns:
            A budget; of a chat model without a profile one of `DEFAULT_CONTEXT_WINDOW` tokens, with
            one warning in the log that says how to give the real window.

        Raises:
            ConfigurationError: When the window of a name is not known and not given.

        Example:
            >>> TokenBudget.for_model("my-deployment", context_window=32_000).context_window
            32000
        """
        name = model_name(checked_model(model, 'TokenBudget.for_model("openai:gpt-4o")'))
        profile = told_limits(model, models)
        given = fields.pop("context_window", None)
        window = window_of(model, models) if given is None else given
        if window is None and isinstance(model, str):
            raise _unknown(model)
        if window is None:
            logger.warning(
                "The model %s does not tell its context window; %s tokens are assumed. Pass "
                "TokenBudget(context_window=...) or give the model a profile.",
                name or type(model).__name__,
                f"{DEFAULT_CONTEXT_WINDOW:,}",
            )
            window = DEFAULT_CONTEXT_WINDOW
        most = profile.get("max_output_tokens")
        if isinstance(most, int) and most > 0 and isinstance(window, int):
            fields.setdefault("reserve_output", min(most, 8_192, window // 10))
        return cls(window, model=fields.pop("model", name), **fields)

    def within(self, window: int | None) -> TokenBudget:
        """Return this budget in a window, if that is smaller than its own; itself else.

        None stands for a window that is not known.
        """
        return self if window is None or window >= self.context_window else self.in_window(window)

    def in_window(self, window: int, most_output: int | None = None) -> TokenBudget:
        """Return this budget in another window; itself where that is below the smallest one.

        A default reserve and length of old results follow the window, given ones are kept up to a
        quarter of it.

        Args:
            window: In tokens.
            most_output: The longest answer of the model, in tokens, which a default reserve does
                not pass; None where it is not known.
        """
        if window < MIN_CONTEXT_WINDOW:
            return self
        default = replace(self, reserve_output=-1, result_tokens=-1)
        most = min(most_output or 8_192, 8_192, window // 10)

        def follow(own: int, default: int, new: int) -> int:
            return new if own == default else min(own, window // 4)

        return replace(
            self,
            context_window=window,
            reserve_output=follow(self.reserve_output, default.reserve_output, most),
            result_tokens=follow(self.result_tokens, default.result_tokens, -1),
        )

    def for_counts(self, *, exact: bool) -> TokenBudget:
        """Return this budget with the margin that the way of counting asks for."""
        if self.margin is not None:
            return self
        return replace(self, margin=EXACT_MARGIN if exact else ESTIMATE_MARGIN)

    @property
    def limit(self) -> int:
        """Most tokens that a request may have. Hard: no view exceeds it."""
        margin = EXACT_MARGIN if self.margin is None else self.margin
        return self.context_window - self.reserve_output - round(margin * self.context_window)

    def _threshold(self, share: float) -> int:
        # Where most of the window is reserved for the answer, a quarter of the limit is enough.
        highest = self.limit - min(self.context_window // 10, self.limit // 4)
        scale = min(1.0, highest / (max(self.warn_at, self.summarize_at) * self.context_window))
        return int(share * scale * self.context_window)

    @property
    def warn_tokens(self) -> int:
        """`warn_at` in tokens, below the limit."""
        return self._threshold(self.warn_at)

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
        """`recent_share` in tokens."""
        return int(self.recent_share * self.limit)

    @property
    def summary_tokens(self) -> int:
        """`summary_share` in tokens."""
        return int(self.summary_share * self.limit)

    @property
    def pinned_tokens(self) -> int:
        """`pinned_share` in tokens."""
        return int(self.pinned_share * self.limit)

    @property
    def recall_tokens(self) -> int:
        """`recall_share` in tokens."""
        return int(self.recall_share * self.limit)

    @property
    def notes_tokens(self) -> int:
        """`notes_share` in tokens."""
        return int(self.notes_share * self.limit)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _unknown(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"The context window of a model named {name!r} is not known. Give it, "
        f"TokenBudget.for_model({name!r}, context_window=...), in tokens; or pass the chat model "
        f"itself, whose profile tells it. Names are known where the LangChain package of the "
        f"provider is installed, such as langchain-openai, or litellm."
    )
