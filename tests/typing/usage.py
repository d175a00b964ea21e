"""Every public name as an application uses it, so that mypy checks what it takes and returns."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, assert_type

from langchain.agents import create_agent
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Command

import langchain_tokenmem as tm
from langchain_tokenmem import (
    TokenBudget,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    counting,
    graphs,
    modes,
    types,
)
from langchain_tokenmem import tools as agent_tools
from langchain_tokenmem.events import MemoryCallbacks, MemoryEvent
from langchain_tokenmem.notes import JsonStore, Note, SqlStore
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings, LexicalIndex, VectorStoreIndex

THREAD: Any = {"configurable": {"thread_id": "t1"}}


async def by_hand(messages: list[BaseMessage], state: types.MemoryState | None) -> None:
    """Compact and view, and look into the state."""
    mode = modes.ModeProfile("support", window=10, sections=("facts",))
    memory = TokenMemory(TokenBudget(8_000, target=0.4), trigger=("messages", 40), mode=mode)
    state = memory.compact(messages, state, force=True, instruction="Keep prices.")
    view = memory.view(messages, state, system="Be brief.", tools=[])
    assert_type(view, types.View)
    assert_type(view.messages, list[BaseMessage])
    assert_type(view.usage, types.TokenUsage)
    assert_type(view.warnings, tuple[str, ...])
    assert_type(view.usage.parts["tail"], int)
    assert_type(memory.mode_of(state), modes.ModeProfile | None)
    assert_type(memory.explain(messages), types.Explanation)
    said: list[HumanMessage | AIMessage] = [HumanMessage("Hi."), AIMessage("Hello.")]
    assert_type(memory.view(said).left_out, int)
    later = await memory.acompact(messages)
    assert_type(later["summary"], types.RunningSummary | None)
    if summary := later["summary"]:
        assert_type(summary["entries"][0]["text"], str)
    await memory.aclose()


def counts(model: BaseChatModel, messages: list[BaseMessage]) -> TokenMemory:
    """Count by a name, and as the provider does."""
    counter = counting.counter_for("gpt-4o")
    assert_type(counter, counting.TokenCounter)
    count = counter.count(messages, tools=[])
    assert_type(count, counting.TokenCount)
    assert_type(count.method, Literal["exact", "provider", "corrected", "estimate"])
    budget = TokenBudget.for_model(model, shares=types.Shares(recent=0.2))
    return TokenMemory(budget, counter=counting.ProviderCounter(model, timeout_s=1.0))


class Log(MemoryCallbacks):
    """Notes what every summary took."""

    def on_memory_end(self, event: MemoryEvent) -> None:
        """Note one."""
        assert_type(event.ids, tuple[str, ...])
        assert_type(event.cost, float | None)


def shout(
    messages: list[BaseMessage], prior: str | None, instruction: str | None, max_tokens: int
) -> str:
    """Summarize by a function."""
    return f"{len(messages)} more than in {len(prior or '')} letters, {instruction}"[:max_tokens]


def memories(model: BaseChatModel, message: AIMessage) -> list[TokenMemory]:
    """Take a model, its name, a runnable or a function as summarizer; own rules; turn memory."""
    own = types.RequestRules(legality=types.LegalityProfile("own", alternates=True))
    turn_memory: modes.TurnMemory = {"files_changed": ["b.go"], "failed_commands": []}
    assert_type(modes.format_message_for_provider(message, turn_memory), BaseMessage)
    kinds = modes.ToolKinds(writes={"save": "path"}, commands={"job": "line"}, reads={"preview"})
    return [
        TokenMemory(summarizer=model, callbacks=[Log()]),
        TokenMemory(summarizer="openai:gpt-4o-mini", background=False),
        TokenMemory(summarizer=model, background=types.BackgroundSummaries(timeout_s=60)),
        TokenMemory(summarizer=model.bind(temperature=0), request=own),
        TokenMemory(summarizer=shout, trigger=None),
        TokenMemory(turn_memory=modes.TurnMemorySettings(tools=kinds, shown="always")),
    ]


def chain(model: Runnable[Any, Any], store: TranscriptStore) -> None:
    """Wrap a chain; hand a history to what expects LangChain's."""
    assert_type(tm.with_token_memory(model), Runnable[Any, Any])
    wrapped = tm.with_token_memory(
        model, TokenMemory(8_000), store, input_messages_key="input", history_messages_key="history"
    )
    assert_type(wrapped, Runnable[Any, Any])
    history = tm.TokenMemoryChatHistory("s1", store=store, user_id="ann", overhead_tokens=300)
    given: BaseChatMessageHistory = history
    assert_type(given.messages, list[BaseMessage])
    assert_type(history.usage(), types.TokenUsage)
    assert_type(history.unpin(history.pin("Answer in French.")["id"]), bool)


