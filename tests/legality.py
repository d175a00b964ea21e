"""What every strict provider refuses in a list of messages: the rules that they share."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from tests.providers import RefusedError, blank, body_after_system, calls, check_results, refuse


def problems(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the first thing that a strict provider would refuse in a request, if there is one.

    System text only in front, a human message first, every tool call directly followed by its
    results, no result without its call, no assistant message without content, no id twice.

    Example:
        >>> problems([HumanMessage("hi"), AIMessage("hello"), HumanMessage("more")])
        []
    """
    try:
        body = body_after_system(list(messages), most_system=8)
        refuse(not isinstance(body[0], HumanMessage), "the first message is not a human one")
        check_results(body)
        for message in body:
            silent = isinstance(message, AIMessage) and not calls(message) and blank(message)
            refuse(silent, f"message {message.id} is empty")
        ids = [message.id for message in messages if message.id]
        refuse(len(set(ids)) < len(ids), "a message id is repeated")
    except RefusedError as error:
        return [str(error)]
    return []
