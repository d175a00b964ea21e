"""Encodes state values with LangGraph's serializer, and separates the messages in them."""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Any

import orjson
from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Overwrite, Send

from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.message_json import STRICT, message_digest
from langchain_tokenmem.storage.serializer import StateSerializer, advice

Serializer = SerializerProtocol
"""LangGraph's protocol of a serializer."""

_id_of = attrgetter("id")
_fields_of = attrgetter("__class__.__name__", "__dict__", "__pydantic_extra__")

_KINDS = frozenset({"null", "bytes", "bytearray", "msgpack"})
"""Types of data that LangGraph's serializer writes; any other was not written by it."""

_LENGTH_BYTES = 8

_BLOCKED = frozenset({"msgpack_blocked", "msgpack_method_blocked"})
"""Events of LangGraph's serializer: it returned raw data instead of a type that is not allowed."""


class Codec:
    """Turns values into bytes and back.

    Args:
        serde: LangGraph's serializer, plain or encrypting, or another one; default: ours.

    Attributes:
        is_plain: Whether its output is not encrypted.
        digest: Returns a 16-byte digest of all fields of a message except its id.

    Raises:
        ConfigurationError: When the serializer falls back to pickle.
    """

    def __init__(self, serde: SerializerProtocol | None = None) -> None:
        serde = serde or StateSerializer()
        inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
        if getattr(inner, "pickle_fallback", False):
            raise ConfigurationError(
                "A serializer with pickle_fallback runs code stored in the database; pass one "
                "without it, and name your types in allowed_types."
            )
        self.serde = serde
        self.is_plain = isinstance(serde, JsonPlusSerializer)
        # A plain digest of an encrypted message would let a reader confirm a guess of its content.
        self._secret = b"" if self.is_plain else os.urandom(32)
        self.digest = partial(message_digest, key=self._secret)

    def hash(
        self, messages: Sequence[BaseMessage], before: hashlib.blake2b | None = None
    ) -> hashlib.blake2b | None:
        """Return a hash of the content of messages, continued from that of earlier messages.

        None if a message has no id, or content that JSON cannot represent.
        """
        if not all(map(_id_of, messages)):
            return None
        fields = list(map(_fields_of, messages))
        try:
            encoded = orjson.dumps(fields, option=STRICT)
        except TypeError:
            return None
        found = before.copy() if before else hashlib.blake2b(digest_size=16, key=self._secret)
        found.update(memoryview(encoded)[1:-1])
        found.update(b",")
        return found

    def pack(self, value: Any, what: str = "A value of the state") -> bytes:
        """Return a value as compressed bytes: zlib's checksum detects damage.

        Args:
            value: The value.
            what: Its name in errors, such as "Channel 'plan'".

        Raises:
            ConfigurationError: When the serializer cannot write it.
        """
        try:
            kind, data = self.serde.dumps_typed(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"{what} cannot be stored in a checkpoint ({error!r:.200}); keep plain data in the "
                f"state."
            ) from error
        length = len(data).to_bytes(_LENGTH_BYTES, "big")
        return kind.encode() + b"\0" + length + zlib.compress(data, 5)

    def unpack(self, packed: bytes) -> Any:
        """Return the value that was packed.

        Raises:
            CorruptStoreError: When it cannot be read, is not encrypted by this serializer, or names
                a type that is not allowed.
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

    def copied(self, message: BaseMessage) -> BaseMessage:
        """Return a copy of a message that no one else can change."""
        try:
            return message.model_copy(deep=True)
        except (TypeError, ValueError, RecursionError):
            what = f"Message {message.id}"
            copy: BaseMessage = self.unpack(self.checked(message, what))
            return copy

    def checked(self, value: Any, what: str) -> bytes:
        """Return a value as `pack` does, after checking that it can be read back.

        Args:
            value: The value.
            what: Its name in errors.

        Raises:
            ConfigurationError: When it cannot be written, or has a type that is not allowed.
        """
        packed = self.pack(value, what)
        try:
            self.unpack(packed)
        except RefusedTypeError as error:
            raise ConfigurationError(
                f"{what} could be stored but not read back: the type {error.types} is not "
                f"allowed to be loaded; {advice(error.refused)}."
            ) from error
        except CorruptStoreError as error:
            raise ConfigurationError(
                f"{what} could be stored but not read back: {error}. Keep plain data in the state."
            ) from error
        return packed


class RefusedTypeError(CorruptStoreError):
    """Stored data names types that are not allowed to be loaded.

    Attributes:
        refused: The types as `module:Class`.
        types: The same, as text.
    """

    def __init__(self, refused: Collection[str]) -> None:
        self.refused = refused
        self.types = ", ".join(sorted(refused)).replace(":", ".")
        super().__init__(
            f"the type {self.types} is not allowed to be loaded (your own types are if their "
            f"module is imported first, as building the graph does, or by allowed_types)"
        )


def _decompressed(data: bytes) -> bytes:
    """Return the decompressed data, reading no more of it than its recorded length.

    Raises:
        CorruptStoreError: When it is longer or shorter.
    """
    length = int.from_bytes(data[:_LENGTH_BYTES], "big")
    stream = zlib.decompressobj()
    # One more byte shows whether it is too long.
    plain = stream.decompress(data[_LENGTH_BYTES:], length + 1)
    if len(plain) != length or not stream.eof:
        raise CorruptStoreError("a compressed value is not as long as its row says")
    return plain


@contextmanager
def refused_types(*, in_any_thread: bool = False) -> Iterator[set[str]]:
    """Yield a set of the types, as `module:Class`, that the serializer replaces with raw data.

    Args:
        in_any_thread: Whether to include other threads: a third-party saver may read in one.
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


