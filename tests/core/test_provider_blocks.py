"""Content blocks across providers: adapted or shown as text, and said."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.types import RequestRules
from tests.fakes import CharCounter

GO = HumanMessage("Go.", id="h")
NEXT = HumanMessage("And now?", id="n")
STRICT = sorted(PROFILES.keys() - {"common"})
MARK = {"cache_control": {"type": "ephemeral"}}
OPENAI = [
    {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "tea 4711"}},
    {"type": "code_interpreter_call", "id": "ci_1", "code": "print(4711)", "container_id": "c"},
    {"type": "mcp_call", "id": "mcp_1", "name": "search", "arguments": "{}", "output": "4711"},
]
ANTHROPIC = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "4711"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "title": "4711", "encrypted_content": "E" * 900}],
    },
]
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}


def view_of(messages, profile, window=8_000, **options):
    memory = TokenMemory(
        TokenBudget(window), counter=CharCounter(), request=RequestRules(legality=profile)
    )
    return memory.view(messages, **options)


def said(blocks, provider):
    text = {"type": "text", "text": "I looked."}
    return AIMessage([*blocks, text], response_metadata={"model_provider": provider}, id="a")


@pytest.mark.parametrize("block", OPENAI, ids=lambda block: block["type"])
@pytest.mark.parametrize("profile", sorted({*STRICT} - {"openai"}))
def test_a_server_call_of_openai_is_text_for_another_provider_and_said(block, profile):
    view = view_of([GO, said([block], "openai"), NEXT], profile)
    shown = view.messages[1].content
    assert {part["type"] for part in shown} == {"text"}
    assert shown[0]["text"].startswith(f"[{block['type']}: ")
    assert "4711" in shown[0]["text"]
    assert block["id"] not in shown[0]["text"]
    assert view.warnings == (f"Content of type {block['type']} is shown as text to this provider.",)


@pytest.mark.parametrize("profile", sorted({*STRICT} - {"anthropic"}))
def test_a_server_tool_of_anthropic_is_text_for_another_provider_and_said(profile):
    view = view_of([GO, said(ANTHROPIC, "anthropic"), NEXT], profile)
    shown = view.messages[1].content
    assert {part["type"] for part in shown} == {"text"}
    assert "4711" in shown[1]["text"]
    assert "EEE" not in str(shown)
    assert "server_tool_use, web_search_tool_result" in view.warnings[0]


@pytest.mark.parametrize(("profile", "blocks"), [("openai", OPENAI), ("anthropic", ANTHROPIC)])
def test_server_blocks_stay_the_same_objects_for_their_own_provider(profile, blocks):
    own = said(blocks, profile)
    view = view_of([GO, own, NEXT], profile)
    assert view.messages[1] is own
    assert view.warnings == ()


@pytest.mark.parametrize("text", [" ", "\n"])
def test_a_blank_text_beside_a_tool_call_is_left_out_for_anthropic(text):
    call = {"name": "read", "args": {}, "id": "c1"}
    asked = AIMessage(text, tool_calls=[call], id="a")
    view = view_of([GO, asked, ToolMessage("ok", tool_call_id="c1", id="t")], "anthropic")
    assert view.messages[1].content == ""
    assert view.messages[1].tool_calls[0]["id"] == "c1"


def test_pictures_are_adapted_to_the_form_that_the_provider_takes():
    [_, human] = view_of([GO, HumanMessage([PIXEL], id="p")], "openai").messages
    assert human.content == [PIXEL]
    [merged] = view_of([HumanMessage([PIXEL], id="p")], "gemini").messages
    assert merged.content == [{"type": "image", "base64": "iVBO", "mime_type": "image/png"}]
    [merged] = view_of([HumanMessage([PIXEL], id="p")], "mistral").messages
    assert merged.content[0]["image_url"] == {"url": "data:image/png;base64,iVBO"}


def test_a_text_document_is_text_where_there_are_no_documents():
    source = {"type": "text", "media_type": "text/plain", "data": "Chapter 4711"}
    [shown] = view_of(
        [HumanMessage([{"type": "document", "source": source}], id="d")], "openai"
    ).messages
    assert shown.content == [{"type": "text", "text": "Chapter 4711"}]


@pytest.mark.parametrize("profile", STRICT)
def test_a_block_that_nobody_knows_is_text_that_holds_all_it_says(profile):
    odd = {"type": "what-is-this", "data": {"deep": [1, None, "a" * 300 + " 4711"]}}
    view = view_of([HumanMessage([odd], id="h")], profile)
    assert "a" * 300 + " 4711" in view.messages[0].content[0]["text"]
    assert view.warnings == ("Content of type what-is-this is shown as text to this provider.",)


def test_blocks_of_several_messages_are_reported_once():
    sound = {"type": "audio", "base64": "UklGRg==", "mime_type": "audio/wav"}
    talk = [HumanMessage([sound], id="h1"), AIMessage("Yes.", id="a1"), HumanMessage([sound])]
    (warning,) = view_of(talk, "anthropic").warnings
    assert warning == "Content of type audio is shown as text to this provider."


def test_of_more_cache_marks_than_the_provider_takes_the_newest_stay():
    marked = [{"type": "text", "text": "x", **MARK}]
    talk = [SystemMessage(marked, id="s")]
    for n in range(6):
        talk += [HumanMessage(marked, id=f"h{n}"), AIMessage("ok", id=f"a{n}")]
    view = view_of([*talk, NEXT], "anthropic").messages
    kept = [m.id for m in view if isinstance(m.content, list) and "cache_control" in m.content[0]]
    assert kept == ["h2", "h3", "h4", "h5"]
    tools = [{"name": "look", "input_schema": {}, **MARK}]
    rest = view_of([*talk, NEXT], "anthropic", tools=tools, settings=MARK).messages
    assert str(rest).count("cache_control") == 2
    assert "cache_control" not in str(view_of([*talk, NEXT], "openai").messages)
    whole = view_of([*talk, NEXT], "common").messages
    assert str(whole).count("cache_control") == 7
