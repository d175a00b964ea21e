"""Reads the names in a LangGraph config, and writes configs and checkpoint tuples."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)

from langchain_tokenmem.core.thread_names import check_characters, check_thread_id
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.storage.checkpoints import Address, LoadedCheckpoint

_METADATA_KEYS = frozenset({"assistant_id", "graph_id", "run_id", "user_id"})
"""Keys under `configurable` that reach the metadata; any other one may hold a secret."""


class NamedId(str):
    """The id of a checkpoint that a caller has named, and not merely found at the head.

    LangGraph hands the id from `get_tuple` on to the `put` that follows. A run that started from a
    named checkpoint means to make a branch; one that started from the head does not.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return what a plain text would: a subclass of `str` may compare in a way of its own."""
        return str(self) == other

    def __ne__(self, other: object) -> bool:
        return str(self) != other

    __hash__ = str.__hash__


def address_of(config: RunnableConfig) -> Address:
    """Return what a config names.

    Raises:
        ScopeError: When it names no thread, or by something else than texts.
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
    """Return the user of a run, to whom a new thread belongs; None where it names none.

    Raises:
        ScopeError: When the user's id holds a control character.
    """
    name = (config.get("configurable") or {}).get("user_id")
    if not isinstance(name, str) or not name.strip():
        return None
    return check_characters(name, "user_id")


def text_of(value: Any, what: str) -> str:
    """Return a name.

    Raises:
        ScopeError: When it is no text.
    """
    if not isinstance(value, str):
        raise ScopeError(f"{what} is {value!r}; it is a text.")
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

    LangChain copies what is under `configurable` into the metadata of a run, so it is looked for
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
    """Return the number that an enumeration stands for: no reader needs to know its type."""
    return value.value if isinstance(value, int | float) and isinstance(value, Enum) else value


def tuple_of(found: LoadedCheckpoint, *, is_named: bool) -> CheckpointTuple:
    """Return a checkpoint as LangGraph takes it."""
    address = found.address
    parent = Address(address.thread_id, address.ns, found.parent)
    return CheckpointTuple(
        config_of(address, is_named=is_named),
        found.checkpoint,  # type: ignore[arg-type]  # as it was put
        found.metadata,  # type: ignore[arg-type]
        config_of(parent, is_named=True) if found.parent else None,
        found.writes,
    )
