"""Messages as rows: plain JSON in, plain JSON out, with a checksum over every column."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import (
    BaseMessage,
    BaseMessageChunk,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.messages.utils import message_chunk_to_message
from pydantic import BaseModel

from langchain_tokenmem.core.messages import MARKS, marks_of
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError

logger = logging.getLogger(__name__)

_VIEW_MARKS = frozenset({"created_at", "cut", "added"})
"""Marks that a view sets; they are no part of what the application said."""

_TYPES = frozenset({"human", "ai", "system", "tool", "function", "chat"})

_LONGEST_KEY = 400
"""Longer ids are stored by hash: PostgreSQL refuses index entries over 2.7 kB."""


def key_of(name: str) -> str:
    """Return an id as a column can hold it: ASCII, short, and never the same for two ids."""
    escaped = name.encode("unicode_escape", "surrogatepass").decode("ascii")
    if len(escaped) <= _LONGEST_KEY:
        return f"={escaped}"
    return f"#{hashlib.sha256(escaped.encode()).hexdigest()}"


def escaped(name: str) -> str:
    """Return a text as any database can hold it: NUL and lone surrogates escaped."""
    return name.encode("unicode_escape", "surrogatepass").decode("ascii")


def unescaped(text: str) -> str:
    """Return the text that `escaped` was given."""
    return text.encode("ascii").decode("unicode_escape")


def checksum(values: Iterable[Any]) -> bytes:
    """Return 16 bytes (BLAKE2b) over the columns of a row, their types included."""
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        plain = repr(value).encode("utf-8", "backslashreplace")
        digest.update(len(plain).to_bytes(8, "big"))
        digest.update(plain)
    return digest.digest()


def as_stored(message: BaseMessage) -> BaseMessage:
    """Return a message as the application said it: whole instead of a chunk, without view marks.

    Raises:
        ConfigurationError: When it is of a type that could not be read back.
    """
    whole = message
    while isinstance(whole, BaseMessageChunk):
        whole = message_chunk_to_message(whole)
    if whole.type not in _TYPES:
        raise ConfigurationError(
            f"Message {message.id} is of the type {message.type!r}, which a transcript cannot "
            f"hold. It holds {', '.join(sorted(_TYPES))} messages."
        )
    marks = marks_of(whole)
    if not _VIEW_MARKS & marks.keys():
        return whole
    metadata = {key: value for key, value in whole.response_metadata.items() if key != MARKS}
    kept = {key: value for key, value in marks.items() if key not in _VIEW_MARKS}
    if kept:
        metadata[MARKS] = kept
    return whole.model_copy(update={"response_metadata": metadata})


def to_body(message: BaseMessage) -> str:
    """Return a message as JSON text; what JSON cannot say is kept as text, with one warning."""
    return to_json(message_to_dict(message))


def from_body(body: str) -> BaseMessage:
    """Return the message of a row.

    Raises:
        CorruptStoreError: When the text is no message of a known type.
    """
    try:
        return messages_from_dict([dict(from_json(body))])[0]
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptStoreError(f"A stored message cannot be read: {error}") from error


def to_json(value: Any) -> str:
    """Return JSON text that reads back exactly; what JSON cannot say is kept as text.

    Written by the standard library: faster ones change integers over 64 bits and infinities.
    """
    try:
        text = json.dumps(value, default=_plain, ensure_ascii=False)
    except (TypeError, ValueError):  # keys that are no text, circles
        text = json.dumps(_tree(value, ()), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates, which no database takes
        return json.dumps(json.loads(text))
    return text


def from_json(text: str) -> Any:
    """Return what `to_json` was given."""
    return json.loads(text)


def _tree(value: Any, above: tuple[int, ...]) -> Any:
    """Return a copy made of plain data alone; a circle ends in a text."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if id(value) in above:
        return "..."
    inner = (*above, id(value))
    if isinstance(value, Mapping):
        return {str(key): _tree(item, inner) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_tree(item, inner) for item in value]
    return _tree(_plain(value), inner)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    logger.warning(
        "A %s inside a message is no plain data; its text form is stored.", type(value).__name__
    )
    return repr(value)
