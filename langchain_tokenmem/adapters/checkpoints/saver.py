"""A LangGraph checkpointer that keeps every message once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_tokenmem.adapters.checkpoints.config import (
    address_of,
    config_of,
    is_fork,
    kept_metadata,
    owner_of,
    secret_of,
    text_of,
)
from langchain_tokenmem.adapters.checkpoints.retention_policy import RetentionPolicy
from langchain_tokenmem.adapters.checkpoints.thread_methods import ThreadSaver
from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.core.argument_checks import (
    checked,
    checked_several,
)
from langchain_tokenmem.core.before_store import BeforeStore, checked_before_store
from langchain_tokenmem.errors import ConfigurationError, StoreError, ThreadConflictError
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.message_cache import MessageCache
from langchain_tokenmem.storage.checkpoints.messages import ThreadMessages
from langchain_tokenmem.storage.checkpoints.records import Address, NewCheckpoint
from langchain_tokenmem.storage.checkpoints.retention import prune
from langchain_tokenmem.storage.checkpoints.serializer import StateSerializer
from langchain_tokenmem.storage.checkpoints.store import CheckpointStore
from langchain_tokenmem.storage.database.async_wrappers import in_thread
from langchain_tokenmem.storage.transcript_store import TranscriptStore

logger = logging.getLogger(__name__)


class TokenMemorySaver(ThreadSaver):
    """A checkpointer on a transcript store: every message once, in SQLite or PostgreSQL.

    A checkpoint holds references to messages; the messages themselves stand once in the store,
    those of the main channel as the transcript of the thread, where history, recall and search
    find them. Safe to share between threads, event loops and, as the store is, processes. Async
    methods run their sync twin in a thread; sync methods may be called anywhere.

    Args:
        store: Keeps everything; the saver opens and closes nothing of its own.
        on_conflict: What happens when a run stores a checkpoint whose parent another run has gone
            on from: "branch" (as with other savers, the last one is the head; logged once) or
            "raise" (`ThreadConflictError`; nothing is stored and the turn can be made again).
        key: Secret that seals every row, so that a forged one is refused before it is decoded.
            Without it rows have checksums, which show damage only.
        serde: LangGraph's serializer, such as an `EncryptedSerializer`. Default: a strict one,
            which loads the safe types of LangGraph and langchain-core, `allowed_types`, and
            Pydantic models, dataclasses, enumerations and named tuples of modules that are
            imported already (not those under `LANGGRAPH_STRICT_MSGPACK`, where LangGraph names the
            types of a graph itself). Nothing that a row names is imported.
        allowed_types: Further types that the state may hold (default serializer only).
        metadata_keys: Further keys under `configurable` that go into the metadata; all others may
            be secrets and stay out of it.
        transcript_channel: The channel whose messages are the thread's transcript; None for none.
        cache_bytes: Most memory, about, that decoded messages take which the saver remembers.
        keep_last: How many of the newest checkpoints of each namespace are kept; None for all.
        older_than: Age from which checkpoints go; None for never. The head always stays.
        prune_every: After how many checkpoints of a thread the two are applied.
        on_remove: What becomes of the transcript's messages that the head of the thread has no
            more: "keep" (they stay and are recalled) or "hide" (they are read with
            `include_superseded` only).
        before_store: Changes messages on their way into the transcript, such as redacts them: takes
            and returns a list, the same number of messages under the same ids. Checkpoints keep
            what the graph put.

    Raises:
        ConfigurationError: When the settings cannot work.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langgraph.graph import MessagesState, StateGraph
        >>> store = TranscriptStore("sqlite://")
        >>> builder = StateGraph(MessagesState).add_node("answer", lambda state: {"messages": "42"})
        >>> graph = builder.set_entry_point("answer").compile(checkpointer=TokenMemorySaver(store))
        >>> thread = {"configurable": {"thread_id": "t1"}}
        >>> _ = graph.invoke({"messages": "What is six by seven?"}, thread)
        >>> [message.content for message in store.messages("t1")]
        ['What is six by seven?', '42']
    """

    def __init__(
        self,
        store: TranscriptStore,
        *,
        on_conflict: Literal["branch", "raise"] = "branch",
        key: str | bytes | None = None,
        serde: SerializerProtocol | None = None,
        allowed_types: Collection[type] = (),
        metadata_keys: Collection[str] = (),
        transcript_channel: str | None = "messages",
        cache_bytes: int = 256_000_000,
        keep_last: int | None = None,
        older_than: timedelta | None = None,
        prune_every: int = 30,
        on_remove: Literal["keep", "hide"] = "keep",
        before_store: BeforeStore | None = None,
    ) -> None:
        if on_conflict not in ("branch", "raise"):
            raise ConfigurationError(f'on_conflict is {on_conflict!r}; "branch" or "raise" is.')
        if serde is not None and allowed_types:
            raise ConfigurationError(
                "allowed_types belongs to the default serializer; give the types to your own one, "
                "JsonPlusSerializer(allowed_msgpack_modules=[...])."
            )
        if on_remove not in ("keep", "hide"):
            raise ConfigurationError(f'on_remove is {on_remove!r}; "keep" or "hide" is.')
        if type(cache_bytes) is not int or cache_bytes < 1:
            raise ConfigurationError(
                f"cache_bytes is {cache_bytes!r}; it is a number of bytes, such as 256_000_000."
            )
        types = checked_several(allowed_types, type, "allowed_types", "allowed_types=[MyType]")
        super().__init__(serde=serde or StateSerializer(types))
        self.store = checked(store, TranscriptStore, "store", "TokenMemorySaver(TranscriptStore())")
        self._key = secret_of(key)
        self._metadata_keys = frozenset(
            checked_several(metadata_keys, str, "metadata_keys", 'metadata_keys=["run_name"]')
        )
        self._raises = on_conflict == "raise"
        self._has_warned = False
        self._retention = RetentionPolicy(keep_last, older_than, prune_every)
        self._prune_tasks: set[asyncio.Task[None]] = set()
        codec = store.checkpoint_codec = Codec(self.serde, self._key)
        redact = checked_before_store(before_store)
        messages = ThreadMessages(codec, MessageCache(cache_bytes), store.index, redact)
        self.transcript_channel = transcript_channel
        self.hides_removed = on_remove == "hide"
        self._checkpoints = CheckpointStore(
            store.database,
            codec,
            messages,
            transcript_channel,
            self._conflict,
            hides_removed=self.hides_removed,
        )

    def with_allowlist(
        self, extra_allowlist: Collection[tuple[str, ...]]
    ) -> BaseCheckpointSaver[Any]:
        """Return a saver on the same store that may load more types."""
        clone = super().with_allowlist(extra_allowlist)
        if isinstance(clone, TokenMemorySaver) and clone is not self:
            codec = self.store.checkpoint_codec = Codec(clone.serde, self._key)
            clone._checkpoints = self._checkpoints.with_codec(codec)  # noqa: SLF001
        return clone

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002
        """Return the version after `current`: a number, or a text where another saver wrote one."""
        if isinstance(current, str):
            return f"{int(current.split('.')[0]) + 1:032}.{0:016}"
        return 1 if current is None else int(current) + 1

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint.

        Args:
            config: Names thread, namespace, and the checkpoint that this one follows.
            checkpoint: The checkpoint.
            metadata: Its metadata.
            new_versions: The channels that changed.

        Returns:
            The config that names the checkpoint.

        Raises:
            ThreadConflictError: When another run has gone on from the same parent, with
                `on_conflict="raise"`.
            ConfigurationError: When a value cannot be stored so that it can be read again.
            StoreError: When the store cannot write.
        """
        stored, is_due = self._put(config, checkpoint, metadata, new_versions)
        if is_due:
            self._prune_old(stored["configurable"]["thread_id"])
        return stored

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> tuple[RunnableConfig, bool]:
        address = address_of(config)
        new = NewCheckpoint(
            address,
            checkpoint,
            kept_metadata(config, metadata, self._metadata_keys),
            new_versions,
            is_fork=is_fork(config, metadata),
            user_id=owner_of(config),
        )
        count = self._checkpoints.put(new)
        stored = config_of(Address(address.thread_id, address.ns, checkpoint["id"]))
        return stored, self._retention.is_due(count)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do the same as `put` without blocking the event loop; retention runs behind it."""
        stored, is_due = await in_own_thread(self._put, config, checkpoint, metadata, new_versions)
        if is_due:
            thread_id = stored["configurable"]["thread_id"]
            task = asyncio.create_task(in_own_thread(self._prune_old, thread_id))
            self._prune_tasks.add(task)
            task.add_done_callback(self._prune_tasks.discard)
        return stored

    def _prune_old(self, thread_id: str) -> None:
        """Apply the policy; a checkpoint that is stored stays stored when that fails."""
        now = datetime.now(UTC)
        try:
            prune(self._checkpoints, thread_id, self._retention.rule(now), now=now)
        except StoreError as error:
            logger.warning("Thread %r: old checkpoints were not removed: %s", thread_id, error)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store pending writes of a checkpoint.

        Args:
            config: Names the checkpoint.
            writes: Channels and values.
            task_id: The task that wrote them.
            task_path: Its place in the step; writes are applied in this order.
        """
        address = address_of(config)
        text_of(address.checkpoint_id, "checkpoint_id")
        if writes:
            self._checkpoints.put_writes(address, writes, task_id, task_path)

    aput_writes = in_thread(put_writes)

    def _conflict(self, what: str) -> None:
        if self._raises:
            raise ThreadConflictError(
                f"{what} Nothing was stored; make the turn again, it will start from the head."
            )
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s Both branches are kept and can be read, the newest checkpoint is the head. "
                'To have such turns refused: TokenMemorySaver(store, on_conflict="raise").',
                what,
            )
