"""Systems that `price.py` compares: how an application calls each of them before a model call.

A system is a function from a window and a summarizing model to a function from the history so far
to the request; what it keeps between two calls lives in that inner function. The history is the
recording as it stands, its system messages included; agents' middlewares that are given the
system text apart say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import Any

from _price_citing import TOOLS, CitingModel
from _price_recordings import time_of_last
from langchain.agents.middleware import ModelRequest, ModelResponse, SummarizationMiddleware
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    SystemMessage,
    trim_messages,
)
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.graph.message import add_messages
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.measures import plain, plain_text, text_of
from langchain_tokenmem.events import MemoryCallbacks, MemoryEvent
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.summarize.model import ModelSummarizer
from langchain_tokenmem.tokens.counters import counter_for
from langchain_tokenmem.types import Shares

History = Sequence[BaseMessage]
Ask = Callable[[History], list[BaseMessage]]
"""Gives the request for the history so far."""

System = Callable[[int, CitingModel], Ask]

TRIGGER = 0.8
"""Share of the window at which a system without an own default begins to cut."""


class TokenMemoryRun(MemoryCallbacks):
    """This package's memory by hand: `compact`, then `view`, the state carried along.

    Args:
        window: Tokens of the window.
        model: Summarizing model.
        writes: Whether the model writes the summaries; otherwise they are extracts.
        reuse: Whether it is always sent the main request with one instruction behind it, where
            that fits; otherwise only where that is cheaper, as the memory's own default has it.
        mode: Mode of its working notes; empty for none.
        fields: Fields of `TokenBudget` that differ from their defaults.
    """

    def __init__(
        self,
        window: int,
        model: CitingModel,
        *,
        writes: bool = False,
        reuse: bool = False,
        mode: str = "",
        **fields: Any,
    ) -> None:
        how = True if reuse else None
        writer = ModelSummarizer(model, window=window, reuse_prefix=how) if writes else None
        budget = TokenBudget(window, **fields)
        given: dict[str, Any] = {"mode": mode} if mode else {}
        self._now = datetime(2026, 11, 2, tzinfo=UTC)
        given |= {"counter": counter_for(), "callbacks": [self], "now": lambda: self._now}
        memory = TokenMemory(budget, summarizer=writer, **given)
        # One model answers and summarizes: the memory is told so, as an agent's middleware tells
        # it. The model has no name, so the vocabulary is given; else counts would be estimates.
        self._memory = memory.for_model(model) if writes else memory
        self._state: MemoryState | None = None
        self.reasons: list[str] = []
        """Reasons of the changes before the last request."""

    def __call__(self, history: History) -> list[BaseMessage]:
        """Return the request for the history so far."""
        self.reasons.clear()
        self._now = time_of_last(history) or self._now
        self._state = self._memory.compact(history, self._state, tools=TOOLS)
        return self._memory.view(history, self._state, tools=TOOLS).messages

    def on_memory_end(self, event: MemoryEvent) -> None:
        """Keep the reason of a change."""
        if event.is_change:
            self.reasons.append(f"{event.kind} {event.reason}")


def _split_system(history: History) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """Return the system messages and the others."""
    found: tuple[list[BaseMessage], list[BaseMessage]] = ([], [])
    for message in history:
        found[not isinstance(message, SystemMessage)].append(message)
    return found


def langchain(
    _window: int, model: CitingModel, *, keep: Any = None, system_apart: bool = False
) -> Ask:
    """Return LangChain's SummarizationMiddleware, which rewrites the agent's messages."""
    kept = {"keep": keep} if keep else {}
    middleware: Any = SummarizationMiddleware(model, trigger=("fraction", TRIGGER), **kept)
    messages: list[BaseMessage] = []
    seen = 0

    def ask(history: History) -> list[BaseMessage]:
        nonlocal messages, seen
        system, body = _split_system(history) if system_apart else ([], list(history))
        grown = [*messages, *body[seen:]]
        update = middleware.before_model({"messages": grown}, None)
        shown = update["messages"] if update else grown
        messages = [message for message in shown if not isinstance(message, RemoveMessage)]
        seen = len(body)
        return [*system, *messages]

    return ask


def langmem(window: int, model: CitingModel) -> Ask:
    """Return LangMem's `summarize_messages` with its running summary."""
    from langmem.short_term import summarize_messages  # noqa: PLC0415  # not installed everywhere

    running: Any = None

    def ask(history: History) -> list[BaseMessage]:
        nonlocal running
        result = summarize_messages(
            list(history),
            running_summary=running,
            model=model,
            max_tokens=int(TRIGGER * window),
            max_summary_tokens=400,
        )
        running = result.running_summary or running
        return list(result.messages)

    return ask


