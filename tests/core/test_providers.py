"""What a provider is sent of calls, blocks, reasoning, names and pictures that histories hold."""

import json
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.core.provider_format import BRIDGE_TEXT
from langchain_tokenmem.core.repair import INTERRUPTED
from langchain_tokenmem.types import LegalityProfile, RequestRules, View
from tests.adapters.integrations import turns
from tests.providers import CHECKS, RefusedError, check_results

GO = HumanMessage("Go.", id="h")
NEXT = HumanMessage("And now?", id="n")
STRICT = sorted(PROFILES.keys() - {"common"})
MARK = {"cache_control": {"type": "ephemeral"}}
LONG_ID = "functions.read:0" * 9


def view_of(
    messages: list[BaseMessage],
    profile: str | LegalityProfile = "auto",
    window: int = 8_000,
    **around: Any,
) -> View:
    rules = RequestRules(legality=profile)
    memory = TokenMemory(window, request=rules)
    view = memory.view(messages, **around)
    assert view.usage.input_tokens <= memory.budget.limit
    return view


def shown(messages: list[BaseMessage], *given: Any) -> list[Any]:
    return view_of(messages, *given).messages


def replied(*blocks: Any, provider: str | None = None, **fields: Any) -> AIMessage:
    metadata = {"model_provider": provider} if provider else {}
    return AIMessage([*blocks], response_metadata=metadata, id="a", **fields)


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


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
def test_the_rules_are_those_of_the_budgets_model_where_no_model_is_at_hand(name, expected):
    assert TokenMemory(TokenBudget(4_000, model=name)).explain([GO]).profile == expected


# Tool calls


def invalid(key: str = "bad", args: str = '{"text": "') -> Any:
    return {"type": "invalid_tool_call", "name": "write", "args": args, "id": key, "error": "cut"}


@pytest.mark.parametrize("profile", ["common", *STRICT])
def test_a_cut_reply_with_a_valid_and_an_invalid_call_keeps_both_with_their_results(profile):
    call = {"name": "write", "args": {"text": "word " * 4_000}, "id": "good"}
    reply = AIMessage("", tool_calls=[call], invalid_tool_calls=[invalid()], id="a")
    sent = shown([GO, reply, ToolMessage("done", tool_call_id="good", id="t"), NEXT], profile)
    check_results(sent[1:])
    assert [m.tool_call_id for m in sent if isinstance(m, ToolMessage)] == ["good", "bad"]


@pytest.mark.parametrize("profile", ["common", *STRICT])
@pytest.mark.parametrize(
    "args", ['{"text": "' + "word " * 4_000, "[" * 20_000], ids=["cut", "deep"]
)
def test_long_arguments_that_are_no_json_are_cut_and_stay_answered(profile, args):
    call = AIMessage("", invalid_tool_calls=[invalid(args=args)], id="a")
    result = ToolMessage("not JSON", tool_call_id="bad", id="t")
    sent = shown([GO, call, result, NEXT], profile, 2_000)
    check_results(sent[1:])
    assert sent[2].content == "not JSON"
    assert "[... arguments of tool calls left out ...]" in str(sent[1].content)


def test_results_without_an_id_answer_the_calls_without_one_in_their_order():
    calls: Any = [{"name": name, "args": {}, "id": ""} for name in ("one", "two")]
    asked = AIMessage("", tool_calls=calls, id="a")
    results = [ToolMessage(words, tool_call_id="", id=words) for words in ("first", "second")]
    sent = shown([GO, asked, *results])
    names = {call["id"]: call["name"] for call in sent[1].tool_calls}
    assert [(names[m.tool_call_id], m.content) for m in sent[2:]] == [
        ("one", "first"),
        ("two", "second"),
    ]
    assert shown([GO, asked, *results, NEXT])[1].tool_calls == sent[1].tool_calls


@pytest.mark.parametrize("profile", ["common", *STRICT])
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


