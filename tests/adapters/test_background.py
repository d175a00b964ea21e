"""Summaries behind the reply: nobody waits for them but at the hard limit, nothing is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from langchain_tokenmem import (
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.events import CompactCallbacks
from langchain_tokenmem.summarize.model import ModelSummarizer
from langchain_tokenmem.turns.conversation import TurnRequest
from langchain_tokenmem.turns.stored_session import StoredSession
from langchain_tokenmem.turns.turn import Turn
from tests.fakes import CharCounter, log_text, newest_entry
from tests.legality import problems
from tests.summarize.models import Gate, Scripted, raising


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        yield store


def memory_of(model, **kwargs) -> TokenMemory:
    return TokenMemory(
        TokenBudget(context_window=4_000), counter=CharCounter(), summarizer=model, **kwargs
    )


def fill(store, tokens: int, session="s") -> None:
    """Add turns of about 110 tokens until they have so many."""
    counter, said = CharCounter(), []
    while counter.count(said).tokens < tokens:
        n = len(said) // 2
        question = HumanMessage(f"question {n} " * 18, id=f"h{n}")
        said += [question, AIMessage(f"reply {n} " * 24, id=f"a{n}")]
    store.add(session, said)


def history(store, memory, session="s") -> TokenMemoryChatHistory:
    return TokenMemoryChatHistory(session, memory=memory, store=store)


def test_a_background_summary_delays_no_turn_and_is_in_the_next_request(store):
    gate = Gate()
    memory = memory_of(gate.model)
    fill(store, 3_300)
    first = history(store, memory).view()
    assert gate.asked.wait(10)
    assert first.left_out == 0
    assert first.usage.parts["summary"] == 0
    assert first.usage.input_tokens > memory.budget.summarize_tokens
    again = history(store, memory).view()
    assert again.messages == first.messages
    gate.open.set()
    memory.close()
    assert history(store, memory).view().usage.parts["summary"] > 0
    assert len(gate.model.requests) == 1


@pytest.mark.slow
def test_at_the_hard_limit_a_call_waits_but_not_for_ever(store):
    gate = Gate()
    memory = memory_of(gate.model, max_wait_s=0.2)
    fill(store, 9_000)
    view = history(store, memory).view()
    assert view.usage.input_tokens <= memory.budget.limit
    assert view.left_out > 0
    assert any("left out" in warning for warning in view.warnings)
    assert problems(view.messages) == []
    gate.open.set()
    patient = memory_of(Scripted(), max_wait_s=20)
    memory.close()
    assert history(store, patient).view().left_out == 0


@pytest.mark.slow
def test_ten_concurrent_turns_make_one_summarizer_call(store):
    gate = Gate()
    memory = memory_of(gate.model)
    fill(store, 3_300)
    with ThreadPoolExecutor(10) as pool:
        views = list(pool.map(lambda _n: history(store, memory).view(), range(10)))
        assert gate.asked.wait(10)
        gate.open.set()
    memory.close()
    assert len(gate.model.requests) == 1
    assert all(view.messages == views[0].messages for view in views)
    assert store.state("s").state["totals"]["summaries"] == 1


@pytest.mark.slow
def test_200_messages_added_during_a_slow_summary_are_all_kept(store):
    gate = Gate()
    memory = memory_of(gate.model)
    fill(store, 3_300)
    before = store.count("s")
    history(store, memory).view()
    assert gate.asked.wait(10)

    def write(writer):
        for n in range(50):
            store.add("s", [HumanMessage(f"{writer}-{n}", id=f"w{writer}-{n}")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    gate.open.set()
    memory.close()
    everything = [m.id for m in store.messages("s")]
    assert len(everything) == before + 200
    covered = store.state("s").state["summary"]["covered"]
    shown = [m.id for m in history(store, memory).messages if m.type != "system"]
    kept = store.state("s").state["kept"]
    assert [key for key in shown if key not in kept] == everything[covered:]
    for writer in range(4):
        mine = [key for key in everything if key.startswith(f"w{writer}-")]
        assert mine == [f"w{writer}-{n}" for n in range(50)]


@pytest.mark.slow
def test_a_clear_during_a_summary_is_honoured(store):
    gate = Gate()
    memory = memory_of(gate.model)
    fill(store, 3_300)
    history(store, memory).view()
    assert gate.asked.wait(10)
    store.clear("s")
    gate.open.set()
    memory.close()
    assert store.state("s").state is None
    assert history(store, memory).messages == []


def test_another_process_at_work_is_left_to_it_until_its_lease_ends(store):
    model = Scripted()
    memory = memory_of(model)
    fill(store, 3_300)
    assert store.lease("s", "other-process", 60)
    history(store, memory).view()
    memory.close()
    assert model.requests == []
    store.release("s", "other-process")
    assert store.lease("s", "killed-process", 0.0)
    history(store, memory).view()
    memory.close()
    assert len(model.requests) == 1


@pytest.mark.slow
def test_a_summary_that_never_ends_is_given_up_and_counts_as_an_attempt(store):
    gate = Gate()
    summarizer = ModelSummarizer(gate.model)
    memory = memory_of(summarizer, summary_timeout_s=0.01, max_wait_s=0.2)
    fill(store, 9_000)
    for _ in range(4):
        gate.asked.clear()
        view = history(store, memory).view()
        assert view.usage.input_tokens <= memory.budget.limit
    assert summarizer.breaker.is_open
    gate.open.set()
    assert store.count("s") > 100


def test_a_failing_model_gives_an_extractive_summary_and_a_warning(store):
    memory = memory_of(Scripted(answer=raising))
    fill(store, 3_300)
    history(store, memory).view()
    memory.close()
    view = history(store, memory).view()
    assert any("ConnectionError: provider down" in warning for warning in view.warnings)
    assert newest_entry(store.state("s").state)["model"] == "extractive"


@pytest.mark.slow
async def test_async_turns_do_not_wait_and_close_does(store):
    gate = Gate()
    async with memory_of(gate.model) as memory:
        fill(store, 3_300)
        view = await history(store, memory).ausage()
        assert view.parts["summary"] == 0
        await asyncio.to_thread(gate.asked.wait, 10)
        gate.open.set()
    assert store.state("s").state["summary"]


@pytest.mark.slow
def test_asyncio_run_that_ends_right_after_a_turn_loses_no_summary(tmp_path):
    code = f"""
