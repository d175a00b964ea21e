"""Shelves: the numbers that an index knows sessions and documents by, and their outbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from langchain_tokenmem.core.search_units import Pending, Reach, Scope
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.search_index.tables import outbox, owners, shelves, terms
from langchain_tokenmem.storage.transcripts.encoded_message import escaped, key_of
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, checked_id, find
from langchain_tokenmem.storage.transcripts.tables import sessions

LEXICAL, VECTORS = "lexical", "vectors"
SINKS = (LEXICAL, VECTORS)

_OWN = select(shelves.c.shelf, shelves.c.shelf_key, shelves.c.owner, shelves.c.indexed_to).where(
    shelves.c.shelf_key == bindparam("b_key")
)
_SHELF = Statement(_OWN)
_SHELF_LOCKED = Statement(_OWN.with_for_update())
_OWNER = Statement(select(owners.c.owner_key).where(owners.c.owner == bindparam("b_owner")))
_MAKERS: dict[str, Any] = {"postgresql": postgres_insert, "sqlite": sqlite_insert}


def _owing(dialect: str) -> Any:
    new = _MAKERS[dialect](outbox)
    return new.on_conflict_do_update(
        index_elements=[outbox.c.sink, outbox.c.shelf_key],
        set_={"from_seq": new.excluded.from_seq},
        where=outbox.c.from_seq > new.excluded.from_seq,
    )


_OWING = {dialect: Statement(_owing(dialect)) for dialect in _MAKERS}


@dataclass(frozen=True)
class Shelf:
    """One row of the table.

    Attributes:
        number: Its number.
        key: `session_key`, or that of the documents of a session or a user.
        owner: Number of its owner.
        indexed_to: Last number that the lexical index has.
    """

    number: int
    key: str
    owner: int
    indexed_to: int


def owner_key(session: SessionRow) -> str:
    """Return under which key the owner of a session is known."""
    return user_key(session.user_id) if session.user_id else f"s{session.key}"


def user_key(user_id: str) -> str:
    """Return the key of a user, as an owner and as a shelf of documents."""
    return f"u{key_of(user_id)}"


def session_documents(session_key: str) -> str:
    """Return the key of the shelf of a session's documents."""
    return f"d{session_key}"


