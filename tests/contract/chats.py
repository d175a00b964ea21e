"""One conversation through each integration, by public names only.

A contract test says something to a `Chat` and looks at what the model received. It knows nothing of
the integration behind it, so the inside of the package may change under it.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import PrivateAttr

from langchain_tokenmem import (
    MemoryMessagesState,
    Notebook,
    Recall,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.events import MemoryCallbacks, MemoryEvent
from langchain_tokenmem.graphs import pin_update
from langchain_tokenmem.notes import SqlStore

MOST_MODEL_CALLS = 20
"""Model calls of one turn before a test is taken to hang."""

Answer = Callable[[list[BaseMessage]], AIMessage | str]
MakeMemory = Callable[[TranscriptStore], TokenMemory]


class Talker(BaseChatModel):
    """A chat model that answers by a script and keeps every request that it received.

    Attributes:
        answer: An answer, a list of answers (the last one is repeated), or a function of the
            request. An answer is a text, a message, or an exception that is raised.
    """

    answer: Any = "Noted."
    name_: str = "gpt-4o"
    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _keywords: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def model_name(self) -> str:
        return self.name_

    @property
    def requests(self) -> list[list[BaseMessage]]:
        """Every request, oldest first."""
        return self._requests

    @property
    def keywords(self) -> list[dict[str, Any]]:
        """Keywords of every request: bound tools, output limits and the like."""
        return self._keywords

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=list(tools), **kwargs)

    def _answer(self, messages: list[BaseMessage], keywords: dict[str, Any]) -> AIMessage:
        self._requests.append(list(messages))
        self._keywords.append(keywords)
        said: Any = self.answer
        if isinstance(said, list):
            said = said.pop(0) if len(said) > 1 else said[0]
        elif callable(said):
            said = said(messages)
        if isinstance(said, Exception):
            raise said
        return AIMessage(said) if isinstance(said, str) else said.model_copy()

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **k: Any) -> Any:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages, k))])

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **k: Any) -> Any:
        said = self._answer(messages, k)
        for word in re.findall(r"\S+\s*", str(said.content)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


class Heard(MemoryCallbacks):
    """Keeps the memory's events: those that began, and those that ended or failed."""

    def __init__(self) -> None:
        self.starts: list[MemoryEvent] = []
        self.events: list[MemoryEvent] = []
        self.errors: list[MemoryEvent] = []
        self.on_memory_start = self.starts.append  # type: ignore[method-assign]
        self.on_memory_end = self.events.append  # type: ignore[method-assign]
        self.on_memory_error = self.errors.append  # type: ignore[method-assign]

    def of(self, kind: str) -> list[MemoryEvent]:
        """Return the events of a kind that have ended."""
        return [event for event in self.events if event.kind == kind]


@dataclass
class Setting:
    """What a conversation is held with.

    Attributes:
        memory: A memory, or a function that makes one for a store.
        store: Holds transcripts and checkpoints.
        model: Answers.
        thread: Names the conversation: `session_id` of chains, `thread_id` of graphs.
        user: Its user; None for nobody.
        system: System text of the application.
        tools: Tools of the agent. A schema alone is shown to the model and never run.
        saver: Checkpointer of graphs and agents; default: a `TokenMemorySaver` on the store.
        keywords: Further keywords of the integration itself.
    """

    memory: TokenMemory
    store: TranscriptStore
    model: Talker
    thread: str = "t1"
    user: str | None = None
    system: str | None = None
    tools: Sequence[BaseTool | dict[str, Any]] = ()
    saver: Any = None
    keywords: dict[str, Any] = field(default_factory=dict)


