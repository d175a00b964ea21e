"""`TranscriptStore`: transcripts and memory states of sessions in SQLite or PostgreSQL."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from os import PathLike
from typing import Any, Unpack

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, delete

from langchain_tokenmem.background import BackgroundRunner, in_thread, wait_at_exit, wait_for
from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.closeable import Closeable
from langchain_tokenmem.core.messages import marks_of, role_of
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.session_settings import ScopedSettings, SessionSettings
from langchain_tokenmem.core.thread_names import thread_of
from langchain_tokenmem.errors import ConfigurationError, ScopeError, StoreError, TokenMemoryError
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.storage.codec import from_json, to_json
from langchain_tokenmem.storage.database import Database
from langchain_tokenmem.storage.imports.importing import (
    HistoryImport,
    ImportReport,
    PageWriter,
    Progress,
    Source,
)
from langchain_tokenmem.storage.lifecycle import (
    Expiry,
    ExpiryPolicy,
    ExpiryReport,
    claim_run,
    erase,
    kept_sessions,
    mark_kept,
    newest_activity,
)
from langchain_tokenmem.storage.message_json import EncodedMessage
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.session_files import Line, export_lines, import_lines
from langchain_tokenmem.storage.sessions import (
    Session,
    StoredState,
    checked_id,
    find,
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

_MOST_AHEAD = timedelta(days=1)
"""How far the clock may be ahead of what the database has seen before sessions expire by it."""

_END_SECONDS = 10.0
"""Time that the end of a process waits for the batch that is being deleted."""


class TranscriptStore(Closeable):
    """Append-only transcripts in SQLite or PostgreSQL, with a memory state for each session.

    One store may be shared between threads and event loops; several processes may use one
    database. Async methods run the sync one in a thread, whatever the driver. A message has a
    checksum and a session knows how many messages it has: damage is an error, never a shorter
    history.

    Args:
        url: `sqlite:///file.db`, `sqlite://` (in memory), `postgresql+psycopg://...`, or the path
            of a SQLite file. Default: the file `tokenmem.db` in the working directory.
        pool_size: Most connections at a time; a SQLite file has one more, for all writers.
        inactive_for: Time after which a session that nobody uses is deleted by `expire`; None for
            never.
        expire_every: With `inactive_for`: let `expire` run by itself, in the background of a
            commit, at most every so often; None for by hand only.

    Attributes:
        database: The database, for the other parts that keep something in it.
        policy: When sessions expire without being asked for.
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
        self.policy = ExpiryPolicy(inactive_for=inactive_for, expire_every=expire_every)
        self.database = Database(url, pool_size=pool_size)
        self.index = SearchIndex(self.database)
        self._expiry_runner = BackgroundRunner("tokenmem-expiry")
        self._next_expiry = 0.0
        self._is_closing = False
        self._opened_at, self._opened_on = datetime.now(UTC), time.monotonic()
        if self.policy.is_on:
            self.index.listen(self._on_change)
            wait_at_exit(self.stop_expiry)

    def __repr__(self) -> str:
        return f"TranscriptStore({self.database.url.render_as_string(hide_password=True)!r})"

    def close(self) -> None:
        """Close every connection."""
        self.stop_expiry()
        self.database.close()

    aclose = in_thread(close)

    def _reading(self, session_id: str) -> AbstractContextManager[Connection]:
        return self.database.reading(f"Session {session_id!r}")

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
        with self._writing(session_id) as connection:
            session = find_or_make(connection, session_id, user_id)
            encoded = [EncodedMessage(message) for message in new]
            appended = append(connection, session, encoded, now or datetime.now(UTC))
            change = self.index.appended(connection, appended.session, appended.rows)
            if appended.edited:
                change = self.index.edited(connection, appended.session, appended.edited)
        self.index.tell(change)
        return [row.message.id or "" for row in appended.rows]

    aadd = in_thread(add)

    def clear(self, session_id: str, *, user_id: str | None = None) -> int:
        """Delete the messages and the state of a session; return how many messages there were.

        Owner and budget stay, and sequence numbers go on.

        Raises:
            ScopeError: When the session belongs to another user.
            StoreError: When it is a thread with checkpoints, which need its messages.
        """
        with self._writing(session_id) as connection:
            session = find(connection, session_id, user_id)
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
            StoreError: When the session is that of a sub-graph: it goes with its thread. Nothing
                was deleted.
        """
        with self.database.writing("Erasing") as connection:
            counts, gone = erase(connection, session_id, user_id)
        self.database.forget_deleted()
        self.index.tell(Change("erased", gone))
        return counts

    aerase = in_thread(erase)

    # --- reading

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
        chosen = with_superseded if include_superseded else visible
        with self._reading(session_id) as connection:
            session = find(connection, session_id, user_id)
            if session is None:
                return []
            return chosen(read(connection, session, session.first_seq))

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
        with self._reading(session_id) as connection:
            session = find(connection, session_id, user_id)
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

        Empty where the session has no such message. Earlier rows are not read, but for a few.
        """
        with self._reading(session_id) as connection:
            session = find(connection, session_id, user_id)
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

    def last(self, session_id: str, n: int) -> list[BaseMessage]:
        """Return the newest `n` messages in order, and more where they begin inside a group."""
        with self._reading(session_id) as connection:
            session = find(connection, session_id)
            if session is None or n < 1:
                return []
            return [row.message for row in read_last(connection, session, n, visible)]

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
        chosen = with_superseded if include_superseded else visible
        with self._reading(session_id) as connection:
            session = find(connection, session_id)
            return [] if session is None else chosen(read_named(connection, session, ids))

    anamed = in_thread(named)

    def count(self, session_id: str, *, user_id: str | None = None) -> int:
        """Return how many messages a session has, hidden ones included."""
        with self._reading(session_id) as connection:
            session = find(connection, session_id, user_id)
            return 0 if session is None else session.count

    acount = in_thread(count)

    def sessions(self, *, user_id: str | None = None) -> list[str]:
        """Return the ids of all sessions, or of one user's, in alphabetical order."""
        with self.database.reading("The list of sessions") as connection:
            return list_sessions(connection, user_id)

    asessions = in_thread(sessions)

    # --- states, settings, leases

    def state(self, session_id: str) -> StoredState:
        """Return the memory of a session."""
        with self._reading(session_id) as connection:
            session = find(connection, session_id)
            return StoredState(None, 0, None) if session is None else state_of(session)

    astate = in_thread(state)

    def save_state(self, session_id: str, state: MemoryState, *, expected: int) -> bool:
        """Store a new state, if nobody stored one or cleared the session since `expected`.

        Returns:
            Whether it was stored.
        """
        with self._writing(session_id) as connection:
            session = find(connection, session_id)
            if (session.version if session else 0) != expected:
                return False
            save_state(connection, session or find_or_make(connection, session_id), state)
            return True

    asave_state = in_thread(save_state)

    def set_budget(self, session_id: str, budget: TokenBudget | None) -> None:
        """Give a session a budget of its own; None takes it back.

        Raises:
            ConfigurationError: When it is no `TokenBudget`.
        """
        if not isinstance(budget, TokenBudget | None):
            raise ConfigurationError(f"{budget!r} is no TokenBudget.")
        self.set_settings(session_id=session_id, budget=budget)

    aset_budget = in_thread(set_budget)

    def set_settings(
        self,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        **given: Unpack[ScopedSettings],
    ) -> None:
        """Give a session, or a user, settings of their own, from the next call on.

        They hold for histories and chains on this store, and for threads of graphs and agents that
        know it: by their `TokenMemorySaver`, by `store=`, or by their recall. Settings of the call
        beat those of the session, these those of the user, these those of the memory. A mode of the
        session takes the place of one that it was switched to; a thread that was switched to one
        keeps it, as its checkpoints have it.

        Args:
            session_id: The session; without it the user's settings are meant.
            user_id: The user; beside a session id it must be its owner.
            given: Keywords `budget`, `mode`, `summarizer` and `enabled`: see `ScopedSettings`. None
                takes one back, what is left out stays.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
            ConfigurationError: When a value cannot work.
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
            session = find_or_make(connection, session_id, user_id)
            stored = settings_of(session).changed(given).stored()
            text = None if stored is None else to_json(stored)[0]
            session = save(connection, session, settings=text)
            if "mode" in given:
                _forget_chosen_mode(connection, session)

    aset_settings = in_thread(set_settings)

    def settings(
        self, session_id: str | None = None, *, user_id: str | None = None
    ) -> SessionSettings:
        """Return the settings of a session, those of its user where it has none.

        Args:
            session_id: The session; without it the user's own settings are meant.
            user_id: The user, where the session does not know them yet.

        Raises:
            ScopeError: When the session belongs to another user.
        """
        about = f"User {user_id!r}" if session_id is None else f"Session {session_id!r}"
        with self.database.reading(about) as connection:
            session = None if session_id is None else find(connection, session_id, user_id)
            owner = user_id if session is None else session.user_id or user_id
            own = SessionSettings() if session is None else settings_of(session)
            return own.over(settings_of_user(connection, owner))

    asettings = in_thread(settings)

    def lease(self, session_id: str, owner: str, seconds: float) -> bool:
        """Take the lease on summarizing a session, across processes.

        One that would run for longer than the one asked for is void: it is from a clock ahead.

        Args:
            session_id: Names the conversation.
            owner: Who takes it; the same owner may take it again.
            seconds: How long it runs if it is not given back.

        Returns:
            Whether it is this owner's now; False while another's runs, or without a session.
        """
        with self._writing(session_id) as connection:
            session = find(connection, session_id)
            if session is None:
                return False
            now = time.time()
            until, end = session.leased_until or 0.0, now + seconds
            is_free = session.leased_by in {None, owner} or not now < until <= end
            if is_free:
                save(connection, session, leased_by=owner, leased_until=end)
            return is_free

    def release(self, session_id: str, owner: str) -> None:
        """Give the lease back; another owner's stays."""
        with self._writing(session_id) as connection:
            session = find(connection, session_id)
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

        It may be run again at any time: what is there stays as it is, what the source has beyond
        that is appended, and an import that was interrupted goes on. Messages keep their ids; one
        without an id gets one from its place and content. One whose id the session has for
        other words is stored under a made-up id. Messages keep the times that they bring; one
        without has that of the message before it.

        A summary at its beginning, as `SummarizationMiddleware` leaves it, becomes the first entry
        of a new session's summary.

        Args:
            source: Any `BaseChatMessageHistory`, or messages in any form that LangChain takes. A
                `SQLChatMessageHistory` is read from its table in pages.
            session_id: Names the session to import into.
            user_id: Its owner.
            summary: Text of the summary that a `ConversationSummaryMemory` has.
            summary_covers: How many messages of the source `summary` is about, system messages not
                counted; 0 where these are not in the source any more.
            now: Time of messages before the first one that has one; default: the current time.
            progress: Called after each page with the number of messages that are done.

        Raises:
            ScopeError: When the session belongs to another user.
            ConfigurationError: When the source is no source of messages.
            HistoryImportError: When it cannot be imported from some place on, which it names.
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
        """Give a whole session as lines of JSON, read in pages.

        The first line has owner, budget and memory state; each other one a message as it is stored,
        with id, time and edits. `import_session` makes the same session of them.

        Args:
            session_id: Names the session.
            user_id: Who asks; the session must be theirs.

        Raises:
            ScopeError: When there is no such session, or it belongs to another user.
            CorruptStoreError: When something of it is damaged.
        """
        return export_lines(self.database, session_id, user_id)

    def import_session(
        self,
        lines: Iterable[Line],
        session_id: str | None = None,
        *,
        user_id: str | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Make a session of the lines of `export_session`.

        Messages that the session has are left as they are; the state comes along where the session
        has none.

        Args:
            lines: The lines of one session; each may be a pair of its place, which errors name, and
                the line.
            session_id: Another name for it.
            user_id: Another owner.
            progress: Called after each page with the number of messages that are done.

        Raises:
            HistoryImportError: When a line is no line of an export; the error says which one, and
                how many messages are stored.
            ScopeError: When the session belongs to another user.
            StoreError: When the session is a thread with checkpoints.
        """
        return import_lines(
            self._page_writer, lines, session_id, user_id=user_id, progress=progress
        )

    aimport_session = in_thread(import_session)

    def _page_writer(self, session_id: str, user_id: str | None, now: datetime) -> PageWriter:
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
        """Delete whole sessions that nobody has used for some time, for good.

        A session goes with its state, documents, notes of `SqlStore`, index entries, vectors and,
        as a thread, checkpoints and sub-graphs: all that `erase` deletes. It stays while something
        is pinned in it, and while it is marked (`keep_session`). The last message, edit,
        checkpoint, document or note counts, by its own time; a session without any of them stays.

        Sessions go in batches, a transaction each, in which their activity is asked once more: one
        that somebody has come back to is not lost. Run it again after an interruption: it goes on
        where it stopped. `Recall.expire` empties Chroma in the same go.

        Args:
            inactive_for: How long; default: that of the store.
            dry_run: Whether it is only said which sessions would go.
            now: The current time; default: that of the clock.
            progress: Called after each batch with the number of sessions that are gone.

        Returns:
            Which sessions are gone, how many rows of each kind, and what stays for which reason.

        Raises:
            ConfigurationError: When no time is given, or it is none.
            StoreError: When the database cannot delete; batches before it are done.

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
        """Mark a session: `expire` leaves it alone, however long it is inactive.

        Args:
            session_id: Names the conversation, which may begin later.
            keep: False takes the mark back.
            user_id: Who asks; the session must be theirs.

        Raises:
            ScopeError: When the session belongs to another user.
        """
        with self._writing(checked_id(session_id)) as connection:
            mark_kept(connection, session_id, user_id, is_kept=keep)

    akeep_session = in_thread(keep_session)

    def kept_sessions(self) -> list[str]:
        """Return the ids of the sessions that are marked, in alphabetical order."""
        with self.database.reading("Marks of sessions") as connection:
            return kept_sessions(connection)

    akept_sessions = in_thread(kept_sessions)

    def stop_expiry(self, seconds: float = _END_SECONDS) -> None:
        """Let the automatic run end after the batch that is being deleted, if there is one."""
        self._is_closing = True
        job = self._expiry_runner.job("expiry")
        if job is not None:
            wait_for(job.future, seconds)
        self._is_closing = False

    def _on_change(self, change: Change) -> None:
        """Start the automatic run after a commit, where it may be due; the database says if."""
        every = self.policy.expire_every
        if change.kind == "erased" or every is None or time.monotonic() < self._next_expiry:
            return
        self._next_expiry = time.monotonic() + every.total_seconds()
        self._expiry_runner.start("expiry", self._expire_if_due)

    def _is_ahead(self, connection: Connection, now: datetime) -> bool:
        """Return whether the clock may be wrong: it is over a day ahead of all that was stored.

        What this process stores itself proves nothing; how long it runs is measured otherwise.
        """
        seen = newest_activity(connection, self._opened_at) or self._opened_at
        if now - seen <= timedelta(seconds=time.monotonic() - self._opened_on) + _MOST_AHEAD:
            return False
        logger.warning(
            "Inactive sessions did not expire: it is %s by the clock, the newest activity before "
            "this process is from %s. If the clock is right, call expire() or `tokenmem expire`.",
            f"{now:%Y-%m-%d %H:%M}",
            f"{seen:%Y-%m-%d %H:%M}",
        )
        return True

    def _expire_if_due(self) -> None:
        """Do the automatic run, unless one of another process was recent enough."""
        now = datetime.now(UTC)
        every = self.policy.expire_every or timedelta(0)
        try:
            with self.database.writing("Expiring sessions") as connection:
                if self._is_ahead(connection, now) or not claim_run(connection, now, now - every):
                    return
            expiry = Expiry(self.database, self.index, self.policy.since(now))
            expiry.goes_on = lambda: not self._is_closing
            report = expiry.run(dry_run=False)
        except TokenMemoryError as error:
            logger.warning("Inactive sessions did not expire: %s", error)
            return
        except Exception:  # a thread has nobody above it to tell
            logger.exception("Inactive sessions did not expire.")
            return
        logger.info("%s sessions expired.", f"{len(report.expired):,}")


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
