"""Values as stored: plain JSON, and values of a state by LangGraph's serializer, held strictly."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import threading
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

import orjson
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.serializer import advice

Serializer = SerializerProtocol
"""LangGraph's protocol of a serializer."""

_DEEPEST = 100
"""Levels of nesting that are walked; a value that contains itself ends here, as text."""

_ODD = " "
"""Begins what the standard library wrote and has to read.

orjson takes integers over 64 bits for floats, and refuses lone surrogates, NaN and infinity.
"""

_LONGEST_INTEGER = 10_000
"""Bits; Python refuses to write integers of more than 4,300 digits."""

# orjson would write these in its own way, and no warning could name their types.
_AS_PLAIN_VALUES = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def to_json(value: Any) -> tuple[str, set[str]]:
    """Return `value` as JSON text, ASCII wherever a database could stumble.

    Pydantic models and dataclasses become objects, bytes an object with their base64 form, tuples
    and sets lists, dates and UUIDs strings, keys strings; anything else its `repr`.

    Returns:
        The text, and the names of the types for which only their `repr` stands.
    """
    try:
        text = orjson.dumps(value, option=_AS_PLAIN_VALUES).decode()
        # NaN and infinity are `null` to orjson, an enum is its value: look before it is stored.
        if json.loads(text) == value:
            return text, set()
    except (TypeError, RecursionError):
        # Lone surrogates, integers over 64 bits, and whatever JSON does not know.
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
            # What a model checks or warns about when it dumps itself is not asked here.
            return _plain({**value.__dict__, **(value.model_extra or {})}, described, depth + 1)
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


_id_of = attrgetter("id")
_fields_of = attrgetter("__class__.__name__", "__dict__", "__pydantic_extra__")

_KINDS = frozenset({"null", "bytes", "bytearray", "msgpack"})
"""Kinds that LangGraph's serializer writes; any other one was put there by somebody else."""

_LENGTH_BYTES = 8

_BLOCKED = frozenset({"msgpack_blocked", "msgpack_method_blocked"})
"""Events of LangGraph's serializer: it gave raw data in place of a type that is not allowed."""

