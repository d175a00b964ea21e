"""One turn, one contract: every integration serves the same view with the same warnings.

One script of a conversation goes through the chat history, the runnable, the graph node and the
agent middleware, sync and async, with four summarizers: a good one, a slow one, one that raises and
one that never returns. The chat history is the one that the others are compared with.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory, TranscriptStore, with_token_memory
from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.tokens.resolve import counter_for
from tests.adapters.turn_integrations import INTEGRATIONS, SESSION, Integration
from tests.adapters.turn_summarizers import FOR_EVER_S, SUMMARIZERS, Endless, Good

WINDOW = 2_000
MAX_WAIT_S = 0.2

# The log names the integration in front of a warning.
_SPEAKER = re.compile(r"^(Session '[^']*'|\w+Node|\w+Middleware): ")
_TIMES = re.compile(r' from="[^"]+ UTC" to="[^"]+"')
_NO_SUMMARY = re.compile(r"^(no summary, |No summary was made: )")


def timed(message: BaseMessage) -> BaseMessage:
    """Return a message with a time, as each has one that comes from a store."""
    return marked(message, created_at="2026-11-20T10:05:00+00:00")


def earlier_messages() -> list[BaseMessage]:
    """Return a conversation over the threshold and below the limit, with a tool call in it."""
    call = {"name": "look_up", "args": {"order": 4711}, "id": "call1"}
    said: list[BaseMessage] = [
        HumanMessage("My order is 4711. Never send it by plane.", id="first"),
        AIMessage("I look it up.", tool_calls=[call], id="look"),
        ToolMessage("Order 4711: two lamps, paid. " * 8, tool_call_id="call1", id="found"),
        AIMessage("Two lamps, paid.", id="told"),
    ]
    for number in range(17):
        said.append(HumanMessage(f"Question {number} about lamps. " * 6, id=f"h{number}"))
        said.append(AIMessage(f"Reply {number} about lamps. " * 7, id=f"a{number}"))
    return [*map(timed, said)]


SCRIPT = (
    timed(HumanMessage("What is in my order?", id="q1")),
    timed(HumanMessage("And is it paid?", id="q2")),
    timed(HumanMessage("Here is a long list of what else I want. " * 75, id="q3")),
    timed(HumanMessage("Do you have it all?", id="q4")),
)
"""After the first question a summary is due, at the third one nothing fits without it."""


@dataclass
class Played:
    """What one integration did.

    Attributes:
        requests: Of each turn, what a model reads: roles, words, calls.
        warnings: Of the views, and in the log; without the integration's name, each once.
        tokens: Of each request.
    """

    requests: list[list[tuple[str, Any, Any]]] = field(default_factory=list)
    warnings: set[str] = field(default_factory=set)
    tokens: list[int] = field(default_factory=list)


def play(
    integration: type[Integration], summarizer: Good, *, background: bool, is_async: bool
) -> Played:
    """Play the script; summaries in the background end between two turns, but for the endless."""
    memory = TokenMemory(
        TokenBudget(context_window=WINDOW),
        counter=counter_for(None),  # for every integration, whether it knows a model or not
        summarizer=summarizer,
        background=background,
        max_wait_s=MAX_WAIT_S if isinstance(summarizer, Endless) else FOR_EVER_S,
        summary_role="system",  # by default a history, which knows no prompt, has it elsewhere
    )
    played = Played()
    with TranscriptStore("sqlite://") as store, logged(played.warnings):
        adapter = integration(memory, store, earlier_messages())
        ask = adapter.ask if not is_async else lambda said: asyncio.run(adapter.aask(said))
        try:
            for question in SCRIPT:
                adapter.model.begin_turn(summarizer.entered)
                request = ask(question)
                played.requests.append(as_read(request))
                played.tokens.append(memory.count(request).tokens)
                if not isinstance(summarizer, Endless):
                    memory.close()
        finally:
            summarizer.released.set()
            memory.close()
        played.warnings |= {without_speaker(one) for one in adapter.warnings}
    return played


def as_read(request: Sequence[BaseMessage]) -> list[tuple[str, Any, Any]]:
    """Return what a model reads of a request: not ids, times or marks."""
    return [(m.type, _timeless(m.content), getattr(m, "tool_calls", None)) for m in request]


def _timeless(content: Any) -> Any:
    """Return a content without the times of the summary's entries: only a store has its own."""
    if isinstance(content, str):
        return _TIMES.sub("", content)
    return [{**block, "text": _TIMES.sub("", block["text"])} for block in content]


