"""The part of a `TranscriptStore` that takes sessions from elsewhere, and gives them away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from langchain_tokenmem.storage.database.async_wrappers import in_thread
from langchain_tokenmem.storage.imports.exporting import export_lines
from langchain_tokenmem.storage.imports.importing import HistoryImport, Source
from langchain_tokenmem.storage.imports.page_writer import ImportReport, PageWriter, Progress
from langchain_tokenmem.storage.imports.session_import import Line, import_lines
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.reader import TranscriptReader


class ImportingStore(TranscriptReader):
    """The part of a `TranscriptStore` that imports and exports sessions."""

    index: IndexStore

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
        writer = PageWriter(self._database, self.index, session_id, user_id=user_id, now=moment)
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
        return export_lines(self._database, session_id, user_id)

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
        parts = (self._database, self.index)
        return import_lines(parts, lines, session_id, user_id=user_id, progress=progress)

    aimport_session = in_thread(import_session)
