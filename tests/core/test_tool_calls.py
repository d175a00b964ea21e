"""Tool calls in every form that histories hold: invalid, without an id, cut, legacy."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, FunctionMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.core.repair import INTERRUPTED
from langchain_tokenmem.types import RequestRules
from tests.fakes import CharCounter
from tests.providers import CHECKS, check_results

GO = HumanMessage("Go.", id="h")
NEXT = HumanMessage("And now?", id="n")
STRICT = sorted(PROFILES.keys() - {"common"})


def memory_of(window=2_000, **options):
    return TokenMemory(TokenBudget(context_window=window), counter=CharCounter(), **options)


def shown(messages, **options):
    return memory_of(**options).view(messages).messages


def invalid(key="bad", args='{"text": "', name="write"):
    return {"type": "invalid_tool_call", "name": name, "args": args, "id": key, "error": "not JSON"}


def stopped_reply(words=4_000):
    """A reply that max_tokens stopped inside its second call."""
    long = {"name": "write", "args": {"text": "word " * words}, "id": "good", "type": "tool_call"}
    return AIMessage("", tool_calls=[long], invalid_tool_calls=[invalid()], id="a")


@pytest.mark.parametrize("profile", ["common", *STRICT])
def test_a_cut_reply_with_a_valid_and_an_invalid_call_keeps_both_with_their_results(profile):
    result = ToolMessage("done", tool_call_id="good", id="t")
    view = shown([GO, stopped_reply(), result, NEXT], request=RequestRules(legality=profile))
    check_results(view[1:])
    answered = [m.tool_call_id for m in view if isinstance(m, ToolMessage)]
    assert answered == ["good", "bad"]


@pytest.mark.parametrize("profile", ["common", *STRICT])
@pytest.mark.parametrize(
    "args", ['{"text": "' + "word " * 4_000, "[" * 20_000], ids=["cut", "deep"]
)
def test_long_arguments_that_are_no_json_are_cut_and_stay_answered(profile, args):
    call = AIMessage("", invalid_tool_calls=[invalid(args=args)], id="a")
    memory = TokenMemory(TokenBudget(context_window=2_000), request=RequestRules(legality=profile))
    view = memory.view([GO, call, ToolMessage("not JSON", tool_call_id="bad", id="t"), NEXT])
    check_results(view.messages[1:])
    assert view.messages[2].content == "not JSON"
    assert view.usage.input_tokens <= memory.budget.limit
    assert "[... arguments of tool calls left out ...]" in str(view.messages[1].content)


@pytest.mark.parametrize("key", ["", None])
def test_a_call_without_an_id_reaches_the_model_with_its_result(key):
    call = {"name": "read", "args": {}, "id": key, "type": "tool_call"}
    asked = AIMessage("", tool_calls=[call], id="a")
    view = shown([GO, asked, ToolMessage("found it", tool_call_id="", id="t"), NEXT])
    made, result = view[1].tool_calls[0]["id"], view[2]
    assert made
    assert (result.content, result.tool_call_id) == ("found it", made)
    again = shown([GO, asked, ToolMessage("found it", tool_call_id="", id="t"), NEXT, NEXT])
    assert again[1].tool_calls[0]["id"] == made


def test_results_without_an_id_answer_the_calls_without_one_in_their_order():
    calls = [{"name": n, "args": {}, "id": "", "type": "tool_call"} for n in ("one", "two")]
    asked = AIMessage("", tool_calls=calls, id="a")
    results = [ToolMessage(text, tool_call_id="", id=text) for text in ("first", "second")]
    view = shown([GO, asked, *results])
    names = {c["id"]: c["name"] for c in view[1].tool_calls}
    assert [(names[m.tool_call_id], m.content) for m in view[2:]] == [
        ("one", "first"),
        ("two", "second"),
    ]


@pytest.mark.parametrize("profile", ["common", *STRICT])
@pytest.mark.parametrize("words", [1, 4_000])
def test_a_legacy_function_call_becomes_a_tool_call(profile, words):
    written = json.dumps({"text": "word " * words})
    legacy = {"function_call": {"name": "write", "arguments": written}}
    asked = AIMessage("", additional_kwargs=legacy, id="a")
    result = FunctionMessage(name="write", content="done", id="f")
    memory = TokenMemory(TokenBudget(context_window=2_000), request=RequestRules(legality=profile))
    view = memory.view([GO, asked, result, NEXT]).messages
    assert view[1].tool_calls[0]["args"]["text"].startswith("word ")
    assert "function_call" not in view[1].additional_kwargs
    assert view[2].content == "done"
    check_results(view[1:])


@pytest.mark.parametrize("profile", ["common", *STRICT])
@pytest.mark.parametrize("words", [[], [{"type": "text", "text": "Go on."}]])
def test_tool_result_blocks_inside_a_human_message_answer_their_calls(profile, words):
    blocks = [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "log"}},
    ]
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": "4711"}
    view = memory_of(request=RequestRules(legality=profile)).view(
        [GO, AIMessage(blocks, id="a"), HumanMessage([answer, *words], id="r"), NEXT]
    )
    check_results(view.messages[1:])
    assert [m.content for m in view.messages if m.type == "tool"] == ["4711"]
    assert INTERRUPTED not in str(view.messages)
    assert ("Go on." in str(view.messages)) == bool(words)
    if profile in CHECKS:
        CHECKS[profile](view.messages)


def test_a_tool_result_block_without_its_call_stays_as_text():
    lost = {"type": "tool_result", "tool_use_id": "c9", "content": "reading 4711"}
    view = shown([GO, AIMessage("Hello.", id="a"), HumanMessage([lost], id="r")])
    assert view[2].content == [{"type": "text", "text": "reading 4711"}]


@pytest.mark.parametrize("profile", STRICT)
def test_names_and_ids_of_calls_are_those_that_a_provider_takes(profile):
    call = {"name": "functions.read file", "args": {}, "id": "functions.read:0" * 9}
    asked = AIMessage("", tool_calls=[call], id="a")
    view = shown(
        [GO, asked, ToolMessage("ok", tool_call_id=call["id"], id="t")],
        request=RequestRules(legality=profile),
    )
    made = view[1].tool_calls[0]
    assert view[2].tool_call_id == made["id"]
    if profile in {"anthropic", "bedrock", "mistral"}:
        assert made["name"] == "functions_read_file"
        assert made["id"].replace("_", "").isalnum()
    if profile == "openai":
        assert len(made["id"]) <= 40
