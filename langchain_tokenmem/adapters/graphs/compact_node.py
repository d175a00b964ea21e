"""`CompactNode`: shortens old tool results, and moves covered messages into an archive."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig

from langchain_tokenmem.adapters.graphs.archive import Archive, Removals, archive_covered
from langchain_tokenmem.adapters.graphs.nodes import TurnNode
from langchain_tokenmem.adapters.run_context import session_and_user
from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.turns.conversation import TurnResult
from langchain_tokenmem.turns.graph_thread import GraphThread


class CompactNode(TurnNode):
    """Shortens old tool results where it is due, without any model call, and writes the view.

    By default the graph's messages stay as they are. With an archive and `prune` the state stays
    bounded: messages that the running summary covers are written to the transcript store, read
    back, and only then removed, one by one by their ids; never a system message, a pinned one or
    one that the view still shows. Code that counts on an append-only list must not prune.

    Args:
        memory: Decides what is shown.
        folding_follows: Leave it to a `SummarizeNode` behind this one where shortening is not
            enough, so that the prefix changes once.
        archive: Keeps the transcript, under the thread's id.
        prune: Remove covered messages from the graph's state.
        keywords: Those of `MemoryNode`.

    Raises:
        ConfigurationError: When `prune` is asked for without an archive.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> "messages" in CompactNode(TokenMemory()).invoke({"messages": [HumanMessage("hi")]})
        False
    """

    _folds = False

    def __init__(
        self,
        memory: TokenMemory,
        *,
        folding_follows: bool = False,
        archive: TranscriptStore | None = None,
        prune: bool = False,
        **keywords: Any,
    ) -> None:
        if prune and archive is None:
            raise ConfigurationError(
                "prune=True removes messages from the graph's state: give the store that keeps "
                "them, CompactNode(memory, archive=TranscriptStore(...), prune=True)."
            )
        if archive is not None:
            line = "CompactNode(memory, archive=TranscriptStore(...))"
            checked(archive, TranscriptStore, "archive", line)
        super().__init__(memory, **{**keywords, "store": keywords.get("store") or archive})
        self._steps = "shorten_if_enough" if folding_follows else "shorten"
        self._is_last = not folding_follows
        self._archive = archive
        self._prune = prune

    def _removals(
        self, thread: GraphThread, result: TurnResult, config: RunnableConfig | None
    ) -> Removals:
        if self._archive is None:
            return Removals()
        session = session_and_user(config, shared_threads=self._shared_threads)
        archive = Archive(self._archive, *session, self.memory.before_store)
        found = archive_covered(archive, thread.messages, result.state)
        return found if self._prune else Removals()
