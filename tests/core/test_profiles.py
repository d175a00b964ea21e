"""Provider profiles: every promise of the view holds under each of them."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.provider_format import BRIDGE_TEXT
from langchain_tokenmem.types import LegalityProfile, RequestRules
from tests import fakes
from tests.fakes import CharCounter
from tests.providers import CHECKS, RefusedError


def memory_of(window: int, legality: str | LegalityProfile = "auto") -> TokenMemory:
    return fakes.memory_of(window, request=RequestRules(legality=legality))


@pytest.mark.parametrize("name", ["bedrock", "mistral", "strict", "gemini"])
def test_a_text_and_blocks_of_people_become_one_message_and_those_of_an_assistant_do_not(name):
    blocks = [{"type": "text", "text": "Two."}]
    one, two = {"type": "text", "text": "One."}, blocks[0]
    for first, second, merged in [("One.", blocks, [one, two]), (blocks, "One.", [two, one])]:
        messages = [HumanMessage(first, id="h1"), HumanMessage(second, id="h2")]
        view = memory_of(4_000, name).view(messages)
        assert [m.content for m in view.messages] == [merged]
        CHECKS.get(name, CHECKS["mistral"])(view.messages)
    thoughts = [HumanMessage("Go.", id="h"), AIMessage("One.", id="a"), AIMessage(blocks, id="b")]
    assert BRIDGE_TEXT in [m.content for m in memory_of(4_000, name).view(thoughts).messages]


def thinking(provider: str | None) -> AIMessage:
    return AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "abc"},
            {"type": "text", "text": "Yes."},
        ],
        response_metadata={"model_provider": provider} if provider else {},
        id="a",
    )


def test_reasoning_of_the_same_provider_stays_unchanged():
    messages = [HumanMessage("Go.", id="h"), thinking("anthropic"), HumanMessage("On.", id="h2")]
    shown = memory_of(4_000, "anthropic").view(messages).messages
    assert shown[1] is messages[1]
    CHECKS["anthropic"](shown)


@pytest.mark.parametrize(("name", "shown"), [("openai", "Ann_Smith_1"), ("gemini", "Ann Smith/1")])
def test_openai_gets_names_of_speakers_without_signs_that_it_refuses(name, shown):
    said = [HumanMessage("Go.", name="Ann Smith/1", id="h"), AIMessage("On.", name="bot", id="a")]
    found = memory_of(4_000, name).view([*said, HumanMessage("Well?", name="Ann", id="h2")])
    assert [message.name for message in found.messages] == [shown, "bot", "Ann"]
    assert said[0].name == "Ann Smith/1"


def test_reasoning_of_another_providers_model_is_left_out_whole():
    messages = [HumanMessage("Go.", id="h"), thinking("openai"), HumanMessage("On.", id="h2")]
    with pytest.raises(RefusedError, match="signature"):
        CHECKS["anthropic"](messages)
    shown = memory_of(4_000, "anthropic").view(messages).messages
    assert shown[1].content == [{"type": "text", "text": "Yes."}]
    CHECKS["anthropic"](shown)
    unknown = [messages[0], thinking(None), messages[2]]
    assert memory_of(4_000, "anthropic").view(unknown).messages == unknown


def test_a_reasoning_item_goes_with_the_item_behind_it_or_not_at_all():
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    whole = AIMessage([reasoning, {"type": "text", "text": "Yes.", "id": "msg_1"}], id="a1")
    aborted = AIMessage([reasoning], id="a2")
    messages = [
        HumanMessage("Go.", id="h"),
        whole,
        HumanMessage("On.", id="h2"),
        aborted,
        HumanMessage("And?", id="h3"),
    ]
    with pytest.raises(RefusedError, match="following item"):
        CHECKS["openai"](messages[:4])
    view = memory_of(4_000, "openai").view(messages)
    assert [m.id for m in view.messages] == ["h", "a1", "h2", "h3"]
    assert view.messages[1] is whole
    CHECKS["openai"](view.messages)


def test_ids_of_items_on_the_providers_server_are_stripped_when_asked():
    message = AIMessage(
        [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"},
            {"type": "text", "text": "Yes.", "id": "msg_1"},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"},
        ],
        tool_calls=[{"name": "f", "args": {}, "id": "call_1"}],
        response_metadata={"id": "resp_1", "model_provider": "openai"},
        id="a",
    )
    messages = [HumanMessage("Go.", id="h"), message, ToolMessage("1", tool_call_id="call_1")]
    profile = LegalityProfile("stateless", ("openai",), strips_server_ids=True)
    shown = memory_of(4_000, profile).view(messages).messages[1]
    assert "rs_" not in str(shown.content)
    assert [b["type"] for b in shown.content] == ["reasoning", "text", "function_call"]
    assert shown.content[2]["call_id"] == "call_1"
    assert "id" not in shown.response_metadata
    assert memory_of(4_000, "openai").view(messages).messages[1] is message


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-5.5", "openai"),
        ("claude-sonnet-4-5", "anthropic"),
        ("us.anthropic.claude-opus-4-1-v1:0", "bedrock"),
        ("models/gemini-2.5-pro", "gemini"),
        ("mistral-large-latest", "mistral"),
        ("llama3.1:8b", "strict"),
        ("somebody's", "common"),
    ],
)
def test_auto_goes_by_the_budgets_model_where_no_model_is_at_hand(name, expected):
    memory = TokenMemory(
        TokenBudget(context_window=4_000, model=name),
        counter=CharCounter(),
        request=RequestRules(legality="auto"),
    )
    assert memory.explain([HumanMessage("hi")]).profile == expected