@pytest.mark.parametrize("profile", ["common", *STRICT])
@pytest.mark.parametrize("words", [[], [text("Go on.")]], ids=["alone", "with a text"])
def test_tool_result_blocks_inside_a_human_message_answer_their_calls(profile, words):
    use = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "log"}}
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": "4711"}
    asked = AIMessage([text("I look."), use], id="a")
    sent = shown([GO, asked, HumanMessage([answer, *words], id="r"), NEXT], profile)
    check_results(sent[1:])
    assert [m.content for m in sent if m.type == "tool"] == ["4711"]
    assert INTERRUPTED not in str(sent)
    assert ("Go on." in str(sent)) == bool(words)
    if profile in CHECKS:
        CHECKS[profile](sent)


def test_a_tool_result_block_keeps_its_failure_and_its_cache_mark():
    use = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": "4711", "is_error": True}
    asked, answered = AIMessage([use], id="a"), HumanMessage([{**answer, **MARK}], id="r")
    result = shown([GO, asked, answered])[2]
    assert (result.status, result.content) == ("error", [text("4711", **MARK)])


def test_a_tool_result_block_without_its_call_stays_as_text():
    lost = {"type": "tool_result", "tool_use_id": "c9", "content": "reading 4711"}
    sent = shown([GO, AIMessage("Hello.", id="a"), HumanMessage([lost], id="r")])
    assert sent[2].content == [text("reading 4711")]


@pytest.mark.parametrize("profile", STRICT)
@pytest.mark.parametrize("content", [[], [{"type": "tool_use", "id": LONG_ID, "input": {}}]])
def test_names_and_ids_of_calls_are_those_that_a_provider_takes(profile, content):
    call: Any = {"name": "functions.read file", "args": {}, "id": LONG_ID}
    asked = AIMessage(content, tool_calls=[call], id="a")
    sent = shown([GO, asked, ToolMessage("ok", tool_call_id=LONG_ID, id="t")], profile)
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
    assert shown([GO, spoken, NEXT], "openai")[1] is spoken
    for name in ("anthropic", "strict"):
        assert shown([GO, spoken, NEXT], name)[1].content == "Parcel 4711 is in Lund."
    memory = TokenMemory(8_000)
    assert memory.view([GO, spoken, NEXT]).messages[1].content == "Parcel 4711 is in Lund."
    log = memory.compact([GO, spoken, NEXT, *turns(40)], force=True)["summary"]
    assert "Assistant: Parcel 4711 is in Lund." in log["entries"][0]["text"]


def test_ids_of_items_on_the_providers_server_are_stripped_when_asked():
    message = replied(
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"},
        text("Yes.", id="msg_1"),
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"},
        provider="openai",
        tool_calls=[{"name": "f", "args": {}, "id": "call_1"}],
    )
    messages = [GO, message, ToolMessage("1", tool_call_id="call_1")]
    stateless = LegalityProfile("stateless", ("openai",), strips_server_ids=True)
    sent = shown(messages, stateless)[1]
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
        assert view.messages[1] is reply
        assert view.warnings == ()
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
    asked = AIMessage(blank, tool_calls=[{"name": "read", "args": {}, "id": "c1"}], id="a")
    sent = shown([GO, asked, ToolMessage("ok", tool_call_id="c1", id="t")], "anthropic")[1]
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
    talk: list[BaseMessage] = [SystemMessage(marked, id="s")]
    for n in range(6):
        talk += [HumanMessage(marked, id=f"h{n}"), AIMessage("ok", id=f"a{n}")]
    sent = shown([*talk, NEXT], "anthropic")
    kept = [m.id for m in sent if isinstance(m.content, list) and "cache_control" in m.content[0]]
    assert kept == ["h2", "h3", "h4", "h5"]
    tools = [{"name": "look", "input_schema": {}, **MARK}]
    rest = view_of([*talk, NEXT], "anthropic", tools=tools, settings=MARK).messages
    assert str(rest).count("cache_control") == 2
    assert "cache_control" not in str(shown([*talk, NEXT], "openai"))
    assert str(shown([*talk, NEXT], "common")).count("cache_control") == 7
