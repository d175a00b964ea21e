"""`TranscriptStore`: transcripts and memory states of sessions in SQLite or PostgreSQL."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from os import PathLike
from typing import Any, Unpack

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, Engine, delete

from langchain_tokenmem.background import (
    Closeable,
    in_thread,
)
from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.messages import marks_of, role_of
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.session_settings import ScopedSettings, SessionSettings
from langchain_tokenmem.core.thread_names import thread_of
from langchain_tokenmem.errors import ConfigurationError, ScopeError, StoreError
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.storage.codec import Codec, Serializer, from_json, to_json
from langchain_tokenmem.storage.database import Database
from langchain_tokenmem.storage.editing import edit, take_out
from langchain_tokenmem.storage.imports.importing import (
    HistoryImport,
    ImportReport,
    PageWriter,
    Progress,
    Source,
)
from langchain_tokenmem.storage.lifecycle import (
    AutomaticExpiry,
    Expiry,
    ExpiryPolicy,
    ExpiryReport,
    claim_run,
    erase,
    kept_sessions,
    mark_kept,
)
from langchain_tokenmem.storage.message_json import EncodedMessage
from langchain_tokenmem.storage.redaction import (
    Redaction,
    RedactionScope,
    RemovalReceipt,
    purge_superseded,
)
from langchain_tokenmem.storage.redactor import Redactor
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.serializer import StateSerializer
from langchain_tokenmem.storage.session_files import Line, export_lines, import_lines
from langchain_tokenmem.storage.sessions import (
    Session,
    StoredState,
    UserRule,
    checked_id,
    find_or_make,
    has_checkpoints,
    list_sessions,
    save,
    save_settings_of_user,
    save_state,
    settings_of,
    settings_of_user,
    state_of,
)
from langchain_tokenmem.storage.tables import messages, terms, vectors
from langchain_tokenmem.storage.transcripts import (
    TranscriptRow,
    append,
    current,
    read,
    read_last,
    read_named,
    visible,
    with_superseded,
)

logger = logging.getLogger(__name__)

_TURN_ROWS = 64
"""Rows in which the beginning of a turn is looked for first."""


_DEFAULT_URL = "sqlite:///tokenmem.db"


class TranscriptStore(Closeable):
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

    def __init__(
        self,
        url: str | PathLike[str] = _DEFAULT_URL,
        *,
        pool_size: int = 8,
        engine: Engine | None = None,
        inactive_for: timedelta | None = None,
        expire_every: timedelta | None = None,
        require_user: bool = False,
        shared: bool = False,
    ) -> None:
        self.policy = ExpiryPolicy(inactive_for=inactive_for, expire_every=expire_every)
        if engine is not None and url != _DEFAULT_URL:
            raise ConfigurationError("Name the database by url or by engine=, not by both.")
        if require_user and shared:
            raise ConfigurationError("require_user=True and shared=True exclude each other.")
        self.database = Database(url, pool_size=pool_size, engine=engine)
        self._users = UserRule(require_user=require_user, shared=shared)
        self.index = SearchIndex(self.database, self._users)
        self._expiry = AutomaticExpiry(self.policy, self.database, self.index)

    def __repr__(self) -> str:
        return f"TranscriptStore({self.database.url.render_as_string(hide_password=True)!r})"

    def close(self) -> None:
        """Close every connection."""
        self._expiry.stop()
        self.database.close()

    aclose = in_thread(close)

    def _reading(self, session_id: str) -> AbstractContextManager[Connection]:
        return self.database.reading(f"Session {session_id!r}")

    def _check_user(self, session_id: str, user_id: str | None) -> None:
        with self._reading(session_id) as connection:
            self._users.find(connection, session_id, user_id)

    def _writing(self, session_id: str) -> AbstractContextManager[Connection]:
        thread = thread_of(checked_id(session_id))
        return self.database.writing(f"Session {session_id!r}", thread)

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
        with self._writing(session_id) as connection:
            session = self._users.find_or_make(connection, session_id, user_id)
            encoded = [EncodedMessage(message) for message in new]
            appended = append(connection, session, encoded, now or datetime.now(UTC))
            change = self.index.appended(connection, appended.session, appended.rows)
            if appended.edited:
                change = self.index.edited(connection, appended.session, appended.edited)
        self.index.tell(change)
        return [row.message.id or "" for row in appended.rows]

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
        with self._writing(session_id) as connection:
            session = self._users.find_or_make(connection, session_id, user_id)
            session, seqs = edit(connection, session, one, _codec(serde), datetime.now(UTC))
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
        with self._writing(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            seqs = take_out(connection, session, ids) if session else []
            if session is None or not seqs:
                return 0
            session = self._users.find(connection, session_id, user_id) or session
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
        with self._writing(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            if session is None:
                return 0
            if has_checkpoints(connection, session):
                raise StoreError(
                    f"Session {session_id!r} holds the messages of a thread with checkpoints, "
                    f"which need them. Nothing was deleted; TokenMemorySaver.delete_thread deletes "
                    f"the thread."
                )
            for table in (messages, terms, vectors):
                connection.execute(delete(table).where(table.c.session == session.id))
            first = session.last_seq + 1
            save(
                connection,
                session,
                first_seq=first,
                words_from=first,
                vectors_from=first,
                unit_count=0,
                term_count=0,
                edits=0,
                is_pinned=0,
                active_at=None,
                version=session.version + 1,
                state=None,
            )
        self.database.forget_deleted()
        self.index.tell(Change("cleared", [session.id]))
        return session.count

    aclear = in_thread(clear)

    def erase(
        self, session_id: str | None = None, user_id: str | None = None, *, dry_run: bool = False
    ) -> dict[str, int]:
        """Delete everything of a session, or of all sessions of a user.

        Messages, state, documents, notes of `SqlStore` and index entries are deleted in one
        transaction, and are not readable in SQLite's files afterwards. Blocks in the owner's other
        sessions that quote them are dropped. `Recall.erase` also deletes from Chroma.

        Args:
            session_id: Id of the conversation; without it every session of the user is erased.
            user_id: Owner of the sessions; with a session id it must be its owner.
            dry_run: Only count.

        Returns:
            How many rows of each kind were deleted.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
            StoreError: When the session is that of a sub-graph, which is deleted with its thread.
                Nothing was deleted.
        """
        if session_id is not None:
            self._check_user(session_id, user_id)
        with self.database.writing("Erasing", undo=dry_run) as connection:
            counts, gone = erase(connection, session_id, user_id)
        if dry_run:
            return counts
        self.database.forget_deleted()
        self.index.tell(Change("erased", gone))
        return counts

    aerase = in_thread(erase)

    def redact(
        self,
        what: str | re.Pattern[str],
        replacement: str = "[redacted]",
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        everywhere: bool = False,
        dry_run: bool = False,
        serde: Serializer | None = None,
    ) -> RemovalReceipt:
        """Remove words for good: from all wordings, states, checkpoints, documents and notes.

        Messages keep their ids and places. Blocks, turn memories and working notes of changed
        messages are dropped; lines of the summary about them, too, and the next call writes the
        entry again. Terms and vectors are made again. A turn or a summary under way has to look
        again before it commits. SQLite's file is then rewritten (VACUUM), and everything is read
        back. `TokenMemory.redact` also reaches Chroma, notes in other stores and this process.

        Args:
            what: The words exactly as they are written, or a compiled pattern, which is searched
                in each text and must match a whole number.
            replacement: Stands in their place.
            session_id: The session or thread, with its sub-graphs.
            user_id: All sessions and notes of the user; beside a session id its owner.
            everywhere: The whole database.
            dry_run: Only count.
            serde: The serializer of the `TokenMemorySaver`, where it has one of its own.

        Returns:
            What was found where, and what could not be reached.

        Raises:
            ScopeError: When no scope is named, or the session belongs to another user.
            ConfigurationError: When the words are empty, or the replacement holds them.
            RedactionError: When the words are still found afterwards.

        Example:
            >>> from langchain_core.messages import HumanMessage
            >>> with TranscriptStore("sqlite://") as store:
            ...     _ = store.add("s1", [HumanMessage("My card is 4111 1111.")])
            ...     receipt = store.redact("4111 1111", session_id="s1")
            ...     receipt.counts, store.messages("s1")[0].content
            ({'messages': 1}, 'My card is [redacted].')
        """

        def redactor() -> Redactor:
            return Redactor(what, replacement)

        redactor()
        scope = RedactionScope(session_id, user_id, everywhere)
        if session_id is not None:
            self._check_user(session_id, user_id)
        codec = _codec(serde)
        return Redaction(self.database, self.index, codec, scope, redactor, dry_run=dry_run).run()

    aredact = in_thread(redact)

    def purge_superseded(
        self,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        everywhere: bool = False,
        serde: Serializer | None = None,
    ) -> RemovalReceipt:
        """Delete the earlier wordings of edited messages for good; hidden messages stay.

        A wording that a checkpoint of the thread still has stays, and the receipt reports it.

        Args:
            session_id: The session or thread, with its sub-graphs.
            user_id: All sessions of the user; beside a session id its owner.
            everywhere: The whole database.
            serde: The serializer of the `TokenMemorySaver`, where it has one of its own.

        Raises:
            ScopeError: When no scope is named, or the session belongs to another user.
            CorruptStoreError: When a checkpoint cannot be read.
        """
        scope = RedactionScope(session_id, user_id, everywhere)
        if session_id is not None:
            self._check_user(session_id, user_id)
        return purge_superseded(self.database, _codec(serde), scope)

    apurge_superseded = in_thread(purge_superseded)

    # --- reading

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

    # --- states, settings, leases

    def state(self, session_id: str, *, user_id: str | None = None) -> StoredState:
        """Return the memory's state of a session."""
        with self._reading(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            return StoredState(None, 0, None) if session is None else state_of(session)

    astate = in_thread(state)

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
        with self._writing(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
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
        with self._writing(session_id) as connection:
            session = self._users.find_or_make(connection, session_id, user_id)
            stored = settings_of(session).changed(given).stored()
            text = None if stored is None else to_json(stored)[0]
            session = save(connection, session, settings=text)
            if "mode" in given:
                _forget_chosen_mode(connection, session)

    aset_settings = in_thread(set_settings)

    def settings(
        self, session_id: str | None = None, *, user_id: str | None = None
    ) -> SessionSettings:
        """Return the settings of a session, completed by those of its user.

        Args:
            session_id: The session; without it the user's own settings are returned.
            user_id: The user, if the session has no owner yet.

        Raises:
            ScopeError: When the session belongs to another user.
        """
        about = f"User {user_id!r}" if session_id is None else f"Session {session_id!r}"
        with self.database.reading(about) as connection:
            session = (
                None if session_id is None else self._users.find(connection, session_id, user_id)
            )
            owner = user_id if session is None else session.user_id or user_id
            own = SessionSettings() if session is None else settings_of(session)
            return own.over(settings_of_user(connection, owner))

    asettings = in_thread(settings)

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
        with self._writing(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            if session is None:
                return False
            now = time.time()
            until, end = session.leased_until or 0.0, now + seconds
            is_free = session.leased_by in {None, owner} or not now < until <= end
            if is_free:
                save(connection, session, leased_by=owner, leased_until=end)
            return is_free

    def release(self, session_id: str, owner: str, *, user_id: str | None = None) -> None:
        """Release the lease of this owner."""
        with self._writing(session_id) as connection:
            session = self._users.find(connection, session_id, user_id)
            if session is not None and session.leased_by == owner:
                save(connection, session, leased_by=None, leased_until=None)

    # --- import and export

    def import_history(
        self,
        source: Source,
        session_id: str,
        *,
        user_id: str | None = None,
        summary: str | None = None,
        summary_covers: int = 0,
        now: datetime | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import the messages of a chat history, page by page.

        It can be repeated at any time: only what is new is appended, and an interrupted import
        continues. Messages keep their ids; one without an id gets one from its position and
        content, and one whose id belongs to another message gets a new id. Messages keep their
        times; one without a time has that of the message before it.

        A summary at its beginning, as `SummarizationMiddleware` leaves it, becomes the first entry
        of a new session's summary.

        Args:
            source: Any `BaseChatMessageHistory`, or messages in any form that LangChain takes. A
                `SQLChatMessageHistory` is read from its table in pages.
            session_id: Session to import into.
            user_id: Its owner.
            summary: Text of the summary that a `ConversationSummaryMemory` has.
            summary_covers: How many messages of the source `summary` covers, without system
                messages; 0 if they are not in the source.
            now: Time of the messages before the first one with a time; default: the current time.
            progress: Called after each page with the number of imported messages.

        Raises:
            ScopeError: When the session belongs to another user.
            ConfigurationError: When the source has no messages.
            HistoryImportError: When a message cannot be imported; it names the place.
            StoreError: When the session is a thread with checkpoints.

        Example:
            >>> from langchain_tokenmem import TranscriptStore
            >>> with TranscriptStore("sqlite://") as store:
            ...     [store.import_history([("human", "hi")], "s1").added for _ in range(2)]
            [1, 0]
        """
        moment = now or datetime.now(UTC)
        writer = self._page_writer(session_id, user_id, moment)
        one = HistoryImport(writer, now=moment, summary=summary, covers=summary_covers)
        return one.run(source, progress)

    aimport_history = in_thread(import_history)

    def export_session(self, session_id: str, *, user_id: str | None = None) -> Iterator[str]:
        """Yield a session as lines of JSON, read in pages.

        The first line has owner, budget and memory state, each other one a message with id, time
        and edits. `import_session` creates the same session from them.

        Args:
            session_id: The session.
            user_id: The user who asks; the session must belong to them.

        Raises:
            ScopeError: When there is no such session, or it belongs to another user.
            CorruptStoreError: When a part of it is damaged.
        """
        self._check_user(session_id, user_id)
        return export_lines(self.database, session_id, user_id)

    def import_session(
        self,
        lines: Iterable[Line],
        session_id: str | None = None,
        *,
        user_id: str | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Create a session from the lines of `export_session`.

        Known messages stay as they are; the state is imported if the session has none.

        Args:
            lines: The lines of one session, or pairs of a place, which errors name, and the line.
            session_id: Another id for it.
            user_id: Another owner.
            progress: Called after each page with the number of imported messages.

        Raises:
            HistoryImportError: When a line is invalid; the error names it, and how many messages
                are stored.
            ScopeError: When the session belongs to another user.
            StoreError: When the session is a thread with checkpoints.
        """
        return import_lines(
            self._page_writer, lines, session_id, user_id=user_id, progress=progress
        )

    aimport_session = in_thread(import_session)

    def _page_writer(self, session_id: str, user_id: str | None, now: datetime) -> PageWriter:
        self._check_user(session_id, user_id)
        return PageWriter(self.database, self.index, session_id, user_id=user_id, now=now)

    # --- expiry

    def expire(
        self,
        inactive_for: timedelta | None = None,
        *,
        dry_run: bool = False,
        now: datetime | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ExpiryReport:
        """Delete whole sessions that were inactive for some time.

        Everything that `erase` deletes is deleted, and for a thread its checkpoints and sub-graphs.
        A session with a pin, and one marked by `keep_session`, stays. Activity is the last message,
        edit, checkpoint, document or note; a session without any of them stays.

        Each batch is one transaction, which checks activity again. An interrupted run continues
        when it is repeated. `Recall.expire` also deletes from Chroma.

        Args:
            inactive_for: Time without activity; default: that of the store.
            dry_run: Only report which sessions would be deleted.
            now: The current time; default: that of the clock.
            progress: Called after each batch with the number of deleted sessions.

        Returns:
            Which sessions were deleted, how many rows of each kind, and what stays and why.

        Raises:
            ConfigurationError: When the time is missing or invalid.
            StoreError: When the database cannot delete; earlier batches are done.

        Example:
            >>> from langchain_core.messages import HumanMessage
            >>> from langchain_tokenmem import TranscriptStore
            >>> with TranscriptStore("sqlite://") as store:
            ...     long_ago = datetime(2020, 1, 31, tzinfo=UTC)
            ...     _ = store.add("old", [HumanMessage("hi")], now=long_ago)
            ...     _ = store.add("new", [HumanMessage("hi")])
            ...     store.expire(inactive_for=timedelta(days=30)).expired
            ('old',)
        """
        policy = self.policy if inactive_for is None else ExpiryPolicy(inactive_for=inactive_for)
        moment = (now or datetime.now(UTC)).astimezone(UTC)
        expiry = Expiry(self.database, self.index, policy.since(moment))
        expiry.progress = progress or expiry.progress
        if not dry_run:
            with self.database.writing("Expiring sessions") as connection:
                claim_run(connection, moment, None)
        return expiry.run(dry_run=dry_run)

    aexpire = in_thread(expire)

    def keep_session(
        self, session_id: str, *, keep: bool = True, user_id: str | None = None
    ) -> None:
        """Mark a session so that `expire` keeps it.

        Args:
            session_id: Names the conversation, which may begin later.
            keep: False removes the mark.
            user_id: The user who asks; the session must belong to them.

        Raises:
            ScopeError: When the session belongs to another user.
        """
        with self._writing(checked_id(session_id)) as connection:
            self._users.find(connection, session_id, user_id)
            mark_kept(connection, session_id, user_id, is_kept=keep)

    akeep_session = in_thread(keep_session)

    def kept_sessions(self) -> list[str]:
        """Return the ids of the sessions that are marked, in alphabetical order."""
        with self.database.reading("Marks of sessions") as connection:
            return kept_sessions(connection)

    akept_sessions = in_thread(kept_sessions)


def _codec(serde: Serializer | None) -> Codec:
    return Codec(serde or StateSerializer())


def _version_of(row: TranscriptRow) -> float:
    """Return the version of a message's words; the current ones without a mark are the last."""
    return float(marks_of(row.message).get("superseded", "inf"))


def _forget_chosen_mode(connection: Connection, session: Session) -> None:
    """Let a session be one that was not switched to a mode; a turn under way is dropped."""
    state = None if session.state is None else load_state(from_json(session.state))
    modes = state.get("modes") if state else None
    if state is None or modes is None or "chosen" not in modes:
        return
    kept: Any = {name: value for name, value in modes.items() if name != "chosen"}
    save_state(connection, session, {**state, "modes": kept})
