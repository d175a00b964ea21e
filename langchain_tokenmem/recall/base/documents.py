"""Documents as they are stored: their id and time, the parts of a splitter, passages of parts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from langchain_core.documents import Document

from langchain_tokenmem.core.search_units import WHOLE_DOCUMENT, DocumentPart, IndexSource
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall.base.text_parts import indexable_text, parts_of
from langchain_tokenmem.storage.imports.given_times import moment_of

Splitter = Any
"""A LangChain `TextSplitter`, or anything else that has `split_documents` or `split_text`."""


def document_sources(
    document: Document,
    session_id: str | None,
    user_id: str | None,
    *,
    splitter: Splitter | None,
    now: datetime,
) -> list[IndexSource]:
    """Return a document as it is stored, and behind it its parts, if a splitter cuts it.

    Args:
        document: Without an id it gets one from what it says.
        session_id: The session that it belongs to.
        user_id: Its user.
        splitter: Makes its parts.
        now: Its time, where its metadata have no `created_at`.

    Raises:
        ConfigurationError: When it is no document, or what is given no time or splitter.
        RecallError: When the splitter fails.
    """
    if not isinstance(document, Document):
        raise ConfigurationError(
            f"{type(document).__name__} is no document; make one with "
            f"langchain_core.documents.Document(page_content=..., id=...)."
        )
    content = document.page_content.encode("utf-8", "surrogatepass")
    name = document.id or f"doc-{hashlib.blake2b(content, digest_size=16).hexdigest()}"
    pieces = [] if splitter is None else _pieces(document, splitter)
    if [piece.page_content for piece in pieces] == [document.page_content]:
        pieces = []

    def source(text: str, metadata: Mapping[str, Any], **more: Any) -> IndexSource:
        place = {"session_id": session_id, "user_id": user_id, "created_at": said_at}
        return IndexSource(**{"seq": 0, "text": text, "metadata": metadata, **place, **more})

    said_at = _created_at(document, now)
    role = WHOLE_DOCUMENT if pieces else "document"
    return [
        source(document.page_content, document.metadata, role=role, source_id=name),
        *(
            source(
                piece.page_content,
                piece.metadata,
                role="document",
                source_id=f"{name}#{number}",
                document_part=DocumentPart(name, number, len(pieces)),
            )
            for number, piece in enumerate(pieces)
        ),
    ]


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


def _pieces(document: Document, splitter: Splitter) -> list[Document]:
    """Return the parts that a splitter makes of a document; blank ones are left out."""
    if not (hasattr(splitter, "split_documents") or hasattr(splitter, "split_text")):
        raise ConfigurationError(
            f"{type(splitter).__name__} is no splitter; pass one of langchain_text_splitters, "
            f"such as RecursiveCharacterTextSplitter()."
        )
    try:
        if hasattr(splitter, "split_documents"):
            made = splitter.split_documents([document])
        else:
            made = splitter.split_text(document.page_content)
        # Those of Markdown and HTML give documents, with the headings in their metadata.
        found = [
            Document(each, metadata=document.metadata)
            if isinstance(each, str)
            else Document(each.page_content, metadata={**document.metadata, **each.metadata})
            for each in made
        ]
    except Exception as error:  # each splitter's own
        raise RecallError(
            f"{type(splitter).__name__} could not split document {document.id!r} "
            f"({type(error).__name__}: {error}). Nothing was added."
        ) from error
    return [piece for piece in found if piece.page_content.strip()]


def _starts(text: str, pieces: Sequence[Document]) -> list[int]:
    """Return where each part begins in a text; -1 for one that is not in it verbatim."""
    starts: list[int] = []
    at = 0
    for piece in pieces:
        given = piece.metadata.get("start_index")
        start = at
        if isinstance(given, int) and given >= 0 and text.startswith(piece.page_content, given):
            start = given
        start = text.find(piece.page_content, start)
        starts.append(start)
        at = max(at, start + 1)
    return starts


def passage(found: Sequence[IndexSource], part: int | None, neighbours: int) -> Document | None:
    """Return a stored document whole, or some of its parts as one text.

    Parts that stand in the document verbatim give the text from the first one to the last, so that
    nothing is doubled where they overlap; others are put below one another.

    Args:
        found: The document, then its parts.
        part: Number of the part; None for the whole document.
        neighbours: How many parts before and after it come along.

    Returns:
        The document, None where it has no such part. A passage has `document_id`, `part` and
        `parts` in its metadata.
    """
    whole, *stored = found
    if part is None:
        return Document(whole.text, id=whole.source_id, metadata=dict(whole.metadata))
    pieces = [Document(each.text, metadata=dict(each.metadata)) for each in stored] or [
        Document(each, metadata=dict(whole.metadata)) for each in parts_of(indexable_text(whole))
    ]
    if not 0 <= part < len(pieces):
        return None
    starts = _starts(whole.text, pieces)
    chosen = range(max(0, part - neighbours), min(len(pieces), part + neighbours + 1))
    if all(starts[number] >= 0 for number in chosen):
        ends = [starts[number] + len(pieces[number].page_content) for number in chosen]
        text = whole.text[starts[chosen[0]] : max(ends)]
    else:
        text = "\n".join(pieces[number].page_content for number in chosen)
    about = {"document_id": whole.source_id, "part": part, "parts": len(pieces)}
    return Document(
        text, id=f"{whole.source_id}#{part}", metadata={**pieces[part].metadata, **about}
    )
