"""What a provider is sent of calls, blocks, reasoning, names and pictures that histories hold."""

import json

import pytest
from langchain_core.messages import (
    AIMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.core.provider_format import BRIDGE_TEXT
from langchain_tokenmem.core.repair import INTERRUPTED
from langchain_tokenmem.types import LegalityProfile, RequestRules
from tests.adapters.integrations import turns
from tests.fakes import log_text
from tests.providers import CHECKS, RefusedError, check_results

GO = HumanMessage("Go.", id="h")
NEXT = HumanMessage("And now?", id="n")
STRICT = sorted(PROFILES.keys() - {"common"})
MARK = {"cache_control": {"type": "ephemeral"}}
LONG_ID = "functions.read:0" * 9


def view_of(messages, profile="auto", window=8_000, **around):
    memory = TokenMemory(window, request=RequestRules(legality=profile))
    view = memory.view(messages, **around)
    assert view.usage.input_tokens <= memory.budget.limit
    return view


def shown(messages, *given):
    return view_of(messages, *given).messages


def replied(*blocks, provider=None, **fields):
    metadata = {"model_provider": provider} if provider else {}
    return AIMessage([*blocks], response_metadata=metadata, id="a", **fields)


def called(result="ok", key="c1", **fields):
    """Return what asks for a call, and its result."""
    return AIMessage(id="a", **{"content": "", **fields}), ToolMessage(result, tool_call_id=key)


def text(words, **more):
    return {"type": "text", "text": words, **more}


MODELS = {
    "gpt-5.5": "openai",
    "claude-sonnet-4-5": "anthropic",
    "us.anthropic.claude-opus-4-1-v1:0": "bedrock",
    "models/gemini-2.5-pro": "gemini",
    "mistral-large-latest": "mistral",
    "llama3.1:8b": "strict",
    "somebody's": "common",
}


@pytest.mark.parametrize("name", MODELS)
def test_the_rules_are_those_of_the_budgets_model_where_no_model_is_at_hand(name):
    assert TokenMemory(TokenBudget(4_000, model=name)).explain([GO]).profile == MODELS[name]


# Tool calls

EVERY = pytest.mark.parametrize("profile", ["common", *STRICT])


def invalid(args='{"text": "'):
    return {"type": "invalid_tool_call", "name": "write", "args": args, "id": "bad", "error": "cut"}


@EVERY
def test_a_cut_reply_with_a_valid_and_an_invalid_call_keeps_both_with_their_results(profile):
    call = {"name": "write", "args": {"text": "word " * 4_000}, "id": "good"}
    said = called("done", "good", tool_calls=[call], invalid_tool_calls=[invalid()])
    sent = shown([GO, *said, NEXT], profile)
    check_results(sent[1:])
    assert [m.tool_call_id for m in sent if isinstance(m, ToolMessage)] == ["good", "bad"]


@EVERY
@pytest.mark.parametrize(
    "args", ['{"text": "' + "word " * 4_000, "[" * 20_000], ids=["cut", "deep"]
)
def test_long_arguments_that_are_no_json_are_cut_and_stay_answered(profile, args):
    said = called("not JSON", "bad", invalid_tool_calls=[invalid(args)])
    sent = shown([GO, *said, NEXT], profile, 2_000)
    check_results(sent[1:])
    assert sent[2].content == "not JSON"
    assert "[... arguments of tool calls left out ...]" in str(sent[1].content)


def test_results_without_an_id_answer_the_calls_without_one_in_their_order():
    calls = [{"name": name, "args": {}, "id": ""} for name in ("one", "two")]
    results = [ToolMessage(words, tool_call_id="", id=words) for words in ("first", "second")]
    said = [GO, AIMessage("", tool_calls=calls, id="a"), *results]
    sent = shown(said)
    names = {call["id"]: call["name"] for call in sent[1].tool_calls}
    answers = [(names[m.tool_call_id], m.content) for m in sent[2:]]
    assert answers == [("one", "first"), ("two", "second")]
    assert shown([*said, NEXT])[1].tool_calls == sent[1].tool_calls


@EVERY
@pytest.mark.parametrize("words", [1, 4_000])
def test_a_legacy_function_call_becomes_a_tool_call(profile, words):
    written = json.dumps({"text": "word " * words})
    legacy = {"function_call": {"name": "write", "arguments": written}}
    asked = AIMessage("", additional_kwargs=legacy, id="a")
    result = FunctionMessage(name="write", content="done", id="f")
    sent = shown([GO, asked, result, NEXT], profile, 2_000)
    assert sent[1].tool_calls[0]["args"]["text"].startswith("word ")
    assert "function_call" not in sent[1].additional_kwargs
    assert sent[2].content == "done"
    check_results(sent[1:])


USE = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "log"}}
ANSWER = {"type": "tool_result", "tool_use_id": "c1", "content": "4711"}


