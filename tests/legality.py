"""What providers refuse in a list of messages.

The rules are the common ground of the strict ones (OpenAI, Anthropic, Gemini, Bedrock, Mistral
templates): system text only in front, a human message first, every tool call directly followed by
its results, no result without its call, no assistant message without content.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import call_ids, result_id, role_of
from langchain_tokenmem.core.repair import has_no_content


def problems(messages: Sequence[BaseMessage]) -> list[str]:
    """Return what a strict provider would refuse in a request, one sentence for each fault.

    Example:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> problems([HumanMessage("hi"), AIMessage("hello"), HumanMessage("more")])
        []
    """
    faults = []
    body = list(messages)
    while body and role_of(body[0]) == "system":
        body.pop(0)
    if not body:
        faults.append("There is no message after the system text.")
    elif role_of(body[0]) != "human":
        faults.append("The first message after the system text is not a human one.")
    faults += [
        f"System message {m.id} stands in the middle." for m in body if role_of(m) == "system"
    ]
    faults += _pairing_problems(body)
    faults += [
        f"Message {message.id} is empty."
        for message in body
        if role_of(message) == "ai" and not call_ids(message) and has_no_content(message)
    ]
    return faults + _repeated("message id", [m.id for m in messages if m.id])


def _pairing_problems(body: Sequence[BaseMessage]) -> list[str]:
    faults = []
    waiting: list[str] = []
    answered: list[str] = []
    for message in body:
        key = result_id(message)
        if key is not None:
            answered.append(key)
            if key in waiting:
                waiting.remove(key)
            else:
                faults.append(f"Tool result {message.id} does not follow its call {key}.")
            continue
        faults += [f"Tool call {open_key} has no result." for open_key in waiting]
        waiting = call_ids(message)
    faults += [f"Tool call {open_key} has no result." for open_key in waiting]
    return faults + _repeated("tool call id", answered)


def _repeated(what: str, keys: list[str]) -> list[str]:
    return [
        f"The {what} {key} is repeated." for key in sorted({k for k in keys if keys.count(k) > 1})
    ]