def working_threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def without_speaker(line: str) -> str:
    return _NO_SUMMARY.sub("No summary was made: ", _SPEAKER.sub("", line))


class _Lines(logging.Handler):
    def __init__(self, lines: set[str]) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.add(without_speaker(record.getMessage()))


class logged:  # noqa: N801  # a context manager, read as a verb
    """Collect the package's warnings."""

    def __init__(self, lines: set[str]) -> None:
        self._handler = _Lines(lines)
        self._logger = logging.getLogger("langchain_tokenmem")

    def __enter__(self) -> None:
        self._logger.addHandler(self._handler)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self._handler)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = working_threads()
    yield
    end = time.monotonic() + 5
    while (left := working_threads() - before) and time.monotonic() < end:
        time.sleep(0.01)
    assert not left


@cache
def played_by(integration: str, name: str, *, background: bool, is_async: bool = False) -> Played:
    summarizer = SUMMARIZERS[name]()
    return play(INTEGRATIONS[integration], summarizer, background=background, is_async=is_async)


LIMIT = TokenBudget(context_window=WINDOW).limit
CASES = [
    (name, background)
    for name in SUMMARIZERS
    for background in (True, False)
    # Outside of the background an endless summarizer has nobody who could stop waiting.
    if background or name != "endless"
]
is_async = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
summarizers = pytest.mark.parametrize(
    ("name", "background"),
    # What follows waits for threads; the fast run keeps the summarizers of the turn itself.
    [pytest.param(*case, marks=pytest.mark.slow if case[1] else ()) for case in CASES],
    ids=[f"{name}-{'background' if background else 'in-turn'}" for name, background in CASES],
)


@pytest.mark.slow
@is_async
@summarizers
@pytest.mark.parametrize("integration", INTEGRATIONS)
def test_every_integration_serves_the_same_fitting_view_with_the_same_warnings(
    integration, name, background, is_async
):
    expected = played_by("history", name, background=background)
    played = played_by(integration, name, background=background, is_async=is_async)
    assert max(played.tokens) <= LIMIT
    for question, request in zip(SCRIPT, played.requests, strict=True):
        assert (question.type, question.content) in [part[:2] for part in request]
    assert played.requests == expected.requests
    assert played.warnings == expected.warnings


@pytest.mark.slow
@summarizers
def test_the_script_meets_what_it_is_made_for(name, background):
    """The first turn is over the threshold and fits; the third fits only by a summary."""
    played = played_by("history", name, background=background)
    first, third = (
        "\n".join(str(content) for _, content, _ in played.requests[turn]) for turn in (0, 2)
    )
    is_good = name in {"good", "slow"}
    assert ("<conversation_summary " in first) == (is_good and not background)
    assert ("<conversation_summary " in third) == is_good
    assert any("left out" in warning for warning in played.warnings) == (not is_good)
    says_why = any("ConnectionError: provider down" in warning for warning in played.warnings)
    assert says_why == (name == "raising")


def test_a_first_input_over_the_limit_does_not_wait_for_a_summary_that_nobody_makes():
    memory = TokenMemory(
        TokenBudget(context_window=WINDOW), summarizer=Good(), max_wait_s=FOR_EVER_S
    )
    with TranscriptStore("sqlite://") as store:
        chain = with_token_memory(FakeListChatModel(responses=["Yes."]), memory, store)
        begun = time.monotonic()
        chain.invoke([*earlier_messages(), SCRIPT[2]], SESSION)
        seconds = time.monotonic() - begun
        memory.close()
    assert seconds < FOR_EVER_S