_STRICT = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""Whatever JSON writes like something else is refused, so that no two values look the same."""


class Codec:
    """Turns values into bytes and back.

    Args:
        serde: LangGraph's serializer, plain or encrypting, or another one.

    Attributes:
        is_plain: Whether what it writes can be read by whoever reads the database.
        digest: Returns 16 bytes that name a message with all its fields but its id.

    Raises:
        ConfigurationError: When the serializer falls back to pickle.
    """

    def __init__(self, serde: SerializerProtocol) -> None:
        inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
        if getattr(inner, "pickle_fallback", False):
            raise ConfigurationError(
                "A serializer with pickle_fallback runs code that stands in the database; give "
                "one without it, and name your types in allowed_types."
            )
        self.serde = serde
        self.is_plain = isinstance(serde, JsonPlusSerializer)
        # A plain digest of an encrypted message would tell what it says to who guesses it.
        self._secret = b"" if self.is_plain else os.urandom(32)
        self.digest = partial(message_digest, key=self._secret)

    def hash(
        self, messages: Sequence[BaseMessage], before: hashlib.blake2b | None = None
    ) -> hashlib.blake2b | None:
        """Return a hash of all that messages say, gone on from that of the ones before them.

        None where a message has no id, or holds what JSON cannot say.
        """
        if not all(map(_id_of, messages)):
            return None
        fields = list(map(_fields_of, messages))
        try:
            said = orjson.dumps(fields, option=_STRICT)
        except TypeError:
            return None
        found = before.copy() if before else hashlib.blake2b(digest_size=16, key=self._secret)
        found.update(memoryview(said)[1:-1])
        found.update(b",")
        return found

    def pack(self, value: Any, what: str = "A value of the state") -> bytes:
        """Return a value as bytes, compressed: zlib's own checksum shows damage.

        Args:
            value: The value.
            what: Names it in errors, such as "Channel 'plan'".

        Raises:
            ConfigurationError: When the serializer cannot write it.
        """
        try:
            kind, data = self.serde.dumps_typed(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise _unstorable(what, error) from error
        length = len(data).to_bytes(_LENGTH_BYTES, "big")
        return kind.encode() + b"\0" + length + zlib.compress(data, 5)

    def unpack(self, packed: bytes) -> Any:
        """Return the value that was packed.

        Raises:
            CorruptStoreError: When it cannot be read, is not encrypted as this serializer encrypts,
                or names a type that is not allowed.
        """
        kind, _, data = packed.partition(b"\0")
        name = kind.decode("ascii", "replace")
        if isinstance(self.serde, EncryptedSerializer) and "+" not in name:
            raise CorruptStoreError("a row is not encrypted, and this saver encrypts")
        if name.partition("+")[0] not in _KINDS and isinstance(
            self.serde, (EncryptedSerializer, JsonPlusSerializer)
        ):
            raise CorruptStoreError(f"a row has the unknown form {name!r}")
        try:
            plain = _decompressed(data)
            with refused_types() as refused:
                value = self.serde.loads_typed((name, plain))
        except CorruptStoreError:
            raise
        except Exception as error:  # an application's own cipher may raise anything
            hint = "; give the cipher it was stored with" if name.partition("+")[1] else ""
            raise CorruptStoreError(f"a row cannot be decoded ({error!r:.200}){hint}") from error
        if refused:
            raise RefusedTypeError(refused)
        return value

    def checked(self, packed: bytes, what: str = "A value of the state") -> bytes:
        """Return packed bytes that are sure to be read back.

        Args:
            packed: The bytes.
            what: Names the value in errors.

        Raises:
            ConfigurationError: When they hold a type that is not allowed.
        """
        try:
            self.unpack(packed)
        except RefusedTypeError as error:
            raise ConfigurationError(
                f"{what} could be stored and not be read again: the type {error.types} is not "
                f"allowed to be loaded; {advice(error.refused)}."
            ) from error
        except CorruptStoreError as error:
            raise ConfigurationError(
                f"{what} could be stored and not be read again: {error}. Keep plain data in the "
                f"state."
            ) from error
        return packed


class RefusedTypeError(CorruptStoreError):
    """Stored data names types that are not allowed to be loaded.

    Attributes:
        refused: The types as `module:Class`.
        types: The same as text.
    """

    def __init__(self, refused: Collection[str]) -> None:
        self.refused = refused
        self.types = ", ".join(sorted(refused)).replace(":", ".")
        super().__init__(
            f"the type {self.types} is not allowed to be loaded (one of your own is if its module "
            f"is imported first, as building the graph does, or by allowed_types)"
        )


def message_digest(message: BaseMessage, key: bytes = b"") -> bytes:
    """Return 16 bytes that name a message with all its fields but its id."""
    return hashlib.blake2b(_said(message), digest_size=16, key=key).digest()


def _said(message: BaseMessage) -> bytes:
    """Return all that a message says but its id, as bytes that no other message has."""
    fields = {**message.__dict__, **(message.model_extra or {})}
    del fields["id"]
    plain = [type(message).__name__, {k: v for k, v in fields.items() if v is not None}]
    try:
        data = orjson.dumps(plain, option=_STRICT)
        if b"null" not in data:  # NaN and infinity are `null` to it, too
            return data
    except TypeError:
        pass
    # Msgpack loses lone surrogates, JSON the difference between bytes and their base64 form.
    text = to_json(fields)[0].encode()
    try:
        nameless = message.model_copy(update={"id": None})
        return text + JsonPlusSerializer().dumps_typed(nameless)[1]
    except (TypeError, ValueError, RecursionError):
        return text  # only a transcript can hold it, as this text


def _decompressed(data: bytes) -> bytes:
    """Return what was compressed; no more of it than its length says is ever made.

    Raises:
        CorruptStoreError: When it is longer, or shorter.
    """
    length = int.from_bytes(data[:_LENGTH_BYTES], "big")
    stream = zlib.decompressobj()
    # One byte more shows that there is more.
    plain = stream.decompress(data[_LENGTH_BYTES:], length + 1)
    if len(plain) != length or not stream.eof:
        raise CorruptStoreError("a compressed value is not as long as its row says")
    return plain


@contextmanager
def refused_types(*, in_any_thread: bool = False) -> Iterator[set[str]]:
    """Give the types, as `module:Class`, that the serializer gives raw data in place of.

    Args:
        in_any_thread: Whether other threads count, too: somebody else's saver may read in one.
    """
    here = threading.get_ident()
    refused: set[str] = set()

    def note(event: SerdeEvent) -> None:
        if event["kind"] in _BLOCKED and (in_any_thread or threading.get_ident() == here):
            refused.add(f"{event['module']}:{event['name']}")

    forget = register_serde_event_listener(note)
    try:
        yield refused
    finally:
        forget()


def _unstorable(what: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"{what} cannot be stored in a checkpoint ({error!r:.200}); keep plain data in the state."
    )
