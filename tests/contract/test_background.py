"""Summaries are written behind the reply, and no turn waits long for a service that hangs."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import Notebook, Recall, TokenBudget, TokenMemory, TranscriptStore
from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.summarizers import Summary
from langchain_tokenmem.types import BackgroundSummaries
from tests.contract.chats import CHATS, Chat, Heard, Talker, Way, long_turns, texts, ways

PATIENCE_S = 25.0
"""Seconds after which a turn is taken to hang; below every limit that is built in."""

MANY = min(32, (os.cpu_count() or 1) + 4) + 2
"""Turns that hang at once: more than the threads of Python's own pool."""

ASYNC_WAYS = [(name, True) for name in CHATS if name != "by-hand"]


class Service:
    """Something outside of the memory that hangs from `hang` on until `release`."""

    def __init__(self) -> None:
        self._is_free = threading.Event()
        self._is_free.set()
        self.release = self._is_free.set
        self.hang = self._is_free.clear
        self.is_called = threading.Event()

    def call(self) -> None:
        if not self._is_free.is_set():
            self.is_called.set()
            self._is_free.wait(3 * PATIENCE_S)


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.release()


def with_slow_embeddings(service: Service, store: TranscriptStore) -> dict[str, Any]:
    def embed(given: list[str]) -> list[list[float]]:
        service.call()
        return [[1.0, len(text) % 7 + 1.0] for text in given]

    store.add("old", [HumanMessage("The licence costs 42 euros.")], user_id="ann")
    recall = Recall(store, embeddings=embed, scope="user")
    recall.index()
    return {"recall": recall}


def with_slow_notes(service: Service, _store: TranscriptStore) -> dict[str, Any]:
    class SlowStore(InMemoryStore):
        def batch(self, ops: Any) -> Any:
            service.call()
            return super().batch(ops)

    return {"notes": Notebook(SlowStore())}


def with_slow_before_store(service: Service, store: TranscriptStore) -> dict[str, Any]:
    def before_store(messages: list[BaseMessage]) -> list[BaseMessage]:
        service.call()
        return messages

    return {"before_store": before_store, "recall": Recall(store)}


WRITTEN = "The user asked for parcels, says the summarizer."


def slow_summarizer(service: Service) -> Callable[[list[BaseMessage]], str]:
    def summarizer(_messages: list[BaseMessage]) -> str:
        service.call()
        return f"- {WRITTEN}"

    return summarizer


def with_slow_summarizer(service: Service, _store: TranscriptStore) -> dict[str, Any]:
    return {"summarizer": slow_summarizer(service), "background": False}


Slow = Callable[[Service, TranscriptStore], dict[str, Any]]
SLOW: dict[str, Slow] = {
    "embeddings": with_slow_embeddings,
    "notes": with_slow_notes,
    "before_store": with_slow_before_store,
    "summarizer": with_slow_summarizer,
}
TURNS = long_turns(5, words=125)


def slow_chat(way: Way, service: Service, slow: Slow, **settings: Any) -> Chat:
    """Return a conversation whose memory calls the service in each of its turns."""

    def make(store: TranscriptStore) -> TokenMemory:
        return TokenMemory(1_000, **slow(service, store), **settings)

    return way.chat(make, user="ann", saver=InMemorySaver())


async def in_time(chat: Chat, said: str) -> list[list[BaseMessage]]:
    """Return the requests of a turn, which must not hang; it runs on an event loop of its own."""
    turn = asyncio.to_thread(lambda: asyncio.run(chat.ask(said)))
    return await asyncio.wait_for(turn, PATIENCE_S)


@pytest.mark.parametrize("slow", SLOW)
@ways(both=True)
async def test_a_turn_waits_for_a_service_no_longer_than_it_may(
    way: Way, slow: str, service: Service
):
    chat = slow_chat(way, service, SLOW[slow], max_wait_s=0.1)
    if slow == "summarizer":
        await chat.talk(5, words=125)  # so much that the next turn has to summarize
    service.hang()
    # Words that are not cleaned are never stored, and that is no secret.
    if not way.is_graph and slow == "before_store":
        with pytest.raises(StoreError, match="before_store"):
            await in_time(chat, "What does the licence cost?")
        return
    requests = [await in_time(chat, f"{n}: what does the licence cost? {TURNS[n]}") for n in (1, 2)]
    assert [len(one) for one in requests] == [1, 1]
    assert service.is_called.is_set()


