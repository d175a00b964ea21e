"""Every request fits its budget, holds the newest question, and never waits for lack of room."""

import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.errors import BudgetExceededError, ConfigurationError
from tests.contract.chats import Heard, Talker, Way, long_turns, ways
from tests.fakes import called
from tests.strategies import conversations

EXACT, ESTIMATED = "gpt-4o", "claude-sonnet-4-5"
TOOLS = [
    {"name": f"look_{n}", "description": "Looks something up. " * 4, "parameters": {}}
    for n in range(6)
]


# By hand: anything fits, or the error names what does not.


@given(
    conversations(),
    st.sampled_from([400, 1_000, 8_000]),
    st.sampled_from([EXACT, ESTIMATED]),
    st.integers(0, len(TOOLS)),
    st.sampled_from(["", "Be brief.", "rule " * 150]),
    st.booleans(),
)
def test_any_conversation_fits_its_window(messages, window, model, tools, system, compacts):
    memory = TokenMemory(TokenBudget(window, model=model))
    around: Any = {"system": system, "tools": TOOLS[:tools]}
    try:
        state = memory.compact(messages, **around) if compacts else None
        view = memory.view(messages, state, **around)
    except BudgetExceededError:
        if window > 400:  # there is room beside these fixed parts
            raise
        return
    margin = 0.02 if model == EXACT else 0.10
    sent = memory.count(view.messages, tools=TOOLS[:tools]).tokens
    assert sent == view.usage.input_tokens
    assert sent + view.usage.parts["reserved_output"] <= window - int(margin * window)


# Through every integration: an agent with tools whose results have any length.


@pytest.mark.slow
async def test_requests_of_a_long_conversation_fit(way: Way):
    name = ESTIMATED if way.is_async else EXACT
    dice = random.Random(name)

    @tool
    def look(topic: str) -> str:
        """Look a topic up."""
        return f"{topic} " * dice.choice([3, 200, 4_000])

    def answer(request: list[BaseMessage]) -> AIMessage:
        if request[-1].type == "human" and dice.random() < 0.5:
            topics = range(dice.randint(1, 3))
            calls = [{"name": "look", "args": {"topic": f"t{n}"}, "id": None} for n in topics]
            for call in calls:
                call["id"] = f"c{dice.random()}"
            return AIMessage("", tool_calls=calls)
        return AIMessage("answer " * dice.choice([1, 30, 300]))

    model = Talker(answer=answer, name_=name)
    memory = TokenMemory(2_000, background=False).for_model(model)
    keywords = {"model": model} if way.name in ("node", "nodes") else {}
    chat = way.chat(memory, model=model, system="rule " * 60, tools=[look], keywords=keywords)
    for n in range(5):
        await chat.ask(f"{n}: " + "word " * dice.choice([1, 40, 900]))
    most = memory.limit_of({})
    sizes = [memory.count(request, tools=[look]).tokens for request in chat.requests]
    assert max(sizes) <= most
    assert max(sizes) > 0.7 * most, "the conversation is long enough to need the budget"


# A background summary has a head start.


@pytest.mark.parametrize("name", [EXACT, ESTIMATED])
@pytest.mark.parametrize("window", [1_000, 8_000, 81_920, 1_000_000])
@pytest.mark.parametrize("margin", [None, 0.0, 0.2])
def test_thresholds_keep_a_tenth_of_the_window_below_the_limit(name, window, margin):
    budget = TokenBudget(window, margin=margin).for_counts(exact=name == EXACT)
    highest = max(budget.summarize_tokens, budget.compact_tokens)
    assert highest <= budget.limit - window // 10
    assert budget.target_tokens < budget.compact_tokens <= budget.summarize_tokens


@pytest.mark.slow
@ways()
async def test_no_call_waits_for_a_summary_for_lack_of_room(way: Way):
    def summarize(messages, prior, instruction, most) -> str:
        return "The parcels of these questions went to Bonn, with two lamps in each of them."

    model, heard = Talker(name_=ESTIMATED), Heard()
    memory = TokenMemory(8_000, summarizer=summarize, callbacks=[heard]).for_model(model)
    keywords = {"model": model} if way.name in ("node", "nodes") else {}
    chat = way.chat(memory, model=model, keywords=keywords)
    await chat.talk(45, words=200, waits=True)  # the summary has the time between two turns
    reasons = [event.reason for event in heard.starts if event.kind == "fold"]
    assert len(reasons) >= 2
    assert {*reasons} == {"summarize_at"}


