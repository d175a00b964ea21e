"""What a Chroma server is asked for beside Chroma's own client: to answer in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_answers(
    host: str, port: int, *, ssl: bool, headers: Mapping[str, str], timeout_s: float
) -> None:
    """Ask a server whether it is there: Chroma's client would wait for it without end.

    Raises:
        httpx.HTTPError: When it does not answer in time.
    """
    import httpx  # noqa: PLC0415  comes with chromadb

    address = host if "://" in host else f"{'https' if ssl else 'http'}://{host}:{port}"
    httpx.get(f"{address}/api/v2/heartbeat", headers=dict(headers), timeout=timeout_s)


def bound(client: Any, timeout_s: float) -> None:
    """Give the requests of a client a time limit: Chroma's own has none, and no setting for one."""
    for session in _sessions_of(client):
        session.timeout = timeout_s


def close_sessions(client: Any) -> None:
    """Close the connections of a client, which Chroma's own `close` leaves open."""
    for session in _sessions_of(client):
        session.close()


def _sessions_of(client: Any) -> list[Any]:
    # The client that it makes for itself, to ask for tenants, has connections of its own.
    clients = (client, getattr(client, "_admin_client", None))
    found = [getattr(getattr(one, "_server", None), "_session", None) for one in clients]
    return [session for session in found if session is not None]
