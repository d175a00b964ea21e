"""Facts about the indexes, and the note that all of an index is owed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, insert, literal, select

from langchain_tokenmem.storage.database.json_values import from_json, to_json
from langchain_tokenmem.storage.search_index.tables import documents, index_facts, outbox
from langchain_tokenmem.storage.transcripts.tables import sessions


def fact(connection: Connection, name: str) -> Any:
    """Return a fact; None when it is not known."""
    value = connection.execute(
        select(index_facts.c.value).where(index_facts.c.name == name)
    ).scalar()
    return None if value is None else from_json(value)


def set_fact(connection: Connection, name: str, value: Any) -> None:
    """Keep a fact; None forgets it."""
    connection.execute(delete(index_facts).where(index_facts.c.name == name))
    if value is not None:
        connection.execute(insert(index_facts).values(name=name, value=to_json(value)[0]))


def owe_everything(connection: Connection, sink: str) -> None:
    """Note that a sink lacks everything that there is."""
    connection.execute(delete(outbox).where(outbox.c.sink == sink))
    columns = ["sink", "shelf_key", "from_seq"]
    with_messages = select(literal(sink), sessions.c.session_key, sessions.c.first_seq).where(
        sessions.c.last_seq >= sessions.c.first_seq
    )
    with_documents = select(literal(sink), documents.c.shelf_key, literal(1)).distinct()
    for found in (with_messages, with_documents):
        connection.execute(insert(outbox).from_select(columns, found))