def test_a_usage_says_that_a_request_without_compaction_would_not_fit():
    memory = TokenMemory(2_000)
    said = [HumanMessage(text) for text in long_turns(40)]
    usage = memory.view(said).usage
    assert usage.exceeds_limit
    assert usage.input_tokens <= usage.max_tokens
    assert not memory.view(said, memory.compact(said)).usage.exceeds_limit
    assert not memory.view(said[:3]).usage.exceeds_limit
    assert memory.view([HumanMessage("word " * 9_000)]).usage.exceeds_limit


# The newest human message is always there.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["human", "answer", "tool", "fold", "remove", "remove human"]),
        st.integers(0, 60),
    ),
    min_size=4,
    max_size=60,
)
QUESTION_OF_A_FOLD_REMOVED = [
    *[("human", 20), ("answer", 20)] * 4,
    *[("human", 1), ("answer", 1), ("fold", 0), ("remove human", 0)],
]


def stepped(messages: list[BaseMessage], step: str, size: int, number: int) -> list[BaseMessage]:
    """Return a conversation after one step: something said, or a message removed."""
    key, text = f"m{number}", f"{number} " * size
    if step == "human":
        return [*messages, HumanMessage(text or "?", id=key)]
    if step == "answer":
        return [*messages, AIMessage(text or ".", id=key)]
    if step == "tool":
        return [*messages, *called(number, "look", {}, text)]
    if step == "fold":
        return messages
    humans = [m for m in messages if m.type == "human"]
    chosen = humans if step == "remove human" else messages
    # the newest most of all: an application asks again, or takes a question back
    gone = chosen[-1 - size % 3 % len(chosen)] if chosen else None
    return [m for m in messages if m is not gone]


@given(STEPS)
@example(QUESTION_OF_A_FOLD_REMOVED)
def test_the_newest_human_message_is_in_every_view_whatever_is_removed(steps):
    memory = TokenMemory(300)
    messages: list[BaseMessage] = []
    state = None
    for number, (step, size) in enumerate(steps):
        messages = stepped(messages, step, size, number)
        humans = [message.id for message in messages if message.type == "human"]
        before = memory.view(messages, state)
        state = memory.compact(messages, state, force=step == "fold")
        for view in (before, memory.view(messages, state)):
            assert humans[-1:] == [m.id for m in view.messages if m.id in humans[-1:]]


@pytest.mark.slow
def test_a_file_of_the_newest_question_stays_while_the_tools_for_it_run():
    file = {"type": "file", "base64": "A" * 3_000, "mime_type": "application/pdf"}
    asked = [{"type": "text", "text": "Compare this contract with all parcels."}, file]
    memory, state = TokenMemory(8_000, background=False), None
    messages: list[BaseMessage] = [HumanMessage(text) for text in long_turns(8)]
    messages.append(HumanMessage(asked, id="asked"))
    for number in range(24):
        messages += called(number, "find", {"number": number}, f"row {number} of it, " * 60)
        state = memory.compact(messages, state)
        view = memory.view(messages, state)
        assert view.usage.input_tokens <= memory.budget.limit
        (newest,) = (message for message in view.messages if message.id == "asked")
        assert file in [*newest.content]
    assert len(state["summary"]["entries"]) > 1


# A request is never empty.


@ways("chain", "middleware", "node", "nodes")
async def test_an_empty_request_is_a_clear_error_and_no_model_is_called(way: Way):
    chat = way.chat(TokenMemory(8_000))
    with pytest.raises(ConfigurationError, match=r"no message .* Tool result r has no call"):
        await chat.ask(ToolMessage("12 lamps", tool_call_id="gone", id="r"))
    assert chat.requests == []


def test_a_message_that_is_cut_says_so_if_a_file_is_gone():
    file = {"type": "file", "base64": "A" * 90_000, "mime_type": "application/pdf"}
    asked = HumanMessage([{"type": "text", "text": "Read this."}, file], id="h")
    view = TokenMemory(2_000).view([asked])
    assert "Message 'h' of " in view.warnings[0]
    assert view.warnings[0].endswith(" tokens, without its pictures and files.")


def test_thresholds_below_what_a_summary_keeps_are_refused_with_what_works_instead():
    with pytest.raises(ConfigurationError, match=r"trigger=\('tokens', 10240\)"):
        TokenBudget(128_000, compact_at=0.07, summarize_at=0.08, target=0.04)
    memory = TokenMemory(128_000, trigger=("tokens", 10_240))
    said = [HumanMessage(text) for text in long_turns(200)]
    assert memory.plan(said).fold
