"""Outbox of the search index (the messages that an index lacks), and its properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, literal, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from langchain_tokenmem.core.search_units import OutboxEntry
from langchain_tokenmem.storage.database.json_values import from_json, to_json
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.search_index.tables import documents, index_properties, outbox
from langchain_tokenmem.storage.transcripts.tables import sessions

LEXICAL, VECTORS = "lexical", "vectors"
INDEXES = (LEXICAL, VECTORS)


def _enqueue(insert_row: Any) -> Statement:
    update_row = insert_row.on_conflict_do_update(
        index_elements=[outbox.c.index_name, outbox.c.partition_key],
        set_={"from_seq": insert_row.excluded.from_seq},
        where=outbox.c.from_seq > insert_row.excluded.from_seq,
    )
    return Statement(update_row)


_ENQUEUE = {
    "postgresql": _enqueue(postgres_insert(outbox)),
    "sqlite": _enqueue(sqlite_insert(outbox)),
}


def enqueue(
    connection: Connection, indexes: Sequence[str], partition_key: str, from_seq: int
) -> None:
    """Note that indexes lack everything of a partition from a number on.

    An entry that asks for more stays as it is.
    """
    rows = [
        {"index_name": name, "partition_key": partition_key, "from_seq": from_seq}
        for name in indexes
    ]
    _ENQUEUE[connection.dialect.name].run_all(connection, rows)


def enqueue_everything(connection: Connection, index_name: str) -> None:
    """Note that an index lacks everything that there is."""
    connection.execute(delete(outbox).where(outbox.c.index_name == index_name))
    columns = ["index_name", "partition_key", "from_seq"]
    with_messages = select(literal(index_name), sessions.c.session_key, sessions.c.first_seq).where(
        sessions.c.last_seq >= sessions.c.first_seq
    )
    with_documents = select(literal(index_name), documents.c.partition_key, literal(1)).distinct()
    for found in (with_messages, with_documents):
        connection.execute(insert(outbox).from_select(columns, found))


def acknowledge(
    connection: Connection, index_name: str, partition_key: str, done_to: int, last: int
) -> None:
    """Note that an index has everything up to `done_to`; the entry goes when that is the last."""
    own = (outbox.c.index_name == index_name) & (outbox.c.partition_key == partition_key)
    if done_to >= last:
        connection.execute(delete(outbox).where(own))
    else:
        connection.execute(update(outbox).where(own).values(from_seq=done_to + 1))


def pending(
    connection: Connection, index_name: str, *, among: Any = None, limit: int | None = None
) -> list[OutboxEntry]:
    """Return the partitions that an index has not indexed whole.

    Args:
        connection: To the database.
        index_name: `lexical` or `vectors`.
        among: Keys of partitions, or a query for them; default: all.
        limit: Most entries.
    """
    query = (
        select(outbox.c.partition_key, outbox.c.from_seq)
        .where(outbox.c.index_name == index_name)
        .order_by(outbox.c.partition_key)
        .limit(limit)
    )
    if among is not None:
        query = query.where(outbox.c.partition_key.in_(among))
    return [OutboxEntry(*row) for row in connection.execute(query)]


def backlog(connection: Connection) -> dict[str, int]:
    """Return for each index how many partitions it has not indexed whole."""
    query = select(outbox.c.index_name, func.count()).group_by(outbox.c.index_name)
    counted = {name: int(count) for name, count in connection.execute(query)}
    return {**dict.fromkeys(INDEXES, 0), **counted}


def get_property(connection: Connection, name: str, *, lock: bool = False) -> Any:
    """Return a property of the index; None when it is not set.

    With `lock` it stays as it is until the transaction ends.
    """
    query = select(index_properties.c.value).where(index_properties.c.name == name)
    if lock:
        query = query.with_for_update(read=True)
    value = connection.execute(query).scalar()
    return None if value is None else from_json(value)


def properties(connection: Connection, prefix: str) -> dict[str, Any]:
    """Return the properties whose names begin with a prefix, by their names."""
    own = index_properties.c.name.startswith(prefix, autoescape=True)
    query = select(index_properties.c.name, index_properties.c.value).where(own)
    return {name: from_json(value) for name, value in connection.execute(query)}


def delete_properties(connection: Connection, prefix: str) -> None:
    """Delete the properties whose names begin with a prefix."""
    own = index_properties.c.name.startswith(prefix, autoescape=True)
    connection.execute(delete(index_properties).where(own))


def update_property(connection: Connection, name: str, change: Callable[[Any], Any]) -> None:
    """Replace a property by what a function makes of it; None deletes it."""
    own = index_properties.c.name == name
    query = select(index_properties.c.value).where(own).with_for_update()
    value = connection.execute(query).scalar()
    new = change(None if value is None else from_json(value))
    if new is None:
        connection.execute(delete(index_properties).where(own))
    elif value is None:
        connection.execute(insert(index_properties).values(name=name, value=to_json(new)[0]))
    else:
        connection.execute(update(index_properties).where(own).values(value=to_json(new)[0]))


def set_property(connection: Connection, name: str, value: Any) -> None:
    """Set a property of the index."""
    connection.execute(delete(index_properties).where(index_properties.c.name == name))
    connection.execute(insert(index_properties).values(name=name, value=to_json(value)[0]))