import asyncio, time
from langchain_core.messages import HumanMessage
from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryChatHistory, TranscriptStore

def slow(messages):
    time.sleep(0.7)
    return "## Goal\\nThe user counts."

store = TranscriptStore("sqlite:///{tmp_path}/m.db")
memory = TokenMemory(TokenBudget(context_window=2_000), summarizer=slow)
said = []
while memory.count(said).tokens < 1_650:
    said.append(HumanMessage(f"{{len(said)}} is a number that is counted", id=f"h{{len(said)}}"))
store.add("s", said)

async def turn():
    history = TokenMemoryChatHistory("s", memory=memory, store=store)
    usage = await history.ausage()
    assert usage.input_tokens <= usage.max_tokens and usage.parts["summary"] == 0, usage

asyncio.run(turn())
"""
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    with TranscriptStore(f"sqlite:///{tmp_path}/m.db") as store:
        assert log_text(store.state("s").state) == "## Goal\nThe user counts."


class Told(CompactCallbacks):
    def __init__(self):
        self.events = []

    def on_compact_start(self, event):
        self.events.append(("start", event))

    def on_compact_end(self, event):
        self.events.append(("end", event))

    def on_compact_error(self, event):
        self.events.append(("error", event))


class Raising(CompactCallbacks):
    def on_compact_start(self, event):
        raise RuntimeError("my own bug")

    on_compact_end = on_compact_error = on_compact_start


@pytest.mark.slow
def test_events_and_totals_of_a_summary_survive_a_raising_callback(store, caplog):
    told = Told()
    memory = memory_of(Scripted(), callbacks=[Raising(), told], background=False)
    fill(store, 3_300)
    history(store, memory).view()
    (start, begun), (end, done) = told.events
    assert (start, end) == ("start", "end")
    assert begun.ids == done.ids
    assert done.kind == "summary"
    assert done.reason == "summarize_at"
    assert done.model == "scripted"
    assert done.tokens_before > done.tokens_after
    assert (done.calls, done.input_tokens, done.output_tokens) == (1, 100, 10)
    assert "my own bug" in caplog.text
    state = store.state("s").state
    assert done.ids[-1] == state["summary"]["covers_to"]
    assert len(done.ids) == state["summary"]["covered"]
    assert state["totals"] | {"cost": 0} == {
        "compactions": 0,
        "summaries": 1,
        "calls": 1,
        "input_tokens": 100,
        "output_tokens": 10,
        "cost": 0,
    }
    failing = memory_of(Scripted(answer=raising), callbacks=[told], background=False)
    fill(store, 3_300, "other")
    history(store, failing, "other").view()
    assert [name for name, _ in told.events[2:]] == ["start", "error", "end"]
    assert "provider down" in told.events[3][1].error


@pytest.mark.slow
def test_at_the_hard_limit_a_call_waits_for_what_another_process_commits(store):
    fill(store, 9_000)
    assert store.lease("s", "other-process", 60)
    mine = memory_of(Scripted(), max_wait_s=20)
    other = memory_of(Scripted(), background=False)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: history(store, mine).view())
        assert not mine.summarizer._model.requests
        history(store, other).view()
        assert waiting.result(20).left_out == 0
    assert mine.summarizer._model.requests == []


def test_a_background_summary_reuses_the_prefix_of_the_main_request(store):
    model = Scripted(answer=lambda _m: "## Goal\nThe user asks many questions.")
    memory = memory_of(ModelSummarizer(model, reuse_prefix=True))
    fill(store, 3_300)
    sent = history(store, memory).messages
    memory.close()
    again = model.requests[0][:-1]
    assert 2 < len(again) < len(sent)
    assert [m.content for m in again] == [m.content for m in sent[: len(again)]]


def test_a_batch_that_the_gate_holds_back_costs_no_job(store):
    memory = memory_of(ModelSummarizer(Scripted(), min_messages=500, min_characters=500_000))
    fill(store, 3_300)
    leases = []
    store.lease = lambda *given: leases.append(given) or True
    for _ in range(3):
        history(store, memory).view()
    memory.close()
    assert leases == []


@pytest.mark.slow
def test_compact_by_hand_waits_for_the_job_that_runs(store):
    gate = Gate()
    memory = memory_of(gate.model)
    fill(store, 3_300)
    history(store, memory).view()
    assert gate.asked.wait(10)
    with ThreadPoolExecutor(1) as pool:
        by_hand = pool.submit(lambda: history(store, memory).compact())
        gate.open.set()
        by_hand.result(20)
    read = "".join(str(request[-1].content) for request in gate.model.requests)
    assert read.count("User: question 3 ") == 1


@pytest.mark.slow
def test_one_job_that_hangs_does_not_cost_the_others_their_end():
    from langchain_tokenmem.memory.background import BackgroundSummarizer

    jobs, never, done = BackgroundSummarizer(0.3, lambda: None, 8), threading.Event(), []
    jobs.start("hangs", lambda: never.wait(20))
    threading.Event().wait(0.35)
    jobs.start("ends", lambda: (threading.Event().wait(0.1), done.append("ends")))
    assert jobs.wait() is False
    assert done == ["ends"]
    never.set()


def reply(tokens: int) -> AIMessage:
    return AIMessage("An answer. " * (tokens * 4 // 11), id=f"long{tokens}")


def test_a_summary_starts_right_after_the_reply_and_not_beside_the_next_call(store):
    gate = Gate()
    memory = memory_of(gate.model)
    fill(store, 2_900)
    mine = history(store, memory)
    mine.view()
    assert memory.background_summaries.wait(0)
    assert gate.model.requests == []
    mine.add_messages([HumanMessage("More?", id="h"), reply(500)])
    assert gate.asked.wait(10)
    gate.open.set()
    memory.close()
    view = history(store, memory).view()
    assert view.usage.parts["summary"] > 0
    assert len(gate.model.requests) == 1


async def test_an_async_reply_starts_the_summary_too(store):
    gate = Gate()
    memory = memory_of(gate.model)
    fill(store, 2_900)
    await history(store, memory).aadd_messages([reply(500)])
    assert await asyncio.to_thread(gate.asked.wait, 10)
    gate.open.set()
    await memory.aclose()
    assert store.state("s").state["summary"]


def test_a_chain_starts_the_summary_after_its_answer(store):
    gate = Gate()
    memory = memory_of(gate.model)
    fill(store, 2_900)
    model = FakeListChatModel(responses=[reply(500).text])
    prompt = ChatPromptTemplate([("system", "Be brief."), MessagesPlaceholder("said")])
    chain = with_token_memory(prompt | model, memory, store, input_messages_key="said")
    chain.invoke({"said": "More?"}, {"configurable": {"session_id": "s"}})
    assert gate.asked.wait(10)
    gate.open.set()
    memory.close()
    assert store.state("s").state["summary"]


@pytest.mark.parametrize("turned_off", ["background", "room", "question"])
def test_nothing_starts_after_a_reply_where_nothing_is_due(store, turned_off):
    model = Scripted()
    memory = memory_of(model, background=turned_off != "background")
    fill(store, 1_000 if turned_off == "room" else 2_900)
    added = HumanMessage(reply(500).text) if turned_off == "question" else reply(500)
    history(store, memory).add_messages([added])
    memory.close()
    assert model.requests == []
    assert store.state("s").state is None


def test_what_fails_after_the_reply_fails_no_reply(store, caplog):
    memory = memory_of(Scripted())
    fill(store, 2_900)
    store.conversation = raising_store_error
    history(store, memory).add_messages([reply(500)])
    assert "is locked" in caplog.text
    assert store.messages("s")[-1].id == reply(500).id


def raising_store_error(*_args, **_keywords):
    raise StoreError("The database is locked.")


@pytest.mark.slow
def test_a_burst_makes_so_many_summaries_at_once_and_no_call_waits_for_its_turn(store):
    gate, running, most, lock = threading.Event(), [], [], threading.Lock()

    def slow(_messages):
        with lock:
            running.append(1)
            most.append(len(running))
        assert gate.wait(60)
        with lock:
            running.pop()
        return "## Goal\nThe user counts."

    memory = memory_of(slow, max_wait_s=0.2, max_parallel_summaries=3)
    for n in range(12):
        fill(store, 4_500, f"s{n}")

    async def burst():
        calls = (history(store, memory, f"s{n}").ausage() for n in range(12))
        usages = await asyncio.gather(*calls)
        assert all(usage.input_tokens <= usage.max_tokens for usage in usages)

    asyncio.run(burst())
    while len(most) < 3:  # their threads were started
        time.sleep(0.01)
    assert len(most) == 3
    gate.set()
    memory.close()
    assert len(most) == 12
    assert max(most) == 3
    assert all(store.state(f"s{n}").state["summary"] for n in range(12))


@pytest.mark.slow
def test_the_wait_for_a_thread_counts_as_waiting(store):
    gate = Gate()
    memory = memory_of(gate.model, max_wait_s=60)
    fill(store, 9_000)
    session = StoredSession(memory, store, "s")
    late = Turn(session, TurnRequest(), started=time.monotonic() - 60)
    result = late.take()
    assert result.view.left_out > 0
    gate.open.set()
    memory.close()


async def test_nobody_elses_thread_waits_for_ours(store):
    gate, entered = threading.Event(), threading.Semaphore(0)
    memory = memory_of(Scripted())

    def blocked(*_args, **_keywords):
        entered.release()
        assert gate.wait(20)
        raise StoreError("The database is locked.")

    store.conversation = blocked
    calls = [asyncio.create_task(history(store, memory).ausage()) for _ in range(80)]
    assert await asyncio.to_thread(entered.acquire, timeout=10)
    assert await asyncio.wait_for(asyncio.to_thread(len, "abc"), 10) == 3
    gate.set()
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(error) for error in found} == {StoreError}


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "8"])
def test_a_number_of_parallel_summaries_that_cannot_work_is_refused(number):
    with pytest.raises(ConfigurationError, match="max_parallel_summaries"):
        TokenMemory(max_parallel_summaries=number)