async def stored(url: str, memory: TokenMemory) -> None:
    """Read, write and redact a transcript, sync and async."""
    async with TranscriptStore(url) as store:
        assert_type(await store.aadd("s1", [HumanMessage("Hi.")], user_id="ann"), list[str])
        assert_type(await store.aget("s1", "m1"), BaseMessage | None)
        assert_type(store.sessions(user_id="ann"), list[str])
        assert_type(store.redact("4111", user_id="ann", dry_run=True), types.RemovalReceipt)
        assert_type(memory.redact("4111", store=store, everywhere=True).counts, Mapping[str, int])


def recalled(store: TranscriptStore, embeddings: Embeddings) -> BaseRetriever:
    """Search by words and by meaning."""
    hits = tm.Recall(store).search("price", session_id="s1", user_id="ann", scope="user", k=5)
    assert_type((hits[0].text, hits[0].score), tuple[str, float])
    assert_type(LexicalIndex(store).index(), int)
    tm.Recall(store, embeddings=HashingEmbeddings(dim=64))
    exact = tm.Recall(store, embeddings="openai:text-embedding-3-small", on_model_change="rebuild")
    assert_type(exact.document("d", session_id="s1"), Document | None)
    tm.Recall(store, VectorStoreIndex(InMemoryVectorStore(embeddings)))
    chroma = tm.Recall(store, chroma=ChromaIndex("./chroma", embeddings=embeddings))
    return tm.TranscriptRetriever(recall=chroma, session_id="s1", k=5)


async def notes(store: TranscriptStore) -> list[BaseTool]:
    """Keep notes in any store, find them, and give an agent its tools."""
    kept: list[BaseStore] = [SqlStore(store), JsonStore("notes", debounce_s=1)]
    notebook = tm.Notebook(kept[0], project="shop", limit=100, local_user="me")
    note = notebook.add("Use tabs.", level="global", kind="preference", tags=["style"])
    assert_type(note.key, str | None)
    assert_type(notebook.search("tabs?", limit=3), list[Note])
    assert_type(await notebook.asearch("tabs?", limit=3), list[Note])
    assert_type(await notebook.alist(user_id="ann"), list[Note])
    assert_type(notebook.erase(user_id="ann"), int)
    TokenMemoryMiddleware(TokenMemory(notes=notebook), agent_tools={"memory", "read_message"})
    return tm.memory_tools(notebook, include={"memory"}, user_id="ann", session_id="s1")


async def graph(model: BaseChatModel, memory: TokenMemory, store: TranscriptStore) -> None:
    """Put the memory in front of a model's node, explain its calls, and pin."""

    def call_model(state: tm.MemoryMessagesState) -> dict[str, list[BaseMessage]]:
        request = tm.memory_input(state, memory, name="chat", system="Be brief.")
        assert_type(request, list[BaseMessage])
        return {"messages": [model.invoke(request)]}

    builder = StateGraph(tm.MemoryMessagesState)
    builder.add_node("model", call_model)
    entry = tm.memory_nodes(builder, memory, before="model", name="chat", system="Be brief.")
    assert_type(entry, str)
    builder.add_edge(START, entry)
    transformers = [graphs.TokenMemoryTransformer]
    compiled: Any = builder.compile(checkpointer=saver(store), transformers=transformers)
    assert_type(graphs.explain_call(compiled, THREAD, call=1).tokens, int)
    assert_type(await graphs.aexplain_call(compiled, THREAD), types.Explanation)
    Command(update=graphs.pin_update("Answer in French.", unpin=True))


def nodes(memory: TokenMemory, store: TranscriptStore) -> StateGraph[graphs.MemoryAgentState]:
    """Add the nodes one by one."""
    builder = StateGraph(graphs.MemoryAgentState)
    builder.add_node("memory", tm.MemoryNode(memory, state_key="memory", shared_threads=True))
    builder.add_node("recall", tm.RecallNode(memory))
    builder.add_node("compact", tm.CompactNode(memory, archive=store, prune=True))
    builder.add_node("summarize", tm.SummarizeNode(memory))
    builder.add_node("after_model", graphs.AfterModelNode(memory))
    return builder


def saver(store: TranscriptStore) -> BaseCheckpointSaver[Any]:
    """Make a checkpointer."""
    older = timedelta(days=30)
    return TokenMemorySaver(store, on_conflict="raise", keep_last=10, older_than=older)


def agent(model: BaseChatModel, store: TranscriptStore) -> None:
    """Give an agent a memory and its tools; make every part from settings."""
    memory = TokenMemoryMiddleware(TokenMemory(), name="wide", agent_tools=True)
    tools = [agent_tools.read_message_tool(), agent_tools.compact_conversation_tool("wide")]
    tools += [agent_tools.record_decision_tool(), agent_tools.set_goal_tool()]
    assert_type(tools, list[BaseTool])
    create_agent(model, tools, middleware=[memory], checkpointer=saver(store))
    given = tm.TokenMemorySettings(budget=8_000, mode="code", store="sqlite://")
    assert_type(given.store(), TranscriptStore)
    assert_type(given.recall(), tm.Recall)
    assert_type(given.memory(model, max_wait_s=5), TokenMemory)
    assert_type(given.middleware(model), TokenMemoryMiddleware)
    assert_type(given.saver(), TokenMemorySaver)
