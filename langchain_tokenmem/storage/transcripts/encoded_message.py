"""Encodes messages as plain JSON for rows of a transcript; keys and checksums of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.utils import message_chunk_to_message

from langchain_tokenmem.core.messages import (
    digest_of,
    marked,
    marks_of,
    role_of,
    unmarked,
)
from langchain_tokenmem.core.thread_names import (
    LONGEST_ID,
    NAMESPACE_SEPARATOR,
    check_characters,
    is_id,
)
from langchain_tokenmem.core.turn_memory import DERIVED_MARK, MARK
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.database.json_values import from_json, to_json

# Reading makes messages of these types and of no other, whatever a row says.
_TYPES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "function": FunctionMessage,
    "chat": ChatMessage,
}

UNDATED = "undated"
"""Mark of an imported message whose own time is not known; only in the database."""

_VIEW_MARKS = frozenset({"created_at", "cut", "superseded", "summary", UNDATED})
"""Marks that a view or a read sets; they are no part of the message itself."""

_DERIVED_MARKS = frozenset({MARK, DERIVED_MARK})
"""Marks of a turn memory that was read from the transcript; one that the application set stays."""

_DIGEST_LENGTH = 32
"""Hex digits of `digest_of`."""


@lru_cache(maxsize=1_024)
def key_of(name: str) -> str:
    """Return an id as it stands in the key of a row.

    The sign in front keeps an id such as `1e3` from ever being taken for a number.

    Raises:
        ScopeError: When it is no usable id.
    """
    for part in name.split(NAMESPACE_SEPARATOR):
        check_characters(part, "An id")
    return f"={name}"


def content_digest(full_digest: str) -> str:
    """Return the digest of a message's content alone, from `EncodedMessage.full_digest`."""
    return full_digest[:_DIGEST_LENGTH]


def checksum(values: Iterable[Any]) -> str:
    """Return 32 hex digits (BLAKE2b) over the columns of a row, their types included."""
    return hashlib.blake2b(as_bytes(values), digest_size=16).hexdigest()


def as_bytes(values: Iterable[Any]) -> bytes:
    """Return the columns of a row as bytes that no other row has.

    As Python writes them in ASCII; of what is bytes the length, and all of that at the end.
    """
    columns = [*values]
    data = [value for value in columns if type(value) is bytes]
    if data:
        columns = [(len(value),) if type(value) is bytes else value for value in columns]
    return b"".join([ascii(columns).encode(), *data])


def as_stored(message: BaseMessage) -> BaseMessage:
    """Return a message as the application gave it: whole instead of a chunk, without view marks.

    Raises:
        ConfigurationError: When it is no message that a transcript holds.
    """
    if not isinstance(message, BaseMessage):
        raise ConfigurationError(
            f"A transcript holds messages, not {type(message).__name__}; convert it first, with "
            f"langchain_core.messages.convert_to_messages."
        )
    if role_of(message) == "remove":
        raise ConfigurationError(
            "A transcript only grows, RemoveMessage has no place in it. Use clear() to delete a "
            "session."
        )
    try:
        while isinstance(message, BaseMessageChunk):
            message = message_chunk_to_message(message)
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # changed in place
        raise ConfigurationError(
            f"Message {message.id} cannot be stored: no whole message comes of it ({error!r:.200})."
        ) from error
    if message.type not in _TYPES:
        raise ConfigurationError(
            f"Messages of type {message.type!r} cannot be stored, those of type "
            f"{', '.join(_TYPES)} can: ChatMessage(role={message.type!r}) says it, too."
        )
    if message.id is not None and not isinstance(message.id, str):
        # Pydantic lets a number stand that is set later, and says it as a text when it reads it.
        message = message.model_copy(update={"id": str(message.id)})
    if message.id is not None and not is_id(message.id):
        raise ConfigurationError(
            f"The message id {message.id!r:.100} cannot be stored: it has more than {LONGEST_ID} "
            f"characters (1,000 bytes), a control character, a line break or half of a surrogate "
            f"pair."
        )
    marks = marks_of(message)
    dropped = _VIEW_MARKS | _DERIVED_MARKS if DERIVED_MARK in marks else _VIEW_MARKS
    return unmarked(message, dropped)


