"""Token budget: every view fits its limit, and compaction neither repeats nor runs in vain."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.types import RequestRules
from tests.fakes import CharCounter, ListSummarizer


def call(number: int, words: str = "", **kwargs) -> AIMessage:
    return AIMessage(
        words,
        tool_calls=[{"name": "read", "args": {"n": number}, "id": f"c{number}"}],
        id=f"a{number}",
        **kwargs,
    )


def result(number: int, text: str, **kwargs) -> ToolMessage:
    return ToolMessage(text, tool_call_id=f"c{number}", id=f"t{number}", **kwargs)


def tool_loop(rounds: int, text: str = "line of output\n" * 60) -> list:
    loop = [HumanMessage("Fix the build.", id="h0")]
    for number in range(rounds):
        loop += [call(number), result(number, f"{number}: {text}")]
    return loop


def shortened_until_the_first_change(**rules):
    """Return the results in the order of the loop, and those that the first change shortens."""
    fields = {"counter": CharCounter(), "summarizer": ListSummarizer()}
    memory = TokenMemory(TokenBudget(6_000), request=RequestRules(**rules), **fields)
    messages, state = tool_loop(8, "a long line of output\n" * 50), None
    for number in range(8, 40):
        state = memory.compact(messages, state)
        if state["cuts"] or state["summary"]:
            break
        messages += [call(number), result(number, "a long line of output\n" * 50)]
    return [m.id for m in messages if m.type == "tool"], [*state["cuts"]]


def test_the_newest_results_stay_whole_where_the_application_asks_for_it():
    results, usual = shortened_until_the_first_change()
    assert len(usual) > 1
    newest = len(results) - results.index(usual[1])
    results, fewer = shortened_until_the_first_change(keep_results=newest)
    assert {*fewer}.isdisjoint(results[-newest:])
    assert {*fewer} < {*usual}


def test_results_of_some_tools_are_never_shortened_for_their_age():
    _, usual = shortened_until_the_first_change(whole_tools={"other"})
    assert usual
    assert shortened_until_the_first_change(whole_tools=["read"])[1] == []


def written(number: int) -> AIMessage:
    args = {"path": f"file{number}.txt", "text": f"line {number} of the file\n" * 20}
    return AIMessage(
        "I write it.",
        tool_calls=[{"name": "write", "args": args, "id": f"c{number}"}],
        id=f"a{number}",
    )


@pytest.mark.slow
def test_the_arguments_of_shortened_calls_are_left_out_where_the_application_asks_for_it():
    fields = {"counter": CharCounter(), "summarizer": ListSummarizer()}
    shown = {}
    for rules in ({}, {"clear_tool_inputs": True}, {"clear_tool_inputs": True, "keep_results": 99}):
        memory = TokenMemory(TokenBudget(9_000), request=RequestRules(**rules), **fields)
        messages, state = [HumanMessage("Write them.", id="h")], None
        for number in range(40):
            messages += [written(number), result(number, "a long line of output\n" * 50)]
            state = memory.compact(messages, state)
            if state["cuts"] or state["summary"]:
                break
        shown[str(rules)] = state, memory.view(messages, state).messages, messages
    usual, cleared, kept = shown.values()
    assert usual[0]["cuts"]
    assert not [m for m in usual[1] if m.type == "ai" and "left out" in m.text]
    assert not [key for key in kept[0]["cuts"] if key.startswith("a")]
    state, view, messages = cleared
    results = {m.tool_call_id for m in messages if m.type == "tool" and m.id in state["cuts"]}
    assert results
    for message in view:
        for call_ in message.tool_calls if isinstance(message, AIMessage) else ():
            is_cleared = call_["id"] in results
            assert (call_["args"] == {}) == is_cleared
            assert ("arguments of tool calls left out" in message.text) == is_cleared
            assert message.text.startswith("I write it.")
