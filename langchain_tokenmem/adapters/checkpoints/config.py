"""Names in a LangGraph config, and the checks of which checkpoints a thread keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, get_checkpoint_metadata

from langchain_tokenmem.core.argument_checks import check_age
from langchain_tokenmem.core.thread_names import check_characters, check_thread_id
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.storage.checkpoint_rows import Address

_METADATA_KEYS = frozenset({"assistant_id", "graph_id", "run_id", "user_id"})
"""Keys under `configurable` that reach the metadata; any other one may hold a secret."""


def address_of(config: RunnableConfig) -> Address:
    """Return the thread, namespace and checkpoint that a config names.

    Raises:
        ScopeError: When it names no thread, or a name is not a text.
    """
    names: Mapping[str, Any] = config.get("configurable") or {}
    thread_id = check_thread_id(names.get("thread_id"))
    for name in ("checkpoint_ns", "checkpoint_id"):
        if not isinstance(names.get(name), str | None):
            raise ScopeError(f"{name} is {names[name]!r}; it must be a string.")
    return Address(thread_id, names.get("checkpoint_ns") or "", names.get("checkpoint_id") or None)


def owner_of(config: RunnableConfig) -> str | None:
    """Return the user of a run, who becomes the owner of a new thread; None if it names none.

    Raises:
        ScopeError: When the user's id contains a control character.
    """
    name = (config.get("configurable") or {}).get("user_id")
    if not isinstance(name, str) or not name.strip():
        return None
    return check_characters(name, "user_id")


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
    for key, value in kept.items():
        if isinstance(value, int | float) and isinstance(value, Enum):
            kept[key] = value.value  # no reader needs to know its type
    return kept


def kept_by(strategy: str, keep_last: int | None, older_than: timedelta | None) -> int | None:
    """Return how many of the newest checkpoints a call of `prune` keeps; None for all.

    Raises:
        ConfigurationError: When the strategy is unknown or a number is invalid.
    """
    if strategy not in {"keep_latest", "delete"}:
        raise ConfigurationError(
            f"strategy is {strategy!r}; it must be 'keep_latest' or 'delete'. Nothing was deleted."
        )
    check_retention(keep_last, older_than)
    if keep_last is None and older_than is None:
        return 1 if strategy == "keep_latest" else 0
    if strategy == "delete":
        raise ConfigurationError('With keep_last or older_than, strategy must be "keep_latest".')
    return keep_last


def check_retention(keep_last: int | None, older_than: timedelta | None, every: int = 1) -> None:
    """Check which checkpoints are kept, and after how many new ones the others are deleted.

    Raises:
        ConfigurationError: When a number is invalid.
    """
    if keep_last is not None and (type(keep_last) is not int or keep_last < 1):
        raise ConfigurationError(
            f"keep_last is {keep_last!r}; it must be a whole number, at least 1."
        )
    check_age("older_than", older_than)
    if type(every) is not int or every < 1:
        raise ConfigurationError(
            f"prune_every is {every!r}; it must be a whole number, at least 1."
        )
