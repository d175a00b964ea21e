"""A memory and a model that summarizes: coverage, facts that survive, provenance."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.summarize.model import ModelSummarizer
from langchain_tokenmem.types import RequestRules
from tests.fakes import CharCounter, own_words
from tests.summarize.models import Scripted, parts_of


def memory_of(model, window=2_000, **kwargs) -> TokenMemory:
    """Return a memory whose model writes every entry: tool loops alone are left to extracts."""
    writer = ModelSummarizer(model, min_messages=0)
    return TokenMemory(
        TokenBudget(context_window=window), counter=CharCounter(), summarizer=writer, **kwargs
    )


def loop(rounds: int, start: int = 0) -> list:
    return [
        message
        for n in range(start, start + rounds)
        for message in (
            AIMessage(
                "", tool_calls=[{"name": "read", "args": {"n": n}, "id": f"c{n}"}], id=f"a{n}"
            ),
            ToolMessage(f"file {n} holds value {n * 7}\n" * 8, tool_call_id=f"c{n}", id=f"t{n}"),
        )
    ]


def rolled(memory, messages, step=2):
    """Play messages as they came; return the states after each summary."""
    states, state = [], None
    for end in range(step, len(messages) + 1, step):
        new = memory.compact(messages[:end], state)
        if new["summary"] and (state is None or new["summary"] != state["summary"]):
            states.append(new)
        state = new
    return states


@pytest.mark.slow
def test_the_first_request_stays_verbatim_over_five_summaries():
    rules = "Never touch prod.cfg. Keep the budget under 4,711 EUR. Answer in French only."
    memory = memory_of(Scripted())
    states = rolled(memory, [HumanMessage(rules, id="h"), *loop(120)])
    assert len(states) >= 5
    for state in states:
        messages = [HumanMessage(rules, id="h"), *loop(120)]
        assert memory.view(messages, state).messages[0].content[0]["text"] == rules


@pytest.mark.parametrize("window", [600, 1_000, 4_000])
def test_a_summarizer_is_never_called_without_content(window):
    model = Scripted()
    memory = memory_of(model, window=window)
    for messages in (
        [],
        [HumanMessage("x" * 40_000, id="big")],
        [SystemMessage("s"), HumanMessage("x" * 40_000, id="big")],
        [HumanMessage("", id="a"), AIMessage("", id="b"), HumanMessage("x" * 40_000, id="big")],
    ):
        state = memory.compact(messages, force=True)
        assert memory.view(messages, state).usage.input_tokens <= memory.budget.limit
    assert all(parts_of(request)[1].strip() for request in model.requests)


@pytest.mark.slow
def test_a_pinned_message_stays_verbatim_after_it_was_summarized():
    memory = memory_of(Scripted(), request=RequestRules(pin_first=False))
    marks = {"tokenmem": {"pinned": True}}
    pinned = HumanMessage("Never touch prod.cfg.", id="pin", response_metadata=marks)
    plain = HumanMessage("Call it prod, please.", id="plain")
    later = [*loop(20, 2), HumanMessage("Go on.", id="on"), *loop(90, 22)]
    messages = [HumanMessage("Go.", id="h"), *loop(2), pinned, plain, *later]
    states = rolled(memory, messages)
    assert len(states) >= 3
    assert states[-1]["summary"]["covered"] > messages.index(later[20])
    shown = {one.id: own_words(one) for one in memory.view(messages, states[-1]).messages}
    assert shown["pin"] == "Never touch prod.cfg."
    assert not {"h", "plain"} & set(shown)


def test_cache_markers_of_messages_do_not_reach_the_summarizer():
    marker = {"cache_control": {"type": "ephemeral"}}
    block = {"type": "text", "text": "Ship parcel 4711.", **marker}
    model = Scripted()
    memory = memory_of(model, request=RequestRules(pin_first=False))
    system = SystemMessage([{"type": "text", "text": "Rules.", **marker}], id="s")
    messages = [system, HumanMessage([block], id="h", additional_kwargs=marker), *loop(30)]
    assert memory.compact(messages)["summary"]
    sent = [message.model_dump_json() for request in model.requests for message in request]
    assert "Ship parcel 4711." in "".join(sent)
    assert [one for one in sent if "cache_control" in one] == []
