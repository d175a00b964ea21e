"""The part of a `TranscriptStore` that removes for good, and that imports and exports sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from langchain_tokenmem.background import in_thread
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.storage.codec import Codec, Serializer
from langchain_tokenmem.storage.importing import (
    HistoryImport,
    ImportReport,
    PageWriter,
    Progress,
    Source,
)
from langchain_tokenmem.storage.lifecycle import (
    ExpiryPolicy,
    ExpiryReport,
    claim_run,
    erase,
    expire_inactive,
)
from langchain_tokenmem.storage.redaction import (
    Redaction,
    RedactionScope,
    RemovalReceipt,
    purge_superseded,
)
from langchain_tokenmem.storage.redactor import Redactor
from langchain_tokenmem.storage.session_files import Line, export_lines, import_lines
from langchain_tokenmem.storage.sessions import find_or_make, save
from langchain_tokenmem.storage.store_reading import ReadableStore


class MaintainedStore(ReadableStore):
    """The methods of a store for who runs it: erase, redact, expire, import and export."""

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
        redactor = partial(Redactor, what, replacement)
        redactor()  # raises where it is none
        scope = RedactionScope(session_id, user_id, everywhere)
        self._check_user(session_id, user_id)
        codec = Codec(serde)
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
        self._check_user(session_id, user_id)
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
        since = policy.since(moment)
        if not dry_run:
            with self.database.writing("Expiring sessions") as connection:
                claim_run(connection, moment, None)
        return expire_inactive(
            *(self.database, self.index, since),
            dry_run=dry_run,
            progress=progress or (lambda _: None),
        )

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
        with self._writing(session_id, user_id) as (connection, session):
            if session is not None:
                session.is_kept = int(keep)
            elif keep:
                save(connection, find_or_make(connection, session_id, user_id), is_kept=1)

    akeep_session = in_thread(keep_session)

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

    def _page_writer(
        self, session_id: str, user_id: str | None, now: datetime, first: int | None = None
    ) -> PageWriter:
        self._check_user(session_id, user_id)
        return PageWriter(
            self.database, self.index, session_id, user_id=user_id, now=now, first=first
        )
