"""`TtlSweeper`: deletes expired items from time to time, with the methods of LangGraph's stores."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from concurrent.futures import Future

from langgraph.store.base import TTLConfig

from langchain_tokenmem.errors import StoreError

logger = logging.getLogger(__name__)

_INTERVAL_MINUTES = 5.0
"""As LangGraph's stores have it where no interval is set."""


class TtlSweeper:
    """Sweeps a store in a daemon thread."""

    ttl_config: TTLConfig | None

    def __init__(self) -> None:
        super().__init__()
        self._sweeper: threading.Thread | None = None
        self._sweeper_stops = threading.Event()

    @abstractmethod
    def sweep_ttl(self) -> int:
        """Delete expired items; return how many there were."""

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Delete expired items periodically, until `stop_ttl_sweeper`.

        Args:
            sweep_interval_minutes: Minutes between two sweeps; default: that of `ttl`, or 5.

        Returns:
            A future that is done when the sweeper ends; to cancel it ends the sweeper. Without
            settings for items that expire there is none, and the future is done.
        """
        ended: Future[None] = Future()
        if self.ttl_config is None:
            ended.set_result(None)
            return ended
        minutes = sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes")
        if self._sweeper is None or not self._sweeper.is_alive():
            self._sweeper_stops = threading.Event()
            self._sweeper = threading.Thread(
                target=self._sweep,
                args=(float(minutes or _INTERVAL_MINUTES) * 60, self._sweeper_stops, ended),
                name="tokenmem-ttl",
                daemon=True,
            )
            self._sweeper.start()
        stops = self._sweeper_stops
        ended.add_done_callback(lambda future: stops.set() if future.cancelled() else None)
        return ended

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper.

        Args:
            timeout: Most seconds to wait for it; None for as long as a sweep takes.

        Returns:
            Whether there is none any more.
        """
        self._sweeper_stops.set()
        if self._sweeper is not None:
            self._sweeper.join(timeout)
            if self._sweeper.is_alive():
                return False
            self._sweeper = None
        return True

    def _sweep(self, interval_s: float, stops: threading.Event, ended: Future[None]) -> None:
        while not stops.wait(interval_s):
            try:
                self.sweep_ttl()
            except StoreError as error:  # such as a database that is away: the next sweep may do it
                logger.warning("Expired items were not deleted: %s", error)
        if ended.set_running_or_notify_cancel():
            ended.set_result(None)