@EVERY
@pytest.mark.parametrize("words", [[], [text("Go on.")]], ids=["alone", "with a text"])
def test_tool_result_blocks_inside_a_human_message_answer_their_calls(profile, words):
    asked = AIMessage([text("I look."), USE], id="a")
    sent = shown([GO, asked, HumanMessage([ANSWER, *words], id="r"), NEXT], profile)
    check_results(sent[1:])
    assert [m.content for m in sent if m.type == "tool"] == ["4711"]
    assert INTERRUPTED not in str(sent)
    assert ("Go on." in str(sent)) == bool(words)
    CHECKS.get(profile, CHECKS["openai"])(sent)


def test_a_tool_result_block_keeps_its_error_and_mark_and_is_text_if_its_call_is_lost():
    failed = HumanMessage([{**ANSWER, "is_error": True, **MARK}], id="r")
    result = shown([GO, AIMessage([USE], id="a"), failed])[2]
    assert (result.status, result.content) == ("error", [text("4711", **MARK)])
    lost = HumanMessage([{**ANSWER, "tool_use_id": "c9"}], id="r")
    assert shown([GO, AIMessage("Hello.", id="a"), lost])[2].content == [text("4711")]


@pytest.mark.parametrize("profile", STRICT)
@pytest.mark.parametrize("content", [[], [{"type": "tool_use", "id": LONG_ID, "input": {}}]])
def test_names_and_ids_of_calls_are_those_that_a_provider_takes(profile, content):
    call = {"name": "functions.read file", "args": {}, "id": LONG_ID}
    sent = shown([GO, *called("ok", LONG_ID, content=content, tool_calls=[call])], profile)
    made = sent[1].tool_calls[0]
    assert sent[2].tool_call_id == made["id"]
    if profile in {"anthropic", "bedrock", "openai"}:
        assert [block["id"] for block in sent[1].content] == [made["id"] for _ in content]
    if profile in {"anthropic", "bedrock", "mistral"}:
        assert made["name"] == "functions_read_file"
        assert made["id"].replace("_", "").isalnum()
    if profile == "openai":
        assert len(made["id"]) <= 40


# Roles and names


@pytest.mark.parametrize("name", ["bedrock", "mistral", "strict", "gemini"])
def test_a_text_and_blocks_of_people_become_one_message_and_those_of_an_assistant_do_not(name):
    one, two = text("One."), text("Two.")
    for first, second, merged in [("One.", [two], [one, two]), ([two], "One.", [two, one])]:
        sent = shown([HumanMessage(first, id="h1"), HumanMessage(second, id="h2")], name)
        assert [m.content for m in sent] == [merged]
        CHECKS.get(name, CHECKS["mistral"])(sent)
    answers = [GO, AIMessage("One.", id="a"), AIMessage([two], id="b")]
    assert BRIDGE_TEXT in [m.content for m in shown(answers, name)]


@pytest.mark.parametrize(
    ("name", "speaker"), [("openai", "Ann_Smith_1"), ("gemini", "Ann Smith/1")]
)
def test_openai_gets_names_of_speakers_without_signs_that_it_refuses(name, speaker):
    said = [HumanMessage("Go.", name="Ann Smith/1", id="h"), AIMessage("On.", name="bot", id="a")]
    assert [message.name for message in shown([*said, NEXT], name)] == [speaker, "bot", None]
    assert said[0].name == "Ann Smith/1"


# Reasoning


def test_reasoning_stays_for_its_own_provider_and_is_left_out_whole_for_another_one():
    thought = {"type": "thinking", "thinking": "hm", "signature": "abc"}
    own, other, unknown = (
        replied(thought, text("Yes."), provider=name) for name in ("anthropic", "openai", None)
    )
    assert shown([GO, own, NEXT], "anthropic")[1] is own
    assert shown([GO, unknown, NEXT], "anthropic")[1] is unknown
    with pytest.raises(RefusedError, match="signature"):
        CHECKS["anthropic"]([GO, other, NEXT])
    sent = shown([GO, other, NEXT], "anthropic")
    assert sent[1].content == [text("Yes.")]
    CHECKS["anthropic"](sent)


def test_a_reasoning_item_goes_with_the_item_behind_it_or_not_at_all():
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    whole = AIMessage([item, text("Yes.", id="msg_1")], id="a1")
    messages = [GO, whole, HumanMessage("On.", id="h2"), AIMessage([item], id="a2"), NEXT]
    with pytest.raises(RefusedError, match="following item"):
        CHECKS["openai"](messages[:4])
    sent = shown(messages, "openai")
    assert [m.id for m in sent] == ["h", "a1", "h2", "n"]
    assert sent[1] is whole
    CHECKS["openai"](sent)
    cut = AIMessage([text("No."), item], id="a3")
    assert shown([GO, cut, NEXT], "openai")[1].content == [text("No.")]


def test_a_spoken_answer_stays_for_openai_and_is_its_transcript_elsewhere():
    audio = {"id": "audio_1", "data": "AAAA", "transcript": "Parcel 4711 is in Lund."}
    spoken = AIMessage("", additional_kwargs={"audio": audio}, id="a")
    spoken.response_metadata["model_provider"] = "openai"
    said = [GO, spoken, NEXT]
    assert shown(said, "openai")[1] is spoken
    for name in ("anthropic", "strict", "auto"):
        assert shown(said, name)[1].content == "Parcel 4711 is in Lund."
    state = TokenMemory(8_000).compact([*said, *turns(40)], force=True)
    assert "Assistant: Parcel 4711 is in Lund." in log_text(state)


