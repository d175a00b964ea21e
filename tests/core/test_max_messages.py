"""`max_messages`: how many messages a request has, the system message and the log counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.core.messages import groups, is_pinned, with_ids
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.core.request_options import Trigger
from langchain_tokenmem.types import RequestRules
from tests import fakes
from tests.legality import problems
from tests.strategies import conversations


def memory_of(most, *, window=50_000, trigger="auto", **rules) -> TokenMemory:
    request = RequestRules(max_messages=most, **rules)
    return fakes.memory_of(window, trigger=trigger, request=request)


def talk(turns: int) -> list:
    return [
        message
        for n in range(turns)
        for message in (HumanMessage(f"question {n}", id=f"h{n}"), AIMessage(f"no {n}", id=f"a{n}"))
    ]


def ids(view) -> list:
    return [message.id for message in view.messages if message.type != "system"]


def allowed(messages, *, pin_first: bool) -> set:
    """Return the ids of the messages whose groups stay whatever the number is."""
    named = with_ids(messages)
    body = [message for message in named if message.type != "system"]
    humans = [message.id for message in body if message.type == "human"]
    whole = [[message.id for message in group.messages] for group in groups(body)]
    first = humans[:1] if pin_first else []
    pinned = [message.id for message in body if is_pinned(message)]
    required = {*first, *humans[-1:], *pinned}
    staying = [group for group in whole if not required.isdisjoint(group)]
    return {one for group in [*staying, *whole[-1:]] for one in group}


@given(
    conversations(),
    st.integers(2, 8),
    st.sampled_from([600, 4_000, 50_000]),
    st.sampled_from(sorted(PROFILES)),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["Be brief.", None]),
    st.sampled_from([None, Trigger(), Trigger.of(("messages", 4))]),
)
def test_a_view_never_has_more_unless_what_has_to_be_there_is_more_and_is_legal(
    messages, most, window, legality, pin_first, compact, system, trigger
):
    memory = memory_of(most, window=window, legality=legality, pin_first=pin_first, trigger=trigger)
    state = memory.compact(messages) if compact else None
    view = memory.view(messages, state, system=system)
    assert view.usage.input_tokens <= memory.budget.limit
    if any(message.type != "system" for message in view.messages):
        assert problems(view.messages) == []
    is_more = len(view.messages) > most
    assert any("more messages than max_messages" in w for w in view.warnings) == is_more
    if is_more:
        known = {message.id for message in with_ids(messages)}
        assert {one for one in ids(view) if one in known} <= allowed(messages, pin_first=pin_first)


@pytest.mark.parametrize("trigger", [None, Trigger()])
@pytest.mark.parametrize(
    ("most", "expected"), [(2, ["h9"]), (3, ["a8", "h9"]), (4, ["h8", "a8", "h9"])]
)
def test_the_oldest_groups_leave_and_the_system_message_counts(trigger, most, expected):
    memory = memory_of(most, trigger=trigger, pin_first=False, legality="common")
    messages = talk(10)[:-1]
    view = memory.view(messages, system="Be brief.")
    opening = [] if expected[0].startswith("h") else ["opening"]
    assert len(view.messages) <= most
    assert [one for one in ids(view) if one in {m.id for m in messages}] == (
        expected if not opening else expected[1:]
    )


def test_what_has_to_be_there_stays_and_the_view_says_so():
    view = memory_of(2).view([*talk(3), HumanMessage("and now?", id="n")], system="Be brief.")
    assert ids(view) == ["h0", "n"]
    assert "more messages than max_messages, 2" in view.warnings[-1]
    assert "pin_first=False" in view.warnings[-1]
    free = memory_of(2, pin_first=False)
    view = free.view([*talk(3), HumanMessage("and now?", id="n")], system="Be brief.")
    assert ids(view) == ["n"]
    assert view.warnings == ()
