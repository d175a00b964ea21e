"""Tokens of contents and of tools: the rule for each message, reasoning, schemas, garbage."""

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
from langchain_core.tools import StructuredTool, tool
from pydantic import BaseModel, Field

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


# Tools, nested schemas too


@tool
def get_weather(city: str, unit: str = "celsius") -> str:
    """Return the weather of a city."""
    return f"{city} {unit}"


def schema(parameters: dict, name: str = "f", description: str = "Do it") -> dict:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def test_tool_schemas_count_like_openais_cookbook_example():
    # OpenAI cookbook, "How to count tokens with tiktoken", part 7: 101 tokens in gpt-4o.
    location = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
    unit = {"type": "string", "description": "The unit of temperature to return"}
    unit["enum"] = ["celsius", "fahrenheit"]
    properties = {"location": location, "unit": unit}
    weather = schema(
        {"type": "object", "properties": properties, "required": ["location"]},
        name="get_current_weather",
        description="Get the current weather in a given location",
    )
    system = "You are a helpful assistant that can answer to questions about the weather."
    messages = {"system": system, "user": "What's the weather like in San Francisco?"}
    text = COUNTER.text
    cookbook = 3 + sum(3 + text(role) + text(said) for role, said in messages.items())
    assert cookbook + COUNTER.tools([weather]) == 101


class Trip(BaseModel):
    """Plan a trip."""

    stops: list[dict[str, float]] = Field(description="Places in order")


def test_every_form_of_a_tool_is_counted():
    def look(city: str) -> str:
        """Look at a city."""
        return city

    anthropic = {"name": "look", "description": "Look", "input_schema": {"type": "object"}}
    forms = [
        *(get_weather, Trip, look, anthropic, schema({}), StructuredTool.from_function(look)),
        *({"type": "web_search_preview"}, {"type": "bash_20250124", "name": "bash"}),
        {"googleSearch": {}},
    ]
    for form in forms:
        assert COUNTER.tools([form]) > 12 + 7, form


PLACES = {
    "properties": lambda s: {"type": "object", "properties": {"a": s}},
    "nested": lambda s: {"properties": {"a": {"type": "object", "properties": {"b": s}}}},
    "items": lambda s: {"properties": {"a": {"type": "array", "items": s}}},
    "tuple": lambda s: {"properties": {"a": {"type": "array", "prefixItems": [s]}}},
    "anyOf": lambda s: {"properties": {"a": {"anyOf": [{"type": "null"}, s]}}},
    "allOf": lambda s: {"properties": {"a": {"allOf": [s]}}},
    "map": lambda s: {"properties": {"a": {"type": "object", "additionalProperties": s}}},
    "$defs": lambda s: {"$defs": {"A": s}, "properties": {"a": {"$ref": "#/$defs/A"}}},
    "unknown keyword": lambda s: {"properties": {"a": {"if": s}}},
}


@pytest.mark.parametrize("place", PLACES)
def test_descriptions_are_counted_wherever_they_stand_in_a_schema(place):
    said = "Many careful words about it. " * 50
    bare = COUNTER.tools([schema(PLACES[place]({"type": "string"}))])
    full = COUNTER.tools([schema(PLACES[place]({"type": "string", "description": said}))])
    assert full - bare >= COUNTER.text(said) - 3


def test_changed_tools_are_counted_anew():
    longer = "A much longer description of what this tool can do for you."
    described = StructuredTool.from_function(lambda q: q, name="f", description="Short.")
    raw = schema({}, description="Short")
    before = [COUNTER.tools([one]) for one in (described, raw)]
    described.description = raw["function"]["description"] = longer
    assert COUNTER.tools([described]) > before[0]
    assert COUNTER.tools([raw]) > before[1]


TOOL_KEYS = st.sampled_from(
    ["type", "function", "name", "description", "parameters", "properties", "items", "$defs"]
)
ODD = st.recursive(
    st.none() | st.integers() | any_text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TOOL_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(ODD, max_size=3))
def test_counting_odd_tools_never_raises(tools):
    assert COUNTER.tools(tools) >= 0


def test_counting_a_recursive_schema_ends():
    endless: dict = {"type": "object", "description": "again"}
    endless["properties"] = {"again": endless}
    assert COUNTER.tools([schema(endless)]) > 19
