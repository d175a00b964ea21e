"""What the providers refuse in the body of a request, by their public API references.

Written from OpenAI's chat completions and responses API, Anthropic's messages API and Gemini's
generateContent, apart from `langchain_tokenmem`. Each function returns one sentence for each fault.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
MOST_MARKS = 4

ANTHROPIC_RESULTS = {
    "web_search": "web_search_tool_result",
    "web_fetch": "web_fetch_tool_result",
    "code_execution": "code_execution_tool_result",
    "bash_code_execution": "bash_code_execution_tool_result",
    "text_editor_code_execution": "text_editor_code_execution_tool_result",
}
ANTHROPIC_BLOCKS = {
    "user": {"text", "image", "document", "search_result", "tool_result", "container_upload"},
    "assistant": {
        *("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"),
        *ANTHROPIC_RESULTS.values(),
        *("mcp_tool_use", "mcp_tool_result", "tool_search_tool_result", "compaction"),
    },
}
TEXT_KEYS = {"type", "text", "cache_control", "citations"}


def walk(value: Any) -> Iterator[Mapping[str, Any]]:
    """Return every mapping inside a value, itself included."""
    if isinstance(value, Mapping):
        yield value
        for part in value.values():
            yield from walk(part)
    elif isinstance(value, list):
        for part in value:
            yield from walk(part)


def blank(value: Any) -> bool:
    return not isinstance(value, str) or not value.strip()


def anthropic_faults(body: Mapping[str, Any]) -> list[str]:  # noqa: C901, PLR0912
    """docs.anthropic.com/en/api/messages."""
    faults: list[str] = []
    system = body.get("system")
    if isinstance(system, list):
        faults += ["blank system block" for block in system if blank(block.get("text"))]
    messages = _joined(body["messages"])
    if not messages:
        return [*faults, "messages: at least one message is required"]
    if messages[0]["role"] != "user":
        faults.append("first message must use the user role")
    if messages[-1]["role"] == "assistant":
        faults.append("does not support assistant message prefill")
    used: set[str] = set()
    open_calls: list[str] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if not content:
            faults.append(f"{role}: all messages must have non-empty content")
        for block in content:
            faults += _anthropic_block(block, role)
        answered = [b.get("tool_use_id") for b in content if b["type"] == "tool_result"]
        kinds = [b["type"] == "tool_result" for b in content]
        if role == "user":
            if sorted(map(str, answered)) != sorted(map(str, open_calls)):
                faults.append(f"tool_use ids {open_calls} answered by {answered}")
            if kinds != sorted(kinds, reverse=True):
                faults.append("tool_result blocks must come first")
        made = [b.get("id") for b in content if b["type"] == "tool_use"]
        if len({*made}) < len(made) or used & {*made}:
            faults.append("tool_use ids must be unique")
        used.update(made)
        open_calls = made
        faults += _anthropic_server_calls(content)
    if open_calls:
        faults.append(f"tool_use ids {open_calls} without results")
    if sum("cache_control" in part for part in walk(body)) > MOST_MARKS:
        faults.append("a maximum of 4 blocks with cache_control may be provided")
    return faults


def _joined(messages: list[Any]) -> list[dict[str, Any]]:
    """Return the turns: neighbours of one role are one turn for the API."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if joined and joined[-1]["role"] == message["role"]:
            joined[-1]["content"] += blocks
        else:
            joined.append({"role": message["role"], "content": [*blocks]})
    return joined


def _anthropic_block(block: Mapping[str, Any], role: str) -> list[str]:  # noqa: PLR0911
    kind = block.get("type")
    if kind not in ANTHROPIC_BLOCKS[role]:
        return [f"{role}: input tag {kind!r} does not match any of the expected tags"]
    if kind == "text":
        return [
            *(["text content blocks must contain non-whitespace text"] * blank(block["text"])),
            *(f"text.{key}: extra inputs are not permitted" for key in {*block} - TEXT_KEYS),
        ]
    if kind == "compaction":
        return ["compaction.content: field required"] * ("content" not in block)
    if kind in {"thinking", "redacted_thinking"}:
        own = kind == "redacted_thinking" or str(block.get("signature")).startswith("anthropic")
        return [] if own and "cache_control" not in block else ["invalid `signature` in `thinking`"]
    if kind in {"tool_use", "server_tool_use", "mcp_tool_use"}:
        return [
            *(["tool_use.id"] * (not ANTHROPIC_ID.fullmatch(str(block.get("id") or "")))),
            *(["tool_use.name"] * (not NAME.fullmatch(str(block.get("name") or "")))),
            *(
                ["tool_use.input: should be a valid dictionary"]
                * (type(block["input"]) is not dict)
            ),
        ]
    if kind == "tool_result" and isinstance(block.get("content"), list):
        wrong = [b for b in block["content"] if b.get("type") not in {"text", "image", "document"}]
        empty = [b for b in block["content"] if b.get("type") == "text" and blank(b.get("text"))]
        marked = [b for b in block["content"] if "cache_control" in b]
        return [f"tool_result.content: {wrong or empty or marked}"[:99]] * bool(wrong or empty)
    if kind == "image" and not isinstance(block.get("source"), Mapping):
        return ["image.source: field required"]
    return []