@ways(both=True)
async def test_a_turn_waits_for_a_locked_database_no_longer_than_it_may(way: Way, tmp_path: Path):
    path = tmp_path / "memory.db"
    store = TranscriptStore(f"sqlite:///{path}")
    memory = TokenMemory(1_000, recall=Recall(store), max_wait_s=0.1)
    chat = way.chat(memory, store=store, saver=InMemorySaver())
    await chat.ask("The licence costs 42 euros.")
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    if way.is_graph:
        assert len(await in_time(chat, "What does it cost?")) == 1
    else:
        with pytest.raises(StoreError, match="nothing was done"):
            await in_time(chat, "What does it cost?")
    other.rollback()
    other.close()
    assert "42 euros" in texts(await chat.last("And now?"))
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("slow", SLOW)
@pytest.mark.parametrize("way", ASYNC_WAYS, indirect=True)
async def test_an_unrelated_turn_is_never_held_up(way: Way, slow: str, service: Service):
    chat, other = slow_chat(way, service, SLOW[slow]), way.chat(TokenMemory(1_000))
    chats = [chat.also(thread=f"hung-{n}") for n in range(MANY)]
    if slow == "summarizer":
        await asyncio.gather(*(one.talk(5, words=125) for one in chats))
    service.hang()
    turns = [asyncio.create_task(one.ask(TURNS[0])) for one in chats]
    try:
        assert await asyncio.to_thread(service.is_called.wait, PATIENCE_S)
        assert len(await asyncio.wait_for(other.ask("Hello?"), PATIENCE_S)) == 1
    finally:
        service.release()
        answered = await asyncio.gather(*turns)
    assert all(answered)


@pytest.mark.slow
@ways(both=True)
async def test_a_summary_is_written_behind_the_reply(way: Way, service: Service):
    budget = TokenBudget(2_000, compact_at=0.6, summarize_at=0.6)
    summarizer = slow_summarizer(service)
    chat = way.chat(TokenMemory(budget, summarizer=summarizer, max_wait_s=4 * PATIENCE_S))
    service.hang()
    while not service.is_called.is_set():
        request = (await in_time(chat, long_turns(1)[0]))[-1]
        assert WRITTEN not in texts(request)
        assert len(chat.requests) < 100, "the window is small: a summary has to be due"
    service.release()
    chat.memory.close()
    assert WRITTEN in texts(await chat.last("And now?"))


@pytest.mark.slow
@ways(both=True)
async def test_a_turn_over_the_limit_waits_for_its_summary(way: Way, service: Service):
    chat = way.chat(TokenMemory(1_000, summarizer=slow_summarizer(service)))
    for said in TURNS[:4]:
        assert WRITTEN not in texts((await chat.ask(said))[-1])
    (long,) = long_turns(1, words=300)
    assert WRITTEN in texts((await chat.ask(long))[-1])


@pytest.mark.slow
@ways(both=True)
async def test_a_long_history_is_served_from_its_newest_messages_and_summarized_behind(
    way: Way, service: Service
):
    summarizer = slow_summarizer(service)
    memory = TokenMemory(1_000, summarizer=summarizer, max_wait_s=4 * PATIENCE_S)
    chat = way.chat(memory)
    said: list[BaseMessage] = []
    for n, question in enumerate(long_turns(300)):
        said += [HumanMessage(question, id=f"q{n}"), AIMessage(f"Parcel {n} is late.", id=f"a{n}")]
    service.hang()
    if way.is_graph:
        messages: list[BaseMessage] = [*said, HumanMessage("And now?", id="last")]
        turn = asyncio.to_thread(lambda: asyncio.run(chat.ask(messages)))
    else:
        chat.store.add(chat.setting.thread, said)
        turn = asyncio.to_thread(lambda: asyncio.run(chat.ask("And now?")))
    request = (await asyncio.wait_for(turn, PATIENCE_S))[-1]
    assert "Parcel 299 is late." in texts(request)
    assert WRITTEN not in texts(request)
    service.release()
    assert memory.background_summaries.wait(10 * PATIENCE_S)
    assert WRITTEN in texts(await chat.last("And then?"))


