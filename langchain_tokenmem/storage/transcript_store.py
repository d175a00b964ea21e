"""`TranscriptStore`: transcripts and memory states of sessions in SQLite or PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from langchain_core.messages import BaseMessage
from sqlalchemy import delete

from langchain_tokenmem.background import in_thread
from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.messages import is_inserted
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.storage.codec import Codec, Serializer
from langchain_tokenmem.storage.importing import (
    ImportReport,
    PageWriter,
    Progress,
    Source,
    import_history,
)
from langchain_tokenmem.storage.lifecycle import (
    ExpiryPolicy,
    ExpiryReport,
    erase,
    expire_inactive,
)
from langchain_tokenmem.storage.message_json import EncodedMessage
from langchain_tokenmem.storage.redaction import (
    Redaction,
    RedactionScope,
    RemovalReceipt,
    purge_superseded,
)
from langchain_tokenmem.storage.redactor import Redactor
from langchain_tokenmem.storage.session_files import Line, export_lines, import_lines
from langchain_tokenmem.storage.session_store import SessionStore
from langchain_tokenmem.storage.sessions import checked_id, has_checkpoints
from langchain_tokenmem.storage.tables import messages, terms, vectors
from langchain_tokenmem.storage.thread_messages import edit, take_out
from langchain_tokenmem.storage.transcripts import append


class TranscriptStore(SessionStore):
    """Append-only transcripts in SQLite or PostgreSQL, with a memory state for each session.

    One store may be shared between threads and event loops; several processes may use one
    database. Async methods run the sync method in a thread. Damage is an error, never a shorter
    history.

    Args:
        url: `sqlite:///file.db`, `sqlite://` (in memory), `postgresql+psycopg://...`, or the path
            of a SQLite file. Default: the file `tokenmem.db` in the working directory.
        pool_size: Maximum number of connections; a SQLite file has one more, for writing.
        engine: Your own SQLAlchemy engine for PostgreSQL, instead of a URL, with its pool and, by
            the execution option `schema_translate_map={None: "memory"}`, its schema. `close`
            leaves it open.
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
        content, if one message of the overlap has a known id, or if the overlap is the whole
        transcript and either more than one turn or the beginning of a longer batch. So a list that
        is sent in full at every turn is stored once, and a second "yes" is stored again.

        What the memory itself has put into a view that is handed back is left out.

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
        new = [message for message in as_messages(new) if not is_inserted(message)]
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
        """Edit a message; earlier wordings are superseded.

        In a thread of a `TokenMemorySaver` the newest checkpoint is edited too, so that the next
        request has the new wording; older checkpoints are not changed.

        Args:
            session_id: The session or thread.
            message_id: The message.
            message: The new message; its own id is ignored.
            user_id: The user who asks; the session must belong to them.
            serde: The serializer of the saver, if it was given one.

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
        """Hide messages from views and searches; return how many there were.

        They remain readable with `include_superseded`.

        Args:
            session_id: The session.
            ids: The messages; unknown ids are ignored.
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

    # --- for the operator of the store

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
        with self.database.writing("Erasing", undo=dry_run) as connection:
            counts, gone = erase(connection, self._users, session_id, user_id)
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
        entry again. Terms and vectors are made again. A turn or a summary in progress has to
        load again before it commits. SQLite's file is then rewritten (VACUUM), and everything is
        read back. `TokenMemory.redact` also reaches Chroma, notes in other stores and this process.

        Args:
            what: The words exactly as they are written, or a compiled pattern, which is searched
                in each text and must match a whole number.
            replacement: Text that replaces them.
            session_id: The session or thread, with its sub-graphs.
            user_id: All sessions and notes of the user; with a session id, its owner.
            everywhere: The whole database.
            dry_run: Only count.
            serde: The serializer of the `TokenMemorySaver`, if it was given one.

        Returns:
            What was found where, and what could not be reached.

        Raises:
            ScopeError: When no scope is named, or the session belongs to another user.
            ConfigurationError: When the words are empty, or the replacement contains them.
            RedactionError: When the words are still found afterwards.

        Example:
            >>> from langchain_core.messages import HumanMessage
            >>> with TranscriptStore("sqlite://") as store:
            ...     _ = store.add("s1", [HumanMessage("My card is 4111 1111.")])
            ...     receipt = store.redact("4111 1111", session_id="s1")
            ...     receipt.counts, store.messages("s1")[0].content
            ({'messages': 1}, 'My card is [redacted].')
        """
        redactor = partial(Redactor, what, replacement)
        redactor()  # raises if the arguments are invalid
        scope, codec = RedactionScope(self._users, session_id, user_id, everywhere), Codec(serde)
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

        A wording that a checkpoint of the thread still has is kept, and the receipt reports it.

        Args:
            session_id: The session or thread, with its sub-graphs.
            user_id: All sessions of the user; with a session id, its owner.
            everywhere: The whole database.
            serde: The serializer of the `TokenMemorySaver`, if it was given one.

        Raises:
            ScopeError: When no scope is named, or the session belongs to another user.
            CorruptStoreError: When a checkpoint cannot be read.
        """
        scope = RedactionScope(self._users, session_id, user_id, everywhere)
        return purge_superseded(self.database, Codec(serde), scope)

    apurge_superseded = in_thread(purge_superseded)

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
        A session with a pin, or marked by `keep_session`, is kept. Activity is the last message,
        edit, checkpoint, document or note; a session without any of them is kept.

        Each batch is one transaction, which checks activity again. An interrupted run continues
        when it is repeated. `Recall.expire` also deletes from Chroma.

        Args:
            inactive_for: Time without activity; default: the store's own.
            dry_run: Only report which sessions would be deleted.
            now: The current time; default: by the clock.
            progress: Called after each batch with the number of deleted sessions.

        Returns:
            Which sessions were deleted, how many rows of each kind, and what was kept and why.

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
        since = policy.since((now or datetime.now(UTC)).astimezone(UTC))
        return expire_inactive(self.database, self.index, since, dry_run=dry_run, progress=progress)

    aexpire = in_thread(expire)

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
        continues. Messages keep their ids. A message without an id gets one made from its position
        and content; a message whose id is already used by another one gets a new id. Messages keep
        their times; a message without a time gets the time of the one before it.

        A summary at its beginning, as `SummarizationMiddleware` leaves it, becomes the first entry
        of a new session's summary.

        Args:
            source: Any `BaseChatMessageHistory`, or messages in any form that LangChain accepts. A
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
        writer = self._page_writer(session_id, user_id, now or datetime.now(UTC))
        return import_history(
            writer, source, summary=summary, covers=summary_covers, progress=progress
        )

    aimport_history = in_thread(import_history)

    def export_session(self, session_id: str, *, user_id: str | None = None) -> Iterator[str]:
        """Yield a session as lines of JSON, read in pages.

        The first line has owner, budget and memory state, each other line a message with id, time
        and edits. `import_session` creates the same session from them.

        Args:
            session_id: The session.
            user_id: The user who asks; the session must belong to them.

        Raises:
            ScopeError: When there is no such session, or it belongs to another user.
            CorruptStoreError: When a part of it is damaged.
        """
        with self._reading(session_id, user_id):
            pass  # raises now, not at the first line
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

    def _page_writer(
        self, session_id: str, user_id: str | None, now: datetime, first: int | None = None
    ) -> PageWriter:
        with self._reading(session_id, user_id):
            pass  # raises now, before the source is read
        self.index.make_ready()
        writing = partial(self._making, session_id, user_id)
        return PageWriter(writing, self.index, now, first, ImportReport(session_id))
