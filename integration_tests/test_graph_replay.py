"""The recordings through middleware, nodes and history door: accepted by strict fakes, one view.

Each recorded conversation is played call by call: before every recorded answer the door is asked
for the request, which a fake of one provider family then checks.
"""

from __future__ import annotations

import functools
import os
import random
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.tools import tool

from langchain_tokenmem import (
    MemoryNode,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
)
from langchain_tokenmem.cli.audit import audit
from langchain_tokenmem.cli.conversations import load_conversations
from langchain_tokenmem.errors import BudgetExceededError
from tests.providers import CHECKS, StrictModel

DATA = Path(os.environ.get("TOKENMEM_DATA", Path(__file__).parents[2] / "shared" / "data"))
FILE = DATA / "transcripts_dev.jsonl.gz"


@functools.cache
def conversations():
    if not FILE.exists():
        pytest.skip(f"the recordings are kept outside of the project, {FILE} is not there")
    return load_conversations(FILE)


def memory_of(window: int, legality: str = "auto") -> TokenMemory:
    return TokenMemory(TokenBudget(context_window=window), legality=legality)


def moments(messages):
    """Return the lengths of the history at each recorded model call."""
    return [
        place
        for place, message in enumerate(messages)
        if isinstance(message, AIMessage)
        and any(not isinstance(m, SystemMessage) for m in messages[:place])
    ]


class Played:
    """The middleware without an agent around it: the same call that `create_agent` makes."""

    def __init__(self, family: str, window: int) -> None:
        self.model = StrictModel(family=family)
        self.middleware = TokenMemoryMiddleware(memory_of(window))
        self.state: dict = {}

    def request(self, history):
        def handler(request: ModelRequest) -> ModelResponse:
            front = [request.system_message] if request.system_message else []
            return ModelResponse([self.model.invoke([*front, *request.messages])])

        asked = ModelRequest(
            model=self.model, messages=list(history), state={"messages": [], **self.state}
        )
        answered = self.middleware.wrap_model_call(asked, handler)
        if answered.command:
            self.state.update(answered.command.update)
        return self.model.seen[-1]


def play_middleware(messages, family, window):
    played, limit = Played(family, window), window
    requests = []
    for place in moments(messages):
        request = played.request(messages[:place])
        assert played.middleware.memory.count(request).tokens <= limit
        requests.append(request)
    return requests


def play_nodes(messages, family, window):
    node = MemoryNode(memory_of(window, family))
    state: dict = {}
    requests = []
    for place in moments(messages):
        update = node.invoke({"messages": list(messages[:place]), **state})
        state = {"memory": update.get("memory", state.get("memory"))}
        CHECKS[family](update["llm_input_messages"])
        requests.append(update["llm_input_messages"])
    return requests


def play_history(messages, family, window):
    requests = []
    with TranscriptStore("sqlite://") as store:
        history = TokenMemoryChatHistory("s", memory=memory_of(window, family), store=store)
        before = 0
        for place in moments(messages):
            history.add_messages(messages[before:place])
            before = place
            requests.append(history.messages)
            CHECKS[family](requests[-1])
    return requests


def said(requests):
    """Return what a model would read: role, words and calls, without the store's time stamps."""
    return [
        [(m.type, m.content, getattr(m, "tool_calls", None)) for m in request]
        for request in requests
    ]


FAMILIES = sorted(CHECKS)
# Every recording at every window; the families take turns, other ones at each window.
CASES = [
    (window, n, FAMILIES[(n + shift) % len(FAMILIES)])
    for shift, window in enumerate((8_000, 4_000, 32_000))
    for n in range(138)
]
BATCHES = 8


@pytest.mark.parametrize("batch", range(BATCHES))
def test_strict_providers_accept_every_request_and_three_doors_give_the_same_views(batch):
    recordings, calls = conversations(), 0
    for window, number, family in CASES[batch::BATCHES]:
        if number >= len(recordings):
            continue
        messages = recordings[number].messages
        try:
            requests = play_middleware(messages, family, window)
        except BudgetExceededError:
            with pytest.raises(BudgetExceededError):
                play_nodes(messages, family, window)
            continue
        calls += len(requests)
        assert said(requests) == said(play_nodes(messages, family, window))
        assert said(requests) == said(play_history(messages, family, window))
    assert calls > 100


@pytest.mark.parametrize("family", ["openai", "anthropic"])
def test_the_common_audit_agrees_where_nothing_is_reshaped(family):
    for recording in conversations()[::23]:
        for place, request in zip(
            moments(recording.messages),
            play_middleware(recording.messages, family, 8_000),
            strict=True,
        ):
            assert audit(recording.messages[:place], request) == []


@pytest.mark.parametrize("family", ["openai", "mistral"])
def test_three_hundred_rounds_with_giant_results_neither_overflow_nor_break(family):
    sizes = random.Random(4)

    @tool
    def read(size: int) -> str:
        """Read a file."""
        return "a line of a rather long file, number 4711\n" * (size // 10)

    window = 16_000
    script: list = []
    for n in range(300):
        size = sizes.choice([50, 200, 1_000, 5_000, 20_000, 50_000])
        call = {"name": "read", "args": {"size": size}, "id": f"call{n}"}
        script.append(AIMessage(f"I read file {n}.", tool_calls=[call]))
    model = StrictModel(family=family, script=[*script, AIMessage("Done.")])
    memory = TokenMemory(TokenBudget(context_window=window))
    agent = create_agent(model, [read], middleware=[TokenMemoryMiddleware(memory)])
    result = agent.invoke({"messages": "Read them all."}, {"recursion_limit": 700})
    assert len(result["messages"]) == 602
    assert len(model.seen) == 301
    tokens = [memory.count(request, tools=[read]).tokens for request in model.seen]
    assert max(tokens) <= memory.budget.limit
    assert all("Read them all." in [m.content for m in r] for r in model.seen)
