"""A recording played, call by call, through each integration: by public names only.

Before every recorded answer of the model the integration is asked for the request of that call;
what the model would be sent is kept. A summarizing model writes its summaries in the turn.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    MemoryNode,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.types import MemoryState, TokenUsage
from tests.golden.models import NotesModel, RecordedModel
from tests.golden.recordings import Recording, pinned_now

CONVERSATION = "golden"
THREAD = {"configurable": {"thread_id": CONVERSATION}}
SESSION = {"configurable": {"session_id": CONVERSATION}}

# The log names the integration in front of a warning; that is no part of the warning.
_SPEAKER = re.compile(r"^(Session '[^']*'|\w+Node|\w+Middleware): ")


@dataclass(frozen=True)
class Request:
    """One request as it leaves.

    Attributes:
        messages: What the model is sent, system message first.
        tools: The tool schemas with it, where the integration passes them on.
        usage: The memory's own numbers, where the integration tells them.
        warnings: Of the view, where the integration has it.
    """

    messages: Sequence[BaseMessage]
    tools: Sequence[Any] = ()
    usage: TokenUsage | None = None
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Call:
    """What one model call led to.

    Attributes:
        request: What was sent.
        tokens: Of the request, as `TokenMemory.count` says.
        logged: Warnings in the log, without the name of the integration in front.
        prompts: Requests to the summarizing model.
    """

    request: Request
    tokens: int
    logged: Sequence[str]
    prompts: Sequence[Sequence[BaseMessage]]


class Integration(ABC):
    """One way to use a memory, played.

    Args:
        recording: What is played.
        memory: Decides what is sent.
        store: Keeps the transcript, where the integration has one.
    """

    stores_answers = True
    """Whether the model's answer is stored by the call itself."""

    def __init__(self, recording: Recording, memory: TokenMemory, store: TranscriptStore) -> None:
        self.recording = recording
        self.messages = recording.messages
        self.memory = memory
        self.store = store
        self.model = RecordedModel()
        self.model.wait_for(memory.close)
        self.around: dict[str, Any] = {"system": recording.system, "tools": recording.tools}
        self.set_up()

    @abstractmethod
    def set_up(self) -> None:
        """Build what is played."""

    @abstractmethod
    def request(self, start: int, place: int) -> Request:
        """Return the request whose answer stands at a place; messages before `start` are known."""

    def answered(self, runnable: Any, given: Any, config: Any, **options: Any) -> Request:
        """Let a runnable call the model, which gives the answer that was laid out."""
        runnable.invoke(given, config, **options)
        return Request(self.model.requests[-1], self.model.tools)


class Engine(Integration):
    """The memory by hand: `compact`, then `view`."""

    stores_answers = False

    def set_up(self) -> None:
        self._state: MemoryState | None = None

    def request(self, start: int, place: int) -> Request:
        del start
        said = self.messages[:place]
        self._state = self.memory.compact(said, self._state, **self.around)
        view = self.memory.view(said, self._state, **self.around)
        return Request(view.messages, (), view.usage, view.warnings)


class History(Integration):
    """`TokenMemoryChatHistory`; the system text is the caller's, and counted as overhead."""

    stores_answers = False

    def set_up(self) -> None:
        system = SystemMessage(self.recording.system or "")
        self._history = TokenMemoryChatHistory(
            CONVERSATION,
            memory=self.memory,
            store=self.store,
            tools=self.recording.tools,
            overhead_tokens=self.memory.count([system]).tokens,
        )

    def request(self, start: int, place: int) -> Request:
        self._history.add_messages(self.messages[start:place])
        self.memory.close()
        view = self._history.view()
        assert self._history.messages == view.messages
        return Request(view.messages, (), view.usage, view.warnings)