class Chat(ABC):
    """One conversation; `ask` says something and returns what the model received meanwhile."""

    is_graph = False
    graph: Any
    chain: Any

    def __init__(self, setting: Setting, make: MakeMemory, *, is_async: bool) -> None:
        self.setting = setting
        self.memory, self.store, self.model = setting.memory, setting.store, setting.model
        self.make = make
        self.is_async = is_async
        self.set_up()

    # What every integration does in its own way.

    @abstractmethod
    def set_up(self) -> None:
        """Build the integration."""

    @abstractmethod
    async def say(self, messages: list[BaseMessage]) -> None:
        """Add messages, let the model answer, run its tools."""

    @abstractmethod
    def said(self) -> list[BaseMessage]:
        """Return the whole conversation as it is kept."""

    # What is the same for all.

    @property
    def requests(self) -> list[list[BaseMessage]]:
        """Every request of this conversation's model, oldest first."""
        return self.model.requests

    async def ask(self, said: str | BaseMessage | Sequence[BaseMessage]) -> list[list[BaseMessage]]:
        """Say something, and return the requests that the model received in this turn."""
        if isinstance(said, str):
            said = HumanMessage(said)
        messages = [said] if isinstance(said, BaseMessage) else list(said)
        before = len(self.requests)
        await self.say([message.model_copy(deep=True) for message in messages])
        return self.requests[before:]

    async def last(self, said: str | BaseMessage | Sequence[BaseMessage]) -> list[BaseMessage]:
        """Say something, and return the newest request."""
        return (await self.ask(said))[-1]

    async def talk(
        self, count: int, words: int = 60, *, waits: bool = False
    ) -> list[list[BaseMessage]]:
        """Ask long questions, and return the newest request of each turn.

        With `waits` each summary behind a reply is finished before the next question.
        """
        requests = []
        for question in long_turns(count, words):
            requests.append(await self.last(question))
            if waits:
                self.memory.close()
        return requests

    def also(self, **changes: Any) -> Chat:
        """Return another conversation with the same memory and store: `thread=`, `user=` ..."""
        changes.setdefault("model", Talker(answer=self.model.answer, name_=self.model.name_))
        return type(self)(replace(self.setting, **changes), self.make, is_async=self.is_async)

    def reopened(self) -> Chat:
        """Return the same conversation as a new process finds it: new objects, same storage."""
        self.memory.close()
        setting = replace(self.setting, memory=self.make(self.store))
        return type(self)(setting, self.make, is_async=self.is_async)

    @property
    def config(self) -> dict[str, Any]:
        """The config of a call."""
        key = "thread_id" if self.is_graph else "session_id"
        names = {key: self.setting.thread, "user_id": self.setting.user}
        return {"configurable": {key: name for key, name in names.items() if name is not None}}

    async def call(self, runnable: Any, given: Any, config: Any = None) -> Any:
        """Invoke a runnable, in the way of this conversation."""
        config = config or self.config
        if self.is_async:
            return await runnable.ainvoke(given, config)
        return runnable.invoke(given, config)

    @property
    def runnable(self) -> Any:
        """What an application calls."""
        return self.graph if self.is_graph else self.chain

    def given(self, messages: Sequence[BaseMessage]) -> Any:
        """Return messages as `runnable` takes them."""
        if self.is_graph:
            return {"messages": list(messages)}
        return {"input": list(messages)} if self.setting.system else list(messages)

    async def invoke(self, said: str, config: Any) -> None:
        """Say something in a call with a config."""
        await self.call(self.runnable, self.given([HumanMessage(said)]), config)

    @property
    def run_tools(self) -> list[BaseTool]:
        """The tools that are run."""
        return [tool for tool in self.setting.tools if isinstance(tool, BaseTool)]

    async def results_of(self, answer: BaseMessage) -> list[BaseMessage]:
        """Run the tools that an answer calls."""
        tools = {tool.name: tool for tool in self.run_tools}
        calls = getattr(answer, "tool_calls", []) if tools else []
        return [
            await self.call(tools[call["name"]], {**call, "type": "tool_call"}) for call in calls
        ]

    def bound_model(self) -> Any:
        """Return the model with the tools of this conversation."""
        tools = list(self.setting.tools)
        return self.model.bind_tools(tools) if tools else self.model

    def system_messages(self) -> list[SystemMessage]:
        return [SystemMessage(self.setting.system)] if self.setting.system else []


class ByHand(Chat):
    """`memory.compact` and `memory.view`; the state and the messages are kept as JSON."""

    def set_up(self) -> None:
        self._kept = "null", "[]"

    def reopened(self) -> Chat:
        chat = super().reopened()
        assert isinstance(chat, ByHand)
        chat._kept = self._kept
        return chat

    def said(self) -> list[BaseMessage]:
        return messages_from_dict(json.loads(self._kept[1]))

    async def say(self, messages: list[BaseMessage]) -> None:
        said = self.said()
        around: Any = {"system": self.setting.system, "tools": list(self.setting.tools) or None}
        around |= self.setting.keywords
        for _ in range(MOST_MODEL_CALLS):
            for message in messages:
                message.id = message.id or f"m{len(said)}"
                said.append(message)
            state = json.loads(self._kept[0])
            if self.is_async:
                state = await self.memory.acompact(said, state, **around)
            else:
                state = self.memory.compact(said, state, **around)
            self.view = self.memory.view(said, state, **around)
            self._kept = json.dumps(state), json.dumps(messages_to_dict(said))
            answer = await self.call(self.bound_model(), self.view.messages)
            results = await self.results_of(answer)
            messages = [answer, *results]
            if not results:
                break
        answer.id = answer.id or f"m{len(said)}"
        self._kept = self._kept[0], json.dumps(messages_to_dict([*said, answer]))


