"""Removing for good: sessions, words, and what nobody has used for a while."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from langchain_tokenmem.background import in_thread
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.storage.codec import Serializer
from langchain_tokenmem.storage.lifecycle import (
    Expiry,
    ExpiryPolicy,
    ExpiryReport,
    claim_run,
    erase,
    kept_sessions,
    mark_kept,
)
from langchain_tokenmem.storage.redaction import (
    Redaction,
    RedactionScope,
    RemovalReceipt,
    purge_superseded,
)
from langchain_tokenmem.storage.redactor import Redactor
from langchain_tokenmem.storage.sessions import checked_id
from langchain_tokenmem.storage.store_base import StoreBase, codec_of


class ErasableStore(StoreBase):
    """The methods of a store that remove something for good, or mark what expiry keeps."""

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
        codec = codec_of(serde)
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
        return purge_superseded(self.database, codec_of(serde), scope)

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
