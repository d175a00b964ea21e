"""Callbacks that report the start, the end and the failure of each compaction."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from langchain_tokenmem.errors import ConfigurationError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CompactEvent:
    """One change of what a model call sees.

    Attributes:
        kind: `compaction` (old tool results were shortened), `summary`, or `mode` (the session was
            switched to another mode).
        reason: `compact_at`, `summarize_at`, `cold`, `limit`, `tail` or `manual`; for `mode` its
            name, empty for none.
        tokens_before: Tokens of the request before it.
        tokens_after: Tokens of the request after it; an upper bound at the start.
        ids: Ids of the messages that were shortened or covered.
        duration_s: Seconds that it took; 0.0 at the start.
        model: Model or summarizer that wrote the summary; empty for a compaction.
        calls: Model calls, failed ones included.
        input_tokens: Tokens that the model reports as read.
        output_tokens: Tokens that the model reports as written.
        cost: Price that the model reports; None where it reports none.
        error: What went wrong, or why the fallback wrote.
    """

    kind: Literal["compaction", "summary", "mode"]
    reason: str
    tokens_before: int
    tokens_after: int
    ids: tuple[str, ...]
    duration_s: float = 0.0
    model: str = ""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    error: str | None = None


class CompactCallbacks:
    """Base of callbacks; override what you need. They must be quick: they run inside the turn.

    One that raises is logged and never breaks the run.
    """

    def on_compact_start(self, event: CompactEvent) -> None:
        """Called before messages are shortened or summarized."""

    def on_compact_end(self, event: CompactEvent) -> None:
        """Called when the new state exists, before it is stored."""

    def on_compact_error(self, event: CompactEvent) -> None:
        """Called if a summarizer failed; if a fallback wrote, `on_compact_end` follows."""


def checked_callbacks(callbacks: Iterable[CompactCallbacks]) -> tuple[CompactCallbacks, ...]:
    """Return the callbacks.

    Raises:
        ConfigurationError: When it is no list of them.
    """
    several = tuple(callbacks) if isinstance(callbacks, Iterable) else (None,)
    if all(isinstance(one, CompactCallbacks) for one in several):
        return several
    raise ConfigurationError(
        "callbacks is no list of CompactCallbacks: callbacks=[MyCallbacks()], where MyCallbacks is "
        "a subclass."
    )


def notify(
    callbacks: Iterable[CompactCallbacks],
    moment: Literal["start", "end", "error"],
    event: CompactEvent,
) -> None:
    """Call every callback; one that raises is logged."""
    for callback in callbacks:
        _notify_one(callback, moment, event)


def _notify_one(callback: CompactCallbacks, moment: str, event: CompactEvent) -> None:
    try:
        getattr(callback, f"on_compact_{moment}")(event)
    except Exception:  # the application's own code must not break its run
        logger.exception("on_compact_%s of %r failed; the run goes on.", moment, callback)
