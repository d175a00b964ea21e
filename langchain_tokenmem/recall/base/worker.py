"""Background thread that ends when there is nothing to do."""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections.abc import Callable

from langchain_tokenmem.errors import TokenMemoryError

logger = logging.getLogger(__name__)

_END_SECONDS = 10.0
"""Time that the end of a process waits for the batch that is being written."""


class Worker:
    """Runs one piece of work in the background, again for as long as it was asked for meanwhile.

    A failure is logged once, until it has succeeded again. The thread is a daemon: a service that
    never answers must not keep a process alive.

    Args:
        work: What to do. It looks at `is_stopping` between its batches.
        name: Name of the thread.
    """

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work = work
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_wanted = False
        self._has_warned = False
        self.is_stopping = False
        _at_exit(self)

    def wake(self) -> None:
        """Have the work done soon; never blocks, never raises."""
        with self._lock:
            self._is_wanted = not self.is_stopping
            # A fork takes the object along, and not the thread.
            is_there = self._thread is not None and self._thread.is_alive()
            if is_there or self.is_stopping:
                return
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._is_wanted or self.is_stopping:
                    self._thread = None
                    return
                self._is_wanted = False
            self._try()

    def _try(self) -> None:
        try:
            self._work()
        except TokenMemoryError as error:
            if not self._has_warned:
                logger.warning("%s", error)
            self._has_warned = True
        except Exception:  # a thread has nobody above it to tell
            logger.exception("Indexing in the background failed; messages wait in the outbox.")
        else:
            self._has_warned = False

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is being done; return whether that is so."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)
        return self._thread is None

    def stop(self, seconds: float = _END_SECONDS) -> None:
        """Stop after the batch that is being written; may be woken again by `start`."""
        self.is_stopping = True
        self.wait(seconds)

    def start(self) -> None:
        """Take back `stop`."""
        self.is_stopping = False


def _at_exit(worker: Worker) -> None:
    reference = weakref.ref(worker)

    def stop() -> None:
        alive = reference()
        if alive is not None:
            alive.stop()

    atexit.register(stop)
    weakref.finalize(worker, atexit.unregister, stop)