class History(Chat):
    """`TokenMemoryChatHistory`, with the loop that an application writes around it."""

    def set_up(self) -> None:
        s = self.setting
        system = self.system_messages()
        around: dict[str, Any] = {"tools": list(s.tools) or None}
        around["overhead_tokens"] = s.memory.count(system).tokens if system else 0
        around |= s.keywords
        self.history = TokenMemoryChatHistory(
            s.thread, memory=s.memory, store=s.store, user_id=s.user, **around
        )

    def said(self) -> list[BaseMessage]:
        return self.history.full_history()

    async def say(self, messages: list[BaseMessage]) -> None:
        for _ in range(MOST_MODEL_CALLS):
            await self._add(messages)
            request = [*self.system_messages(), *await self.request()]
            answer = await self.call(self.bound_model(), request)
            messages = [answer, *await self.results_of(answer)]
            if len(messages) == 1:
                break
        await self._add(messages)

    async def request(self) -> list[BaseMessage]:
        """Return what the history sends, which is all but the system text."""
        return await self.history.aget_messages() if self.is_async else self.history.messages

    async def _add(self, messages: list[BaseMessage]) -> None:
        if self.is_async:
            await self.history.aadd_messages(messages)
        else:
            self.history.add_messages(messages)


class Chain(Chat):
    """`with_token_memory`, around a prompt where there is a system text."""

    def set_up(self) -> None:
        s = self.setting
        keys = {}
        chain = self.bound_model()
        if s.system:
            places = [MessagesPlaceholder("history"), MessagesPlaceholder("input")]
            chain = ChatPromptTemplate.from_messages([SystemMessage(s.system), *places]) | chain
            keys = {"input_messages_key": "input", "history_messages_key": "history"}
        self.chain = with_token_memory(chain, s.memory, s.store, **keys, **s.keywords)

    def said(self) -> list[BaseMessage]:
        return self.store.messages(self.setting.thread, user_id=self.setting.user)

    async def say(self, messages: list[BaseMessage]) -> None:
        for _ in range(MOST_MODEL_CALLS):
            answer = await self.call(self.runnable, self.given(messages))
            messages = await self.results_of(answer)
            if not messages:
                break


class _Graph(Chat):
    """A compiled graph with a checkpointer."""

    is_graph = True

    @property
    def saver(self) -> Any:
        return self.setting.saver or TokenMemorySaver(self.store)

    async def say(self, messages: list[BaseMessage]) -> None:
        await self.call(self.graph, self.given(messages))

    def said(self) -> list[BaseMessage]:
        said: list[AnyMessage] = self.graph.get_state(self.config).values.get("messages", [])
        return list(said)


class Agent(_Graph):
    """`TokenMemoryMiddleware` in `create_agent`."""

    def set_up(self) -> None:
        s = self.setting
        self.graph = create_agent(
            s.model,
            list(s.tools),
            system_prompt=s.system,
            middleware=[TokenMemoryMiddleware(s.memory, **s.keywords)],
            checkpointer=self.saver,
        )


class Node(_Graph):
    """`memory_nodes` with one node: `MemoryNode`."""

    is_split = False

    def set_up(self) -> None:
        s = self.setting
        around: dict[str, Any] = {"system": s.system, "tools": list(s.tools) or None, **s.keywords}
        builder = StateGraph(MemoryMessagesState)

        def call_model(state: MemoryMessagesState) -> dict[str, Any]:
            request = memory_input(state, s.memory, **around)
            return {"messages": [self.bound_model().invoke(request)]}

        builder.add_node("model", call_model)
        first = memory_nodes(builder, s.memory, split=self.is_split, **around)
        builder.add_edge(START, first)
        if self.run_tools:
            builder.add_node("tools", ToolNode(self.run_tools))
            builder.add_conditional_edges("model", _next_node, ["tools", "__end__"])
            builder.add_edge("tools", first)
        self.graph = builder.compile(checkpointer=self.saver)


class Nodes(Node):
    """`memory_nodes(split=True)`: recall, compaction and summary as nodes of their own."""

    is_split = True


def _next_node(state: dict[str, Any]) -> str:
    newest = next(m for m in reversed(state["messages"]) if not isinstance(m, ToolMessage))
    return "tools" if getattr(newest, "tool_calls", None) else "__end__"


CHATS: dict[str, type[Chat]] = {
    "by-hand": ByHand,
    "history": History,
    "chain": Chain,
    "middleware": Agent,
    "node": Node,
    "nodes": Nodes,
}


