"""References by which a model or a person names a message."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import result_ids

READ_MESSAGE = "read_message"
"""Name of the tool that opens a message by its reference."""

_SHORT = 6


def reference(key: str | None, digits: int = _SHORT) -> str:
    """Return the reference of a message with an id: the first hex digits of the id's hash.

    Example:
        >>> reference("m1")
        '743116'
    """
    return hashlib.blake2b(
        (key or "").encode("utf-8", "surrogatepass"), digest_size=16
    ).hexdigest()[:digits]


def messages_named(messages: Sequence[BaseMessage], name: str) -> list[BaseMessage]:
    """Return the messages that a name opens: that of an id, else those of a reference.

    Two messages may share a short reference; a longer one, up to 32 digits, tells them apart.
    """
    found = [message for message in messages if message.id == name]
    if found or len(name) < _SHORT:
        return found
    digits = name.removeprefix("#").lower()
    return [m for m in messages if digits in {reference(key, len(digits)) for key in _ids_of(m)}]


def _ids_of(message: BaseMessage) -> list[str]:
    """Return the id of a message, and those of the results in it where they are shown apart."""
    key = message.id or ""
    return [key, *(f"{key}~{result}" for result in result_ids(message))]
