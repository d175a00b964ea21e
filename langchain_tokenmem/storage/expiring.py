"""Expires inactive sessions, batch by batch; a run that was killed goes on with the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy import Column, Connection, func, insert, select, update

from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec, Transaction
from langchain_tokenmem.storage.checkpoints.tables import namespaces
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.database.tables import facts
from langchain_tokenmem.storage.erasing import erase_threads
from langchain_tokenmem.storage.expiry_policy import ExpiryReport
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.session_activity import (
    SessionVerdict,
    inactive_threads,
    verdicts,
)
from langchain_tokenmem.storage.transcripts.tables import messages, sessions

_PAGE = 500
"""Sessions that are looked at in one read."""

_MOST_SESSIONS = 100
"""Sessions that are deleted in one transaction: for each of these, all names are looked through for
sub-graphs."""

_MOST_MESSAGES = 5_000
"""Messages that are deleted in one transaction, unless one session has more: other writers wait."""

_ABOUT = "Expiring sessions"
_LAST_RUN = "expired_at"


@dataclass
class Expiry:
    """One run over all sessions of a database.

    Args:
        database: The database.
        index: Whose listeners are told.
        codec: Reads checkpoints, to see what is pinned in them.
        since: Sessions that were active then or later stay.
        goes_on: Asked before each batch.
        progress: Called after each batch with the number of sessions that are gone.
    """

    database: Database
    index: IndexStore
    codec: Codec
    since: datetime
    goes_on: Callable[[], bool] = lambda: True
    progress: Callable[[int], None] = lambda _: None
    _expired: dict[str, str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    _staying: dict[str, SessionVerdict] = field(default_factory=dict)

    def run(self, *, dry_run: bool) -> ExpiryReport:
        """Delete what is inactive, or only say what that is."""
        for page in self._pages():
            with self.database.reading(_ABOUT) as connection:
                threads = inactive_threads(connection, page, self.since)
                found = verdicts(Transaction(connection, self.codec), threads, self.since)
            self._note(found)
            going = [
                one for one in found if one.verdict == "expired" and one.key not in self._expired
            ]
            for batch in _batches(going):
                if not self.goes_on():
                    return self._report(dry_run=dry_run)
                if dry_run:
                    self._expired |= {one.key: one.session_id for one in batch}
                    self._counts["messages"] += sum(one.messages for one in batch)
                else:
                    self._delete_readable(batch)
                self.progress(len(self._expired))
        return self._report(dry_run=dry_run)

    def _pages(self) -> Iterator[list[str]]:
        """Yield the keys of all sessions, then of all threads; some of these have no session."""
        columns: tuple[Column[str], ...] = (sessions.c.session_key, namespaces.c.thread_key)
        for column in columns:
            last = ""
            while True:
                query = select(column).where(column > last).distinct().order_by(column).limit(_PAGE)
                with self.database.reading(_ABOUT) as connection:
                    page = [*connection.execute(query).scalars()]
                if not page:
                    break
                yield page
                last = page[-1]

    def _delete_readable(self, batch: Sequence[SessionVerdict]) -> None:
        """Delete threads; where one of them is damaged, each on its own, and that one stays."""
        try:
            self._delete([one.key for one in batch])
        except CorruptStoreError:
            if len(batch) == 1:
                self._note([replace(one, verdict="unreadable") for one in batch])
                return
            for one in batch:
                self._delete_readable([one])

    def _delete(self, threads: Sequence[str]) -> None:
        """Delete threads, but for those that were active, pinned or marked meanwhile."""
        with self.database.writing(_ABOUT) as connection:
            found = verdicts(Transaction(connection, self.codec), threads, self.since)
            going = [one for one in found if one.verdict == "expired"]
            keys = [key for one in going for key in one.sessions]
            ids = {name for one in going for name in one.sessions.values()}
            counts, gone = erase_threads(connection, [one.key for one in going], keys, ids)
        self._note(found)
        if going:
            self.database.forget_deleted()
            self.index.tell(Change("erased", gone))
        self._expired |= {one.key: one.session_id for one in going}
        self._counts.update(counts)

    def _note(self, found: Sequence[SessionVerdict]) -> None:
        self._staying |= {
            one.key: one for one in found if one.verdict in {"pinned", "kept", "unreadable"}
        }

    def _report(self, *, dry_run: bool) -> ExpiryReport:
        staying = Counter(one.verdict for one in self._staying.values())
        unreadable = [one for one in self._staying.values() if one.verdict == "unreadable"]
        return ExpiryReport(
            expired=tuple(self._expired.values()),
            counts=dict(self._counts),
            pinned=staying["pinned"],
            kept=staying["kept"],
            unreadable=tuple(one.session_id for one in unreadable),
            is_dry_run=dry_run,
        )


def _batches(found: Sequence[SessionVerdict]) -> Iterator[list[SessionVerdict]]:
    """Yield sessions in batches that one transaction can delete."""
    batch: list[SessionVerdict] = []
    for one in found:
        held = sum(each.messages for each in batch) + one.messages
        if batch and (len(batch) == _MOST_SESSIONS or held > _MOST_MESSAGES):
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def newest_time(connection: Connection, before: datetime) -> datetime | None:
    """Return the time of the newest message that is not after `before`."""
    last = (
        select(messages.c.created_at)
        .where(
            messages.c.session_key == sessions.c.session_key,
            messages.c.created_at <= before.isoformat(),
        )
        .order_by(messages.c.seq.desc())
        .limit(1)
        .correlate(sessions)
        .scalar_subquery()
    )
    found = connection.execute(select(func.max(last)).select_from(sessions)).scalar()
    return None if found is None else datetime.fromisoformat(found)


def claim_run(connection: Connection, now: datetime, since: datetime | None) -> bool:
    """Note that a run begins; return False where one has begun after `since`, in any process.

    A mark that lies in the future by more than that comes from a clock that was ahead: it is void.

    Args:
        connection: In a transaction that writes.
        now: The current time.
        since: None to claim it in any case.
    """
    seconds = round(now.timestamp())
    own = facts.c.name == _LAST_RUN
    last = connection.execute(select(facts.c.number).where(own).with_for_update()).scalar()
    if last is None:
        connection.execute(insert(facts).values(name=_LAST_RUN, number=seconds))
        return True
    if since is not None and since.timestamp() < last < seconds + (now - since).total_seconds():
        return False
    connection.execute(update(facts).where(own).values(number=seconds))
    return True