def _anthropic_server_calls(content: list[Any]) -> list[str]:
    waiting: dict[str, str] = {}
    faults = []
    for block in content:
        if block["type"] == "server_tool_use":
            waiting[block["id"]] = ANTHROPIC_RESULTS.get(block.get("name"), "?")
            continue
        is_result = block["type"] in ANTHROPIC_RESULTS.values()
        if is_result and waiting.pop(block.get("tool_use_id"), None) != block["type"]:
            faults.append(f"unexpected tool_use_id in {block['type']}")
    return faults + [f"server_tool_use {key} without its result" for key in waiting]


def openai_faults(body: Mapping[str, Any]) -> list[str]:  # noqa: C901, PLR0912
    """platform.openai.com/docs/api-reference/chat."""
    faults: list[str] = []
    waiting: list[str] = []
    said_before = None
    messages = body["messages"]
    if not messages:
        return ["[] is too short - 'messages'"]
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "tool":
            key = message["tool_call_id"]
            if key in waiting:
                waiting.remove(key)
            else:
                faults.append(f"role 'tool' must answer a preceding message with tool_calls: {key}")
        elif waiting:
            faults.append(f"tool_call_ids did not have response messages: {waiting}")
            waiting = []
        if role == "function" and "function_call" not in (said_before or {}):
            faults.append("role 'function' must follow a function_call")
        if isinstance(content, list):
            faults += _openai_parts(role, content)
        elif content is None and role != "assistant":
            faults.append(f"{role}: content is null")
        if role == "assistant":
            calls = message.get("tool_calls")
            if calls is not None:
                waiting = [call["id"] for call in calls]
                faults += _openai_calls(calls)
            elif "function_call" in message:
                faults += _openai_function(message["function_call"])
            elif not content and not message.get("audio"):
                faults.append("assistant: content is empty")
        said_before = message
    return faults + [f"tool_call_ids without response messages: {waiting}"] * bool(waiting)


_OPENAI_PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text", "image_url"},  # pictures in results: by the responses API only
    "system": {"text"},
    "developer": {"text"},
    "function": set[str](),
}


def _openai_parts(role: str, content: list[Any]) -> list[str]:
    if not content:
        return [f"{role}: [] is too short"]
    faults = []
    for part in content:
        if isinstance(part, str) or part.get("type") not in _OPENAI_PARTS[role]:
            faults.append(f"{role}: invalid value of content type: {str(part)[:80]}")
        elif part["type"] == "text" and not isinstance(part.get("text"), str):
            faults.append(f"{role}: text is no string")
        elif "cache_control" in part:
            faults.append(f"{role}: unknown parameter cache_control")
    return faults


def _openai_calls(calls: list[Any]) -> list[str]:
    keys = [call["id"] for call in calls]
    faults = ["tool_calls: ids are repeated"] * (len({*keys}) < len(keys))
    if not calls:
        faults.append("tool_calls: [] is too short")
    for call in calls:
        if not isinstance(call["id"], str) or not 0 < len(call["id"]) <= 40:
            faults.append(f"tool_calls.id: {call['id']!r}")
        faults += _openai_function(call["function"])
    return faults


def _openai_function(function: Mapping[str, Any]) -> list[str]:
    return [
        *([f"function.name {function['name']!r}"] * (not NAME.fullmatch(function["name"] or ""))),
        *(["function.arguments: expected a string"] * (type(function["arguments"]) is not str)),
    ]


