"""Shortening of one message: old tool results, and any message too large for its share.

A `Cut` says how many characters stay at the beginning and at the end. It is chosen once, with a
token counter, and kept in the state; applying it needs neither a counter nor a choice, so the
bytes that a model sees of a shortened message never change again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.facts.call_kinds import kind_of_tool
from langchain_tokenmem.core.facts.failures import failure_of
from langchain_tokenmem.core.messages import (
    call_ids,
    calls_of,
    marked,
    reference,
    role_of,
    text_of,
)
from langchain_tokenmem.core.tool_calls import object_in, with_calls
from langchain_tokenmem.state import Cut

CountMessage = Callable[[BaseMessage], int]

_SNAP = 0.25
"""A cut may give up this share of what it keeps to end at a line end."""

_WHOLE = 1 << 60
"""More characters than any text has."""

_ROUNDS = 12
"""Maximum counts to find one cut; each round scales by the error of the last one."""

_LEFT_OUT_KWARGS = frozenset(
    {
        *("tool_calls", "audio", "reasoning", "reasoning_content", "reasoning_details"),
        # by which OpenAI would look up the items together with the reasoning left out here
        "__openai_function_call_ids__",
    }
)


def apply_cut(message: BaseMessage, cut: Cut) -> BaseMessage:
    """Return the message as shown by the cut: beginning, marker, end; the id stays.

    The marker says how much was left out, and includes the message's reference if the cut
    says so: then the model can open it. Reasoning and media of a cut message are left out entirely.
    The form depends only on the message and the cut.
    """
    name = reference(message.id) if cut.get("named") else ""
    text = _cut_text(text_of(message), cut, name)
    if isinstance(message.content, list) and cut["head"] + cut["tail"] >= len(text):
        text = f"{text}\n{_marker('only text is shown', name, 'full content')}"
    update: dict[str, Any] = {"content": text}
    if isinstance(message, AIMessage):
        whole, message = message, _cut_calls(message, cut)
        update["content"] = _with_call_marker(text, whole, message, name)
        update["usage_metadata"] = None
        update["additional_kwargs"] = {
            key: value
            for key, value in message.additional_kwargs.items()
            if key not in _LEFT_OUT_KWARGS
        }
    if isinstance(message, ToolMessage):
        update["artifact"] = None
    return marked(message.model_copy(update=update), cut=True)


def _marker(what: str, name: str, about: str = "full text") -> str:
    return f"[... {what}; {about}: message {name} ...]" if name else f"[... {what} ...]"


def _cut_text(text: str, cut: Cut, name: str) -> str:
    head, tail = cut["head"], cut["tail"]
    if head + tail >= len(text):
        return text
    end = _line_end(text, head)
    start = _line_start(text, len(text) - tail)
    left = text[end:start]
    lines = left.count("\n")
    what = f"{len(left):,} characters" + (f", {lines:,} lines" if lines else "")
    marker = _marker(f"{what} left out", name)
    return "\n".join(part for part in (text[:end].rstrip("\n"), marker, text[start:]) if part)


def _line_end(text: str, head: int) -> int:
    found = text.rfind("\n", int(head * (1 - _SNAP)), head)
    return head if found < 0 else found + 1


def _line_start(text: str, start: int) -> int:
    found = text.find("\n", start, start + int((len(text) - start) * _SNAP))
    return start if found < 0 else found + 1


def _cut_calls(message: AIMessage, cut: Cut) -> AIMessage:
    """Return the message with its last calls, valid ones before invalid ones, their texts cut."""
    valid, invalid = message.tool_calls, message.invalid_tool_calls
    gone = len(valid) + len(invalid) - cut["calls"] if "calls" in cut else 0
    kept, broken = valid[gone:], invalid[max(0, gone - len(valid)) :]
    if "args" in cut:
        kept = [{**call, "args": _cut_args(call["args"], cut["args"])} for call in kept]
        broken = [{**call, "args": _cut_text_args(call["args"], cut["args"])} for call in broken]
    return with_calls(message, kept, broken)


def _cut_text_args(written: str | None, most: int) -> str:
    """Return shortened arguments as a text: as JSON if they were JSON."""
    if not most or not written:
        return "{}"
    args = object_in(written)
    if args is not None:
        return json.dumps(_cut_args(args, most), ensure_ascii=False)
    return str(_cut_value(written, most))


def _with_call_marker(text: str, whole: AIMessage, short: AIMessage, name: str) -> str:
    """Return the text with a marker after it if calls or their arguments are left out."""
    if short.tool_calls == whole.tool_calls and (
        short.invalid_tool_calls == whole.invalid_tool_calls
    ):
        return text
    gone = len(call_ids(whole)) - len(call_ids(short))
    what = f"{gone:,} tool calls" if gone else "arguments of tool calls"
    marker = _marker(f"{what} left out", name)
    return f"{text}\n{marker}" if text else marker


def _cut_args(args: dict[str, Any], most: int) -> dict[str, Any]:
    return {key: _cut_value(value, most) for key, value in args.items()} if most else {}


def _cut_value(value: Any, most: int) -> Any:
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most]}[... {len(value) - most:,} characters left out]"
    if isinstance(value, dict):
        return {key: _cut_value(item, most) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut_value(item, most) for item in value[:most]]
    return value


def old_result_cut(
    message: BaseMessage, budget: TokenBudget, count: CountMessage, new: Cut
) -> Cut | None:
    """Return the cut of a tool result that is no longer recent; None if it stays as it is.

    Args:
        message: A tool result.
        budget: The budget with `result_tokens` and, in its shares, `result_chars` and
            `error_chars`.
        count: Counts the tokens of a message.
        new: An empty cut, which says whether the marker names the message.
    """
    size, length = count(message), len(text_of(message))
    most = length if budget.shares.result_chars is None else budget.shares.result_chars
    if size <= budget.result_tokens and length <= most:
        return None
    if isinstance(message, ToolMessage) and failure_of(message, kind_of_tool(message.name or "")):
        most = budget.shares.error_chars
        if length <= most:
            return None
        cut: Cut = {**new, "head": most // 2, "tail": most // 2}
    else:
        cut = cut_to(message, budget.result_tokens, count, new)
        cut["head"] = cut["tail"] = min(cut["head"], most // 2)
    return cut if count(apply_cut(message, cut)) < size else None


def without_arguments(new: Cut) -> Cut:
    """Return the cut of a message with tool calls that shows its text without arguments.

    Args:
        new: An empty cut, which says whether the marker names the message.
    """
    return {**new, "head": _WHOLE, "tail": 0, "args": 0}


def cut_to(message: BaseMessage, most: int, count: CountMessage, new: Cut) -> Cut:
    """Return the cut with which a message has at most `most` tokens, or the smallest one.

    Half of what stays is taken from the beginning and half from the end; the arguments of tool
    calls are shortened to the same degree.
    """
    length = len(text_of(message))
    calls = calls_of(message) if isinstance(message, AIMessage) else []
    longest = max((_longest(call["args"]) for call in calls), default=0)
    share = 1.0
    for _ in range(_ROUNDS):
        if (size := count(apply_cut(message, _cut_by(new, share, length, longest)))) <= most:
            break
        share *= min(0.9, 0.95 * most / size)
    else:
        share = 0.0
    return _cut_by(new, share, length, longest)


def _cut_by(empty: Cut, share: float, length: int, longest: int) -> Cut:
    kept = int(share * length)
    cut: Cut = {**empty, "head": kept - kept // 2, "tail": kept // 2}
    if longest:
        cut["args"] = int(share * longest)
    return cut


def _longest(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return max((_longest(item) for item in value.values()), default=0) or len(value)
    if isinstance(value, list):
        return max(len(value), *(_longest(item) for item in value)) if value else 0
    return 1


def cut_group(
    messages: tuple[BaseMessage, ...], most: int, count: CountMessage, new: Cut
) -> dict[str, Cut]:
    """Return the cuts with which a whole group has at most `most` tokens.

    Its messages share the room evenly: small ones stay whole, large ones are cut to one level.
    If even that is too much, only the last calls and their results are kept.
    """
    calls = len(call_ids(messages[0]))
    while True:
        cuts = _level_cuts(messages, calls, most, count, new)
        if not calls or sum(map(count, apply_cuts(messages, cuts))) <= most:
            return cuts
        calls //= 2


def _level_cuts(
    messages: tuple[BaseMessage, ...], calls: int, most: int, count: CountMessage, new: Cut
) -> dict[str, Cut]:
    base: dict[str, Cut] = {}
    key = messages[0].id or ""
    if calls < len(call_ids(messages[0])):
        base[key] = {**new, "head": _WHOLE, "tail": 0, "calls": calls}
    visible = apply_cuts(messages, base)
    sizes = [count(message) for message in visible]
    level = _level(sizes, most)
    cuts = dict(base)
    originals = {message.id: message for message in messages}
    for message, size in zip(visible, sizes, strict=True):
        if size > level:
            key = message.id or ""
            cut = cut_to(originals.get(key, message), level, count, new)
            cuts[key] = {**cut, "calls": calls} if key in base else cut
    return cuts


def _level(sizes: list[int], most: int) -> int:
    """Return the cap at which sizes, each limited to it, add up to `most`."""
    left = most
    for index, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - index)
        if size > share:
            return max(share, 0)
        left -= size
    return max(sizes, default=0)


def apply_cuts(
    messages: tuple[BaseMessage, ...], cuts: Mapping[str, Cut]
) -> tuple[BaseMessage, ...]:
    """Return the messages of one group as shown by the cuts."""
    if not cuts:
        return messages
    dropped: set[str] = set()
    shown: list[BaseMessage] = []
    for message in messages:
        cut = cuts.get(message.id or "")
        if isinstance(message, ToolMessage) and message.tool_call_id in dropped:
            continue
        form = message if cut is None else apply_cut(message, cut)
        if cut is not None and role_of(message) == "ai" and "calls" in cut:
            dropped.update(set(call_ids(message)) - set(call_ids(form)))
        shown.append(form)
    return tuple(shown)
