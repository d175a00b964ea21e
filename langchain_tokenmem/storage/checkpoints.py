"""Stores checkpoints: a body names its messages by number, and its large values by hash."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, DeltaChannelHistory
from sqlalchemy import Connection, insert, select, tuple_, update

from langchain_tokenmem.core.message_times import moment_of
from langchain_tokenmem.core.pins import PINS_CHANNEL
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.thread_names import thread_session
from langchain_tokenmem.errors import CorruptStoreError, ThreadConflictError
from langchain_tokenmem.storage.checkpoint_rows import (
    AROUND,
    COUNT,
    KEEP_VALUE,
    KEEP_WRITE,
    NEWEST,
    OWN,
    REPLACE_WRITE,
    VALUE,
    WRITES,
    Address,
    NamedId,
    StoredCheckpoint,
    Value,
    errors_about,
    has_entry,
    is_at,
    to_ranges,
)
from langchain_tokenmem.storage.codec import MARK, Codec, MarkTakenError, attach, detach, is_plain
from langchain_tokenmem.storage.database import Database
from langchain_tokenmem.storage.sessions import Session, find_or_make, save
from langchain_tokenmem.storage.sessions import find as find_session
from langchain_tokenmem.storage.tables import checkpoints
from langchain_tokenmem.storage.thread_messages import MessageWriter, ThreadMessages

_SMALL = 256
"""Maximum bytes of a value that is stored in the body of its checkpoint."""

_RECENT = timedelta(minutes=1)
"""Activity more recent than this is not updated by what adds no message."""

_MOST_SEEN = 10_000
"""Checkpoints kept in memory."""

_PAGE = 32
"""Checkpoints per read."""


@dataclass(frozen=True)
class _Prepared:
    """A value about to be stored: its shape, its messages, and the packed shape if it is large."""

    shape: Any
    messages: list[BaseMessage]
    packed: bytes | None


class SeenCheckpoints:
    """The checkpoints that a saver has read or stored lately.

    A run that is in progress while its thread is deleted would store the whole thread again. A
    session that is deleted and made again has another number.

    Attributes:
        sessions: The number of the session of each.
    """

    def __init__(self) -> None:
        self.sessions: OrderedDict[Address, int] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, at: Address, session: int | None) -> None:
        """Remember the session of a checkpoint, if it is known."""
        if session is None:
            return
        with self._lock:
            self.sessions[at] = session
            self.sessions.move_to_end(at)
            if len(self.sessions) > _MOST_SEEN:
                self.sessions.popitem(last=False)


@dataclass(frozen=True)
class CheckpointStore:
    """The checkpoints of a database.

    Attributes:
        database: The database.
        codec: Turns values into bytes.
        messages: Stores messages.
        transcript_channel: Name of the channel that holds the transcript, or None.
        on_conflict: Called when another run has continued from the same parent; it may raise.
        seen: The checkpoints that it has read or stored.
    """

    database: Database
    codec: Codec
    messages: ThreadMessages
    transcript_channel: str | None
    on_conflict: Callable[[str], None]
    seen: SeenCheckpoints = field(default_factory=SeenCheckpoints)

    # --- writing

    def put(
        self,
        at: Address,
        checkpoint: Mapping[str, Any],
        metadata: dict[str, Any],
        new_versions: Mapping[str, Any],
        *,
        root: str | None = None,
        user_id: str | None = None,
        counts: bool = False,
    ) -> int:
        """Store a checkpoint.

        Args:
            at: Its thread and namespace, and the id of its parent: a `NamedId` begins a branch.
            checkpoint: The checkpoint.
            metadata: Its metadata, without secrets.
            new_versions: The channels that changed.
            root: The checkpoint of the thread's own graph, if a sub-graph has made this one.
            user_id: Owner of the thread.
            counts: Whether to count the checkpoints of its namespace.

        Returns:
            How many there are; 0 if it was stored already, or if they are not counted.
        """
        name, given = checkpoint["id"], checkpoint["channel_values"]
        own, main = replace(at, checkpoint_id=name), self.transcript_channel
        self.seen.note(own, self.seen.sessions.get(at))  # its writes may be stored before it
        is_fork = isinstance(at.checkpoint_id, NamedId) or metadata.get("source") == "fork"
        if not is_plain(metadata):
            self.codec.checked(metadata, "The metadata")
        prepared = {
            channel: self._prepared(channel, value)
            for channel, value in given.items()
            if not new_versions or channel in new_versions
        }
        change: Change | None = None
        self.messages.index.make_ready()
        with self.database.writing(at) as connection:
            session = find_or_make(connection, thread_session(at.thread_id, at.ns), lock=True)
            self._refuse_deleted(connection, session, at, own, root)
            if session.user_id is None and user_id:
                session = find_or_make(connection, session.name, user_id)
            around = {**vars(own), "parent": at.checkpoint_id}
            rows = connection.execute(AROUND, around).all()
            there = {row.checkpoint_id: row for row in rows}
            head, is_new = max(there, default=None), name not in there
            if head and is_new and not is_fork and (not at.checkpoint_id or rows[0].has_child):
                self.on_conflict(
                    f"{replace(at, checkpoint_id=None)}: checkpoint {name!r} follows "
                    f"{at.checkpoint_id!r}, which another run has continued from; the head is "
                    f"{head!r}."
                )
            parent = self.stored(there[at.checkpoint_id]) if at.checkpoint_id in there else None
            now = moment_of(checkpoint.get("ts")) or datetime.now(UTC)
            writer = MessageWriter(self.messages, connection, session, now)
            channels = self._channels(connection, writer, session.id, checkpoint, prepared, parent)
            fields = {k: v for k, v in checkpoint.items() if k not in {"id", "channel_values"}}
            entries = {channel: list(value) for channel, value in channels.items()}
            run_id = metadata.get("run_id")
            row = {
                **vars(own),
                "parent_id": at.checkpoint_id,
                "session": session.id,
                "run_id": str(run_id) if run_id else None,
                "body": self.codec.pack([fields, metadata, entries]),
            }
            if is_new:
                connection.execute(insert(checkpoints), row)
            else:
                connection.execute(update(checkpoints).where(*is_at(own)).values(row))
            if main in channels and self.codec.is_plain and (head is None or name >= head):
                before = self.stored(there[head]) if head and head != at.checkpoint_id else parent
                was = before.channels.get(main) if before else None
                change = writer.follow(
                    *(was.numbers if was else [], channels[main].numbers),
                    is_branch=before is not parent,
                )
            pins = given.get(PINS_CHANNEL)
            if isinstance(pins, dict):
                session.is_pinned = int(any(pins.values()))
            session.note_activity(datetime.now(UTC), unless_within=_RECENT)
            save(connection, session)
            count = connection.execute(COUNT, vars(at)).scalar_one() if is_new and counts else 0
        self.seen.note(own, session.id)
        self.messages.index.tell(change or Change("added"))
        return count

    def _channels(
        self,
        connection: Connection,
        writer: MessageWriter,
        session: int,
        checkpoint: Mapping[str, Any],
        prepared: Mapping[str, _Prepared],
        parent: StoredCheckpoint | None,
    ) -> dict[str, Value]:
        """Store the new values of channels; return the values of all channels."""
        given = checkpoint["channel_values"]
        versions = checkpoint.get("channel_versions", {})
        before = parent.fields.get("channel_versions", {}) if parent else {}
        found: dict[str, Value] = {}
        for channel in [*versions, *(one for one in given if one not in versions)]:
            earlier = parent.channels.get(channel) if parent else None
            is_same = channel in versions and before.get(channel) == versions[channel]
            if channel not in prepared and is_same and earlier is not None:
                found[channel] = earlier
                continue
            if channel not in given:
                continue
            value = prepared.get(channel) or self._prepared(channel, given[channel])
            known, more, list_hash = self._compared(value.messages, earlier)
            is_main = channel == self.transcript_channel
            numbers = writer.store(more, is_main=is_main) if more else []
            refs = to_ranges(numbers, known)
            if value.packed is None:
                found[channel] = Value(refs, value.shape, list_hash=list_hash)
                continue
            digest = hashlib.blake2b(value.packed, digest_size=16).digest()
            row = {"session": session, "digest": digest, "value": value.packed}
            connection.execute(KEEP_VALUE, row)
            found[channel] = Value(refs, digest=digest, list_hash=list_hash)
        return found

    def _prepared(self, channel: str, value: Any) -> _Prepared:
        found: list[BaseMessage] = []
        try:
            shape = detach(value, found)
        except (MarkTakenError, RecursionError):
            shape, found = value, []
        if shape is None or (found and type(shape) is dict and shape.keys() == {MARK}):
            return _Prepared(shape, found, None)
        what = f"Channel {channel!r}"
        if not is_plain(shape):
            return _Prepared(shape, found, self.codec.checked(shape, what))
        packed = self.codec.pack(shape, what)
        return _Prepared(shape, found, packed if len(packed) > _SMALL else None)

    def _compared(
        self, found: Sequence[BaseMessage], before: Value | None
    ) -> tuple[list[list[int]], list[BaseMessage], bytes | None]:
        """Compare a list of messages with the previous one, so that a put looks at its tail only.

        Returns:
            The number ranges of the previous list if this one continues it; copies of the other
            messages, so that no one can change them while they are stored; and the hash of the
            whole list.
        """
        size = len(before.numbers) if before and before.list_hash else 0
        list_hash = self.codec.hash(found[:size]) if 0 < size <= len(found) else None
        continues = (
            before is not None and list_hash is not None and list_hash.digest() == before.list_hash
        )
        if not continues:
            size, list_hash = 0, None
        more = [self.codec.copied(message) for message in found[size:]]
        if more:
            list_hash = self.codec.hash(more, list_hash)
        return before.refs if before and continues else [], more, list_hash and list_hash.digest()

    def _refuse_deleted(
        self, connection: Connection, session: Session, at: Address, own: Address, root: str | None
    ) -> None:
        """Raise if the thread was deleted after `at`, or, where that is unknown, after `root`."""
        followed, number = at, session.id
        if root and at not in self.seen.sessions:
            followed = Address(at.thread_id, "", root)
            outer = find_session(connection, thread_session(at.thread_id, ""))
            number = outer.id if outer is not None else 0
        known = self.seen.sessions.get(followed, number)
        if known != number:
            self.seen.note(own, known)  # what follows this step is refused, too
            raise ThreadConflictError(
                f"{followed} was deleted with its thread. The step that follows it was not stored; "
                f"a new run without checkpoint_id begins without the deleted messages."
            )

    def put_writes(
        self,
        at: Address,
        given: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
        *,
        root: str | None = None,
    ) -> None:
        """Store pending writes of a checkpoint; earlier writes of a task are kept."""
        prepared = [(channel, self._prepared(channel, value)) for channel, value in given]
        now = datetime.now(UTC)
        with self.database.writing(at) as connection:
            session = find_or_make(connection, thread_session(at.thread_id, at.ns), lock=True)
            self._refuse_deleted(connection, session, at, at, root)
            writer = MessageWriter(self.messages, connection, session, now)
            kept: list[dict[str, Any]] = []
            replacing: list[dict[str, Any]] = []
            for place, (channel, value) in enumerate(prepared):
                idx = WRITES_IDX_MAP.get(channel, place)
                copies = [self.codec.copied(message) for message in value.messages]
                numbers = writer.store(copies, is_main=False) if copies else []
                body = [task_path, channel, to_ranges(numbers), value.shape]
                row = {
                    **vars(at),
                    "task_id": task_id,
                    "idx": idx,
                    "written_at": round(now.timestamp()),
                    "session": session.id,
                    "value": self.codec.pack(body),
                }
                # A new error or interrupt replaces the old one; other writes never change.
                (replacing if idx < 0 else kept).append(row)
            for statement, rows in ((KEEP_WRITE, kept), (REPLACE_WRITE, replacing)):
                if rows:
                    connection.execute(statement, rows)
            session.note_activity(datetime.now(UTC), unless_within=_RECENT)
            save(connection, session)

    # --- reading

    def get(self, at: Address) -> CheckpointTuple | None:
        """Return a checkpoint; without an id, the head of its namespace."""
        with self.database.reading(at) as connection:
            found, is_named = self.find(connection, at), at.checkpoint_id is not None
            if found is not None:
                self.seen.note(found.address, found.session)
            return None if found is None else self.loaded(connection, found, is_named=is_named)

    def listed(
        self,
        thread_id: str | None,
        ns: str | None,
        *,
        checkpoint_id: str | None,
        before: str | None,
        metadata: Mapping[str, Any],
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first.

        Args:
            thread_id: The thread; None for all.
            ns: The namespace; None for all.
            checkpoint_id: Only the checkpoint with this id.
            before: Only checkpoints with smaller ids.
            metadata: Values that their metadata must have; a dotted key that is not one of its keys
                is a path into it.

        Raises:
            CorruptStoreError: When something is damaged or missing.
        """
        names = {"thread_id": thread_id, "ns": ns, "checkpoint_id": checkpoint_id}
        own = [checkpoints.c[key] == name for key, name in names.items() if name is not None]
        if before is not None:
            own.append(checkpoints.c.checkpoint_id < before)
        place = (checkpoints.c.checkpoint_id, checkpoints.c.thread_id, checkpoints.c.ns)
        query = select(checkpoints).where(*own).order_by(*(column.desc() for column in place))
        page, size = query, 1  # who wants only the newest reads no more
        while True:
            with self.database.reading("A list of checkpoints") as connection:
                rows = connection.execute(page.limit(size)).all()
                stored = map(self.stored, rows)
                found = [
                    self.loaded(connection, one)
                    for one in stored
                    if all(has_entry(one.metadata, key, value) for key, value in metadata.items())
                ]
            yield from found
            if len(rows) < size:
                return
            last = (rows[-1].checkpoint_id, rows[-1].thread_id, rows[-1].ns)
            page = query.where(tuple_(*place) < last)
            size = min(2 * size, _PAGE)

    def delta_history(self, at: Address, channels: Sequence[str]) -> dict[str, DeltaChannelHistory]:
        """Return the writes to channels since they were last stored whole, along one branch.

        Args:
            at: The checkpoint; its ancestors are searched, from its parent on.
            channels: The channels.

        Returns:
            For each channel the writes, oldest first, and the value they build upon, if any.
        """
        found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        remaining = set(channels)
        with self.database.reading(at) as connection:
            one = self.find(connection, at)
            visited = {one.id} if one else set()
            # A checkpoint may have been stored again under its own descendant.
            while one and one.parent and one.parent not in visited and remaining:
                visited.add(one.parent)
                one = self.find(connection, replace(at, checkpoint_id=one.parent))
                if one is None:
                    break
                loaded = self.loaded(connection, one, among=remaining)
                for write in reversed(loaded.pending_writes or ()):
                    found[write[1]]["writes"].append(write)
                for channel, value in loaded.checkpoint["channel_values"].items():
                    found[channel]["seed"] = value
                    remaining.discard(channel)
        for history in found.values():
            history["writes"].reverse()
        return found

    def find(self, connection: Connection, at: Address) -> StoredCheckpoint | None:
        """Return a checkpoint as stored, the newest if no id is named, or None if there is none."""
        query = NEWEST if at.checkpoint_id is None else OWN
        row = connection.execute(query, vars(at)).first()
        return None if row is None else self.stored(row)

    def stored(self, row: Any) -> StoredCheckpoint:
        """Return the checkpoint of a row."""
        at = Address(row.thread_id, row.ns, row.checkpoint_id)
        with errors_about(at):
            fields, metadata, entries = self.codec.unpack(row.body)
            channels = {name: Value(*entry) for name, entry in entries.items()}
        return StoredCheckpoint(at, row.parent_id, row.session, fields, metadata, channels)

    def loaded(
        self,
        connection: Connection,
        one: StoredCheckpoint,
        among: Collection[str] | None = None,
        *,
        is_named: bool = True,
    ) -> CheckpointTuple:
        """Return a checkpoint with the values and pending writes of all or some of its channels.

        Its config has a `NamedId`, unless it is the head and no id was named.
        """
        with errors_about(one.address):
            held = {
                name: self._value(connection, one.session, value, f"channel {name!r}")
                for name, value in one.channels.items()
                if among is None or name in among
            }
            pending = []
            for row in connection.execute(WRITES, vars(one.address)):
                path, channel, refs, shape = self.codec.unpack(row.value)
                if among is not None and channel not in among:
                    continue
                what = f"a pending write of {channel!r}"
                value = self._value(connection, row.session, Value(refs, shape), what)
                pending.append(((path, row.task_id, row.idx), (row.task_id, channel, value)))
        pending.sort(key=lambda pair: pair[0])
        parent = replace(one.address, checkpoint_id=one.parent)
        whole: Any = {**one.fields, "id": one.id, "channel_values": held}  # as it was put
        return CheckpointTuple(
            one.address.config(is_named=is_named),
            whole,
            one.metadata,
            parent.config(is_named=True) if one.parent else None,
            [write for _, write in pending],
        )

    def _value(self, connection: Connection, session: int, value: Value, what: str) -> Any:
        shape = value.shape
        try:
            if value.digest is not None:
                own = {"of": session, "digest": value.digest}
                packed = connection.execute(VALUE, own).scalar()
                if packed is None:
                    raise CorruptStoreError("the value is missing")  # noqa: TRY301
                shape = self.codec.unpack(packed)
            return attach(shape, self.messages.read(connection, session, value.numbers))
        except CorruptStoreError as error:
            raise CorruptStoreError(f"{what}: {error}") from error
