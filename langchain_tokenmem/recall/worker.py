"""Indexing in the background, and what a search indexes before it answers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from langchain_tokenmem.background import BackgroundRunner, wait_at_exit, wait_for
from langchain_tokenmem.core.search_units import Scope
from langchain_tokenmem.errors import TokenMemoryError
from langchain_tokenmem.storage.search_index import SearchIndex

logger = logging.getLogger(__name__)

_END_SECONDS = 10.0
"""Seconds that the exit of the process waits for the current batch."""


class Worker:
    """Runs a function in the background; a failure is logged once until it succeeds again.

    Args:
        work: The function; it checks `is_stopping` between its batches.
        name: Name of the thread.
    """

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work = work
        self._runner = BackgroundRunner(name)
        self._has_warned = False
        self.is_stopping = False
        wait_at_exit(self.stop)

    def wake(self) -> None:
        """Run the function soon; never blocks or raises."""
        if not self.is_stopping:
            self._runner.start("work", self._try, again=True)

    def _try(self) -> None:
        if self.is_stopping:
            return
        try:
            self._work()
        except TokenMemoryError as error:
            if not self._has_warned:
                logger.warning("%s", error)
            self._has_warned = True
        except Exception:  # nothing above a thread would report it
            logger.exception("Indexing in the background failed; messages are indexed later.")
        else:
            self._has_warned = False

    def wait(self, seconds: float) -> bool:
        """Wait until the function is not running; return False on timeout."""
        job = self._runner.job("work")
        if job is None or job.thread is threading.current_thread():
            return job is None
        return wait_for(job.future, seconds)

    def stop(self) -> None:
        """Stop after the current batch, until `start`."""
        self.is_stopping = True
        self.wait(_END_SECONDS)

    def start(self) -> None:
        """Undo `stop`."""
        self.is_stopping = False


AT_ONCE = 2_000
"""Messages that a search indexes before answering: about a second of one core."""

_PAUSE_SECONDS = 0.05
"""Pause for other writers, which only poll for SQLite's lock."""


class LexicalBacklog:
    """Indexes messages from before the `Recall` existed, so that no search waits long for it.

    The first search of a history that is not indexed indexes up to `AT_ONCE` messages, starting
    with those of its session, and leaves the rest to a thread. Until that is done, searches find
    what is indexed, and `backlog()` shows the rest.

    Args:
        store: `TranscriptStore.index`.
    """

    def __init__(self, store: SearchIndex) -> None:
        self._store = store
        self._late: set[Scope] = set()
        self._worker = Worker(self._work, "tokenmem-words")

    def index_scope(self, scope: Scope) -> None:
        """Index the rest of a scope, in the background when it is long.

        Raises:
            StoreError: When the store cannot be read or written.
        """
        if scope not in self._late:
            done = self._store.index_lexical(scope, AT_ONCE)
            if done < AT_ONCE or not self._store.pending("lexical", scope=scope, limit=1):
                return
            if not self._late:
                logger.warning(
                    "A history of more than %s messages is not indexed yet. It is indexed in the "
                    "background; until then searches do not find the rest of it. recall.index() "
                    "indexes everything before it returns.",
                    f"{AT_ONCE:,}",
                )
            self._late.add(scope)
        self._worker.wake()

    def _work(self) -> None:
        late = set(self._late)
        self._store.index_lexical(keep_going=self._pause)
        if not self._worker.is_stopping:
            self._late -= late

    def _pause(self) -> bool:
        time.sleep(_PAUSE_SECONDS)
        return not self._worker.is_stopping

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is being indexed; return False on timeout."""
        return self._worker.wait(seconds)

    def close(self) -> None:
        """Stop after the current batch; the rest is indexed later."""
        self._worker.stop()
        self._worker.start()
