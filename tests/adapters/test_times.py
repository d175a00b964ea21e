"""Times: the question's when it is submitted, the answer's when it is complete."""

import warnings
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableGenerator
from langchain_core.runnables.history import RunnableWithMessageHistory

from langchain_tokenmem import TokenMemory, TokenMemoryChatHistory, with_token_memory
from langchain_tokenmem.types import RequestRules
from tests import fakes
from tests.adapters.integrations import DOORS, agent_with, session, state_of, texts, thread
from tests.contract.chats import Way
from tests.fakes import entries_of
from tests.summarize.models import Scripted

STAMP = "[2026-02-14 15:00:00 UTC] "
FIRST, SECOND = f"{STAMP}One?", "One!"
THIRD = "[2026-02-14 16:00:00 UTC, previous answer 15:00:30 UTC] Two?"
ON_TIME = ["15:00:00", "15:00:30", "16:00:00", "16:00:30"]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = datetime(2026, 2, 14, 15, tzinfo=UTC)

    def on(self, seconds: int) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def memory_of(clock: Clock, show_times: Any = "human", window: int = 8_000) -> TokenMemory:
    return fakes.memory_of(
        window, request=RequestRules(show_times=show_times), now=lambda: clock.time
    )


def slow_model(clock: Clock, copied: str = "") -> Scripted:
    """Return a model whose answers take 30 seconds, and may begin with a copied time."""

    def answer(messages: list[BaseMessage]) -> str:
        clock.on(30)
        said = [m.text.rpartition(" ")[2].strip("?") for m in messages if m.type == "human"]
        return f"{copied}{said[-1]}!"

    return Scripted(answer=answer)


def request_of(requests: list[list[BaseMessage]]) -> list[str]:
    """Return what the newest request says."""
    return [message.text for message in requests[-1]]


def times_of(store) -> list[str]:
    return [f"{row.created_at:%H:%M:%S}" for row in store.rows("s")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["history", "chain", "middleware", "node", "nodes"])
@pytest.mark.parametrize("is_async", [False, True])
async def test_the_question_has_the_time_when_it_is_submitted_and_the_answer_when_it_is_complete(
    clock, name, is_async
):
    way = Way(name, is_async, "sqlite://")
    chat = way.chat(memory_of(clock), model=slow_model(clock), thread="s")
    assert request_of(await chat.ask("One?")) == [FIRST]
    clock.on(3_570)
    assert request_of(await chat.ask("Two?")) == [FIRST, SECOND, THIRD]
    assert texts(chat.said())[::2] == ["One?", "Two?"]
    if way.is_graph:
        assert not any("tokenmem" in message.response_metadata for message in chat.said())
    else:
        assert times_of(chat.store) == ON_TIME
    chat.store.close()


async def test_a_history_that_is_read_before_the_question_is_added_has_the_time_of_its_read(
    clock, store
):
    history = TokenMemoryChatHistory("s", memory=memory_of(clock), store=store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated since langchain-core 1.3.3
        chain = RunnableWithMessageHistory(slow_model(clock), lambda _session: history)
    for number, text in enumerate(("One?", "Two?")):
        clock.on(3_570 * number)
        await chain.ainvoke(text, session())
    assert times_of(store) == ON_TIME
    assert [message.text for message in history.messages] == [FIRST, SECOND, THIRD, "Two!"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_answer_of_a_stream_has_the_time_of_its_end(clock, store, is_async):
    def pieces(_given):
        for word in (f"{STAMP}One", "!"):
            clock.on(15)
            yield AIMessageChunk(word)

    async def apieces(given):
        for piece in pieces(given):
            yield piece

    model = RunnableGenerator(pieces, apieces)
    chain = with_token_memory(model, memory_of(clock, "all"), store)
    if is_async:
        assert len([piece async for piece in chain.astream("One?", session())]) == 2
    else:
        assert len(list(chain.stream("One?", session()))) == 2
    assert times_of(store) == ["15:00:00", "15:00:30"]
    assert store.rows("s")[1].message.content == "One!"


MARKED = HumanMessage(
    "One?", response_metadata={"tokenmem": {"created_at": "2026-02-14T09:00:00+00:00"}}
)


@pytest.mark.parametrize(
    ("how", "said", "time", "shown"),
    [
        ("human", MARKED, "09:00:00", "[2026-02-14 09:00:00 UTC] One?"),
        (None, HumanMessage("One?"), "15:00:00", "One?"),
    ],
    ids=["mark of the application", "no times shown"],
)
def test_the_time_is_that_of_the_application_and_is_shown_where_it_is_asked_for(
    clock, store, how, said, time, shown
):
    model = slow_model(clock)
    with_token_memory(model, memory_of(clock, how), store).invoke([said], session())
    assert times_of(store) == [time, "15:00:30"]
    assert request_of(model.requests) == [shown]
    model, graph = DOORS["node"](memory_of(clock, how))
    graph.invoke({"messages": [said]}, thread())
    assert request_of(model.requests) == [shown]
    assert how or "times" not in state_of(graph)


@pytest.mark.parametrize(("how", "kept"), [("all", "One!"), ("human", f"{STAMP}One!")])
def test_a_time_that_a_model_has_copied_is_taken_off_its_answer(clock, store, how, kept):
    model = slow_model(clock, STAMP)
    chain = with_token_memory(model, memory_of(clock, how), store)
    chain.invoke("One?", session())
    assert store.rows("s")[1].message.content == kept
    chain.invoke("Two?", session())
    assert str(request_of(model.requests)[1]).count("UTC") == 1
    model, agent = agent_with(memory_of(clock, how))
    model.answer = slow_model(clock, STAMP).answer
    result = agent.invoke({"messages": "One?"}, thread())
    assert result["messages"][-1].content == kept


@pytest.mark.slow
def test_first_sights_are_kept_until_covered_and_bytes_stay_between_folds(clock, door):
    model, graph = door(memory_of(clock, "human", 1_000))
    folds = 0
    for number in range(14):
        before = texts(model.requests[-1]) if model.requests else []
        entries = len(entries_of(state_of(graph) or None))
        graph.invoke({"messages": "word " * 60 + f"{number}?"}, thread())
        clock.on(100)
        if len(entries_of(state_of(graph))) == entries:
            assert texts(model.requests[-1])[: len(before)] == before
        else:
            folds += 1
    state = state_of(graph)
    assert folds >= 1
    assert "2026-02-14T15:00:00" in entries_of(state)[0]["since"] < entries_of(state)[0]["until"]
    assert len(state["times"]) < 14
