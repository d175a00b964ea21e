"""The values of channels on their way into the store.

Small ones stand in the row of their checkpoint, large ones apart; those that did not change are
taken over from the parent as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.known import Found
from langchain_tokenmem.storage.checkpoints.large import Blob, insert_blob
from langchain_tokenmem.storage.checkpoints.memory import Lessons
from langchain_tokenmem.storage.checkpoints.messages import Messages
from langchain_tokenmem.storage.checkpoints.records import Draft
from langchain_tokenmem.storage.checkpoints.rows import Inline, Stored
from langchain_tokenmem.storage.checkpoints.shapes import detach, is_bare, is_plain
from langchain_tokenmem.storage.checkpoints.spaces import Space

_SMALL = 256
"""Bytes up to which a value stands in the row of its checkpoint."""


@dataclass(frozen=True)
class Value:
    """A value made ready outside of the transaction.

    Attributes:
        shape: The value with marks in place of its messages.
        messages: The messages, and what is known of them.
        packed: The shape as bytes; None where it is small and plain.
    """

    shape: Any
    messages: Found
    packed: bytes | None


class Values:
    """Stores the values of checkpoints.

    Args:
        codec: Writes what is no message.
        messages: Keeps the messages.
        main_channel: The channel whose messages are the thread's transcript; None for none.
    """

    def __init__(self, codec: Codec, messages: Messages, main_channel: str | None) -> None:
        self._codec = codec
        self._messages = messages
        self._main = main_channel

    def fill(
        self,
        connection: Connection,
        space: Space,
        draft: Draft,
        stored: Stored,
        parent: Stored | None,
        values: Mapping[str, Value],
        lessons: Lessons,
    ) -> Space:
        """Give a checkpoint its values: the new ones stored, the others as its parent has them."""
        now = _moment(draft.checkpoint.get("ts"))
        given = draft.checkpoint["channel_values"]
        before = parent.fields.get("channel_versions", {}) if parent else {}
        for name, version in draft.checkpoint.get("channel_versions", {}).items():
            value = values.get(name)
            if name not in draft.new_versions:
                if parent and before.get(name) == version:
                    if name in parent.inline:
                        stored.inline[name] = parent.inline[name]
                        continue
                    if name in parent.large:
                        stored.large[name] = parent.large[name]
                        continue
                value = self.ready(space.session_id, name, given[name]) if name in given else None
            if value is None:
                continue
            refs = self._messages.references(
                connection,
                space,
                value.messages,
                now=now,
                is_main=name == self._main,
                lessons=lessons,
                user_id=draft.user_id,
            )
            if value.packed is None:
                stored.inline[name] = Inline(refs, value.shape)
            else:
                space = replace(space, last_blob=space.last_blob + 1)
                blob = Blob(refs, value.packed)
                insert_blob(connection, self._codec, space.space_id, space.last_blob, blob)
                stored.large[name] = space.last_blob
        return space

    def ready(self, session_id: str, name: str, value: Any) -> Value:
        """Return the value of a channel with its messages taken out, packed unless it is small.

        Raises:
            ConfigurationError: When it could not be read again.
        """
        shape, messages = detach(value)
        found = self._messages.known(session_id, messages, is_main=name == self._main)
        if is_bare(shape, messages):  # as nearly always: not written only to see how long it is
            return Value(shape, found, None)
        plain = is_plain(shape)
        packed = self._codec.pack(shape)
        if plain and len(packed) <= _SMALL:
            return Value(shape, found, None)
        return Value(shape, found, packed if plain else self._codec.checked(packed))

    def written(self, session_id: str, value: Any) -> tuple[Any, Found]:
        """Return the shape of a pending write, and its messages.

        Raises:
            ConfigurationError: When it could not be read again.
        """
        shape, messages = detach(value)
        if not is_plain(shape):
            # As it is read back: an object could say something else until it is written.
            shape = self._codec.unpack(self._codec.checked(self._codec.pack(shape)))
        return shape, self._messages.known(session_id, messages, is_main=False)


def _moment(told: Any) -> datetime:
    """Return the time of a checkpoint; the current one when it tells none."""
    try:
        moment = datetime.fromisoformat(str(told))
    except ValueError:
        return datetime.now(UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
