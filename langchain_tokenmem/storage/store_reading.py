"""Reading transcripts."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import in_thread
from langchain_tokenmem.core.messages import marks_of, role_of
from langchain_tokenmem.storage.sessions import StoredState, list_sessions, state_of
from langchain_tokenmem.storage.store_base import StoreBase
from langchain_tokenmem.storage.transcripts import (
    TranscriptRow,
    current,
    read,
    read_last,
    read_named,
    visible,
    with_superseded,
)

_TURN_ROWS = 64
"""Rows in which the beginning of a turn is looked for first."""


class ReadableStore(StoreBase):
    """The methods of a store that read messages."""

    def rows(
        self, session_id: str, *, user_id: str | None = None, include_superseded: bool = False
    ) -> list[TranscriptRow]:
        """Return every message of a session with number and time, in order.

        Args:
            session_id: Id of the conversation.
            user_id: The user who asks; the session must belong to them.
            include_superseded: Also return superseded and hidden wordings, before the one that
                replaced them, with the number of the version (0 for the first) in
                `response_metadata["tokenmem"]["superseded"]`.

        Raises:
            CorruptStoreError: When one of them is damaged or missing.
        """
        chosen = with_superseded if include_superseded else visible
        with self._reading(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            if session is None:
                return []
            return chosen(read(connection, session, session.first_seq))

    arows = in_thread(rows)

    def messages(
        self, session_id: str, *, user_id: str | None = None, include_superseded: bool = False
    ) -> list[BaseMessage]:
        """Return every message of a session, in order, as the application gave it.

        An edited message has its current wording; `include_superseded` as for `rows`.
        """
        rows = self.rows(session_id, user_id=user_id, include_superseded=include_superseded)
        return [row.message for row in rows]

    amessages = in_thread(messages)

    def conversation(
        self, session_id: str, *, user_id: str | None = None
    ) -> tuple[StoredState, list[TranscriptRow]]:
        """Return the state, and the messages that a view under it needs, as of one moment.

        These are the kept messages, the last one that the summary covers, and all after it.
        """
        with self._reading(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            if session is None:
                return StoredState(None, 0, None), []
            stored = state_of(session)
            state = stored.state
            if state is None or state["summary"] is None:
                return stored, visible(read(connection, session, session.first_seq))
            pointer = state["summary"]["covers_to"]
            kept = current(read_named(connection, session, [*state["kept"], pointer]))
            start = next((row.seq for row in kept if row.message.id == pointer), session.first_seq)
            tail = current(read(connection, session, start))
            rows = [*(row for row in kept if row.seq < start), *tail]
            # By the pointer's message it is known what is covered, hidden or not.
            return stored, [r for r in rows if not r.is_hidden or r.message.id == pointer]

    aconversation = in_thread(conversation)

    def turn_up_to(
        self, session_id: str, message_id: str, *, user_id: str | None = None
    ) -> list[BaseMessage]:
        """Return a message and those before it, in order, back to the human one of its turn.

        Empty if the session has no such message.
        """
        with self._reading(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            named = read_named(connection, session, [message_id]) if session else []
            if session is None or not named:
                return []
            last, size = named[0].seq, _TURN_ROWS
            while True:
                first = max(session.first_seq, last - size)
                rows = visible(read(connection, session, first, last))
                found = [row.message for row in rows]
                humans = [n for n, message in enumerate(found) if role_of(message) == "human"]
                if humans or first == session.first_seq:
                    return found[humans[-1] if humans else 0 :]
                size *= 4

    def last(self, session_id: str, n: int, *, user_id: str | None = None) -> list[BaseMessage]:
        """Return the newest `n` messages in order, and the rest of the group that they begin in."""
        with self._reading(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            if session is None or n < 1:
                return []
            return [row.message for row in read_last(connection, session, n, visible)]

    alast = in_thread(last)

    def get(
        self,
        session_id: str,
        message_id: str,
        *,
        user_id: str | None = None,
        include_superseded: bool = False,
    ) -> BaseMessage | None:
        """Return one message in full; None when the session has no such id, or hides it.

        With `include_superseded` it is the first wording.
        """
        found = self.named(
            session_id, [message_id], user_id=user_id, include_superseded=include_superseded
        )
        first = min(found, key=_version_of) if found else None
        return None if first is None else first.message

    aget = in_thread(get)

    def named(
        self,
        session_id: str,
        ids: Sequence[str],
        *,
        user_id: str | None = None,
        include_superseded: bool = False,
    ) -> list[TranscriptRow]:
        """Return the messages with these ids, in order; options as for `rows`."""
        chosen = with_superseded if include_superseded else visible
        with self._reading(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            return [] if session is None else chosen(read_named(connection, session, ids))

    anamed = in_thread(named)

    def count(self, session_id: str, *, user_id: str | None = None) -> int:
        """Return how many messages a session has, hidden ones included."""
        with self._reading(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            return 0 if session is None else session.count

    acount = in_thread(count)

    def sessions(self, *, user_id: str | None = None) -> list[str]:
        """Return the ids of all sessions, or of one user's, in alphabetical order."""
        with self.database.reading("The list of sessions") as connection:
            return list_sessions(connection, user_id)

    asessions = in_thread(sessions)


def _version_of(row: TranscriptRow) -> float:
    """Return the version of a message's words; the current ones without a mark are the last."""
    return float(marks_of(row.message).get("superseded", "inf"))
