"""Importing and exporting sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from langchain_tokenmem.background import in_thread
from langchain_tokenmem.storage.importing import (
    HistoryImport,
    ImportReport,
    PageWriter,
    Progress,
    Source,
)
from langchain_tokenmem.storage.session_files import Line, export_lines, import_lines
from langchain_tokenmem.storage.store_base import StoreBase


class TransferStore(StoreBase):
    """The methods of a store that import and export sessions."""

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
