"""Read methods of a transcript store: messages with the words that are shown."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, select

from langchain_tokenmem.core.messages import marks_of, role_of
from langchain_tokenmem.storage.database.async_wrappers import in_thread
from langchain_tokenmem.storage.transcripts.edits import (
    current_rows,
    rows_with_superseded,
    visible_rows,
)
from langchain_tokenmem.storage.transcripts.message_rows import (
    TranscriptRow,
    read_between,
    read_from,
    read_last,
    read_named,
)
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find, list_sessions
from langchain_tokenmem.storage.transcripts.states import SessionStates, StoredState, stored_state
from langchain_tokenmem.storage.transcripts.tables import edits

_TURN_ROWS = 64
"""Rows in which the beginning of a turn is looked for first."""


class TranscriptReader(SessionStates):
    """The part of a `TranscriptStore` that reads transcripts.

    Args:
        database: Where they are.
    """

    def rows(
        self, session_id: str, *, user_id: str | None = None, include_superseded: bool = False
    ) -> list[TranscriptRow]:
        """Return every message of a session with number and time, in order.

        Args:
            session_id: Names the conversation.
            user_id: Who asks; the session must be theirs.
            include_superseded: Return words that an edit superseded, or that are hidden, as well:
                in front of those that took their place, with the number of the version (0 for the
                first words) in `response_metadata["tokenmem"]["superseded"]`.

        Raises:
            CorruptStoreError: When one of them is damaged or missing.
        """
        with self._database.reading(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, user_id)
            if session is None:
                return []
            found = read_from(connection, session, session.first_seq)
            shown = rows_with_superseded if include_superseded else visible_rows
            return shown(connection, session, found)

    arows = in_thread(rows)

    def messages(
        self, session_id: str, *, user_id: str | None = None, include_superseded: bool = False
    ) -> list[BaseMessage]:
        """Return every message of a session, in order, as the application gave it.

        An edited message has the words of the thread's head; `include_superseded` as for `rows`.
        """
        rows = self.rows(session_id, user_id=user_id, include_superseded=include_superseded)
        return [row.message for row in rows]

    amessages = in_thread(messages)

    def conversation(
        self, session_id: str, *, user_id: str | None = None
    ) -> tuple[StoredState, list[TranscriptRow]]:
        """Return the state, and the messages that a view under it needs, as of one moment.

        These are the kept messages, the one that the summary's pointer names, and all after it;
        no other row is read.
        """
        with self._database.reading(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, user_id)
            if session is None:
                return StoredState(None, 0, None), []
            stored = replace(stored_state(session), edits=edits_in_force(connection, session))
            state = stored.state
            if state is None or state["summary"] is None:
                rows = read_from(connection, session, session.first_seq)
                return stored, visible_rows(connection, session, rows)
            pointer = state["summary"]["covers_to"]
            kept = read_named(connection, session, [*state["kept"], pointer])
            start = next((row.seq for row in kept if row.message.id == pointer), session.first_seq)
            tail = read_from(connection, session, start)
            rows = [*(row for row in kept if row.seq < start), *tail]
            # By the pointer's message it is known what is covered, hidden or not.
            shown = current_rows(connection, session, rows)
            return stored, [r for r in shown if not r.is_hidden or r.message.id == pointer]

    aconversation = in_thread(conversation)

    def turn_up_to(
        self, session_id: str, message_id: str, *, user_id: str | None = None
    ) -> list[BaseMessage]:
        """Return a message and those before it, in order, back to the human one of its turn.

        Empty where the session has no such message. Earlier rows are not read, but for a few.
        """
        with self._database.reading(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, user_id)
            named = read_named(connection, session, [message_id]) if session else []
            if session is None or not named:
                return []
            last, size = named[0].seq, _TURN_ROWS
            while True:
                first = max(session.first_seq, last - size)
                rows = read_between(connection, session, first, last)
                found = [row.message for row in visible_rows(connection, session, rows)]
                humans = [n for n, message in enumerate(found) if role_of(message) == "human"]
                if humans or first == session.first_seq:
                    return found[humans[-1] if humans else 0 :]
                size *= 4

    def last(self, session_id: str, n: int) -> list[BaseMessage]:
        """Return the newest `n` messages in order, and more where they begin inside a group."""
        with self._database.reading(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, None)
            if session is None or n < 1:
                return []
            return [row.message for row in read_last(connection, session, n, visible_rows)]

    alast = in_thread(last)

    def get(
        self, session_id: str, message_id: str, *, include_superseded: bool = False
    ) -> BaseMessage | None:
        """Return one message in full; None when the session has no such id, or hides it.

        With `include_superseded` it is the message as it was first said, whatever was edited since.
        """
        found = self.named(session_id, [message_id], include_superseded=include_superseded)
        first = min(found, key=_version_of) if found else None
        return None if first is None else first.message

    aget = in_thread(get)

    def named(
        self, session_id: str, ids: Sequence[str], *, include_superseded: bool = False
    ) -> list[TranscriptRow]:
        """Return the messages with these ids that there are, in order; options as for `rows`."""
        with self._database.reading(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, None)
            if session is None:
                return []
            shown = rows_with_superseded if include_superseded else visible_rows
            return shown(connection, session, read_named(connection, session, ids))

    anamed = in_thread(named)

    def count(self, session_id: str) -> int:
        """Return how many messages a session has, hidden ones included."""
        with self._database.reading(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, None)
            return 0 if session is None else session.count

    acount = in_thread(count)

    def sessions(self, *, user_id: str | None = None) -> list[str]:
        """Return the ids of all sessions, or of one user's, in alphabetical order."""
        with self._database.reading("The list of sessions") as connection:
            return list_sessions(connection, user_id)

    asessions = in_thread(sessions)


def _version_of(row: TranscriptRow) -> float:
    """Return the version of a message's words; the current ones without a mark are the last."""
    return float(marks_of(row.message).get("superseded", "inf"))


def edits_in_force(connection: Connection, session: SessionRow) -> str:
    """Return a name of the edits that stand in the place of what was said; empty for none."""
    if not session.edit_count:
        return ""
    query = select(edits.c.seq, edits.c.version).order_by(edits.c.seq)
    own = query.where(edits.c.session_key == session.key, edits.c.is_current == 1)
    found = [tuple(row) for row in connection.execute(own)]
    return hashlib.blake2b(repr(found).encode(), digest_size=8).hexdigest() if found else ""
