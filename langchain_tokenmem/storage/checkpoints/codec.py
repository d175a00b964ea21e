"""Values as bytes: LangGraph's serializer, held strictly, and the seal of a row."""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from sqlalchemy import Connection, Table

from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.checkpoints.serializer import advice
from langchain_tokenmem.storage.checkpoints.tables import SEALED
from langchain_tokenmem.storage.database.json_values import to_json
from langchain_tokenmem.storage.transcripts.encoded_message import as_bytes

_KINDS = frozenset({"null", "bytes", "bytearray", "msgpack"})
"""Kinds that LangGraph's serializer writes; any other one was put there by somebody else."""

_SMALLEST = 96
"""Bytes below which compression never pays."""

_COMPRESSED = frozenset({b"Z", b"z"})
"""First byte of what is compressed, with its length before it or, in older rows, without."""

_LENGTH_BYTES = 8
"""Bytes of that length."""

_LONGEST_UNKNOWN = 1 << 28
"""Bytes that a row without length may come to: 256 MB."""

_SHORT = 4_096
"""Bytes that a window of 12 bits holds."""

_BLOCKED = frozenset({"msgpack_blocked", "msgpack_method_blocked"})
"""Events of LangGraph's serializer: it gave raw data in place of a type that is not allowed."""


class Codec:
    """Turns values into bytes and back, and seals rows.

    Args:
        serde: LangGraph's serializer, plain or encrypting, or another one.
        key: Secret of the seals; None makes them checksums, which show damage and no forgery.

    Raises:
        ConfigurationError: When the serializer falls back to pickle.
    """

    def __init__(self, serde: SerializerProtocol, key: bytes | None) -> None:
        inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
        if getattr(inner, "pickle_fallback", False):
            raise ConfigurationError(
                "A serializer with pickle_fallback runs code that stands in the database; give "
                "one without it, and name your types in allowed_types."
            )
        self.serde = serde
        self.is_keyed = key is not None
        self.is_plain = isinstance(serde, JsonPlusSerializer)
        self._seal = hashlib.blake2b(digest_size=16, key=key or b"", person=b"tokenmem-row")
        # A plain digest of an encrypted message would tell what it says to who guesses it.
        secret = key or (b"" if self.is_plain else os.urandom(32))
        self._digest = hashlib.blake2b(digest_size=16, key=secret, person=b"tokenmem-message")
        self._words = JsonPlusSerializer()

    def seal(self, values: Iterable[Any]) -> bytes:
        """Return 16 bytes (BLAKE2b, keyed if there is a key) over the columns of a row."""
        digest = self._seal.copy()
        digest.update(as_bytes(values))
        return digest.digest()

    def sealed(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of a row with their seal."""
        return {**columns, "seal": self.seal(columns.values())}

    def is_sealed(self, table: Table, row: Mapping[Any, Any]) -> bool:
        """Return whether the seal of a row fits its columns."""
        seal: bytes = row["seal"]
        return self.seal(row[name] for name in SEALED[table.name]) == seal

    def unsealed(self, table: Table, row: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the columns of a row that its seal is over.

        Raises:
            CorruptStoreError: When the seal does not fit them.
        """
        if not self.is_sealed(table, row):
            raise CorruptStoreError("a row is damaged, or sealed with another key")
        return {name: row[name] for name in SEALED[table.name]}

    def digest(self, message: BaseMessage) -> bytes:
        """Return 16 bytes that name a message with all its fields."""
        try:
            _, data = self._words.dumps_typed(message)
        except (TypeError, ValueError, RecursionError) as error:
            raise unstorable(f"Message {message.id}", error) from error
        # Msgpack loses lone surrogates, JSON the difference between bytes and their base64 form.
        text, _ = to_json({**message.__dict__, **(message.model_extra or {})})
        digest = self._digest.copy()
        digest.update(text.encode() + data)
        return digest.digest()

    def text_digest(self, text: str) -> bytes:
        """Return 16 bytes that name a text of references."""
        digest = self._digest.copy()
        digest.update(b"references:" + text.encode())
        return digest.digest()

    def pack(self, value: Any, what: str = "A value of the state") -> bytes:
        """Return a value as bytes, compressed when that pays.

        Args:
            value: The value.
            what: Names it in errors, such as "Channel 'plan'".

        Raises:
            ConfigurationError: When the serializer cannot write it.
        """
        try:
            kind, data = self.serde.dumps_typed(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise unstorable(what, error) from error
        head = kind.encode() + b"\0"
        if len(data) >= _SMALLEST:
            small = _compressed(data)
            if len(small) < len(data) * 0.9:
                return b"Z" + head + len(data).to_bytes(_LENGTH_BYTES, "big") + small
        return b"-" + head + data

    def unpack(self, packed: bytes) -> Any:
        """Return the value that was packed.

        Raises:
            CorruptStoreError: When it cannot be read, is not sealed as this serializer seals, or
                names a type that is not allowed.
        """
        kind, _, data = packed[1:].partition(b"\0")
        name = kind.decode("ascii", "replace")
        if isinstance(self.serde, EncryptedSerializer) and "+" not in name:
            raise CorruptStoreError("a row is not encrypted, and this saver encrypts")
        if name.partition("+")[0] not in _KINDS and isinstance(
            self.serde, (EncryptedSerializer, JsonPlusSerializer)
        ):
            raise CorruptStoreError(f"a row has the unknown form {name!r}")
        try:
            if packed[:1] in _COMPRESSED:
                data = _decompressed(data, has_length=packed[:1] == b"Z")
            with refused_types() as refused:
                value = self.serde.loads_typed((name, data))
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


@dataclass(frozen=True)
class Transaction:
    """A transaction on the tables of checkpoints.

    Attributes:
        connection: The connection, in the transaction.
        codec: Seals rows and reads their values.
    """

    connection: Connection
    codec: Codec


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


def _decompressed(data: bytes, *, has_length: bool) -> bytes:
    """Return what was compressed; no more of it than its length says is ever made.

    Raises:
        CorruptStoreError: When it is longer, or shorter.
    """
    length = _LONGEST_UNKNOWN
    if has_length:
        length = int.from_bytes(data[:_LENGTH_BYTES], "big")
        data = data[_LENGTH_BYTES:]
    stream = zlib.decompressobj()
    # One byte more shows that there is more.
    plain = stream.decompress(data, length + 1)
    if len(plain) > length or not stream.eof or (has_length and len(plain) != length):
        raise CorruptStoreError("a compressed value is not as long as its row says")
    return plain


def _compressed(data: bytes) -> bytes:
    """Return data as zlib writes it, with no more memory than a short text needs.

    By default it clears 256 kB for each call, which takes six times as long as the work.
    """
    window, memory = (12, 4) if len(data) <= _SHORT else (15, 8)
    made = zlib.compressobj(5, zlib.DEFLATED, window, memory)
    return made.compress(data) + made.flush()


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


def unstorable(what: str, error: Exception) -> ConfigurationError:
    """Return what is raised when something cannot be written down."""
    return ConfigurationError(
        f"{what} cannot be stored in a checkpoint ({error!r:.200}); keep plain data in the state."
    )