def test_ids_of_items_on_the_providers_server_are_stripped_when_asked():
    blocks = (
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"},
        text("Yes.", id="msg_1"),
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"},
    )
    call = {"name": "f", "args": {}, "id": "call_1"}
    message = replied(*blocks, provider="openai", tool_calls=[call])
    messages = [GO, message, ToolMessage("1", tool_call_id="call_1")]
    sent = shown(messages, LegalityProfile("stateless", ("openai",), strips_server_ids=True))[1]
    assert "rs_" not in str(sent.content)
    assert [b["type"] for b in sent.content] == ["reasoning", "text", "function_call"]
    assert sent.content[2]["call_id"] == "call_1"
    assert shown(messages, "openai")[1] is message


# Blocks of another provider, pictures, documents

OPENAI = [
    {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "tea 4711"}},
    {"type": "code_interpreter_call", "id": "ci_1", "code": "print(4711)", "container_id": "c"},
    {"type": "mcp_call", "id": "mcp_1", "name": "search", "arguments": "{}", "output": "4711"},
]
FOUND = {"type": "web_search_result", "title": "4711", "encrypted_content": "E" * 900}
ANTHROPIC = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "4711"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [FOUND]},
]
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}


@pytest.mark.parametrize(("owner", "blocks"), [("openai", OPENAI), ("anthropic", ANTHROPIC)])
@pytest.mark.parametrize("profile", STRICT)
def test_blocks_of_a_providers_server_are_text_for_another_provider_and_reported(
    profile, owner, blocks
):
    reply = replied(*blocks, text("I looked."), provider=owner)
    view = view_of([GO, reply, NEXT], profile)
    if profile == owner:
        assert (view.messages[1], view.warnings) == (reply, ())
        return
    sent = view.messages[1].content
    assert {part["type"] for part in sent} == {"text"}
    assert sent[0]["text"].startswith(f"[{blocks[0]['type']}: ")
    assert "4711" in sent[0]["text"]
    assert blocks[0]["id"] not in str(sent)
    assert "EEE" not in str(sent)
    names = ", ".join(block["type"] for block in blocks)
    assert view.warnings == (f"Content of type {names} is shown as text to this provider.",)


@pytest.mark.parametrize("blank", [" ", "\n"])
def test_a_blank_text_beside_a_tool_call_is_left_out_for_anthropic(blank):
    call = {"name": "read", "args": {}, "id": "c1"}
    sent = shown([GO, *called(content=blank, tool_calls=[call])], "anthropic")[1]
    assert (sent.content, sent.tool_calls[0]["id"]) == ("", "c1")


def test_pictures_and_documents_are_adapted_to_the_form_that_the_provider_takes():
    picture = HumanMessage([PIXEL], id="p")
    assert shown([GO, picture], "openai")[1].content == [PIXEL]
    [merged] = shown([picture], "gemini")
    assert merged.content == [{"type": "image", "base64": "iVBO", "mime_type": "image/png"}]
    [merged] = shown([picture], "mistral")
    assert merged.content[0]["image_url"] == {"url": "data:image/png;base64,iVBO"}
    source = {"type": "text", "media_type": "text/plain", "data": "Chapter 4711"}
    [merged] = shown([HumanMessage([{"type": "document", "source": source}], id="d")], "openai")
    assert merged.content == [text("Chapter 4711")]


@pytest.mark.parametrize("profile", STRICT)
def test_a_block_that_is_unknown_is_text_with_all_its_words_and_is_reported_once(profile):
    odd = {"type": "what-is-this", "data": {"deep": [1, None, "a" * 300 + " 4711"]}}
    again = HumanMessage([odd], id="h2")
    view = view_of([HumanMessage([odd], id="h"), AIMessage("Yes.", id="a1"), again], profile)
    assert "a" * 300 + " 4711" in view.messages[0].content[0]["text"]
    assert view.warnings == ("Content of type what-is-this is shown as text to this provider.",)


def test_of_more_cache_marks_than_the_provider_takes_the_newest_stay():
    marked = [text("x", **MARK)]
    talk = [SystemMessage(marked, id="s")]
    for n in range(6):
        talk += [HumanMessage(marked, id=f"h{n}"), AIMessage("ok", id=f"a{n}")]
    talk.append(NEXT)
    sent = shown(talk, "anthropic")
    assert [m.id for m in sent if "cache_control" in str(m)] == ["h2", "h3", "h4", "h5"]
    tools = [{"name": "look", "input_schema": {}, **MARK}]
    rest = view_of(talk, "anthropic", tools=tools, settings=MARK).messages
    assert str(rest).count("cache_control") == 2
    assert "cache_control" not in str(shown(talk, "openai"))
    assert str(shown(talk, "common")).count("cache_control") == 7
