"""Source of a migration: its threads, their checkpoints in order, and errors that name them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from langchain_tokenmem.adapters.checkpoints.thread_methods import ThreadSaver
from langchain_tokenmem.adapters.migration.other_savers import (
    CheckpointKey,
    checkpoints_of,
    thread_ids,
)
from langchain_tokenmem.core.thread_names import check_thread_id
from langchain_tokenmem.errors import (
    ConfigurationError,
    ScopeError,
    StoreError,
    TokenMemoryError,
)
from langchain_tokenmem.storage.checkpoints.codec import refused_types


def config_at(thread: str, namespace: str, checkpoint_id: str | None = None) -> RunnableConfig:
    """Return the config that names a checkpoint, or the head of a namespace."""
    named = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, **named}}


def threads_of(
    source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any]
) -> tuple[list[str], list[str]]:
    """Return the threads of the source, and those that cannot be threads of the target."""
    with errors_at("The list of threads"):
        found = thread_ids(source)
    if not isinstance(target, ThreadSaver):
        return found, []
    usable = [thread for thread in found if _is_usable(thread)]
    return usable, [str(thread) for thread in found if thread not in usable]


def _is_usable(thread: Any) -> bool:
    try:
        check_thread_id(thread)
    except ScopeError:
        return False
    return True


def keys_in_order(source: BaseCheckpointSaver[Any], thread: str) -> list[CheckpointKey]:
    """Return the checkpoints of a thread in the order in which they are copied.

    By id, as other savers find their head, the greatest id. Ours follows the parents, because the
    clock of a machine may have been behind; what leads to a head comes last.
    """
    where = f"Thread {thread!r}"
    if not isinstance(source, ThreadSaver):
        with errors_at(f"{where}: its checkpoints"):
            return sorted(checkpoints_of(source, thread), key=lambda key: key.checkpoint_id)
    with errors_at(f"{where}: its checkpoints"), _types_checked(where):
        parents = checkpoints_of(source, thread)
        namespaces = dict.fromkeys(key.namespace for key in parents)
        heads = [
            CheckpointKey(ns, head) for ns in namespaces if (head := head_of(source, thread, ns))
        ]
    return in_order(parents, heads)


def in_order(
    parents: Mapping[CheckpointKey, str | None], heads: Iterable[CheckpointKey]
) -> list[CheckpointKey]:
    """Return checkpoints behind their parents, then by id, the ways to the heads late."""
    way: set[CheckpointKey] = set()
    for head in heads:
        key = head
        while key in parents and key not in way:
            way.add(key)
            key = CheckpointKey(key.namespace, parents[key] or "")
    following: dict[CheckpointKey, list[CheckpointKey]] = defaultdict(list)
    ready: list[tuple[bool, str, CheckpointKey]] = []
    for key, parent in parents.items():
        before = CheckpointKey(key.namespace, parent or "")
        if before in parents:
            following[before].append(key)
        else:
            heappush(ready, (key in way, key.checkpoint_id, key))
    order: list[CheckpointKey] = []
    while ready:
        key = heappop(ready)[-1]
        order.append(key)
        for child in following[key]:
            heappush(ready, (child in way, child.checkpoint_id, child))
    return order + sorted(parents.keys() - set(order))


def head_of(saver: BaseCheckpointSaver[Any], thread: str, namespace: str) -> str | None:
    """Return the id of the checkpoint that a run would go on from."""
    found = saver.get_tuple(config_at(thread, namespace))
    return None if found is None else str(found.config["configurable"]["checkpoint_id"])


def read_checkpoint(
    source: BaseCheckpointSaver[Any], thread: str, key: CheckpointKey
) -> CheckpointTuple:
    """Return a checkpoint of the source.

    Raises:
        ConfigurationError: When it holds a type that is not allowed.
        StoreError: When it is not there any more, or cannot be read.
    """
    where = f"Thread {thread!r}, checkpoint {key.checkpoint_id}"
    with errors_at(where), _types_checked(where):
        found = source.get_tuple(config_at(thread, *key))
    if found is None:
        raise StoreError(
            f"{where}: it went away while it was copied. Stop what deletes from the source, and "
            f"run the migration again."
        )
    held = _unbuilt_objects(
        found.checkpoint["channel_values"], found.pending_writes, found.metadata
    )
    if held and not isinstance(source, ThreadSaver):
        raise ConfigurationError(
            f"{where}: an old version of LangGraph stored {', '.join(sorted(held))}, of which its "
            f"serializer now gives the parts only. If you trust it, call migrate_checkpoints in "
            f"Python with JsonPlusSerializer(allowed_json_modules=...) as the source's serializer."
        )
    return found


def _unbuilt_objects(*values: Any) -> set[str]:
    """Return the names of objects that LangGraph's reader of old JSON rows left as parts."""
    found: set[str] = set()
    waiting = [*values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            if value.get("lc") == 2 and value.get("type") == "constructor":  # noqa: PLR2004  # its sign
                found.add(".".join(map(str, value.get("id") or ())))
    return found


@contextmanager
def _types_checked(where: str) -> Iterator[None]:
    """Raise where LangGraph's serializer gives plain data in key of a type that is not allowed.

    Savers may read in another thread, so what it refuses anywhere meanwhile counts.
    """
    with refused_types(in_any_thread=True) as refused:
        try:
            yield
        except TokenMemoryError as error:
            if refused:
                raise _not_allowed(where, refused) from error
            raise
    if refused:
        raise _not_allowed(where, refused)


def _not_allowed(where: str, refused: Iterable[str]) -> ConfigurationError:
    names = sorted(refused)
    allow = " ".join(f"--allow {name}" for name in names)
    return ConfigurationError(
        f"{where}: the source holds {', '.join(names)}, which is not allowed to be loaded. If you "
        f"trust it: {allow}, or in Python allowed_types of TokenMemorySaver and the serializer of "
        f"the source."
    )


@contextmanager
def errors_at(where: str) -> Iterator[None]:
    """Say where it was that the source failed."""
    try:
        yield
    except TokenMemoryError:
        raise
    except Exception as error:  # somebody else's saver may raise anything
        advice = "Mend it there, or name the threads that can be read with --thread."
        if "pickle" in str(error):
            advice = (
                "What was pickled is not read, for that can run code: convert it with LangGraph "
                "first, or call migrate_checkpoints in Python with a saver that reads it."
            )
        raise StoreError(
            f"{where}: the source cannot read it ({error!r:.200}). {advice}"
        ) from error
