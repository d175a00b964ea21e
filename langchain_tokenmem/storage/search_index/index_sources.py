"""Texts behind the index: messages and documents of its partitions, read and checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Connection, bindparam, select

from langchain_tokenmem.core.messages import marks_of, role_of, text_of
from langchain_tokenmem.core.search_units import IndexSource, Scope, unpack_unit
from langchain_tokenmem.storage.database.database import is_writer
from langchain_tokenmem.storage.search_index.documents import last_document, read_documents
from langchain_tokenmem.storage.search_index.partitions import (
    find_partition,
    is_of_messages,
    user_key,
)
from langchain_tokenmem.storage.search_index.tables import partitions
from langchain_tokenmem.storage.transcripts.edits import (
    current_rows,
    read_edits,
    rows_with_superseded,
    visible_rows,
)
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import (
    TranscriptRow,
    keys_at,
    read_at,
    read_some,
)
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find_by_key, find_by_keys
from langchain_tokenmem.storage.transcripts.tables import sessions

Address = tuple[int, int]
"""Number of the partition, number in the partition."""

_KEYS = select(partitions.c.partition_id, partitions.c.partition_key).where(
    partitions.c.partition_id.in_(bindparam("numbers", expanding=True))
)


def source_of(row: TranscriptRow, session: SessionRow) -> IndexSource:
    """Return a message as something to be indexed or shown."""
    message, marks = row.message, marks_of(row.message)
    return IndexSource(
        seq=row.seq,
        is_hidden=row.is_hidden,
        text=text_of(message),
        role=role_of(message),
        created_at=row.created_at,
        message=message,
        name=message.name,
        source_id=message.id or "",
        session_id=session.session_id,
        user_id=session.user_id,
        is_added=bool(marks.get("added")),
        metadata={"superseded": marks["superseded"]} if "superseded" in marks else {},
    )


Edits = frozenset[tuple[int, int]]
"""The current edits of a session, by number and version: what tells whether it was edited since."""


def edits_of_partition(connection: Connection, partition_key: str) -> Edits:
    """Return the current edits of a partition's messages; none of documents."""
    session = find_by_key(connection, partition_key) if is_of_messages(partition_key) else None
    known = {} if session is None else read_edits(connection, session)
    return frozenset((e.seq, e.version) for some in known.values() for e in some if e.is_current)


def sources_from(
    connection: Connection, partition_key: str, from_seq: int, limit: int
) -> tuple[list[IndexSource], int]:
    """Return the texts of a partition from a number on, and the last number that there is.

    For a writer that last number stays the last one until its transaction ends.
    """
    if is_of_messages(partition_key):
        session = find_by_key(connection, partition_key)
        if session is None:
            return [], 0
        start = max(from_seq, session.first_seq)
        rows = current_rows(connection, session, read_some(connection, session, start, limit))
        return [source_of(row, session) for row in rows], session.last_seq
    if is_writer(connection):
        find_partition(connection, partition_key, lock=True)
    session = find_by_key(connection, partition_key[1:]) if partition_key[0] == "d" else None
    session_id = None if session is None else session.session_id
    found = read_documents(
        connection, partition_key, from_seq=from_seq, limit=limit, session_id=session_id
    )
    return found, last_document(connection, partition_key)


def sources_at(
    connection: Connection, scope: Scope, units: Iterable[int]
) -> dict[Address, IndexSource]:
    """Return the texts of some units, if they are there and in scope: the second check."""
    wanted = _by_partition(units)
    keys = _keys(connection, wanted)
    of_sessions = {key.removeprefix("d") for key in keys.values() if key[0] != "u"}
    in_scope = {
        key: row
        for key, row in find_by_keys(connection, of_sessions).items()
        if _is_in_scope(row, scope)
    }
    found: dict[Address, IndexSource] = {}
    for number, key in keys.items():
        seqs = sorted(wanted[number])
        session = in_scope.get(key.removeprefix("d"))
        if scope.whole_user and key == user_key(scope.user_id or ""):
            sources = read_documents(connection, key, seqs=seqs, user_id=scope.user_id)
        elif session is None:
            continue
        elif is_of_messages(key):
            rows = visible_rows(connection, session, read_at(connection, session, seqs))
            sources = [source_of(row, session) for row in rows]
        else:
            sources = read_documents(
                connection, key, seqs=seqs, session_id=session.session_id, user_id=session.user_id
            )
        found |= {(number, source.seq): source for source in sources}
    return found


def superseded_sources(connection: Connection, scope: Scope) -> list[IndexSource]:
    """Return the words in a scope that edits superseded or hid, with their version."""
    own = sessions.c.session_key == key_of(scope.session_id)
    if scope.whole_user:
        own = sessions.c.user_id == (scope.user_id or "")
    query = select(sessions.c.session_key).where(own, sessions.c.edit_count > 0)
    keys = connection.execute(query.order_by(sessions.c.session_key)).scalars().all()
    found: list[IndexSource] = []
    for session in find_by_keys(connection, keys).values():
        if _is_in_scope(session, scope):
            edited = read_at(connection, session, sorted(read_edits(connection, session)))
            rows = rows_with_superseded(connection, session, edited)
            found += [
                source_of(row, session) for row in rows if "superseded" in marks_of(row.message)
            ]
    return found


def _by_partition(units: Iterable[int]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    for unit in units:
        partition, seq, _ = unpack_unit(unit)
        found[partition].add(seq)
    return found


def _keys(connection: Connection, numbers: Iterable[int]) -> dict[int, str]:
    rows = connection.execute(_KEYS, {"numbers": list(numbers)})
    return {row.partition_id: row.partition_key for row in rows}


def _is_in_scope(session: SessionRow, scope: Scope) -> bool:
    if scope.whole_user:
        return scope.user_id is not None and session.user_id == scope.user_id
    is_theirs = scope.user_id is None or session.user_id in {None, scope.user_id}
    return session.session_id == scope.session_id and is_theirs


def existing_units(connection: Connection, units: Collection[int]) -> set[int]:
    """Return the units whose message or document is there (still)."""
    keys = _keys_of_sources(connection, units)
    return {unit for unit in units if unpack_unit(unit)[:2] in keys}


def filter_units(
    connection: Connection,
    units: Sequence[int],
    among: Collection[str] | None,
    exclude: Collection[str],
) -> list[int]:
    """Return the units whose message is among some ids and not among others, in their order.

    Documents have no place in a conversation: neither list concerns them.
    """
    if among is None and not exclude:
        return list(units)
    in_keys = None if among is None else {key_of(name) for name in among}
    out_keys = {key_of(name) for name in exclude}
    keys = _keys_of_sources(connection, units)
    return [
        unit
        for unit in units
        if not (key := keys.get(unpack_unit(unit)[:2]))
        or (key not in out_keys and (in_keys is None or key in in_keys))
    ]


def _keys_of_sources(connection: Connection, units: Iterable[int]) -> dict[Address, str]:
    """Return the keys of messages that are there; of documents that are there an empty one."""
    wanted = _by_partition(units)
    found: dict[Address, str] = {}
    for number, partition_key in _keys(connection, wanted).items():
        seqs = sorted(wanted[number])
        if is_of_messages(partition_key):
            keys = keys_at(connection, partition_key, seqs)
        else:
            there = read_documents(connection, partition_key, seqs=seqs)
            keys = dict.fromkeys((source.seq for source in there), "")
        found |= {(number, seq): key for seq, key in keys.items()}
    return found