def deepagents(_window: int, model: CitingModel) -> Ask:
    """Return deepagents' summarization middleware with its own defaults, system text apart."""
    from deepagents.backends import StoreBackend  # noqa: PLC0415  # not installed everywhere
    from deepagents.middleware.summarization import (  # noqa: PLC0415
        create_summarization_middleware,
    )

    backend = StoreBackend(store=InMemoryStore(), namespace=lambda _: ("history",))
    middleware: Any = create_summarization_middleware(model, backend)
    state: dict[str, Any] = {"messages": []}
    seen = 0

    def ask(history: History) -> list[BaseMessage]:
        nonlocal seen
        system, body = _split_system(history)
        state["messages"] = [*state["messages"], *body[seen:]]
        seen = len(body)
        sent: list[BaseMessage] = []

        def handler(request: ModelRequest[Any]) -> ModelResponse[Any]:
            sent[:] = [*system, *request.messages]
            return ModelResponse([AIMessage("")])

        given: dict[str, Any] = {"system_message": system[0] if system else None, "state": state}
        request: Any = ModelRequest(
            model=model, messages=list(state["messages"]), tools=list(TOOLS), **given
        )
        command = getattr(middleware.wrap_model_call(request, handler), "command", None)
        update = dict((command.update if command else None) or {})
        replaced = update.pop("messages", [])
        state.update(update, messages=add_messages(state["messages"], replaced))
        return sent

    return ask


def trimmed(window: int, _model: CitingModel) -> Ask:
    """Return LangChain's `trim_messages` as its documentation calls it."""

    def ask(history: History) -> list[BaseMessage]:
        return trim_messages(
            list(history),
            max_tokens=int(TRIGGER * window),
            token_counter=count_tokens_approximately,
            strategy="last",
            start_on="human",
            end_on=("human", "tool"),
            include_system=True,
        )

    return ask


_KEEP = ("fraction", 0.3)

SYSTEMS: dict[str, System] = {
    "ours": TokenMemoryRun,
    "ours, model": partial(TokenMemoryRun, writes=True),
    "ours, model, reuse": partial(TokenMemoryRun, writes=True, reuse=True),
    "LangChain": langchain,
    "LangChain 80-30": partial(langchain, keep=_KEEP),
    "LangChain 80-30, system apart": partial(langchain, keep=_KEEP, system_apart=True),
    "LangMem": langmem,
    "deepagents": deepagents,
    "trim_messages": trimmed,
}
"""Systems by the name that the report gives them."""

_PACKAGES = {"LangMem": "langmem", "deepagents": "deepagents"}


def with_fields(text: str) -> tuple[str, System]:
    """Return this package's memory under other settings, and its name.

    Args:
        text: Such as `target=.3,shares.recent=.2`; `model`, `reuse` and `mode=code` are settings,
            too.
    """
    settings: dict[str, Any] = {}
    for one in text.split(","):
        key, _, value = one.partition("=")
        if key == "mode":
            settings[key] = value
            continue
        number = float(value or 1)
        switch = {"model": "writes", "reuse": "reuse"}.get(key)
        given: float = int(number) if number > 1 else number
        if key.startswith("shares."):
            settings["shares"] = replace(settings.get("shares", Shares()), **{key[7:]: given})
        else:
            settings[switch or key] = True if switch else given
    return f"ours ({text})", partial(TokenMemoryRun, **settings)


def missing_package(name: str) -> str | None:
    """Return the package that a system needs and that is not installed; None where all is there."""
    needed = _PACKAGES.get(name)
    return needed if needed and find_spec(needed) is None else None


_FENCED = re.compile(r"<conversation_summary\b.*?</conversation_summary>", re.DOTALL)
_LANGMEM_INTRODUCTION = "Summary of the conversation so far: "


def without_summary(message: BaseMessage) -> str:
    """Return the words of a message without what a summarizer of any system wrote into it."""
    if message.additional_kwargs.get("lc_source") == "summarization":
        return ""
    text = text_of(message)
    if isinstance(message, SystemMessage) and text.startswith(_LANGMEM_INTRODUCTION):
        return ""
    return plain(_FENCED.sub("", text)) if "<conversation_summary" in text else plain_text(message)
