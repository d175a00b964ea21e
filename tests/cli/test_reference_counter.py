from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem.cli.measures import (
    ReferenceCounter,
    reference_counter,
)

LETTERS = ReferenceCounter(len)


def test_a_message_counts_frame_text_and_calls():
    assert LETTERS.message(HumanMessage("four")) == 8
    calls = [{"name": "read", "args": {"a": 1}, "id": "ignored"}]
    broken = [{"name": "x", "args": "{", "id": "ignored", "error": None}]
    message = AIMessage("ab", tool_calls=calls, invalid_tool_calls=broken)
    assert LETTERS.message(message) == 4 + 2 + len('read{"a": 1}') + len("x{")


def test_text_blocks_count_and_media_do_not():
    blocks = [
        "ab",
        {"type": "text", "text": "cd"},
        {"type": "image_url", "image_url": {"url": "e" * 99}},
    ]
    assert LETTERS.message(HumanMessage(blocks)) == 4 + len("ab\ncd")


def test_a_request_counts_its_tools_by_the_published_formula():
    tool = {
        "type": "function",
        "function": {
            "name": "f",
            "description": "Does it.",
            "parameters": {
                "properties": {"p": {"type": "string", "description": "", "enum": ["x"]}}
            },
        },
    }
    tokens = 7 + len("f:Does it") + 3 + 3 + len("p:string:") - 3 + 3 + len("x") + 12
    assert LETTERS.tools([tool]) == tokens
    assert LETTERS.request([HumanMessage("hi")], [tool]) == 3 + 6 + tokens
    assert LETTERS.tools([]) == 0


def test_the_vocabulary_is_the_models_own():
    text = "Größenänderungen 尺寸变更"
    assert reference_counter("gpt-4").text(text) != reference_counter("gpt-4o").text(text)
    assert reference_counter("no-such-model").text(text) == reference_counter().text(text)
    assert reference_counter().text("<|endoftext|>") == 7
