"""The provider is asked seldom, by few, for a short time; else the estimate counts."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from pydantic import Field

from langchain_tokenmem.background import wait_for
from langchain_tokenmem.counting import ProviderCounter, counter_for
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.tokens.provider_counter import (
    COOL_DOWN_S,
    FAILURES,
    KEPT_SECONDS,
    MOST_REQUESTS,
)

REQUEST = [SystemMessage("Be brief."), HumanMessage("How are you?")]


TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "Read a file.", "parameters": {}},
}


class CountedModel(FakeListChatModel):
    """Counts by a function; remembers what it was asked, how many at once, and in which threads."""

    responses: list[str] = Field(default_factory=lambda: ["Yes."])
    model: str = "claude-test"
    answer: Any = 50
    seconds: float = 0.0
    asked: list[Any] = Field(default_factory=list)
    threads: list[str] = Field(default_factory=list)
    running: list[int] = Field(default_factory=lambda: [0, 0])  # now, and at most
    profile: Any = None

    def get_num_tokens_from_messages(self, messages, tools=None):
        self.asked.append((list(messages), tools))
        self.threads.append(threading.current_thread().name)
        self.running[0] += 1
        self.running[1] = max(self.running)
        try:
            time.sleep(self.seconds)
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer(messages, tools) if callable(self.answer) else self.answer
        finally:
            self.running[0] -= 1


class Clock:
    """Seconds that pass when a test says so."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Toolless(CountedModel):
    """A class that counts messages only."""

    def get_num_tokens_from_messages(self, messages):
        return super().get_num_tokens_from_messages(messages)


def test_a_request_is_counted_as_a_whole_and_has_tokens_method_and_accuracy():
    model = CountedModel(answer=50)
    count = ProviderCounter(model).count(REQUEST, tools=[TOOL])
    assert (count.tokens, int(count), count.method, count.accuracy) == (50, 50, "provider", 0.02)
    assert not count.is_estimate
    assert model.asked == [(REQUEST, [TOOL])]


def test_tools_are_estimated_where_the_class_takes_none():
    counter, tools = ProviderCounter(Toolless(answer=50)), 20 * [TOOL]
    count = counter.count(REQUEST, tools=tools)
    assert count.tokens == 50 + counter.tools(tools)
    share = counter.tools(tools) / count.tokens
    assert count.accuracy > 0.1
    assert count.accuracy == pytest.approx(share * counter_for("claude").accuracy)


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


def test_a_model_is_asked_inside_a_binding_and_never_where_it_may_be_another_one():
    model = CountedModel()
    other = CountedModel(model="glm-5")
    assert ProviderCounter(model.bind(stop=["x"]).with_retry()).count(REQUEST).method == "provider"
    assert len(model.asked) == 1
    assert ProviderCounter(model.with_fallbacks([other])).count(REQUEST).is_estimate
    assert ProviderCounter(RunnableLambda(lambda _: "x")).count(REQUEST).is_estimate
    assert len(model.asked) == 1


def test_a_name_and_a_time_that_cannot_be_are_refused():
    for model in (None, "claude-sonnet-4-5"):
        with pytest.raises(ConfigurationError, match="takes the chat model"):
            ProviderCounter(model)
    for seconds in (0, -1, "2", float("nan")):
        with pytest.raises(ConfigurationError, match="timeout_s"):
            ProviderCounter(CountedModel(), timeout_s=seconds)


def test_the_same_request_is_asked_for_once_in_five_minutes():
    model, clock = CountedModel(), Clock()
    counter = ProviderCounter(model, clock=clock)
    counter.count(REQUEST, tools=[TOOL])
    copied = [one.model_copy(update={"id": "other"}) for one in REQUEST]
    for passes, asked in ((KEPT_SECONDS - 1, 1), (2, 2)):
        clock.now += passes
        assert counter.count(copied, tools=[TOOL]).method == "provider"
        assert len(model.asked) == asked


ASKED = REQUEST[1]
EDITS = {
    "another word": HumanMessage("How is she?"),
    "a block": HumanMessage([{"type": "text", "text": "How are you?"}]),
    "a name": HumanMessage(ASKED.content, name="Ada"),
    "another role": AIMessage(ASKED.content),
    "an extra": HumanMessage(ASKED.content, additional_kwargs={"cache": True}),
}


@pytest.mark.parametrize("edited", EDITS.values(), ids=EDITS)
def test_any_edit_is_asked_for_again(edited):
    model = CountedModel()
    counter = ProviderCounter(model)
    counter.count(REQUEST)
    assert counter.known(REQUEST) == 50
    request = [REQUEST[0], edited]
    assert counter.known(request) is None
    counter.count(request)
    counter.count(request, tools=[TOOL])
    assert len(model.asked) == 3


@pytest.mark.parametrize(
    "answer", [RuntimeError("overloaded"), "many", None, -5, 0, True, 50.5, float("nan"), 10**400]
)
def test_a_failure_gives_the_estimate(answer):
    model = CountedModel(answer=answer)
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


def test_a_slow_provider_is_not_waited_for_and_its_late_answer_is_known_next_time():
    released = threading.Event()
    counter = ProviderCounter(
        CountedModel(answer=lambda *_: released.wait(60) and 50), timeout_s=0.05
    )
    assert counter.count(REQUEST).is_estimate
    released.set()
    for job in counter._runner.jobs():
        assert wait_for(job.future, 60)
    assert counter.count(REQUEST).method == "provider"


async def test_on_an_event_loop_count_asks_nobody_and_acount_asks_in_a_thread():
    model = CountedModel()
    counter = ProviderCounter(model)
    assert counter.count(REQUEST).is_estimate
    assert model.asked == []
    assert (await counter.acount(REQUEST)).method == "provider"
    assert counter.count(REQUEST).method == "provider"  # what is known needs no request
    assert len(model.asked) == 1
    assert model.threads == ["tokenmem-count"]


def test_equal_requests_at_once_are_one_question():
    model = CountedModel(seconds=0.05)
    counter = ProviderCounter(model)
    with ThreadPoolExecutor(20) as pool:
        assert {int(count) for count in pool.map(counter.count, [REQUEST] * 20)} == {50}
    assert len(model.asked) == 1


async def test_of_many_at_once_three_ask():
    together = threading.Barrier(MOST_REQUESTS)
    model = CountedModel(answer=lambda *_: together.wait(60) >= 0 and 50)
    counter = ProviderCounter(model, timeout_s=60)
    requests = [[HumanMessage(str(number))] for number in range(10 * MOST_REQUESTS)]
    counts = await asyncio.gather(*map(counter.acount, requests))
    assert model.running[1] == MOST_REQUESTS
    assert {count.method for count in counts} == {"provider"}
