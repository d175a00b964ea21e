"""The provider is asked seldom, by few, for a short time; else the estimate counts."""

from __future__ import annotations

import asyncio
import copy
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda

from langchain_tokenmem.background import wait_for
from langchain_tokenmem.counting import ProviderCounter, counter_for
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.tokens import provider_counter
from langchain_tokenmem.tokens.provider_counter import (
    COOL_DOWN_S,
    FAILURES,
    KEPT_ANSWERS,
    KEPT_SECONDS,
    MOST_REQUESTS,
    TIMEOUT_S,
)
from tests.tokens.counted_model import CountedModel

REQUEST = [SystemMessage("Be brief."), HumanMessage("How are you?")]
TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "Read a file.", "parameters": {}},
}


class Clock:
    """Seconds that pass when a test says so."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def in_a_thread(call):
    """Return what a call returns in a thread without an event loop."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def test_the_bounds_are_those_of_the_issue():
    assert (MOST_REQUESTS, TIMEOUT_S, KEPT_ANSWERS, KEPT_SECONDS) == (3, 2.0, 1_000, 300.0)


def test_a_result_has_tokens_method_and_accuracy():
    count = ProviderCounter(CountedModel(answer=50)).count(REQUEST)
    assert (count.tokens, int(count), count.method) == (50, 50, "provider")
    assert not count.is_estimate
    assert 0 < count.accuracy < 0.1


def test_system_and_tools_go_with_the_request_as_a_whole():
    model = CountedModel()
    ProviderCounter(model).count(REQUEST, tools=[TOOL])
    assert model.asked == [(REQUEST, [TOOL])]


def test_tools_are_estimated_where_the_class_takes_none():
    class Toolless(CountedModel):
        def get_num_tokens_from_messages(self, messages):
            return super().get_num_tokens_from_messages(messages)

    counter = ProviderCounter(Toolless(answer=50))
    assert counter.count(REQUEST, tools=[TOOL]).tokens == 50 + counter.tools([TOOL])
    assert counter.tools([TOOL]) > 0


def test_the_accuracy_is_that_of_the_estimate_for_the_share_that_is_estimated():
    class Toolless(CountedModel):
        def get_num_tokens_from_messages(self, messages):
            return super().get_num_tokens_from_messages(messages)

    counter = ProviderCounter(Toolless(answer=50))
    tools = 20 * [TOOL]
    count = counter.count(REQUEST, tools=tools)
    share = counter.tools(tools) / count.tokens
    assert counter.count(REQUEST).accuracy == 0.02
    assert count.accuracy == pytest.approx(share * counter_for("claude").accuracy)
    assert count.accuracy > 0.1


def test_the_inherited_counter_is_never_asked():
    def refuse(_text):
        raise AssertionError("GPT-2")

    counter = ProviderCounter(FakeListChatModel(responses=["x"], custom_get_token_ids=refuse))
    assert not counter.asks
    assert counter.count(REQUEST).is_estimate


def test_a_class_that_hands_over_to_the_inherited_counter_never_loads_gpt2():
    class Unsure(CountedModel):
        def get_num_tokens_from_messages(self, messages, tools=None):
            super().get_num_tokens_from_messages(messages)
            return FakeListChatModel.get_num_tokens_from_messages(self, messages)

    model = Unsure()
    assert ProviderCounter(model).count(REQUEST).is_estimate
    assert len(model.asked) == 1
    assert model.custom_get_token_ids is None


def test_a_model_with_its_own_vocabulary_here_is_not_asked():
    model = CountedModel(model="gpt-4o")
    count = ProviderCounter(model).count(REQUEST)
    assert (count.method, count.tokens) == ("exact", counter_for("gpt-4o").count(REQUEST).tokens)
    assert model.asked == []


def test_models_with_fallbacks_are_estimated():
    model = CountedModel()
    counter = ProviderCounter(model.with_fallbacks([CountedModel(model="glm-5")]))
    assert counter.count(REQUEST).is_estimate
    assert model.asked == []


def test_the_model_inside_a_binding_is_asked():
    model = CountedModel()
    bound = model.bind(stop=["x"]).with_retry()
    assert ProviderCounter(bound).count(REQUEST).method == "provider"


def test_what_is_no_chat_model_is_estimated():
    assert ProviderCounter(RunnableLambda(lambda _: "x")).count(REQUEST).is_estimate


@pytest.mark.parametrize("model", [None, "claude-sonnet-4-5"])
def test_a_name_is_refused_with_the_line_to_write(model):
    with pytest.raises(ConfigurationError, match="takes the chat model"):
        ProviderCounter(model)


