"""A LangGraph checkpointer that keeps every message once."""

from __future__ import annotations

import logging
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_tokenmem.adapters.checkpoints.config import (
    address_of,
    check_retention,
    kept_by,
    kept_metadata,
    owner_of,
)
from langchain_tokenmem.background import in_own_thread, in_thread
from langchain_tokenmem.core.argument_checks import (
    BeforeStore,
    checked,
    checked_before_store,
    checked_choice,
    checked_several,
)
from langchain_tokenmem.errors import (
    ConfigurationError,
    ScopeError,
    StoreError,
    ThreadConflictError,
)
from langchain_tokenmem.storage.checkpoint_rows import Address
from langchain_tokenmem.storage.checkpoints import CheckpointStore
from langchain_tokenmem.storage.codec import Codec
from langchain_tokenmem.storage.serializer import StateSerializer
from langchain_tokenmem.storage.thread_messages import ThreadMessages
from langchain_tokenmem.storage.threads import (
    Examination,
    copy_thread,
    delete_for_runs,
    delete_thread,
    examine,
    prune,
)
from langchain_tokenmem.storage.transcript_store import TranscriptStore

logger = logging.getLogger(__name__)

OnConflict = Literal["branch", "raise"]
OnRemove = Literal["keep", "hide"]


class TokenMemorySaver(BaseCheckpointSaver[Any]):
    """A checkpointer on a transcript store that stores every message once.

    A checkpoint references messages. Those of the main channel are the transcript of the thread,
    which history, recall and search read. It can be shared between threads and event loops, and
    its store between processes. Async methods run the sync method in a thread.

    Args:
        store: Keeps everything. The saver does not close it.
        on_conflict: What to do when another run has already continued from the same checkpoint:
            "branch" (both are stored, the last one is the head; logged once) or "raise"
            (`ThreadConflictError`; nothing is stored, and the turn can be repeated).
        serde: LangGraph's serializer, such as an `EncryptedSerializer`. Default: a strict one,
            which loads the safe types of LangGraph and langchain-core, `allowed_types`, and
            Pydantic models, dataclasses, enumerations and named tuples of modules that are
            imported already (not under `LANGGRAPH_STRICT_MSGPACK`). Reading never imports
            anything.
        allowed_types: More types that the state may hold (default serializer only).
        metadata_keys: More keys of `configurable` to store in the metadata; others are not stored,
            as they may be secrets.
        transcript_channel: Name of the channel that holds the thread's transcript, or None.
        keep_last: How many of the newest checkpoints to keep in each namespace; None for all.
        older_than: Age at which checkpoints are deleted; None for never. The head always stays.
        prune_every: Number of checkpoints of a thread after which these two are applied.
        on_remove: What to do with messages that were removed from the thread: "keep" (they stay in
            the transcript and are recalled) or "hide" (only `include_superseded` returns
            them).
        before_store: Function that changes messages before they enter the transcript, for example
            to redact them. It returns the same number of messages with the same ids.
            Checkpoints keep what the graph put.

    Raises:
        ConfigurationError: When a setting is invalid.

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
        on_conflict: OnConflict = "branch",
        serde: SerializerProtocol | None = None,
        allowed_types: Collection[type] = (),
        metadata_keys: Collection[str] = (),
        transcript_channel: str | None = "messages",
        keep_last: int | None = None,
        older_than: timedelta | None = None,
        prune_every: int = 30,
        on_remove: OnRemove = "keep",
        before_store: BeforeStore | None = None,
    ) -> None:
        self._raises = checked_choice(on_conflict, OnConflict, "on_conflict") == "raise"
        self.hides_removed = checked_choice(on_remove, OnRemove, "on_remove") == "hide"
        if serde is not None and allowed_types:
            raise ConfigurationError(
                "allowed_types belongs to the default serializer; give the types to your own one, "
                "JsonPlusSerializer(allowed_msgpack_modules=[...])."
            )
        types = checked_several(allowed_types, type, "allowed_types", "allowed_types=[MyType]")
        super().__init__(serde=serde or StateSerializer(types))
        self.store = checked(store, TranscriptStore, "store", "TokenMemorySaver(TranscriptStore())")
        self._metadata_keys = frozenset(
            checked_several(metadata_keys, str, "metadata_keys", 'metadata_keys=["run_name"]')
        )
        self._has_warned = False
        check_retention(keep_last, older_than, prune_every)
        self._keep_last, self._older_than, self._prune_every = keep_last, older_than, prune_every
        self.transcript_channel = transcript_channel
        self._before_store = checked_before_store(before_store)
        self._checkpoints = self._checkpoint_store()

    def _checkpoint_store(self) -> CheckpointStore:
        codec = Codec(self.serde)
        messages = ThreadMessages(codec, self.store.index, self._before_store, self.hides_removed)
        return CheckpointStore(
            self.store.database, codec, messages, self.transcript_channel, self._conflict
        )

    def __repr__(self) -> str:
        return f"TokenMemorySaver({self.store!r})"

    @property
    def keeps_transcript(self) -> bool:
        """Whether the transcript has the messages of a thread as its checkpoints have them."""
        is_open = self._checkpoints.codec.is_plain and self._before_store is None
        return self.transcript_channel is not None and is_open

    def with_allowlist(
        self, extra_allowlist: Collection[tuple[str, ...]]
    ) -> BaseCheckpointSaver[Any]:
        """Return a saver on the same store that may load more types."""
        clone = super().with_allowlist(extra_allowlist)
        if isinstance(clone, TokenMemorySaver) and clone is not self:
            clone._checkpoints = clone._checkpoint_store()  # noqa: SLF001
        return clone

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002
        """Return the version after `current`: a number, or a string if another saver wrote one."""
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
            config: Thread, namespace, and the checkpoint that this one follows.
            checkpoint: The checkpoint.
            metadata: Its metadata.
            new_versions: The channels that changed.

        Returns:
            The config of the checkpoint.

        Raises:
            ThreadConflictError: When another run has continued from the same parent, with
                `on_conflict="raise"`; or when the thread was deleted since this saver has read
                the checkpoint that this one follows.
            ConfigurationError: When a value cannot be stored so that it can be read again.
            StoreError: When the store cannot write.
        """
        address = address_of(config)
        count = self._checkpoints.put(
            address,
            checkpoint,
            kept_metadata(config, metadata, self._metadata_keys),
            new_versions,
            root=_root_of(config),
            user_id=owner_of(config),
            counts=self._keep_last is not None or self._older_than is not None,
        )
        if count:
            self._prune_old(address.thread_id, count)
        return Address(address.thread_id, address.ns, checkpoint["id"]).config()

    aput = in_thread(put)

    def _prune_old(self, thread_id: str, count: int) -> None:
        """Delete old checkpoints if it is time to; if that fails, the stored checkpoint stays.

        The stored number decides, not a counter of this process, which may end after each turn.
        """
        extra = count - (self._keep_last or 0)
        if extra <= 0 or extra % self._prune_every:
            return
        now, rule = datetime.now(UTC), (self._keep_last, self._older_than)
        try:
            prune(self._checkpoints, thread_id, *rule, now=now)
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
            config: The checkpoint.
            writes: Channels and values.
            task_id: The task that wrote them.
            task_path: Its place in the step; writes are applied in this order.
        """
        address = address_of(config)
        if address.checkpoint_id is None:
            raise ScopeError("checkpoint_id is None; it must be a string.")
        if writes:
            root = _root_of(config)
            self._checkpoints.put_writes(address, writes, task_id, task_path, root=root)

    aput_writes = in_thread(put_writes)

    def _conflict(self, what: str) -> None:
        if self._raises:
            raise ThreadConflictError(
                f"{what} This step was not stored; repeat the turn, it will start from the head. "
                f'With durability="exit" nothing of a turn is stored before its end.'
            )
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s Both branches are kept and can be read, the newest checkpoint is the head. "
                'To refuse such turns: TokenMemorySaver(store, on_conflict="raise").',
                what,
            )

    @property
    def is_plain(self) -> bool:
        """Whether the messages of threads are transcripts, too: an encrypted thread has none."""
        return self._checkpoints.codec.is_plain

    def examine(self, progress: Callable[[int, int], None] = lambda _, __: None) -> Examination:
        """Read every message and every checkpoint, and report what cannot be read.

        Args:
            progress: Called with the number of checkpoints read, and the total.
        """
        return examine(self._checkpoints, progress)

    # --- reading, and whole threads

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, by default the head of the thread.

        Raises:
            CorruptStoreError: When a part of it is damaged or missing.
        """
        return self._checkpoints.get(address_of(config))

    aget_tuple = in_thread(get_tuple)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first.

        Args:
            config: The thread, and optionally namespace and checkpoint. None for every thread in
                the store, of any owner.
            filter: Values that their metadata must have.
            before: Return checkpoints older than this one.
            limit: Maximum number of checkpoints.

        Raises:
            CorruptStoreError: When something is damaged or missing.
        """
        address = None if config is None else address_of(config)
        named = (config or {}).get("configurable", {}).get("checkpoint_ns")
        found = self._checkpoints.listed(
            address.thread_id if address else None,
            named,
            checkpoint_id=address.checkpoint_id if address else None,
            before=(before or {}).get("configurable", {}).get("checkpoint_id"),
            metadata=filter or {},
        )
        yield from islice(found, None if limit is None else max(0, limit))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do the same as `list` without blocking the event loop."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await in_own_thread(next, found, None)) is not None:
            yield one

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to delta channels since their last snapshots, along the branch.

        Args:
            config: The checkpoint; the search begins at its parent.
            channels: The channels.
        """
        return self._checkpoints.delta_history(address_of(config), channels)

    aget_delta_channel_history = in_thread(get_delta_channel_history)

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread: checkpoints, pending writes, and its transcript.

        Raises:
            CorruptStoreError: When the rows of the thread cannot be identified; nothing was
                deleted.
        """
        delete_thread(self._checkpoints, thread_id)

    adelete_thread = in_thread(delete_thread)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs with their pending writes; transcripts stay.

        It also deletes what later checkpoints of a `DeltaChannel` need. To shorten a thread that is
        still in use, call `prune`.

        Raises:
            ConfigurationError: When a single id is given instead of several.
            CorruptStoreError: When one of their threads has lost a checkpoint; nothing was deleted.
        """
        names = [str(one) for one in _many(run_ids, "run_ids")]
        delete_for_runs(self._checkpoints, names, now=datetime.now(UTC))

    adelete_for_runs = in_thread(delete_for_runs)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all checkpoints, pending writes and its transcript.

        Raises:
            ConfigurationError: When the target has checkpoints or messages of its own.
            CorruptStoreError: When a part of the source is damaged or missing; nothing was
                copied.
        """
        copy_thread(self._checkpoints, source_thread_id, target_thread_id)

    acopy_thread = in_thread(copy_thread)

    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int | None = None,
        older_than: timedelta | None = None,
    ) -> None:
        """Delete old checkpoints of threads, and everything that only they need.

        What a kept checkpoint needs stays, too: the ancestors of a `DeltaChannel` back to its last
        snapshot. Checkpoints of a sub-graph are deleted with the one they ran under. The
        transcript stays.

        Args:
            thread_ids: The threads.
            strategy: "keep_latest" keeps the newest checkpoint of each namespace, "delete" none.
            keep_last: Number to keep instead of one.
            older_than: Delete only those of at least this age; the head always stays.

        Raises:
            ConfigurationError: When the strategy or a number is invalid, or a single id is given
                instead of several.
            CorruptStoreError: When a thread is damaged; nothing of it was deleted.
        """
        now = datetime.now(UTC)
        kept = kept_by(strategy, keep_last, older_than)
        for thread_id in _many(thread_ids, "thread_ids"):
            prune(self._checkpoints, thread_id, kept, older_than, now=now)

    aprune = in_thread(prune)


def _many(given: Iterable[Any], name: str) -> Iterable[Any]:
    """Return ids; a single one would be read letter by letter."""
    if isinstance(given, str | bytes):
        raise ConfigurationError(f"{name} is {given!r}; give a list of ids, such as [{given!r}].")
    return given


def _root_of(config: RunnableConfig) -> str | None:
    """Return the checkpoint of the thread's own graph under which a sub-graph runs."""
    own = config["configurable"]
    return own.get("checkpoint_map", {}).get("") if own.get("checkpoint_ns") else None
