"""Backlog of the lexical index: a little is indexed before a search, the rest in the background."""

from __future__ import annotations

import logging
import threading
import time

from langchain_tokenmem.core.search_units import Scope
from langchain_tokenmem.errors import TokenMemoryError
from langchain_tokenmem.recall.base.interfaces import SearchIndex
from langchain_tokenmem.recall.base.worker import Worker

logger = logging.getLogger(__name__)

AT_ONCE = 2_000
"""Messages that a search indexes before it answers: about a second of one core."""

_BATCH = 50
"""Messages that the worker indexes between two pauses, in one transaction: an append waits for
it, 30 ms on a quiet machine."""

_PAUSE_SECONDS = 0.05
"""Time for other writers: who waits for SQLite's lock looks at it every now and then only."""


class LexicalBacklog:
    """Indexes what was said before recall was there, so that no search waits long for it.

    The first search over a history that is not indexed indexes up to `AT_ONCE` messages, those of
    the session that asks first, and leaves the rest to a thread; until that is done, searches find
    what is indexed, and `backlog()` tells of it.

    Args:
        store: `TranscriptStore.index`.
    """

    def __init__(self, store: SearchIndex) -> None:
        self._store = store
        self._late: dict[Scope, None] = {}
        self._lock = threading.Lock()
        self._worker = Worker(self._work, "tokenmem-words")

    def index_scope(self, scope: Scope) -> None:
        """Index what a scope lacks, or have it indexed behind when that is much.

        Raises:
            StoreError: When the store cannot be read or written.
        """
        if scope not in self._late:
            done = self._store.index_lexical(scope, AT_ONCE)
            if done < AT_ONCE or not self._store.pending("lexical", scope=scope, limit=1):
                return
            self._add(scope)
        self._worker.wake()

    def _add(self, scope: Scope) -> None:
        with self._lock:
            is_first = not self._late
            self._late[scope] = None
        if is_first:
            logger.warning(
                "A history of more than %s messages is not indexed yet. It is indexed in the "
                "background; until then the rest of it is not found. recall.index() indexes "
                "everything before it returns.",
                f"{AT_ONCE:,}",
            )

    def _work(self) -> None:
        with self._lock:
            late = list(self._late)
        fault: TokenMemoryError | None = None
        for scope in late:
            try:
                self._drain(scope)
            except TokenMemoryError as error:  # the others must not wait for it
                fault = error
        if fault is not None:
            raise fault

    def _drain(self, scope: Scope) -> None:
        while not self._worker.is_stopping:
            if not self._store.index_lexical(scope, _BATCH):
                with self._lock:
                    self._late.pop(scope, None)
                return
            time.sleep(_PAUSE_SECONDS)

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is being indexed; return whether that is so."""
        return self._worker.wait(seconds)

    def close(self) -> None:
        """Stop after the batch that is being written; the rest stays in the outbox."""
        self._worker.stop()
        self._worker.start()