@pytest.mark.parametrize("value", [0, -1, "2", float("nan")])
def test_a_time_that_cannot_be_is_refused(value):
    with pytest.raises(ConfigurationError, match="timeout_s"):
        ProviderCounter(CountedModel(), timeout_s=value)


def test_the_parts_of_a_request_are_estimated_and_ask_nobody():
    model = CountedModel()
    counter, local = ProviderCounter(model), counter_for(model)
    assert counter.text("hello") == local.text("hello")
    assert counter.message(REQUEST[0]) == local.message(REQUEST[0])
    assert counter.tools([TOOL]) == local.tools([TOOL])
    assert (counter.id, counter.method) == (local.id, "estimate")
    assert model.asked == []


def test_the_same_request_is_asked_for_once():
    model = CountedModel()
    counter = ProviderCounter(model)
    counter.count(REQUEST, tools=[TOOL])
    again = counter.count([one.model_copy(update={"id": "other"}) for one in REQUEST], tools=[TOOL])
    assert (again.method, len(model.asked)) == ("provider", 1)


EDITS = {
    "another word": lambda one: one.model_copy(update={"content": "How is she?"}),
    "a blank": lambda one: one.model_copy(update={"content": one.content + " "}),
    "a block": lambda one: one.model_copy(update={"content": [{"type": "text", "text": "Hi"}]}),
    "a name": lambda one: one.model_copy(update={"name": "Ada"}),
    "another role": lambda one: AIMessage(one.content),
    "an extra": lambda one: one.model_copy(update={"additional_kwargs": {"cache": True}}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_any_edit_is_asked_for_again(edit):
    model = CountedModel()
    counter = ProviderCounter(model)
    counter.count(REQUEST)
    assert counter.known(REQUEST) == 50
    edited = [REQUEST[0], EDITS[edit](REQUEST[1])]
    assert counter.known(edited) is None
    counter.count(edited)
    assert len(model.asked) == 2


def test_an_edit_in_place_is_asked_for_again():
    model, said = CountedModel(), HumanMessage("Hi.")
    counter = ProviderCounter(model)
    counter.count([said])
    said.content = "Hi!"
    counter.count([said])
    assert len(model.asked) == 2


def test_other_tools_are_asked_for_again():
    model = CountedModel()
    counter = ProviderCounter(model)
    for tools in (None, [TOOL], [{**TOOL, "function": {"name": "write"}}], [TOOL, TOOL]):
        counter.count(REQUEST, tools=tools)
    assert len(model.asked) == 4


@given(texts=st.lists(st.text(), min_size=2, max_size=2, unique=True))
def test_no_answer_is_ever_that_of_another_text(texts):
    counter = ProviderCounter(CountedModel(answer=lambda messages, _: 1 + len(messages[0].content)))
    for text in texts:
        assert in_a_thread(lambda text=text: counter.count([HumanMessage(text)])).tokens == (
            1 + len(text)
        )


def test_an_answer_is_kept_for_five_minutes():
    model, clock = CountedModel(), Clock()
    counter = ProviderCounter(model, clock=clock)
    counter.count(REQUEST)
    clock.now += KEPT_SECONDS - 1
    counter.count(REQUEST)
    assert len(model.asked) == 1
    clock.now += 2
    counter.count(REQUEST)
    assert len(model.asked) == 2


def test_a_thousand_answers_are_kept_and_the_least_recently_used_one_goes():
    counter = ProviderCounter(CountedModel())
    for number in range(KEPT_ANSWERS):
        counter._answers[str(number).encode()] = 1
    counter.count(REQUEST)
    assert len(counter._answers) == KEPT_ANSWERS
    assert b"0" not in counter._answers
    assert b"1" in counter._answers


FAILED = {
    "an error": RuntimeError("overloaded"),
    "no number": "many",
    "nothing": None,
    "less than nothing": -5,
    "nil": 0,
    "a truth": True,
    "a fraction": 50.5,
    "not a number": float("nan"),
    "more than any window": 10**400,
}


@pytest.mark.parametrize("answer", FAILED)
def test_a_failure_gives_the_estimate(answer, caplog):
    model = CountedModel(answer=FAILED[answer])
    count = ProviderCounter(model).count(REQUEST)
    assert count.is_estimate
    assert count.tokens == counter_for(model).count(REQUEST).tokens


def test_a_failing_provider_is_left_alone_for_a_while():
    clock, answers = Clock(), ["down"] * FAILURES + [50]
    model = CountedModel(answer=lambda *_: answers.pop(0))
    counter = ProviderCounter(model, clock=clock)
    for number in range(10):
        counter.count([HumanMessage(str(number))])
    assert len(model.asked) == FAILURES
    clock.now += COOL_DOWN_S + 1
    assert counter.count(REQUEST).method == "provider"


def test_a_request_without_an_answer_is_not_asked_for_again_at_once():
    model = CountedModel(answer=RuntimeError("once"))
    counter = ProviderCounter(model)
    assert [counter.count(REQUEST).is_estimate for _ in range(3)] == [True] * 3
    assert len(model.asked) == 1


def silenced(model: CountedModel, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Have a model answer only when the event is set; a count gives up when it has been asked."""
    asked, released = threading.Event(), threading.Event()
    model.answer = lambda *_: asked.set() or (released.wait(60) and 50)
    monkeypatch.setattr(provider_counter, "wait_for", lambda *_: not asked.wait(60))
    return released


def wait_for_jobs(counter: ProviderCounter) -> None:
    for job in counter._runner.jobs():
        assert wait_for(job.future, 60)


def test_a_slow_provider_is_not_waited_for():
    released = threading.Event()
    model = CountedModel(answer=lambda *_: released.wait(60) and 50)
    assert ProviderCounter(model, timeout_s=0.05).count(REQUEST).is_estimate
    released.set()


def test_an_answer_that_comes_late_is_known_next_time(monkeypatch):
    model = CountedModel()
    released = silenced(model, monkeypatch)
    counter = ProviderCounter(model)
    assert counter.count(REQUEST).is_estimate
    released.set()
    wait_for_jobs(counter)
    assert counter.count(REQUEST).method == "provider"


@pytest.mark.slow
def test_a_provider_that_is_always_late_is_left_alone():
    released = threading.Event()
    model = CountedModel(answer=lambda *_: released.wait(60) and 50)
    counter = ProviderCounter(model, timeout_s=0.5)  # a thread starts in less
    for number in range(FAILURES):
        released.clear()
        counter.count([HumanMessage(str(number))])
        time.sleep(0.5)
        released.set()
        wait_for_jobs(counter)
    assert counter.count([HumanMessage("next")]).is_estimate
    assert not counter._runner.jobs()
    assert len(model.asked) == FAILURES


def test_equal_requests_at_once_are_one_question():
    model = CountedModel(seconds=0.05)
    counter = ProviderCounter(model)
    threads = [threading.Thread(target=counter.count, args=(REQUEST,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(model.asked) == 1


async def test_on_an_event_loop_count_asks_nobody():
    model = CountedModel(seconds=1)
    count = ProviderCounter(model).count(REQUEST)
    assert count.is_estimate
    assert model.asked == []


async def test_acount_asks_in_a_thread_of_its_own():
    model = CountedModel()
    counter = ProviderCounter(model)
    assert (await counter.acount(REQUEST)).method == "provider"
    assert counter.count(REQUEST).method == "provider"  # what is known needs no request
    assert len(model.asked) == 1
    assert model.threads == ["tokenmem-count"]


async def test_of_many_at_once_three_ask():
    together = threading.Barrier(MOST_REQUESTS)
    model = CountedModel(answer=lambda *_: together.wait(60) >= 0 and 50)
    counter = ProviderCounter(model, timeout_s=60)
    requests = [[HumanMessage(str(number))] for number in range(10 * MOST_REQUESTS)]
    counts = await asyncio.gather(*map(counter.acount, requests))
    assert model.most_at_once == MOST_REQUESTS
    assert {count.method for count in counts} == {"provider"}


def test_a_request_that_only_waited_for_its_turn_says_nothing_about_the_provider():
    model = CountedModel()
    released = threading.Event()
    model.answer = lambda *_: released.wait(60) and 50
    counter = ProviderCounter(model, timeout_s=60)
    first = [
        threading.Thread(target=counter.count, args=([HumanMessage(str(number))],))
        for number in range(MOST_REQUESTS)
    ]
    for thread in first:
        thread.start()
    while len(model.asked) < MOST_REQUESTS:
        time.sleep(0.01)
    hurried = copy.copy(counter)
    hurried._wait_s = 0.01
    for number in range(FAILURES + 1):
        assert hurried.count([HumanMessage(f"more {number}")]).is_estimate
    assert not counter._breaker.is_open
    released.set()
    for thread in first:
        thread.join()


def test_its_name_tells_whom_it_asks():
    assert "asks fake-list-chat-model" in repr(ProviderCounter(CountedModel()))
    assert "asks nobody" in repr(ProviderCounter(FakeListChatModel(responses=["x"])))
