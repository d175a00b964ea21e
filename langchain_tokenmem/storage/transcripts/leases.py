"""Leases: who is summarizing a session right now, across processes."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update

from langchain_tokenmem.storage.database.schema import leases


def acquire(connection: Connection, key: str, owner: str, now: float, seconds: float) -> bool:
    """Take the lease of a session unless somebody else's still runs; return whether it is ours.

    Args:
        connection: In a transaction that writes.
        key: Key of the session.
        owner: Who takes it.
        now: Seconds since the epoch.
        seconds: How long it runs.
    """
    mine = {"owner": owner, "expires_ms": round((now + seconds) * 1_000)}
    known = connection.execute(
        select(leases.c.owner, leases.c.expires_ms).where(leases.c.session_key == key)
    ).first()
    if known is None:
        connection.execute(insert(leases).values(session_key=key, **mine))
        return True
    if known.owner != owner and known.expires_ms > now * 1_000:
        return False
    connection.execute(update(leases).where(leases.c.session_key == key).values(**mine))
    return True


def release(connection: Connection, key: str, owner: str) -> None:
    """Give the lease back; somebody else's stays."""
    connection.execute(delete(leases).where(leases.c.session_key == key, leases.c.owner == owner))
