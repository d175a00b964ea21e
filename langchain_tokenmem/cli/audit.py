"""Audit of one request: legality for strict providers, and presence of required messages.

It shares no code with `core.repair` and `core.provider_format`, so that a fault there shows here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import dropwhile

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem.cli.measures import calls_of, text_of

_MARKER = re.compile(r"\[\.\.\. [^\[\]]*(?:left out|only text is shown)[^\[\]]* ?\.\.\.\]")
_BESIDE = 12
"""Characters next to a marker that are compared."""


def audit(history: Sequence[BaseMessage], request: Sequence[BaseMessage]) -> list[str]:
    """Return what is wrong with a request; empty if nothing is.

    Args:
        history: All messages so far, with ids.
        request: What the model would be sent.

    Example:
        >>> history = [HumanMessage("hi", id="m0")]
        >>> audit(history, history)
        []
    """
    humans = [message for message in history if isinstance(message, HumanMessage)]
    return [
        *order_faults(request),
        *pairing_faults(request),
        *duplicate_faults(request),
        *presence_faults("the newest human message", humans[-1:], history, request),
        *newest_group_faults(history, request),
        *presence_faults("the first request", humans[:1], history, request),
    ]


def order_faults(request: Sequence[BaseMessage]) -> list[str]:
    """Return faults of roles: system messages first, then a human one."""
    body = list(dropwhile(is_system, request))
    if not body:
        return ["the request has only system messages"]
    faults = []
    if not isinstance(body[0], HumanMessage):
        faults.append(f"the first message after the system ones is of type {body[0].type}")
    if any(map(is_system, body)):
        faults.append("a system message comes after other messages")
    return faults


def is_system(message: BaseMessage) -> bool:
    """Return whether a message is a system one."""
    return isinstance(message, SystemMessage)


def pairing_faults(request: Sequence[BaseMessage]) -> list[str]:
    """Return faults between tool calls and results: each call answered once, at once."""
    faults = []
    open_calls: set[str] = set()
    for message in request:
        if isinstance(message, ToolMessage):
            if message.tool_call_id in open_calls:
                open_calls.remove(message.tool_call_id)
            else:
                faults.append(f"result {message.tool_call_id!r} does not follow an open call of it")
            continue
        if open_calls:
            faults.append(f"calls without a result: {sorted(open_calls)}")
        open_calls = {call_id for call_id, _, _ in calls_of(message)}
    if open_calls:
        faults.append(f"calls without a result at the end: {sorted(open_calls)}")
    return faults


def duplicate_faults(request: Sequence[BaseMessage]) -> list[str]:
    """Return message ids and call ids that occur twice."""
    ids = Counter(message.id for message in request if message.id)
    calls = Counter(call_id for message in request for call_id, _, _ in calls_of(message))
    return [
        *(f"message id {key!r} occurs {n} times" for key, n in ids.items() if n > 1),
        *(f"call id {key!r} occurs {n} times" for key, n in calls.items() if n > 1),
    ]


def presence_faults(
    name: str,
    required: Sequence[BaseMessage],
    history: Sequence[BaseMessage],
    request: Sequence[BaseMessage],
) -> list[str]:
    """Return faults of messages that are missing, even in capped form."""
    recorded = {one.id for one in history}
    faults = []
    for message in required:
        alike = [one for one in request if one.type == message.type]
        # Without its id, it may be a message whose id no other one claims.
        same = [one for one in alike if one.id == message.id]
        faults += _missing(name, message, same or [one for one in alike if one.id not in recorded])
    return faults


def newest_group_faults(
    history: Sequence[BaseMessage], request: Sequence[BaseMessage]
) -> list[str]:
    """Return faults of the newest group: the last message, or calls with all their results."""
    newest, results = newest_group(history)
    if newest is None or isinstance(newest, SystemMessage):
        return []
    if not results:
        return presence_faults("the newest message", [newest], history, request)
    wanted = {call_id for call_id, _, _ in calls_of(newest)}
    callers = [one for one in request if _calls(one) & wanted]
    callers += [one for one in request if one.id == newest.id and not _calls(one)]
    # A call that was left out takes its result with it; the message that made it must say so.
    made = {call_id for message in callers for call_id in _calls(message)} & wanted
    faults = _missing("the message of the newest calls", newest, callers)
    for result in results:
        if result.tool_call_id in made:
            shown = [
                message
                for message in request
                if isinstance(message, ToolMessage)
                and _original(message.tool_call_id) == result.tool_call_id
                and message.id in {result.id, None}
            ]
            faults += _missing("the newest result", result, shown)
    return faults


def _calls(message: BaseMessage) -> set[str]:
    return {_original(call_id) for call_id, _, _ in calls_of(message)}


def _original(call_id: str) -> str:
    """Return a call's id as it was recorded: one that was used before is renamed in a request."""
    return re.sub(r"~\d+$", "", call_id)


def newest_group(
    history: Sequence[BaseMessage],
) -> tuple[BaseMessage | None, list[ToolMessage]]:
    """Return the newest message with results of its calls; results without a call do not count."""
    results: list[ToolMessage] = []
    for message in reversed(history):
        if isinstance(message, ToolMessage):
            results.insert(0, message)
            continue
        calls = {call_id for call_id, _, _ in calls_of(message)}
        is_caller = calls.issuperset(result.tool_call_id for result in results)
        return (message, results) if is_caller else (None, [])
    return None, []


def _missing(name: str, message: BaseMessage, candidates: Sequence[BaseMessage]) -> list[str]:
    """Return a fault unless one of the candidates is the message, whole or capped with a marker."""
    if any(_is_whole(message, one) or _is_capped(message, one) for one in candidates):
        return []
    if any(one.id == message.id for one in candidates):
        return [f"{name} {message.id} is shortened without a marker that names it"]
    return [f"{name} {message.id} is missing"]


def _is_whole(message: BaseMessage, candidate: BaseMessage) -> bool:
    return text_of(message) in text_of(candidate) and calls_of(message) == calls_of(candidate)


def _is_capped(message: BaseMessage, candidate: BaseMessage) -> bool:
    """Return whether a marker is in place of the message's text, or one that names its id.

    In a message that was merged with others, the marker must be next to part of its text.
    """
    if not message.id:
        return False
    shown = _all_text(candidate)
    if re.search(rf"(?<![\w-]){re.escape(message.id)}(?![\w-])", shown):
        return True
    markers = list(_MARKER.finditer(shown))
    if candidate.id == message.id:
        return bool(markers)
    own = _all_text(message)
    beside = [
        words
        for marker in markers
        for words in (shown[: marker.start()].rstrip()[-_BESIDE:], shown[marker.end() :].strip())
    ]
    return any(words and words[:_BESIDE] in own for words in beside)


def _all_text(message: BaseMessage) -> str:
    return "\n".join([text_of(message), *(args for _, _, args in calls_of(message))])
