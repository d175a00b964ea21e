"""A LangChain document as it is stored: its id and time."""

from __future__ import annotations

import hashlib
from datetime import date, datetime

from langchain_core.documents import Document

from langchain_tokenmem.core.search_units import IndexSource
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.message_json import moment_of


def document_source(
    document: Document, session_id: str | None, user_id: str | None, now: datetime
) -> IndexSource:
    """Return a document as it is stored.

    Args:
        document: Without an id it gets one from what it says, and from the document that it is a
            part of.
        session_id: The session that it belongs to.
        user_id: Its user.
        now: Its time, where its metadata have no `created_at`.

    Raises:
        ConfigurationError: When it is no document, or what is given no time.
    """
    if not isinstance(document, Document):
        raise ConfigurationError(
            f"{type(document).__name__} is no document; make one with "
            f"langchain_core.documents.Document(page_content=..., id=...)."
        )
    whole = document.metadata.get("document_id")
    said = f"{whole}\n{document.page_content}" if whole else document.page_content
    digest = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return IndexSource(
        seq=0,
        text=document.page_content,
        role="document",
        created_at=_created_at(document, now),
        source_id=document.id or f"doc-{digest}",
        session_id=session_id,
        user_id=user_id,
        metadata=document.metadata,
    )


def _created_at(document: Document, now: datetime) -> datetime:
    given = document.metadata.get("created_at")
    if given is None:
        return now
    is_day = isinstance(given, date) and not isinstance(given, datetime)
    found = moment_of(given.isoformat() if is_day else given)
    if found is None:
        raise ConfigurationError(
            f'metadata["created_at"] of document {document.id!r} is {given!r}; give a datetime, '
            f"ISO 8601 or seconds since 1970."
        )
    return found
