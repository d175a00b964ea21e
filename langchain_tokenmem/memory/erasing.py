"""Erases everything that a memory stores about a user or a session, in all of its stores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_tokenmem.background import in_thread
from langchain_tokenmem.core.argument_checks import checked_parts
from langchain_tokenmem.core.thread_names import NAMESPACE_SEPARATOR
from langchain_tokenmem.errors import ConfigurationError, RecallError, ScopeError
from langchain_tokenmem.memory.recalled_blocks import Recaller
from langchain_tokenmem.storage.redaction import RemovalReceipt
from langchain_tokenmem.storage.redactor import Redactor

if TYPE_CHECKING:
    from langchain_tokenmem.memory.finished_summaries import FinishedSummaries
    from langchain_tokenmem.notes.notebook import Notebook
    from langchain_tokenmem.storage.transcript_store import TranscriptStore

Counts = dict[str, int]


class ErasableMemory:
    """A memory that can erase the data of a user or a session from its stores.

    Attributes:
        recall: Recall with the transcripts' store and their vectors.
        notes: Notebook of kept notes.
        finished_summaries: Summaries of this process that may be reused.
    """

    recall: Recaller | None
    notes: Notebook | None
    finished_summaries: FinishedSummaries

    def erase(
        self,
        store: TranscriptStore | None = None,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        notes: Notebook | None = None,
    ) -> Counts:
        """Permanently delete all data of a session or a user from every store of this memory.

        Transcripts, states with pins and blocks, checkpoints of a `TokenMemorySaver`, settings,
        words and vectors are deleted with the transcripts' store; then notes in any store, also
        JSON files. All finished summaries of this memory are dropped, including those of others.
        A third-party store is checked again afterwards. A failure in one part does not skip the
        others; call the method again.

        Args:
            store: The transcripts; default: the store of this memory's recall.
            session_id: The session or thread; without it, all sessions of the user.
            user_id: The user; with a session id, its owner.
            notes: Notebook that this memory does not know. If its own notebook has no store:
                `Notebook(store)` with the store of the compiled graph.

        Returns:
            How many entries of each kind were found: `messages`, `sessions`, `checkpoints`, `notes`
            and others.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
            ConfigurationError: When the store of transcripts or notes is unknown.
            RecallError: When the vectors could not be deleted; the rest is done.
            StoreError: When a store still has notes that should have been deleted.

        Example:
            >>> from langchain_tokenmem import TokenMemory, TokenMemoryChatHistory, TranscriptStore
            >>> store, memory = TranscriptStore("sqlite://"), TokenMemory()
            >>> TokenMemoryChatHistory("s1", store=store, user_id="ann").add_user_message("hi")
            >>> memory.erase(store, user_id="ann")["messages"]
            1
        """
        transcripts, erasing, note_stores = self._stores(store, notes)
        self.finished_summaries.clear()
        if session_id is None and user_id is None:
            raise ScopeError("Pass the session_id or the user_id to erase.")
        sessions = _sessions_with_notes(transcripts, session_id, user_id) if note_stores else ()
        counts: Counts = {}
        failure = None
        try:
            counts = getattr(erasing, "erase", transcripts.erase)(session_id, user_id)
        except RecallError as error:  # the store's part is done; the notes are still there
            failure = error
        # Notes in the transcripts' own database count as notes, too.
        found = {name: count for name, count in counts.items() if name != "items"}
        found["notes"] = counts.get("items", 0)
        for other in note_stores:
            # Imported here: it needs LangGraph, which a memory without notes does not.
            from langchain_tokenmem.notes.erasing import erase_notes  # noqa: PLC0415

            found["notes"] += erase_notes(other, user_id, session_id, sessions)
        if failure is not None:
            raise failure
        return found

    aerase = in_thread(erase)

    def redact(
        self,
        what: str | re.Pattern[str],
        replacement: str = "[redacted]",
        *,
        store: TranscriptStore | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        everywhere: bool = False,
        dry_run: bool = False,
        notes: Notebook | None = None,
    ) -> RemovalReceipt:
        """Permanently remove words from every store of this memory; see `TranscriptStore.redact`.

        Notes in other stores are redacted, entries in the recall's index deleted, and the finished
        summaries of this process dropped.

        Args:
            what: The exact words, or a compiled pattern.
            replacement: Text that replaces them.
            store: The transcripts; default: the store of this memory's recall.
            session_id: The session or thread, with its sub-graphs.
            user_id: The user, with all sessions; with a session id, its owner.
            everywhere: All users.
            dry_run: Only count.
            notes: Notebook that this memory does not know, as in `erase`.

        Returns:
            What was found where, and what could not be reached.

        Raises:
            ScopeError: When no scope is named, or the session belongs to another user.
            ConfigurationError: When the words are empty, or the stores are unknown.
            RecallError: When the vectors could not be deleted; the transcripts are redacted.
            RedactionError: When the words are still found afterwards.
            StoreError: When a store still has notes with the words.
        """
        transcripts, redacting, note_stores = self._stores(store, notes)
        # Notes in the transcripts' own database are redacted with it.
        others = [one for one in note_stores if getattr(one, "store", None) is not transcripts]
        receipt: RemovalReceipt = getattr(redacting, "redact", transcripts.redact)(
            *(what, replacement),
            session_id=session_id,
            user_id=user_id,
            everywhere=everywhere,
            dry_run=dry_run,
        )
        self.finished_summaries.clear()
        sessions: Sequence[str] = ()
        if others and not everywhere:
            sessions = _sessions_with_notes(transcripts, session_id, user_id)
        for other in others:
            # Imported here: it needs LangGraph, which a memory without notes does not.
            from langchain_tokenmem.notes.erasing import redact_notes  # noqa: PLC0415

            redactor = Redactor(what, replacement)
            found = redact_notes(other, redactor, user_id, session_id, sessions, dry_run=dry_run)
            counts = Counter(receipt.counts) + Counter(found.counts)
            receipt = replace(
                receipt, counts=dict(counts), unreached=receipt.unreached + found.unreached
            )
        return receipt

    aredact = in_thread(redact)

    def _stores(
        self, store: TranscriptStore | None, notes: Notebook | None
    ) -> tuple[Any, Any, list[Any]]:
        """Return the transcripts' store, the object that erases in it, and the stores of notes.

        A recall on the same store deletes both its contents and the vectors.
        """
        line = "store=TranscriptStore(...)"
        recalled = self.recall.store if self.recall is not None else None
        transcripts: Any = store if store is not None else recalled
        if transcripts is None:
            raise ConfigurationError(
                f"Name the store of the transcripts: {line}. This memory has no recall."
            )
        checked_parts(transcripts, ("erase", "redact", "sessions"), "store", line)
        stores = [each.store for each in (self.notes, notes) if each is not None]
        # A graph may have the store of the memory's own notebook; its notes count once.
        found = [*{id(each): each for each in stores if each is not None}.values()]
        if stores and not found:
            raise ConfigurationError(
                "The notebook has no store of its own: name the one that has its notes, "
                "memory.erase(store, user_id=..., notes=Notebook(...)). It is the store= of "
                "graph.compile, or SqlStore(TranscriptStore()) where there was none."
            )
        return transcripts, self.recall if recalled is transcripts else transcripts, found


def _sessions_with_notes(
    transcripts: TranscriptStore, session_id: str | None, user_id: str | None
) -> Sequence[str]:
    """Return the user's sessions, or those of the sub-graphs of a thread."""
    if session_id is None:
        return transcripts.sessions(user_id=user_id)
    inner = f"{session_id}{NAMESPACE_SEPARATOR}"
    return [name for name in transcripts.sessions() if name.startswith(inner)]
