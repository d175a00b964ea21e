"""Tool schemas count, nested ones too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import StructuredTool, tool
from pydantic import BaseModel, Field

from langchain_tokenmem.tokens.counters import counter_for
from tests.strategies import any_text

COUNTER = counter_for("gpt-4o")


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


KEYS = st.sampled_from(
    ["type", "function", "name", "description", "parameters", "properties", "items", "$defs"]
)
ODD = st.recursive(
    st.none() | st.integers() | any_text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(ODD, max_size=3))
def test_counting_odd_tools_never_raises(tools):
    assert COUNTER.tools(tools) >= 0


def test_counting_a_recursive_schema_ends():
    endless: dict = {"type": "object", "description": "again"}
    endless["properties"] = {"again": endless}
    assert COUNTER.tools([schema(endless)]) > 19
