"""Times at every door: the question's when it is submitted, the answer's when it is complete."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableGenerator
from langchain_core.runnables.history import RunnableWithMessageHistory
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.core.messages import marks_of, text_of
from langchain_tokenmem.memory.finished_summaries import rebase_summary
from langchain_tokenmem.state import new_state
from tests.fakes import CharCounter, ListSummarizer, entries_of
from tests.summarize.models import Scripted

PROMPT = ChatPromptTemplate(
    [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{input}")]
)
SESSION = {"configurable": {"session_id": "s"}}
THREAD = {"configurable": {"thread_id": "t"}}
FIRST, SECOND = "[2026-02-14 15:00:00 UTC] One?", "One!"
THIRD = "[2026-02-14 16:00:00 UTC, previous answer 15:00:30 UTC] Two?"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = datetime(2026, 2, 14, 15, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def on(self, seconds: int) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as store:
        yield store


def memory_of(clock: Clock, show_times: Any = "human", window: int = 8_000, **more) -> TokenMemory:
    return TokenMemory(
        TokenBudget(context_window=window),
        counter=CharCounter(),
        summarizer=ListSummarizer(),
        show_times=show_times,
        now=clock,
        **more,
    )


def slow_model(clock: Clock, copied: str = "") -> Scripted:
    """Return a model whose answers take 30 seconds, and may begin with a copied time."""

    def answer(messages: list[BaseMessage]) -> str:
        clock.on(30)
        said = [text_of(m).rpartition(" ")[2].strip("?") for m in messages if m.type == "human"]
        return f"{copied}{said[-1]}!"

    return Scripted(answer=answer)


def request_of(model: Scripted) -> list[Any]:
    """Return what the newest request says after the system text."""
    return [message.content for message in model.requests[-1] if message.type != "system"]


def chain_of(clock: Clock, store, model: Scripted, show_times: Any = "human", prompt=PROMPT):
    memory = memory_of(clock, show_times)
    keys = {"input_messages_key": "input", "history_messages_key": "history"}
    return with_token_memory(prompt | model, memory, store, **keys)


def times_of(rows) -> list[str]:
    return [f"{row.created_at:%H:%M:%S}" for row in rows]


# Chains


def test_a_chain_stamps_the_question_when_submitted_and_the_answer_when_complete(clock, store):
    model = slow_model(clock)
    chain = chain_of(clock, store, model)
    chain.invoke({"input": "One?"}, SESSION)
    assert request_of(model) == [FIRST]
    clock.on(3_570)
    chain.invoke({"input": "Two?"}, SESSION)
    assert request_of(model) == [FIRST, SECOND, THIRD]
    rows = store.rows("s")
    assert times_of(rows) == ["15:00:00", "15:00:30", "16:00:00", "16:00:30"]
    assert [row.message.content for row in rows] == ["One?", "One!", "Two?", "Two!"]


async def test_an_async_chain_does_the_same(clock, store):
    model = slow_model(clock)
    chain = chain_of(clock, store, model)
    await chain.ainvoke({"input": "One?"}, SESSION)
    clock.on(3_570)
    await chain.ainvoke({"input": "Two?"}, SESSION)
    assert request_of(model) == [FIRST, SECOND, THIRD]
    assert times_of(store.rows("s"))[:2] == ["15:00:00", "15:00:30"]


def streaming(clock: Clock):
    def pieces(_given):
        for word in ("[2026-02-14 15:00:00 UTC] One", "!"):
            clock.on(15)
            yield AIMessageChunk(word)

    async def apieces(given):
        for piece in pieces(given):
            yield piece

    return RunnableGenerator(pieces, apieces)


def test_the_answer_of_a_stream_has_the_time_of_its_end(clock, store):
    chain = with_token_memory(streaming(clock), memory_of(clock, "all"), store)
    assert len([*chain.stream("One?", SESSION)]) == 2
    assert times_of(store.rows("s")) == ["15:00:00", "15:00:30"]
    assert store.rows("s")[1].message.content == "One!"


async def test_the_answer_of_an_async_stream_has_the_time_of_its_end(clock, store):
    chain = with_token_memory(streaming(clock), memory_of(clock, "all"), store)
    assert [piece async for piece in chain.astream("One?", SESSION)]
    assert times_of(store.rows("s")) == ["15:00:00", "15:00:30"]
    assert store.rows("s")[1].message.content == "One!"


def test_a_chain_without_a_prompt_shows_times_too(clock, store):
    model = slow_model(clock)
    chain = with_token_memory(model, memory_of(clock), store)
    chain.invoke("One?", SESSION)
    clock.on(3_570)
    chain.invoke("Two?", SESSION)
    assert request_of(model) == [FIRST, SECOND, THIRD]


def test_a_prompt_that_puts_words_around_the_input_shows_its_time(clock, store):
    prompt = ChatPromptTemplate([MessagesPlaceholder("history"), ("human", "Please: {input}")])
    model = slow_model(clock)
    chain_of(clock, store, model, prompt=prompt).invoke({"input": "One?"}, SESSION)
    assert request_of(model) == ["[2026-02-14 15:00:00 UTC] Please: One?"]
    assert store.rows("s")[0].message.content == "One?"


def test_a_message_in_the_input_shows_its_own_mark(clock, store):
    prompt = ChatPromptTemplate([MessagesPlaceholder("history"), MessagesPlaceholder("input")])
    model = slow_model(clock)
    marks = {"tokenmem": {"created_at": "2026-02-14T09:00:00+00:00"}}
    said = HumanMessage("One?", response_metadata=marks)
    chain_of(clock, store, model, prompt=prompt).invoke({"input": [said]}, SESSION)
    assert request_of(model) == ["[2026-02-14 09:00:00 UTC] One?"]
    assert times_of(store.rows("s")) == ["09:00:00", "15:00:30"]


def test_a_chain_that_shows_no_times_sends_what_it_sent(clock, store):
    model = slow_model(clock)
    chain = chain_of(clock, store, model, None)
    for text in ("One?", "Two?"):
        chain.invoke({"input": text}, SESSION)
    assert request_of(model) == ["One?", "One!", "Two?"]
    assert times_of(store.rows("s")) == ["15:00:00", "15:00:30", "15:00:30", "15:01:00"]


@pytest.mark.parametrize(
    ("how", "stored"), [("all", "One!"), ("human", "[2026-02-14 15:00:00 UTC] One!")]
)
def test_a_chain_takes_a_copied_time_off_before_it_stores_the_answer(clock, store, how, stored):
    model = slow_model(clock, "[2026-02-14 15:00:00 UTC] ")
    chain = chain_of(clock, store, model, how)
    chain.invoke({"input": "One?"}, SESSION)
    assert store.rows("s")[1].message.content == stored
    chain.invoke({"input": "Two?"}, SESSION)
    assert str(request_of(model)[1]).count("UTC") == 1


# Histories


def wrapped(runnable: Any, history: TokenMemoryChatHistory, **keys: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated since langchain-core 1.3.3
        return RunnableWithMessageHistory(runnable, lambda _session: history, **keys)


@pytest.mark.parametrize("key", ["history", None])
def test_a_history_stamps_the_question_when_it_was_read(clock, store, key):
    model, memory = slow_model(clock), memory_of(clock)
    history = TokenMemoryChatHistory("s", memory=memory, store=store)
    inner = PROMPT | model if key else model
    keys = {"input_messages_key": "input", "history_messages_key": "history"} if key else {}
    chain = wrapped(inner, history, **keys)
    for text in ("One?", "Two?"):
        chain.invoke({"input": text} if key else text, SESSION)
        clock.on(3_570)
    assert times_of(store.rows("s")) == ["15:00:00", "15:00:30", "16:00:00", "16:00:30"]
    assert [text_of(message) for message in history.messages] == [*(FIRST, SECOND, THIRD, "Two!")]
    assert [message.content for message in history.full_history()][:2] == ["One?", "One!"]


async def test_an_async_history_does_the_same(clock, store):
    model, memory = slow_model(clock), memory_of(clock)
    history = TokenMemoryChatHistory("s", memory=memory, store=store)
    chain = wrapped(model, history)
    await chain.ainvoke("One?", SESSION)
    assert times_of(store.rows("s")) == ["15:00:00", "15:00:30"]


def test_a_history_takes_a_copied_time_off_and_leaves_the_users_words(clock, store):
    history = TokenMemoryChatHistory("s", memory=memory_of(clock, "all"), store=store)
    stamp = "[2026-02-14 15:00:00 UTC] "
    history.add_messages([HumanMessage(f"{stamp}One?"), AIMessage(f"{stamp}One!")])
    assert [row.message.content for row in store.rows("s")] == [f"{stamp}One?", "One!"]


def test_what_a_view_shows_is_no_edit_when_it_comes_back(clock, store):
    first = TokenMemoryChatHistory("s", memory=memory_of(clock), store=store)
    first.add_messages([HumanMessage("One?", id="h1")])
    shown = first.messages
    TokenMemoryChatHistory("s", memory=memory_of(clock), store=store).add_messages(shown)
    assert [row.message.content for row in store.rows("s")] == ["One?"]


# Graphs


def agent_of(clock: Clock, model: Scripted, show_times: Any = "human", window: int = 8_000):
    middleware = [TokenMemoryMiddleware(memory_of(clock, show_times, window))]
    return create_agent(model, middleware=middleware, checkpointer=InMemorySaver())


def graph_of(clock: Clock, model: Scripted, show_times: Any = "human", window: int = 8_000):
    memory = memory_of(clock, show_times, window)
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": model.invoke(memory_input(state, memory))})
    builder.add_edge(START, memory_nodes(builder, memory))
    return builder.compile(checkpointer=InMemorySaver())


def split_graph_of(clock: Clock, model: Scripted, show_times: Any = "human", window: int = 8_000):
    memory = memory_of(clock, show_times, window)
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": model.invoke(memory_input(state, memory))})
    builder.add_edge(START, memory_nodes(builder, memory, split=True))
    return builder.compile(checkpointer=InMemorySaver())


GRAPHS = [agent_of, graph_of, split_graph_of]


def state_of(graph: Any) -> Any:
    values = graph.get_state(THREAD).values
    held = values.get("token_memory")
    return held["TokenMemoryMiddleware"] if held else values.get("memory") or new_state()


@pytest.mark.parametrize("made", GRAPHS)
def test_a_graph_keeps_the_first_sight_of_its_messages(clock, made):
    model = slow_model(clock)
    graph = made(clock, model)
    graph.invoke({"messages": "One?"}, THREAD)
    assert request_of(model) == [FIRST]
    clock.on(3_570)
    graph.invoke({"messages": "Two?"}, THREAD)
    assert request_of(model) == [FIRST, SECOND, THIRD]
    kept = graph.get_state(THREAD).values["messages"]
    assert [message.content for message in kept] == ["One?", "One!", "Two?", "Two!"]
    assert not any(marks_of(message) for message in kept)


@pytest.mark.parametrize("made", GRAPHS)
async def test_an_async_graph_does_the_same(clock, made):
    model = slow_model(clock)
    graph = made(clock, model)
    await graph.ainvoke({"messages": "One?"}, THREAD)
    clock.on(3_570)
    await graph.ainvoke({"messages": "Two?"}, THREAD)
    assert request_of(model) == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize("made", GRAPHS)
def test_first_sights_are_kept_only_where_times_are_shown(clock, made):
    graph = made(clock, slow_model(clock), None)
    graph.invoke({"messages": "One?"}, THREAD)
    assert "times" not in state_of(graph)
    with_times = made(clock, slow_model(clock))
    with_times.invoke({"messages": "One?"}, THREAD)
    assert len(state_of(with_times)["times"]) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("made", GRAPHS)
def test_first_sights_are_kept_until_covered_and_bytes_stay_between_folds(clock, made):
    model = slow_model(clock)
    graph = made(clock, model, "human", 1_000)
    for number in range(24):
        before = list(model.requests[-1]) if model.requests else []
        folded = len(entries_of(state_of(graph)))
        graph.invoke({"messages": "word " * 30 + f"{number}?"}, THREAD)
        clock.on(100)
        if before and len(entries_of(state_of(graph))) == folded:
            now = [message.content for message in model.requests[-1]]
            assert now[: len(before)] == [message.content for message in before]
    state = state_of(graph)
    entry = entries_of(state)[0]
    assert len(entries_of(state)) >= 2
    assert entry["since"] == "2026-02-14T15:00:00+00:00" < entry["until"]
    assert len(state["times"]) < 24


@pytest.mark.parametrize("made", GRAPHS)
def test_the_mark_of_the_application_wins_over_the_first_sight(clock, made):
    model = slow_model(clock)
    marks = {"tokenmem": {"created_at": "2026-02-14T09:00:00+00:00"}}
    said = HumanMessage("One?", response_metadata=marks)
    made(clock, model).invoke({"messages": [said]}, THREAD)
    assert request_of(model) == ["[2026-02-14 09:00:00 UTC] One?"]


def test_an_agent_takes_a_copied_time_off_its_reply(clock):
    model = slow_model(clock, "[2026-02-14 15:00:00 UTC] ")
    result = agent_of(clock, model, "all").invoke({"messages": "One?"}, THREAD)
    assert result["messages"][-1].content == "One!"
    kept = agent_of(clock, model, "human").invoke({"messages": "One?"}, THREAD)
    assert kept["messages"][-1].content == "[2026-02-14 15:00:00 UTC] One!"


async def test_an_async_agent_takes_a_copied_time_off_its_reply(clock):
    model = slow_model(clock, "[2026-02-14 15:00:00 UTC] ")
    result = await agent_of(clock, model, "all").ainvoke({"messages": "One?"}, THREAD)
    assert result["messages"][-1].content == "One!"


@pytest.mark.parametrize("made", [graph_of, split_graph_of])
def test_a_graph_with_nodes_never_changes_a_reply_and_shows_its_stamp_once(clock, made):
    model = slow_model(clock, "[2026-02-14 09:00:00 UTC] ")
    graph = made(clock, model, "all")
    result = graph.invoke({"messages": "One?"}, THREAD)
    assert result["messages"][-1].content == "[2026-02-14 09:00:00 UTC] One!"
    graph.invoke({"messages": "Two?"}, THREAD)
    assert request_of(model)[1] == "[2026-02-14 15:00:30 UTC] One!"


def test_a_fork_has_the_times_of_its_own_moment(clock):
    model = slow_model(clock)
    graph = agent_of(clock, model)
    graph.invoke({"messages": "One?"}, THREAD)
    fork = graph.get_state(THREAD).config
    clock.on(3_570)
    graph.invoke({"messages": "Two?"}, THREAD)
    clock.on(3_570)
    graph.invoke({"messages": "Two?"}, fork)
    assert request_of(model)[:2] == [FIRST, SECOND]
    assert request_of(model)[2].startswith("[2026-02-14 17:00:00 UTC, previous answer 15:00:30")


def test_a_reply_of_another_process_has_no_time_and_tells_none(clock):
    model = slow_model(clock)
    graph = graph_of(clock, model)
    graph.invoke({"messages": "One?"}, THREAD)
    other = graph_of(clock, model)
    other.checkpointer = graph.checkpointer
    clock.on(3_570)
    other.invoke({"messages": "Two?"}, THREAD)
    assert request_of(model) == [FIRST, SECOND, "[2026-02-14 16:00:00 UTC] Two?"]


def test_a_finished_summary_keeps_the_newer_times(clock):
    memory = memory_of(clock, "human", 1_000)
    messages = [
        kind("word " * 60 + str(n), id=f"m{n}")
        for n in range(20)
        for kind in ((HumanMessage, AIMessage)[n % 2],)
    ]
    begun = {**new_state(), "times": [["m0", "2026-02-14T15:00:00+00:00"]]}
    after = memory.compact(messages, begun, force=True)
    newer = {**begun, "times": [*begun["times"], ["m19", "2026-02-14T15:00:30+00:00"]]}
    merged = rebase_summary(messages, begun, after, newer)
    assert merged is not None
    assert merged["times"] == newer["times"]
    assert merged["summary"] == after["summary"]
