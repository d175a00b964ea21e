"""Recorded conversations played call by call through the doors, as work for processes of a pool.

Before every recorded answer a door is asked for the request, which a fake of one provider family
then checks.
"""

from __future__ import annotations

import functools
import os
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, ModelResponse, wrap_tool_call
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt.tool_node import ToolCallRequest

from langchain_tokenmem import (
    MemoryMessagesState,
    MemoryNode,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.cli.replay import RecordedConversation, load_conversations
from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.tokens.resolve import counter_for
from tests.providers import CHECKS, RefusedError, StrictModel

DATA = Path(os.environ.get("TOKENMEM_DATA", Path(__file__).parents[2] / "shared" / "data"))
FILE = DATA / "transcripts_dev.jsonl.gz"
FAMILIES = sorted(CHECKS)
WINDOWS = (4_000, 8_000, 32_000)

Messages = Sequence[BaseMessage]
Requests = list[list[BaseMessage]]


@functools.cache
def conversations() -> list[RecordedConversation]:
    return load_conversations(FILE)


def memory_of(window: int, legality: str = "auto") -> TokenMemory:
    # The same counter for every way in: those that know the nameless model would estimate.
    budget = TokenBudget(context_window=window)
    return TokenMemory(budget, legality=legality, counter=counter_for(None))


def moments(messages: Messages) -> list[int]:
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

    def request(self, history: Messages) -> list[BaseMessage]:
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


def play_middleware(messages: Messages, family: str, window: int) -> Requests:
    """Ask the middleware, which finds the family's rules by the agent's model."""
    played = Played(family, window)
    memory = played.middleware.memory
    assert memory.for_model(played.model).explain(messages[:2]).profile == family
    requests = []
    for place in moments(messages):
        requests.append(played.request(messages[:place]))
        assert memory.count(requests[-1]).tokens <= memory.budget.limit
    return requests


def play_nodes(messages: Messages, family: str, window: int) -> Requests:
    """Ask the node, whose memory was given the rules of a model."""
    memory = memory_of(window).for_model(StrictModel(family=family))
    assert memory.explain(messages[:2]).profile == family
    node = MemoryNode(memory)
    state: dict = {}
    requests = []
    for place in moments(messages):
        update = node.invoke({"messages": list(messages[:place]), **state})
        state = {"memory": update.get("memory", state.get("memory"))}
        requests.append(update["llm_input_messages"])
        CHECKS[family](requests[-1])
    return requests


def play_history(messages: Messages, family: str, window: int) -> Requests:
    """Ask the history, whose memory was given the model's rules.

    By the name of the rules alone it would not know whether the model binds its reasoning, and keep
    some of it in view for one call longer.
    """
    memory = memory_of(window).for_model(StrictModel(family=family))
    requests = []
    with TranscriptStore("sqlite://") as store:
        history = TokenMemoryChatHistory("s", memory=memory, store=store)
        before = 0
        for place in moments(messages):
            history.add_messages(messages[before:place])
            before = place
            requests.append(history.view().messages)
            CHECKS[family](requests[-1])
    return requests


def is_plain(messages: Messages) -> bool:
    """Return whether an agent's loop could have left exactly these messages behind."""
    following = {"system": {"human"}, "human": {"ai"}, "tool": {"ai", "tool"}}
    for before, after in pairwise(messages):
        called = isinstance(before, AIMessage) and before.tool_calls
        wanted = following.get(before.type, {"tool"} if called else {"human"})
        if after.type not in wanted:
            return False
    return messages[0].type == "system"


def play_agent(messages: Messages, family: str, window: int) -> Requests:
    """Run a whole agent, turn by turn; its model and its tools say what was recorded."""
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}

    @wrap_tool_call
    def recorded(request: ToolCallRequest, _handler: Any) -> ToolMessage:
        return results[request.tool_call["id"]]

    model = StrictModel(family=family, script=[m for m in messages if m.type == "ai"])
    agent = create_agent(
        model,
        middleware=[recorded, TokenMemoryMiddleware(memory_of(window))],
        checkpointer=InMemorySaver(),
    )
    return _run_turns(agent, model, messages)


def play_graph(messages: Messages, family: str, window: int) -> Requests:
    """Do the same with a graph made by hand, its memory in three nodes."""
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    model = StrictModel(family=family, script=[m for m in messages if m.type == "ai"])
    memory = memory_of(window).for_model(model)

    def speak(state: MemoryMessagesState) -> dict:
        return {"messages": [model.invoke(memory_input(state, memory))]}

    def run_tools(state: MemoryMessagesState) -> dict:
        return {"messages": [results[call["id"]] for call in state["messages"][-1].tool_calls]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", speak)
    builder.add_node("tools", run_tools)
    entry = memory_nodes(builder, memory, split=True)
    builder.add_edge(START, entry)
    builder.add_edge("tools", entry)
    builder.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END
    )
    return _run_turns(builder.compile(checkpointer=InMemorySaver()), model, messages)


def _run_turns(graph: Any, model: StrictModel, messages: Messages) -> Requests:
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 1_000}
    front = [m for m in messages if m.type == "system"]
    for message in messages:
        if message.type == "human":
            graph.invoke({"messages": [*front, message]}, config)
            front = []
    return model.seen[: len(moments(messages))]


def said(requests: Requests) -> list:
    """Return what a model would read: role, words and calls, without the store's time stamps."""
    return [
        [(m.type, _timeless(m.content), getattr(m, "tool_calls", None)) for m in request]
        for request in requests
    ]