_RESPONSE_ITEMS = {
    *("message", "reasoning", "function_call", "function_call_output", "web_search_call"),
    *("code_interpreter_call", "mcp_call", "file_search_call", "image_generation_call"),
    *("custom_tool_call", "custom_tool_call_output", "compaction"),
}
_RESPONSE_PARTS = {
    "user": {"input_text", "input_image", "input_file"},
    "system": {"input_text"},
    "developer": {"input_text"},
    "assistant": {"output_text", "refusal"},
}
_ITEM_IDS = {"reasoning": "rs_", "function_call": "fc_", "web_search_call": "ws_"}


def responses_faults(body: Mapping[str, Any]) -> list[str]:  # noqa: C901
    """platform.openai.com/docs/api-reference/responses."""
    items = body["input"]
    faults: list[str] = ["input is empty"] * (not items)
    calls: list[str] = []
    answered: list[str] = []
    for number, item in enumerate(items):
        kind = item.get("type")
        if kind not in _RESPONSE_ITEMS:
            faults.append(f"input[{number}]: invalid value {kind!r}")
            continue
        prefix = _ITEM_IDS.get(kind)
        if prefix and "id" in item and not str(item["id"]).startswith(prefix):
            faults.append(f"input[{number}].id: expected an id that begins with {prefix}")
        if kind == "message" and isinstance(item["content"], list):
            wrong = [
                part
                for part in item["content"]
                if part.get("type") not in _RESPONSE_PARTS[item["role"]] or "cache_control" in part
            ]
            faults += [f"input[{number}].content: {str(part)[:80]}" for part in wrong]
            faults += [f"input[{number}].content is empty"] * (not item["content"])
        elif kind == "function_call":
            calls.append(item["call_id"])
            faults += _openai_function(item)
            if not item["call_id"] or len(item["call_id"]) > 64:
                faults.append(f"input[{number}].call_id {item['call_id']!r}")
        elif kind == "compaction" and {*item} - {"type", "id", "encrypted_content"}:
            faults.append(f"input[{number}]: unknown parameters {[*item]}")
        elif kind == "function_call_output":
            answered.append(item["call_id"])
            if item["call_id"] not in calls:
                faults.append(f"no tool call found for function call output {item['call_id']}")
        elif kind == "reasoning":
            following = items[number + 1] if number + 1 < len(items) else {}
            if following.get("role") in {"user", "system"} or not following:
                faults.append("reasoning was provided without its required following item")
    if sorted(calls) != sorted(answered) or len({*calls}) < len(calls):
        faults.append(f"no tool output found: {calls} answered by {answered}"[:200])
    return faults


def gemini_faults(body: Mapping[str, Any]) -> list[str]:  # noqa: C901
    """ai.google.dev/api/generate-content."""
    contents = body["contents"]
    if not contents:
        return ["contents are required"]
    faults: list[str] = []
    if contents[0]["role"] != "user":
        faults.append("first content should be with role 'user'")
    if contents[-1]["role"] != "user":
        faults.append("please use a valid role: user at the end")
    before: Mapping[str, Any] | None = None
    for content in contents:
        parts = content.get("parts") or []
        if not parts:
            faults.append("contents.parts must not be empty")
        faults += [
            "unable to submit request because it has an empty text parameter"
            for part in parts
            if not {*part} - {"thought", "thought_signature"}
            or ("text" in part and not part["text"] and "thought_signature" not in part)
        ]
        called = [p["function_call"] for p in parts if "function_call" in p]
        answers = [p["function_response"] for p in parts if "function_response" in p]
        open_calls = [
            p["function_call"] for p in (before or {}).get("parts") or [] if "function_call" in p
        ]
        if called and (before is None or before["role"] != "user"):
            faults.append("function call turn must come after a user or function response turn")
        if len(answers) != len(open_calls):
            faults.append("number of function response parts must equal that of the calls")
        if [a.get("name") for a in answers] != [c.get("name") for c in open_calls]:
            faults.append("function_response.name differs from the call's")
        faults += [
            f"function_call.name {call.get('name')!r}"
            for call in called
            if not GEMINI_NAME.fullmatch(call.get("name") or "")
        ]
        before = content
    if any("function_call" in p for p in contents[-1].get("parts") or []):
        faults.append("function call without a response")
    system = body.get("system_instruction")
    if system is not None:
        faults += [
            "empty system text" for part in system.get("parts") or [] if not part.get("text")
        ]
    return faults


FAULTS: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "anthropic": anthropic_faults,
    "openai": openai_faults,
    "responses": responses_faults,
    "gemini": gemini_faults,
}
