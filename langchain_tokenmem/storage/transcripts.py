"""Messages of a session: appends, with resends and edits, and reads of the shown wordings."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage
from sqlalchemy import Connection, case, func, insert, select, update

from langchain_tokenmem.core.messages import digest_of, groups, marked, marks_of, role_of, unmarked
from langchain_tokenmem.core.thread_names import is_id
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.database import change_with, in_pairs, rows_with
from langchain_tokenmem.storage.message_json import (
    UNDATED,
    EncodedMessage,
    checksum,
    created_at_of,
    decoded_message,
    message_digest,
)
from langchain_tokenmem.storage.sessions import Session
from langchain_tokenmem.storage.tables import messages

logger = logging.getLogger(__name__)

_LONGEST_TURN = 2
"""Messages that may well be repeated with the same content: a question and its answer."""

_LOOK_BACK = 16
"""Rows read before the last ones, to find the call of a result."""


@dataclass(frozen=True)
class TranscriptRow:
    """One message of a transcript, in one wording.

    Attributes:
        seq: Its number in the session; grows by one, and is never reused.
        message: The message as the application gave it.
        created_at: Its time, in UTC.
        was_named: Whether it came with its id.
        is_hidden: Whether it was removed and hidden; then its message is empty.
        is_dated: Whether its time is that of the message; else it was imported without one, and
            the time is that of the import.
        is_shown: Whether this wording is shown.
        number: Number of the wording in the session.
    """

    seq: int
    message: BaseMessage
    created_at: datetime
    was_named: bool = True
    is_hidden: bool = False
    is_dated: bool = True
    is_shown: bool = True
    number: int = field(default=0, compare=False)


_COLUMNS = tuple(
    messages.c[name]
    for name in (
        *("number", "seq", "is_shown", "message_id", "has_own_id", "checksum", "created_at"),
        "message",
    )
)


def visible(rows: Iterable[TranscriptRow]) -> list[TranscriptRow]:
    """Return the shown wordings, without hidden messages."""
    return [row for row in rows if row.is_shown]


def current(rows: Iterable[TranscriptRow]) -> list[TranscriptRow]:
    """Return each message once, in its shown wording, or empty if it is hidden."""
    found = []
    for _, wordings in groupby(rows, key=lambda row: row.seq):
        *_, last = wordings  # the shown one is the last
        if not last.is_shown:
            message = AIMessage("", id=last.message.id)
            last = replace(last, message=message, is_hidden=True)
        found.append(last)
    return found


def with_superseded(rows: Iterable[TranscriptRow]) -> list[TranscriptRow]:
    """Return all wordings; those not shown come first, marked with their version."""
    found = []
    for _, wordings in groupby(rows, key=lambda row: row.seq):
        some = list(wordings)
        versions = {row.number: n for n, row in enumerate(sorted(some, key=lambda r: r.number))}
        found += [
            row
            if row.is_shown
            else replace(row, message=marked(row.message, superseded=versions[row.number]))
            for row in some
        ]
    return found


# --- reading


def read(
    connection: Connection, session: Session, first: int = 1, last: int | None = None
) -> list[TranscriptRow]:
    """Return all wordings of the messages `first` to `last`, in order, the shown one last.

    The first and the last message of the session are the default.

    Raises:
        CorruptStoreError: When a message is damaged or missing.
    """
    first = max(first, session.first_seq)
    last = session.last_seq if last is None else min(last, session.last_seq)
    if first > last:
        return []
    own = (messages.c.session == session.id, messages.c.seq.between(first, last))
    found = _decoded(session, connection.execute(select(*_COLUMNS).where(*own)))
    if {row.seq for row in found} != {*range(first, last + 1)}:
        raise _incomplete(session, f"some of the messages {first} to {last} are missing")
    return found


def read_named(connection: Connection, session: Session, ids: Iterable[str]) -> list[TranscriptRow]:
    """Return all wordings of the messages with these ids that exist, in order."""
    return _decoded(session, _rows_named(connection, session, ids, *_COLUMNS))


def _rows_named(
    connection: Connection, session: Session, ids: Iterable[str], *columns: Any
) -> list[Any]:
    own = (messages.c.session == session.id, messages.c.seq.is_not(None))
    names = {name for name in ids if is_id(name)}
    return rows_with(connection, select(*columns).where(*own), messages.c.message_id, names)


def read_at(connection: Connection, session: Session, seqs: Iterable[int]) -> list[TranscriptRow]:
    """Return all wordings of the messages with these numbers that exist, in order."""
    return read_places(connection, [session], ((session.id, seq) for seq in seqs))[session.id]


def read_places(
    connection: Connection, sessions: Sequence[Session], places: Iterable[tuple[int, int]]
) -> dict[int, list[TranscriptRow]]:
    """Return what `read_at` does for several sessions: by session, for some (session, seq)."""
    wanted, values = in_pairs(connection, messages.c.session, messages.c.seq, places)
    found: dict[int, list[Any]] = {session.id: [] for session in sessions}
    query = select(messages.c.session, *_COLUMNS).where(wanted)
    for row in connection.execute(query, values):
        if row.session in found:
            found[row.session].append(row)
    return {session.id: _decoded(session, found[session.id]) for session in sessions}


def read_last(connection: Connection, session: Session, n: int) -> list[TranscriptRow]:
    """Return the newest `n` messages, and more if they begin in the middle of a group."""
    size = n + _LOOK_BACK
    while True:
        start = max(session.first_seq, session.last_seq - size + 1)
        found = visible(read(connection, session, start))
        if start == session.first_seq or (len(found) >= n and _shows_groups(found, n)):
            break
        size *= 4
    wanted = 0
    for group in reversed(groups([row.message for row in found])):
        if wanted >= n:
            break
        wanted += len(group.messages)
    return found[len(found) - wanted :]


def _shows_groups(rows: Sequence[TranscriptRow], n: int) -> bool:
    """Return whether the groups of the last `n` rows are clear without earlier rows.

    They are clear from the first AI message that follows another role: no later result belongs to a
    call before it.
    """
    roles = [role_of(row.message) for row in rows[: len(rows) - n + 1]]
    return any(one != "ai" and two == "ai" for one, two in pairwise(roles))


def _decoded(session: Session, rows: Iterable[Any]) -> list[TranscriptRow]:
    """Return messages in order; of each, the wordings that are not shown come first."""
    found = [_row(session, row) for row in rows]
    return sorted(found, key=lambda row: (row.seq, row.is_shown, row.number))


def _row(session: Session, found: Any) -> TranscriptRow:
    if found.message is None or checksum(found.message) != found.checksum:
        raise _incomplete(session, f"the row of message {found.seq} is damaged")
    message = decoded_message(found.message)
    return TranscriptRow(
        found.seq,
        unmarked(message, [UNDATED]),
        datetime.fromisoformat(found.created_at),
        bool(found.has_own_id),
        is_dated=UNDATED not in marks_of(message),
        is_shown=bool(found.is_shown),
        number=found.number,
    )


def _incomplete(session: Session, what: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"Session {session.name!r}: {what}. Nothing was returned; restore a backup."
    )


# --- appending


def append(
    connection: Connection,
    session: Session,
    given: Sequence[EncodedMessage],
    now: datetime,
    *,
    only_new: bool = False,
) -> tuple[list[TranscriptRow], list[int]]:
    """Append the new messages of a batch that an application adds.

    A new wording under a known id supersedes the current one; a wording that the message had before
    is a resend.

    Args:
        connection: In a write transaction.
        session: The session as stored.
        given: The messages, oldest first.
        now: Time of messages without one.
        only_new: Append every message with a new id, and change no existing one.

    Returns:
        The new messages, and the numbers of the edited ones; the session is updated, and the caller
        saves it.

    Raises:
        ConfigurationError: When one of them cannot be stored.
    """
    resent = 0 if only_new else _resent(connection, session, [one.stored for one in given])
    new = given[resent:]
    known = wordings_of(connection, session, [one.stored.id for one in new if one.stored.id])
    number, seq = next_number(connection, session), session.last_seq
    rows: list[dict[str, Any]] = []
    added: list[TranscriptRow] = []
    edited: set[int] = set()
    last = {one.stored.id: place for place, one in enumerate(new)}
    for place, one in enumerate(new):
        name, moment = one.stored.id, now
        digest = message_digest(one.stored)
        if name and name in known:
            at, digests = known[name]
            is_new = place == last[name] and digest not in digests  # in a batch the last one counts
            if only_new or not is_new or _is_repeated(connection, session, one):
                continue
            _log_edit(session, one.stored)
            hide(connection, session, [at])
            moment = time_of_message(connection, session, at) or now
            for row in rows:
                if row["seq"] == at:
                    row["is_shown"], moment = 0, datetime.fromisoformat(row["created_at"])
            edited.add(at)
        else:
            seq = at = seq + 1
            if not name:
                name = str(uuid4())
                one = EncodedMessage(one.given, name, created_at=one.created_at)  # noqa: PLW2901
            known[name] = at, set()
        known[name][1].add(digest)
        row = row_of(session, number + len(rows), at, one, moment) | {"digest": digest}
        rows.append(row)
        if at not in edited:
            said = datetime.fromisoformat(row["created_at"])
            has_own_id = bool(one.given.id)
            added.append(TranscriptRow(at, one.stored, said, has_own_id, number=row["number"]))
    if not rows:
        return [], []
    connection.execute(insert(messages), rows)
    newest = max(datetime.fromisoformat(row["created_at"]) for row in rows)
    session.last_seq = seq
    session.note_activity(max(newest, now) if edited else newest)
    session.edits += len(edited)
    new_rows = {row.seq for row in added}
    if edited & new_rows:  # edited within one batch
        added = visible(read_at(connection, session, new_rows))
    return added, sorted(edited - new_rows)


def row_of(
    session: Session, number: int, seq: int, one: EncodedMessage, now: datetime
) -> dict[str, Any]:
    """Return the columns of a wording, except for the digest of all its fields."""
    text, _, text_only = one.encoding
    if text_only:
        logger.warning(
            "Message %s contains %s, which is not plain data: only its text form is stored.",
            one.stored.id,
            ", ".join(sorted(text_only)),
        )
    # The mark with the time is not stored: use the original message.
    moment = one.created_at or created_at_of(one.given, now)
    return {
        "session": session.id,
        "number": number,
        "seq": seq,
        "is_shown": 1,
        "message_id": one.stored.id,
        "has_own_id": int(bool(one.given.id)),
        "content_hash": digest_of(one.stored),
        "checksum": checksum(text),
        "created_at": moment.isoformat(),
        "message": text,
        "exact": None,
    }


def time_of_message(connection: Connection, session: Session, seq: int) -> datetime | None:
    """Return the time of a stored message, which an edit keeps: it changes what was said, not when.

    None if the message is not stored yet.
    """
    own = (messages.c.session == session.id, messages.c.seq == seq)
    query = select(messages.c.created_at).where(*own).order_by(messages.c.number.desc()).limit(1)
    found = connection.execute(query).scalar()
    return None if found is None else datetime.fromisoformat(found)


def wordings_of(
    connection: Connection, session: Session, ids: Iterable[str]
) -> dict[str, tuple[int, set[bytes]]]:
    """Return numbers in the transcript, and digests of all wordings, by id of the message."""
    found: dict[str, tuple[int, set[bytes]]] = {}
    kept = case((messages.c.exact.is_not(None), messages.c.message))
    columns = (messages.c.message_id, messages.c.seq, messages.c.digest, kept)
    for name, seq, digest, text in _rows_named(connection, session, ids, *columns):
        digests = found.setdefault(name, (seq, set()))[1]
        digests.add(bytes(digest))
        if text is not None:  # the transcript has another wording than the checkpoint
            digests.add(message_digest(decoded_message(text)))
    return found


def hashes_of(connection: Connection, session: Session, ids: Iterable[str]) -> dict[str, set[str]]:
    """Return content hashes of all wordings of messages in the transcript, by id."""
    found: dict[str, set[str]] = defaultdict(set)
    columns = (messages.c.message_id, messages.c.content_hash)
    for name, content in _rows_named(connection, session, ids, *columns):
        found[name].add(content)
    return dict(found)


def add_wordings(
    connection: Connection,
    session: Session,
    seq: int,
    wordings: Sequence[tuple[EncodedMessage, bool]],
    now: datetime,
) -> None:
    """Add further wordings to a message that has one.

    Args:
        connection: In a write transaction.
        session: The session.
        seq: The message.
        wordings: The other wordings in order, each with whether it is shown.
        now: Time of wordings without one.
    """
    number = next_number(connection, session)
    rows = [
        row_of(session, number + n, seq, one, now)
        | {"digest": message_digest(one.stored), "is_shown": int(is_shown)}
        for n, (one, is_shown) in enumerate(wordings)
    ]
    if rows:
        connection.execute(insert(messages), rows)


def next_number(connection: Connection, session: Session) -> int:
    """Return the number of the next wording."""
    query = select(func.max(messages.c.number)).where(messages.c.session == session.id)
    return (connection.execute(query).scalar() or 0) + 1


def hide(connection: Connection, session: Session, seqs: Iterable[int]) -> None:
    """Hide all wordings of some messages."""
    own = update(messages).where(messages.c.session == session.id)
    change_with(connection, own.values(is_shown=0), messages.c.seq, seqs)


def show(connection: Connection, session: Session, numbers: Iterable[int]) -> None:
    """Show these wordings instead of other ones of the same messages."""
    chosen = list(numbers)
    own = (messages.c.session == session.id, messages.c.seq.is_not(None))
    seqs = rows_with(connection, select(messages.c.seq).where(*own), messages.c.number, chosen)
    hide(connection, session, [row.seq for row in seqs])
    shown = update(messages).where(*own).values(is_shown=1)
    change_with(connection, shown, messages.c.number, chosen)


def _is_repeated(connection: Connection, session: Session, one: EncodedMessage) -> bool:
    """Return whether a message has nothing new, or is the shortened form from a view."""
    if marks_of(one.given).get("cut"):
        return True
    known = read_named(connection, session, [one.stored.id or ""])
    return any(one.repeats(row.message) for row in known)


def _log_edit(session: Session, message: BaseMessage) -> None:
    # Some model servers give all their answers the same id.
    level = logging.WARNING if role_of(message) == "ai" else logging.INFO
    text = "Session %s: message %s was stored with another wording; the new one supersedes it."
    logger.log(level, text, session.name, message.id)


def _resent(connection: Connection, session: Session, new: Sequence[BaseMessage]) -> int:
    """Return how many of the first messages repeat what the transcript ends with.

    Only messages without an id need this; an id alone identifies a stored message.
    """
    if session.count == 0 or all(message.id for message in new):
        return 0
    most = min(len(new), session.count)
    columns = (messages.c.message_id, messages.c.has_own_id, messages.c.content_hash)
    query = select(*columns).where(
        messages.c.session == session.id,
        messages.c.seq > session.last_seq - most,
        messages.c.is_shown == 1,
    )
    stored = connection.execute(query.order_by(messages.c.seq)).all()
    # A turn of two messages may be repeated with the same content; a longer list, or one that
    # continues, is the transcript sent again.
    repeats = session.count > _LONGEST_TURN or len(new) > session.count > 1
    sizes = {session.count} if repeats and session.count <= most else set()
    # An id is in one place only, so the first one in the list leaves one size possible.
    first = next((index for index, message in enumerate(new) if message.id), None)
    if first is not None:
        ids = [row.message_id for row in stored]
        sizes |= {first + len(ids) - at for at, name in enumerate(ids) if name == new[first].id}
    for size in sorted(sizes, reverse=True):
        if size <= len(stored) and all(map(_is_same, new[:size], stored[len(stored) - size :])):
            return size
    return 0


def _is_same(message: BaseMessage, row: Any) -> bool:
    if message.id:
        return bool(message.id == row.message_id)
    return not row.has_own_id and digest_of(message) == row.content_hash
