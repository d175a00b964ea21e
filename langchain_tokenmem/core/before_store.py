"""The application's function that changes messages before they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_tokenmem.core.argument_checks import checked_function
from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.errors import ConfigurationError

BeforeStore = Callable[[list[BaseMessage]], Sequence[BaseMessage]]
"""Changes messages on their way into a transcript, such as redacts them.

It returns the same number of messages, each under the id that it had. What it changes it copies.
"""


def checked_before_store(before_store: BeforeStore | None) -> BeforeStore | None:
    """Return the function, or None.

    Raises:
        ConfigurationError: When it is something else.
    """
    line = "before_store=redact, which takes messages and returns them"
    return checked_function(before_store, "before_store", line)


def as_kept(before_store: BeforeStore | None, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages as they are stored.

    Raises:
        ConfigurationError: When the function gives other messages back.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> [m.content for m in as_kept(None, [HumanMessage("hi")])]
        ['hi']
    """
    if before_store is None:
        return list(messages)
    given = before_store(list(messages))
    kept = list(given) if isinstance(given, Iterable) else []
    if [getattr(one, "id", kept) for one in kept] != [message.id for message in messages]:
        raise ConfigurationError(
            f"before_store was given {len(messages)} messages and returned {len(kept)}, or one "
            f"has another id. It returns each message, in order and under its id: change a copy, "
            f'message.model_copy(update={{"content": ...}}).'
        )
    return kept


def text_as_kept(before_store: BeforeStore | None, text: str) -> str:
    """Return a text that is no message, such as a note, as it is stored: as a human message is."""
    return text_of(as_kept(before_store, [HumanMessage(text)])[0]) if before_store else text
