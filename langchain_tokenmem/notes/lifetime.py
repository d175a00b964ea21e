"""Notes of a session that expire, by the settings of their store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from langgraph.store.base import BaseStore

from langchain_tokenmem.notes.stores.item_store import ItemStore

_EXPIRES_AT = "expires_at"


@dataclass(frozen=True)
class SessionLifetime:
    """Lifetime of notes at session level; those of a project and global ones do not expire.

    It is the store's `default_ttl`. A store of this package that omits what has expired begins the
    time of notes anew with each look at them, as LangGraph has it. Another one goes on showing them
    until a sweep (LangGraph's `SqliteStore` even where it is told to omit them), and no store tells
    when they expire: there the end stands in the note, is counted from its last writing, and the
    notebook itself leaves out what is over it.

    Attributes:
        minutes: After which they expire; None for never.
        is_kept_by_store: Whether the store leaves out what has expired.
        refreshes: Whether to read a note begins its time anew.
    """

    minutes: float | None = None
    is_kept_by_store: bool = False
    refreshes: bool = False

    @classmethod
    def of(cls, store: BaseStore) -> Self:
        """Return the lifetime by the settings of a store."""
        settings = (getattr(store, "ttl_config", None) if store.supports_ttl else None) or {}
        omits = isinstance(store, ItemStore) and bool(settings.get("omit_expired"))
        refreshes = omits and settings.get("refresh_on_read", True)
        return cls(settings.get("default_ttl"), omits, refreshes)

    def in_value(self, now: datetime) -> dict[str, Any]:
        """Return what the value of a note's item says about its end."""
        if self.minutes is None or self.is_kept_by_store:
            return {}
        return {_EXPIRES_AT: (now + timedelta(minutes=self.minutes)).isoformat()}


def has_end(value: Mapping[str, Any]) -> bool:
    """Return whether the value of an item says that its note expires."""
    return value.get(_EXPIRES_AT) is not None


def is_expired(value: Mapping[str, Any], now: Callable[[], datetime]) -> bool:
    """Return whether the value of an item says that its note has expired."""
    end = value.get(_EXPIRES_AT)
    try:
        return isinstance(end, str) and datetime.fromisoformat(end) <= now()
    except (TypeError, ValueError):  # an application may have put anything there
        return True
