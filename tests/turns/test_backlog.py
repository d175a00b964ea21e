"""A backlog: what a call shows of it is what it would show anyway, and each part is read once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_tokenmem import TokenBudget, TokenMemoryChatHistory
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.state import new_state
from langchain_tokenmem.turns import backlog
from langchain_tokenmem.turns.backlog import beginnings, newest_messages
from tests.fakes import called, memory_of, talk
from tests.summarize.models import Gate

BUDGET = TokenBudget(context_window=1_000, reserve_output=100)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(backlog, "_MANY_MESSAGES", 40)
    monkeypatch.setattr(backlog, "_PART_MESSAGES", 25)


@st.composite
def conversations(draw):
    said: list[BaseMessage] = []
    for turn in range(draw(st.integers(1, 60))):
        size = draw(st.integers(1, 60))
        if draw(st.booleans()) and draw(st.booleans()):
            said.append(SystemMessage("Be brief.", id=f"s{turn}"))
        said.append(HumanMessage(f"question {turn} " * size, id=f"h{turn}"))
        for step in range(draw(st.integers(0, 3))):
            said += called(f"{turn}-{step}", "look", {}, "found " * size)
        said.append(AIMessage(f"reply {turn} " * size, id=f"a{turn}"))
    said.append(HumanMessage("And now?", id="last"))
    return said


@pytest.mark.slow
@given(said=conversations())
def test_leaving_older_messages_out_never_changes_the_request(said):
    memory = memory_of(BUDGET)
    newest = newest_messages(said, new_state(), BUDGET.limit)
    if newest is None:
        return
    assert len(newest) < len(said)
    whole, part = memory.view(said), memory.view(newest)
    assert part.left_out
    shown = [message for message in whole.messages if role_of(message) != "system"]
    assert [message for message in part.messages if role_of(message) != "system"] == shown


@given(said=conversations(), first=st.integers(1, 30))
def test_each_message_behind_the_pointer_is_in_one_part_and_no_part_splits_a_call(said, first):
    pointer = said[min(first, len(said)) - 1].id
    entry = {"last_ids": [pointer]}
    state = {**new_state(), "summary": {"covers_to": pointer, "entries": [entry]}}
    found = list(beginnings(said, state, BUDGET.limit))
    assert found[-1] == said
    ends = [len(part) for part in found]
    assert ends == sorted(set(ends))
    assert all(said[end].type != "tool" for end in ends[:-1])
    assert all(said[: len(part)] == part for part in found)


@pytest.mark.slow
def test_a_first_contact_counts_what_is_left_out_and_says_that_it_waits(store, caplog):
    gate, said = Gate(), [*talk(120, words=12), HumanMessage("And now?", id="last")]
    memory = memory_of(BUDGET, summarizer=gate.model)
    store.add("s", said)
    history = TokenMemoryChatHistory("s", memory=memory, store=store)
    view = history.view()
    for number in range(3):
        more = [AIMessage("Yes. " * 40, id=f"y{number}"), HumanMessage("And?", id=f"q{number}")]
        history.add_messages(more)
        history.view()
    gate.open.set()
    memory.close()
    shown = {message.id for message in view.messages}
    assert view.left_out == sum(message.id not in shown for message in said)
    waits = "Messages before them wait to be summarized, too."
    assert waits in view.warnings
    assert caplog.text.count("wait to be summarized") == 1
