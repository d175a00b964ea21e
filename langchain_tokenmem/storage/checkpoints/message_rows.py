"""Rows of messages outside of the transcript, and of long lists of references.

References are stored as ranges: a chat of any length is one of them. A list that does not come
down to a few is cut into chunks, each stored once by what it says, so that a longer list shares
all but the last with the shorter one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import BindParameter, bindparam, insert, select, update

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Transaction
from langchain_tokenmem.storage.checkpoints.namespaces import Namespace
from langchain_tokenmem.storage.checkpoints.shapes import from_ranges, to_ranges
from langchain_tokenmem.storage.checkpoints.tables import SEALED, thread_messages
from langchain_tokenmem.storage.checkpoints.thread_sessions import (
    ThreadSession,
    read_thread_session,
    save_thread_session,
)
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.transcripts.message_rows import chunks
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find

_LONGEST = 512
"""Characters of ranges that stand in a checkpoint; more are cut into chunks."""

_CHUNK = 256
"""References in a chunk."""

_SHORTEST = 48
"""Characters of a chunk that is worth a row of its own."""

_HERE = thread_messages.c.session_number == bindparam("b_session")
_WANTED: BindParameter[Any] = bindparam("wanted", expanding=True)
_INSERT = Statement(insert(thread_messages))
_MOVE = Statement(
    update(thread_messages).where(_HERE, thread_messages.c.message_number == bindparam("b_number"))
)
_BY_DIGEST = Statement(select(thread_messages).where(_HERE, thread_messages.c.digest.in_(_WANTED)))
_IS_WANTED = thread_messages.c.message_number.in_(_WANTED)
_BY_NUMBER = Statement(select(thread_messages).where(_HERE, _IS_WANTED))
_NUMBERS = Statement(select(thread_messages.c.message_number).where(_HERE, _IS_WANTED))


def chunk_numbers(refs: str) -> list[int]:
    """Return the numbers of the chunks in stored references."""
    if "#" not in refs:
        return []
    return [int(part[1:]) for part in refs.split(",") if part.startswith("#")]


@dataclass
class MessageRows:
    """The rows of messages of one session, in one transaction.

    Attributes:
        tx: The transaction.
        namespace: Whose messages they are.
        transcript: The row of their transcript as the transaction read or wrote it last.
        after_commit: Calls that cache messages once the transaction is committed.
    """

    tx: Transaction
    namespace: Namespace
    transcript: SessionRow | None = None
    after_commit: list[Callable[[], None]] = field(default_factory=list)
    _session: ThreadSession | None = None
    _added: list[dict[str, Any]] = field(default_factory=list)

    def by_digest(self, digests: Sequence[bytes]) -> dict[bytes, dict[str, Any]]:
        """Return the rows with these digests that there are, checked."""
        return {row["digest"]: row for row in self._checked(_BY_DIGEST, digests)}

    def by_number(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return rows by number, checked.

        Raises:
            CorruptStoreError: When one is damaged or missing.
        """
        found = self._checked(_BY_NUMBER, numbers)
        if {row["message_number"] for row in found} != set(numbers):
            raise CorruptStoreError(
                f"{len(set(numbers))} messages should be there, {len(found)} were found"
            )
        return found

    def those_there(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return the rows with these numbers that there are, checked."""
        return self._checked(_BY_NUMBER, numbers)

    def _checked(self, statement: Statement, wanted: Sequence[Any]) -> list[dict[str, Any]]:
        return [
            self.tx.codec.unsealed(thread_messages, row) for row in self._rows(statement, wanted)
        ]

    def _rows(self, statement: Statement, wanted: Sequence[Any]) -> list[Mapping[Any, Any]]:
        return [
            row
            for some in chunks(wanted)
            for row in statement.all(
                self.tx.connection, {"b_session": self.namespace.session_number, "wanted": [*some]}
            )
        ]

    def are_there(self, numbers: Sequence[int]) -> bool:
        """Return whether rows are still there: retention may have removed them."""
        return len(self._rows(_NUMBERS, sorted(set(numbers)))) == len(set(numbers))

    def find_transcript(self) -> SessionRow | None:
        """Return the row of the transcript, which is read once; None when there is none."""
        if self.transcript is None:
            self.transcript = find(self.tx.connection, self.namespace.session_id, None)
        return self.transcript

    def lock(self) -> ThreadSession:
        """Return the session, locked until the transaction ends.

        Whoever needs its transcript, too, locks this first: two runs of a sub-graph share both, and
        would wait for one another.
        """
        if self._session is None:
            self._session = read_thread_session(
                self.tx, self.namespace.thread_id, self.namespace.session_number
            )
        return self._session

    def add(self, digest: bytes, seq: int | None, message: bytes | None) -> dict[str, Any]:
        """Add a row, which `flush` writes, and return it with its number."""
        session = self.lock()
        number = session.last_message_number + 1
        self._session = replace(session, last_message_number=number)
        columns = (self.namespace.session_number, number, digest, seq, message)
        row = dict(zip(SEALED[thread_messages.name], columns, strict=True))
        self._added.append(self.tx.codec.sealed(row))
        return row

    def flush(self) -> None:
        """Write the rows that were added."""
        if self._session is not None and self._added:
            _INSERT.run_all(self.tx.connection, self._added)
            save_thread_session(self.tx, self._session)
            self._added = []

    def move(self, row: Mapping[str, Any], seq: int, proof: bytes | None) -> dict[str, Any]:
        """Let the transcript hold the message of a row, and return the row as it is then."""
        moved = {**row, "transcript_seq": seq, "message": proof}
        sealed = self.tx.codec.sealed(moved)
        changed = {name: sealed[name] for name in ("transcript_seq", "message", "seal")}
        names = {"b_session": self.namespace.session_number, "b_number": row["message_number"]}
        _MOVE.run(self.tx.connection, {**changed, **names})
        return moved

    def write_ranges(self, ranges: str) -> str:
        """Return ranges of references as they are stored: with `#` and a number for a chunk."""
        if len(ranges) <= _LONGEST:
            return ranges
        references = from_ranges(ranges)
        starts = range(0, len(references), _CHUNK)
        parts = [to_ranges(references[start : start + _CHUNK]) for start in starts]
        digests = {
            text: self.tx.codec.text_digest(text)
            for text in parts[: len(references) // _CHUNK]
            if len(text) >= _SHORTEST
        }
        rows = self.by_digest(sorted(digests.values()))
        for text, digest in digests.items():
            if digest not in rows:
                rows[digest] = self.add(digest, None, self.tx.codec.pack(text))
        self.flush()
        names = {text: f"#{rows[digest]['message_number']}" for text, digest in digests.items()}
        return ",".join(names.get(text, text) for text in parts)

    def read_references(self, refs: str) -> list[int]:
        """Return the references in the ranges that `write_ranges` was given.

        Raises:
            CorruptStoreError: When a chunk of them is damaged or missing.
        """
        numbers = chunk_numbers(refs)
        if not numbers:
            return from_ranges(refs)
        texts = {
            f"#{row['message_number']}": str(self.tx.codec.unpack(row["message"]))
            for row in self.by_number(sorted(set(numbers)))
        }
        return from_ranges(",".join(texts.get(part, part) for part in refs.split(",")))
