"""Faults to plant into a saver: each one must make a check fail, or the check is worth nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple
from saver_checks import (
    Check,
    copies_stand_alone,
    deleting_a_thread_leaves_nothing,
    delta_channels_end_apart,
    delta_forks_see_their_own_branch,
    delta_order_inside_a_step,
    delta_plain_value_is_a_seed_too,
    delta_seed_is_the_nearest_value,
    delta_without_a_seed,
    delta_writes_oldest_first_without_the_target,
    messages_stay_messages,
    pending_writes_in_order,
    prune_takes_the_writes,
    special_writes_are_overwritten,
    sync_api_works,
    task_path_is_kept,
    threads_do_not_leak,
    unknown_prune_strategy_is_refused,
    versions_only_grow,
)
from savers import at

Base = BaseCheckpointSaver[Any]


class EmptyDeltaHistory(Base):
    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        return {channel: {"writes": []} for channel in channels}


class DeltaHistoryWithTarget(Base):
    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        found = dict(super().get_delta_channel_history(config=config, channels=channels))
        target = self.get_tuple(config)
        for channel in channels:
            own = [w for w in (target.pending_writes or ()) if w[1] == channel] if target else []
            found[channel] = {**found[channel], "writes": [*found[channel]["writes"], *own]}
        return found


class DeltaHistoryOfTheWholeThread(Base):
    """All checkpoints before the target, whatever branch they are on."""

    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        thread = config["configurable"]["thread_id"]
        older = list(self.list(at(thread), before=config))
        writes = [w for one in reversed(older) for w in one.pending_writes or ()]
        return {c: {"writes": [w for w in writes if w[1] == c]} for c in channels}


class DeltaSeedWithAWriteTooFew(Base):
    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        found = dict(super().get_delta_channel_history(config=config, channels=channels))
        return {
            c: {**entry, "writes": entry["writes"][1:] if "seed" in entry else entry["writes"]}
            for c, entry in found.items()
        }


class DeltaSeedAlways(Base):
    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        found = super().get_delta_channel_history(config=config, channels=channels)
        return {c: {"seed": None, **entry} for c, entry in found.items()}


class OnlySnapshotsSeed(Base):
    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        found = super().get_delta_channel_history(config=config, channels=channels)
        return {
            c: {k: v for k, v in entry.items() if k != "seed" or not isinstance(v, list)}
            for c, entry in found.items()
        }


class OneEndForAllChannels(Base):
    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        found = dict(super().get_delta_channel_history(config=config, channels=channels))
        if not all("seed" in entry for entry in found.values()):
            return found
        fewest = min(len(entry["writes"]) for entry in found.values())
        seed = next(iter(found.values()))["seed"]
        return {c: {"writes": e["writes"][-fewest:], "seed": seed} for c, e in found.items()}


class _Reading(Base):
    """Changes what is read, in the same way in `get_tuple`, `aget_tuple` and `list`."""

    def changed(self, found: CheckpointTuple) -> CheckpointTuple:
        return found

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        found = super().get_tuple(config)
        return None if found is None else self.changed(found)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return self.get_tuple(config)

    def list(self, config: Any, **given: Any) -> Iterator[CheckpointTuple]:
        for found in super().list(config, **given):
            yield self.changed(found)


class PendingWritesReversed(_Reading):
    def changed(self, found: CheckpointTuple) -> CheckpointTuple:
        return found._replace(pending_writes=list(reversed(found.pending_writes or ())))


class MessagesAsDicts(_Reading):
    def changed(self, found: CheckpointTuple) -> CheckpointTuple:
        held = found.checkpoint["channel_values"]
        plain = {
            name: [message_to_dict(m) if isinstance(m, BaseMessage) else m for m in value]
            if isinstance(value, list)
            else value
            for name, value in held.items()
        }
        return found._replace(checkpoint={**found.checkpoint, "channel_values": plain})


class TaskPathDropped(Base):
    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        super().put_writes(config, writes, task_id)


class SpecialWritesKept(Base):
    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        found = self.get_tuple(config)
        known = {(t, c) for t, c, _ in (found.pending_writes or ())} if found else set()
        fresh = [w for w in writes if w[0] not in WRITES_IDX_MAP or (task_id, w[0]) not in known]
        if fresh:
            super().put_writes(config, fresh, task_id, task_path)


class ResultsOverwritten(Base):
    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        shown = self.__dict__.setdefault("_shown", {})
        for place, (channel, value) in enumerate(writes):
            shown[str(config), task_id, place, channel] = value
        super().put_writes(config, writes, task_id, task_path)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        found = super().get_tuple(config)
        if found is None:
            return None
        shown = self.__dict__.get("_shown", {})
        latest = [
            (t, c, shown.get((str(config), t, 0, c), v)) for t, c, v in found.pending_writes or ()
        ]
        return found._replace(pending_writes=latest)


class PruneLeavesWrites(_Reading):
    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", **_: Any) -> None:
        left = self.__dict__.setdefault("_left", {})
        for thread in thread_ids:
            for found in super().list({"configurable": {"thread_id": thread}}):
                left[found.config["configurable"]["checkpoint_id"]] = found.pending_writes
        super().prune(thread_ids, strategy=strategy)

    def changed(self, found: CheckpointTuple) -> CheckpointTuple:
        left = self.__dict__.get("_left", {}).get(found.config["configurable"]["checkpoint_id"])
        return found._replace(pending_writes=found.pending_writes or left)


class UnknownStrategyDeletes(Base):
    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", **_: Any) -> None:
        known = strategy in {"keep_latest", "delete"}
        super().prune(thread_ids, strategy=strategy if known else "delete")


class CopiesAreAliases(Base):
    def _real(self, config: Any) -> Any:
        aliases = self.__dict__.get("_aliases", {})
        if config is None:
            return None
        given = config["configurable"]
        real = aliases.get(given["thread_id"], given["thread_id"])
        return {**config, "configurable": {**given, "thread_id": real}}

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.__dict__.setdefault("_aliases", {})[target_thread_id] = source_thread_id

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        return super().get_tuple(self._real(config))

    def list(self, config: Any, **given: Any) -> Iterator[CheckpointTuple]:
        yield from super().list(self._real(config), **given)

    def put(self, config: Any, *given: Any) -> Any:
        return super().put(self._real(config), *given)


class PrefixLeaks(Base):
    """Deletes by `LIKE 'id%'`."""

    def put(self, config: Any, *given: Any) -> Any:
        self.__dict__.setdefault("_names", set()).add(config["configurable"]["thread_id"])
        return super().put(config, *given)

    def delete_thread(self, thread_id: str) -> None:
        for name in self.__dict__.get("_names", ()):
            if name.startswith(thread_id):
                super().delete_thread(name)


class PrefixLists(Base):
    """Lists by `LIKE 'id%'`."""

    def put(self, config: Any, *given: Any) -> Any:
        self.__dict__.setdefault("_names", set()).add(config["configurable"]["thread_id"])
        return super().put(config, *given)

    def list(self, config: Any, **given: Any) -> Iterator[CheckpointTuple]:
        asked = config["configurable"]
        for name in sorted(self.__dict__.get("_names", ())):
            if name.startswith(asked["thread_id"]):
                yield from super().list({"configurable": {**asked, "thread_id": name}}, **given)


class NoSyncApi(Base):
    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        raise NotImplementedError("use the async method")


class VersionsByText(Base):
    """Numbers as text: "10" comes before "9"."""

    def get_next_version(self, current: Any, channel: None) -> Any:
        return str(int(str(current or 0).split(".")[0]) + 1)


class BlobsLeft(Base):
    """Values stay behind, by version, when their thread is deleted."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        blobs = self.__dict__.setdefault("_blobs", {})
        for name, version in new_versions.items():
            if name in checkpoint["channel_values"]:
                blobs[name, version] = checkpoint["channel_values"][name]
        return super().put(config, checkpoint, metadata, new_versions)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        found = super().get_tuple(config)
        if found is None:
            return None
        blobs = self.__dict__.get("_blobs", {})
        named = found.checkpoint["channel_versions"].items()
        left = {name: blobs[name, v] for name, v in named if (name, v) in blobs}
        held = {**left, **found.checkpoint["channel_values"]}
        return found._replace(checkpoint={**found.checkpoint, "channel_values": held})