def insert_or_leave(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert the rows whose key is not there yet."""
    make = _MAKERS[connection.dialect.name]
    connection.execute(make(table).on_conflict_do_nothing(), rows)


def find_shelf(connection: Connection, key: str, *, lock: bool = False) -> Shelf | None:
    """Return a shelf by its key; on PostgreSQL locked, if asked for."""
    row = (_SHELF_LOCKED if lock else _SHELF).first(connection, {"b_key": key})
    return None if row is None else Shelf(*row.values())


def find_owner(connection: Connection, number: int) -> int | None:
    """Return the owner of a shelf by the shelf's number."""
    return connection.execute(select(shelves.c.owner).where(shelves.c.shelf == number)).scalar()


def find_or_make_shelf(connection: Connection, key: str, owner: str, indexed_to: int = 0) -> Shelf:
    """Return a shelf; make it, and its owner's number, if there is none."""
    found = find_shelf(connection, key)
    if found is not None:
        return found
    insert_or_leave(connection, owners, [{"owner_key": owner}])
    number = connection.execute(
        select(owners.c.owner).where(owners.c.owner_key == owner)
    ).scalar_one()
    row = {"shelf_key": key, "owner": number, "indexed_to": indexed_to, "units": 0, "length": 0}
    insert_or_leave(connection, shelves, [row])
    made = find_shelf(connection, key)
    if made is None:
        raise LookupError(f"shelf {key} was not made")
    return made


def claimed(connection: Connection, session: SessionRow) -> Shelf | None:
    """Return the shelf of a session's messages, if it has one; what is its user's is given over."""
    shelf = find_shelf(connection, session.key)
    if shelf is not None:
        return hand_over(connection, session, shelf)
    if session.user_id is not None:
        # Documents may have come before the first message, and before the user.
        own = find_shelf(connection, session_documents(session.key))
        if own is not None:
            hand_over(connection, session, own)
    return None


def hand_over(connection: Connection, session: SessionRow, shelf: Shelf) -> Shelf:
    """Give the shelves of a session to the user who claimed it after they had been made."""
    wanted = owner_key(session)
    known = _OWNER.first(connection, {"b_owner": shelf.owner})
    if known is not None and known["owner_key"] == wanted:
        return shelf
    insert_or_leave(connection, owners, [{"owner_key": wanted}])
    new = connection.execute(
        select(owners.c.owner).where(owners.c.owner_key == wanted)
    ).scalar_one()
    # A session without a user is the only one under its number.
    for table in (terms, shelves):
        connection.execute(update(table).where(table.c.owner == shelf.owner).values(owner=new))
    connection.execute(delete(owners).where(owners.c.owner == shelf.owner))
    owe(connection, [VECTORS], session.key, session.first_seq)
    return Shelf(shelf.number, shelf.key, new, shelf.indexed_to)


def reach_of(connection: Connection, scope: Scope) -> Reach | None:
    """Return what a scope may search; None when there is nothing.

    Raises:
        ScopeError: When an id is blank, or the session belongs to another user.
    """
    checked_id(scope.session_id)
    session = find(connection, scope.session_id, scope.user_id)
    if scope.whole_user:
        owner = connection.execute(
            select(owners.c.owner).where(
                owners.c.owner_key == user_key(checked_id(scope.user_id, "user_id"))
            )
        ).scalar()
        found = [] if owner is None else _numbers(connection, shelves.c.owner == owner)
        return Reach(owner, tuple(found), whole=True) if owner is not None and found else None
    if session is None:
        return None
    keys = (session.key, session_documents(session.key))
    rows = connection.execute(
        select(shelves.c.shelf, shelves.c.owner).where(shelves.c.shelf_key.in_(keys))
    ).all()
    numbers = tuple(sorted(row.shelf for row in rows))
    return Reach(rows[0].owner, numbers) if rows else None


def _numbers(connection: Connection, condition: Any) -> list[int]:
    return list(
        connection.execute(
            select(shelves.c.shelf).where(condition).order_by(shelves.c.shelf)
        ).scalars()
    )


def owe(connection: Connection, sinks: Sequence[str], shelf_key: str, from_seq: int) -> None:
    """Note that sinks lack everything of a shelf from a number on; an older note stays.

    Only a note that asks for less is moved back.
    """
    rows = [{"sink": sink, "shelf_key": shelf_key, "from_seq": from_seq} for sink in sinks]
    _OWING[connection.dialect.name].run_all(connection, rows)


def settle(connection: Connection, sink: str, shelf_key: str, done_to: int, last: int) -> None:
    """Note that a sink has everything up to `done_to`; nothing is left when that is the last."""
    if done_to >= last:
        connection.execute(delete(outbox).where(_at(sink, shelf_key)))
    else:
        connection.execute(update(outbox).where(_at(sink, shelf_key)).values(from_seq=done_to + 1))


def _at(sink: str, shelf_key: str) -> Any:
    return (outbox.c.sink == sink) & (outbox.c.shelf_key == shelf_key)


def pending(
    connection: Connection, sink: str, *, scope: Scope | None = None, limit: int | None = None
) -> list[Pending]:
    """Return the shelves that a sink has not taken in whole, of one scope or of all.

    The number of a shelf is 0 while it has none.
    """
    query = (
        select(outbox.c.shelf_key, shelves.c.shelf, outbox.c.from_seq)
        .outerjoin(shelves, shelves.c.shelf_key == outbox.c.shelf_key)
        .where(outbox.c.sink == sink)
        .order_by(outbox.c.shelf_key)
    )
    if limit is not None:
        query = query.limit(limit)
    if scope is not None:
        query = query.where(outbox.c.shelf_key.in_(_keys_of(scope)))
    return [
        Pending(row.shelf_key, row.shelf or 0, row.from_seq) for row in connection.execute(query)
    ]


def _keys_of(scope: Scope) -> Any:
    key = key_of(scope.session_id)
    if not scope.whole_user:
        return (key, session_documents(key))
    owned = select(sessions.c.session_key).where(sessions.c.user_id == escaped(scope.user_id or ""))
    documents = select(shelves.c.shelf_key).where(
        shelves.c.owner
        == select(owners.c.owner)
        .where(owners.c.owner_key == user_key(scope.user_id or ""))
        .scalar_subquery()
    )
    return owned.union(documents)
