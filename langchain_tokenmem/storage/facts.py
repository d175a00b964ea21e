"""What concerns the whole database, by name, as plain JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from langchain_tokenmem.storage.message_json import from_json, to_json
from langchain_tokenmem.storage.tables import facts


def get(connection: Connection, name: str, *, lock: bool = False) -> Any:
    """Return a fact; None when it is not set.

    With `lock` it stays as it is until the transaction ends.
    """
    query = select(facts.c.value).where(facts.c.name == name)
    if lock:
        query = query.with_for_update(read=True)
    value = connection.execute(query).scalar()
    return None if value is None else from_json(value)


def named(connection: Connection, prefix: str) -> dict[str, Any]:
    """Return the facts whose names begin with a prefix, by their names."""
    own = facts.c.name.startswith(prefix, autoescape=True)
    query = select(facts.c.name, facts.c.value).where(own)
    return {name: from_json(value) for name, value in connection.execute(query)}


def put(connection: Connection, name: str, value: Any) -> None:
    """Set a fact; None deletes it."""
    connection.execute(delete(facts).where(facts.c.name == name))
    if value is not None:
        connection.execute(insert(facts), {"name": name, "value": to_json(value)[0]})


def drop(connection: Connection, prefix: str) -> None:
    """Delete the facts whose names begin with a prefix."""
    connection.execute(delete(facts).where(facts.c.name.startswith(prefix, autoescape=True)))


def change(connection: Connection, name: str, how: Callable[[Any], Any]) -> None:
    """Replace a fact by what a function makes of it; None deletes it."""
    own = facts.c.name == name
    query = select(facts.c.value).where(own).with_for_update()
    value = connection.execute(query).scalar()
    new = how(None if value is None else from_json(value))
    if value is not None and new is not None:
        connection.execute(update(facts).where(own).values(value=to_json(new)[0]))
    else:
        put(connection, name, new)
