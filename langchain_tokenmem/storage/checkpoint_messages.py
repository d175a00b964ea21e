"""Messages by reference: found again or stored, once each, and read back.

A reference above zero is the number of a message in the transcript of the session, one below zero
the (negated) number of a row of contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, bindparam, func, insert, select, update

from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.checkpoint_codec import Codec
from langchain_tokenmem.storage.checkpoint_memory import Decoded, Learned, MessageMemory, fresh
from langchain_tokenmem.storage.checkpoint_names import thread_session
from langchain_tokenmem.storage.checkpoint_rows import SEALED, checked
from langchain_tokenmem.storage.checkpoint_shapes import runs_of, to_ranges
from langchain_tokenmem.storage.checkpoint_spaces import Group, Space, read_group, save_group
from langchain_tokenmem.storage.checkpoint_tables import contents
from langchain_tokenmem.storage.message_rows import append, read_between, read_named
from langchain_tokenmem.storage.plain import to_json
from langchain_tokenmem.storage.rows import as_stored, from_body
from langchain_tokenmem.storage.sessions import find, find_or_make, save

_AT_ONCE = 500
"""Values in one query; old versions of SQLite take 999 variables."""

_NAMES = SEALED[contents.name]


_BY_DIGEST = select(contents).where(
    contents.c.group_id == bindparam("b_group_id"),
    contents.c.digest.in_(bindparam("digests", expanding=True)),
)


class _Placed(NamedTuple):
    """Where a message is, and whether it can no longer move to the transcript."""

    reference: int
    is_settled: bool


class Messages:
    """The messages of checkpointed threads.

    Args:
        codec: Writes those that the transcript cannot hold.
        memory: What is remembered of messages.
    """

    def __init__(self, codec: Codec, memory: MessageMemory) -> None:
        self._codec = codec
        self._memory = memory

    def references(
        self,
        connection: Connection,
        space: Space,
        messages: Sequence[BaseMessage],
        *,
        now: datetime,
        is_main: bool,
        learned: list[Learned],
    ) -> list[int]:
        """Return where messages are stored; those that are not are stored now.

        Args:
            connection: In a transaction that writes.
            space: Whose messages they are.
            messages: The messages.
            now: Time of messages that bring none.
            is_main: Whether they belong to the channel that is the transcript.
            learned: Takes what may be remembered once the transaction is committed.
        """
        if not messages:
            return []
        places = self._memory.known(space.group_id, messages, is_main=is_main)
        if not _are_there(connection, space.group_id, [n for n in places if n and n < 0]):
            places = [n if n and n > 0 else None for n in places]
        new = [index for index, number in enumerate(places) if number is None]
        if new:
            # What is stored and what is remembered must be one thing, whoever changes the message
            # meanwhile.
            copies = [fresh(messages[index]) for index in new]
            shelf = _Shelf(connection, self._codec, space)
            placed = shelf.place(copies, now, is_main=is_main)
            for index, one, (number, is_settled) in zip(new, copies, placed, strict=True):
                places[index] = number
                learned.append(Learned(messages[index], one, number, is_settled))
        return [number for number in places if number is not None]

    def read(
        self, connection: Connection, space: Space, references: Iterable[int]
    ) -> dict[int, Decoded]:
        """Return messages by reference; only those that are not remembered are read.

        Raises:
            CorruptStoreError: When one is damaged or missing.
        """
        wanted = set(references)
        found = self._memory.remembered(space.group_id, wanted)
        missing = wanted - found.keys()
        if missing:
            found.update(self._memory.keep(space.group_id, self._load(connection, space, missing)))
        return found

    def learn(self, space: Space, learned: Sequence[Learned]) -> None:
        """Remember where messages were stored by a transaction that is committed."""
        self._memory.learn(space.group_id, learned)

    def give(
        self, space: Space, references: Sequence[int], decoded: Mapping[int, Decoded]
    ) -> list[BaseMessage]:
        """Return copies of messages that `read` has returned."""
        return self._memory.give(space.group_id, references, decoded)

    def forget(self, group_id: int) -> None:
        """Forget the messages of a deleted session."""
        self._memory.forget(group_id)

    def _load(
        self, connection: Connection, space: Space, references: set[int]
    ) -> dict[int, BaseMessage]:
        found: dict[int, BaseMessage] = {}
        seqs = {number: number for number in references if number > 0}
        proofs: dict[int, bytes | None] = {}
        hidden = sorted(-number for number in references if number < 0)
        for row in self._contents(connection, space, hidden):
            if row["seq"] is None:
                found[-row["number"]] = self._codec.unpack(row["body"])
            else:
                seqs[-row["number"]] = row["seq"]
                proofs[row["seq"]] = row["body"]
        if seqs:
            group = read_group(connection, self._codec, space.thread_id, space.group_id)
            said = _transcript(connection, group, sorted(set(seqs.values())))
            for seq, proof in proofs.items():
                if proof is not None and self._codec.digest(said[seq]) != proof:
                    raise CorruptStoreError(f"message {seq} of the transcript was changed")
            found.update({number: said[seq] for number, seq in seqs.items()})
        return found

    def _contents(
        self, connection: Connection, space: Space, numbers: Sequence[int]
    ) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for first, last in runs_of(to_ranges(numbers)):
            query = select(contents).where(
                contents.c.group_id == space.group_id, contents.c.number.between(first, last)
            )
            rows += [
                checked(self._codec, _NAMES, row) for row in connection.execute(query).mappings()
            ]
        if sorted(row["number"] for row in rows) != list(numbers):
            raise CorruptStoreError(
                f"{len(numbers)} messages should be there, {len(rows)} were found"
            )
        return rows


class _Shelf:
    """Stores the messages of one session in one transaction."""

    def __init__(self, connection: Connection, codec: Codec, space: Space) -> None:
        self._connection = connection
        self._codec = codec
        self._space = space
        self._session_id = thread_session(space.thread_id, space.ns)
        self._added: list[dict[str, Any]] = []
        self._group: Group | None = None

    def place(self, new: Sequence[BaseMessage], now: datetime, *, is_main: bool) -> list[_Placed]:
        """Return where each message is, stored if it was not."""
        digests = [self._codec.digest(message) for message in new]
        rows = self._rows(sorted(set(digests)))
        copies: dict[bytes, BaseMessage | None] = {}
        seqs: dict[bytes, int] = {}
        # What is encrypted in a checkpoint must not stand in clear in the transcript.
        if is_main and self._codec.is_plain:
            waiting = {
                digest: message
                for digest, message in zip(digests, new, strict=True)
                if digest not in rows or rows[digest]["seq"] is None
            }
            copies = {digest: _survivor(message) for digest, message in waiting.items()}
            seqs = self._said(waiting, copies, now)
        placed = []
        for digest, message in zip(digests, new, strict=True):
            if digest in seqs and (digest in rows or self._codec.is_keyed):
                rows[digest] = self._moved(rows.get(digest), digest, seqs[digest], copies[digest])
            elif digest not in rows and digest not in seqs:
                body = self._codec.checked(self._codec.pack(message))
                rows[digest] = self._add(digest, None, body)
            placed.append(self._place_of(rows.get(digest), seqs.get(digest), is_main=is_main))
        self._finish()
        return placed

    def _place_of(
        self, row: Mapping[str, Any] | None, seq: int | None, *, is_main: bool
    ) -> _Placed:
        if row is not None and (self._codec.is_keyed or row["seq"] is None):
            return _Placed(-row["number"], is_settled=is_main or row["seq"] is not None)
        return _Placed(row["seq"] if row is not None else seq or 0, is_settled=True)

    def _rows(self, digests: Sequence[bytes]) -> dict[bytes, dict[str, Any]]:
        found = {}
        for start in range(0, len(digests), _AT_ONCE):
            some = {
                "b_group_id": self._space.group_id,
                "digests": digests[start : start + _AT_ONCE],
            }
            for row in self._connection.execute(_BY_DIGEST, some).mappings():
                found[row["digest"]] = checked(self._codec, _NAMES, row)
        return found

    def _said(
        self,
        waiting: Mapping[bytes, BaseMessage],
        copies: Mapping[bytes, BaseMessage | None],
        now: datetime,
    ) -> dict[bytes, int]:
        """Return the numbers of messages in the transcript; those it lacks are appended."""
        fit = [message for message in waiting.values() if _fits(message)]
        if not fit:
            return {}
        session = find_or_make(self._connection, self._session_id, None)
        added = append(self._connection, session, fit, now, may_differ=True)
        if added:
            save(self._connection, replace(session, last_seq=session.last_seq + len(added)))
        firsts: dict[str | None, BaseMessage] = {}
        for message in fit:
            firsts.setdefault(message.id, message)
        there = {
            name: (seq, firsts[name])
            for seq, name in enumerate(added, session.last_seq + 1)
            if name in firsts
        }
        others = [message.id for message in fit if message.id and message.id not in there]
        if others:
            for row in read_named(self._connection, session, others):
                there[str(row.message.id)] = (row.seq, row.message)
        return {
            digest: there[message.id][0]
            for digest, message in waiting.items()
            if message.id in there
            and copies[digest] is not None
            and there[message.id][1] == copies[digest]
        }

    def _moved(
        self, row: dict[str, Any] | None, digest: bytes, seq: int, stored: BaseMessage | None
    ) -> dict[str, Any]:
        """Let the transcript hold a message, with the proof of what it says if there is a key."""
        proof = self._codec.digest(stored) if stored is not None and self._codec.is_keyed else None
        if row is None:
            return self._add(digest, seq, proof)
        moved = {**row, "seq": seq, "body": proof}
        self._connection.execute(
            update(contents)
            .where(contents.c.group_id == self._space.group_id, contents.c.number == row["number"])
            .values(seq=seq, body=proof, seal=self._codec.seal(moved.values()))
        )
        return moved

    def _add(self, digest: bytes, seq: int | None, body: bytes | None) -> dict[str, Any]:
        if self._group is None:
            self._group = read_group(
                self._connection, self._codec, self._space.thread_id, self._space.group_id
            )
        number = self._group.last_number + 1
        self._group = replace(self._group, last_number=number)
        row = dict(zip(_NAMES, (self._space.group_id, number, digest, seq, body), strict=True))
        self._added.append({**row, "seal": self._codec.seal(row.values())})
        return row

    def _finish(self) -> None:
        if self._group is not None:
            self._connection.execute(insert(contents), self._added)
            save_group(self._connection, self._codec, self._group)


def _are_there(connection: Connection, group_id: int, references: Sequence[int]) -> bool:
    """Return whether rows of contents are still there: retention may have removed them."""
    numbers = sorted({-number for number in references})
    for first, last in runs_of(to_ranges(numbers)):
        query = select(func.count()).where(
            contents.c.group_id == group_id, contents.c.number.between(first, last)
        )
        if connection.execute(query).scalar() != last - first + 1:
            return False
    return True


def _transcript(
    connection: Connection, group: Group, seqs: Sequence[int]
) -> dict[int, BaseMessage]:
    session = find(connection, group.session_id, None)
    if session is None:
        raise CorruptStoreError("its transcript is missing")
    return {
        row.seq: row.message
        for first, last in runs_of(to_ranges(seqs))
        for row in read_between(connection, session, first, last)
    }


def _fits(message: BaseMessage) -> bool:
    """Return whether a transcript takes a message at all."""
    try:
        as_stored(message)
    except ConfigurationError:
        return False
    return True


def _survivor(message: BaseMessage) -> BaseMessage | None:
    """Return what a transcript gives back for a message, if that is the message itself."""
    if not message.id or not _fits(message) or as_stored(message) is not message:
        return None
    text, described = to_json(
        {"type": message.type, "data": {**message.__dict__, **(message.model_extra or {})}}
    )
    if described:
        return None
    try:
        read = from_body(text)
    except CorruptStoreError:
        return None
    return read if type(read) is type(message) and read == message else None
