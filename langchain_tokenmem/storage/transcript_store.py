"""`TranscriptStore`: transcripts and memory states of sessions in SQLite or PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Unpack

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, delete

from langchain_tokenmem.background import in_thread
from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.session_settings import ScopedSettings, SessionSettings
from langchain_tokenmem.errors import ConfigurationError, ScopeError, StoreError
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.storage.codec import Codec, Serializer
from langchain_tokenmem.storage.message_json import EncodedMessage, from_json, to_json
from langchain_tokenmem.storage.sessions import (
    Session,
    checked_id,
    find_or_make,
    has_checkpoints,
    save_settings_of_user,
    save_state,
    settings_of,
    settings_of_user,
)
from langchain_tokenmem.storage.store_maintenance import MaintainedStore
from langchain_tokenmem.storage.tables import messages, terms, vectors
from langchain_tokenmem.storage.thread_messages import edit, take_out
from langchain_tokenmem.storage.transcripts import append


class TranscriptStore(MaintainedStore):
    """Append-only transcripts in SQLite or PostgreSQL, with a memory state for each session.

    One store may be shared between threads and event loops; several processes may use one
    database. Async methods run the sync method in a thread. Damage is an error, never a shorter
    history.

    Args:
        url: `sqlite:///file.db`, `sqlite://` (in memory), `postgresql+psycopg://...`, or the path
            of a SQLite file. Default: the file `tokenmem.db` in the working directory.
        pool_size: Maximum number of connections; a SQLite file has one more, for writing.
        engine: Your own SQLAlchemy engine of PostgreSQL, in place of a URL: its pool, and with the
            execution option `schema_translate_map={None: "memory"}` its schema. `close` leaves it
            open.
        inactive_for: Time without activity after which `expire` deletes a session; None for
            never.
        expire_every: With `inactive_for`: run `expire` automatically, in the background of a
            commit, at most once in this time; None to run it by hand only.
        require_user: Refuse every call about a session that names no `user_id`.
        shared: Allow calls without `user_id` on sessions that have an owner, for a process that
            serves no users, such as an admin's script.

    Attributes:
        database: The database, for other parts of the package.
        policy: When sessions expire automatically.
        index: The search index, for recall.

    Raises:
        ConfigurationError: When the URL is not supported, or a time is invalid.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> with TranscriptStore("sqlite://") as store:
        ...     _ = store.add("s1", [HumanMessage("hi")])
        ...     [message.content for message in store.messages("s1")]
        ['hi']
    """

    def add(
        self,
        session_id: str,
        new: Sequence[BaseMessage],
        *,
        user_id: str | None = None,
        now: datetime | None = None,
    ) -> list[str]:
        """Append messages in one transaction, and return the ids of those that were new.

        A message whose id is already stored is not new. If a batch begins with the messages that
        the transcript ends with, only the rest is new. Messages without an id are compared by
        content, if one message of the overlap has a known id, if the overlap is the whole
        transcript and more than one turn, or if it begins a longer batch. So a list that is sent in
        full at every turn is stored once, and a second "yes" is stored again.

        New content under a known id supersedes the earlier content in its place. Content that the
        message had before is ignored.

        Args:
            session_id: Id of the conversation.
            new: The messages, oldest first. Chunks are stored as whole messages.
            user_id: Owner of the session; the first user to write owns it.
            now: Time of messages without one; default: the current time.

        Raises:
            ScopeError: When the id is empty or the session belongs to another user.
            ConfigurationError: When a message cannot be stored.
        """
        new = as_messages(new)
        if not new:
            checked_id(session_id)
            return []
        self.index.make_ready()
        with self._making(session_id, user_id) as (connection, session):
            encoded = [EncodedMessage(message) for message in new]
            rows, edited = append(connection, session, encoded, now or datetime.now(UTC))
            change = self.index.appended(connection, session, rows)
            if edited:
                change = self.index.edited(connection, session, edited)
        self.index.tell(change)
        return [row.message.id or "" for row in rows]

    aadd = in_thread(add)

    def edit(
        self,
        session_id: str,
        message_id: str,
        message: BaseMessage,
        *,
        user_id: str | None = None,
        serde: Serializer | None = None,
    ) -> None:
        """Show a message in other words; earlier ones are superseded.

        In a thread of a `TokenMemorySaver` the newest checkpoint has them too, so that the next
        request holds them; older checkpoints keep what they had.

        Args:
            session_id: The session or thread.
            message_id: The message.
            message: The new message; its own id is ignored.
            user_id: The user who asks; the session must belong to them.
            serde: The serializer of the saver, where it has one of its own.

        Raises:
            ScopeError: When the session belongs to another user.
            ConfigurationError: When the message cannot be stored.
            StoreError: When there is no such message.

        Example:
            >>> from langchain_core.messages import HumanMessage
            >>> with TranscriptStore("sqlite://") as store:
            ...     _ = store.add("s1", [HumanMessage("In Rome.", id="m")])
            ...     store.edit("s1", "m", HumanMessage("In Oslo."))
            ...     store.messages("s1")[0].content
            'In Oslo.'
        """
        (message,) = as_messages([message])
        one = EncodedMessage(message.model_copy(update={"id": message_id}))
        with self._making(session_id, user_id) as (connection, session):
            seqs = edit(connection, session, one, Codec(serde), datetime.now(UTC))
            change = self.index.edited(connection, session, seqs) if seqs else Change("added")
        self.index.tell(change)

    aedit = in_thread(edit)

    def hide(self, session_id: str, ids: Sequence[str], *, user_id: str | None = None) -> int:
        """Take messages out of what is shown and found; return how many there were.

        They stay readable with `include_superseded`.

        Args:
            session_id: The session.
            ids: The messages; an unknown one is no error.
            user_id: The user who asks; the session must belong to them.

        Raises:
            ScopeError: When the session belongs to another user.
            StoreError: When it is a thread with checkpoints.
        """
        with self._writing(session_id, user_id) as (connection, session):
            seqs = take_out(connection, session, ids) if session else []
            if session is None or not seqs:
                return 0
            change = self.index.edited(connection, session, seqs)
        self.index.tell(change)
        return len(seqs)

    ahide = in_thread(hide)

    def clear(self, session_id: str, *, user_id: str | None = None) -> int:
        """Delete the messages and the state of a session; return how many messages there were.

        Owner, settings and documents stay, and sequence numbers continue.

        Raises:
            ScopeError: When the session belongs to another user.
            StoreError: When it is a thread with checkpoints, which need its messages.
        """
        with self._writing(session_id, user_id) as (connection, session):
            if session is None:
                return 0
            count = session.count
            if has_checkpoints(connection, session):
                raise StoreError(
                    f"Session {session_id!r} holds the messages of a thread with checkpoints, "
                    f"which need them. Nothing was deleted; TokenMemorySaver.delete_thread deletes "
                    f"the thread."
                )
            for table in (messages, terms, vectors):
                connection.execute(delete(table).where(table.c.session == session.id))
            session.first_seq = session.words_from = session.vectors_from = session.last_seq + 1
            session.unit_count = session.term_count = session.edits = session.is_pinned = 0
            session.active_at = session.state = None
            session.version += 1
        self.database.forget_deleted()
        self.index.tell(Change("cleared", [session.id]))
        return count

    aclear = in_thread(clear)

    # --- states, settings, leases

    def save_state(
        self,
        session_id: str,
        state: MemoryState,
        *,
        expected: int,
        user_id: str | None = None,
    ) -> bool:
        """Store a new state, unless one was stored or the session was cleared since `expected`.

        Returns:
            Whether it was stored.
        """
        with self._writing(session_id, user_id) as (connection, session):
            if (session.version if session else 0) != expected:
                return False
            save_state(connection, session or find_or_make(connection, session_id, user_id), state)
            return True

    asave_state = in_thread(save_state)

    def set_budget(
        self, session_id: str, budget: TokenBudget | None, *, user_id: str | None = None
    ) -> None:
        """Give a session its own budget; None removes it.

        Raises:
            ConfigurationError: When it is not a `TokenBudget`.
        """
        if not isinstance(budget, TokenBudget | None):
            raise ConfigurationError(f"{budget!r} is no TokenBudget.")
        self.set_settings(session_id=session_id, user_id=user_id, budget=budget)

    aset_budget = in_thread(set_budget)

    def set_settings(
        self,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        **given: Unpack[ScopedSettings],
    ) -> None:
        """Give a session or a user its own settings, from the next call on.

        They apply to histories and chains on this store, and to graphs and agents that know it by
        their `TokenMemorySaver`, by `store=`, or by their recall. In order of precedence: settings
        of the call, the session, the user, the memory. A thread that was switched to a mode keeps
        it.

        Args:
            session_id: The session; without it the user's settings are set.
            user_id: The user; with a session id it must be its owner.
            given: Keywords `budget`, `mode`, `summarizer` and `enabled`: see `ScopedSettings`. None
                removes a setting; others stay.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
            ConfigurationError: When a value is invalid.
        """
        SessionSettings().changed(given)
        if session_id is None:
            if user_id is None:
                raise ScopeError("Whose settings? Name session_id= or user_id=.")
            with self.database.writing(f"User {user_id!r}") as connection:
                changed = settings_of_user(connection, user_id).changed(given)
                save_settings_of_user(connection, user_id, changed)
            return
        with self._making(session_id, user_id) as (connection, session):
            stored = settings_of(session).changed(given).stored()
            session.settings = None if stored is None else to_json(stored)[0]
            if "mode" in given:
                _forget_chosen_mode(connection, session)

    aset_settings = in_thread(set_settings)

    def lease(
        self, session_id: str, owner: str, seconds: float, *, user_id: str | None = None
    ) -> bool:
        """Take the lease on summarizing a session, across processes.

        A lease that runs longer than `seconds` is ignored: its clock was ahead.

        Args:
            session_id: Id of the conversation.
            owner: Name of the holder, who may take it again.
            seconds: How long it runs if it is not released.
            user_id: The user who asks; the session must belong to them.

        Returns:
            Whether this owner holds it now; False while another does, or without a session.
        """
        with self._writing(session_id, user_id) as (_, session):
            if session is None:
                return False
            now = time.time()
            until, end = session.leased_until or 0.0, now + seconds
            is_free = session.leased_by in {None, owner} or not now < until <= end
            if is_free:
                session.leased_by, session.leased_until = owner, end
            return is_free

    def release(self, session_id: str, owner: str, *, user_id: str | None = None) -> None:
        """Release the lease of this owner."""
        with self._writing(session_id, user_id) as (_, session):
            if session is not None and session.leased_by == owner:
                session.leased_by = session.leased_until = None


def _forget_chosen_mode(connection: Connection, session: Session) -> None:
    """Let a session be one that was not switched to a mode; a turn under way is dropped."""
    state = None if session.state is None else load_state(from_json(session.state))
    modes = state.get("modes") if state else None
    if state is None or modes is None or "chosen" not in modes:
        return
    kept: Any = {name: value for name, value in modes.items() if name != "chosen"}
    save_state(connection, session, {**state, "modes": kept})