class Chain(Integration):
    """`with_token_memory` around a prompt, where there is a system text, or around the model."""

    def set_up(self) -> None:
        tools = self.recording.tools
        chain: Any = self.model.bind_tools(tools) if tools else self.model
        keys: dict[str, str] = {}
        if self.recording.system is not None:
            parts = [MessagesPlaceholder("history"), MessagesPlaceholder("input")]
            system = SystemMessage(self.recording.system)
            chain = ChatPromptTemplate.from_messages([system, *parts]) | chain
            keys = {"input_messages_key": "input", "history_messages_key": "history"}
        self._chain = with_token_memory(chain, self.memory, self.store, **keys)
        self._has_prompt = bool(keys)

    def request(self, start: int, place: int) -> Request:
        said = list(self.messages[start:place])
        return self.answered(self._chain, {"input": said} if self._has_prompt else said, SESSION)


class Node(Integration):
    """`MemoryNode`, called as a graph would call it."""

    stores_answers = False

    def set_up(self) -> None:
        self._state: MemoryState | None = None
        self._node = MemoryNode(self.memory, **self.around)

    def request(self, start: int, place: int) -> Request:
        del start
        state = {"messages": list(self.messages[:place]), "memory": self._state}
        update = self._node.invoke(state, THREAD)
        self._state = update.get("memory", self._state)
        return Request(update["llm_input_messages"])


class Graph(Integration):
    """A graph with `memory_nodes`: recall, compact and summarize as three nodes."""

    def set_up(self) -> None:
        builder = StateGraph(MemoryMessagesState)
        builder.add_node("model", self._call_model)
        builder.add_edge(START, memory_nodes(builder, self.memory, split=True, **self.around))
        self._graph = builder.compile(checkpointer=InMemorySaver())

    def _call_model(self, state: MemoryMessagesState) -> dict[str, Any]:
        request = memory_input(state, self.memory, **self.around)
        return {"messages": [self.model.invoke(request)]}

    def request(self, start: int, place: int) -> Request:
        said = {"messages": list(self.messages[start:place])}
        return self.answered(self._graph, said, THREAD, durability="exit")


class Agent(Integration):
    """`TokenMemoryMiddleware` in `create_agent`; tools are schemas only, so none is run."""

    def set_up(self) -> None:
        self._agent = create_agent(
            self.model,
            list(self.recording.tools),
            system_prompt=self.recording.system,
            middleware=[TokenMemoryMiddleware(self.memory)],
            checkpointer=InMemorySaver(),
        )

    def request(self, start: int, place: int) -> Request:
        said = {"messages": list(self.messages[start:place])}
        return self.answered(self._agent, said, THREAD, durability="exit")


ADAPTERS: dict[str, type[Integration]] = {
    "engine": Engine,
    "history": History,
    "runnable": Chain,
    "node": Node,
    "nodes": Graph,
    "middleware": Agent,
}


def play(recording: Recording, adapter: str, window: int, variant: str) -> list[Call]:
    """Play a recording through an integration, and return every call."""
    notes = NotesModel()
    with TranscriptStore("sqlite://") as store:
        memory = TokenMemory(
            TokenBudget(context_window=window),
            summarizer=notes if variant == "model" else None,
            recall=Recall(store) if variant.endswith("recall") else None,
            background=variant != "model",
            now=pinned_now,
        )
        played = ADAPTERS[adapter](recording, memory, store)
        calls: list[Call] = []
        start = 0
        for place in recording.calls:
            played.model.lay_out(recording.messages[place])
            calls.append(_call(played, notes, start, place))
            start = place + 1 if played.stores_answers else place
    return calls


def _call(played: Integration, notes: NotesModel, start: int, place: int) -> Call:
    memory = played.memory
    memory.close()  # waits for what a long message has left to the background
    asked = len(notes.requests)
    with _warnings_logged() as logged:
        request = played.request(start, place)
    tokens = memory.count(request.messages, tools=request.tools).tokens
    return Call(request, tokens, tuple(logged), tuple(notes.requests[asked:]))


@contextmanager
def _warnings_logged() -> Iterator[list[str]]:
    logged: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(_SPEAKER.sub("", record.getMessage()))

    handler, logger = Handler(logging.WARNING), logging.getLogger("langchain_tokenmem")
    logger.addHandler(handler)
    try:
        yield logged
    finally:
        logger.removeHandler(handler)
