"""LangChain documents as texts of the index."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from langchain_core.documents import Document

from langchain_tokenmem.core.search_units import Source
from langchain_tokenmem.errors import ConfigurationError


def as_source(document: Document, session_id: str | None, user_id: str | None) -> Source:
    """Return a document as it is stored; without an id it gets one from what it says.

    Raises:
        ConfigurationError: When it is no document.
    """
    if not isinstance(document, Document):
        raise ConfigurationError(
            f"{type(document).__name__} is no document; make one with "
            f"langchain_core.documents.Document(page_content=..., id=...)."
        )
    said = document.page_content.encode("utf-8", "surrogatepass")
    return Source(
        seq=0,
        text=document.page_content,
        role="document",
        created_at=datetime.now(UTC),
        source_id=document.id or f"doc-{hashlib.blake2b(said, digest_size=16).hexdigest()}",
        session_id=session_id,
        user_id=user_id,
        metadata=document.metadata,
    )
