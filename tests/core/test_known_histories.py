"""What a memory remembers changes no outcome: it decides as one that sees a conversation first.

Histories here do what applications do to them: they grow, fork, lose messages and change words,
by new objects under old ids and in place.
"""

import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.types import RequestRules
from tests import fakes
from tests.strategies import conversations, messages

WINDOWS = st.sampled_from([600, 1_000, 4_000, 1_000_000])
TEXTS = ["", "new " * 60]
PROFILES = st.sampled_from(["common", "anthropic", "openai", "mistral"])
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def memory_of(window, profile="common"):
    return fakes.memory_of(window, request=RequestRules(legality=profile), now=lambda: NOON)


def outcome_of(memory, history, state):
    """Return everything that a memory decides about a history, and the state that follows."""
    try:
        explained, planned = memory.explain(history, state), memory.plan(history, state)
        after = memory.compact(history, state)
        views = memory.view(history, state), memory.view(history, after)
    except BudgetExceededError as error:
        return str(error), state
    return (explained, planned, after, views), after


def touch(message, how, text):
    """Change a message in place."""
    if how == "words":
        message.content = text
    elif how == "pin":
        message.response_metadata["tokenmem"] = {"pinned": bool(text)}
    elif getattr(message, "tool_calls", None):
        message.tool_calls[0]["args"]["q"] = text
    elif message.type == "tool":
        message.tool_call_id = "c1"
    elif isinstance(message.content, list):
        message.content.append({"type": "text", "text": text})


@st.composite
def changed(draw, history, number):
    """Return a history after one thing happened to it; the given list where it grows in place."""
    what = draw(st.sampled_from(["grow", "grow", "grow here", "edit", "touch", "remove", "fork"]))
    more = [m for m in draw(conversations(4)) if not m.id] + draw(conversations(2))
    more.append(HumanMessage(f"question {number}", id=f"h{number}"))
    newest = max(len(history) - 1, 0)
    place = draw(st.one_of(st.integers(0, newest), st.integers(max(newest - 4, 0), newest)))
    if what == "grow" or not history:
        return [*history, *more]
    if what == "grow here":
        history += more
    elif what == "edit":
        history = list(history)
        history[place] = draw(messages()).model_copy(update={"id": history[place].id})
    elif what == "touch":
        how, text = draw(st.sampled_from(["words", "pin", "deep"])), draw(st.sampled_from(TEXTS))
        touch(history[place], how, text)
    elif what == "remove":
        history = history[:place] + history[place + 1 :] + draw(st.sampled_from([[], more]))
    else:
        history = history[:place] + more
    return history


@pytest.mark.slow
@given(st.data(), WINDOWS, PROFILES)
def test_a_memory_that_knows_a_history_decides_as_a_new_one(data, window, profile):
    memory = memory_of(window, profile)
    history = data.draw(conversations())
    for number, message in enumerate(history):
        message.id = message.id or data.draw(st.sampled_from([None, f"m{number}"]))
    known = fresh = None
    for number in range(data.draw(st.integers(1, 6))):
        seen, known = outcome_of(memory, history, known)
        new, fresh = outcome_of(memory_of(window, profile), history, fresh)
        assert seen == new
        assert known == fresh
        history = data.draw(changed(history, number))


def calls_of(run):
    """Return how many Python functions are called."""
    events = []
    sys.setprofile(lambda _frame, event, _arg: events.append(event))
    try:
        run()
    finally:
        sys.setprofile(None)
    return events.count("call")


@pytest.mark.slow
def test_a_view_walks_what_its_window_holds_however_long_the_conversation_is():
    memory, calls = memory_of(1_000), []
    for size in (50, 2_000):
        history = fakes.talk(size, words=1)
        state = memory.compact(history[:-6])
        memory.view(history, state)
        calls.append(calls_of(lambda: memory.view(history, state)))  # noqa: B023  # run at once
    assert calls[1] < 1.2 * calls[0]
