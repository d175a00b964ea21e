"""What an index is made from: the messages and documents behind a shelf, read and checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, bindparam, select

from langchain_tokenmem.core.messages import marks_of, role_of, text_of
from langchain_tokenmem.core.search_units import Scope, Source, unit_place
from langchain_tokenmem.storage.database.database import is_writer
from langchain_tokenmem.storage.search_index.document_rows import last_document, read_documents
from langchain_tokenmem.storage.search_index.shelves import (
    Shelf,
    find_or_make_shelf,
    find_shelf,
    hand_over,
    owner_key,
    user_key,
)
from langchain_tokenmem.storage.search_index.tables import shelves
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import (
    TranscriptRow,
    keys_at,
    read_at,
    read_some,
)
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find_by_key, find_by_keys

Place = tuple[int, int]
"""Number of the shelf, number on the shelf."""


def source_of(row: TranscriptRow, session: SessionRow) -> Source:
    """Return a message as something to be indexed or shown."""
    message = row.message
    return Source(
        seq=row.seq,
        text=text_of(message),
        role=role_of(message),
        created_at=row.created_at,
        message=message,
        name=message.name,
        source_id=message.id or "",
        session_id=session.session_id,
        user_id=session.user_id,
        is_added=bool(marks_of(message).get("added")),
    )


def sources_from(
    connection: Connection, shelf_key: str, from_seq: int, limit: int
) -> tuple[list[Source], int]:
    """Return what stands on a shelf from a number on, and the last number that there is.

    For a writer that last number stays the last one until its transaction ends.
    """
    if shelf_key[0] in "=#":
        session = find_by_key(connection, shelf_key)
        if session is None:
            return [], 0
        start = max(from_seq, session.first_seq)
        rows = read_some(connection, session, start, limit)
        return [source_of(row, session) for row in rows], session.last_seq
    if is_writer(connection):
        find_shelf(connection, shelf_key, lock=True)
    session_id = session_of_documents(connection, shelf_key)
    found = read_documents(
        connection, shelf_key, from_seq=from_seq, limit=limit, session_id=session_id
    )
    return found, last_document(connection, shelf_key)


def session_of_documents(connection: Connection, shelf_key: str) -> str | None:
    """Return the session whose documents stand on a shelf; None when they are a user's."""
    session = find_by_key(connection, shelf_key[1:]) if shelf_key[0] == "d" else None
    return None if session is None else session.session_id


def sources_at(connection: Connection, scope: Scope, units: Iterable[int]) -> dict[Place, Source]:
    """Return what stands at some units, if it is there and in scope: the second check."""
    wanted: dict[int, set[int]] = defaultdict(set)
    for unit in units:
        shelf, seq, _ = unit_place(unit)
        wanted[shelf].add(seq)
    keys = _keys(connection, list(wanted))
    own = {key.removeprefix("d") for key in keys.values() if key[0] != "u"}
    known = {key: row for key, row in find_by_keys(connection, own).items() if in_scope(row, scope)}
    found = {
        (shelf, row.seq): source_of(row, known[key])
        for shelf, key in keys.items()
        if key in known
        for row in read_at(connection, known[key], sorted(wanted[shelf]))
    }
    for shelf, key in keys.items():
        if key[0] in "du":
            for source in _documents(connection, scope, key, known, sorted(wanted[shelf])):
                found[shelf, source.seq] = source
    return found


def _keys(connection: Connection, numbers: Sequence[int]) -> dict[int, str]:
    return {
        row.shelf: row.shelf_key for row in connection.execute(_SHELF_KEYS, {"numbers": numbers})
    }


def _documents(
    connection: Connection,
    scope: Scope,
    key: str,
    known: Mapping[str, SessionRow],
    seqs: Sequence[int],
) -> list[Source]:
    if key[0] == "u":
        is_mine = scope.whole_user and key == user_key(scope.user_id or "")
        return read_documents(connection, key, seqs=seqs, user_id=scope.user_id) if is_mine else []
    session = known.get(key[1:])
    if session is None:
        return []
    return read_documents(
        connection, key, seqs=seqs, session_id=session.session_id, user_id=session.user_id
    )


def present_units(connection: Connection, units: Iterable[int]) -> set[int]:
    """Return the units whose message or document is there (still)."""
    by_shelf: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for unit in units:
        shelf, seq, _ = unit_place(unit)
        by_shelf[shelf][seq].append(unit)
    keys = connection.execute(_SHELF_KEYS, {"numbers": list(by_shelf)}).all()
    found: set[int] = set()
    for shelf, key in keys:
        seqs = sorted(by_shelf[shelf])
        there: Iterable[int] = (
            keys_at(connection, key, seqs)
            if key[0] in "=#"
            else [source.seq for source in read_documents(connection, key, seqs=seqs)]
        )
        found.update(unit for seq in there for unit in by_shelf[shelf][seq])
    return found


_SHELF_KEYS = select(shelves.c.shelf, shelves.c.shelf_key).where(
    shelves.c.shelf.in_(bindparam("numbers", expanding=True))
)


def in_scope(session: SessionRow, scope: Scope) -> bool:
    """Return whether a session may be seen."""
    if scope.whole_user:
        return scope.user_id is not None and session.user_id == scope.user_id
    is_theirs = scope.user_id is None or session.user_id in {None, scope.user_id}
    return session.session_id == scope.session_id and is_theirs


def chosen(
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
    by_shelf: dict[int, set[int]] = defaultdict(set)
    for unit in units:
        shelf, seq, _ = unit_place(unit)
        by_shelf[shelf].add(seq)
    keys: dict[Place, str] = {}
    for shelf, shelf_key in _keys(connection, list(by_shelf)).items():
        if shelf_key[0] in "=#":
            named = keys_at(connection, shelf_key, sorted(by_shelf[shelf]))
            keys |= {(shelf, seq): key for seq, key in named.items()}
    return [
        unit
        for unit in units
        if (key := keys.get(unit_place(unit)[:2])) is None
        or (key not in out_keys and (in_keys is None or key in in_keys))
    ]


def shelf_to_write(connection: Connection, shelf_key: str) -> Shelf | None:
    """Return a shelf, held against other writers; make it for a session.

    The session is held before its shelf, as an append does it.
    """
    if shelf_key[0] not in "=#":
        return find_shelf(connection, shelf_key, lock=True)
    session = find_by_key(connection, shelf_key)
    if session is None:
        return None
    find_or_make_shelf(connection, shelf_key, owner_key(session), session.first_seq - 1)
    found = find_shelf(connection, shelf_key, lock=True)
    return None if found is None else hand_over(connection, session, found)
