"""Events: what the memory did, to which conversation, for callbacks and for the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from threading import Lock, local
from typing import Literal

from langchain_core.callbacks import CallbackManagerForChainRun
from langchain_core.runnables.config import ensure_config, get_callback_manager_for_config

from langchain_tokenmem.errors import ConfigurationError, SummaryError

logger = logging.getLogger(__name__)

Kind = Literal[
    "view",
    "shorten",
    "fold",
    "summary",
    "recall",
    "notes",
    "cut",
    "overflow_retry",
    "redact",
    "mode",
]
Moment = Literal["start", "end", "error"]


@dataclass(frozen=True, kw_only=True)
class EventSource:
    """The conversation that an event is about; unknown fields are None.

    Attributes:
        session: Session of the transcript store; for a thread, the one with its messages.
        thread: The graph's thread.
        user: Its owner.
        run_id: Id of the LangChain run around the call.
        model: Name of the called model.
    """

    session: str | None = None
    thread: str | None = None
    user: str | None = None
    run_id: str | None = None
    model: str | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryEvent(EventSource):
    """One thing that the memory did.

    Attributes:
        kind: `view` (a request was made), `shorten` (old tool results), `fold` (messages went into
            the running summary), `summary` (a slow summarizer was called), `recall` and `notes` (a
            block was made for a question), `cut` (a message that is too long), `overflow_retry`
            (the provider refused a request as too long), `redact` (an entry was written again
            because its messages were edited or removed), `mode` (a switch).
        reason: `compact_at`, `summarize_at`, `cold`, `limit`, `tail` or `manual`; for `mode` its
            name, empty for none.
        tokens_before: Tokens of the request before it; 0 for `recall` and `notes`.
        tokens_after: Tokens of the request after it, an upper bound at the start; for `recall` and
            `notes` those of the block; for `overflow_retry` the new limit.
        shortened: How many messages are now shown only in part.
        summarized: How many messages went into the running summary.
        ids: Ids of the messages that were shortened, covered or recalled.
        duration_s: Seconds that it took; 0.0 at the start.
        summarizer: Model or summarizer that wrote the summary; empty for other events.
        calls: Its model calls, including failed ones. A `fold` has those of its `summary`.
        input_tokens: Tokens that its model reports as read.
        output_tokens: Tokens that its model reports as written.
        cost: Price that its model reports, or None.
        error: What went wrong, or why the fallback wrote the summary.
    """

    kind: Kind
    reason: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    shortened: int = 0
    summarized: int = 0
    ids: tuple[str, ...] = ()
    duration_s: float = 0.0
    summarizer: str = ""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    error: str | None = None

    @property
    def is_change(self) -> bool:
        """Whether it changes how the model sees earlier messages."""
        return self.kind in {"shorten", "fold", "redact", "mode"}

    def __str__(self) -> str:
        """Return the line for the log: numbers and names, no message text."""
        name = f"thread {self.thread}" if self.thread else f"session {self.session or '(none)'}"
        tokens = f"{self.tokens_before:,} → {self.tokens_after:,} tokens"
        if self.kind == "view":
            tokens = f"request of {self.tokens_after:,} tokens in {1_000 * self.duration_s:,.0f} ms"
        what = [] if self.kind in {"view", "shorten", "fold"} else [self.kind]
        done = [
            f"{count:,} {'message' if count == 1 else 'messages'} {verb}"
            for count, verb in ((self.shortened, "shortened"), (self.summarized, "summarized"))
            if count
        ]
        reason = f" ({self.reason})" if self.reason else ""
        return f"{name}: {', '.join([*what, tokens, *done])}{reason}"


class MemoryCallbacks:
    """Base of callbacks; override what you need. They must be quick: they run inside the turn.

    One that raises is logged and never breaks the run.
    """

    def on_memory_start(self, event: MemoryEvent) -> None:
        """Called before messages are shortened or summarized, and before a summarizer is called."""

    def on_memory_end(self, event: MemoryEvent) -> None:
        """Called when it is done; for a change, before the new state is stored."""

    def on_memory_error(self, event: MemoryEvent) -> None:
        """Called if a summarizer failed or is given up, also for the `fold` around it.

        If a fallback wrote instead, or it answers late, `on_memory_end` follows.
        """


class TraceCallbacks(MemoryCallbacks):
    """Puts what the memory does into LangChain's run tree, as child runs of the call.

    So it appears in LangSmith, in OpenTelemetry and in every other callback handler:
    `tokenmem.fold`, `tokenmem.summary`, `tokenmem.recall` and others, with numbers and ids, but no
    message text. A background summary is in the tree of its own run, `tokenmem.background`. What is
    done outside a run is not traced.

    Example:
        >>> from langchain_tokenmem import TokenMemory
        >>> memory = TokenMemory(callbacks=[TraceCallbacks()])
    """

    def __init__(self) -> None:
        self._open = local()

    def on_memory_start(self, event: MemoryEvent) -> None:
        """Start a run inside the open one."""
        self._runs.append(self._begun(event))

    def on_memory_end(self, event: MemoryEvent) -> None:
        """End the run; an event without a start is a run that ends at once."""
        if event.kind == "view":
            return
        run = self._runs.pop() if event.kind in _WITH_START else self._begun(event)
        if run is not None:
            run.on_chain_end(_fields(event))

    def on_memory_error(self, event: MemoryEvent) -> None:
        """End the run, unless a fallback wrote instead: then `on_memory_end` follows.

        The run of a summary that is given up stays open in its own thread, until it answers.
        """
        run = self._runs.pop() if self._runs and not event.summarizer else None
        if run is not None:
            run.on_chain_error(SummaryError(event.error or "The summarizer failed."))

    @property
    def _runs(self) -> list[CallbackManagerForChainRun | None]:
        """The open runs of this thread; None for what is done outside a run."""
        runs: list[CallbackManagerForChainRun | None] = self._open.__dict__.setdefault("runs", [])
        return runs

    def _begun(self, event: MemoryEvent) -> CallbackManagerForChainRun | None:
        parent = self._runs[-1] if self._runs else None
        manager = parent.get_child() if parent else get_callback_manager_for_config(ensure_config())
        if manager.parent_run_id is None:
            return None
        fields = _fields(event)
        manager.add_metadata({f"tokenmem.{key}": value for key, value in fields.items()}, False)
        return manager.on_chain_start(None, fields, name=f"tokenmem.{event.kind}")


_WITH_START = frozenset({"shorten", "fold", "summary"})


def _fields(event: MemoryEvent) -> dict[str, object]:
    """Return the fields of an event that are set."""
    return {key: value for key, value in asdict(event).items() if value not in (None, "", 0, ())}


_SUMS = (
    *("tokens_before", "tokens_after", "shortened", "summarized", "duration_s"),
    *("calls", "input_tokens", "output_tokens", "cost"),
)


class Reporter:
    """Reports events to callbacks and the log, and adds them up by kind, in any number of threads.

    Args:
        callbacks: The callbacks; one that raises is logged, each kind of its errors once.
    """

    def __init__(self, callbacks: Sequence[MemoryCallbacks] = ()) -> None:
        self._callbacks = callbacks
        self._failed: set[tuple[int, type]] = set()
        self._totals: dict[str, dict[str, float]] = {}
        self._lock = Lock()

    def tell(self, moment: Moment, event: MemoryEvent) -> None:
        """Report that an event begins, has ended or has failed."""
        if moment != "start":
            with self._lock:
                known = self._totals.setdefault(event.kind, {"events": 0, "errors": 0})
                known["events" if moment == "end" else "errors"] += 1
                for name in _SUMS if moment == "end" else ():
                    known[name] = known.get(name, 0) + (getattr(event, name) or 0)
        level = logging.INFO if event.is_change else logging.DEBUG
        if moment == "end" and logger.isEnabledFor(level):
            logger.log(level, "%s", event)
        for callback in self._callbacks:
            try:
                getattr(callback, f"on_memory_{moment}")(event)
            except Exception as error:  # a callback must not break the run
                kind = id(callback), type(error)
                level = logging.DEBUG if kind in self._failed else logging.ERROR
                fault = "on_memory_%s of %r failed; the run goes on."
                logger.log(level, fault, moment, callback, exc_info=kind not in self._failed)
                self._failed.add(kind)

    def totals(self) -> dict[str, dict[str, float]]:
        """Return the totals so far, by kind."""
        with self._lock:
            return {kind: {**sums} for kind, sums in self._totals.items()}


def checked_callbacks(callbacks: Iterable[MemoryCallbacks]) -> tuple[MemoryCallbacks, ...]:
    """Return the callbacks.

    Raises:
        ConfigurationError: When they are not a list of callbacks.
    """
    several = tuple(callbacks) if isinstance(callbacks, Iterable) else (None,)
    if all(isinstance(one, MemoryCallbacks) for one in several):
        return several
    raise ConfigurationError(
        "callbacks is not a list of MemoryCallbacks: callbacks=[MyCallbacks()], where MyCallbacks "
        "is a subclass."
    )