@ways("history", "chain", "middleware")
async def test_a_summary_that_the_next_call_needs_is_begun_before_that_call(way: Way):
    begun: list[int] = []

    def summarize(messages: list[BaseMessage]) -> str:
        begun.append(len(messages))
        return "- Parcels were asked for."

    memory = TokenMemory(TokenBudget(2_000, model="gpt-4o"), summarizer=summarize)
    chat = way.chat(memory, model=Talker(answer="Noted. " * 100))
    for _ in range(20):
        await chat.ask("Go on.")  # so short that it is a reply that makes the summary due
        memory.close()  # waits for what was begun, and begins nothing
        if memory.count(chat.said()).tokens > memory.budget.summarize_tokens:
            break
    assert begun


class SlowSummarizer:
    """A summarizer of the application."""

    is_quick = False

    def __init__(self, write: Callable[[], str]) -> None:
        self.write = write

    def wants(self, _messages: Any) -> bool:
        return True

    def summarize(self, _request: Any) -> Summary:
        return Summary(self.write(), "slow", "1")

    async def asummarize(self, request: Any) -> Any:
        return await asyncio.to_thread(self.summarize, request)


SOON = BackgroundSummaries(timeout_s=0.01)


@pytest.mark.parametrize(
    ("way", "is_function", "background"),
    [
        pytest.param("history", True, SOON, marks=pytest.mark.slow),
        pytest.param("middleware", False, SOON, marks=pytest.mark.slow),
        ("middleware", True, False),
        pytest.param("history", False, False, marks=pytest.mark.slow),
    ],
    indirect=["way"],
)
async def test_a_summarizer_that_hangs_is_given_up_three_times_then_extracts_are_written(
    way: Way, service: Service, caplog, *, is_function: bool, background: Any
):
    begun, heard = [], Heard()

    def summarize(*_messages: Any) -> str:
        begun.append(1)
        service.call()
        return "- Parcels were asked for."

    writer: Any = summarize if is_function else SlowSummarizer(summarize)
    memory = TokenMemory(
        1_000, summarizer=writer, max_wait_s=0.02, background=background, callbacks=[heard]
    )
    chat = way.chat(memory, thread="t7")
    service.hang()
    for question in long_turns(12, words=150):
        await in_time(chat, question)
    assert len(begun) == 3
    name = "summarize" if is_function else "SlowSummarizer"
    told = {event.error for event in heard.of("fold")}
    assert told == {f"{name} has failed 3 times and is paused"}
    for kind in ("summary", "fold"):
        errors = [event for event in heard.errors if event.kind == kind]
        assert len(errors) >= 3
        assert {event.session for event in errors} == {"t7"}
        assert memory.stats()[kind]["errors"] == len(errors)
    label = "Thread 't7'" if way.is_graph else "Session 't7'"
    given_up = f"{label}: A summary took more than 0.01 s; it was abandoned."
    assert (given_up in caplog.messages) == bool(background)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@ways("history")
async def test_a_summarizer_that_ends_its_thread_is_paused_like_one_that_fails(
    way: Way, error: type[BaseException]
):
    def summarize(_messages: list[BaseMessage]) -> str:
        raise error

    heard = Heard()
    chat = way.chat(TokenMemory(1_000, summarizer=summarize, callbacks=[heard]))
    for question in long_turns(8, words=150):
        await in_time(chat, question)
        chat.memory.close()
    told = {event.error for event in heard.of("fold")}
    assert told == {"summarize has failed 3 times and is paused"}
