"""`ExpiryPolicy`: which sessions expire and how often that is looked at; `ExpiryReport`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from langchain_tokenmem.errors import ConfigurationError

_LONGEST = timedelta(days=365 * 1_000)
"""So much can be taken from any date."""


@dataclass(frozen=True, kw_only=True)
class ExpiryPolicy:
    """Expiry of sessions while a store is in use.

    Args:
        inactive_for: Time without a new message, edit, checkpoint, document or note after which a
            session goes; None for never.
        expire_every: Least time between two automatic runs, of all processes on a database; None
            for runs by hand only.

    Raises:
        ConfigurationError: When a time cannot be.

    Example:
        >>> ExpiryPolicy(inactive_for=timedelta(days=30), expire_every=timedelta(days=1)).is_on
        True
    """

    inactive_for: timedelta | None = None
    expire_every: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("inactive_for", "expire_every"):
            value = getattr(self, name)
            if value is not None and not (
                isinstance(value, timedelta) and timedelta(0) < value <= _LONGEST
            ):
                raise ConfigurationError(
                    f"{name} is {value!r}; it is a timedelta above zero and up to "
                    f"{_LONGEST.days:,} days, such as timedelta(days=30)."
                )

    @property
    def is_on(self) -> bool:
        """True where sessions expire without being asked for."""
        return self.inactive_for is not None and self.expire_every is not None

    def since(self, now: datetime) -> datetime:
        """Return the time from which on a session has to have been active to stay.

        Raises:
            ConfigurationError: When no time was given.
        """
        if self.inactive_for is None:
            raise ConfigurationError(
                "Say after which time a session expires: expire(inactive_for=timedelta(days=30)), "
                "or TranscriptStore(..., inactive_for=timedelta(days=30))."
            )
        return now - self.inactive_for


@dataclass(frozen=True)
class ExpiryReport:
    """Outcome of a run.

    A thread with its sub-graphs counts as one session.

    Attributes:
        expired: Ids of the sessions that are gone; in a dry run those that would go.
        counts: How many rows of each kind were deleted; of a dry run `messages` only.
        pinned: How many inactive sessions stay because something is pinned in them.
        kept: How many stay because they are marked (`keep_session`).
        unreadable: Ids of inactive sessions that stay because a row of them is damaged, or their
            checkpoints need a key or types that the store does not know.
        is_dry_run: Whether nothing was deleted.
    """

    expired: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    pinned: int = 0
    kept: int = 0
    unreadable: tuple[str, ...] = ()
    is_dry_run: bool = False
