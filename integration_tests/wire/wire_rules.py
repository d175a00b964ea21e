"""What the providers refuse in the body of a request, by their public API references.

Written from OpenAI's chat completions and responses API, Anthropic's messages API and Gemini's
generateContent, apart from `langchain_tokenmem`. Each function returns one sentence for each fault.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

Body = Mapping[str, Any]
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


@dataclass
class Turn:
    """What one side says: which calls it makes, and which ones it answers."""

    role: str = ""
    calls: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


def order_faults(turns: Sequence[Turn], *, unique: bool = True) -> list[str]:
    """Return what is wrong where each turn answers exactly the calls of the one before it."""
    faults = [
        f"calls {before.calls} answered by {after.answers}"
        for before, after in pairwise([Turn(), *turns, Turn()])
        if sorted(map(str, before.calls)) != sorted(map(str, after.answers))
    ]
    made = [call for turn in turns for call in turn.calls]
    return faults + ["ids of calls must be unique"] * (unique and len({*made}) < len(made))


def role_faults(turns: Sequence[Turn]) -> list[str]:
    """Return what is wrong where a user has to speak first and last."""
    if not turns:
        return ["at least one message is required"]
    return [
        *(["first message must use the user role"] * (turns[0].role != "user")),
        *(["does not support assistant message prefill"] * (turns[-1].role != "user")),
    ]


def anthropic_faults(body: Body) -> list[str]:
    """docs.anthropic.com/en/api/messages."""
    faults: list[str] = []
    system = body.get("system")
    if isinstance(system, list):
        faults += ["blank system block" for block in system if blank(block.get("text"))]
    turns = []
    for message in _joined(body["messages"]):
        role, content = message["role"], message["content"]
        if not content:
            faults.append(f"{role}: all messages must have non-empty content")
        for block in content:
            faults += _anthropic_block(block, role)
        kinds = [block["type"] == "tool_result" for block in content]
        if role == "user" and kinds != sorted(kinds, reverse=True):
            faults.append("tool_result blocks must come first")
        calls = [str(b.get("id")) for b in content if b["type"] == "tool_use"]
        answers = [str(b.get("tool_use_id")) for b in content if b["type"] == "tool_result"]
        turns.append(Turn(role, calls, answers))
        faults += _anthropic_server_calls(content)
    if sum("cache_control" in part for part in walk(body)) > MOST_MARKS:
        faults.append("a maximum of 4 blocks with cache_control may be provided")
    return [*faults, *role_faults(turns), *order_faults(turns)]


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


def _anthropic_block(block: Body, role: str) -> list[str]:  # noqa: PLR0911
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


def openai_faults(body: Body) -> list[str]:
    """platform.openai.com/docs/api-reference/chat."""
    messages = body["messages"]
    faults: list[str] = ["[] is too short - 'messages'"] * (not messages)
    for before, message in pairwise([{}, *messages]):
        role, content = message["role"], message.get("content")
        calls = message.get("tool_calls")
        if role == "function" and "function_call" not in before:
            faults.append("role 'function' must follow a function_call")
        if isinstance(content, list):
            faults += _openai_parts(role, content)
        elif content is None and role != "assistant":
            faults.append(f"{role}: content is null")
        if calls is not None:
            faults += _openai_calls(calls)
        elif "function_call" in message:
            faults += _openai_function(message["function_call"])
        elif role == "assistant" and not content and not message.get("audio"):
            faults.append("assistant: content is empty")
    turns = []
    for is_result, group in groupby(messages, key=lambda message: message["role"] == "tool"):
        if is_result:
            turns.append(Turn(answers=[message["tool_call_id"] for message in group]))
        else:
            said = [message.get("tool_calls") or [] for message in group]
            turns += [Turn(calls=[call["id"] for call in calls]) for calls in said]
    return faults + order_faults(turns, unique=False)


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


def _openai_function(function: Body) -> list[str]:
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


def responses_faults(body: Body) -> list[str]:
    """platform.openai.com/docs/api-reference/responses."""
    items = body["input"]
    faults: list[str] = ["input is empty"] * (not items)
    for number, item in enumerate(items):
        faults += [f"input[{number}]{fault}" for fault in _response_item(item)]
        following = items[number + 1] if number + 1 < len(items) else {"role": "user"}
        if item.get("type") == "reasoning" and following.get("role") in {"user", "system"}:
            faults.append("reasoning was provided without its required following item")
    turns = []
    for kind, group in groupby(items, key=lambda item: item.get("type") == "function_call_output"):
        keys = [item["call_id"] for item in group if "call_id" in item]
        turns.append(Turn(answers=keys) if kind else Turn(calls=keys))
    return faults + order_faults(turns)


def _response_item(item: Body) -> list[str]:
    kind = item.get("type")
    if kind not in _RESPONSE_ITEMS:
        return [f": invalid value {kind!r}"]
    prefix = _ITEM_IDS.get(kind, "")
    faults = [f".id: must begin with {prefix}"] * (
        not str(item.get("id", prefix)).startswith(prefix)
    )
    if kind == "message" and isinstance(item["content"], list):
        allowed = _RESPONSE_PARTS[item["role"]]
        wrong = [p for p in item["content"] if p.get("type") not in allowed or "cache_control" in p]
        faults += [f".content: {str(part)[:80]}" for part in wrong]
        faults += [".content is empty"] * (not item["content"])
    elif kind == "function_call":
        faults += _openai_function(item)
        faults += [f".call_id {item['call_id']!r}"] * (not 0 < len(item["call_id"] or "") <= 64)
    elif kind == "compaction" and {*item} - {"type", "id", "encrypted_content"}:
        faults.append(f": unknown parameters {[*item]}")
    return faults


def gemini_faults(body: Body) -> list[str]:
    """ai.google.dev/api/generate-content."""
    faults: list[str] = []
    turns = []
    for content in body["contents"]:
        parts = content.get("parts") or []
        faults += ["contents.parts must not be empty"] * (not parts)
        faults += [
            "unable to submit request because it has an empty text parameter"
            for part in parts
            if not {*part} - {"thought", "thought_signature"}
            or ("text" in part and not part["text"] and "thought_signature" not in part)
        ]
        called, answered = (
            [str(part[kind].get("name") or "") for part in parts if kind in part]
            for kind in ("function_call", "function_response")
        )
        faults += [
            f"function_call.name {one!r}" for one in called if not GEMINI_NAME.fullmatch(one)
        ]
        if called and (not turns or turns[-1].role != "user"):
            faults.append("function call turn must come after a user or function response turn")
        # There are no ids: responses have the names and the order of the calls.
        calls, answers = (
            [f"{n} {one}" for n, one in enumerate(names)] for names in (called, answered)
        )
        turns.append(Turn(content["role"], calls, answers))
    system = body.get("system_instruction") or {}
    faults += ["empty system text" for part in system.get("parts") or [] if not part.get("text")]
    return [*faults, *role_faults(turns), *order_faults(turns, unique=False)]


FAULTS: dict[str, Callable[[Body], list[str]]] = {
    "anthropic": anthropic_faults,
    "openai": openai_faults,
    "responses": responses_faults,
    "gemini": gemini_faults,
}
