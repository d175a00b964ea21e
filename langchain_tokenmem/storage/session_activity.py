"""Inactive sessions: the last activity of each, and whether it may go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, and_, func, select

from langchain_tokenmem.core.note_namespaces import namespace_label
from langchain_tokenmem.core.thread_names import NAMESPACE_SEPARATOR
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Transaction
from langchain_tokenmem.storage.checkpoints.head_pins import (
    ThreadHead,
    has_pins,
    heads_of_threads,
    last_pending_write,
)
from langchain_tokenmem.storage.checkpoints.namespaces import lock_threads
from langchain_tokenmem.storage.checkpoints.thread_sessions import (
    sessions_of_threads,
    threads_by_session,
)
from langchain_tokenmem.storage.database.database import is_writer
from langchain_tokenmem.storage.items.kept_sessions import is_marked
from langchain_tokenmem.storage.items.rows import changes_of_sessions
from langchain_tokenmem.storage.search_index.partitions import session_documents
from langchain_tokenmem.storage.search_index.tables import documents
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import chunks
from langchain_tokenmem.storage.transcripts.sessions import checked_row
from langchain_tokenmem.storage.transcripts.states import stored_state
from langchain_tokenmem.storage.transcripts.tables import edits, messages, sessions

Verdict = Literal["expired", "active", "pinned", "kept", "unreadable"]


@dataclass(frozen=True, slots=True)
class SessionVerdict:
    """A session, or a thread with the sessions of its sub-graphs: what becomes of it.

    Attributes:
        key: Key of the thread; that of the session where there are no checkpoints.
        session_id: Its name.
        sessions: Ids of its sessions by their keys.
        messages: How many messages these have.
        verdict: Whether it goes, and why it does not.
    """

    key: str
    session_id: str
    sessions: Mapping[str, str]
    messages: int
    verdict: Verdict


def inactive_threads(connection: Connection, keys: Sequence[str], since: datetime) -> list[str]:
    """Return the keys of the threads that may be inactive, by the last times of some sessions.

    A session of which no time is known counts as active.

    Args:
        connection: In a transaction.
        keys: Keys of sessions and of threads.
        since: Whoever was active then or later is not meant.
    """
    names = _names(connection, keys)
    times = _last_times(connection, names, heads_of_threads(connection, keys))
    return sorted({*_threads(connection, {k: names[k] for k, t in times.items() if t < since})})


def verdicts(tx: Transaction, thread_keys: Sequence[str], since: datetime) -> list[SessionVerdict]:
    """Return what becomes of inactive sessions and threads; active ones are left out.

    In a transaction that writes they are locked first: whoever is active from then on waits.

    Args:
        tx: In a transaction.
        thread_keys: Keys of the threads; that of a session without checkpoints is its own.
        since: Whoever was active then or later stays.
    """
    connection = tx.connection
    if is_writer(connection):
        lock_threads(connection, thread_keys)
    rows = _session_rows(connection, {*thread_keys, *sessions_of_threads(connection, thread_keys)})
    heads = heads_of_threads(connection, thread_keys)
    names = {head.thread_key: head.thread_id for head in heads}
    names |= {key: row["session_id"] for key, row in rows.items()}
    times = _last_times(connection, names, heads)
    whose = dict(zip(names, _threads(connection, names), strict=True))
    found = []
    for key in thread_keys:
        own = {one: name for one, name in names.items() if whose[one] == key}
        last = max((times[one] for one in own if one in times), default=None)
        if last is None or last >= since:
            continue
        held = [rows[one] for one in own if one in rows]
        own_heads = [head for head in heads if head.thread_key == key]
        verdict = _verdict(tx, held, own_heads, own.values(), since)
        count = sum(row["last_seq"] - row["first_seq"] + 1 for row in held)
        name = names.get(key) or min(own.values())
        found.append(SessionVerdict(key, name, own, count, verdict))
    return found


def _verdict(
    tx: Transaction,
    rows: Sequence[Mapping[Any, Any]],
    heads: Sequence[ThreadHead],
    session_ids: Collection[str],
    since: datetime,
) -> Verdict:
    """Return what becomes of a thread whose messages are old."""
    try:
        if is_marked(tx.connection, session_ids):
            return "kept"
        states = [stored_state(checked_row(row)).state for row in rows]
        in_states = any(state.get("pins") for state in states if state is not None)
        if in_states or any(has_pins(tx, head) for head in heads):
            return "pinned"
    except CorruptStoreError:
        return "unreadable"
    written = last_pending_write(tx.connection, heads)
    return "active" if written is not None and written >= since else "expired"


def _names(connection: Connection, keys: Sequence[str]) -> dict[str, str]:
    """Return the ids of sessions and threads by their keys."""
    query = select(sessions.c.session_key, sessions.c.session_id)
    found = {head.thread_key: head.thread_id for head in heads_of_threads(connection, keys)}
    for some in chunks(keys):
        rows = connection.execute(query.where(sessions.c.session_key.in_(some)))
        found |= dict(rows.all())
    return found


def _threads(connection: Connection, names: Mapping[str, str]) -> list[str]:
    """Return the key of the thread of each session: of its checkpoints, or by its name."""
    known = threads_by_session(connection, [*names])
    return [
        known.get(key, key_of(name.partition(NAMESPACE_SEPARATOR)[0]))
        for key, name in names.items()
    ]


def _session_rows(connection: Connection, keys: Iterable[str]) -> dict[str, Mapping[Any, Any]]:
    """Return the rows of sessions, locked in one order in a transaction that writes."""
    found: dict[str, Mapping[Any, Any]] = {}
    for some in chunks(sorted(keys)):
        query = select(sessions).where(sessions.c.session_key.in_(some))
        query = query.order_by(sessions.c.session_key)
        if is_writer(connection):
            query = query.with_for_update()
        found |= {row["session_key"]: row for row in connection.execute(query).mappings()}
    return found


def _last_times(
    connection: Connection, names: Mapping[str, str], heads: Sequence[ThreadHead]
) -> dict[str, datetime]:
    """Return the time of the newest message, edit, document, note or checkpoint, by key."""
    times: dict[str, list[datetime]] = defaultdict(list)
    for head in heads:
        times[head.thread_key] += [head.written_at] if head.written_at else []
    for some in chunks([*names]):
        by_documents = {session_documents(key): key for key in some}
        by_label = {namespace_label(names[key]): key for key in some}
        newest_document = (
            select(documents.c.partition_key, func.max(documents.c.created_at))
            .where(documents.c.partition_key.in_(by_documents))
            .group_by(documents.c.partition_key)
        )
        texts = [
            *connection.execute(_LAST_MESSAGES.where(sessions.c.session_key.in_(some))),
            *connection.execute(_LAST_EDITS.where(edits.c.session_key.in_(some))),
            *((by_documents[key], text) for key, text in connection.execute(newest_document)),
            *(
                (by_label[label], text)
                for label, text in changes_of_sessions(connection, by_label).items()
            ),
        ]
        for key, text in texts:
            times[key].append(_moment(text))
    return {key: max(found) for key, found in times.items() if found}


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_LAST_MESSAGES = select(messages.c.session_key, messages.c.created_at).join(
    sessions,
    and_(messages.c.session_key == sessions.c.session_key, messages.c.seq == sessions.c.last_seq),
)
_LAST_EDITS = select(edits.c.session_key, func.max(edits.c.created_at)).group_by(
    edits.c.session_key
)
