"""What other programs record: requests and answers of providers, and states of threads."""

from __future__ import annotations

import json

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.adapters.importing import sessions_in_file
from langchain_tokenmem.errors import HistoryImportError


def read(tmp_path, *values):
    file = tmp_path / "recorded.jsonl"
    file.write_text("\n".join(map(json.dumps, values)), encoding="utf-8")
    return [(one.name, [each.message for each in one.messages]) for one in sessions_in_file(file)]


FIND = {"name": "find", "args": {"q": "W4711"}, "type": "tool_call"}
BAD = {"name": "find", "args": "{q", "id": "b", "error": "no JSON", "type": "invalid_tool_call"}
SAID = [
    SystemMessage("Be brief."),
    HumanMessage("Where is W4711?", name="ann"),
    AIMessage(
        [{"type": "text", "text": "I look."}],
        tool_calls=[FIND | {"id": "a"}],
        invalid_tool_calls=[BAD],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    ToolMessage("In Lund.", tool_call_id="a", artifact={"rows": [1]}, status="error"),
    ChatMessage("Agreed.", role="critic"),
    AIMessageChunk("In Lund."),
]
DUMPED = [message.model_dump(mode="json") for message in SAID]
SERIALIZED = [dumpd(message) for message in SAID]


@pytest.mark.parametrize(
    "values",
    [
        DUMPED,
        [DUMPED],
        [SERIALIZED],
        [{"values": {"messages": DUMPED}, "next": []}],
    ],
    ids=["dumped lines", "dumped", "serialized", "thread"],
)
def test_every_class_of_message_comes_back_as_it_was(tmp_path, values):
    ((_, found),) = read(tmp_path, *values)
    assert found == SAID


def item(kind, **fields):
    return {"type": kind, **fields}


ASKED = {"role": "user", "content": [{"type": "input_text", "text": "Where are they?"}]}
ANSWER = [
    item("reasoning", id="rs_1", summary=[]),
    item("function_call", call_id="a", name="find", arguments='{"q": "W4711"}'),
    item("function_call", call_id="b", name="find", arguments='{"q": "W4712"}'),
]
RESULTS = [item("function_call_output", call_id=one, output=f"Result {one}.") for one in "ab"]
LAST = item("message", role="assistant", content=[item("output_text", text="In Lund.")])
WHOLE = [ASKED, *ANSWER, *RESULTS, LAST]


def of_responses(found):
    assert [message.type for message in found] == ["human", "ai", "tool", "tool", "ai"]
    assert found[1].content == ANSWER[:1]
    assert [call["args"]["q"] for call in found[1].tool_calls] == ["W4711", "W4712"]
    texts = [message.content for message in found if message.type != "ai"]
    assert texts == ["Where are they?", "Result a.", "Result b."]
    assert found[-1].content == "In Lund."


@pytest.mark.parametrize("values", [WHOLE, [WHOLE]], ids=["lines", "list"])
def test_items_of_the_responses_api_are_messages_with_calls(tmp_path, values):
    ((_, found),) = read(tmp_path, *values)
    of_responses(found)
    assert not TokenMemory(8_000).view(found).warnings


def test_a_response_has_its_instructions_what_it_was_asked_and_its_output(tmp_path):
    response = {"id": "r1", "instructions": "Be brief.", "input": WHOLE[:-1], "output": [LAST]}
    request = {"custom_id": "r2", "body": {"model": "m", "input": "Hi."}}
    (name, found), other = read(tmp_path, response, request)
    assert (name, found[0]) == ("r1", SystemMessage("Be brief."))
    of_responses(found[1:])
    assert other == ("r2", [HumanMessage("Hi.")])


def test_the_system_text_of_a_request_to_anthropic_is_kept(tmp_path):
    use = {"type": "tool_use", "id": "t", "name": "find", "input": {"q": "W4711"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "In Lund."}
    asked = {"role": "user", "content": "Where?"}
    said = [asked, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    for system in ("Be brief.", [{"type": "text", "text": "Be brief."}]):
        ((_, found),) = read(tmp_path, {"system": system, "messages": said})
        assert found[0] == SystemMessage(system)
        shown = TokenMemory(8_000).view(found).messages
        assert [message.type for message in shown] == ["system", "human", "ai", "tool"]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"title": "x", "te\x1b": "y"}, r"its keys are 'title', 'te\\x1b'\).*docs/importing.md"),
        ([{"type": "message", "role": "assistant", "content": 7}, LAST], "cannot be read"),
    ],
)
def test_what_is_none_of_these_is_named(tmp_path, value, error):
    with pytest.raises(HistoryImportError, match=rf"line 1.*{error}"):
        read(tmp_path, value)
