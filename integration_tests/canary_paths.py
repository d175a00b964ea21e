"""Ways to plant canaries (random words) through every integration, by processes that are killed."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    memory_tools,
)
from langchain_tokenmem.notes import JsonStore, SqlStore
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings
from langchain_tokenmem.summarizers import ModelSummarizer
from tests.contract.chats import CHATS, Chat, Setting, Talker, pin

USER = "ann"
Turn = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """Where everything is kept, and what redacts it.

    Attributes:
        notes: `json` for files, `sql` for the transcripts' database.
        vectors: `chroma` for an embedded folder, `table` for the transcripts' database.
        redacts: The part of a `Place` that redacts: `memory` (and with it recall) or `store`.
        scope: Keywords of the redaction.
    """

    database: str
    notes: str
    vectors: str
    redacts: str
    scope: dict[str, Any]


CASES = {
    "sqlite-json-chroma": Case("sqlite", "json", "chroma", "memory", {"user_id": USER}),
    "postgresql-sql-table": Case("postgresql", "sql", "table", "store", {"everywhere": True}),
}


@dataclass
class Place:
    """One process's memory and stores, and the canaries that it has planted."""

    store: TranscriptStore
    recall: Recall
    notebook: Notebook
    memory: TokenMemory
    models: list[Talker]
    planted: list[str] = field(default_factory=list)
    is_planting: bool = True

    def words(self, count: int) -> str:
        """Return new canaries as text; other words once planting has ended."""
        if not self.is_planting:
            return "nothing secret"
        new = [f"canary-{secrets.token_hex(6)}" for _ in range(count)]
        self.planted += new
        return f"The codes are {' '.join(new)}."

    def talker(self, answer: Any) -> Talker:
        """Return a model that keeps the requests it gets."""
        self.models.append(Talker(answer=answer))
        return self.models[-1]

    def close(self) -> None:
        self.memory.close()
        self.recall.close()
        self.store.close()
        if isinstance(self.notebook.store, JsonStore):
            self.notebook.store.close()


def opened(case: Case, url: str, folder: Path) -> Place:
    """Open everything as a new process does."""
    store = TranscriptStore(url)
    embeddings = HashingEmbeddings(32)
    if case.vectors == "chroma":
        recall = Recall(store, chroma=ChromaIndex(folder / "chroma", embeddings=embeddings))
    else:
        recall = Recall(store, embeddings=embeddings)
    notebook = Notebook(JsonStore(folder / "notes") if case.notes == "json" else SqlStore(store))
    summaries = Talker(answer=lambda request: f"Summary: {request[-1].text[-600:]}")
    memory = TokenMemory(
        TokenBudget(context_window=2_000),
        summarizer=ModelSummarizer(summaries, min_characters=0, min_messages=1),
        recall=recall,
        notes=notebook,
    )
    return Place(store, recall, notebook, memory, [summaries])


def talk(name: str, durability: str | None = None) -> Any:
    """Return a path: turns of a conversation, each with a call of a tool."""

    def path(place: Place, thread: str) -> Turn:
        chat = chat_of(place, thread, name, durability)

        async def turn() -> None:
            await chat.ask(place.words(10))

        return turn

    return path


def chat_of(place: Place, thread: str, name: str, durability: str | None = None) -> Chat:
    """Return a conversation in which the model's call, its result and the answer have canaries."""

    @tool
    def look_up(query: str) -> str:
        """Look something up."""
        return place.words(5)

    def answer(request: list[BaseMessage]) -> AIMessage:
        if isinstance(request[-1], ToolMessage):
            return AIMessage(place.words(5))
        call = {"name": "look_up", "args": {"query": place.words(5)}, "id": secrets.token_hex(4)}
        return AIMessage("", tool_calls=[call])

    setting = Setting(
        place.memory, place.store, place.talker(answer), thread=thread, user=USER, tools=[look_up]
    )
    chat: Any = CHATS[name](setting, lambda _: place.memory, is_async=durability == "async")
    if chat.is_graph and durability:
        chat.graph = chat.graph.bind(durability=durability)
    return chat  # type: ignore[no-any-return]


