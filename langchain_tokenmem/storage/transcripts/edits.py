"""Edits of messages: the words that stand in the place of what was said first.

A row of `tokenmem_messages` never changes, because checkpoints name it. An edit is a row beside it;
the current one of a message is what every reader of the transcript is shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from langchain_core.messages import AIMessage, BaseMessage
from sqlalchemy import Connection, delete, func, insert, select, update

from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.transcripts.encoded_message import (
    EncodedMessage,
    checksum,
    decoded_message,
)
from langchain_tokenmem.storage.transcripts.message_rows import TranscriptRow, chunks, read_at
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, save
from langchain_tokenmem.storage.transcripts.tables import edits

ORIGINAL = 0
"""Version of the words in `tokenmem_messages`; edits are numbered from 1."""


class EditIndexer(Protocol):
    """Takes other words of messages in the transaction that stores them."""

    def edited(
        self,
        connection: Connection,
        session: SessionRow,
        before: Sequence[TranscriptRow],
        after: Sequence[TranscriptRow],
    ) -> Change:
        """Replace what the index has of messages; return what to tell its listeners."""
        ...


@dataclass(frozen=True)
class MessageEdit:
    """One row of the table.

    Attributes:
        session_key: The session.
        seq: The message.
        version: Number of the edit, from 1.
        is_current: Whether it stands in the message's place.
        created_at: When it was made, in UTC.
        text: The words as JSON; None where the message is hidden.
    """

    session_key: str
    seq: int
    version: int
    is_current: bool
    created_at: str
    text: str | None

    @property
    def message(self) -> BaseMessage | None:
        """The words; None where the message is hidden."""
        return None if self.text is None else decoded_message(self.text)

    def values(self) -> dict[str, Any]:
        """Return the columns, checksum included."""
        columns = {
            "session_key": self.session_key,
            "seq": self.seq,
            "version": self.version,
            "is_current": int(self.is_current),
            "created_at": self.created_at,
            "message": self.text,
        }
        return {**columns, "checksum": checksum(columns.values())}


def read_edits(
    connection: Connection, session: SessionRow, seqs: Sequence[int] | None = None
) -> dict[int, list[MessageEdit]]:
    """Return the edits of some messages, or of all, by number and in order.

    Raises:
        CorruptStoreError: When one is damaged, or any edit of the session is missing.
    """
    if not session.edit_count:
        return {}
    own = edits.c.session_key == session.key
    query = select(edits).where(own).order_by(edits.c.seq, edits.c.version)
    count = connection.execute(select(func.count()).where(own)).scalar_one()
    queries = [query] if seqs is None else [query.where(edits.c.seq.in_(c)) for c in chunks(seqs)]
    found: dict[int, list[MessageEdit]] = defaultdict(list)
    for one in queries:
        for row in connection.execute(one).mappings():
            found[row["seq"]].append(_checked(row, session))
    if count != session.edit_count or any(
        sum(edit.is_current for edit in some) > 1 for some in found.values()
    ):
        raise _damaged(session)
    return dict(found)


def _checked(row: Mapping[Any, Any], session: SessionRow) -> MessageEdit:
    columns = {name: row[name] for name in row if name not in {"message", "checksum"}}
    edit = MessageEdit(**columns, text=row["message"])
    if edit.values() != {**row}:
        raise _damaged(session)
    return edit


def _damaged(session: SessionRow) -> CorruptStoreError:
    return CorruptStoreError(
        f"Session {session.session_id!r}: an edit of its messages is damaged or missing. Nothing "
        f"was returned; restore a backup."
    )


def current_rows(
    connection: Connection, session: SessionRow, rows: Sequence[TranscriptRow]
) -> list[TranscriptRow]:
    """Return rows with their current words; those of a hidden message are empty."""
    if not session.edit_count:
        return list(rows)
    known = read_edits(connection, session, [row.seq for row in rows])
    return [_with_edit(row, _current(known.get(row.seq, ()))) for row in rows]


def visible_rows(
    connection: Connection, session: SessionRow, rows: Sequence[TranscriptRow]
) -> list[TranscriptRow]:
    """Return rows with their current words, without those that are hidden."""
    return [row for row in current_rows(connection, session, rows) if not row.is_hidden]


def rows_with_superseded(
    connection: Connection, session: SessionRow, rows: Sequence[TranscriptRow]
) -> list[TranscriptRow]:
    """Return rows with all of their words: superseded ones first, marked with their version."""
    if not session.edit_count:
        return list(rows)
    known = read_edits(connection, session, [row.seq for row in rows])
    found: list[TranscriptRow] = []
    for row in rows:
        current = _current(known.get(row.seq, ()))
        said = {ORIGINAL: row.message} | {
            edit.version: message for edit in known.get(row.seq, ()) if (message := edit.message)
        }
        shown = ORIGINAL if current is None else current.version
        found += [
            replace(row, message=marked(message, superseded=version))
            for version, message in said.items()
            if version != shown
        ]
        found += [replace(row, message=said[shown])] if shown in said else []
    return found


def _current(known: Iterable[MessageEdit]) -> MessageEdit | None:
    return next((edit for edit in known if edit.is_current), None)


def _with_edit(row: TranscriptRow, edit: MessageEdit | None) -> TranscriptRow:
    if edit is None:
        return row
    message = edit.message
    if message is None:
        return replace(row, message=AIMessage("", id=row.message.id), is_hidden=True)
    return replace(row, message=message)


def new_words(
    connection: Connection, session: SessionRow, given: Mapping[int, EncodedMessage]
) -> dict[int, EncodedMessage | None]:
    """Return those of the words that a message never had; others are a resend."""
    known = read_edits(connection, session, list(given))
    found: dict[int, EncodedMessage | None] = {}
    for row in read_at(connection, session, sorted(given)):
        before = [row.message, *(edit.message for edit in known.get(row.seq, ()))]
        if not any(one is not None and given[row.seq].repeats(one) for one in before):
            found[row.seq] = given[row.seq]
    return found


def set_words(
    connection: Connection,
    index: EditIndexer,
    session: SessionRow,
    wanted: Mapping[int, EncodedMessage | None],
    now: datetime,
) -> Change | None:
    """Let messages say other words from now on, and index these in the same transaction.

    Args:
        connection: In a transaction that writes.
        index: Takes the words.
        session: The session's row as it is stored.
        wanted: The words by the message's number, such as the original ones; None hides it.
        now: Time of the edits.

    Returns:
        What to tell the index's listeners after the commit; None when nothing changed.
    """
    rows = read_at(connection, session, sorted(wanted))
    known = read_edits(connection, session, sorted(wanted))
    added: list[MessageEdit] = []
    before: list[TranscriptRow] = []
    after: list[TranscriptRow] = []
    for row in rows:
        versions = known.get(row.seq, [])
        shown = _current(versions)
        edit = _edit_for(session, row, versions, wanted[row.seq], now)
        if edit == shown or (edit is not None and shown and edit.version == shown.version):
            continue
        if shown is not None:
            _save(connection, replace(shown, is_current=False))
        if edit is not None and edit in versions:
            _save(connection, replace(edit, is_current=True))
        elif edit is not None:
            added.append(edit)
        before.append(_with_edit(row, shown))
        after.append(_with_edit(row, edit))
    insert_edits(connection, session, added)
    return index.edited(connection, session, before, after) if after else None


def _edit_for(
    session: SessionRow,
    row: TranscriptRow,
    versions: Sequence[MessageEdit],
    words: EncodedMessage | None,
    now: datetime,
) -> MessageEdit | None:
    """Return the edit that says these words, a new one if need be; None for the original ones."""
    message = None if words is None else words.encoding.decoded
    if message is not None and message == row.message:
        return None
    known = next((edit for edit in versions if edit.message == message), None)
    text = None if words is None else words.encoding.json
    number = max((edit.version for edit in versions), default=ORIGINAL) + 1
    made_at = now.isoformat()
    return known or MessageEdit(session.key, row.seq, number, True, made_at, text)


def _save(connection: Connection, edit: MessageEdit) -> None:
    own = (
        edits.c.session_key == edit.session_key,
        edits.c.seq == edit.seq,
        edits.c.version == edit.version,
    )
    connection.execute(update(edits).where(*own).values(**edit.values()))


def insert_edits(connection: Connection, session: SessionRow, new: Sequence[MessageEdit]) -> None:
    """Insert edits, and count them in the row of their session."""
    if new:
        connection.execute(insert(edits), [edit.values() for edit in new])
        save(connection, replace(session, edit_count=session.edit_count + len(new)))


def delete_edits(connection: Connection, session_key: str) -> None:
    """Delete the edits of a session; its row still counts them."""
    connection.execute(delete(edits).where(edits.c.session_key == session_key))


def copy_edits(
    connection: Connection,
    index: EditIndexer,
    session: SessionRow,
    rows: Sequence[TranscriptRow],
    given: Mapping[int, Sequence[MessageEdit]],
) -> Change | None:
    """Give a copied transcript the edits of its source, where it has none of its own.

    Args:
        connection: In a transaction that writes.
        index: Takes the words.
        session: The row of the copy.
        rows: Messages of the copy.
        given: The edits of the source, by numbers of the copy.
    """
    there = read_edits(connection, session, sorted(given))
    new = {
        seq: [replace(edit, session_key=session.key, seq=seq) for edit in some]
        for seq, some in given.items()
        if seq not in there
    }
    insert_edits(connection, session, [edit for some in new.values() for edit in some])
    before = [row for row in rows if _current(new.get(row.seq, ()))]
    after = [_with_edit(row, _current(new[row.seq])) for row in before]
    return index.edited(connection, session, before, after) if after else None
