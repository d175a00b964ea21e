"""The part of a `TranscriptStore` that ends sessions: by hand, or while it is used."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from langchain_tokenmem.background import BackgroundRunner, wait_at_exit, wait_for
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import TokenMemoryError
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.serializer import StateSerializer
from langchain_tokenmem.storage.database.async_wrappers import in_thread
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.expiring import Expiry, claim_run, newest_time
from langchain_tokenmem.storage.expiry_policy import ExpiryPolicy, ExpiryReport
from langchain_tokenmem.storage.imports.store import ImportingStore
from langchain_tokenmem.storage.items.kept_sessions import drop_marks, mark, marked
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.sessions import checked_id, find

logger = logging.getLogger(__name__)

_END_SECONDS = 10.0
"""Time that the end of a process waits for the batch that is being deleted."""


_MOST_AHEAD = timedelta(days=1)
"""How far the clock may be ahead of what the database has seen before sessions expire by it."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ExpiringStore(ImportingStore):
    """The part of a `TranscriptStore` that ends sessions.

    Args:
        database: Where they are.
        index: The search index of the sessions.
        policy: When sessions expire without being asked for.

    Attributes:
        policy: The same.
        checkpoint_codec: Reads checkpoints of threads, to see what is pinned in them; a
            `TokenMemorySaver` with a key or types of its own puts its own here.
    """

    def __init__(self, database: Database, index: IndexStore, policy: ExpiryPolicy) -> None:
        super().__init__(database)
        self.index = index
        self.policy = policy
        self.checkpoint_codec = Codec(StateSerializer(), None)
        self._expiry_runner = BackgroundRunner("tokenmem-expiry")
        self._next_expiry = 0.0
        self._is_closing = False
        self._opened_at = _utc_now()
        self._opened_on = time.monotonic()
        if policy.is_on:
            index.listen(self._on_change)
            wait_at_exit(self.stop_expiry)

    def expire(
        self,
        inactive_for: timedelta | None = None,
        *,
        dry_run: bool = False,
        now: datetime | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ExpiryReport:
        """Delete whole sessions that nobody has used for some time, for good.

        A session goes with its state, documents, notes of `SqlStore`, index entries, vectors and,
        as a thread, checkpoints and sub-graphs: all that `erase` deletes. It stays while something
        is pinned in it, and while it is marked (`keep_session`). The last message, edit,
        checkpoint, document or note counts, by its own time; a session without any of them stays.

        Sessions go in batches, a transaction each, in which their activity is asked once more: one
        that somebody has come back to is not lost. Run it again after an interruption: it goes on
        where it stopped. `Recall.expire` empties Chroma in the same go.

        Args:
            inactive_for: How long; default: that of the store.
            dry_run: Whether it is only said which sessions would go.
            now: The current time; default: that of the clock.
            progress: Called after each batch with the number of sessions that are gone.

        Returns:
            Which sessions are gone, how many rows of each kind, and what stays for which reason.

        Raises:
            ConfigurationError: When no time is given, or it is none.
            StoreError: When the database cannot delete; batches before it are done.

        Example:
            >>> from langchain_core.messages import HumanMessage
            >>> from langchain_tokenmem import TranscriptStore
            >>> with TranscriptStore("sqlite://") as store:
            ...     long_ago = datetime(2020, 1, 31, tzinfo=UTC)
            ...     _ = store.add("old", [HumanMessage("hi")], now=long_ago)
            ...     _ = store.add("new", [HumanMessage("hi")])
            ...     store.expire(inactive_for=timedelta(days=30)).expired
            ('old',)
        """
        policy = self.policy if inactive_for is None else ExpiryPolicy(inactive_for=inactive_for)
        moment = (now or _utc_now()).astimezone(UTC)
        expiry = self._expiry(policy.since(moment))
        expiry.progress = progress or expiry.progress
        if not dry_run:
            with self._database.writing("Expiring sessions") as connection:
                claim_run(connection, moment, None)
        return expiry.run(dry_run=dry_run)

    aexpire = in_thread(expire)

    def keep_session(
        self, session_id: str, *, keep: bool = True, user_id: str | None = None
    ) -> None:
        """Mark a session: `expire` leaves it alone, however long it is inactive.

        Args:
            session_id: Names the conversation, which may begin later.
            keep: False takes the mark back.
            user_id: Who asks; the session must be theirs.

        Raises:
            ScopeError: When the session belongs to another user.
        """
        checked_id(session_id)
        with self._database.writing(f"Session {session_id!r}") as connection:
            find(connection, session_id, user_id)  # its row is locked, as expiry locks it
            if keep:
                mark(connection, session_id, _utc_now())
            else:
                drop_marks(connection, [session_id])

    akeep_session = in_thread(keep_session)

    def kept_sessions(self) -> list[str]:
        """Return the ids of the sessions that are marked, in alphabetical order."""
        with self._database.reading("Marks of sessions") as connection:
            return marked(connection)

    akept_sessions = in_thread(kept_sessions)

    def stop_expiry(self, seconds: float = _END_SECONDS) -> None:
        """Let the automatic run end after the batch that is being deleted, if there is one."""
        self._is_closing = True
        job = self._expiry_runner.job("expiry")
        if job is not None:
            wait_for(job.future, seconds)
        self._is_closing = False

    def _expiry(self, since: datetime) -> Expiry:
        return Expiry(self._database, self.index, self.checkpoint_codec, since)

    def _on_change(self, change: Change) -> None:
        """Start the automatic run after a commit, where it may be due; the database says if."""
        every = self.policy.expire_every
        if change.kind == "erased" or every is None or time.monotonic() < self._next_expiry:
            return
        self._next_expiry = time.monotonic() + every.total_seconds()
        self._expiry_runner.start("expiry", self._expire_if_due)

    def _is_ahead(self, connection: Connection, now: datetime) -> bool:
        """Return whether the clock may be wrong: it is over a day ahead of all that was stored.

        What this process stores itself proves nothing; how long it runs is measured otherwise.
        """
        seen = newest_time(connection, self._opened_at)
        run_for = timedelta(seconds=time.monotonic() - self._opened_on)
        expected = (seen or self._opened_at) + run_for
        if now - expected <= _MOST_AHEAD:
            return False
        logger.warning(
            "Inactive sessions did not expire: it is %s by the clock, the newest message before "
            "this process is from %s. If the clock is right, call expire() or `tokenmem expire`.",
            f"{now:%Y-%m-%d %H:%M}",
            f"{seen or self._opened_at:%Y-%m-%d %H:%M}",
        )
        return True

    def _expire_if_due(self) -> None:
        """Do the automatic run, unless one of another process was recent enough."""
        now = _utc_now()
        every = self.policy.expire_every or timedelta(0)
        try:
            with self._database.writing("Expiring sessions") as connection:
                if self._is_ahead(connection, now) or not claim_run(connection, now, now - every):
                    return
            expiry = self._expiry(self.policy.since(now))
            expiry.goes_on = lambda: not self._is_closing
            report = expiry.run(dry_run=False)
        except TokenMemoryError as error:
            logger.warning("Inactive sessions did not expire: %s", error)
            return
        except Exception:  # a thread has nobody above it to tell
            logger.exception("Inactive sessions did not expire.")
            return
        logger.info("%s sessions expired.", f"{len(report.expired):,}")
        if report.unreadable:
            logger.warning(
                "%s inactive sessions stay, because they cannot be read: %.200s",
                f"{len(report.unreadable):,}",
                ", ".join(map(repr, report.unreadable)),
            )