# --- separating messages from a value, and putting them back

MARK = "\x00tokenmem"
"""Key of the object that stands for messages: `{mark: 3}` for one, `{mark: [3, 9]}` for a list."""

LOOKED_INTO = (_DeltaSnapshot, Overwrite, Send)
"""LangGraph objects that may contain messages."""

NAMED = (Interrupt,)
"""LangGraph objects that an application refers to by their `id`."""

_PLAIN = frozenset({type(None), bool, int, float, str})


class MarkTakenError(Exception):
    """A value contains the mark itself."""


def detach(value: Any, found: list[BaseMessage]) -> Any:
    """Return a value with marks in place of its messages, which are added to `found` in order.

    Lists, tuples, dicts, `Send`, `Overwrite` and the snapshots of delta channels are searched and
    copied: a node may change its state meanwhile, and what is checked must be what is stored.
    Messages inside other objects stay there. The value itself is not changed.

    Raises:
        MarkTakenError: When it contains the mark.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in {list, tuple}:
        items = [*value]  # first: the copy is fast to check, and no one changes it
        if items and all(map(_is_message, set(map(type, items)))):
            found += items
            return {MARK: [len(found) - len(items), len(found)]}
    if kind is dict and MARK in value:
        raise MarkTakenError
    if _is_message(kind):
        found.append(value)
        return {MARK: len(found) - 1}
    return mapped(value, lambda item: detach(item, found))


def is_mark(value: dict[Any, Any]) -> bool:
    """Return whether a dict is a mark of `detach`."""
    return value.keys() == {MARK} and type(value[MARK]) in {int, list}


def attach(shape: Any, messages: Sequence[BaseMessage]) -> Any:
    """Return the value that `detach` was given; without messages, it contains no marks."""
    if not messages:
        return shape
    if type(shape) is dict and MARK in shape:
        mark = shape[MARK]
        return messages[mark] if isinstance(mark, int) else list(messages[mark[0] : mark[1]])
    return mapped(shape, lambda item: attach(item, messages))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a container with `change` applied to each value in it; anything else as it is.

    Containers are lists, tuples, dicts, `Send`, `Overwrite` and the snapshots of delta channels.
    """
    kind = type(value)
    if kind in {list, tuple}:
        return kind([change(item) for item in [*value]])
    if kind is dict:
        return {key: change(item) for key, item in value.copy().items()}
    if kind in {_DeltaSnapshot, Overwrite}:
        return kind(change(value.value))
    if kind is Send:
        return Send(value.node, change(value.arg), timeout=value.timeout)
    return value


def _is_message(kind: type) -> bool:
    # RemoveMessage is not a message of the thread.
    return issubclass(kind, BaseMessage) and not issubclass(kind, RemoveMessage)


def is_plain(value: Any) -> bool:
    """Return whether a value contains only JSON types and bytes, not nested too deeply."""
    kind = type(value)
    try:
        if kind in {list, tuple}:
            return all(map(is_plain, value))
        if kind is dict:
            return all(type(key) in _PLAIN and is_plain(item) for key, item in value.items())
    except RecursionError:  # the serializer reports what is wrong with it
        return False
    return kind in _PLAIN or kind is bytes
