"""Maintenance of the indexes: documents, backlog, rebuilding, erasing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from langchain_core.documents import Document

from langchain_tokenmem.core.search_units import Change, IndexSource
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.recall.lexical.index import LexicalIndex
from langchain_tokenmem.recall.vectors.vector_index import VectorIndex
from langchain_tokenmem.storage.database.async_wrappers import in_thread
from langchain_tokenmem.storage.expiry_policy import ExpiryReport
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

        Args:
            documents: LangChain documents; one without an id gets one from what it says.
            session_id: The session that they belong to.
            user_id: The user that they belong to where no session is named: they are found with
                `scope="user"`.

        Returns:
            The ids, in order.

        Raises:
            ScopeError: When neither is named, or the session belongs to another user.
        """
        sources = [_as_source(each, session_id, user_id) for each in documents]
        if not sources and session_id is None and user_id is None:
            raise ScopeError("Documents belong to a session or a user: name one.")
        for source in sources:
            self._store.index.put_document(source)
        return [source.source_id for source in sources]

    aadd_documents = in_thread(add_documents)

    def delete(
        self, document_id: str, *, session_id: str | None = None, user_id: str | None = None
    ) -> bool:
        """Delete a document; return whether it was there. Once more does no harm.

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


def _as_source(document: Document, session_id: str | None, user_id: str | None) -> IndexSource:
    """Return a document as it is stored; without an id it gets one from what it says.

    Raises:
        ConfigurationError: When it is no document.
    """
    if not isinstance(document, Document):
        raise ConfigurationError(
            f"{type(document).__name__} is no document; make one with "
            f"langchain_core.documents.Document(page_content=..., id=...)."
        )
    content = document.page_content.encode("utf-8", "surrogatepass")
    return IndexSource(
        seq=0,
        text=document.page_content,
        role="document",
        created_at=datetime.now(UTC),
        source_id=document.id or f"doc-{hashlib.blake2b(content, digest_size=16).hexdigest()}",
        session_id=session_id,
        user_id=user_id,
        metadata=document.metadata,
    )
