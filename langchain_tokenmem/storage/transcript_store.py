"""`TranscriptStore`: transcripts and memory states of sessions in SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from os import PathLike

from langchain_core.messages import BaseMessage
from sqlalchemy import delete

from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.closeable import Closeable
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.storage.checkpoints.thread_sessions import refuse_checkpointed
from langchain_tokenmem.storage.database.async_wrappers import in_thread
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.erasing import erase
from langchain_tokenmem.storage.expiring_store import ExpiringStore
from langchain_tokenmem.storage.expiry_policy import ExpiryPolicy
from langchain_tokenmem.storage.schema_versions import SCHEMA
from langchain_tokenmem.storage.search_index.deletion import clear_messages
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.appending import append_indexed
from langchain_tokenmem.storage.transcripts.edits import (
    delete_edits,
)
from langchain_tokenmem.storage.transcripts.encoded_message import EncodedMessage
from langchain_tokenmem.storage.transcripts.sessions import (
    checked_id,
    find,
    find_or_make,
    save,
)
from langchain_tokenmem.storage.transcripts.tables import messages


class TranscriptStore(ExpiringStore, Closeable):
    """Append-only transcripts in SQLite or PostgreSQL, with a memory state for each session.

    One store may be shared between threads and event loops; several processes may use one
    database. Async methods run the sync one in a thread, whatever the driver. Every row has a
    checksum and every session knows how many messages it has: damage is an error, never a
    shorter history.

    Args:
        url: `sqlite:///file.db`, `sqlite://` (in memory), `postgresql+psycopg://...`, or the path
            of a SQLite file. Default: the file `tokenmem.db` in the working directory.
        pool_size: Most connections at a time; a SQLite file has one more, for all writers.
        inactive_for: Time after which a session that nobody uses is deleted by `expire`; None for
            never.
        expire_every: With `inactive_for`: let `expire` run by itself, in the background of a
            commit, at most every so often; None for by hand only.

    Attributes:
        index: What recall reads and writes beside the transcripts.

    Raises:
        ConfigurationError: When the URL is not supported, or a time cannot be.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> with TranscriptStore("sqlite://") as store:
        ...     _ = store.add("s1", [HumanMessage("hi")])
        ...     [message.content for message in store.messages("s1")]
        ['hi']
    """

    def __init__(
        self,
        url: str | PathLike[str] = "sqlite:///tokenmem.db",
        *,
        pool_size: int = 8,
        inactive_for: timedelta | None = None,
        expire_every: timedelta | None = None,
    ) -> None:
        policy = ExpiryPolicy(inactive_for=inactive_for, expire_every=expire_every)
        database = Database(url, SCHEMA, pool_size=pool_size)
        super().__init__(database, IndexStore(database), policy)

    @property
    def database(self) -> Database:
        """The database, for the other parts that keep something in it."""
        return self._database

    def close(self) -> None:
        """Close every connection."""
        self.stop_expiry()
        self._database.close()

    aclose = in_thread(close)

    def add(
        self,
        session_id: str,
        new: Sequence[BaseMessage],
        *,
        user_id: str | None = None,
        now: datetime | None = None,
    ) -> list[str]:
        """Append messages in one transaction, and return the ids of those that were new.

        A message whose id is there already is not new. A batch that begins with what the
        transcript ends with is a resend, and only what follows is new; messages without an id
        count as the same when they say the same, provided that one of the overlap has an id that
        is known, or that the overlap is the whole transcript and more than one turn, or begins a
        longer batch. So a list that is sent in full at every turn is stored once, and a second
        "yes", or a second turn in the same words, is stored again.

        Words that a message with a known id never had supersede those that it has, at its place.
        Words that it had before are a resend.

        Args:
            session_id: Names the conversation.
            new: The messages, oldest first. Chunks are stored as whole messages.
            user_id: Who owns the session; the first one to say so owns it.
            now: Time of messages that bring none; default: the current time.

        Raises:
            ScopeError: When the id is empty or the session belongs to another user.
            ConfigurationError: When a message cannot be stored.
        """
        new = as_messages(new)
        if not new:
            checked_id(session_id)
            return []
        self.index.make_ready()
        with self._database.writing(f"Session {session_id!r}") as connection:
            session = find_or_make(connection, session_id, user_id)
            moment = now or datetime.now(UTC)
            encoded = [EncodedMessage(message) for message in new]
            added, change = append_indexed(connection, self.index, session, encoded, moment)
        self.index.tell(change)
        return [row.message.id or "" for row in added]

    aadd = in_thread(add)

    def clear(self, session_id: str, *, user_id: str | None = None) -> int:
        """Delete the messages and the state of a session; return how many messages there were.

        Owner and budget stay, and sequence numbers go on.

        Raises:
            ScopeError: When the session belongs to another user.
            StoreError: When it is a thread with checkpoints, which need its messages.
        """
        with self._database.writing(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, user_id)
            if session is None:
                return 0
            refuse_checkpointed(connection, session)
            connection.execute(delete(messages).where(messages.c.session_key == session.key))
            delete_edits(connection, session.key)
            emptied = replace(
                session,
                first_seq=session.last_seq + 1,
                version=session.version + 1,
                state=None,
                edit_count=0,
            )
            save(connection, emptied)
            changed = clear_messages(connection, session.key, session.last_seq)
        self._database.forget_deleted()
        self.index.tell(Change("cleared", changed))
        return session.count

    aclear = in_thread(clear)

    def erase(self, session_id: str | None = None, user_id: str | None = None) -> dict[str, int]:
        """Delete everything of a session, or of all sessions of a user, for good.

        Messages, state, summary, leases, documents, notes of `SqlStore` and every index entry go in
        one transaction; nothing of them stays readable in SQLite's files. Memory blocks of the
        owner's other sessions that quote them are dropped from their states. `Recall.erase` empties
        Chroma, too.

        Args:
            session_id: Names the conversation; without it every session of the user is meant.
            user_id: Whose sessions and documents; beside a session id it must be its owner.

        Returns:
            How many rows of each kind were deleted.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
            StoreError: When the session is that of a sub-graph, whose thread's checkpoints need its
                messages; nothing was deleted.
        """
        with self._database.writing("Erasing") as connection:
            counts, gone = erase(connection, session_id, user_id)
        self._database.forget_deleted()
        self.index.tell(Change("erased", gone))
        return counts

    aerase = in_thread(erase)
