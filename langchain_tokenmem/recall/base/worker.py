"""Background work of an index, done again for as long as it was asked for meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from langchain_tokenmem.background import BackgroundRunner, wait_at_exit, wait_for
from langchain_tokenmem.errors import TokenMemoryError

logger = logging.getLogger(__name__)

_END_SECONDS = 10.0
"""Time that the end of a process waits for the batch that is being written."""


class Worker:
    """Runs one piece of work in the background; a failure is logged once until it succeeds again.

    Args:
        work: What to do. It looks at `is_stopping` between its batches.
        name: Name of the thread.
    """

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work = work
        self._runner = BackgroundRunner(name)
        self._has_warned = False
        self.is_stopping = False
        wait_at_exit(self.stop)

    def wake(self) -> None:
        """Have the work done soon; never blocks, never raises."""
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
        except Exception:  # a thread has nobody above it to tell
            logger.exception("Indexing in the background failed; messages are indexed later.")
        else:
            self._has_warned = False

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is being done; return whether that is so."""
        job = self._runner.job("work")
        if job is None or job.thread is threading.current_thread():
            return job is None
        return wait_for(job.future, seconds)

    def stop(self, seconds: float = _END_SECONDS) -> None:
        """Stop after the batch that is being written; may be woken again by `start`."""
        self.is_stopping = True
        self.wait(seconds)

    def start(self) -> None:
        """Take back `stop`."""
        self.is_stopping = False
