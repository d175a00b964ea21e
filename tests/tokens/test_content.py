"""Tokens of contents: reasoning, garbage, empty histories, and the rule for each message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_tokenmem.tokens.counters import counter_for
from tests.strategies import any_text

COUNTER = counter_for("gpt-4o")
BLOB = "gAAAAAB" + "aB3dE5gH1jK7mN9pQ2rS4tU6vW8x" * 400  # 11 kB, as OpenAI's encrypted reasoning
CALL = {"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1", "type": "tool_call"}


def extra(message: AIMessage | HumanMessage) -> int:
    return COUNTER.message(message) - COUNTER.message(type(message)(""))


def test_the_rule_per_message():
    text = COUNTER.text
    called = 3 + text("get_weather") + text('{"city":"Paris"}') + text("call_1")
    for message, tokens in (
        (HumanMessage("hi"), text("user") + text("hi")),
        (SystemMessage("hi"), text("system") + text("hi")),
        (HumanMessage("hi", name="Ann"), text("user") + text("hi") + 1 + text("Ann")),
        (ChatMessage("hi", role="critic"), text("critic") + text("hi")),
        (ToolMessage("ok", tool_call_id="call_1"), text("tool") + text("ok") + text("call_1")),
        (AIMessage("", tool_calls=[CALL]), text("assistant") + called),
    ):
        assert COUNTER.message(message) == 3 + tokens
        assert COUNTER.count([message]).tokens == 3 + 3 + tokens


GIVEN = {"name": "get_weather", "arguments": '{"city":"Paris"}'}
INPUT = {"name": "get_weather", "input": {"city": "Paris"}}
CHAT = {"tool_calls": [{"id": "call_1", "type": "function", "function": GIVEN}]}
RESPONSE = {"type": "function_call", "id": "fc_9", "call_id": "call_1", **GIVEN}
SAME_CALL = {
    "only tool_calls": AIMessage("", tool_calls=[CALL]),
    "anthropic": AIMessage([{"type": "tool_use", "id": "call_1", **INPUT}], tool_calls=[CALL]),
    "openai chat": AIMessage("", tool_calls=[CALL], additional_kwargs=CHAT),
    "openai responses": AIMessage([RESPONSE], tool_calls=[CALL]),
    "v1": AIMessage([CALL], tool_calls=[CALL]),
    "bedrock": AIMessage([{"toolUse": {"toolUseId": "call_1", **INPUT}}], tool_calls=[CALL]),
}


@pytest.mark.parametrize("shape", SAME_CALL)
def test_a_tool_call_counts_once_wherever_it_stands(shape):
    assert COUNTER.message(SAME_CALL[shape]) == COUNTER.message(SAME_CALL["only tool_calls"])


def test_calls_that_are_invalid_of_the_server_or_in_an_old_form_count():
    broken = {"name": "get_weather", "args": '{"city": "Par', "id": "call_1", "error": "EOF"}
    assert extra(AIMessage("", invalid_tool_calls=[broken])) > 10
    query = {"query": "weather in Paris tomorrow"}
    block = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": query}
    assert extra(AIMessage([block])) > 10
    assert extra(AIMessage("", additional_kwargs={"function_call": GIVEN})) > 8


SIGNED = {"signature": BLOB}
SPOKEN = {"text": "Let me think.", **SIGNED}
REASONING = {
    "openai responses": {"type": "reasoning", "summary": [], "encrypted_content": BLOB},
    "anthropic": {"type": "thinking", "thinking": "Let me think about it.", **SIGNED},
    "anthropic redacted": {"type": "redacted_thinking", "data": BLOB},
    "v1": {"type": "reasoning", "reasoning": "Let me think.", "extras": SIGNED},
    "bedrock": {"type": "reasoning_content", "reasoning_content": SPOKEN},
    "non standard": {"type": "non_standard", "value": {"type": "thinking", **SIGNED}},
}


@pytest.mark.parametrize("shape", REASONING)
def test_encrypted_reasoning_counts_what_was_reported_and_is_else_neither_text_nor_free(shape):
    usage = {"input_tokens": 10, "output_tokens": 700, "total_tokens": 710}
    reported = {**usage, "output_token_details": {"reasoning": 640}}
    blocks = [REASONING[shape], REASONING[shape]]
    wrapper = 1 if shape == "non standard" else 0
    assert extra(AIMessage(blocks, usage_metadata=reported)) == 640 + 2 * wrapper
    assert 0 < extra(AIMessage(blocks[:1])) <= 1_025 < COUNTER.text(BLOB)


THOUGHT = "The user wants the weather, so I call the tool. " * 30
SUMMARY = [{"type": "summary_text", "text": THOUGHT}]
SPOKEN_REPLY = {"audio": {"data": "A" * 9_000, "transcript": "Hello."}}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (AIMessage([{"type": "thinking", "thinking": THOUGHT, **SIGNED}]), THOUGHT),
        (AIMessage([{"type": "reasoning", "summary": SUMMARY}]), THOUGHT),
        (AIMessage("", additional_kwargs={"reasoning_content": THOUGHT}), THOUGHT),
        (AIMessage([{"type": "text", "text": "Hello.", "extras": SIGNED}]), "Hello."),
        (AIMessage([{"text": "Hello.", "thoughtSignature": BLOB}]), "Hello."),
        (AIMessage("", additional_kwargs=SPOKEN_REPLY), "Hello."),
    ],
    ids=["thinking", "summary", "content", "extras", "thought signature", "transcript"],
)
def test_visible_reasoning_and_transcripts_count_as_text_without_their_signatures(message, text):
    assert extra(message) == COUNTER.text(text)


def test_details_of_reasoning_count_as_what_they_hold():
    seen = {"type": "reasoning.text", "text": THOUGHT, "signature": BLOB}
    details = {"reasoning_details": [seen, {"type": "reasoning.encrypted", "data": BLOB}]}
    tokens, thought = extra(AIMessage("", additional_kwargs=details)), COUNTER.text(THOUGHT)
    assert thought < tokens < thought + 1_100


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | any_text() | st.binary()
FIELDS = (
    "type text data source image_url url base64 input_audio file name id call_id input arguments "
    "thinking reasoning summary content value toolUse signature encrypted_content detail "
    "mime_type media_type transcript function file_data bytes title"
)
BLOCK_TYPES = (
    "text image_url image input_image audio input_audio video file document media thinking "
    "redacted_thinking reasoning tool_use tool_call tool_call_chunk function_call tool_result "
    "server_tool_use non_standard text-plain refusal input_json_delta martian"
)
KEYS, TYPES = st.sampled_from(FIELDS.split()), st.sampled_from(BLOCK_TYPES.split())
GARBAGE = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(st.one_of(KEYS, st.integers(), st.none()), inner, max_size=3),
        st.builds(lambda kind, rest: {**rest, "type": kind}, TYPES, st.dictionaries(KEYS, inner)),
    ),
    max_leaves=15,
)
KINDS = st.sampled_from([HumanMessage, AIMessage, SystemMessage, ToolMessage, FunctionMessage])


REST = {
    **dict.fromkeys(("name", "role", "type", "tool_call_id"), any_text(max_size=30)),
    **dict.fromkeys(("tool_calls", "invalid_tool_calls"), GARBAGE),
    **dict.fromkeys(("additional_kwargs", "usage_metadata"), GARBAGE),
}


@pytest.mark.slow
@given(kind=KINDS, content=GARBAGE, rest=st.fixed_dictionaries({}, optional=REST))
def test_any_content_is_counted(kind, content, rest):
    message = kind.model_construct(content=content, **rest)
    first = COUNTER.message(message)
    assert first >= 1
    assert COUNTER.message(message) == first
    assert COUNTER.count([message]).tokens == 3 + first


def test_counting_ends_on_cycles():
    cycle: dict = {"type": "martian", "text": "x"}
    cycle["self"] = cycle
    assert COUNTER.message(HumanMessage.model_construct(content=[cycle])) >= 1
    calls = [{"name": "f", "args": cycle, "id": "1"}]
    assert COUNTER.message(AIMessage.model_construct(content="", tool_calls=calls)) >= 1
