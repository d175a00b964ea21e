"""Leases on summarizing a session, across processes."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update

from langchain_tokenmem.storage.transcripts.tables import leases


def acquire(connection: Connection, key: str, owner: str, now: float, seconds: float) -> bool:
    """Take the lease of a session unless another owner's still runs; return whether it was taken.

    Args:
        connection: In a transaction that writes.
        key: Key of the session.
        owner: Who takes it.
        now: Seconds since the epoch.
        seconds: How long it runs.
    """
    mine = {"held_by": owner, "expires_at_ms": round((now + seconds) * 1_000)}
    held = connection.execute(
        select(leases.c.held_by, leases.c.expires_at_ms).where(leases.c.session_key == key)
    ).first()
    if held is None:
        connection.execute(insert(leases).values(session_key=key, **mine))
        return True
    if held.held_by != owner and held.expires_at_ms > now * 1_000:
        return False
    connection.execute(update(leases).where(leases.c.session_key == key).values(**mine))
    return True


def release(connection: Connection, key: str, owner: str) -> None:
    """Give the lease back; another owner's stays."""
    connection.execute(delete(leases).where(leases.c.session_key == key, leases.c.held_by == owner))
