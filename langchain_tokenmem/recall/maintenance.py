"""Maintenance of the indexes: documents, backlog, rebuilding, erasing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from langchain_core.documents import Document

from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.recall.base.documents import document_source
from langchain_tokenmem.recall.lexical.index import LexicalIndex
from langchain_tokenmem.recall.vectors.vector_index import VectorIndex
from langchain_tokenmem.storage.async_wrappers import in_thread
from langchain_tokenmem.storage.lifecycle import ExpiryReport
from langchain_tokenmem.storage.transcript_store import TranscriptStore

Erased = TypeVar("Erased")


class IndexMaintenance:
    """The part of `Recall` that maintains its indexes.

    Args:
        store: The transcripts.
        lexical: The index of words.
        dense: The index of meaning, where there is one.
    """

    def __init__(
        self, store: TranscriptStore, lexical: LexicalIndex, dense: VectorIndex | None
    ) -> None:
        self.lexical = lexical
        self._store = store
        self._dense = dense

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> list[str]:
        """Add documents to a session, or to a user; one with a known id takes the other's place.

        One that is there already, with the same text and metadata, stays as it is. Where
        `metadata["created_at"]` is given (a datetime, ISO 8601 or seconds since 1970), that is when
        it was said. A long document is indexed in parts of about 256 tokens. Where you split one
        yourself, name it in `metadata["document_id"]` of each part: hits tell it, `delete` deletes
        all of its parts, and successive parts are neighbours, as messages are.

        Args:
            documents: LangChain documents; one without an id gets one from what it says.
            session_id: The session that they belong to.
            user_id: The user that they belong to where no session is named: they are found with
                `scope="user"`.

        Returns:
            The ids, in order.

        Raises:
            ScopeError: When neither is named, or the session belongs to another user.
            ConfigurationError: When something is no document or no time; nothing was added.
        """
        now = datetime.now(UTC)
        sources = [document_source(each, session_id, user_id, now) for each in documents]
        if sources:
            self._store.index.put_documents(sources)
        elif session_id is None and user_id is None:
            raise ScopeError("Documents belong to a session or a user: name one.")
        return [source.source_id for source in sources]

    aadd_documents = in_thread(add_documents)

    def document(
        self,
        document_id: str,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> Document | None:
        """Return a document as it was added; None where there is none.

        Args:
            document_id: Its id, as in `Hit.message_id`.
            session_id: The session that it belongs to.
            user_id: The user that it belongs to where no session is named.

        Raises:
            ScopeError: When neither id is named, or the session belongs to another user.
            CorruptStoreError: When it is damaged.
        """
        found = self._store.index.document(document_id, session_id=session_id, user_id=user_id)
        if found is None:
            return None
        return Document(found.text, id=found.source_id, metadata=dict(found.metadata))

    adocument = in_thread(document)

    def count(self, session_id: str | None = None, user_id: str | None = None) -> int:
        """Return how many documents a session has, or a user; all in the store by default.

        Raises:
            ScopeError: When the session belongs to another user.
        """
        return self._store.index.count_documents(session_id, user_id)

    acount = in_thread(count)

    def delete(
        self, document_id: str, *, session_id: str | None = None, user_id: str | None = None
    ) -> bool:
        """Delete the document with an id, and all parts that name it; return whether any was there.

        Raises:
            ScopeError: When neither id is named, or the session belongs to another user.
        """
        return self._store.index.delete_document(
            document_id, session_id=session_id, user_id=user_id
        )

    adelete = in_thread(delete)

    def index(self) -> int:
        """Index now what the indexes lack; return how many messages and units it was.

        Raises:
            RecallError: When the embedding model or Chroma fails; nothing is lost.
        """
        done = self.lexical.index()
        return done + (self._dense.index() if self._dense is not None else 0)

    aindex = in_thread(index)

    def backlog(self) -> dict[str, int]:
        """Return how many partitions each index has not indexed whole: `lexical`, `vectors`."""
        found = self._store.index.backlog()
        return found if self._dense is not None else {"lexical": found["lexical"]}

    def rebuild(self, *, progress: bool = False) -> int:
        """Make every index anew from the transcript; return how many messages and units.

        Args:
            progress: Whether a bar is shown.
        """
        done = self._store.index.rebuild_lexical()
        return done + (self._dense.rebuild(progress=progress) if self._dense is not None else 0)

    arebuild = in_thread(rebuild)

    def erase(self, session_id: str | None = None, user_id: str | None = None) -> dict[str, int]:
        """Delete everything of a session, or of a user, from the store and from Chroma.

        Returns:
            How many entries of each kind were deleted.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
            RecallError: When Chroma could not delete; the store's part is done.
        """
        counts, gone = self._erasing(lambda: self._store.erase(session_id, user_id))
        return counts if gone is None else {**counts, "chroma": gone}

    aerase = in_thread(erase)

    def expire(
        self,
        inactive_for: timedelta | None = None,
        *,
        dry_run: bool = False,
        now: datetime | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ExpiryReport:
        """Do the same as `TranscriptStore.expire`, and delete the entries in Chroma with it.

        Raises:
            ConfigurationError: When no time is given, or it is none.
            RecallError: When Chroma could not delete; the store's part is done.
        """
        report, gone = self._erasing(
            lambda: self._store.expire(inactive_for, dry_run=dry_run, now=now, progress=progress)
        )
        if gone is None or dry_run:
            return report
        return replace(report, counts={**report.counts, "chroma": gone})

    aexpire = in_thread(expire)

    def _erasing(self, work: Callable[[], Erased]) -> tuple[Erased, int | None]:
        """Return what some work on the store gives, and how many entries of Chroma went with it.

        None stands for no index of meaning.
        """
        erased: list[int] = []

        def note(change: Change) -> None:
            if change.kind == "erased":
                erased.extend(change.partitions)

        stop = self._store.index.listen(note)
        try:
            done = work()
        finally:
            stop()
        return done, None if self._dense is None else self._dense.forget(erased)
