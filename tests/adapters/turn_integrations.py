"""The integrations that the contract of a turn compares, each with one way to ask."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from pydantic import PrivateAttr

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)

NAME = "contract"
SESSION = {"configurable": {"session_id": NAME}}
THREAD = {"configurable": {"thread_id": NAME}}
_PATIENCE_S = 8.0


class Answering(BaseChatModel):
    """Answers in order; keeps every request; first lets a summary that was started begin.

    A summary in the background then reads what was said before this answer, in every run.
    """

    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _entered: set[int] = PrivateAttr(default_factory=set)
    _threads: set[threading.Thread] = PrivateAttr(default_factory=set)

    @property
    def _llm_type(self) -> str:
        return "contract"

    @property
    def requests(self) -> list[list[BaseMessage]]:
        return self._requests

    def begin_turn(self, entered: set[int]) -> None:
        self._entered = entered
        self._threads = set(threading.enumerate())

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end and any(
            thread.daemon and thread.ident not in self._entered
            for thread in set(threading.enumerate()) - self._threads
        ):
            time.sleep(0.005)
        self._requests.append(list(messages))
        answer = AIMessage(f"Answer {len(self._requests)}.", id=f"answer{len(self._requests)}")
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Integration(ABC):
    """One integration; `earlier` was said before it is first asked."""

    def __init__(
        self, memory: TokenMemory, store: TranscriptStore, earlier: Sequence[BaseMessage]
    ) -> None:
        self.memory = memory
        self.store = store
        self.model = Answering()
        self.config: dict[str, Any] = THREAD
        self.warnings: set[str] = set()
        self.earlier = list(earlier)
        self.runnable: Any = None
        self.set_up()

    @abstractmethod
    def set_up(self) -> None:
        """Build it."""

    def given(self, question: HumanMessage) -> Any:
        """Return the input of a call."""
        said, self.earlier = [*self.earlier, question], []
        return {"messages": said}

    def ask(self, question: HumanMessage) -> list[BaseMessage]:
        self.runnable.invoke(self.given(question), self.config)
        return self.model.requests[-1]

    async def aask(self, question: HumanMessage) -> list[BaseMessage]:
        await self.runnable.ainvoke(self.given(question), self.config)
        return self.model.requests[-1]


class History(Integration):
    """`TokenMemoryChatHistory`, with the loop that an application writes around it."""

    def set_up(self) -> None:
        self.history = TokenMemoryChatHistory(NAME, memory=self.memory, store=self.store)
        self.store.add(NAME, self.earlier)

    def ask(self, question: HumanMessage) -> list[BaseMessage]:
        self.history.add_messages([question])
        request = self.history.messages
        self.warnings.update(self.history.view().warnings)
        self.history.add_messages([self.model.invoke(request)])
        return request

    async def aask(self, question: HumanMessage) -> list[BaseMessage]:
        await self.history.aadd_messages([question])
        request = await self.history.aget_messages()
        self.warnings.update(self.history.view().warnings)
        await self.history.aadd_messages([await self.model.ainvoke(request)])
        return request


class Chain(Integration):
    """`with_token_memory`."""

    def set_up(self) -> None:
        self.store.add(NAME, self.earlier)
        self.runnable = with_token_memory(self.model, self.memory, self.store)
        self.config = SESSION

    def given(self, question: HumanMessage) -> Any:
        return [question]


class Node(Integration):
    """`memory_nodes` with one node: `MemoryNode`."""

    is_split = False

    def set_up(self) -> None:
        builder = StateGraph(MemoryMessagesState)
        builder.add_node("model", self._call_model)
        builder.add_edge(START, memory_nodes(builder, self.memory, split=self.is_split))
        self.runnable = builder.compile(checkpointer=InMemorySaver())

    def _call_model(self, state: MemoryMessagesState) -> dict[str, Any]:
        return {"messages": [self.model.invoke(memory_input(state, self.memory))]}


class Nodes(Node):
    """`memory_nodes` with three nodes."""

    is_split = True


class Agent(Integration):
    """`TokenMemoryMiddleware` in `create_agent`."""

    def set_up(self) -> None:
        middleware = [TokenMemoryMiddleware(self.memory)]
        self.runnable = create_agent(
            self.model, middleware=middleware, checkpointer=InMemorySaver()
        )


INTEGRATIONS = {
    "history": History,
    "runnable": Chain,
    "node": Node,
    "three-nodes": Nodes,
    "middleware": Agent,
}
