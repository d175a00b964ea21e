"""Messages by reference: found again or stored, once each, and read back.

A reference above zero is the number of a message in the transcript of the session, one below zero
the (negated) number of a row of contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.breath import AT_A_STRETCH, breathe
from langchain_tokenmem.storage.checkpoints.codec import Codec, unstorable
from langchain_tokenmem.storage.checkpoints.contents import (
    are_there,
    as_numbers,
    as_text,
    by_number,
    chunks_in,
)
from langchain_tokenmem.storage.checkpoints.copies import Decoded, fresh, prepared
from langchain_tokenmem.storage.checkpoints.known import Found
from langchain_tokenmem.storage.checkpoints.memory import Lesson, Lessons, MessageMemory
from langchain_tokenmem.storage.checkpoints.shapes import to_ranges
from langchain_tokenmem.storage.checkpoints.shelf import Shelf
from langchain_tokenmem.storage.checkpoints.spaces import Space
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.message_rows import read_between
from langchain_tokenmem.storage.transcripts.sessions import find

_GAP = 16
"""Messages that are read along rather than asking twice."""


class Messages:
    """The messages of checkpointed threads.

    Args:
        codec: Writes those that the transcript cannot hold.
        memory: What is remembered of messages.
        index: Takes what is appended to a transcript.
    """

    def __init__(self, codec: Codec, memory: MessageMemory, index: IndexStore) -> None:
        self._index = index
        self._codec = codec
        self._memory = memory

    def known(self, session_id: str, messages: Sequence[BaseMessage], *, is_main: bool) -> Found:
        """Return what is known of messages, for `references`; takes no transaction.

        Args:
            session_id: Names the session.
            messages: The messages.
            is_main: Whether they belong to the channel that is the transcript.
        """
        return self._memory.known(session_id, messages, is_main=is_main)

    def references(
        self,
        connection: Connection,
        space: Space,
        found: Found,
        *,
        now: datetime,
        is_main: bool,
        lessons: Lessons,
        user_id: str | None = None,
    ) -> str:
        """Return where messages are stored, as text; those that are not are stored now.

        Args:
            connection: In a transaction that writes.
            space: Whose messages they are.
            found: The messages, and what is known of them.
            now: Time of messages that bring none.
            is_main: Whether they belong to the channel that is the transcript.
            lessons: Takes what may be remembered once the transaction is committed.
            user_id: Who owns the thread.
        """
        messages = found.messages
        if not messages:
            return ""
        if found.group_id != space.group_id:  # the thread was made anew, or is not known yet
            found = self._memory.known(
                space.session_id, messages, is_main=is_main, group_id=space.group_id
            )
        numbers, hidden = found.references, found.hidden()
        if hidden and not are_there(connection, space.group_id, [-numbers[at] for at in hidden]):
            found.new = sorted({*found.new, *hidden})
        if found.new:
            # What is stored and what is remembered must be one thing, whoever changes the message
            # meanwhile.
            copies = [_own(self._codec, messages[index]) for index in found.new]
            shelf = Shelf(connection, self._codec, space, self._index, user_id)
            fresh = {at for at, index in enumerate(found.new) if 0 < found.fresh_from <= index}
            channel = messages if is_main else None
            placed = shelf.place(copies, now, channel=channel, fresh=fresh)
            for index, one, (number, is_settled) in zip(found.new, copies, placed, strict=True):
                stored = prepared(one)
                found.place(index, stored.fields, number)
                lessons.stored.append(Lesson(stored, number, is_settled))
        lessons.lists.append(found)
        return as_text(connection, self._codec, space, numbers, found.ranges)

    def numbers(self, connection: Connection, space: Space, references: str) -> list[int]:
        """Return the numbers in a text of references.

        Raises:
            CorruptStoreError: When a part of them is damaged or missing.
        """
        return as_numbers(connection, self._codec, space.group_id, references)

    def read(
        self, connection: Connection, space: Space, references: Iterable[int]
    ) -> dict[int, Decoded]:
        """Return messages by reference; only those that are not remembered are read.

        Raises:
            CorruptStoreError: When one is damaged or missing.
        """
        wanted = set(references)
        found = self._memory.remembered(space, wanted)
        missing = wanted - found.keys()
        if missing:
            loaded, settled = self._load(connection, space, missing)
            found.update(self._memory.keep(space, loaded, settled))
        return found

    def learn(self, space: Space, lessons: Lessons) -> None:
        """Remember where messages were stored by a transaction that is committed."""
        self._memory.learn(space, lessons)

    def give(
        self,
        space: Space,
        references: Sequence[int],
        text: str,
        decoded: Mapping[int, Decoded],
        *,
        is_main: bool,
    ) -> list[BaseMessage]:
        """Return copies of messages that `read` has returned; `text` has their references."""
        ranges = to_ranges(references) if chunks_in(text) else text
        return self._memory.give(space, references, ranges, decoded, is_main=is_main)

    def forget(self, session_id: str) -> None:
        """Forget the messages of a deleted session."""
        self._memory.forget(session_id)

    def _load(
        self, connection: Connection, space: Space, references: set[int]
    ) -> tuple[dict[int, BaseMessage], list[int]]:
        """Return messages, and the references of those that the transcript stands behind."""
        found: dict[int, BaseMessage] = {}
        seqs = {number: number for number in references if number > 0}
        proofs: dict[int, bytes | None] = {}
        hidden = sorted(-number for number in references if number < 0)
        for row in by_number(connection, self._codec, space.group_id, hidden):
            if row["seq"] is None:
                found[-row["number"]] = self._codec.unpack(row["body"])
            else:
                seqs[-row["number"]] = row["seq"]
                proofs[row["seq"]] = row["body"]
        if seqs:
            said = _transcript(connection, space, sorted(set(seqs.values())))
            for seq, proof in proofs.items():
                if proof is not None and self._codec.digest(said[seq]) != proof:
                    raise CorruptStoreError(f"message {seq} of the transcript was changed")
            found.update({number: said[seq] for number, seq in seqs.items()})
        return found, [number for number in seqs if number < 0]


def _own(codec: Codec, message: BaseMessage) -> BaseMessage:
    """Return a copy; of a message that cannot be copied, what is read back of it.

    Raises:
        ConfigurationError: When that cannot be copied either, such as a lock.
    """
    try:
        return fresh(message)
    except (TypeError, ValueError, RecursionError) as error:
        packed = codec.checked(codec.pack(message))
        try:
            return fresh(codec.unpack(packed))
        except (TypeError, ValueError, RecursionError):
            raise unstorable(f"Message {message.id}", error) from error


def _transcript(
    connection: Connection, space: Space, seqs: Sequence[int]
) -> dict[int, BaseMessage]:
    session = find(connection, space.session_id, None)
    if session is None:
        raise CorruptStoreError("its transcript is missing")
    found: dict[int, BaseMessage] = {}
    for first, last in _stretches(seqs):
        found.update(
            (row.seq, row.message) for row in read_between(connection, session, first, last)
        )
        breathe()
    return found


def _stretches(seqs: Sequence[int]) -> list[tuple[int, int]]:
    """Return first and last of stretches that hold the numbers, small gaps included."""
    stretches: list[tuple[int, int]] = []
    for seq in seqs:
        first, last = stretches[-1] if stretches else (seq - AT_A_STRETCH, seq - AT_A_STRETCH)
        if seq - last <= _GAP and seq - first < AT_A_STRETCH:
            stretches[-1] = (first, seq)
        else:
            stretches.append((seq, seq))
    return stretches
