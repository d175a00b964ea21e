"""Converts values to plain JSON, and messages to and from the JSON of a transcript."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, time
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

import orjson
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
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from langchain_tokenmem.core.message_times import moment_of
from langchain_tokenmem.core.messages import digest_of, marked, marks_of, role_of, unmarked
from langchain_tokenmem.core.thread_names import LONGEST_ID, is_id
from langchain_tokenmem.core.turn_memory import DERIVED_MARK, MARK
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError

_DEEPEST = 100
"""Maximum levels of nesting; deeper values, such as one that contains itself, become text."""

_ODD = " "
"""Prefix of JSON that the standard library wrote and must read.

orjson reads integers over 64 bits as floats, and rejects lone surrogates, NaN and infinity.
"""

_LONGEST_INTEGER = 10_000
"""Maximum bits of an integer; Python refuses to format more than 4,300 digits."""

# orjson would write these in its own way, without a warning that names their types.
_AS_PLAIN_VALUES = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def to_json(value: Any) -> tuple[str, set[str]]:
    """Return `value` as JSON text, ASCII wherever a database could have trouble.

    Pydantic models and dataclasses become objects, bytes an object with their base64 form, tuples
    and sets lists, dates and UUIDs strings, keys strings; anything else its `repr`.

    Returns:
        The text, and the names of the types that were replaced by their `repr`.
    """
    try:
        text = orjson.dumps(value, option=_AS_PLAIN_VALUES).decode()
        # orjson turns NaN and infinity into `null`, and an enum into its value: check first.
        if json.loads(text) == value:
            return text, set()
    except (TypeError, RecursionError):
        # Lone surrogates, integers over 64 bits, and anything else that is not JSON.
        pass
    described: set[str] = set()
    return _ODD + json.dumps(_plain(value, described, 0)), described


def from_json(text: str) -> Any:
    """Return what `to_json` was given."""
    return json.loads(text) if text.startswith(_ODD) else orjson.loads(text)


def _plain(value: Any, described: set[str], depth: int) -> Any:
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return {
                _key(key, described): _plain(item, described, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_plain(item, described, depth + 1) for item in value]
        if isinstance(value, BaseModel):
            # Not model_dump: its validation and warnings are not wanted here.
            return _plain(fields_of(value), described, depth + 1)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
            return _plain(fields, described, depth + 1)
    return _leaf(value, described)


def _leaf(value: Any, described: set[str]) -> Any:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and value.bit_length() <= _LONGEST_INTEGER:
        return int(value)
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, (datetime, date, time, UUID)):
        return str(value) if isinstance(value, UUID) else value.isoformat()
    described.add(type(value).__name__)
    return hex(value) if isinstance(value, int) else _repr(value)


def _key(key: Any, described: set[str]) -> str:
    plain = _leaf(key, described)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return object.__repr__(value)


# --- messages

# Only messages of these types are created from a row, whatever it says.
_TYPES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "function": FunctionMessage,
    "chat": ChatMessage,
}

_KINDS = {name: (kind, tuple(kind.model_fields)) for name, kind in _TYPES.items()}
"""The same, with the names of their fields in order."""

_put = object.__setattr__
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)

UNDATED = "undated"
"""Mark of an imported message whose time is unknown; only in the database."""

_VIEW_MARKS = frozenset({"created_at", "cut", "superseded", "summary", UNDATED})
"""Marks that a view or a read sets; they are not part of the message itself."""

_DERIVED_MARKS = frozenset({MARK, DERIVED_MARK})
"""Marks of a turn memory read from the transcript; one that the application set is kept."""


def checksum(text: str) -> int:
    """Return a checksum (CRC-32) of a message's stored JSON; damage may turn it into bytes."""
    return zlib.crc32(str(text).encode())


