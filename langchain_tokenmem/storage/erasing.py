"""Deletes everything of a session or a user, from every table, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import Connection, select

from langchain_tokenmem.core.note_namespaces import NO_USER, namespace_label
from langchain_tokenmem.core.thread_names import NAMESPACE_SEPARATOR
from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.storage.checkpoints.namespaces import drop_thread, lock_threads
from langchain_tokenmem.storage.checkpoints.thread_sessions import (
    sessions_of_threads,
    threads_of_sessions,
)
from langchain_tokenmem.storage.database.json_values import to_json
from langchain_tokenmem.storage.items.kept_sessions import drop_marks
from langchain_tokenmem.storage.items.rows import delete_of_owner, delete_of_sessions
from langchain_tokenmem.storage.search_index.deletion import erase_sessions
from langchain_tokenmem.storage.search_index.partitions import partition_keys
from langchain_tokenmem.storage.search_index.tables import documents
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import chunks
from langchain_tokenmem.storage.transcripts.sessions import (
    SessionRow,
    checked_id,
    find_by_key,
    find_by_keys,
    save,
    session_keys,
)
from langchain_tokenmem.storage.transcripts.states import stored_state
from langchain_tokenmem.storage.transcripts.tables import messages, sessions
from langchain_tokenmem.storage.transcripts.user_settings import delete_settings_of_user


def erase(
    connection: Connection, session_id: str | None, user_id: str | None
) -> tuple[dict[str, int], list[int]]:
    """Delete everything of a session or a user, checkpoints of their threads and notes included.

    Returns:
        How many rows there were of each kind, and the numbers of the partitions that are gone.

    Raises:
        ScopeError: When neither id is given, or the session belongs to another user.
        StoreError: When the session is that of a sub-graph, which the thread's checkpoints need.
    """
    named = [] if session_id is None else [key_of(checked_id(session_id))]
    lock_threads(
        connection,
        threads_of_sessions(connection, named or session_keys(connection, None, user_id)),
    )
    keys = session_keys(connection, session_id, user_id)
    threads = threads_of_sessions(connection, keys)
    if session_id is not None and {*threads} - {*keys}:
        raise StoreError(
            f"Session {session_id!r} holds the messages of a sub-graph, and the checkpoints of its "
            f"thread could not be read without them. Nothing was deleted; erase the thread's own "
            f"session, {session_id.partition(NAMESPACE_SEPARATOR)[0]!r}, and this one goes with it."
        )
    # A thread goes whole: the sessions of its sub-graphs, too.
    keys = sorted({*keys, *sessions_of_threads(connection, threads)})
    notes = _erase_notes(connection, keys, session_id, user_id)
    partitions = partition_keys(keys, session_id, user_id)
    if session_id is not None:
        _forget_quotes(connection, keys, _keys_of_texts(connection, keys, partitions))
    counts, gone = erase_sessions(connection, keys, partitions)
    counts["checkpoints"] = sum(drop_thread(connection, key) for key in threads)
    counts["items"] = notes
    if session_id is None and user_id is not None:
        counts["user_settings"] = delete_settings_of_user(connection, user_id)
    return counts, gone


def erase_threads(
    connection: Connection, threads: Sequence[str], keys: Sequence[str], ids: Collection[str]
) -> tuple[dict[str, int], list[int]]:
    """Delete everything of whole sessions and threads, as `erase` does for one session.

    Args:
        connection: In a transaction that writes.
        threads: Keys of the threads; that of a session without checkpoints is its own.
        keys: Keys of all of their sessions.
        ids: Ids of these sessions.

    Returns:
        How many rows there were of each kind, and the numbers of the partitions that are gone.
    """
    notes = delete_of_sessions(connection, map(namespace_label, ids), None)
    drop_marks(connection, ids)
    partitions = partition_keys(keys, None, None)
    _forget_quotes(connection, keys, _keys_of_texts(connection, keys, partitions))
    counts, gone = erase_sessions(connection, keys, partitions)
    counts["checkpoints"] = sum(drop_thread(connection, key) for key in threads)
    counts["items"] = notes
    return counts, gone


def _erase_notes(
    connection: Connection, keys: Sequence[str], session_id: str | None, user_id: str | None
) -> int:
    """Delete the notes of sessions, and without a session id all of the user's."""
    ids = set() if session_id is None else {session_id}
    for key in keys:
        query = select(sessions.c.session_id).where(sessions.c.session_key == key)
        ids |= {*connection.execute(query).scalars()}
    drop_marks(connection, ids)
    owners = None if user_id is None else [NO_USER, namespace_label(user_id)]
    count = delete_of_sessions(connection, map(namespace_label, ids), owners)
    if session_id is None and user_id is not None:
        count += delete_of_owner(connection, namespace_label(user_id))
    return count


def _keys_of_texts(
    connection: Connection, keys: Sequence[str], partitions: Sequence[str]
) -> set[str]:
    """Return the keys of the messages and documents that go with sessions."""
    found: set[str] = set()
    for column, within, named in (
        (messages.c.message_key, messages.c.session_key, keys),
        (documents.c.document_key, documents.c.partition_key, partitions),
    ):
        for some in chunks(named):
            found.update(connection.execute(select(column).where(within.in_(some))).scalars())
    return found


def _forget_quotes(connection: Connection, keys: Sequence[str], quoted: set[str]) -> None:
    """Drop the memory blocks that quote erased texts from the states of the owner's other sessions.

    Nobody else's session can have recalled them.
    """
    owners = {row.user_id for row in find_by_keys(connection, keys).values()} - {None}
    others = {key for owner in owners for key in session_keys(connection, None, owner)} - {*keys}
    for key in sorted(others):
        with suppress(CorruptStoreError):  # a damaged row of another session is no reason to stay
            _forget_quotes_of(connection, find_by_key(connection, key), quoted)


def _forget_quotes_of(connection: Connection, session: SessionRow | None, quoted: set[str]) -> None:
    state = stored_state(session).state if session is not None else None
    if session is None or state is None:
        return
    kept = {
        name: block
        for name, block in state["blocks"].items()
        if quoted.isdisjoint(map(key_of, block["ids"]))
    }
    if len(kept) < len(state["blocks"]):
        text = to_json({**state, "blocks": kept})[0]
        # A turn that is under way must not put them back.
        save(connection, replace(session, version=session.version + 1, state=text))