PLANTED: tuple[tuple[type[Base], Check], ...] = (
    (EmptyDeltaHistory, delta_writes_oldest_first_without_the_target),
    (DeltaHistoryWithTarget, delta_writes_oldest_first_without_the_target),
    (DeltaHistoryOfTheWholeThread, delta_forks_see_their_own_branch),
    (DeltaSeedWithAWriteTooFew, delta_seed_is_the_nearest_value),
    (DeltaSeedAlways, delta_without_a_seed),
    (OnlySnapshotsSeed, delta_plain_value_is_a_seed_too),
    (OneEndForAllChannels, delta_channels_end_apart),
    (TaskPathDropped, delta_order_inside_a_step),
    (PendingWritesReversed, pending_writes_in_order),
    (TaskPathDropped, task_path_is_kept),
    (SpecialWritesKept, special_writes_are_overwritten),
    (ResultsOverwritten, special_writes_are_overwritten),
    (PruneLeavesWrites, prune_takes_the_writes),
    (UnknownStrategyDeletes, unknown_prune_strategy_is_refused),
    (CopiesAreAliases, copies_stand_alone),
    (PrefixLeaks, threads_do_not_leak),
    (PrefixLists, threads_do_not_leak),
    (NoSyncApi, sync_api_works),
    (MessagesAsDicts, messages_stay_messages),
    (VersionsByText, versions_only_grow),
    (BlobsLeft, deleting_a_thread_leaves_nothing),
)