def ways(*names: str, both: bool = False) -> pytest.MarkDecorator:
    """Run a test in some integrations only; a store is needed where none is named.

    Args:
        names: Keys of `CHATS`; default: all but `by-hand`, where the application keeps everything.
        both: Whether to run it in both forms, or synchronously only.
    """
    chosen = names or [name for name in CHATS if name != "by-hand"]
    forms = [(name, form) for name in chosen for form in ((False, True) if both else (False,))]
    ids = [f"{name}-{'async' if form else 'sync'}" for name, form in forms]
    return pytest.mark.parametrize("way", forms, indirect=True, ids=ids)


@dataclass(frozen=True)
class Way:
    """An integration, sync or async, on one database.

    Attributes:
        name: Key in `CHATS`.
        is_async: Whether the asynchronous methods are used.
        url: Database of the stores that it makes.
    """

    name: str
    is_async: bool
    url: str
    stores: list[TranscriptStore] = field(default_factory=list)

    @property
    def is_graph(self) -> bool:
        """Whether the conversation is a thread of a graph."""
        return CHATS[self.name].is_graph

    def store(self) -> TranscriptStore:
        """Return a new store, which the fixture closes."""
        store = TranscriptStore(self.url, shared=True)
        self.stores.append(store)
        return store

    def chat(
        self,
        memory: TokenMemory | MakeMemory,
        *,
        model: Talker | None = None,
        store: TranscriptStore | None = None,
        **setting: Any,
    ) -> Chat:
        """Return a new conversation.

        Args:
            memory: A memory, or a function that makes one for a store (`reopened` calls it again).
            model: Answers; default: one that says "Noted.".
            store: Default: a new one.
            setting: `thread`, `user`, `system`, `tools`, `saver`, `keywords`: see `Setting`.
        """
        store = store or self.store()
        make = (lambda _: memory) if isinstance(memory, TokenMemory) else memory
        made = Setting(make(store), store, model or Talker(), **setting)
        return CHATS[self.name](made, make, is_async=self.is_async)


def pin(chat: Chat, text: str) -> None:
    """Pin a text in a conversation that is stored, as its integration does it."""
    if isinstance(chat, _Graph):
        chat.graph.update_state(chat.config, pin_update(text))
    else:
        s = chat.setting
        TokenMemoryChatHistory(s.thread, memory=s.memory, store=s.store, user_id=s.user).pin(text)


def in_thread(name: str = "t1", user: str | None = None) -> Any:
    """Return the config of a call in a thread of a graph."""
    names = {"thread_id": name, "user_id": user}
    return {"configurable": {key: given for key, given in names.items() if given is not None}}


def agent_of(*middleware: Any, model: Talker | None = None, tools: Any = ()) -> Any:
    """Return an agent with a checkpointer, for what the chats above do not offer."""
    model = model or Talker()
    return create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver())


def calling(name: str, key: str = "c1", /, **args: Any) -> AIMessage:
    """Return an answer that calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": key}])


def wordless(_messages: list[BaseMessage]) -> str:
    """Summarize without a word of what was said."""
    return "- Several things were said."


def texts(messages: Sequence[BaseMessage]) -> str:
    """Return all that a model reads in messages: their texts, and what their calls say."""
    calls = [str(getattr(m, "tool_calls", "") or "") for m in messages]
    return "\n".join(f"{m.text} {call}" for m, call in zip(messages, calls, strict=True))


def turns_of(count: int, words: int = 60) -> list[BaseMessage]:
    """Return long questions with their answers."""
    asked = map(HumanMessage, long_turns(count, words))
    return [message for one in asked for message in (one, AIMessage("Noted."))]


def long_turns(count: int, words: int = 60) -> list[str]:
    """Return questions of a given length, each with a name that occurs in no other."""
    return [f"Question {n} about parcel P-{7000 + n}. {'word ' * words}" for n in range(count)]


def bytes_of(folder: Path) -> bytes:
    """Return every byte of the files below a folder, in lower case as terms of an index are."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file()).lower()


def fill(store: TranscriptStore, session: str, user: str, secret: str) -> TokenMemoryChatHistory:
    """Give a session everything that a session can have, with a secret in all of it."""
    recall = Recall(store)
    memory = TokenMemory(1_000, background=False, recall=recall)
    history = TokenMemoryChatHistory(session, user_id=user, memory=memory, store=store)
    history.add_messages([HumanMessage(f"My code is {secret}.", id="m"), AIMessage("ok", id="a")])
    history.add_messages([HumanMessage(f"My code is {secret}-2.", id="m")])
    for question in long_turns(8):
        history.add_messages([HumanMessage(question), AIMessage(f"Noted, {secret}.")])
        assert history.messages
    history.pin(f"The code is {secret}.")
    recall.add_documents([Document(f"invoice {secret}")], session_id=session, user_id=user)
    notes = Notebook(SqlStore(store))
    notes.add(f"code {secret}", level="session", session_id=session, user_id=user)
    return history