def as_stored(message: BaseMessage) -> BaseMessage:
    """Return a message as the application gave it: whole instead of a chunk, without view marks.

    Raises:
        ConfigurationError: When a transcript cannot hold it.
    """
    if not isinstance(message, BaseMessage):
        raise ConfigurationError(
            f"A transcript stores messages, not {type(message).__name__}; convert it first, with "
            f"langchain_core.messages.convert_to_messages."
        )
    if role_of(message) == "remove":
        raise ConfigurationError(
            "A transcript is append-only and cannot store a RemoveMessage. Use clear() to delete a "
            "session."
        )
    try:
        while isinstance(message, BaseMessageChunk):
            message = message_chunk_to_message(message)
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # changed in place
        raise ConfigurationError(
            f"Message {message.id} cannot be stored: it is not a complete message ({error!r:.200})."
        ) from error
    if message.type not in _TYPES:
        raise ConfigurationError(
            f"Messages of type {message.type!r} cannot be stored, those of type "
            f"{', '.join(_TYPES)} can: use ChatMessage(role={message.type!r}) instead."
        )
    if message.id is not None and not isinstance(message.id, str):
        # Pydantic accepts a number assigned later, but reads it back as text.
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
        ConfigurationError: When its `created_at` is not a time.
    """
    given = marks_of(message).get("created_at")
    moment = moment_of(now if given is None else given if isinstance(given, str) else None)
    if moment is None:
        raise ConfigurationError(
            f"Message {message.id}: created_at is {given!r}; it is a time in ISO 8601, such as "
            f'"2026-01-31T12:00:00+00:00".'
        )
    return moment


def decoded_message(text: str) -> BaseMessage:
    """Return a message from its JSON in a row, whose fields were checked when it was stored.

    Its fields are set directly: `model_construct` takes 20 ms for 2,000 messages instead of 6.

    Raises:
        CorruptStoreError: When the text is not a message of a known type.
    """
    try:
        record = json.loads(text) if text[0] == _ODD else orjson.loads(text)
        data = record["data"]
        kind, names = _KINDS[record["type"]]
        if tuple(data) != names:  # newer langchain-core, or extra fields
            return kind(**data)
    except _MALFORMED as error:
        raise _unreadable(error) from error
    message = object.__new__(kind)
    _put(message, "__dict__", data)
    _put(message, "__pydantic_fields_set__", set(names))
    _put(message, "__pydantic_extra__", {})
    _put(message, "__pydantic_private__", None)
    return message


def checked_message(text: str) -> BaseMessage:
    """Return a message from untrusted JSON.

    Raises:
        CorruptStoreError: When it is not a message.
    """
    try:
        record = from_json(text)
        return _TYPES[record["type"]](**record["data"])
    except _MALFORMED as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> CorruptStoreError:
    return CorruptStoreError(
        f"A stored message cannot be read ({error!r:.200}). Nothing was returned; restore a backup."
    )


def fields_of(model: BaseModel) -> dict[str, Any]:
    """Return the fields of a model by name, including undeclared ones."""
    return {**model.__dict__, **(model.model_extra or {})}


class Encoding(NamedTuple):
    """A message as JSON, the message that this reads back as, and the types kept only as text."""

    json: str
    decoded: BaseMessage
    text_only: frozenset[str]


class EncodedMessage:
    """A message about to be stored in a transcript, encoded once.

    Args:
        given: The message as the application gave it.
        message_id: Its id, if it has none of its own.
        created_at: Its time in UTC, if known; default: the time that it carries.
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
            ConfigurationError: When it could not be read back as a message.
        """
        message = self.stored
        data = fields_of(message)
        text, described = to_json({"type": message.type, "data": data})
        try:
            # A message changed in place after its check could make its session unreadable.
            decoded = checked_message(text)
            if (fields := fields_of(decoded)) != data:
                text, _ = to_json({"type": message.type, "data": fields})
            return Encoding(text, decoded, frozenset(described))
        except CorruptStoreError as error:
            raise ConfigurationError(
                f"Message {message.id} cannot be stored, because it could not be read back "
                f"({error.__cause__!r:.200}); use fields of the right types."
            ) from error

    def repeats(self, known: BaseMessage) -> bool:
        """Return whether every field set in this message equals that of a stored one.

        A front-end may resend only the id and the text of a message. Objects stored only as their
        `repr` are not compared: that differs between processes.
        """
        if digest_of(self.stored) != digest_of(known):
            return False
        _, own, text_only = self.encoding
        return bool(text_only) or all(
            getattr(own, name, None) == getattr(known, name, None)
            for name in self.stored.model_fields_set
        )

    @property
    def is_lossless(self) -> bool:
        """Whether reading returns an equal message, apart from an id that it did not have."""
        _, decoded, text_only = self.encoding
        if self.given.id is None:
            decoded = decoded.model_copy(update={"id": None})
        return type(decoded) is type(self.given) and not text_only and decoded == self.given


STRICT = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""Rejects what JSON writes like another value, so that no two values look the same."""


def message_digest(message: BaseMessage, key: bytes = b"") -> bytes:
    """Return a 16-byte digest of all fields of a message except its id."""
    fields = fields_of(message)
    del fields["id"]
    plain = [type(message).__name__, {k: v for k, v in fields.items() if v is not None}]
    try:
        encoded = orjson.dumps(plain, option=STRICT)
    except TypeError:
        encoded = b"null"
    if b"null" in encoded:  # NaN and infinity become null, too
        # Msgpack loses lone surrogates, JSON the difference between bytes and their base64 form.
        encoded = to_json(fields)[0].encode()
        with suppress(TypeError, ValueError, RecursionError):  # then only a transcript can hold it
            nameless = message.model_copy(update={"id": None})
            encoded += JsonPlusSerializer().dumps_typed(nameless)[1]
    return hashlib.blake2b(encoded, digest_size=16, key=key).digest()
