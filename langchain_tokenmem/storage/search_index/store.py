"""`IndexStore`: access of recall to the search index, and the work of an append for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection

from langchain_tokenmem.core.search_units import (
    Analyser,
    Change,
    IndexSource,
    OutboxEntry,
    Scope,
)
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.search_index import documents, outbox, postings
from langchain_tokenmem.storage.search_index.edit_indexing import index_edits
from langchain_tokenmem.storage.search_index.index_sources import (
    source_of,
    sources_from,
    superseded_sources,
)
from langchain_tokenmem.storage.search_index.index_vectors import IndexVectors
from langchain_tokenmem.storage.search_index.lexical_indexing import index_batch, start_over
from langchain_tokenmem.storage.search_index.outbox import LEXICAL, VECTORS
from langchain_tokenmem.storage.search_index.partitions import (
    find_or_make_partition,
    keys_in_scope,
    move_to_user,
    owner_key,
    partitions_in_scope,
)
from langchain_tokenmem.storage.search_index.reader import IndexReader
from langchain_tokenmem.storage.transcripts.edits import current_rows, rows_with_superseded
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import TranscriptRow, read_some
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find

logger = logging.getLogger(__name__)

_ANALYSER = "analyser"

_BATCH = 50
"""Messages that are indexed in one transaction: an append waits for it, about 30 ms."""

_ABOUT = "The index of recall"


class IndexStore(IndexVectors):
    """The search index of a database; `TranscriptStore.index` is one.

    Args:
        database: The database of the transcripts.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._analyser: Analyser | None = None
        self._listeners: list[Callable[[Change], None]] = []
        self._is_ready = False
        self._lock = threading.Lock()

    # --- what the transcript calls

    def attach(self, analyser: Analyser) -> None:
        """Let every append write its lexical entries in its own transaction."""
        self._analyser = analyser
        self._is_ready = False

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` after each commit that changed something; return how to stop it."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def tell(self, change: Change) -> None:
        """Tell the listeners; what one of them raises is its own affair."""
        for listener in list(self._listeners):
            try:
                listener(change)
            except Exception:  # an index never fails a turn
                logger.exception("A listener of the store failed.")

    def appended(
        self, connection: Connection, session: SessionRow, rows: Sequence[TranscriptRow]
    ) -> Change:
        """Index new messages in the transaction that stores them, or note them in the outbox.

        `session` is the row as it was before.
        """
        move_to_user(connection, session)
        if rows:
            is_indexed = self._add_entries(connection, session, rows)
            lacking = [VECTORS] if is_indexed else [VECTORS, LEXICAL]
            outbox.enqueue(connection, lacking, session.key, rows[0].seq)
        return Change("added")

    def edited(
        self,
        connection: Connection,
        session: SessionRow,
        before: Sequence[TranscriptRow],
        after: Sequence[TranscriptRow],
    ) -> Change:
        """Replace what the index has of messages, in the transaction that edits them."""
        return index_edits(connection, self._analyser, session, before, after)

    def _add_entries(
        self, connection: Connection, session: SessionRow, rows: Sequence[TranscriptRow]
    ) -> bool:
        """Store the lexical entries of new messages; return False where that has to wait."""
        if self._analyser is None:
            return False
        try:
            entries = {row.seq: self._analyser.entries(source_of(row, session)) for row in rows}
        except Exception:  # an index never fails a turn; the outbox keeps what is missing
            logger.exception("Messages could not be analysed; they are not found yet.")
            return False
        partition = find_or_make_partition(
            connection, session.key, owner_key(session), session.first_seq - 1
        )
        is_next = partition.indexed_to == session.last_seq
        if is_next:
            postings.add_entries(connection, partition, entries, rows[-1].seq)
        return is_next

    # --- reading

    @contextmanager
    def reading(self, scope: Scope) -> Iterator[IndexReader | None]:
        """Give a consistent picture of a scope; None when nothing is indexed in it.

        Raises:
            ScopeError: When an id is blank, or the session belongs to another user.
        """
        with self._database.reading(_ABOUT) as connection:
            found = partitions_in_scope(connection, scope)
            yield None if found is None else IndexReader(connection, scope, found)

    def pending(
        self, index_name: str, *, scope: Scope | None = None, limit: int | None = None
    ) -> list[OutboxEntry]:
        """Return the partitions that an index (`lexical`, `vectors`) has not indexed whole."""
        among = None if scope is None else keys_in_scope(scope)
        with self._database.reading(_ABOUT) as connection:
            return outbox.pending(connection, index_name, among=among, limit=limit)

    def backlog(self) -> dict[str, int]:
        """Return for each index how many partitions it has not indexed whole."""
        with self._database.reading(_ABOUT) as connection:
            return outbox.backlog(connection)

    def sources_from(
        self, partition_key: str, from_seq: int, limit: int
    ) -> tuple[list[IndexSource], int]:
        """Return the texts of a partition from a number on, and the last number that there is."""
        with self._database.reading(_ABOUT) as connection:
            return sources_from(connection, partition_key, from_seq, limit)

    def superseded(self, scope: Scope) -> list[IndexSource]:
        """Return the words in a scope that edits superseded or hid, with their version."""
        with self._database.reading(_ABOUT) as connection:
            return superseded_sources(connection, scope)

    def history(
        self, scope: Scope, before: int | None, limit: int, *, include_superseded: bool = False
    ) -> list[IndexSource]:
        """Return the messages of a session in front of a number, the newest `limit`, in order.

        Raises:
            ScopeError: When an id is blank, or the session belongs to another user.
        """
        with self._database.reading(f"Session {scope.session_id!r}") as connection:
            session = find(connection, scope.session_id, scope.user_id)
            if session is None:
                return []
            end = session.last_seq + 1 if before is None else before
            start = max(session.first_seq, end - limit)
            found = read_some(connection, session, start, end - start) if end > start else []
            rows = rows_with_superseded if include_superseded else current_rows
            return [source_of(row, session) for row in rows(connection, session, found)]

    # --- documents

    def put_document(self, source: IndexSource, parts: Sequence[IndexSource] = ()) -> None:
        """Add a document, and its parts, to the session or user that it names.

        It takes the place of one of its id.

        Raises:
            ScopeError: When it names neither, or the session belongs to another user.
        """
        with self._database.writing("The documents of recall") as connection:
            partition, is_new = documents.put_document(connection, source, parts)
        self.tell(Change("added" if is_new else "cleared", [partition.number]))
        self.make_ready()
        if self._analyser is not None:
            with self._database.writing(_ABOUT) as connection:
                index_batch(connection, self._analyser, partition.key, _BATCH)

    def delete_document(
        self, document_id: str, *, session_id: str | None, user_id: str | None
    ) -> bool:
        """Delete a document; return whether there was one.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
        """
        with self._database.writing("The documents of recall") as connection:
            gone_from = documents.delete_document(connection, document_id, session_id, user_id)
        if gone_from is not None:
            self._database.forget_deleted()
            self.tell(Change("cleared", [gone_from]))
        return gone_from is not None

    def document(
        self, document_id: str, *, session_id: str | None, user_id: str | None
    ) -> list[IndexSource]:
        """Return a document and its parts; empty where there is none."""
        with self._database.reading("The documents of recall") as connection:
            return documents.find_document(connection, document_id, session_id, user_id)

    def count_documents(self, session_id: str | None, user_id: str | None) -> int:
        """Return how many documents there are, parts not counted."""
        with self._database.reading("The documents of recall") as connection:
            return documents.count_documents(connection, session_id, user_id)

    # --- the lexical index

    def index_lexical(
        self,
        scope: Scope | None = None,
        most: int | None = None,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> int:
        """Index what the lexical index lacks, of one scope or of all; return how many messages.

        Nothing happens without an analyser. At most `most` messages are indexed, those of the
        scope's own session first; `goes_on` is asked after each batch. A session that cannot be
        read is left in the outbox.
        """
        analyser = self._analyser
        if analyser is None:
            return 0
        self.make_ready()
        if not self.pending(LEXICAL, limit=1):
            return 0
        own = None if scope is None else key_of(scope.session_id)
        done = 0
        entries = self.pending(LEXICAL, scope=scope)
        for entry in sorted(entries, key=lambda entry: entry.partition_key != own):
            is_more = True
            while is_more and (most is None or done < most):
                size = _BATCH if most is None else min(_BATCH, most - done)
                try:
                    with self._database.writing(_ABOUT) as connection:
                        count, is_more = index_batch(
                            connection, analyser, entry.partition_key, size
                        )
                except CorruptStoreError as error:
                    logger.warning("It is not found by its words: %s", error)
                    break
                done += count
                if not goes_on():
                    return done
        return done

    def make_ready(self) -> None:
        """Begin the index anew where it was made by another version of the analyser."""
        analyser = self._analyser
        if analyser is None or self._is_ready:
            return
        with self._lock, self._database.writing(_ABOUT) as connection:
            if outbox.get_property(connection, _ANALYSER) != analyser.version:
                start_over(connection)
                outbox.set_property(connection, _ANALYSER, analyser.version)
        self._is_ready = True

    def rebuild_lexical(self) -> int:
        """Throw the lexical index away and make it anew; return how many messages it has."""
        with self._database.writing(_ABOUT) as connection:
            start_over(connection)
        return self.index_lexical()