def edit_and_pin(chat_name: str) -> Any:
    """Return a path: questions that are edited later, and pins."""

    def path(place: Place, thread: str) -> Turn:
        chat = chat_of(place, thread, chat_name)

        async def turn() -> None:
            asked = HumanMessage(place.words(2), id=secrets.token_hex(4))
            await chat.ask(asked)
            new = HumanMessage(place.words(5), id=asked.id)
            place.store.edit(thread, str(asked.id), new, user_id=USER)
            pin(chat, place.words(3))

        return turn

    return path


class Plan(MessagesState):
    plan: dict[str, Any]


def fork(durability: str) -> Any:
    """Return a path: a thread with a sub-graph, another channel, forks and open interrupts."""

    def path(place: Place, thread: str) -> Turn:
        agent = create_agent(
            place.talker(lambda _: place.words(5)),
            middleware=[TokenMemoryMiddleware(place.memory)],
            checkpointer=True,
        )

        def approve(state: Plan) -> dict[str, Any]:
            return {"plan": {"approved": interrupt({"ask": state["plan"]})}}

        builder = StateGraph(Plan)
        builder.add_node("plan", lambda _: {"plan": {"steps": [place.words(1)]}})
        builder.add_node("agent", agent)
        builder.add_node("approve", approve)
        builder.add_edge(START, "plan")
        builder.add_edge("plan", "agent")
        builder.add_edge("agent", "approve")
        graph: Any = builder.compile(checkpointer=TokenMemorySaver(place.store))
        config = {"configurable": {"thread_id": thread, "user_id": USER}}
        how: Any = {"durability": durability}

        def say() -> dict[str, Any]:
            return {"messages": [HumanMessage(place.words(2))]}

        async def turn() -> None:
            graph.invoke(say(), config, **how)
            forked = graph.update_state(graph.get_state(config).config, say(), as_node="plan")
            forked["configurable"]["user_id"] = USER
            graph.invoke(None, forked, **how)
            graph.invoke(Command(resume=place.words(2)), config, **how)
            graph.invoke(say(), config, **how)  # its interrupt stays open

        return turn

    return path


def keep_notes(place: Place, thread: str) -> Turn:
    """Keep notes of every level, in code and by the model's tool."""
    scope: dict[str, Any] = {"user_id": USER, "session_id": thread}
    (memorize,) = memory_tools(place.notebook, include={"memorize"}, **scope)

    async def turn() -> None:
        place.notebook.add(place.words(10), tags=["codes"], **scope)
        place.notebook.add(place.words(5), level="global", **scope)
        place.notebook.add(place.words(5), level="session", **scope)
        memorize.invoke({"content": place.words(5), "kind": "fact"})
        if isinstance(place.notebook.store, JsonStore):
            place.notebook.store.flush()

    return turn


def add_documents(place: Place, thread: str) -> Turn:
    """Add documents to a session and to its user."""

    async def turn() -> None:
        one = Document(place.words(15), metadata={"title": place.words(5)})
        place.recall.add_documents([one], session_id=thread, user_id=USER)
        place.recall.add_documents([Document(place.words(5))], user_id=USER)

    return turn


PATHS: dict[str, Callable[[Place, str], Turn]] = {
    "history": talk("history"),
    "chain": talk("chain", "async"),
    "middleware-sync": talk("middleware", "sync"),
    "middleware-exit": talk("middleware", "exit"),
    "node": talk("node", "sync"),
    "nodes": talk("nodes", "async"),
    "forks-sync": fork("sync"),
    "forks-exit": fork("exit"),
    "edits": edit_and_pin("history"),
    "thread-edits": edit_and_pin("middleware"),
    "notes": keep_notes,
    "documents": add_documents,
}
"""What plants canaries: each turn of each of them 25."""


def live(case: Case, url: str, folder: Path, name: str) -> None:
    """Take turns until the process is killed, and print what each of them has planted."""
    place = opened(case, url, folder)
    turn = PATHS[name](place, name)

    async def take_turns() -> None:
        while True:
            before = len(place.planted)
            await turn()
            print(json.dumps(place.planted[before:]), flush=True)

    asyncio.run(take_turns())


def rebuild(name: str, url: str, folder: str) -> None:
    """Make recall's index again."""
    place = opened(CASES[name], url, Path(folder))
    place.recall.rebuild()
    place.close()
