"""`TranscriptRetriever`: recall as a LangChain retriever."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from langchain_tokenmem.core.search_units import Hit
from langchain_tokenmem.core.thread_names import check_characters
from langchain_tokenmem.recall.recall import Recall

_OPTIONS = ("session_id", "user_id", "scope", "k", "max_tokens", "after", "before", "filter")
_SHOWN = ("message_id", "session_id", "role", "name", "created_at", "score", "why", "part")


class TranscriptRetriever(BaseRetriever):
    """Messages of a transcript that match a question, as documents.

    Each document has the id of its message, and in its metadata `message_id`, `session_id`,
    `role`, `name`, `created_at` (ISO 8601, UTC), `score`, `why` and `part`; a document that was
    added to the recall also has its own metadata, `document_id` and `parts`.

    Args:
        recall: The recall that is searched.
        session_id: The session that asks; not needed with `scope="user"`.
        user_id: The user who asks.
        scope: `session` for this session alone, `user` for all sessions of the user. Default: the
            recall's own, if a user is named.
        k: Maximum number of documents; `invoke(..., k=3)` overrides it.
        max_tokens: Maximum tokens of all documents together.
        after: Earliest time of a document, as `Recall.search` takes it.
        before: Time before which every document was said.
        filter: What a document's metadata must hold.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import Recall, TranscriptStore
        >>> store = TranscriptStore("sqlite://")
        >>> retriever = TranscriptRetriever(recall=Recall(store), session_id="s1")
        >>> _ = store.add("s1", [HumanMessage("The key is under the mat.")])
        >>> [document.page_content for document in retriever.invoke("the key")]
        ['The key is under the mat.']
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    recall: Recall
    session_id: str | None = None
    user_id: str | None = None
    scope: Literal["session", "user"] | None = None
    k: int = 20
    max_tokens: int | None = None
    after: datetime | date | str | None = None
    before: datetime | date | str | None = None
    filter: dict[str, Any] | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002  LangChain's signature
        **kwargs: Any,
    ) -> list[Document]:
        hits = self.recall.search(query, **self._options(kwargs))
        return [_document(hit) for hit in hits]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002
        **kwargs: Any,
    ) -> list[Document]:
        hits = await self.recall.asearch(query, **self._options(kwargs))
        return [_document(hit) for hit in hits]

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in _OPTIONS}
        options = {**own, **given}
        for what in ("session_id", "user_id"):
            if isinstance(options[what], str):
                check_characters(options[what], what)
        return options


def _document(hit: Hit) -> Document:
    about: dict[str, Any] = {name: getattr(hit, name) for name in _SHOWN}
    about["created_at"] = hit.created_at.isoformat()
    if hit.document_id is not None:
        about |= {"document_id": hit.document_id, "parts": hit.parts}
    return Document(hit.text, id=hit.message_id, metadata={**hit.metadata, **about})
