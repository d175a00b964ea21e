"""Names in a LangGraph config, checkpoint tuples, and which checkpoints a thread keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)

from langchain_tokenmem.core.thread_names import check_characters, check_thread_id
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.storage.checkpoint_rows import Address, LoadedCheckpoint
from langchain_tokenmem.storage.threads import RetentionRule

_METADATA_KEYS = frozenset({"assistant_id", "graph_id", "run_id", "user_id"})
"""Keys under `configurable` that reach the metadata; any other one may hold a secret."""


class NamedId(str):
    """The id of a checkpoint that a caller named, not one that was found at the head.

    LangGraph passes the id from `get_tuple` to the `put` that follows. A run that started from a
    named checkpoint intends a branch; one that started from the head does not.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return what a plain text would: a subclass of `str` may compare differently."""
        return str(self) == other

    def __ne__(self, other: object) -> bool:
        return str(self) != other

    __hash__ = str.__hash__


def address_of(config: RunnableConfig) -> Address:
    """Return the thread, namespace and checkpoint that a config names.

    Raises:
        ScopeError: When it names no thread, or a name is not a text.
    """
    names: Mapping[str, Any] = config.get("configurable") or {}
    ns = names.get("checkpoint_ns")
    checkpoint_id = names.get("checkpoint_id")
    return Address(
        check_thread_id(names.get("thread_id")),
        "" if ns is None else text_of(ns, "checkpoint_ns"),
        text_of(checkpoint_id, "checkpoint_id") if checkpoint_id else None,
    )


def owner_of(config: RunnableConfig) -> str | None:
    """Return the user of a run, who becomes the owner of a new thread; None if it names none.

    Raises:
        ScopeError: When the user's id contains a control character.
    """
    name = (config.get("configurable") or {}).get("user_id")
    if not isinstance(name, str) or not name.strip():
        return None
    return check_characters(name, "user_id")


def text_of(value: Any, what: str) -> str:
    """Return a name that was checked.

    Raises:
        ScopeError: When it is not a text.
    """
    if not isinstance(value, str):
        raise ScopeError(f"{what} is {value!r}; it must be a string.")
    return value


def config_of(address: Address, *, is_named: bool = False) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    name = str(address.checkpoint_id)
    return {
        "configurable": {
            "thread_id": address.thread_id,
            "checkpoint_ns": address.ns,
            "checkpoint_id": NamedId(name) if is_named else name,
        }
    }


def is_fork(config: RunnableConfig, metadata: CheckpointMetadata) -> bool:
    """Return whether a checkpoint is meant to begin a branch."""
    parent = (config.get("configurable") or {}).get("checkpoint_id")
    return isinstance(parent, NamedId) or metadata.get("source") == "fork"


def kept_metadata(
    config: RunnableConfig, metadata: CheckpointMetadata, more_keys: Collection[str]
) -> dict[str, Any]:
    """Return the metadata of a checkpoint, with nothing from `configurable` that may be secret.

    LangChain copies what is under `configurable` into the metadata of a run, so it is removed from
    there, too.
    """
    names: Mapping[str, Any] = config.get("configurable") or {}
    secret = names.keys() - _METADATA_KEYS - frozenset(more_keys)
    clean: RunnableConfig = {
        "configurable": {key: value for key, value in names.items() if key not in secret},
        "metadata": {
            key: value for key, value in (config.get("metadata") or {}).items() if key not in secret
        },
    }
    kept = dict(get_checkpoint_metadata(clean, metadata))
    return {key: _as_number(value) for key, value in kept.items()}


def _as_number(value: Any) -> Any:
    """Return the number of an enumeration's member: no reader needs to know its type."""
    return value.value if isinstance(value, int | float) and isinstance(value, Enum) else value


def tuple_of(found: LoadedCheckpoint, *, is_named: bool) -> CheckpointTuple:
    """Return a checkpoint in LangGraph's form."""
    address = found.address
    parent = Address(address.thread_id, address.ns, found.parent)
    return CheckpointTuple(
        config_of(address, is_named=is_named),
        found.checkpoint,  # type: ignore[arg-type]  # as it was put
        found.metadata,  # type: ignore[arg-type]
        config_of(parent, is_named=True) if found.parent else None,
        found.writes,
    )


_STRATEGIES = {"keep_latest": 1, "delete": 0}

_OLDEST = timedelta(days=365 * 1_000)
"""This can be subtracted from any date."""


@dataclass(frozen=True)
class RetentionPolicy:
    """Retention while a thread grows.

    Args:
        keep_last: Checkpoints that are kept in each namespace; None for all.
        older_than: Age at which they are deleted; None for never.
        every: Number of checkpoints of a namespace after which it is applied.

    Raises:
        ConfigurationError: When a number is invalid.
    """

    keep_last: int | None
    older_than: timedelta | None
    every: int

    def __post_init__(self) -> None:
        _check(self.keep_last, self.older_than)
        if type(self.every) is not int or self.every < 1:
            raise ConfigurationError(
                f"prune_every is {self.every!r}; it must be a whole number, at least 1."
            )

    @property
    def is_set(self) -> bool:
        """Whether it ever removes anything."""
        return self.keep_last is not None or self.older_than is not None

    def is_due(self, count: int) -> bool:
        """Return whether to apply it, by the checkpoints that a namespace has.

        The stored number decides, not a counter of this process, which may end after each turn.
        """
        return (count - (self.keep_last or 0)) % self.every == 0 and count > (self.keep_last or 0)

    def rule(self, now: datetime) -> RetentionRule:
        """Return the rule as of `now`."""
        return rule_of("keep_latest", self.keep_last, self.older_than, now)


def rule_of(
    strategy: str, keep_last: int | None, older_than: timedelta | None, now: datetime
) -> RetentionRule:
    """Return the rule that a call of `prune` asks for.

    Raises:
        ConfigurationError: When the strategy is unknown or a number is invalid.
    """
    if strategy not in _STRATEGIES:
        raise ConfigurationError(
            f"strategy is {strategy!r}; it must be {' or '.join(map(repr, _STRATEGIES))}. Nothing "
            f"was deleted."
        )
    _check(keep_last, older_than)
    if keep_last is None and older_than is None:
        return RetentionRule(_STRATEGIES[strategy], None)
    if strategy == "delete":
        raise ConfigurationError('With keep_last or older_than, strategy must be "keep_latest".')
    return RetentionRule(keep_last, None if older_than is None else now - older_than)


def _check(keep_last: int | None, older_than: timedelta | None) -> None:
    if keep_last is not None and (type(keep_last) is not int or keep_last < 1):
        raise ConfigurationError(
            f"keep_last is {keep_last!r}; it must be a whole number, at least 1."
        )
    if older_than is not None and not (
        isinstance(older_than, timedelta) and timedelta(0) < older_than <= _OLDEST
    ):
        raise ConfigurationError(
            f"older_than is {older_than!r}; it must be a timedelta above zero and up to "
            f"{_OLDEST.days:,} days."
        )
