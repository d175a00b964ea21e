"""Settings of retention, checked, and the rule that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.threads import RetentionRule

_STRATEGIES = {"keep_latest": 1, "delete": 0}

_OLDEST = timedelta(days=365 * 1_000)
"""So much can be taken from any date."""


@dataclass(frozen=True)
class RetentionPolicy:
    """Retention while a thread grows.

    Args:
        keep_last: Checkpoints that are kept in each namespace; None for all.
        older_than: Age from which they go; None for never.
        every: After how many checkpoints of a namespace.

    Raises:
        ConfigurationError: When a number cannot be.
    """

    keep_last: int | None
    older_than: timedelta | None
    every: int

    def __post_init__(self) -> None:
        _check(self.keep_last, self.older_than)
        if type(self.every) is not int or self.every < 1:
            raise ConfigurationError(
                f"prune_every is {self.every!r}; it is a whole number, and 1 is the least."
            )

    @property
    def is_set(self) -> bool:
        """Whether it ever removes anything."""
        return self.keep_last is not None or self.older_than is not None

    def is_due(self, count: int) -> bool:
        """Return whether to apply it, by the checkpoints that a namespace has.

        The stored number is asked, and no counter of this process, which may end after each turn.
        """
        return (count - (self.keep_last or 0)) % self.every == 0 and count > (self.keep_last or 0)

    def rule(self, now: datetime) -> RetentionRule:
        """Return it as of now."""
        return rule_of("keep_latest", self.keep_last, self.older_than, now)


def rule_of(
    strategy: str, keep_last: int | None, older_than: timedelta | None, now: datetime
) -> RetentionRule:
    """Return what a call of `prune` says.

    Raises:
        ConfigurationError: When the strategy is unknown or a number cannot be.
    """
    if strategy not in _STRATEGIES:
        raise ConfigurationError(
            f"The strategy is {strategy!r}; {' or '.join(map(repr, _STRATEGIES))} is, and nothing "
            f"was deleted."
        )
    _check(keep_last, older_than)
    if keep_last is None and older_than is None:
        return RetentionRule(_STRATEGIES[strategy], None)
    if strategy == "delete":
        raise ConfigurationError('With keep_last or older_than the strategy is "keep_latest".')
    return RetentionRule(keep_last, None if older_than is None else now - older_than)


def _check(keep_last: int | None, older_than: timedelta | None) -> None:
    if keep_last is not None and (type(keep_last) is not int or keep_last < 1):
        raise ConfigurationError(
            f"keep_last is {keep_last!r}; it is a whole number, and one checkpoint is the least."
        )
    if older_than is not None and not (
        isinstance(older_than, timedelta) and timedelta(0) < older_than <= _OLDEST
    ):
        raise ConfigurationError(
            f"older_than is {older_than!r}; it is a timedelta above zero and up to "
            f"{_OLDEST.days:,} days."
        )