def created_at_of(message: BaseMessage, now: datetime) -> datetime:
    """Return the time of a message in UTC: its own `created_at`, else `now`.

    Raises:
        ConfigurationError: When its `created_at` is no time.
    """
    given = marks_of(message).get("created_at")
    try:
        moment = now if given is None else datetime.fromisoformat(given)
        # A time without a zone is taken for UTC, wherever this runs.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"Message {message.id}: created_at is {given!r}; it is a time in ISO 8601, such as "
            f'"2026-01-31T12:00:00+00:00".'
        ) from error


def decoded_message(text: str) -> BaseMessage:
    """Return a message from its JSON.

    Raises:
        CorruptStoreError: When the text is no message of a known type.
    """
    try:
        record = from_json(text)
        return _TYPES[record["type"]](**record["data"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise CorruptStoreError(
            f"A stored message cannot be read ({error!r:.200}). Nothing was returned; restore a "
            f"backup."
        ) from error


class Encoding(NamedTuple):
    """A message as JSON, the message that is read from it, and the types kept as text only."""

    json: str
    decoded: BaseMessage
    text_only: frozenset[str]


class EncodedMessage:
    """A message on its way into a transcript, encoded once.

    Args:
        given: The message as the application gave it.
        message_id: Its id, if it has none of its own.
        created_at: Its time in UTC, where that is known; else it is the one that it brings.
        is_dated: Whether that is the time of the message, not that of its import.

    Attributes:
        given: The same.
        stored: The message as it is stored: whole instead of a chunk, without view marks.
        created_at: The same.
        is_dated: The same.

    Raises:
        ConfigurationError: When a transcript cannot hold the message.
    """

    def __init__(
        self,
        given: BaseMessage,
        message_id: str | None = None,
        *,
        created_at: datetime | None = None,
        is_dated: bool = True,
    ) -> None:
        self.given, self.created_at, self.is_dated = given, created_at, is_dated
        stored = as_stored(given)
        if not is_dated:
            stored = marked(stored, **{UNDATED: True})
        self.stored = stored if message_id is None else stored.model_copy(update={"id": message_id})

    @cached_property
    def encoding(self) -> Encoding:
        """The message as JSON; what has no JSON form is kept as text.

        Raises:
            ConfigurationError: When no message could be made from it again.
        """
        message = self.stored
        text, described = self._written
        try:
            # Changed in place after it was checked, one message would make its session unreadable.
            return Encoding(text, decoded_message(text), frozenset(described))
        except CorruptStoreError as error:
            raise ConfigurationError(
                f"Message {message.id} cannot be stored, because it could not be read again "
                f"({error.__cause__!r:.200}); say what it says with fields of the right types."
            ) from error

    @cached_property
    def _written(self) -> tuple[str, set[str]]:
        message = self.stored
        data = {**message.__dict__, **(message.model_extra or {})}
        return to_json({"type": message.type, "data": data})

    @cached_property
    def digest(self) -> str:
        """The hash of the message's content."""
        return digest_of(self.stored)

    @cached_property
    def full_digest(self) -> str:
        """The hash of the content, and behind it that of every field."""
        text, _ = self._written
        return self.digest + hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def repeats(self, known: BaseMessage) -> bool:
        """Return whether the message says what another one does in every field that it names.

        A front-end may send a message again by its id and its words alone. Objects of which only
        the `repr` is kept are not compared: another process writes it in another way.
        """
        if self.digest != digest_of(known):
            return False
        _, own, text_only = self.encoding
        return bool(text_only) or all(
            getattr(own, name, None) == getattr(known, name, None)
            for name in self.stored.model_fields_set
        )

    @property
    def is_lossless(self) -> bool:
        """True where reading gives back an equal message."""
        _, decoded, text_only = self.encoding
        is_same = self.stored is self.given and type(decoded) is type(self.given)
        return is_same and not text_only and decoded == self.given
