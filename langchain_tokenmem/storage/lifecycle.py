"""The end of sessions: erased on request, or expired after a time without activity."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, delete, func, select

from langchain_tokenmem.background import BackgroundRunner, wait_at_exit, wait_for
from langchain_tokenmem.core.argument_checks import check_age
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.thread_names import NO_USER, namespace_label, thread_of
from langchain_tokenmem.errors import ConfigurationError, ScopeError, StoreError, TokenMemoryError
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.storage.database import Database, change_with, lock_threads, rows_with
from langchain_tokenmem.storage.message_json import from_json
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.sessions import (
    MESSAGES,
    OF_USER,
    Session,
    UserRule,
    checked_id,
    save_state,
    time_text,
)
from langchain_tokenmem.storage.tables import (
    fact,
    items,
    messages,
    sessions,
    set_fact,
    user_settings,
)
from langchain_tokenmem.storage.threads import delete_threads

logger = logging.getLogger(__name__)

_MOST_AHEAD = timedelta(days=1)
"""How far the clock may be ahead of the newest activity in the database; else nothing expires."""

_END_SECONDS = 10.0
"""Seconds that the exit of the process waits for the current batch."""

_MOST_SESSIONS = 100
_MOST_MESSAGES = 5_000
"""Maximum sessions and messages deleted in one transaction: other writers wait for it."""

_ABOUT = "Expiring sessions"
_LAST_RUN = "expired_at"


# --- erasing


def erase(
    connection: Connection, users: UserRule, session_id: str | None, user_id: str | None
) -> tuple[dict[str, int], list[int]]:
    """Delete everything of a session or a user, checkpoints of their threads and notes included.

    Returns:
        The number of deleted rows of each kind, and the numbers of the deleted sessions.

    Raises:
        ScopeError: When neither id is given, or the session belongs to another user.
        StoreError: When the session belongs to a sub-graph: it is deleted with its thread.
    """
    if session_id is not None:
        users.find(connection, session_id, user_id)  # raises if it belongs to another user
        if (thread := thread_of(session_id)) != session_id:
            raise StoreError(
                f"Session {session_id!r} belongs to a sub-graph, and nothing was deleted; erase "
                f"the session of its thread, {thread!r}, which deletes this one, too."
            )
        threads = [session_id]
    elif user_id is not None:
        own = sessions.c.user_id == checked_id(user_id, "user_id")
        threads = list(
            connection.execute(select(sessions.c.thread_id).where(own).distinct()).scalars()
        )
    else:
        raise ScopeError("Nothing is erased without a scope: name session_id= or user_id=.")
    lock_threads(connection, threads)
    notes = _erase_notes(connection, threads, session_id, user_id)
    if session_id is not None:
        _forget_quotes(connection, threads)
    counts, gone = delete_threads(connection, threads)
    counts["items"] = notes
    if session_id is None and user_id is not None:
        own = user_settings.c.user_id == user_id
        counts["user_settings"] = connection.execute(delete(user_settings).where(own)).rowcount
    return dict(counts), gone


def _erase_notes(
    connection: Connection, threads: Iterable[str], session_id: str | None, user_id: str | None
) -> int:
    """Delete the notes of sessions and, without a session id, all notes of the user."""
    names = {session_id} if session_id is not None else set()
    own = select(sessions.c.name).where(sessions.c.kind != OF_USER)
    names |= {row.name for row in rows_with(connection, own, sessions.c.thread_id, threads)}
    theirs = delete(items)
    if user_id is not None:
        theirs = theirs.where(items.c.owner.in_([NO_USER, namespace_label(user_id)]))
    count = change_with(connection, theirs, items.c.session, set(map(namespace_label, names)))
    if session_id is None and user_id is not None:
        whole = delete(items).where(items.c.owner == namespace_label(user_id))
        count += connection.execute(whole).rowcount
    return count


def _forget_quotes(connection: Connection, threads: Collection[str]) -> None:
    """Drop the memory blocks that quote erased texts from the states of the owner's other sessions.

    No other owner's session can have recalled them.
    """
    own = select(sessions.c.id, sessions.c.user_id)
    erased = rows_with(connection, own, sessions.c.thread_id, threads)
    ids = select(messages.c.message_id).where(messages.c.message_id.is_not(None))
    texts = rows_with(connection, ids, messages.c.session, [row.id for row in erased])
    quoted = {row.message_id for row in texts}
    for owner in {row.user_id for row in erased} - {None}:
        others = select(sessions).where(sessions.c.user_id == owner, sessions.c.state.is_not(None))
        for row in connection.execute(others.where(sessions.c.thread_id.not_in(threads))).all():
            session = Session(*row)
            state: MemoryState = from_json(row.state)
            blocks = state["blocks"]
            kept = {n: b for n, b in blocks.items() if quoted.isdisjoint(b["ids"])}
            if len(kept) < len(blocks):
                # A turn in progress must not put them back, nor a history show them again.
                session.edits += 1
                save_state(connection, session, {**state, "blocks": kept})


# --- expiring


@dataclass(frozen=True, kw_only=True)
class ExpiryPolicy:
    """Expiry of sessions while a store is in use.

    Args:
        inactive_for: Time without a new message, edit, checkpoint, document or note after which a
            session is deleted; None for never.
        expire_every: Minimum time between two automatic runs, across all processes on a database;
            None for manual runs only.

    Raises:
        ConfigurationError: When a time is invalid.

    Example:
        >>> ExpiryPolicy(inactive_for=timedelta(days=30), expire_every=timedelta(days=1)).is_on
        True
    """

    inactive_for: timedelta | None = None
    expire_every: timedelta | None = None

    def __post_init__(self) -> None:
        check_age("inactive_for", self.inactive_for)
        check_age("expire_every", self.expire_every)

    @property
    def is_on(self) -> bool:
        """Whether sessions expire automatically."""
        return self.inactive_for is not None and self.expire_every is not None

    def since(self, now: datetime) -> datetime:
        """Return the time since which a session must have been active to be kept.

        Raises:
            ConfigurationError: When `inactive_for` is None.
        """
        if self.inactive_for is None:
            raise ConfigurationError(
                "Say after which time a session expires: expire(inactive_for=timedelta(days=30)), "
                "or TranscriptStore(..., inactive_for=timedelta(days=30))."
            )
        return now - self.inactive_for


@dataclass(frozen=True)
class ExpiryReport:
    """Outcome of a run.

    A thread with its sub-graphs counts as one session.

    Attributes:
        expired: Ids of the deleted sessions; in a dry run, of those that would be deleted.
        counts: How many rows of each kind were deleted; in a dry run only `messages`.
        pinned: How many inactive sessions were kept because something is pinned in them.
        kept: How many were kept because they are marked (`keep_session`).
        is_dry_run: Whether nothing was deleted.
    """

    expired: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    pinned: int = 0
    kept: int = 0
    is_dry_run: bool = False


def expire_inactive(
    database: Database,
    index: SearchIndex,
    since: datetime,
    *,
    dry_run: bool = False,
    keep_going: Callable[[], bool] = lambda: True,
    progress: Callable[[int], None] | None = None,
) -> ExpiryReport:
    """Delete the inactive sessions of a database, or only report which they are.

    Args:
        database: The database.
        index: Its listeners are called.
        since: Sessions that were active then or later are kept.
        dry_run: Whether nothing is deleted.
        keep_going: Called before each batch; returns whether to continue.
        progress: Called after each batch with the number of deleted sessions.
    """
    with database.reading(_ABOUT) as connection:
        found = inactive_threads(connection, since)
    staying = {one.id: one for one in found if one.stays}
    expired: list[str] = []
    counts: Counter[str] = Counter()
    for batch in _batches([one for one in found if not one.stays]):
        if not keep_going():
            break
        threads = [one.id for one in batch]
        if dry_run:
            counts["messages"] += sum(one.messages for one in batch)
            expired += threads
        else:
            with database.writing(_ABOUT, *threads) as connection:
                # Some may have been active, pinned or marked meanwhile.
                again = inactive_threads(connection, since, threads)
                going = [one.id for one in again if not one.stays]
                counts["items"] += _erase_notes(connection, going, None, None)
                _forget_quotes(connection, going)
                more, numbers = delete_threads(connection, going)
            if going:
                database.forget_deleted()
                index.tell(Change("erased", numbers))
            counts.update(more)
            expired += going
            staying |= {one.id: one for one in again if one.stays}
        if progress is not None:
            progress(len(expired))
    kept = sum(one.is_kept for one in staying.values())
    return ExpiryReport(tuple(expired), dict(counts), len(staying) - kept, kept, is_dry_run=dry_run)


class AutomaticExpiry:
    """Runs `expire_inactive` after commits of a store, at most once per `expire_every`.

    Args:
        policy: When sessions expire; nothing is started if it is off.
        database: The database.
        index: Reports commits.
    """

    def __init__(self, policy: ExpiryPolicy, database: Database, index: SearchIndex) -> None:
        self._policy, self._database, self._index = policy, database, index
        self._runner = BackgroundRunner("tokenmem-expiry")
        self._next_run = 0.0
        self._is_closing = False
        self._opened_at, self._opened_on = datetime.now(UTC), time.monotonic()
        if policy.is_on:
            index.listen(self._on_change)
            wait_at_exit(self.stop)

    def stop(self) -> None:
        """Stop the automatic run after its current batch."""
        self._is_closing = True
        job = self._runner.job("expiry")
        if job is not None:
            wait_for(job.future, _END_SECONDS)
        self._is_closing = False

    def _on_change(self, change: Change) -> None:
        """Start the automatic run after a commit, if it may be due; the database decides."""
        every = self._policy.expire_every
        if change.kind == "erased" or every is None or time.monotonic() < self._next_run:
            return
        self._next_run = time.monotonic() + every.total_seconds()
        self._runner.start("expiry", self._expire_if_due)

    def _is_ahead(self, connection: Connection, now: datetime) -> bool:
        """Return whether the clock may be wrong: it is over a day ahead of all that was stored.

        What this process stored itself proves nothing; its uptime is measured independently.
        """
        # Sessions cannot show this: one that is active now has no earlier time stored.
        own = messages.c.created_at <= time_text(self._opened_at)
        found = connection.execute(select(func.max(messages.c.created_at)).where(own)).scalar()
        seen = datetime.fromisoformat(found) if found else self._opened_at
        if now - seen <= timedelta(seconds=time.monotonic() - self._opened_on) + _MOST_AHEAD:
            return False
        logger.warning(
            "Inactive sessions did not expire: it is %s by the clock, the newest activity before "
            "this process is from %s. If the clock is right, call expire() or `tokenmem expire`.",
            f"{now:%Y-%m-%d %H:%M}",
            f"{seen:%Y-%m-%d %H:%M}",
        )
        return True

    def _claims_run(self, connection: Connection, now: datetime) -> bool:
        """Record that a run starts; return False if one started recently, in any process.

        A mark in the future, from a clock that was ahead, counts no longer than one in the past.
        """
        every = self._policy.expire_every or timedelta(0)
        last: Any = fact(connection, _LAST_RUN, lock=True)
        if last and abs(now.timestamp() - last) < every.total_seconds():
            return False
        set_fact(connection, _LAST_RUN, round(now.timestamp()))
        return True

    def _expire_if_due(self) -> None:
        """Run automatically, unless another process did so recently enough."""
        now = datetime.now(UTC)
        try:
            with self._database.writing(_ABOUT) as connection:
                if self._is_ahead(connection, now) or not self._claims_run(connection, now):
                    return
            since = self._policy.since(now)
            report = expire_inactive(
                self._database, self._index, since, keep_going=lambda: not self._is_closing
            )
        except TokenMemoryError as error:
            logger.warning("Inactive sessions did not expire: %s", error)
            return
        except Exception:  # nothing above a thread would report it
            logger.exception("Inactive sessions did not expire.")
            return
        logger.info("%s sessions expired.", f"{len(report.expired):,}")


def inactive_threads(
    connection: Connection, since: datetime, among: Collection[str] | None = None
) -> list[Any]:
    """Return the threads without activity since a time, in alphabetical order.

    A session without any known activity is not returned. A row has `id`, `messages`, `is_kept`, and
    `stays` if it never expires.

    Args:
        connection: In a transaction.
        since: Threads that were active then or later are left out.
        among: The threads to check; None for all.
    """
    newest = func.max(sessions.c.active_at)
    counted = func.sum(sessions.c.last_seq - sessions.c.first_seq + 1).cast(BigInteger)
    query = select(
        sessions.c.thread_id.label("id"),
        counted.label("messages"),
        func.max(sessions.c.is_kept).label("is_kept"),
        func.max(sessions.c.is_kept + sessions.c.is_pinned).label("stays"),
    )
    query = query.where(sessions.c.kind != OF_USER)
    query = query.group_by(sessions.c.thread_id).having(newest < time_text(since))
    if among is None:  # by the index on times: grouping all sessions takes longer
        old = select(sessions.c.thread_id).where(sessions.c.active_at < time_text(since))
        query = query.where(sessions.c.thread_id.in_(old))
        rows: Sequence[Any] = connection.execute(query).all()
    else:
        rows = rows_with(connection, query, sessions.c.thread_id, among)
    labels = {row.id: namespace_label(row.id) for row in rows}
    changed = select(items.c.session).where(items.c.updated_at >= time_text(since)).distinct()
    noted = rows_with(connection, changed, items.c.session, labels.values())
    active = {row.session for row in noted}
    return [row for row in sorted(rows) if labels[row.id] not in active]


def _batches(found: Sequence[Any]) -> Iterable[list[Any]]:
    """Yield threads in batches that one transaction can delete."""
    batch: list[Any] = []
    for one in found:
        held = sum(each.messages for each in batch) + one.messages
        if batch and (len(batch) == _MOST_SESSIONS or held > _MOST_MESSAGES):
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def kept_sessions(connection: Connection) -> list[str]:
    """Return the ids of the sessions that are marked, in alphabetical order."""
    own = (sessions.c.is_kept == 1, sessions.c.kind == MESSAGES)
    return sorted(connection.execute(select(sessions.c.name).where(*own)).scalars())