def _timeless(content: Any) -> Any:
    """Return a content without the times of the summary's entries."""
    if isinstance(content, str):
        return _TIMES.sub("", content)
    return [
        {**block, "text": _TIMES.sub("", block["text"])} if "text" in block else block
        for block in content
    ]


def roughened(messages: Messages) -> list[BaseMessage]:
    """Return a recording as crashes, impatient users and other models leave one behind.

    Every kind of damage is one that some family refuses: lost results, two messages of one role
    in a row, reasoning of another provider's model, reasoning that nothing follows.
    """
    chance, rough = random.Random(len(messages)), []
    for number, message in enumerate(messages):
        lot = chance.randrange(6)
        if message.type == "tool" and lot == 0:
            continue
        if message.type == "ai" and message.tool_calls and lot == 1:
            rough.append(AIMessage("Let me see.", id=f"see{number}"))
        if message.type == "ai" and message.text and lot in {2, 3}:
            provider = ("anthropic", "openai")[lot - 2]
            thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
            message = _of_blocks(message, provider, thinking, _text(message))  # noqa: PLW2901
        if message.type == "ai" and message.text and not message.tool_calls and lot == 4:
            reasoning = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
            message = _of_blocks(message, "openai", _text(message), reasoning)  # noqa: PLW2901
        rough.append(message)
        if message.type == "human" and lot in {0, 1, 2}:
            rough.append(HumanMessage("And please hurry.", id=f"hurry{number}"))
        if message.type == "human" and lot == 3:
            reasoning = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
            rough.append(AIMessage([reasoning], id=f"aborted{number}"))
            rough.append(HumanMessage("Are you there?", id=f"there{number}"))
    return rough


def _text(message: BaseMessage) -> dict:
    return {"type": "text", "text": message.text}


def _of_blocks(message: BaseMessage, provider: str, *blocks: dict) -> BaseMessage:
    metadata = {"model_provider": provider}
    return message.model_copy(update={"content": list(blocks), "response_metadata": metadata})


RECORDED_AT = "2026-11-20T10:05:00+00:00"
_TIMES = re.compile(r' from="[^"]+ UTC" to="[^"]+"')


def recording(number: int, *, rough: bool) -> Messages:
    """Return the messages of a recording, all at one time: only a store has times of its own."""
    messages = conversations()[number].messages
    messages = roughened(messages) if rough else messages
    return [marked(message, created_at=RECORDED_AT) for message in messages]


@dataclass(frozen=True)
class Case:
    """One recording under one family at one window."""

    number: int
    family: str
    window: int
    with_history: bool = True
    rough: bool = False


@dataclass
class Outcome:
    """How a case went: the model calls that were accepted, and whether any history was folded."""

    calls: int
    folded: bool


def play(case: Case) -> Outcome:
    """Play a recording through middleware and nodes, and through the history where asked to.

    A request that the fake refuses, or a difference between the doors, raises.
    """
    messages = recording(case.number, rough=case.rough)
    requests = play_middleware(messages, case.family, case.window)
    others = [play_nodes, play_history] if case.with_history else [play_nodes]
    for other in others:
        seen = other(messages, case.family, case.window)
        assert said(seen) == said(requests), (other.__name__, case)
    folded = any("<conversation_summary " in one.text for r in requests for one in r[:2])
    return Outcome(len(requests), folded)


def play_whole(case: Case) -> int:
    """Run agent and graph over a recording; return the requests, equal to the middleware's own."""
    messages = recording(case.number, rough=False)
    expected = said(play_middleware(messages, case.family, case.window))
    assert said(play_agent(messages, case.family, case.window)) == expected
    assert said(play_graph(messages, case.family, case.window)) == expected
    return len(expected)


def is_refused_unshaped(case: Case) -> bool:
    """Return whether the family's fake refuses a view that was made without the family's rules."""
    messages = recording(case.number, rough=case.rough)
    memory = memory_of(case.window, "common")
    try:
        for place in moments(messages):
            CHECKS[case.family](memory.view(messages[:place]).messages)
    except RefusedError:
        return True
    return False


def three_hundred_rounds(family: str) -> tuple[int, int, int, int]:
    """Run an agent whose tool gives up to 50k tokens at a window of 16k.

    Returns:
        Messages at the end, model calls, the limit of a request and the most tokens of one.
    """
    sizes = random.Random(4)

    @tool
    def read(size: int) -> str:
        """Read a file."""
        return "a line of a rather long file, number 4711\n" * (size // 10)

    script: list = []
    for n in range(300):
        size = sizes.choice([50, 200, 1_000, 5_000, 20_000, 50_000])
        call = {"name": "read", "args": {"size": size}, "id": f"call{n}"}
        script.append(AIMessage(f"I read file {n}.", tool_calls=[call]))
    model = StrictModel(family=family, script=[*script, AIMessage("Done.")])
    memory = memory_of(16_000)
    agent = create_agent(model, [read], middleware=[TokenMemoryMiddleware(memory)])
    result = agent.invoke({"messages": "Read them all."}, {"recursion_limit": 700})
    biggest = max(memory.count([m]).tokens for m in result["messages"])
    assert biggest > 50_000, biggest
    assert all(any(m.text.startswith("Read them all.") for m in r) for r in model.seen)
    most = max(memory.count(request, tools=[read]).tokens for request in model.seen)
    return len(result["messages"]), len(model.seen), memory.budget.limit, most
